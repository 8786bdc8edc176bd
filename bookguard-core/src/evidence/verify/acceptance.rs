//! Checks what was disclosed and accepted: the texts are recomputed from the terms, and each acceptance is compared with
//! the text that was in force when it was recorded.

use super::super::packet::Packet;
use super::super::state::BookingState;
use super::Outcome;
use crate::policy::{DISCLOSURE_VERSION, Terms, TermsDisclosure, disclose};

/// Checks that every text shown follows from the terms, and that every acceptance shown is recorded and names the right
/// text. `terms_versions` are the terms before each change of date, then the ones in force.
pub(super) fn check(packet: &Packet, state: &BookingState, terms_versions: &[Terms]) -> Outcome {
    let told = terms_versions.iter().enumerate();
    let told: Result<Vec<TermsDisclosure>, String> = told
        .map(|(moves, terms)| {
            let disclosure = disclose(terms, &state.moves[..moves]);
            disclosure.map_err(|e| format!("The terms cannot be put into words: {}", e.message))
        })
        .collect();
    let told = told?;
    if told != packet.terms_disclosures {
        return Err(
            "A text shown as disclosed is not the text made anew from the frozen terms, or its hash differs."
                .to_owned(),
        );
    }
    if !(state.acceptances.iter().map(|logged| &logged.fact)).eq(&packet.acceptances) {
        return Err("The acceptances shown are not the ones recorded.".to_owned());
    }
    for accepted in &state.acceptances {
        let acceptance = &accepted.fact;
        let (who, at) = (acceptance.party, acceptance.accepted_at);
        if acceptance.disclosure_version != DISCLOSURE_VERSION {
            return Err(format!(
                "What {who} accepted, recorded {at}, is worded as {}, which this version of Bookguard does not know.",
                crate::input::shorten(&acceptance.disclosure_version)
            ));
        }
        let text = told.get(state.moves_before(&accepted.place));
        if text.map(|text| &text.disclosure_hash) != Some(&acceptance.disclosure_hash) {
            return Err(format!(
                "What {who} accepted, recorded {at}, is not the text of the terms in force then."
            ));
        }
    }
    Ok(match (packet.acceptances.len(), told.len()) {
        (0, _) => {
            "No record in the packet is an acceptance; the terms in words are the text made anew from the terms."
                .to_owned()
        }
        (n, 1) => format!(
            "{n} recorded: each is of exactly the text shown, which was made anew from the frozen terms."
        ),
        (n, terms_versions) => format!(
            "{n} recorded: each is of exactly the text that was in force then, one of the {terms_versions} shown, which were made anew from \
             the frozen terms."
        ),
    })
}
