//! What the writer hands to the courier in memory, right after the commit that made it.
//!
//! Bounded per endpoint: what finds no room stays in the store, due at once, and is claimed when there is. So a
//! dead receiver fills its own share and nobody else's.

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
    held: Mutex<HashMap<EndpointId, usize>>,
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
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        QUEUED_PER_ENDPOINT.saturating_sub(held.get(endpoint_id).copied().unwrap_or(0))
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
                *held.entry(parcel.endpoint_id).or_default() += 1;
            }
        }
        let _ = self.parcels.send(parcels);
    }

    /// The courier is done with one delivery to this endpoint.
    pub fn release(&self, endpoint_id: &EndpointId) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(endpoint_id) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                held.remove(endpoint_id);
            }
        }
    }
}
