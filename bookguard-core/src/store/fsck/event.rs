//! The events of a booking: exactly those its facts cause, byte for byte.

use sha2::{Digest as _, Sha256};

use super::booking::Story;
use super::page::Belongings;
use super::{CLOCK_SLACK_MS, Findings, delivery};
use crate::engine::change::{Content, Pruned};
use crate::evidence::Notification;
use crate::evidence::rebuild::Ended;
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

impl CheckedEvent {
    /// `resolution` is the one this event tells of, if it is an event of that kind.
    fn read(
        row: &Row,
        story: &Story<'_>,
        resolution: Option<&Resolution>,
    ) -> Result<Self, StoreError> {
        let event_type = event_type(row.int(4)?)?;
        Ok(Self {
            event_id: row.id(1)?,
            partner_id: row.id(2)?,
            seq: row.size(3)?,
            event_type,
            retries: row.size(5)?,
            content: content(row, 6)?,
            at: match event_type {
                EventType::BookingCreated => Some(story.created_at),
                EventType::BookingProtected => story.protected_at,
                EventType::ResolutionCreated => resolution.map(Resolution::made_at),
            }
            // One that should not be is reported with the list of them.
            .unwrap_or(story.created_at),
        })
    }
}

/// Checks a booking's events and their deliveries.
pub(super) fn check_all(story: &Story<'_>, belongings: &Belongings<'_>, findings: &mut Findings) {
    let (mut types, mut told) = (Vec::new(), Vec::new());
    let mut resolutions = story.ended.iter().flat_map(Ended::resolutions);
    for row in belongings.events {
        let resolution = match row.int(4).and_then(event_type) {
            Ok(EventType::ResolutionCreated) => resolutions.next(),
            _ => None,
        };
        let event = match CheckedEvent::read(row, story, resolution) {
            Ok(event) => event,
            Err(why) => {
                let place = format!("an event of booking {}", story.booking_id);
                findings.add("event", place, format!("its row cannot be read: {why}"));
                continue;
            }
        };
        types.push(event.event_type);
        check(&event, story, resolution, findings);
        if let Content::Pruned(pruned) = &event.content {
            check_pruned(&event, pruned, story, findings);
        }
        let settled = (story.settled.iter()).filter(|(_, n)| n.event_id == event.event_id);
        let settled: Vec<&(u64, Notification)> = settled.collect();
        delivery::check_all(&event, &settled, belongings, findings);
        told.push(event.event_id);
    }
    for (index, n) in &story.settled {
        if !told.contains(&n.event_id) {
            let place = format!("event {}", n.event_id);
            let detail = format!("entry {index} says how a delivery of it ended; it is not there");
            findings.add("event", place, detail);
        }
    }
    let mut expected = vec![EventType::BookingCreated];
    expected.extend(story.protected_at.map(|_| EventType::BookingProtected));
    let ended = story.ended.iter().flat_map(Ended::resolutions);
    expected.extend(ended.map(|_| EventType::ResolutionCreated));
    if types != expected {
        let words = |types: &[EventType]| {
            let words: Vec<&str> = types.iter().map(|kind| kind.word()).collect();
            words.join(", ")
        };
        findings.add(
            "event",
            format!("events of booking {}", story.booking_id),
            format!(
                "stored: {}; the ledger says: {}",
                words(&types),
                words(&expected)
            ),
        );
    }
}

fn check(
    event: &CheckedEvent,
    story: &Story<'_>,
    resolution: Option<&Resolution>,
    findings: &mut Findings,
) {
    let place = |field: &str| format!("event {} field {field}", event.event_id);
    findings.same(
        "event",
        || place("partner_id"),
        &event.partner_id,
        &story.partner_id,
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
    let url = |member| evidence_url(body, story, member);
    let expected = match event.event_type {
        EventType::BookingCreated => Some(created(event, story)),
        EventType::BookingProtected => url("evidencePacketUrl").map(|url| {
            body::protected_of(
                event.event_id,
                story.booking_id,
                story.partner_id,
                event.at,
                &url,
            )
        }),
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

fn created(event: &CheckedEvent, story: &Story<'_>) -> String {
    body::created_of(
        event.event_id,
        story.booking_id,
        story.partner_id,
        event.at,
        story.value,
    )
}

/// What is left of a body: its hash, where the ledger alone says what the body was. The other types told an address, under a
/// name that went with the body.
fn check_pruned(event: &CheckedEvent, pruned: &Pruned, story: &Story<'_>, findings: &mut Findings) {
    let place = |field: &str| format!("event {} field {field}", event.event_id);
    if event.event_type == EventType::BookingCreated {
        let body = body::finish(&created(event, story), event.seq);
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
fn evidence_url(body: &[u8], story: &Story<'_>, member: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let url = body.get("payload")?.get(member)?.as_str()?;
    url.ends_with(&format!("/v1/bookings/{}/evidence", story.booking_id))
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
