//! Prunes old events: their bodies and attempts go, the events and the states of their deliveries stay.
//!
//! `features::retention` finds the old events; each is judged here as it is now. Invariant: what may still be sent is never
//! pruned, so a pruned event has no due delivery.

use crate::engine::batch::{BatchState, EventState};
use crate::engine::change::{Change, Content, Pruned};
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::features::retention::PruneEvents;
use crate::limits;
use crate::model::{EventId, Timestamp};

impl Command for PruneEvents {
    type Reply = u64;

    fn needs(&self, needs: &mut Needs) {
        needs.events.extend(&self.events);
        needs.deliveries.extend(&self.events);
        needs.deleted.extend(&self.events);
        needs.sweep = true;
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<u64> {
        let before = self.before.min(at.plus_ms(-limits::RETENTION_MS));
        let mut to = self.to;
        let mut changes = Vec::new();
        let mut pruned = 0;
        for event_id in &self.events {
            let Some(event) = batch.events.get(event_id) else {
                continue;
            };
            let Content::Whole(body) = &event.content else {
                continue;
            };
            let given_up = given_up(batch, event_id, event);
            let is_held = batch.held_events.contains(event_id) || is_held_since(batch, event);
            let Some(given_up) = given_up.filter(|_| event_id.made_at() < before && !is_held)
            else {
                // Retried by hand, recovered or put under a hold since the look.
                to.waiting = Some(to.waiting.map_or(*event_id, |other| other.min(*event_id)));
                continue;
            };
            changes.extend(given_up);
            changes.push(Change::EventPruned(*event_id, Pruned::of(body, at)));
            pruned += 1;
        }
        let found = batch.sweep.unwrap_or_default();
        changes.extend((found == self.from && to != found).then_some(Change::Swept(to)));
        Ok((changes, pruned))
    }
}

/// Whether this batch placed a hold on the event's booking. Then `held_events`, which was loaded before, does not name the event.
fn is_held_since(batch: &BatchState, event: &EventState) -> bool {
    let mut holds = batch.holds.values().map(|stored| &stored.hold);
    holds.any(|hold| hold.is_active() && event.booking_id == Some(hold.booking_id))
}

/// Ends the event's deliveries that wait for deleted endpoints; `None` if any other delivery of it may still be sent.
fn given_up(batch: &BatchState, event_id: &EventId, event: &EventState) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    for endpoint_id in &event.endpoints {
        let name = (*event_id, *endpoint_id);
        let state = batch.deliveries.get(&name);
        let Some(state) = state.filter(|state| state.due.is_some()) else {
            continue;
        };
        if !batch.deleted.contains(endpoint_id) {
            return None;
        }
        changes.push(Change::DeliveryUpdated(name, state.over()));
    }
    Some(changes)
}

#[cfg(test)]
mod tests;
