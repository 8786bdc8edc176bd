//! The way of an event: born with its deliveries, leased, attempted, settled, retried.

use std::sync::Arc;

use super::{Decided, chain, health};
use crate::change::{Change, Content, DeliveryState, EventRow, Phase};
use crate::command::{Held, Lapse, NewEvent, Reply, RetryResult};
use crate::error::Error;
use crate::evidence::facts::Fact;
use crate::limits;
use crate::model::{
    BookingId, DeliveryStatus, EndpointHealth, EndpointId, EndpointStatus, EventId, PartnerId,
    Timestamp,
};
use crate::webhook::{Attempt, Schedule, body};
use crate::work::{EventState, PartnerState, Work};

/// Adds an event and one delivery per endpoint that takes its type.
///
/// A delivery is born in the courier's hands when the courier has room for it, else due at once for whoever asks; what is
/// for an endpoint that is suspended or not verified waits in nobody's hands.
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
        let hands = match endpoint.health().is_on_probation() {
            true => (at, None),
            false => hold(work, at, endpoint.endpoint_id, event.lease),
        };
        changes.push(Change::DeliveryAdded {
            event_id: event.event_id,
            endpoint_id: endpoint.endpoint_id,
            state: fresh_delivery(at, hands, None),
        });
    }
}

pub(super) fn fresh_delivery(
    at: Timestamp,
    (due, lease): (Timestamp, Option<i64>),
    begun: Option<Timestamp>,
) -> DeliveryState {
    DeliveryState {
        phase: Phase::Pending,
        attempts: 0,
        charged: 0,
        due: Some(due),
        lease,
        settled_leaf: None,
        begun,
        since: Some(at),
    }
}

/// Into the courier's hands under `lease` where there is room for this endpoint, else due at once for whoever asks.
fn hold(
    work: &Work,
    at: Timestamp,
    endpoint_id: EndpointId,
    lease: i64,
) -> (Timestamp, Option<i64>) {
    match work.room.get(&endpoint_id) {
        Some(1..) => (at.plus_ms(limits::LEASE_MS), Some(lease)),
        _ => (at, None),
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
    let partner = work
        .partners
        .get(&partner_id)
        .ok_or_else(|| Error::not_found("webhook event"))?;
    if let Content::Pruned(pruned) = &event.content {
        return Err(Error::conflict(
            "event_pruned",
            format!(
                "The payload of event {event_id} was deleted at {}, because events of its age are not kept; it cannot be delivered \
                 any more. What happened is in the evidence packet of its booking: GET /v1/bookings/{{bookingId}}/evidence.",
                pruned.at
            ),
        ));
    }
    if event.retries >= limits::MANUAL_RETRIES {
        return Err(Error::conflict(
            "too_many_retries",
            format!(
                "Event {event_id} was retried by hand {} times, the most allowed.",
                event.retries
            ),
        ));
    }
    let retry = Retry {
        work,
        at,
        event_id,
        lease,
    };
    let mut changes = retry.pull_forward(partner, event)?;
    if changes.is_none() {
        changes = retry.deliver_anew(partner, event)?;
    }
    let Some(mut changes) = changes else {
        return Err(Error::conflict(
            "no_endpoints",
            "No webhook endpoint takes this event. Add one with POST /v1/webhook-endpoints, or bring one back: PATCH it with \
             {\"enabled\": true}. Then retry.",
        ));
    };
    let woken = retry.wake(partner, &changes);
    changes.extend(woken);
    let retries = event.retries + 1;
    changes.push(Change::EventRetried { event_id, retries });
    let reply = RetryResult {
        event_id,
        retry_status: DeliveryStatus::Pending,
        retry_count: retries,
    };
    Ok((changes, Reply::Retrying(reply)))
}

/// One manual retry.
struct Retry<'a> {
    work: &'a Work,
    at: Timestamp,
    event_id: EventId,
    lease: i64,
}

impl Retry<'_> {
    /// Takes every open delivery that nobody is attempting right now; `None` when no open one has an
    /// endpoint that is enabled.
    ///
    /// One in flight is left to end: its outcome is what the retry waits for, and a second request beside it would
    /// only be a duplicate.
    fn pull_forward(
        &self,
        partner: &PartnerState,
        event: &EventState,
    ) -> Result<Option<Vec<Change>>, Error> {
        let deliveries: Vec<(EndpointId, DeliveryState)> = event
            .endpoints
            .iter()
            .filter_map(|endpoint_id| {
                Some((
                    *endpoint_id,
                    *self.work.deliveries.get(&(self.event_id, *endpoint_id))?,
                ))
            })
            .collect();
        if !deliveries.is_empty()
            && deliveries
                .iter()
                .all(|(_, state)| state.phase == Phase::Delivered)
        {
            return Err(Error::conflict(
                "event_already_delivered",
                format!(
                    "Event {} was delivered to every endpoint; there is nothing to retry.",
                    self.event_id
                ),
            ));
        }
        let is_there = |endpoint_id: &EndpointId| {
            partner
                .endpoints
                .iter()
                .any(|e| e.endpoint_id == *endpoint_id && e.enabled)
        };
        let open: Vec<_> = deliveries
            .iter()
            .filter(|(endpoint_id, state)| state.phase != Phase::Delivered && is_there(endpoint_id))
            .collect();
        if open.is_empty() {
            return Ok(None);
        }
        let idle = open.into_iter();
        let idle = idle.filter(|(_, state)| !in_flight(state, self.at));
        Ok(Some(
            idle.map(|(endpoint_id, state)| self.take(partner, *endpoint_id, *state))
                .collect(),
        ))
    }

    /// An attempt by hand is not one of the schedule's: the chain goes on from the step it had reached. What is due already, and
    /// waits for its turn, is pulled forward no further.
    fn take(
        &self,
        partner: &PartnerState,
        endpoint_id: EndpointId,
        state: DeliveryState,
    ) -> Change {
        let charged = match state.due {
            Some(due) if due > self.at => state.charged.saturating_sub(1),
            _ => state.charged,
        };
        let (due, lease) = self.hold(partner, endpoint_id);
        let state = DeliveryState {
            charged,
            due: Some(due),
            since: Some(self.at),
            lease,
            ..state
        };
        Change::DeliveryMoved {
            event_id: self.event_id,
            endpoint_id,
            state,
        }
    }

    /// As for every delivery; but at an address where nobody has accepted anything yet, retries wait for their turn like the rest:
    /// else whoever owns that address could be sent as much as anybody likes.
    fn hold(&self, partner: &PartnerState, endpoint_id: EndpointId) -> (Timestamp, Option<i64>) {
        let mut endpoints = partner.endpoints.iter();
        let unverified = endpoints.any(|endpoint| {
            endpoint.endpoint_id == endpoint_id && endpoint.unverified_since.is_some()
        });
        match unverified {
            true => (self.at, None),
            false => hold(self.work, self.at, endpoint_id, self.lease),
        }
    }

    /// Suspended endpoints of deliveries that are left to a claim: one may try now, as one in the courier's hands would, or in a
    /// while where nothing was ever accepted.
    fn wake(&self, partner: &PartnerState, changes: &[Change]) -> Vec<Change> {
        let is_left = |endpoint_id: EndpointId| {
            changes.iter().any(|change| match change {
                Change::DeliveryMoved {
                    endpoint_id: id,
                    state,
                    ..
                }
                | Change::DeliveryAdded {
                    endpoint_id: id,
                    state,
                    ..
                } => *id == endpoint_id && state.lease.is_none(),
                _ => false,
            })
        };
        let left = partner.endpoints.iter();
        let left = left.filter(|endpoint| is_left(endpoint.endpoint_id));
        let woken = left.filter_map(|endpoint| {
            let health = health::woken(endpoint.health(), self.at);
            (health != endpoint.health()).then_some(Change::EndpointFared {
                endpoint_id: endpoint.endpoint_id,
                health,
            })
        });
        woken.collect()
    }

    /// Deliveries to the endpoints of today that have not had one; `None` when there is no such endpoint. All of an event's
    /// deliveries, and how they ended, travel in every packet of its booking, so there is a most of them.
    fn deliver_anew(
        &self,
        partner: &PartnerState,
        event: &EventState,
    ) -> Result<Option<Vec<Change>>, Error> {
        let new = partner
            .endpoints
            .iter()
            .filter(|e| e.takes(event.event_type) && !event.endpoints.contains(&e.endpoint_id));
        let changes: Vec<Change> = new
            .map(|endpoint| {
                let hands = self.hold(partner, endpoint.endpoint_id);
                Change::DeliveryAdded {
                    event_id: self.event_id,
                    endpoint_id: endpoint.endpoint_id,
                    state: fresh_delivery(self.at, hands, Some(self.at)),
                }
            })
            .collect();
        if event.endpoints.len() + changes.len() > limits::DELIVERIES_PER_EVENT {
            return Err(Error::conflict(
                "too_many_deliveries",
                format!(
                    "Event {} was sent to {} endpoints, of {} that an event goes to at most. Read it from the log instead: \
                     GET /v1/webhook-events/{}.",
                    self.event_id,
                    event.endpoints.len(),
                    limits::DELIVERIES_PER_EVENT,
                    self.event_id
                ),
            ));
        }
        Ok((!changes.is_empty()).then_some(changes))
    }
}

/// Whether somebody is attempting the delivery: under a lease that has not ended.
pub(super) fn in_flight(state: &DeliveryState, at: Timestamp) -> bool {
    state.lease.is_some() && state.due.is_some_and(|due| due > at)
}

pub(super) fn claim(
    work: &Work,
    at: Timestamp,
    lease: i64,
    endpoints: &[(EndpointId, usize)],
) -> Vec<Change> {
    let mut changes = Vec::new();
    for (endpoint_id, room) in endpoints {
        let Some(health) = work.health.get(endpoint_id) else {
            continue;
        };
        let (room, fares) = health::claimable(*health, at, *room);
        let before = changes.len();
        let due = work
            .due
            .get(endpoint_id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        // Taken or settled by an earlier command of this batch: no longer due.
        let still_due = due.iter().filter_map(|event_id| {
            let state = work.deliveries.get(&(*event_id, *endpoint_id))?;
            let free = state.lease.is_none() && state.due.is_some_and(|due| due <= at);
            free.then_some((*event_id, *state))
        });
        for (event_id, state) in still_due.take(room) {
            let state = DeliveryState {
                due: Some(at.plus_ms(limits::LEASE_MS)),
                since: Some(at),
                lease: Some(lease),
                ..state
            };
            changes.push(Change::DeliveryMoved {
                event_id,
                endpoint_id: *endpoint_id,
                state,
            });
        }
        if changes.len() > before && fares != *health {
            changes.push(Change::EndpointFared {
                endpoint_id: *endpoint_id,
                health: fares,
            });
        }
    }
    changes
}

pub(super) fn release(work: &Work, at: Timestamp, held: &[Held]) -> Vec<Change> {
    let mut changes = Vec::new();
    for held in held {
        let name = (held.event_id, held.endpoint_id);
        let state = work.deliveries.get(&name);
        let Some(state) = state.filter(|state| state.lease == Some(held.lease)) else {
            continue;
        };
        changes.push(freed(name, *state, at, at));
        let health = work.health.get(&held.endpoint_id);
        changes.extend(health.and_then(|before| {
            let health = health::unsent(*before, at);
            (health != *before).then_some(Change::EndpointFared {
                endpoint_id: held.endpoint_id,
                health,
            })
        }));
    }
    changes
}

pub(super) fn reclaim(work: &Work, at: Timestamp, from: Lapse) -> Vec<Change> {
    if from == Lapse::Ahead {
        return reckoned_anew(work, at);
    }
    let lapsed = work.lapsed.iter().filter_map(|name| {
        let state = work.deliveries.get(name)?;
        let (lease, end) = (state.lease?, state.due?);
        from.takes(lease, end)
            .then(|| freed(*name, *state, end.min(at), at))
    });
    lapsed.collect()
}

/// What waits for a time that was reckoned by a clock which was ahead: as long as it was to wait then, from now on. Were it due at
/// once, a clock that is set back would send all of it together.
fn reckoned_anew(work: &Work, at: Timestamp) -> Vec<Change> {
    let latest = at.plus_ms(limits::LEASE_SKEW_MS);
    let deliveries = work.lapsed.iter().filter_map(|(event_id, endpoint_id)| {
        let state = work.deliveries.get(&(*event_id, *endpoint_id))?;
        let (due, since) = (state.due?, state.since.filter(|since| *since > latest)?);
        // Whoever holds it goes on with it.
        Some(Change::DeliveryRenewed {
            event_id: *event_id,
            endpoint_id: *endpoint_id,
            state: DeliveryState {
                due: Some(at.plus_ms(due.ms() - since.ms())),
                since: Some(at),
                ..*state
            },
        })
    });
    let endpoints = work.health.iter().filter_map(|(endpoint_id, before)| {
        let health = health::reckoned_anew(*before, at);
        (health != *before).then_some(Change::EndpointFared {
            endpoint_id: *endpoint_id,
            health,
        })
    });
    deliveries.chain(endpoints).collect()
}

/// The delivery in nobody's hands, due for whoever asks.
fn freed(
    (event_id, endpoint_id): (EventId, EndpointId),
    state: DeliveryState,
    due: Timestamp,
    at: Timestamp,
) -> Change {
    Change::DeliveryMoved {
        event_id,
        endpoint_id,
        state: DeliveryState {
            due: Some(due),
            since: Some(at),
            lease: None,
            ..state
        },
    }
}

/// An attempt that has ended.
pub(super) struct Settled<'a> {
    /// The delivery.
    pub name: (EventId, EndpointId),
    /// The lease under which it was attempted.
    pub lease: i64,
    /// The attempt's number.
    pub number: u32,
    /// What happened.
    pub attempt: &'a Attempt,
    /// The event's booking.
    pub booking_id: BookingId,
    /// What the ledger records if the delivery ends with it.
    pub fact: &'a Arc<Fact>,
}

pub(super) fn settle(work: &Work, at: Timestamp, settled: &Settled<'_>, jitter: u64) -> Decided {
    let (event_id, endpoint_id) = settled.name;
    let Some(state) = work
        .deliveries
        .get(&settled.name)
        .filter(|state| state.lease == Some(settled.lease) && state.attempts + 1 == settled.number)
    else {
        return Ok((Vec::new(), Reply::Done));
    };
    let health = work.health.get(&endpoint_id).copied();
    let begun = state.begun_at(&event_id);
    let suspended = health.is_some_and(|health| health.status == EndpointStatus::Suspended);
    let attempt = Attempt {
        uncharged: is_uncharged(at, begun, settled.attempt, suspended),
        ..settled.attempt.clone()
    };
    let charged = state.charged + u32::from(!attempt.uncharged);
    let phase = if attempt.delivered() {
        Phase::Delivered
    } else {
        Phase::Failed
    };
    let (fared, reply) = health.map_or((None, Reply::Done), |before| {
        fare(endpoint_id, before, at, &attempt)
    });
    let due = next_attempt(at, begun, charged, &attempt, jitter);
    let entry = is_to_record(state, phase, due)
        .then(|| chain::next(work, settled.booking_id, at, settled.fact))
        .transpose()?;
    let leaf = entry.as_ref().map(|entry| entry.index);
    let mut changes = vec![
        Change::DeliveryMoved {
            event_id,
            endpoint_id,
            state: DeliveryState {
                phase,
                attempts: settled.number,
                charged,
                due,
                lease: None,
                settled_leaf: leaf.or(state.settled_leaf),
                begun: state.begun,
                since: due.map(|_| at),
            },
        },
        Change::AttemptAdded {
            event_id,
            endpoint_id,
            number: settled.number,
            attempt: Box::new(attempt),
        },
    ];
    changes.extend(entry.map(|entry| Change::Entry(Box::new(entry))));
    changes.extend(fared);
    Ok((changes, reply))
}

/// Whether the ledger is to record that a delivery ended so. That it was given up is recorded once, however often it is tried
/// again by hand; that it was accepted always, and nothing comes after that.
fn is_to_record(state: &DeliveryState, phase: Phase, due: Option<Timestamp>) -> bool {
    match phase {
        Phase::Delivered => true,
        _ => due.is_none() && state.settled_leaf.is_none(),
    }
}

/// What an attempt makes of its endpoint: of one that fares well and goes on so nothing is written.
fn fare(
    endpoint_id: EndpointId,
    before: EndpointHealth,
    at: Timestamp,
    attempt: &Attempt,
) -> (Option<Change>, Reply) {
    let health = health::after(before, at, attempt);
    let fared = (health != before).then_some(Change::EndpointFared {
        endpoint_id,
        health,
    });
    if health.status == before.status {
        return (fared, Reply::Done);
    }
    let from = before.status;
    let turned = Reply::EndpointTurned {
        endpoint_id,
        from,
        health,
    };
    (fared, turned)
}

/// Whether a failure uses up nothing of the schedule: while the endpoint is suspended, and where it is ours, though not for
/// ever.
fn is_uncharged(at: Timestamp, begun: Timestamp, attempt: &Attempt, suspended: bool) -> bool {
    let young = at.ms() - begun.ms() <= limits::OUR_FAULTS_FREE_MS;
    !attempt.delivered() && (suspended || (attempt.is_ours() && young))
}

/// When the next automatic attempt of a schedule that began then is due.
fn next_attempt(
    at: Timestamp,
    begun: Timestamp,
    charged: u32,
    attempt: &Attempt,
    jitter: u64,
) -> Option<Timestamp> {
    let delay = Schedule::default().next_delay(charged as usize, attempt, jitter)?;
    let delay = i64::try_from(delay).unwrap_or(i64::MAX);
    if !(attempt.uncharged && attempt.is_ours()) {
        return Some(at.plus_ms(delay));
    }
    // Ours to mend, and not at once: the longer the delivery has waited, the longer until the next try.
    let waited = (at.ms() - begun.ms()).min(limits::OUR_FAULTS_FREE_MS);
    Some(at.plus_ms(delay.max(waited / 16)))
}
