//! The events of a booking: exactly those its facts cause, byte for byte.

use std::iter::repeat;

use sha2::{Digest as _, Sha256};

use super::page::Belongings;
use super::{CLOCK_SLACK_MS, Findings, delivery};
use crate::engine::change::{Content, Pruned};
use crate::evidence::facts::Logged;
use crate::evidence::{BookingState, Notification};
use crate::limits::RETENTION_MS;
use crate::model::{EventId, EventType, PartnerId, Timestamp};
use crate::policy::Resolution;
use crate::store::conn::{Row, StoreError};
use crate::store::load::{content, event_type};
use crate::webhook::body;

/// An event as stored.
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

/// What a fact causes: an event of this type, at this instant, which tells of this resolution if of any.
type Caused<'a> = (EventType, Timestamp, Option<&'a Resolution>);

/// The events that the facts of a booking cause, in their order.
fn caused(state: &BookingState) -> Vec<Caused<'_>> {
    let booking = &state.booking;
    let mut caused = vec![(EventType::BookingCreated, booking.created_at, None)];
    caused.extend((booking.protected_at).map(|at| (EventType::BookingProtected, at, None)));
    let resolutions = state.resolutions.iter().map(|logged| &logged.fact);
    caused.extend(resolutions.map(|r| (EventType::ResolutionCreated, r.made_at(), Some(r))));
    caused
}

/// Checks a booking's events and their deliveries.
pub(super) fn check_all(
    state: &BookingState,
    belongings: &Belongings<'_>,
    findings: &mut Findings,
) {
    let booking_id = state.booking.booking_id;
    let (mut types, mut told) = (Vec::new(), Vec::new());
    let expected = caused(state);
    for (row, cause) in belongings
        .events
        .iter()
        .zip(expected.iter().map(Some).chain(repeat(None)))
    {
        let event = match read(row, state, cause) {
            Ok(event) => event,
            Err(why) => {
                let place = format!("an event of booking {booking_id}");
                findings.add("event", place, format!("its row cannot be read: {why}"));
                continue;
            }
        };
        types.push(event.event_type);
        check(&event, state, cause.and_then(|cause| cause.2), findings);
        if let Content::Pruned(pruned) = &event.content {
            check_pruned(&event, pruned, state, findings);
        }
        let settled = (state.settled.iter()).filter(|n| n.fact.event_id == event.event_id);
        let settled: Vec<&Logged<Notification>> = settled.collect();
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
    let expected: Vec<EventType> = expected.iter().map(|cause| cause.0).collect();
    if types != expected {
        let words = |types: &[EventType]| {
            let words: Vec<&str> = types.iter().map(|kind| kind.word()).collect();
            words.join(", ")
        };
        findings.add(
            "event",
            format!("events of booking {booking_id}"),
            format!(
                "stored: {}; the ledger says: {}",
                words(&types),
                words(&expected)
            ),
        );
    }
}

fn read(
    row: &Row,
    state: &BookingState,
    cause: Option<&Caused<'_>>,
) -> Result<CheckedEvent, StoreError> {
    let event_type = event_type(row.int(4)?)?;
    // One that should not be is reported with the list of them.
    let cause = cause.filter(|cause| cause.0 == event_type);
    Ok(CheckedEvent {
        event_id: row.id(1)?,
        partner_id: row.id(2)?,
        seq: row.size(3)?,
        event_type,
        retries: row.size(5)?,
        content: content(row, 6)?,
        at: cause.map_or(state.booking.created_at, |cause| cause.1),
    })
}

fn check(
    event: &CheckedEvent,
    state: &BookingState,
    resolution: Option<&Resolution>,
    findings: &mut Findings,
) {
    let place = |field: &str| format!("event {} field {field}", event.event_id);
    findings.same(
        "event",
        || place("partner_id"),
        &event.partner_id,
        &state.booking.partner_id,
    );
    if event.event_id.made_at() != event.at {
        findings.add(
            "event",
            place("id"),
            format!(
                "it was made at {}, the ledger says {}",
                event.event_id.made_at(),
                event.at
            ),
        );
    }
    let Some(body) = event.content.body() else {
        return;
    };
    let url = |member| evidence_url(body, state, member);
    let expected = match event.event_type {
        EventType::BookingCreated => Some(body::created(event.event_id, &state.booking)),
        EventType::BookingProtected => url("evidencePacketUrl")
            .map(|url| body::protected(event.event_id, &state.booking, event.at, &url)),
        EventType::ResolutionCreated => resolution
            .zip(url("packetUrl"))
            .map(|(resolution, url)| body::resolved(event.event_id, resolution, &url)),
    };
    let expected = expected.map(|head| body::finish(&head, event.seq));
    if expected.as_ref().map(String::as_bytes) != Some(&**body) {
        findings.add(
            "event",
            place("body"),
            format!(
                "row says {}, ledger says {}",
                String::from_utf8_lossy(body),
                expected.as_deref().unwrap_or("that there is no such event")
            ),
        );
    }
}

/// What is left of a body: its hash, where the ledger alone says what the body was. The other types told an address, under a
/// name that went with the body.
fn check_pruned(
    event: &CheckedEvent,
    pruned: &Pruned,
    state: &BookingState,
    findings: &mut Findings,
) {
    let place = |field: &str| format!("event {} field {field}", event.event_id);
    if event.event_type == EventType::BookingCreated {
        let body = body::finish(&body::created(event.event_id, &state.booking), event.seq);
        let (row, ledger) = (
            hex::encode(pruned.digest),
            hex::encode(Sha256::digest(body)),
        );
        findings.same("event", || place("digest"), &row, &ledger);
    }
    if pruned.at.ms() - event.at.ms() < RETENTION_MS - CLOCK_SLACK_MS {
        let detail = format!("{} is too soon after the event, {}", pruned.at, event.at);
        findings.doubt("event", place("pruned_ms"), detail);
    }
}

/// The address of the evidence, as the event tells it: under which name the service was reached then is nobody's
/// knowledge, but the path is.
fn evidence_url(body: &[u8], state: &BookingState, member: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let url = body.get("payload")?.get(member)?.as_str()?;
    url.ends_with(&format!(
        "/v1/bookings/{}/evidence",
        state.booking.booking_id
    ))
    .then(|| url.to_owned())
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
