//! Webhook events, their deliveries, and manual retries.

pub mod log;
pub(crate) mod rule;

use crate::model::{BookingId, Delivery, DeliveryStatus, Event, EventId, PartnerId, Scope};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attempts::AttemptRecord;
use crate::engine::answers::ReplaceAnswer;
use crate::engine::change::Content;
use crate::engine::command::Envelope;
use crate::error::Error;
use crate::operation::{
    Action, Awaits, Operation, Request, Route, path_id, query, query_one, query_own, read,
    write_awaiting,
};
use crate::session::{Access, Session};
use crate::store::events::{Attempts, StoredDelivery, StoredEvent};
use crate::webhook::{Secret, sign_body};

/// `GET /v1/bookings/{bookingId}/webhook-events`
pub struct ListBookingEvents;

/// A booking's events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct BookingEvents {
    /// The booking.
    pub booking_id: BookingId,
    /// Its events, oldest first.
    pub webhook_events: Vec<Event>,
}

impl Operation for ListBookingEvents {
    const ROUTE: Route = Route {
        id: "listBookingWebhookEvents",
        path: "/v1/bookings/{bookingId}/webhook-events",
        access: Access::Scope(Scope::WebhooksRead),
        refusals: &[404],
        tag: "Webhooks",
        summary: "A booking's events and the state of their delivery",
        description: "Oldest first. `signature` is the x-service-signature of the delivered body under the partner's secret.",
        ..Route::GET
    };
    type Output = BookingEvents;

    fn prepare(_: &Session, request: &Request) -> Result<Action<BookingEvents>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        Ok(read::<Self>(move |session| {
            let owner = query_own(session, &booking_id, |reader, id| reader.booking_owner(id))?;
            let now = session.service.clock().now();
            let (events, secret) = query(session, |reader| {
                Ok((
                    reader.events_of(&booking_id, Attempts::Last)?,
                    reader.secret(&owner, now)?,
                ))
            })?;
            let secret = secret.ok_or_else(|| no_secret(owner))?;
            let webhook_events = events
                .iter()
                .map(|event| view(event, &secret))
                .collect::<Result<_, _>>()?;
            Ok(BookingEvents {
                booking_id,
                webhook_events,
            })
        }))
    }
}

fn no_secret(partner_id: PartnerId) -> Error {
    Error::internal(format!("partner {partner_id} has no signing secret"))
}

/// An event as listings show it.
pub(crate) fn view(event: &StoredEvent, secret: &Secret) -> Result<Event, Error> {
    let (payload, signature, pruned) = match &event.content {
        Content::Whole(body) => (payload(event, body)?, Some(sign_body(secret, body)), None),
        Content::Pruned(pruned) => (Value::Null, None, Some(pruned)),
    };
    let deliveries = event.deliveries.iter();
    let deliveries: Vec<Delivery> = deliveries
        .map(|stored| delivery(&event.event_id, stored))
        .collect();
    Ok(Event {
        event_id: event.event_id,
        partner_id: None,
        event_type: event.event_type,
        booking_id: event.booking_id,
        // An event happens when its id is made, to the millisecond.
        timestamp: event.event_id.made_at(),
        status: event.status(),
        payload,
        seq: event.seq,
        signature,
        pruned_at: pruned.map(|pruned| pruned.at),
        body_sha256: pruned.map(|pruned| hex::encode(pruned.digest)),
        retry_count: event.retries,
        next_attempt_at: deliveries
            .iter()
            .filter_map(|delivery| delivery.next_attempt_at)
            .min(),
        deliveries,
    })
}

fn payload(event: &StoredEvent, body: &[u8]) -> Result<Value, Error> {
    let envelope: Result<Value, _> = serde_json::from_slice(body);
    let mut envelope = envelope.map_err(|e| {
        Error::internal(format!(
            "the body of event {} cannot be read: {e}",
            event.event_id
        ))
    })?;
    Ok(envelope["payload"].take())
}

fn delivery(event_id: &EventId, stored: &StoredDelivery) -> Delivery {
    let last = stored.attempts.last();
    // A lease means that the attempt is being made now; its end is not the next attempt's time.
    let next = stored.state.due.filter(|_| stored.state.lease.is_none());
    Delivery {
        endpoint_id: stored.endpoint_id,
        url: stored.receiver(event_id).unwrap_or(&stored.url).to_owned(),
        status: stored.state.phase.into(),
        attempts: stored.state.attempts,
        progress: Some(stored.progress),
        next_attempt_at: next,
        last_status_code: last.and_then(|attempt| attempt.status_code),
        last_error: last
            .and_then(|attempt| attempt.class)
            .map(|class| class.to_string()),
    }
}

/// `GET /v1/webhook-events/{eventId}`
pub struct GetEvent;

/// An event with the attempts to deliver it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct EventWithAttempts {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// The latest 20 attempts at each delivery, by endpoint and number; empty once it was pruned.
    pub attempts: Vec<AttemptRecord>,
    /// The body exactly as it is sent, which `signature` is over; absent once the event was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

impl Operation for GetEvent {
    const ROUTE: Route = Route {
        id: "getWebhookEvent",
        path: "/v1/webhook-events/{eventId}",
        access: Access::Scope(Scope::WebhooksRead),
        refusals: &[404],
        tag: "Webhooks",
        summary: "One event with the attempts to deliver it",
        description: "Each attempt says how far it got, why it failed and what was answered. The latest 20 at each endpoint are shown. Once an event is older than the \
                      server's `retention_days` (90 by default) and none of its deliveries waits, or its booking's data were erased, its payload and attempts are \
                      deleted: `payload` is null, `signature` and `body` are absent, `prunedAt` says since when, and `bodySha256` \
                      identifies the body.",
        ..Route::GET
    };
    type Output = EventWithAttempts;

    fn prepare(_: &Session, request: &Request) -> Result<Action<EventWithAttempts>, Error> {
        let event_id: EventId = path_id(request, 0)?;
        Ok(read::<Self>(move |session| {
            let event = owned(session, &event_id, Attempts::Latest)?;
            let now = session.service.clock().now();
            let secret = query_one(session, |reader| reader.secret(&event.partner_id, now))?
                .ok_or_else(|| no_secret(event.partner_id))?;
            let attempts = event
                .deliveries
                .iter()
                .flat_map(|delivery| {
                    delivery
                        .numbered()
                        .map(|(n, attempt)| AttemptRecord::of(delivery.endpoint_id, n, attempt))
                })
                .collect();
            let body = event.content.body();
            let body = body.map(|body| String::from_utf8_lossy(body).into_owned());
            Ok(EventWithAttempts {
                event: view(&event, &secret)?,
                attempts,
                body,
            })
        }))
    }
}

fn owned(session: &Session, event_id: &EventId, attempts: Attempts) -> Result<StoredEvent, Error> {
    query(session, |reader| reader.event(event_id, attempts))?
        .filter(|event| session.may_see(&event.partner_id))
        .ok_or_else(|| Error::not_found("webhook event"))
}

/// `POST /v1/webhook-events/{eventId}/retry`
#[derive(Debug)]
pub struct RetryEvent {
    pub(crate) partner_id: PartnerId,
    pub(crate) event_id: EventId,
    /// The id of the leases of the deliveries taken.
    pub(crate) lease: i64,
}

impl Operation for RetryEvent {
    const ROUTE: Route = Route {
        id: "retryWebhookEvent",
        path: "/v1/webhook-events/{eventId}/retry",
        access: Access::Scope(Scope::WebhooksWrite),
        refusals: &[404, 409],
        tag: "Webhooks",
        summary: "Deliver an event once more, now",
        description: "Attempts every open delivery of the event at once and waits up to ten seconds for the outcome; `pending` means \
                      that it is not known yet. An endpoint that has not accepted anything yet gets one delivery at a time, ten \
                      seconds apart at least, those retried by hand included: until its turn comes, the answer is `pending`. \
                      Sixteen retries of a partner wait at a time on one node; the answer to others is `pending` at once. If this attempt fails too, automatic attempts continue as scheduled. An event that had no endpoint is delivered to the current ones. An event whose payload was deleted (`prunedAt`), because it was too old or its booking's data were erased, \
                      answers 409 `event_pruned`.",
        ..Route::POST
    };
    type Output = RetryResult;

    fn prepare(session: &Session, request: &Request) -> Result<Action<RetryResult>, Error> {
        let event_id: EventId = path_id(request, 0)?;
        let owner = owned(session, &event_id, Attempts::None)?.partner_id;
        let retry = Self {
            partner_id: owner,
            event_id,
            lease: session.service.lease(),
        };
        let at = session.service.clock().now();
        Ok(write_awaiting(at, retry, Awaits::Outcome(owner, event_id)))
    }
}

/// The result of a manual retry; `None` while one of the event's deliveries is still being attempted.
///
/// # Errors
/// `not_found`, `erasures_pending`, `unavailable`.
pub fn retry_outcome(session: &Session, event_id: &EventId) -> Result<Option<RetryResult>, Error> {
    let event = owned(session, event_id, Attempts::None)?;
    let now = session.service.clock().now();
    // Leased, or due and about to be.
    let in_flight = event.deliveries.iter().any(|delivery| {
        delivery.state.lease.is_some() || delivery.due.is_some_and(|due| due <= now)
    });
    Ok((!in_flight).then(|| RetryResult {
        event_id: *event_id,
        retry_status: event.status().into(),
        retry_count: event.retries,
    }))
}

/// The command that replaces a retry's remembered answer with the one that was sent.
pub fn replace_answer(session: &Session, key: [u8; 32], body: &[u8]) -> Envelope<()> {
    let answer = session.service.seal().seal(&key, body);
    Envelope::new(session.service.clock().now(), ReplaceAnswer { key, answer })
}

/// What came of a manual retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct RetryResult {
    /// The event's id.
    pub event_id: EventId,
    /// The outcome.
    pub retry_status: RetryStatus,
    /// Manual retries of the event so far, this one included.
    pub retry_count: u32,
}

/// The outcome of a manual retry: `pending` if it is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "snake_case")]
pub enum RetryStatus {
    /// It is not known yet.
    Pending,
    /// Every endpoint has the event.
    Delivered,
    /// An endpoint did not accept the event.
    Failed,
}

impl From<DeliveryStatus> for RetryStatus {
    fn from(status: DeliveryStatus) -> Self {
        match status {
            DeliveryStatus::Pending => Self::Pending,
            DeliveryStatus::Delivered => Self::Delivered,
            // A retry that no endpoint takes is refused.
            DeliveryStatus::Failed | DeliveryStatus::NoEndpoints => Self::Failed,
        }
    }
}
