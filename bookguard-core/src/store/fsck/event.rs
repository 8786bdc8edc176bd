//! Checks a booking's events: they must be exactly those its facts cause, byte for byte.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::page::BookingRows;
use super::{CLOCK_SLACK_MS, Findings, delivery};
use crate::engine::change::{Content, EventRow, Pruned};
use crate::evidence::BookingState;
use crate::evidence::facts::Logged;
use crate::limits::RETENTION_MS;
use crate::model::{EventId, EventType, PartnerId, Timestamp};
use crate::policy::Resolution;
use crate::store::conn::{Arg, Row, StoreError};
use crate::store::load::{content, event_type};
use crate::store::projection;
use crate::webhook::body;

/// A stored event.
pub(super) struct CheckedEvent {
    pub event_id: EventId,
    pub partner_id: PartnerId,
    pub seq: u64,
    pub event_type: EventType,
    pub retries: u64,
    pub content: Content,
    /// When it happened.
    pub at: Timestamp,
}

/// What a fact causes: an event of this type, at this instant, which reports this resolution, if any.
struct Cause<'a> {
    event_type: EventType,
    at: Timestamp,
    resolution: Option<&'a Resolution>,
}

/// The events that a booking's facts cause, in order.
fn causes(state: &BookingState) -> Vec<Cause<'_>> {
    let cause = |event_type, at, resolution| Cause {
        event_type,
        at,
        resolution,
    };
    let booking = &state.booking;
    let mut causes = vec![cause(EventType::BookingCreated, booking.created_at, None)];
    let protected = booking.protected_at;
    causes.extend(protected.map(|at| cause(EventType::BookingProtected, at, None)));
    let resolutions = state.resolutions.iter().map(|logged| &logged.fact);
    causes.extend(resolutions.map(|r| cause(EventType::ResolutionCreated, r.made_at(), Some(r))));
    causes
}

/// Checks a booking's events and their deliveries.
pub(super) fn check_all(
    state: &BookingState,
    belongings: &BookingRows<'_>,
    findings: &mut Findings,
) {
    let booking_id = state.booking.booking_id;
    let (rows, causes) = (belongings.events, causes(state));
    if rows.len() != causes.len() {
        let detail = format!(
            "{} are stored, the ledger says {}",
            rows.len(),
            causes.len()
        );
        findings.add("event", format!("events of booking {booking_id}"), detail);
    }
    let mut told = Vec::new();
    for (row, cause) in rows.iter().zip(&causes) {
        let event = match read(row, cause) {
            Ok(event) => event,
            Err(why) => {
                let place = format!("an event of booking {booking_id}");
                findings.add("event", place, format!("its row cannot be read: {why}"));
                continue;
            }
        };
        compare(row, &event, state, cause, findings);
        let settled = (state.settled.iter()).filter(|n| n.fact.event_id == event.event_id);
        let settled: Vec<_> = settled.collect();
        delivery::check_all(&event, &settled, belongings, findings);
        told.push(event.event_id);
    }
    for Logged { place, fact } in &state.settled {
        if !told.contains(&fact.event_id) {
            let index = place.index;
            let place = format!("event {}", fact.event_id);
            let detail = format!("entry {index} says how a delivery of it ended; it is not there");
            findings.add("event", place, detail);
        }
    }
}

/// Reads an event's row, which has the columns of [`projection::EVENT`] and the number of retries.
fn read(row: &Row, cause: &Cause<'_>) -> Result<CheckedEvent, StoreError> {
    Ok(CheckedEvent {
        event_id: row.id(0)?,
        partner_id: row.id(1)?,
        seq: row.size(2)?,
        event_type: event_type(row.int(4)?)?,
        content: content(row, 5)?,
        retries: row.size(8)?,
        at: cause.at,
    })
}

/// Compares an event's row with the event that its cause produces.
fn compare(
    row: &Row,
    event: &CheckedEvent,
    state: &BookingState,
    cause: &Cause<'_>,
    findings: &mut Findings,
) {
    let thing = format!("event {}", event.event_id);
    let made_at = event.event_id.made_at();
    if made_at != event.at {
        let detail = format!("it was made at {made_at}, the ledger says {}", event.at);
        findings.add("event", format!("{thing} field id"), detail);
    }
    let told = told(event, state, cause);
    let mut said = projection::event(&told).to_vec();
    match &event.content {
        Content::Whole(_) => {
            said.extend([Arg::Null, Arg::Null]);
            findings.compare("event", &thing, row, &projection::EVENT, &said);
        }
        Content::Pruned(pruned) => {
            let left = left(pruned, &told);
            if let Some(body) = said.last_mut() {
                *body = Arg::Null;
            }
            said.extend(projection::pruned(&left));
            findings.compare("event", &thing, row, &projection::EVENT, &said);
            if pruned.at.ms() - event.at.ms() < RETENTION_MS - CLOCK_SLACK_MS {
                let detail = format!("{} is too soon after the event, {}", pruned.at, event.at);
                findings.doubt("event", format!("{thing} field pruned_ms"), detail);
            }
        }
    }
}

/// The event that the cause produces, with the stored id and number, and with the address of the evidence as the event
/// gave it.
fn told(event: &CheckedEvent, state: &BookingState, cause: &Cause<'_>) -> EventRow {
    let (event_id, booking) = (event.event_id, &state.booking);
    let url = |member| evidence_url(event, state, member);
    let head = match (cause.event_type, cause.resolution) {
        (EventType::BookingProtected, _) => {
            body::protected(event_id, booking, cause.at, &url("evidencePacketUrl"))
        }
        (EventType::ResolutionCreated, Some(r)) => body::resolved(event_id, r, &url("packetUrl")),
        _ => body::created(event_id, booking),
    };
    EventRow {
        event_id,
        partner_id: booking.partner_id,
        seq: event.seq,
        booking_id: booking.booking_id,
        event_type: cause.event_type,
        body: Arc::from(body::finish(&head, event.seq).into_bytes()),
    }
}

/// What must be left of a pruned body. For `booking.created` the ledger determines the body and so its hash. The bodies
/// of the other types contained an address whose host name was lost with them, so their stored hash is accepted.
fn left(pruned: &Pruned, told: &EventRow) -> Pruned {
    match told.event_type {
        EventType::BookingCreated => Pruned {
            digest: Sha256::digest(&told.body).into(),
            ..*pruned
        },
        _ => *pruned,
    }
}

/// The address of the evidence in the event's body. The host name under which the service was reached then is unknown,
/// but the path is known.
fn evidence_url(event: &CheckedEvent, state: &BookingState, member: &str) -> String {
    let path = format!("/v1/bookings/{}/evidence", state.booking.booking_id);
    let body = event.content.body().map(|body| &**body);
    let body = body.and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
    let url = body
        .as_ref()
        .and_then(|body| body["payload"][member].as_str());
    url.filter(|url| url.ends_with(&path))
        .unwrap_or(&path)
        .to_owned()
}

impl CheckedEvent {
    /// Whether the event happened clearly after an instant of another command.
    pub fn clearly_after(&self, at: Timestamp) -> bool {
        self.at.ms() - at.ms() > CLOCK_SLACK_MS
    }

    /// Whether the event happened clearly before an instant of another command.
    pub fn clearly_before(&self, at: Timestamp) -> bool {
        at.ms() - self.at.ms() > CLOCK_SLACK_MS
    }
}
