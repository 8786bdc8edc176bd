//! What the writer hands to the courier in memory, right after the commit that made it, and what the courier hands back.
//!
//! Bounded per endpoint: what finds no room stays in the store, due at once, and is claimed when there is. So a
//! dead receiver fills its own share and nobody else's; and of a slow one no more is held than it takes before the
//! leases end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::command::{Ask, Command, Parcel};
use crate::entropy;
use crate::error::Error;
use crate::evidence::facts::{self, Fact};
use crate::evidence::notification::{Notification, Sent};
use crate::ledger::LeafKind;
use crate::limits::{CLAIMED_PER_ENDPOINT, QUEUED_PER_ENDPOINT};
use crate::model::{EndpointId, Timestamp};
use crate::webhook::Attempt;

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

/// The command that records what came of one attempt at a delivery, received at `at`; with all prepared that does not depend on
/// its batch.
///
/// Errors: `internal`, for a value that nothing can commit to.
pub fn settle(parcel: &Parcel, attempt: Attempt, at: Timestamp) -> Result<Command, Error> {
    let sent = Sent {
        event_id: parcel.event_id,
        event_type: parcel.event_type,
        seq: parcel.seq,
        body: &parcel.body,
    };
    let number = parcel.attempts + 1;
    let notification = Notification::of(&sent, parcel.endpoint_id, &attempt, number, at);
    let fields = facts::settled(parcel.booking_id, &notification);
    let fact = Fact::seal(LeafKind::WebhookSettled, fields, entropy::bytes)?;
    Ok(Command {
        at,
        ask: Ask::Settle {
            event_id: parcel.event_id,
            endpoint_id: parcel.endpoint_id,
            lease: parcel.lease,
            number,
            attempt: Box::new(attempt),
            jitter: entropy::number(),
            booking_id: parcel.booking_id,
            fact: Arc::new(fact),
        },
        remember: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::QUEUED_PER_SLOW_ENDPOINT;
    use crate::model::{BookingId, EventId, EventType, PartnerId};

    fn parcel() -> Parcel {
        Parcel {
            event_id: EventId::from_bytes([1; 16]),
            partner_id: PartnerId::from_bytes([2; 16]),
            endpoint_id: EndpointId::from_bytes([3; 16]),
            booking_id: BookingId::from_bytes([4; 16]),
            event_type: EventType::BookingCreated,
            seq: 1,
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
