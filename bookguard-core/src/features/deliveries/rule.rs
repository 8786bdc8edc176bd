//! What becomes of a delivery: created with its event, leased, attempted, settled, retried.

use std::sync::Arc;

use crate::engine::batch::{BatchState, PartnerState};
use crate::engine::chain;
use crate::engine::change::{Change, DeliveryName, DeliveryPhase, DeliveryState, EventRow};
use crate::engine::command::{Command, Decided, EventSeed, Reclaim};
use crate::engine::needs::Needs;
use crate::features::deliveries::{
    ClaimDeliveries, DropDeliveries, EndpointStatusChange, ReclaimDeliveries, ReleaseDeliveries,
    SettleDelivery,
};
use crate::features::endpoints::health;
use crate::limits;
use crate::model::{
    BookingId, Endpoint, EndpointHealth, EndpointId, EndpointStatus, EventId, EventType, Timestamp,
};
use crate::webhook::body::{self, Suspension};
use crate::webhook::{Attempt, Schedule};

/// Adds an event, and one delivery per endpoint that takes its type. An event of a type that endpoints must list is not written
/// without a receiver. `head` makes the beginning of the body for the event's id.
///
/// A delivery is leased to the courier at once if the courier has room for it. Otherwise it is due at once, without a
/// lease, for any courier to claim. A delivery to a suspended or unverified endpoint also waits without a lease.
pub(crate) fn emit<S: AsRef<str>>(
    (batch, partner): (&BatchState, &PartnerState),
    at: Timestamp,
    booking_id: Option<BookingId>,
    (event_type, seed): (EventType, EventSeed),
    head: impl FnOnce(EventId) -> S,
    changes: &mut Vec<Change>,
) {
    let (receivers, event) = (partner.receivers(event_type), (event_type, seed));
    let from = (batch, partner);
    emit_to(&receivers, from, at, booking_id, event, head, changes);
}

fn emit_to<S: AsRef<str>>(
    receivers: &[&Endpoint],
    (batch, partner): (&BatchState, &PartnerState),
    at: Timestamp,
    booking_id: Option<BookingId>,
    (event_type, EventSeed { event_id, lease }): (EventType, EventSeed),
    head: impl FnOnce(EventId) -> S,
    changes: &mut Vec<Change>,
) {
    if receivers.is_empty() && event_type.recorded().is_none() {
        return;
    }
    let is_event = |change: &&Change| matches!(change, Change::EventAdded(_));
    // The same command may have caused another event before.
    let seq = partner.events + 1 + changes.iter().filter(is_event).count() as u64;
    changes.push(Change::EventAdded(Box::new(EventRow {
        event_id,
        partner_id: partner.partner.partner_id,
        seq,
        booking_id,
        event_type,
        body: Arc::from(body::finish(head(event_id).as_ref(), seq).into_bytes()),
    })));
    for endpoint in receivers {
        let hands = match endpoint.health().is_on_probation() {
            true => (at, None),
            false => hold(batch, at, endpoint.endpoint_id, lease),
        };
        let name = (event_id, endpoint.endpoint_id);
        changes.push(Change::DeliveryAdded(name, fresh_delivery(at, hands, None)));
    }
}

pub(crate) fn fresh_delivery(
    at: Timestamp,
    (due, lease): (Timestamp, Option<i64>),
    begun: Option<Timestamp>,
) -> DeliveryState {
    DeliveryState {
        phase: DeliveryPhase::Pending,
        attempts: 0,
        counted_attempts: 0,
        due: Some(due),
        lease,
        settled_leaf: None,
        begun,
        since: Some(at),
    }
}

/// Leases the delivery to the courier if it has room for this endpoint; otherwise the delivery is due at once, without a lease.
pub(crate) fn hold(
    batch: &BatchState,
    at: Timestamp,
    endpoint_id: EndpointId,
    lease: i64,
) -> (Timestamp, Option<i64>) {
    match batch.room.get(&endpoint_id) {
        Some(1..) => (at.plus_ms(limits::LEASE_MS), Some(lease)),
        _ => (at, None),
    }
}

/// Whether the delivery is being attempted: its lease has not ended.
pub(crate) fn in_flight(state: &DeliveryState, at: Timestamp) -> bool {
    state.lease.is_some() && state.due.is_some_and(|due| due > at)
}

impl Command for ClaimDeliveries {
    /// How many were claimed.
    type Reply = usize;

    fn needs(&self, needs: &mut Needs) {
        needs.due.extend(&self.endpoints);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<usize> {
        let mut changes = Vec::new();
        let mut claimed = 0;
        for (endpoint_id, room) in &self.endpoints {
            let Some(health) = batch.health.get(endpoint_id) else {
                continue;
            };
            let (room, next_health) = health::claimable(*health, at, *room);
            let before = changes.len();
            let due = batch.due.get(endpoint_id).into_iter().flatten();
            // Taken or settled by an earlier command of this batch: no longer due.
            let still_due = due.filter_map(|event_id| {
                let name = (*event_id, *endpoint_id);
                let state = batch.deliveries.get(&name)?;
                let free = state.lease.is_none() && state.due.is_some_and(|due| due <= at);
                free.then_some((name, *state))
            });
            for (name, state) in still_due.take(room) {
                let state = DeliveryState {
                    due: Some(at.plus_ms(limits::LEASE_MS)),
                    since: Some(at),
                    lease: Some(self.lease),
                    ..state
                };
                claimed += 1;
                changes.push(Change::DeliveryUpdated(name, state));
            }
            if changes.len() > before {
                changes.extend(Change::of_health(*endpoint_id, *health, next_health));
            }
        }
        Ok((changes, claimed))
    }
}

impl Command for ReleaseDeliveries {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        for held in &self.held {
            needs.deliveries.push(held.event_id);
            needs.health.push(held.endpoint_id);
        }
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        let mut changes = Vec::new();
        for held in &self.held {
            let name = (held.event_id, held.endpoint_id);
            let state = batch.deliveries.get(&name);
            let Some(state) = state.filter(|state| state.lease == Some(held.lease)) else {
                continue;
            };
            changes.push(freed(name, *state, at, at));
            let health = batch.health.get(&held.endpoint_id);
            changes.extend(health.and_then(|before| {
                Change::of_health(held.endpoint_id, *before, health::unsent(*before, at))
            }));
        }
        Ok((changes, ()))
    }
}

impl Command for ReclaimDeliveries {
    /// How many were taken back, or wait anew.
    type Reply = usize;

    fn needs(&self, needs: &mut Needs) {
        needs.reclaims.push(self.from);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<usize> {
        if self.from == Reclaim::Ahead {
            let changes = reckoned_anew(batch, at);
            let count = changes.len();
            return Ok((changes, count));
        }
        let lapsed = batch.lapsed.iter().filter_map(|name| {
            let state = batch.deliveries.get(name)?;
            let (lease, end) = (state.lease?, state.due?);
            self.from
                .takes(lease, end)
                .then(|| freed(*name, *state, end.min(at), at))
        });
        let changes: Vec<_> = lapsed.collect();
        let count = changes.len();
        Ok((changes, count))
    }
}

impl Command for DropDeliveries {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.dropped.extend(&self.endpoints);
    }

    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<()> {
        let waiting = batch.deliveries.iter().filter(|((_, endpoint_id), state)| {
            // Whoever holds a lease gives it back once it finds the endpoint deleted.
            batch.deleted.contains(endpoint_id) && state.lease.is_none() && state.due.is_some()
        });
        let dropped = waiting.map(|(name, state)| Change::DeliveryUpdated(*name, state.over()));
        Ok((dropped.collect(), ()))
    }
}

/// Reschedules what waits for a time computed by a clock that was ahead: it waits as long as planned, counted from now.
/// Were it due at once, setting a clock back would send everything together.
fn reckoned_anew(batch: &BatchState, at: Timestamp) -> Vec<Change> {
    let latest = at.plus_ms(limits::LEASE_SKEW_MS);
    let deliveries = batch.lapsed.iter().filter_map(|name| {
        let state = batch.deliveries.get(name)?;
        let (due, since) = (state.due?, state.since.filter(|since| *since > latest)?);
        let state = DeliveryState {
            due: Some(at.plus_ms(due.ms() - since.ms())),
            since: Some(at),
            ..*state
        };
        // A lease stays with its holder.
        Some(Change::DeliveryRenewed(*name, state))
    });
    let endpoints = batch.health.iter().filter_map(|(endpoint_id, before)| {
        Change::of_health(*endpoint_id, *before, health::reckoned_anew(*before, at))
    });
    deliveries.chain(endpoints).collect()
}

/// The delivery without a lease, due for any courier.
fn freed(name: DeliveryName, state: DeliveryState, due: Timestamp, at: Timestamp) -> Change {
    let state = DeliveryState {
        due: Some(due),
        since: Some(at),
        lease: None,
        ..state
    };
    Change::DeliveryUpdated(name, state)
}

impl Command for SettleDelivery {
    type Reply = Option<EndpointStatusChange>;

    fn needs(&self, needs: &mut Needs) {
        needs.deliveries.push(self.event_id);
        needs.health.push(self.endpoint_id);
        let booking_id = self.record.as_ref().map(|record| record.booking_id);
        needs.chains.extend(booking_id);
        let partner_id = self.suspension.map(|suspension| suspension.partner_id);
        needs.partners.extend(partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Option<EndpointStatusChange>> {
        let name = (self.event_id, self.endpoint_id);
        let (event_id, endpoint_id) = name;
        let Some(state) = batch
            .deliveries
            .get(&name)
            .filter(|state| state.lease == Some(self.lease) && state.attempts + 1 == self.number)
        else {
            return Ok((Vec::new(), None));
        };
        let health = batch.health.get(&endpoint_id).copied();
        let begun = state.begun_at(&event_id);
        let suspended = health.is_some_and(|health| health.status == EndpointStatus::Suspended);
        let attempt = Attempt {
            uncharged: is_uncharged(at, begun, &self.attempt, suspended),
            ..self.attempt.clone()
        };
        let counted_attempts = state.counted_attempts + u32::from(!attempt.uncharged);
        let phase = if attempt.delivered() {
            DeliveryPhase::Delivered
        } else {
            DeliveryPhase::Failed
        };
        let went_elsewhere = (attempt.url.as_ref())
            .zip(batch.addresses.get(&endpoint_id))
            .is_some_and(|(went, there)| went != there);
        let (health_change, reply) = health.map_or((None, None), |before| {
            health_after(endpoint_id, before, at, &attempt, went_elsewhere)
        });
        let elsewhere = went_elsewhere.then(|| attempt.as_of_former_address());
        let told = elsewhere.as_ref().unwrap_or(&attempt);
        let due = next_attempt(at, begun, counted_attempts, told, self.jitter)
            .filter(|_| suspended || self.number < limits::ATTEMPTS_PER_DELIVERY);
        let record = self.record.as_ref();
        let entry = record
            .filter(|_| is_to_record(state, phase, due))
            .map(|record| chain::next(batch, record.booking_id, at, &record.fact))
            .transpose()?;
        let leaf = entry.as_ref().map(|entry| entry.index);
        let settled = DeliveryState {
            phase,
            attempts: self.number,
            counted_attempts,
            due,
            lease: None,
            settled_leaf: leaf.or(state.settled_leaf),
            begun: state.begun,
            since: due.map(|_| at),
        };
        let mut changes = vec![
            Change::DeliveryUpdated(name, settled),
            Change::AttemptAdded {
                event_id,
                endpoint_id,
                number: self.number,
                attempt: Box::new(attempt),
            },
        ];
        changes.extend(entry.map(|entry| Change::Entry(Box::new(entry))));
        changes.extend(health_change);
        if let Some(change) = reply {
            self.report_suspension(batch, at, &change, &mut changes);
        }
        Ok((changes, reply))
    }
}

impl SettleDelivery {
    /// Tells the partner's other endpoints if this one was just suspended.
    fn report_suspension(
        &self,
        batch: &BatchState,
        at: Timestamp,
        change: &EndpointStatusChange,
        changes: &mut Vec<Change>,
    ) {
        let Some(seed) = self.suspension else {
            return;
        };
        let Some(partner) = batch.partners.get(&seed.partner_id) else {
            return;
        };
        let mut receivers = partner.receivers(EventType::EndpointSuspended);
        receivers.retain(|endpoint| endpoint.endpoint_id != self.endpoint_id);
        let EndpointHealth {
            status: EndpointStatus::Suspended,
            failures,
            failing_since: Some(failing_since),
            ..
        } = change.health
        else {
            return;
        };
        let Some(endpoint) = partner.endpoint(&self.endpoint_id) else {
            return;
        };
        let suspension = Suspension {
            endpoint_id: self.endpoint_id,
            url: endpoint.url.clone(),
            failures,
            failing_since,
        };
        let (event_id, lease) = (seed.event_id, self.lease);
        let event = (EventType::EndpointSuspended, EventSeed { event_id, lease });
        let head = |event_id| body::suspended(event_id, seed.partner_id, &suspension);
        let from = (batch, partner);
        emit_to(&receivers, from, at, None, event, head, changes);
    }
}

/// Whether the ledger records this end of a delivery. Giving up is recorded once, however often the delivery is retried by
/// hand. An accepted delivery is always recorded, and nothing follows it.
fn is_to_record(state: &DeliveryState, phase: DeliveryPhase, due: Option<Timestamp>) -> bool {
    match phase {
        DeliveryPhase::Delivered => true,
        _ => due.is_none() && state.settled_leaf.is_none(),
    }
}

/// The endpoint's health after an attempt, if it changed; and its turn, if its status changed.
fn health_after(
    endpoint_id: EndpointId,
    before: EndpointHealth,
    at: Timestamp,
    attempt: &Attempt,
    went_elsewhere: bool,
) -> (Option<Change>, Option<EndpointStatusChange>) {
    let health = health::after(before, at, attempt, went_elsewhere);
    let turned = (health.status != before.status).then_some(EndpointStatusChange {
        endpoint_id,
        from: before.status,
        health,
    });
    (Change::of_health(endpoint_id, before, health), turned)
}

/// Whether a failure uses up no step of the schedule: the endpoint is suspended, or the fault is ours and the schedule
/// began less than [`limits::OUR_FAULTS_FREE_MS`] ago.
fn is_uncharged(at: Timestamp, begun: Timestamp, attempt: &Attempt, suspended: bool) -> bool {
    let young = at.ms() - begun.ms() <= limits::OUR_FAULTS_FREE_MS;
    !attempt.delivered() && (suspended || (attempt.is_ours() && young))
}

/// When the next automatic attempt is due, in a schedule that began at `begun`.
fn next_attempt(
    at: Timestamp,
    begun: Timestamp,
    counted_attempts: u32,
    attempt: &Attempt,
    jitter: u64,
) -> Option<Timestamp> {
    let delay = Schedule::default().next_delay(counted_attempts as usize, attempt, jitter)?;
    let delay = i64::try_from(delay).unwrap_or(i64::MAX);
    if !(attempt.uncharged && attempt.is_ours()) {
        return Some(at.plus_ms(delay));
    }
    // The fault is ours: the longer the delivery has waited, the longer the pause before the next attempt.
    let waited = (at.ms() - begun.ms()).min(limits::OUR_FAULTS_FREE_MS);
    Some(at.plus_ms(delay.max(waited / 16)))
}

#[cfg(test)]
mod tests;
