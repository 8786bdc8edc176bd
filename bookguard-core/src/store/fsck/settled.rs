//! How a delivery ended, in the ledger and in the tables: the one says what the other does.
//!
//! The leaf holds the SHA-256 of what was sent and what came of the last attempt, so a row of a delivery that is over, its last
//! attempt and the event's body, or what is left of it, are attested by it.

use sha2::{Digest as _, Sha256};

use super::Notes;
use super::event::CheckedEvent;
use crate::engine::change::{Content, DeliveryPhase, DeliveryState};
use crate::evidence::Notification;
use crate::evidence::facts::Logged;
use crate::webhook::Attempt;

/// Compares a delivery with what the ledger says of it; `own` is that, each with the place of its entry.
pub(super) fn compare(
    event: &CheckedEvent,
    state: &DeliveryState,
    attempts: &[Attempt],
    own: &[&Logged<Notification>],
    notes: &mut Notes<'_>,
) {
    let last = own.last().map(|last| last.place.index);
    if state.settled_leaf != last {
        let word = |leaf: Option<u64>| leaf.map_or_else(|| "none".to_owned(), |n| n.to_string());
        notes.fault(format!(
            "row says that entry {} tells how it ended, the ledger says {}",
            word(state.settled_leaf),
            word(last)
        ));
    }
    for Logged { place, fact } in own {
        if let Some(why) = differs(event, state, attempts, fact) {
            let index = place.index;
            notes.fault(format!("entry {index} says how it ended: {why}"));
        }
    }
    let accepted = own.last().is_some_and(|last| last.fact.delivered());
    if accepted != (state.phase == DeliveryPhase::Delivered) {
        notes.fault(format!(
            "row says {:?}, the ledger says that it was {}",
            state.phase,
            if accepted { "accepted" } else { "not accepted" }
        ));
    }
}

/// What of one record is not so in the tables.
fn differs(
    event: &CheckedEvent,
    state: &DeliveryState,
    attempts: &[Attempt],
    said: &Notification,
) -> Option<String> {
    if (said.event_type, said.seq) != (event.event_type, event.seq) {
        return Some(format!(
            "event {} is {}, row says event {}, {}",
            said.seq,
            said.event_type.word(),
            event.seq,
            event.event_type.word()
        ));
    }
    let digest = match &event.content {
        Content::Whole(body) => hex::encode(Sha256::digest(body)),
        Content::Pruned(pruned) => hex::encode(pruned.digest),
    };
    if said.body_sha256 != digest {
        let sent = &said.body_sha256;
        return Some(format!(
            "a body with the SHA-256 {sent} was sent, the event's has {digest}"
        ));
    }
    if state.attempts < said.attempts || (said.delivered() && state.attempts != said.attempts) {
        return Some(format!(
            "{} attempts were made, row says {}",
            said.attempts, state.attempts
        ));
    }
    // What was attempted went with the body.
    event.content.body()?;
    let number = said.attempts as usize;
    match number.checked_sub(1).and_then(|place| attempts.get(place)) {
        None => Some(format!("attempt {number} is not there")),
        Some(attempt) if !said.tells_of(attempt) => {
            Some(format!("attempt {number} has another outcome"))
        }
        Some(_) => None,
    }
}
