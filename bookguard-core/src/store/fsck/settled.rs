//! Checks how a delivery ended: the ledger and the tables must agree.
//!
//! The leaf holds the SHA-256 of what was sent and the outcome of the last attempt. So it attests the row of a finished
//! delivery, its last attempt, and the event's body or what is left of it.

use serde_json::{Map, Value};

use super::Notes;
use super::event::CheckedEvent;
use crate::engine::change::{Content, DeliveryPhase, DeliveryState};
use crate::evidence::facts::Logged;
use crate::evidence::notification::{Notification, Sent};
use crate::ledger::jcs::differences;
use crate::model::RecordedEventType;
use crate::webhook::Attempt;

/// The stored delivery, with the values that its last fact records put in place of the stored ones.
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
        // A delivery that was given up may have been tried again.
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

/// Compares what the entries record of the event and its attempts at one delivery with what is stored.
pub(super) fn compare(
    event: &CheckedEvent,
    attempts: &[Attempt],
    own: &[&Logged<Notification>],
    notes: &mut Notes<'_>,
) {
    for Logged { place, fact } in own {
        let index = place.index;
        let Some(event_type) = event.event_type.recorded() else {
            let word = event.event_type.word();
            notes.fault(format!(
                "entry {index} says how it ended, but the ledger does not record deliveries of {word}"
            ));
            continue;
        };
        match stored((event, event_type), attempts, fact) {
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

/// The notification that the rows give for the attempt that an entry records.
fn stored(
    (event, event_type): (&CheckedEvent, RecordedEventType),
    attempts: &[Attempt],
    said: &Notification,
) -> Result<Notification, String> {
    let body = match &event.content {
        Content::Whole(body) => body,
        // The attempts were pruned with the body.
        Content::Pruned(pruned) => {
            return Ok(Notification {
                event_type,
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
        event_type,
        seq: event.seq,
        body,
    };
    let stored = Notification::of(&sent, said.endpoint_id, attempt, number, said.settled_at);
    Ok(stored)
}

/// The members that differ, with the rows' values and the ledger's.
fn differing(said: &Notification, stored: &Notification) -> Vec<(String, Value, Value)> {
    let members = |one: &Notification| match serde_json::to_value(one) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    differences(members(said), members(stored))
}
