//! Endpoints, and the way of an event: born with its deliveries, leased, attempted, settled, retried.

use std::sync::Arc;

use super::Decided;
use crate::change::{Change, DeliveryState, EventRow, Phase};
use crate::command::{NewEvent, Reply, RetryResult};
use crate::error::Error;
use crate::limits;
use crate::model::{
    BookingId, DeliveryStatus, Endpoint, EndpointId, EventId, PartnerId, Timestamp,
};
use crate::webhook::{Attempt, FailureClass, Schedule, body};
use crate::work::{PartnerState, Work};

pub(super) fn create_endpoint(work: &Work, partner_id: PartnerId, endpoint: &Endpoint) -> Decided {
    let state = work
        .active_partner(&partner_id)
        .ok_or_else(|| Error::not_found("partner"))?;
    if state.endpoints.len() >= limits::ENDPOINTS_PER_PARTNER {
        return Err(Error::conflict(
            "too_many_endpoints",
            format!(
                "The partner has {} webhook endpoints, the most allowed. Delete one first.",
                state.endpoints.len()
            ),
        ));
    }
    let change = Change::EndpointAdded {
        partner_id,
        endpoint: Box::new(endpoint.clone()),
    };
    Ok((vec![change], Reply::Endpoint(Box::new(endpoint.clone()))))
}

pub(super) fn delete_endpoint(
    work: &Work,
    at: Timestamp,
    partner_id: PartnerId,
    endpoint_id: EndpointId,
) -> Decided {
    let endpoint = work
        .partners
        .get(&partner_id)
        .and_then(|state| {
            state
                .endpoints
                .iter()
                .find(|e| e.endpoint_id == endpoint_id)
        })
        .ok_or_else(|| Error::not_found("webhook endpoint"))?;
    let ended = Endpoint {
        enabled: false,
        ..endpoint.clone()
    };
    Ok((
        vec![Change::EndpointDeleted { endpoint_id, at }],
        Reply::Endpoint(Box::new(ended)),
    ))
}

/// Adds an event and one delivery per endpoint that takes its type.
///
/// A delivery is born in the courier's hands when the courier has room for it, else due at once for whoever asks.
pub(super) fn emit(
    work: &Work,
    partner: &PartnerState,
    at: Timestamp,
    booking_id: BookingId,
    event: &NewEvent,
    changes: &mut Vec<Change>,
) {
    let seq = partner.events + 1;
    changes.push(Change::EventAdded(Box::new(EventRow {
        event_id: event.event_id,
        partner_id: partner.partner.partner_id,
        seq,
        booking_id,
        event_type: event.event_type,
        body: Arc::from(body::finish(&event.head, seq).into_bytes()),
    })));
    for endpoint in partner
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.takes(event.event_type))
    {
        let room = work.room.get(&endpoint.endpoint_id).copied().unwrap_or(0) > 0;
        changes.push(Change::DeliveryAdded {
            event_id: event.event_id,
            endpoint_id: endpoint.endpoint_id,
            state: fresh_delivery(at, room.then_some(event.lease)),
        });
    }
}

fn fresh_delivery(at: Timestamp, lease: Option<i64>) -> DeliveryState {
    let due = if lease.is_some() {
        at.plus_ms(limits::LEASE_MS)
    } else {
        at
    };
    DeliveryState {
        phase: Phase::Pending,
        attempts: 0,
        charged: 0,
        due: Some(due),
        lease,
    }
}

pub(super) fn retry(
    work: &Work,
    at: Timestamp,
    partner_id: PartnerId,
    event_id: EventId,
    lease: i64,
) -> Decided {
    let event = work
        .events
        .get(&event_id)
        .filter(|event| event.partner_id == partner_id)
        .ok_or_else(|| Error::not_found("webhook event"))?;
    let mut changes = Vec::new();
    if event.endpoints.is_empty() {
        let partner = work
            .partners
            .get(&partner_id)
            .ok_or_else(|| Error::not_found("webhook event"))?;
        for endpoint in partner
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.takes(event.event_type))
        {
            let state = fresh_delivery(at, Some(lease));
            changes.push(Change::DeliveryAdded {
                event_id,
                endpoint_id: endpoint.endpoint_id,
                state,
            });
        }
        if changes.is_empty() {
            return Err(Error::conflict(
                "no_endpoints",
                "No webhook endpoint takes this event. Add one with POST /v1/webhook-endpoints and retry.",
            ));
        }
    } else {
        pull_forward(work, at, event_id, &event.endpoints, lease, &mut changes)?;
    }
    let retries = event.retries + 1;
    changes.push(Change::EventRetried { event_id, retries });
    let reply = RetryResult {
        event_id,
        retry_status: DeliveryStatus::Pending,
        retry_count: retries,
    };
    Ok((changes, Reply::Retrying(reply)))
}

/// Takes every open delivery that nobody is attempting right now. One in flight is left to end: its outcome is
/// what the retry waits for, and a second request beside it would only be a duplicate.
fn pull_forward(
    work: &Work,
    at: Timestamp,
    event_id: EventId,
    endpoints: &[EndpointId],
    lease: i64,
    changes: &mut Vec<Change>,
) -> Result<(), Error> {
    let deliveries: Vec<(EndpointId, DeliveryState)> = endpoints
        .iter()
        .filter_map(|endpoint_id| {
            Some((
                *endpoint_id,
                *work.deliveries.get(&(event_id, *endpoint_id))?,
            ))
        })
        .collect();
    if deliveries
        .iter()
        .all(|(_, state)| state.phase == Phase::Delivered)
    {
        return Err(Error::conflict(
            "event_already_delivered",
            format!("Event {event_id} was delivered to every endpoint; there is nothing to retry."),
        ));
    }
    let exists = |endpoint_id: &EndpointId| {
        work.partners
            .values()
            .flat_map(|p| &p.endpoints)
            .any(|e| e.endpoint_id == *endpoint_id)
    };
    let open: Vec<_> = deliveries
        .iter()
        .filter(|(endpoint_id, state)| state.phase != Phase::Delivered && exists(endpoint_id))
        .collect();
    if open.is_empty() {
        return Err(Error::conflict(
            "no_endpoints",
            "Every endpoint this event still had to reach has been deleted; there is nowhere to deliver it.",
        ));
    }
    for (endpoint_id, state) in open {
        let in_flight = state.lease.is_some() && state.due.is_some_and(|due| due > at);
        if !in_flight {
            let state = DeliveryState {
                due: Some(at.plus_ms(limits::LEASE_MS)),
                lease: Some(lease),
                ..*state
            };
            changes.push(Change::DeliveryMoved {
                event_id,
                endpoint_id: *endpoint_id,
                state,
            });
        }
    }
    Ok(())
}

pub(super) fn claim(
    work: &Work,
    at: Timestamp,
    lease: i64,
    endpoints: &[(EndpointId, usize)],
) -> Vec<Change> {
    let mut changes = Vec::new();
    for (endpoint_id, room) in endpoints {
        let due = work
            .due
            .get(endpoint_id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        // Taken or settled by an earlier command of this batch: no longer due.
        let still_due = due.iter().filter_map(|event_id| {
            let state = work.deliveries.get(&(*event_id, *endpoint_id))?;
            state
                .due
                .filter(|due| *due <= at)
                .map(|_| (*event_id, *state))
        });
        for (event_id, state) in still_due.take(*room) {
            let state = DeliveryState {
                due: Some(at.plus_ms(limits::LEASE_MS)),
                lease: Some(lease),
                ..state
            };
            changes.push(Change::DeliveryMoved {
                event_id,
                endpoint_id: *endpoint_id,
                state,
            });
        }
    }
    changes
}

pub(super) fn settle(
    work: &Work,
    at: Timestamp,
    (event_id, endpoint_id): (EventId, EndpointId),
    lease: i64,
    attempt: &Attempt,
    jitter: u64,
) -> Vec<Change> {
    let Some(state) = work
        .deliveries
        .get(&(event_id, endpoint_id))
        .filter(|state| state.lease == Some(lease))
    else {
        return Vec::new();
    };
    let number = state.attempts + 1;
    let charged = state.charged + u32::from(attempt.class.is_none_or(FailureClass::is_charged));
    let next = next_attempt(at, event_id, charged, attempt, jitter);
    let phase = if attempt.delivered() {
        Phase::Delivered
    } else {
        Phase::Failed
    };
    let mut changes = vec![
        Change::DeliveryMoved {
            event_id,
            endpoint_id,
            state: DeliveryState {
                phase,
                attempts: number,
                charged,
                due: next,
                lease: None,
            },
        },
        Change::AttemptAdded {
            event_id,
            endpoint_id,
            number,
            attempt: Box::new(attempt.clone()),
        },
    ];
    if attempt.class == Some(FailureClass::Gone) {
        changes.push(Change::EndpointDisabled { endpoint_id });
    }
    changes
}

/// When the next automatic attempt is due. Faults of ours do not use up the schedule, but a week of them ends it.
fn next_attempt(
    at: Timestamp,
    event_id: EventId,
    charged: u32,
    attempt: &Attempt,
    jitter: u64,
) -> Option<Timestamp> {
    if attempt.delivered() || at.ms() - event_id.made_at().ms() > limits::DELIVERY_AGE_MS {
        return None;
    }
    let delay = Schedule::default().next_delay(charged as usize, attempt, jitter)?;
    Some(at.plus_ms(i64::try_from(delay).unwrap_or(i64::MAX)))
}
