//! The commands of deliveries, which the courier and its housekeeping give.

pub(crate) mod rule;

use std::sync::Arc;

use crate::engine::command::{HeldDelivery, LeasedDelivery, Reclaim, Written};
use crate::entropy;
use crate::error::Error;
use crate::evidence::facts::{Fact, NotificationFact, SealedFact};
use crate::evidence::notification::{Notification, Sent};
use crate::features::endpoints::health;
use crate::model::{
    BookingId, EndpointHealth, EndpointId, EndpointStatus, EventId, PartnerId, Timestamp,
};
use crate::service::Service;
use crate::webhook::Attempt;

/// Leases due deliveries to the courier, if no node holds them.
#[derive(Debug)]
pub struct ClaimDeliveries {
    /// The id of the leases taken.
    pub lease: i64,
    /// The endpoints, each with the most deliveries to take.
    pub endpoints: Vec<(EndpointId, usize)>,
}

/// Gives up the leases of deliveries that will not be attempted, so that they are due at once. A lease that is no longer
/// held changes nothing.
#[derive(Debug)]
pub struct ReleaseDeliveries {
    /// The deliveries to release.
    pub held: Vec<HeldDelivery>,
}

/// Ends leases that lapsed or whose node is gone, a few hundred at a time. The deliveries are then due.
#[derive(Debug)]
pub struct ReclaimDeliveries {
    /// Whose leases to end.
    pub from: Reclaim,
}

/// Ends deliveries that wait for deleted endpoints, a few hundred at a time. Their events show them as failed from the deletion
/// on, and the ledger records no outcome.
#[derive(Debug)]
pub struct DropDeliveries {
    /// The endpoints. One that is not deleted is left alone.
    pub endpoints: Vec<EndpointId>,
}

/// Records an attempt's outcome. A lease that is no longer held, or an attempt that is not the next one, changes nothing.
/// The reply is the endpoint's new health if its status changed.
#[derive(Debug, Clone)]
pub struct SettleDelivery {
    /// The event.
    pub(crate) event_id: EventId,
    /// The endpoint.
    pub(crate) endpoint_id: EndpointId,
    /// The lease under which it was attempted.
    pub(crate) lease: i64,
    /// The attempt's number, from 1.
    pub(crate) number: u32,
    /// What happened.
    pub(crate) attempt: Attempt,
    /// Random bits that spread the next attempt.
    pub(crate) jitter: u64,
    /// What the ledger records if this attempt ends the delivery. `None` for an event of a type that endpoints must list:
    /// the ledger records nothing about those, because they are made only while somebody listens.
    pub(crate) record: Option<DeliveryRecord>,
    /// Present if this attempt may suspend the endpoint.
    pub(crate) suspension: Option<SuspensionSeed>,
}

/// The end of a delivery as the ledger would record it.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryRecord {
    /// The event's booking, to whose chain the fact belongs.
    pub booking_id: BookingId,
    /// The committed `webhook.settled`.
    pub fact: Arc<SealedFact>,
}

/// What `endpoint.suspended` needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SuspensionSeed {
    /// The endpoint's partner.
    pub partner_id: PartnerId,
    /// The event's id.
    pub event_id: EventId,
}

impl SettleDelivery {
    /// The command that records an attempt that ended at `at`. Prepares everything that does not depend on the batch.
    ///
    /// # Errors
    /// `internal` for a value that cannot be committed to.
    pub fn of(delivery: &LeasedDelivery, attempt: Attempt, at: Timestamp) -> Result<Self, Error> {
        let number = delivery.attempts + 1;
        let recorded = delivery.event_type.recorded().zip(delivery.booking_id);
        let record = recorded.map(|(event_type, booking_id)| {
            let sent = Sent {
                event_id: delivery.event_id,
                event_type,
                seq: delivery.seq,
                body: &delivery.body,
            };
            let notification = Notification::of(&sent, delivery.endpoint_id, &attempt, number, at);
            let fact = Fact::from(NotificationFact { notification }).seal(entropy::bytes())?;
            let fact = Arc::new(fact);
            Ok::<_, Error>(DeliveryRecord { booking_id, fact })
        });
        let suspension = health::may_suspend(&attempt).then(|| SuspensionSeed {
            partner_id: delivery.partner_id,
            event_id: EventId::new(at, entropy::bytes()),
        });
        Ok(Self {
            event_id: delivery.event_id,
            endpoint_id: delivery.endpoint_id,
            lease: delivery.lease,
            number,
            attempt,
            jitter: entropy::number(),
            record: record.transpose()?,
            suspension,
        })
    }

    /// The same, but if it suspends the endpoint, the partner's others are not told: they need not be readable.
    #[must_use]
    pub fn without_telling(self) -> Self {
        Self {
            suspension: None,
            ..self
        }
    }
}

/// An endpoint whose status an outcome changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointStatusChange {
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// Its status before.
    pub from: EndpointStatus,
    /// Its health now.
    pub health: EndpointHealth,
}

/// Ends every lease, whenever it would lapse. Only for a process that knows it is the only one delivering, before it holds
/// a lease itself: all other holders are gone. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer; the leases then lapse by themselves.
pub fn reclaim_all(service: &Service) -> Result<(), Error> {
    let ended = Timestamp::from_ms(i64::MAX);
    while service.ask(|reader| reader.has_lapsed_leases(ended))? {
        let from = Reclaim::EndedBy(ended);
        let taken = service.submit_and_wait(service.envelope(ReclaimDeliveries { from }))?;
        // What is left cannot be read.
        if matches!(taken, Written::Fresh(0)) {
            break;
        }
    }
    Ok(())
}
