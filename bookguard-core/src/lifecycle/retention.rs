//! Old events lose their bodies and attempts; that they happened, and where their deliveries stand, stays.
//!
//! Which events are old is found by whoever looks (`ops::retention`); each is judged here as it stands now. Invariant: what
//! may still be sent is never pruned, so nothing of a pruned event is due.

use sha2::{Digest as _, Sha256};

use super::Decided;
use crate::change::{Change, Content, DeliveryState, Pruned};
use crate::command::{Prune, Reply};
use crate::limits;
use crate::model::{EventId, Timestamp};
use crate::work::{EventState, Work};

pub(super) fn prune(work: &Work, at: Timestamp, prune: &Prune) -> Decided {
    let before = prune.before.min(at.plus_ms(-limits::RETENTION_MS));
    let mut to = prune.to;
    let mut changes = Vec::new();
    let mut pruned = 0;
    for event_id in &prune.events {
        let Some(event) = work.events.get(event_id) else {
            continue;
        };
        let Content::Whole(body) = &event.content else {
            continue;
        };
        let given_up = given_up(work, event_id, event);
        let Some(given_up) = given_up.filter(|_| event_id.made_at() < before) else {
            // Retried by hand, or recovered, since it was looked at.
            to.waiting = Some(to.waiting.map_or(*event_id, |other| other.min(*event_id)));
            continue;
        };
        changes.extend(given_up);
        changes.push(Change::EventPruned {
            event_id: *event_id,
            pruned: Pruned {
                at,
                digest: Sha256::digest(body).into(),
            },
        });
        pruned += 1;
    }
    let found = work.sweep.unwrap_or_default();
    changes.extend((found == prune.from && to != found).then_some(Change::Swept(to)));
    Ok((changes, Reply::Pruned(pruned)))
}

/// What of the event waits for endpoints that are deleted, over from now on; `None` when anything of it may still be sent.
fn given_up(work: &Work, event_id: &EventId, event: &EventState) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    for endpoint_id in &event.endpoints {
        let Some(state) = work.deliveries.get(&(*event_id, *endpoint_id)) else {
            continue;
        };
        if state.due.is_none() {
            continue;
        }
        if !work.deleted.contains(endpoint_id) {
            return None;
        }
        changes.push(Change::DeliveryMoved {
            event_id: *event_id,
            endpoint_id: *endpoint_id,
            state: DeliveryState {
                due: None,
                since: None,
                lease: None,
                ..*state
            },
        });
    }
    Some(changes)
}
