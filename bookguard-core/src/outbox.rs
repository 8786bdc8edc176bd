//! What the writer hands to the courier in memory, right after the commit that made it.
//!
//! Bounded per endpoint: what finds no room stays in the store, due at once, and is claimed when there is. So a
//! dead receiver fills its own share and nobody else's; and of a slow one no more is held than it takes before the
//! leases end.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::command::Parcel;
use crate::limits::{CLAIMED_PER_ENDPOINT, QUEUED_PER_ENDPOINT};
use crate::model::EndpointId;

/// The writer's end.
#[derive(Debug)]
pub struct Outbox {
    parcels: mpsc::UnboundedSender<Vec<Parcel>>,
    held: Mutex<HashMap<EndpointId, Held>>,
}

/// What the courier holds for one endpoint, and the most it wants to.
#[derive(Debug)]
struct Held {
    count: usize,
    most: usize,
}

/// How many deliveries a claim should find room for, where so many are held at most: fewer, larger claims.
#[must_use]
pub fn whole_claim(most: usize) -> usize {
    CLAIMED_PER_ENDPOINT.min(most / 2).max(1)
}

impl Outbox {
    /// An outbox and the courier's end of it.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Vec<Parcel>>) {
        let (parcels, received) = mpsc::unbounded_channel();
        (
            Self {
                parcels,
                held: Mutex::default(),
            },
            received,
        )
    }

    /// How many more deliveries to this endpoint the courier takes.
    pub fn room(&self, endpoint_id: &EndpointId) -> usize {
        self.of(endpoint_id).1
    }

    /// How many deliveries to this endpoint a claim may take: none until there is room for a whole one.
    pub fn claimable(&self, endpoint_id: &EndpointId) -> usize {
        let (most, room) = self.of(endpoint_id);
        if room < whole_claim(most) {
            return 0;
        }
        room.min(CLAIMED_PER_ENDPOINT)
    }

    /// The courier wants to hold no more than this many to an endpoint, for as long as it holds any.
    pub fn set_most(&self, endpoint_id: &EndpointId, most: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.get_mut(endpoint_id) {
            held.most = most;
        }
    }

    /// The most that may be held, and the room that is left.
    fn of(&self, endpoint_id: &EndpointId) -> (usize, usize) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(endpoint_id)
            .map_or((QUEUED_PER_ENDPOINT, QUEUED_PER_ENDPOINT), |held| {
                (held.most, held.most.saturating_sub(held.count))
            })
    }

    /// How many more deliveries to this endpoint may be born in the courier's hands.
    ///
    /// Less than [`Self::room`] by one claim: where events come faster than the endpoint takes them, the new ones
    /// would else fill every place that becomes free, and those that wait in the store would wait for ever.
    pub(crate) fn room_at_birth(&self, endpoint_id: &EndpointId) -> usize {
        self.room(endpoint_id).saturating_sub(CLAIMED_PER_ENDPOINT)
    }

    /// Hands over; a courier that is gone leaves them to their leases' end.
    pub(crate) fn hand_over(&self, parcels: Vec<Parcel>) {
        if parcels.is_empty() {
            return;
        }
        {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            for parcel in &parcels {
                let held = held.entry(parcel.endpoint_id).or_insert(Held {
                    count: 0,
                    most: QUEUED_PER_ENDPOINT,
                });
                held.count += 1;
            }
        }
        let _ = self.parcels.send(parcels);
    }

    /// The courier is done with one delivery to this endpoint.
    pub fn release(&self, endpoint_id: &EndpointId) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = held.get_mut(endpoint_id) {
            of.count = of.count.saturating_sub(1);
            if of.count == 0 {
                held.remove(endpoint_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::QUEUED_PER_SLOW_ENDPOINT;
    use crate::model::{EventId, PartnerId, Timestamp};

    fn parcel() -> Parcel {
        Parcel {
            event_id: EventId::from_bytes([1; 16]),
            partner_id: PartnerId::from_bytes([2; 16]),
            endpoint_id: EndpointId::from_bytes([3; 16]),
            body: b"{}".as_slice().into(),
            lease: 1,
            until: Timestamp::from_ms(60_000),
            attempts: 0,
            per_second: None,
        }
    }

    #[test]
    fn claims_wait_for_room_that_is_worth_one_and_a_slow_endpoint_has_little() {
        let (outbox, _courier) = Outbox::new();
        let id = parcel().endpoint_id;
        outbox.set_most(&id, QUEUED_PER_SLOW_ENDPOINT);
        assert_eq!(
            outbox.room(&id),
            QUEUED_PER_ENDPOINT,
            "nothing is held, so nothing is known"
        );
        assert_eq!(outbox.claimable(&id), CLAIMED_PER_ENDPOINT);
        outbox.hand_over(vec![
            parcel();
            QUEUED_PER_ENDPOINT - CLAIMED_PER_ENDPOINT + 1
        ]);
        assert_eq!(outbox.claimable(&id), 0);
        outbox.release(&id);
        assert_eq!(outbox.claimable(&id), CLAIMED_PER_ENDPOINT);
        assert_eq!(outbox.room_at_birth(&id), 0);

        outbox.set_most(&id, QUEUED_PER_SLOW_ENDPOINT);
        assert_eq!((outbox.room(&id), outbox.claimable(&id)), (0, 0));
        for _ in 0..QUEUED_PER_ENDPOINT - CLAIMED_PER_ENDPOINT - QUEUED_PER_SLOW_ENDPOINT / 2 {
            outbox.release(&id);
        }
        assert_eq!(outbox.claimable(&id), QUEUED_PER_SLOW_ENDPOINT / 2);
        assert_eq!(outbox.room_at_birth(&id), 0, "events wait in the store");
    }
}
