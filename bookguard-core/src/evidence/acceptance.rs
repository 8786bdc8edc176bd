//! An acceptance of a booking's terms as the ledger records it: the members of `terms.accepted`, and their verification.
//!
//! It names the text by its hash; the text itself is made anew from the terms, and each acceptance is held to the text that was
//! in force when it was recorded. The network address and the program may be personal data.

use serde::{Deserialize, Serialize};

use super::packet::Packet;
use super::state::BookingState;
use super::verify::Outcome;
use crate::model::{BookingId, Timestamp};
use crate::policy::{Actor, DISCLOSURE_VERSION, Terms, TermsDisclosure, disclose};

/// A party's acceptance of the terms exactly as they were disclosed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Acceptance {
    /// The booking.
    pub booking_id: BookingId,
    /// When the acceptance was received.
    pub accepted_at: Timestamp,
    /// Who accepted: organizer, talent or partner.
    pub party: Actor,
    /// How, in the partner's words, such as `checkbox`.
    pub method: String,
    /// When the party accepted, according to the partner.
    pub at: Timestamp,
    /// The network address it came from; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// The program used; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The hash of the text that was accepted.
    pub disclosure_hash: String,
    /// The version of that text's wording.
    pub disclosure_version: String,
}

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
            "No entry in the packet is an acceptance; the terms in words are the text made anew from the terms."
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
