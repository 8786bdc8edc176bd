//! The manual retries whose answers wait for the outcome.
//!
//! Invariant: no partner has more than [`RETRIES_WAITING`] of them on this node. Without that bound, retries at an endpoint whose
//! turn is far away would look into the database all the time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bookguard_core::limits::RETRIES_WAITING;
use bookguard_core::model::{EventId, PartnerId};

/// How many answers wait, by partner.
#[derive(Debug, Default)]
pub(super) struct RetryWaits(Mutex<HashMap<PartnerId, usize>>);

/// A retry whose answer waits. Dropping it lets another one wait.
#[derive(Debug)]
pub struct RetryWait {
    waits: Arc<RetryWaits>,
    partner_id: PartnerId,
    event_id: EventId,
}

impl RetryWaits {
    fn lock(&self) -> MutexGuard<'_, HashMap<PartnerId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait for the outcome of this partner's event, unless enough others wait.
    pub(super) fn begin(
        self: &Arc<Self>,
        partner_id: PartnerId,
        event_id: EventId,
    ) -> Option<RetryWait> {
        let mut waiting = self.lock();
        let own = waiting.get(&partner_id).copied().unwrap_or_default();
        if own >= RETRIES_WAITING {
            return None;
        }
        waiting.insert(partner_id, own + 1);
        Some(RetryWait {
            waits: Arc::clone(self),
            partner_id,
            event_id,
        })
    }
}

impl RetryWait {
    pub(super) fn event_id(&self) -> EventId {
        self.event_id
    }
}

impl Drop for RetryWait {
    fn drop(&mut self) {
        let mut waiting = self.waits.lock();
        if let Some(own) = waiting.get_mut(&self.partner_id) {
            *own -= 1;
            if *own == 0 {
                waiting.remove(&self.partner_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_answers_of_one_partner_wait_at_a_time() {
        let waits = Arc::<RetryWaits>::default();
        let begin = |n| {
            let event_id = EventId::from_bytes([0; 16]);
            waits.begin(PartnerId::from_bytes([n; 16]), event_id)
        };
        let mut begun: Vec<RetryWait> = (0..RETRIES_WAITING).filter_map(|_| begin(1)).collect();
        assert_eq!(begun.len(), RETRIES_WAITING);
        assert!(begin(1).is_none());
        assert!(begin(2).is_some(), "another partner has its own share");
        begun.pop();
        begun.extend(begin(1));
        assert_eq!(begun.len(), RETRIES_WAITING);
        begun.clear();
        assert!(waits.lock().is_empty());
    }
}
