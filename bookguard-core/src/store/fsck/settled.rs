//! How a delivery ended, in the ledger and in the tables: the one says what the other does.
//!
//! The leaf holds the SHA-256 of what was sent and what came of the last attempt, so a row of a delivery that is over, its last
//! attempt and the event's body, or what is left of it, are attested by it.

use serde_json::{Map, Value};

use super::Notes;
use super::event::CheckedEvent;
use crate::engine::change::{Content, DeliveryPhase, DeliveryState};
use crate::evidence::facts::Logged;
use crate::evidence::notification::{Notification, Sent};
use crate::ledger::jcs::differences;
use crate::webhook::Attempt;

/// A delivery as its last fact has it: what that says, in place of what is stored of it.
pub(super) fn state(stored: DeliveryState, last: Option<&Logged<Notification>>) -> DeliveryState {
    let settled_leaf = last.map(|last| last.place.index);
    let said = last.map_or(0, |last| last.fact.attempts);
    match last.is_some_and(|last| last.fact.delivered()) {
        true => DeliveryState {
            phase: DeliveryPhase::Delivered,
            attempts: said,
            due: None,
            lease: None,
            since: None,
            settled_leaf,
            ..stored
        },
        // One that was given up may have been tried again.
        false => DeliveryState {
            phase: match stored.phase {
                DeliveryPhase::Delivered => DeliveryPhase::Failed,
                other => other,
            },
            attempts: stored.attempts.max(said),
            settled_leaf,
            ..stored
        },
    }
}

/// Compares what the entries say of the event and of the attempts at one delivery of it with those that are stored.
pub(super) fn compare(
    event: &CheckedEvent,
    attempts: &[Attempt],
    own: &[&Logged<Notification>],
    notes: &mut Notes<'_>,
) {
    for Logged { place, fact } in own {
        let index = place.index;
        match stored(event, attempts, fact) {
            Err(why) => notes.fault(format!("entry {index} says how it ended: {why}")),
            Ok(stored) if stored == *fact => {}
            Ok(stored) => {
                for (member, row, ledger) in differing(fact, &stored) {
                    notes.fault(format!(
                        "entry {index} says how it ended: rows say {member} {row}, ledger says {ledger}"
                    ));
                }
            }
        }
    }
}

/// What the rows have to say where an entry says this.
fn stored(
    event: &CheckedEvent,
    attempts: &[Attempt],
    said: &Notification,
) -> Result<Notification, String> {
    let body = match &event.content {
        Content::Whole(body) => body,
        // What was attempted went with the body.
        Content::Pruned(pruned) => {
            return Ok(Notification {
                event_type: event.event_type,
                seq: event.seq,
                body_sha256: hex::encode(pruned.digest),
                ..said.clone()
            });
        }
    };
    let number = said.attempts;
    let attempt = (number as usize)
        .checked_sub(1)
        .and_then(|at| attempts.get(at));
    let attempt = attempt.ok_or_else(|| format!("attempt {number} is not there"))?;
    let sent = Sent {
        event_id: event.event_id,
        event_type: event.event_type,
        seq: event.seq,
        body,
    };
    let stored = Notification::of(&sent, said.endpoint_id, attempt, number, said.settled_at);
    Ok(stored)
}

/// The members in which they differ, as the rows have them and as the ledger has them.
fn differing(said: &Notification, stored: &Notification) -> Vec<(String, Value, Value)> {
    let members = |one: &Notification| match serde_json::to_value(one) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    differences(members(said), members(stored))
}
