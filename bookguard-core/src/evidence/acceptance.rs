//! An acceptance of a booking's terms as the ledger records it: the members of `terms.accepted`, and their verification.
//!
//! It names the text by its hash; the text itself is made anew from the terms, and each acceptance is held to the terms that were
//! in force when it was recorded, in the wording that it names. The network address and the program may be personal data.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::packet::Packet;
use super::state::BookingState;
use super::verify::Outcome;
use crate::ledger::LeafKind;
use crate::model::{BookingId, Timestamp};
use crate::policy::{Actor, DisclosureWording, Terms, TermsDisclosure, disclose_in};

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

/// The texts of the terms in a packet, in their order: how often the event had been moved before the terms, and the version in which
/// they were accepted, each once. Terms that nobody accepted have one text, in any wording: no version.
///
/// `accepted` holds the same of each acceptance; `moves` is how often the event was moved in all.
fn texts<'a>(
    moves: usize,
    accepted: impl Iterator<Item = (usize, &'a str)>,
) -> Vec<(usize, Option<&'a str>)> {
    let accepted: BTreeSet<(usize, &str)> = accepted.collect();
    let mut texts = Vec::with_capacity(moves + 1);
    for moved in 0..=moves {
        let versions = accepted.range((moved, "")..(moved + 1, ""));
        let before = texts.len();
        texts.extend(versions.map(|(moved, version)| (*moved, Some(*version))));
        if texts.len() == before {
            texts.push((moved, None));
        }
    }
    texts
}

impl BookingState {
    /// The texts of its terms that a packet shows: how often the event had been moved before the terms, and the version of the wording;
    /// none if the terms were not accepted, so that any will do.
    pub(crate) fn texts(&self) -> Vec<(usize, Option<&str>)> {
        let accepted = self.acceptances.iter().map(|logged| {
            let version = logged.fact.disclosure_version.as_str();
            (self.moves_before(&logged.place), version)
        });
        texts(self.reschedules.len(), accepted)
    }
}

impl Packet {
    /// For each of the texts of the terms, how often the event had been moved before these terms.
    #[must_use]
    pub fn moves_before_texts(&self) -> Vec<usize> {
        let (mut moves, mut accepted) = (0, Vec::new());
        let mut acceptances = self.acceptances.iter();
        for entry in &self.entries {
            if entry.body.kind == LeafKind::BookingRescheduled.as_str() {
                moves += 1;
            } else if entry.body.kind == LeafKind::TermsAccepted.as_str() {
                let acceptance = acceptances.next();
                accepted.extend(acceptance.map(|one| (moves, one.disclosure_version.as_str())));
            }
        }
        let texts = texts(moves, accepted.into_iter());
        texts.into_iter().map(|(moves, _)| moves).collect()
    }
}

/// Checks that every text shown follows from the terms, and that every acceptance shown is recorded and names the right
/// text. `terms_versions` are the terms before each change of date, then the ones in force.
pub(super) fn check(packet: &Packet, state: &BookingState, terms_versions: &[Terms]) -> Outcome {
    let texts = state.texts();
    let mut told: Vec<TermsDisclosure> = Vec::with_capacity(texts.len());
    for (at, (moves, accepted)) in texts.iter().enumerate() {
        let shown = packet.terms_disclosures.get(at);
        let version = accepted.or(shown.map(|text| text.version.as_str()));
        let (Some(version), Some(terms)) = (version, terms_versions.get(*moves)) else {
            return Err("The packet does not show a text for all of the terms.".to_owned());
        };
        let wording = DisclosureWording::of(version).ok_or_else(|| {
            format!(
                "A text of the terms is worded as {}, which this version of Bookguard does not know.",
                crate::input::shorten(version)
            )
        })?;
        let text = disclose_in(wording, terms, &state.moves[..*moves]);
        told.push(text.map_err(|e| format!("The terms cannot be put into words: {}", e.message))?);
    }
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
        let moves = state.moves_before(&accepted.place);
        let own = (moves, Some(acceptance.disclosure_version.as_str()));
        let mut texts = texts.iter().zip(&told);
        let text = texts.find(|(text, _)| **text == own);
        if text.map(|(_, text)| &text.disclosure_hash) != Some(&acceptance.disclosure_hash) {
            return Err(format!(
                "What {} accepted, recorded {}, is not the text of the terms in force then.",
                acceptance.party, acceptance.accepted_at
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
        (n, texts) => format!(
            "{n} recorded: each is of exactly the text that was in force then, one of the {texts} shown, which were made anew from the \
             frozen terms."
        ),
    })
}
