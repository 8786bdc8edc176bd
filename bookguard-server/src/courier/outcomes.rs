//! The manual retries whose answers wait for the outcome.
//!
//! Invariant: no partner has more than [`RETRIES_WAITING`] of them on this node. Without that bound, retries at an endpoint whose
//! turn is far away would look into the database all the time.

use std::sync::Arc;

use bookguard_core::limits::RETRIES_WAITING;
use bookguard_core::model::{EventId, PartnerId};

use crate::under_way::{OneUnderWay, UnderWay};

/// The answers that wait, by partner.
#[derive(Debug)]
pub(super) struct RetryWaits(Arc<UnderWay<PartnerId>>);

/// A retry whose answer waits. Dropping it lets another one wait.
#[derive(Debug)]
pub struct RetryWait {
    _place: OneUnderWay<PartnerId>,
    event_id: EventId,
}

impl Default for RetryWaits {
    fn default() -> Self {
        Self(UnderWay::new(RETRIES_WAITING, usize::MAX))
    }
}

impl RetryWaits {
    /// Begins to wait for the outcome of this partner's event, unless enough others wait.
    pub(super) fn begin(&self, partner_id: PartnerId, event_id: EventId) -> Option<RetryWait> {
        let place = self.0.begin(partner_id).ok()?;
        Some(RetryWait {
            _place: place,
            event_id,
        })
    }
}

impl RetryWait {
    pub(super) fn event_id(&self) -> EventId {
        self.event_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_answers_of_one_partner_wait_at_a_time() {
        let waits = RetryWaits::default();
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
    }
}
