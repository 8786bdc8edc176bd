//! Manual retries: open deliveries are attempted now, or when their turn comes. If there is none, the event goes to the
//! current endpoints.

use crate::engine::batch::{BatchState, EventState, PartnerState};
use crate::engine::change::{Change, Content, DeliveryPhase, DeliveryState};
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::features::deliveries::rule::{fresh_delivery, hold, in_flight};
use crate::features::endpoints::health;
use crate::features::events::{RetryEvent, RetryResult, RetryStatus};
use crate::limits;
use crate::model::{DeliveryStatus, Endpoint, EndpointId, EventId, Timestamp};

impl Command for RetryEvent {
    type Reply = RetryResult;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.events.push(self.event_id);
        needs.deliveries.push(self.event_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<RetryResult> {
        let (partner_id, event_id) = (self.partner_id, self.event_id);
        let event = batch
            .events
            .get(&event_id)
            .filter(|event| event.partner_id == partner_id)
            .ok_or_else(|| Error::not_found("webhook event"))?;
        let partner = batch
            .partners
            .get(&partner_id)
            .ok_or_else(|| Error::not_found("webhook event"))?;
        if let Content::Pruned(pruned) = &event.content {
            return Err(conflict!(
                "event_pruned",
                "The payload of event {event_id} was deleted at {}, because it was too old or its booking's data were erased; it cannot be delivered any more. What happened is in the evidence packet of its booking: GET /v1/bookings/{{bookingId}}/evidence.",
                pruned.at
            ));
        }
        if event.retries >= limits::MANUAL_RETRIES {
            return Err(conflict!(
                "too_many_retries",
                "Event {event_id} was retried by hand {} times, the most allowed. Read it from the log instead: GET \
                 /v1/webhook-events/{event_id}, which says whether an automatic attempt follows.",
                event.retries
            ));
        }
        let retry = Retry {
            batch,
            at,
            event_id,
            lease: self.lease,
        };
        let mut changes = retry.pull_forward(partner, event)?;
        if changes.is_none() {
            changes = retry.deliver_anew(partner, event)?;
        }
        let Some(mut changes) = changes else {
            return Err(retry.refusal(partner, event));
        };
        let woken = retry.wake(partner, &changes);
        changes.extend(woken);
        let retries = event.retries + 1;
        changes.push(Change::EventRetried(event_id, retries));
        let reply = RetryResult {
            event_id,
            retry_status: RetryStatus::Pending,
            retry_count: retries,
        };
        Ok((changes, reply))
    }
}

/// One manual retry.
struct Retry<'a> {
    batch: &'a BatchState,
    at: Timestamp,
    event_id: EventId,
    lease: i64,
}

impl Retry<'_> {
    /// Makes due every open delivery that is not being attempted right now. Returns `None` if no open delivery has an
    /// enabled endpoint.
    ///
    /// A delivery in flight is left alone: the retry waits for its outcome, and a second request would only be a duplicate.
    fn pull_forward(
        &self,
        partner: &PartnerState,
        event: &EventState,
    ) -> Result<Option<Vec<Change>>, Error> {
        let known = event.endpoints.iter().filter_map(|endpoint_id| {
            let state = self.batch.deliveries.get(&(self.event_id, *endpoint_id))?;
            Some((endpoint_id, state))
        });
        let deliveries: Vec<(&EndpointId, &DeliveryState)> = known.collect();
        let is_open = |state: &DeliveryState| state.phase != DeliveryPhase::Delivered;
        if !deliveries.is_empty() && !deliveries.iter().any(|(_, state)| is_open(state)) {
            return Err(self.already_delivered());
        }
        let can_go = |(endpoint_id, state): &(&EndpointId, &DeliveryState)| {
            let endpoint = partner.endpoint(endpoint_id);
            is_open(state) && !state.is_exhausted() && endpoint.is_some_and(|e| e.enabled)
        };
        let open: Vec<_> = deliveries.into_iter().filter(can_go).collect();
        if open.is_empty() {
            return Ok(None);
        }
        let idle = open.into_iter();
        let idle = idle.filter(|(_, state)| !in_flight(state, self.at));
        let taken = idle.map(|(endpoint_id, state)| self.take(partner, *endpoint_id, *state));
        Ok(Some(taken.collect()))
    }

    fn already_delivered(&self) -> Error {
        conflict!(
            "event_already_delivered",
            "Event {} was delivered to every endpoint that still exists; there is nothing to retry.",
            self.event_id
        )
    }

    /// Why the event can be sent to no endpoint.
    fn refusal(&self, partner: &PartnerState, event: &EventState) -> Error {
        let event_id = self.event_id;
        let state = |endpoint_id: &EndpointId| self.batch.deliveries.get(&(event_id, *endpoint_id));
        let status = DeliveryStatus::of_event(event.endpoints.iter().filter_map(|endpoint_id| {
            let exists = partner.endpoint(endpoint_id).is_some();
            Some((state(endpoint_id)?.phase.into(), exists))
        }));
        if status == DeliveryStatus::Delivered {
            return self.already_delivered();
        }
        let mut states = event.endpoints.iter().filter_map(state);
        if states.any(|state| state.phase != DeliveryPhase::Delivered && state.is_exhausted()) {
            return conflict!(
                "too_many_retries",
                "Event {event_id} was attempted {} times, the most allowed. Read it from the log instead: GET /v1/webhook-events/{event_id}.",
                limits::ATTEMPTS_PER_DELIVERY
            );
        }
        let lacks_it = |endpoint: &&Endpoint| {
            state(&endpoint.endpoint_id).map_or(endpoint.subscribes(event.event_type), |state| {
                state.phase != DeliveryPhase::Delivered
            })
        };
        // An enabled one would have got it.
        let disabled = partner.endpoints.iter().filter(lacks_it);
        let disabled: Vec<String> = disabled.map(|e| e.endpoint_id.to_string()).collect();
        let message = match disabled.is_empty() {
            true => format!(
                "No webhook endpoint takes events of type {}. Add one with POST /v1/webhook-endpoints, or let one take them: its \
                 \"events\", with PATCH /v1/webhook-endpoints/{{endpointId}}. Then retry.",
                event.event_type.word()
            ),
            false => format!(
                "Every webhook endpoint that lacks event {event_id} is disabled or gone: {}. Bring one back: \
                 PATCH /v1/webhook-endpoints/{{endpointId}} with {{\"enabled\": true}}. Or add another with POST /v1/webhook-endpoints. Then retry.",
                disabled.join(", ")
            ),
        };
        Error::conflict("no_endpoints", message)
    }

    /// Makes the delivery due. A manual attempt does not count as one of the schedule's: the schedule continues from the
    /// step it had reached. A delivery that is already due and waits for its turn does not come sooner.
    fn take(
        &self,
        partner: &PartnerState,
        endpoint_id: EndpointId,
        state: DeliveryState,
    ) -> Change {
        let counted_attempts = match state.due {
            Some(due) if due > self.at => state.counted_attempts.saturating_sub(1),
            _ => state.counted_attempts,
        };
        let (due, lease) = self.hold(partner, endpoint_id);
        let state = DeliveryState {
            counted_attempts,
            due: Some(due),
            since: Some(self.at),
            lease,
            ..state
        };
        Change::DeliveryUpdated((self.event_id, endpoint_id), state)
    }

    /// Leases the delivery like any other. Retries to an unverified address wait for their turn instead: otherwise a
    /// partner could send any amount to a stranger's address.
    fn hold(&self, partner: &PartnerState, endpoint_id: EndpointId) -> (Timestamp, Option<i64>) {
        let endpoint = partner.endpoint(&endpoint_id);
        match endpoint.is_some_and(|endpoint| endpoint.unverified_since.is_some()) {
            true => (self.at, None),
            false => hold(self.batch, self.at, endpoint_id, self.lease),
        }
    }

    /// Wakes the suspended endpoints of deliveries left without a lease. A verified endpoint may be tried now, like a
    /// leased delivery's; an unverified one after a short pause.
    fn wake(&self, partner: &PartnerState, changes: &[Change]) -> Vec<Change> {
        let is_left = |endpoint_id: EndpointId| {
            changes.iter().any(|change| match change {
                Change::DeliveryUpdated((_, id), state) | Change::DeliveryAdded((_, id), state) => {
                    *id == endpoint_id && state.lease.is_none()
                }
                _ => false,
            })
        };
        let left = partner.endpoints.iter();
        let left = left.filter(|endpoint| is_left(endpoint.endpoint_id));
        let woken = left.filter_map(|endpoint| {
            let before = endpoint.health();
            Change::of_health(endpoint.endpoint_id, before, health::woken(before, self.at))
        });
        woken.collect()
    }

    /// Creates deliveries to the current endpoints that have had none of this event; `None` if there is no such endpoint.
    /// Every packet of the booking holds all of the event's deliveries and how they ended, so their number has a maximum.
    fn deliver_anew(
        &self,
        partner: &PartnerState,
        event: &EventState,
    ) -> Result<Option<Vec<Change>>, Error> {
        let new = partner.receivers(event.event_type).into_iter();
        let new = new.filter(|endpoint| !event.endpoints.contains(&endpoint.endpoint_id));
        let added = new.map(|endpoint| {
            let hands = self.hold(partner, endpoint.endpoint_id);
            let name = (self.event_id, endpoint.endpoint_id);
            Change::DeliveryAdded(name, fresh_delivery(self.at, hands, Some(self.at)))
        });
        let changes: Vec<Change> = added.collect();
        if event.endpoints.len() + changes.len() > limits::DELIVERIES_PER_EVENT {
            return Err(conflict!(
                "too_many_deliveries",
                "Event {} was sent to {} endpoints; an event goes to at most {}. Read it from the log instead: GET \
                 /v1/webhook-events/{}.",
                self.event_id,
                event.endpoints.len(),
                limits::DELIVERIES_PER_EVENT,
                self.event_id
            ));
        }
        Ok((!changes.is_empty()).then_some(changes))
    }
}

#[cfg(test)]
mod tests;
