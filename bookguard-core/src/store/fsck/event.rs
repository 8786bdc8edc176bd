//! Checks events: those of a booking must be exactly those its facts cause, byte for byte.
//!
//! Facts of some kinds cause an event only if an endpoint lists its type, so such an event may be missing.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::page::{BookingRows, ExpiringKey, Receiver};
use super::{CLOCK_SLACK_MS, Findings, delivery};
use crate::engine::change::{Content, EventRow, Pruned};
use crate::evidence::facts::Logged;
use crate::evidence::{Acceptance, BookingState, RescheduleFact};
use crate::limits::{RETENTION_MS, SUSPENDED_AFTER_MS, WARNING_FAILURES};
use crate::model::{ApiKeyId, BookingId, EndpointId, EventId, EventType, PartnerId, Timestamp};
use crate::policy::Resolution;
use crate::store::conn::{Arg, Row, StoreError};
use crate::store::load::{content, event_type};
use crate::store::projection;
use crate::webhook::body::{self, Expiry, Suspension};

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
    /// Whether its body may have gone early, because values of its booking were erased.
    pub is_erased: bool,
}

/// What caused an event of a booking, and when.
struct Cause<'a> {
    fact: CausingFact<'a>,
    at: Timestamp,
}

/// The fact that an event reports, with the values that its body shows.
#[derive(Clone, Copy)]
enum CausingFact<'a> {
    Created,
    Protected,
    Resolved(&'a Resolution),
    Rescheduled(&'a RescheduleFact),
    Accepted(&'a Acceptance),
    Decided(&'a Resolution),
}

impl Cause<'_> {
    fn event_type(&self) -> EventType {
        match self.fact {
            CausingFact::Created => EventType::BookingCreated,
            CausingFact::Protected => EventType::BookingProtected,
            CausingFact::Resolved(_) => EventType::ResolutionCreated,
            CausingFact::Rescheduled(_) => EventType::BookingRescheduled,
            CausingFact::Accepted(_) => EventType::TermsAccepted,
            CausingFact::Decided(_) => EventType::ResolutionDecided,
        }
    }
}

/// The events that a booking's facts cause, in order.
fn causes(state: &BookingState) -> Vec<Cause<'_>> {
    let cause = |fact, at| Cause { fact, at };
    let booking = &state.booking;
    let mut causes = vec![cause(CausingFact::Created, booking.created_at)];
    let protected = booking.protected_at;
    causes.extend(protected.map(|at| cause(CausingFact::Protected, at)));
    let resolutions = state.resolutions.iter().map(|logged| &logged.fact);
    causes.extend(resolutions.map(|r| cause(CausingFact::Resolved(r), r.made_at())));
    causes
}

/// The events that its facts cause if an endpoint lists their type.
fn listed_causes(state: &BookingState) -> Vec<Cause<'_>> {
    let cause = |fact, at| Cause { fact, at };
    let moves = state.reschedules.iter().map(|logged| &logged.fact);
    let moves = moves.map(|fact| cause(CausingFact::Rescheduled(fact), fact.rescheduled_at));
    let accepted = state.acceptances.iter().map(|logged| &logged.fact);
    let accepted = accepted.map(|fact| cause(CausingFact::Accepted(fact), fact.accepted_at));
    let resolutions = state.resolutions.iter().map(|logged| &logged.fact);
    let decided = resolutions.filter(|resolution| resolution.decision.is_some());
    let decided = decided.map(|r| cause(CausingFact::Decided(r), r.made_at()));
    moves.chain(accepted).chain(decided).collect()
}

/// Checks a booking's events and their deliveries.
pub(super) fn check_all(
    state: &BookingState,
    belongings: &BookingRows<'_>,
    findings: &mut Findings,
) {
    let booking_id = state.booking.booking_id;
    let is_recorded = |row: &&Row| {
        let known = row.int(4).and_then(event_type);
        known.map_or(true, |event_type| event_type.recorded().is_some())
    };
    let (rows, listed): (Vec<&Row>, Vec<&Row>) = belongings.events.iter().partition(is_recorded);
    let causes = causes(state);
    if rows.len() != causes.len() {
        let detail = format!(
            "{} are stored, the ledger says {}",
            rows.len(),
            causes.len()
        );
        findings.add("event", format!("events of booking {booking_id}"), detail);
    }
    let mut told = Vec::new();
    let mut check = |row: &Row, cause: &Cause<'_>, findings: &mut Findings| {
        let event = match read(row, cause.at) {
            Ok(event) => CheckedEvent {
                is_erased: !state.erasures.is_empty(),
                ..event
            },
            Err(why) => {
                let place = format!("an event of booking {booking_id}");
                findings.add("event", place, format!("its row cannot be read: {why}"));
                return;
            }
        };
        compare(row, &event, &told_of(&event, state, cause), findings);
        let settled = (state.settled.iter()).filter(|n| n.fact.event_id == event.event_id);
        let settled: Vec<_> = settled.collect();
        delivery::check_all(&event, &settled, belongings, findings);
        told.push(event.event_id);
    };
    for (row, cause) in rows.iter().zip(&causes) {
        check(row, cause, findings);
    }
    let mut untold = listed_causes(state);
    for row in listed {
        let is_cause = |cause: &Cause<'_>| {
            let made_at = row.id(0).map(|id: EventId| id.made_at());
            row.int(4) == Ok(cause.event_type() as i64) && made_at == Ok(cause.at)
        };
        match untold.iter().position(is_cause) {
            Some(at) => check(row, &untold.remove(at), findings),
            None => {
                let place = format!("an event of booking {booking_id}");
                let detail = "according to the ledger, what it reports did not happen at that time";
                findings.add("event", place, detail);
            }
        }
    }
    for cause in untold {
        not_made(state, &cause, belongings, findings);
    }
    for Logged { place, fact } in &state.settled {
        if !told.contains(&fact.event_id) {
            let index = place.index;
            let place = format!("event {}", fact.event_id);
            let detail =
                format!("it is missing, but entry {index} says how a delivery of it ended");
            findings.add("event", place, detail);
        }
    }
}

/// Warns if an endpoint listed the type when the cause happened, and there is no event.
fn not_made(
    state: &BookingState,
    cause: &Cause<'_>,
    belongings: &BookingRows<'_>,
    findings: &mut Findings,
) {
    let (booking, event_type) = (&state.booking, cause.event_type());
    let mut receivers = belongings.receivers(&booking.partner_id).iter();
    let listens = |receiver: &&Receiver| {
        receiver.status.takes_events() && receiver.takes_from_then(event_type, cause.at)
    };
    if let Some(receiver) = receivers.find(listens) {
        let place = format!(
            "{} of booking {} at {}",
            event_type.word(),
            booking.booking_id,
            cause.at
        );
        let detail = format!(
            "it is missing: endpoint {} takes such events and was there when this one happened",
            receiver.endpoint_id
        );
        findings.doubt("event", place, detail);
    }
}

/// Checks an event that is about no booking, and its deliveries. The ledger does not know it: its body must be as Bookguard
/// writes it, and tell nothing that could not have happened.
pub(super) fn check_without_booking(
    row: &Row,
    belongings: &BookingRows<'_>,
    findings: &mut Findings,
) {
    let event = row.id(0).and_then(|id: EventId| read(row, id.made_at()));
    let event = match event {
        Ok(event) => event,
        Err(why) => {
            let detail = format!("its row cannot be read: {why}");
            return findings.add("event", "an event without a booking", detail);
        }
    };
    let head = told_without_booking(&event, belongings).unwrap_or_else(|why| {
        findings.add("event", format!("event {}", event.event_id), why);
        String::new()
    });
    if !head.is_empty() {
        compare(row, &event, &stored_as(&event, None, &head), findings);
    }
    delivery::check_all(&event, &[], belongings, findings);
}

/// The head of the body of such an event, from what it says.
fn told_without_booking(
    event: &CheckedEvent,
    belongings: &BookingRows<'_>,
) -> Result<String, &'static str> {
    let (event_id, event_type) = (event.event_id, event.event_type);
    if !matches!(
        event_type,
        EventType::EndpointSuspended | EventType::ApiKeyExpiring
    ) {
        return Err("events of its type are about a booking, and it names none");
    }
    let Some(payload) = event.payload() else {
        return match event.content {
            Content::Whole(_) => Err("its body cannot be read"),
            Content::Pruned(_) => Ok(body::without_booking(event_id, event_type, &Value::Null)),
        };
    };
    if event_type == EventType::ApiKeyExpiring {
        let expiry: Expiry = serde_json::from_value(payload)
            .map_err(|_| "its body does not say which key will expire")?;
        if expiry.expires_at < event.at {
            return Err("the key had already expired when the event happened");
        }
        // A key that was rotated since ends earlier.
        let is_it = |key: ExpiringKey| {
            key.partner_id == event.partner_id && key.expires_at <= expiry.expires_at
        };
        if !belongings.key(&expiry.api_key_id).is_some_and(is_it) {
            return Err("its partner has no key that expires then");
        }
        return Ok(body::expiring(event_id, event.partner_id, &expiry));
    }
    let suspension: Suspension =
        serde_json::from_value(payload).map_err(|_| "its body does not say what was suspended")?;
    let mut receivers = belongings.receivers(&event.partner_id).iter();
    let known = receivers.any(|receiver| receiver.endpoint_id == suspension.endpoint_id);
    let long = event.at.ms() - suspension.failing_since.ms();
    if !known {
        return Err("the endpoint that was suspended is not one of its partner");
    }
    if suspension.failures < WARNING_FAILURES || long < SUSPENDED_AFTER_MS {
        return Err("the endpoint had not failed often or long enough to be suspended");
    }
    Ok(body::suspended(event_id, event.partner_id, &suspension))
}

/// The key that an event's row says will expire, if it says so.
pub(super) fn expiring_key(row: &Row) -> Option<ApiKeyId> {
    let id: EventId = row.id(0).ok()?;
    let event = read(row, id.made_at()).ok()?;
    let payload = (event.event_type == EventType::ApiKeyExpiring).then(|| event.payload());
    let expiry: Expiry = serde_json::from_value(payload??).ok()?;
    Some(expiry.api_key_id)
}

/// Reads an event's row, which has the columns of [`projection::EVENT`] and the number of retries.
fn read(row: &Row, at: Timestamp) -> Result<CheckedEvent, StoreError> {
    Ok(CheckedEvent {
        event_id: row.id(0)?,
        partner_id: row.id(1)?,
        seq: row.size(2)?,
        event_type: event_type(row.int(4)?)?,
        content: content(row, 5)?,
        retries: row.size(8)?,
        at,
        is_erased: false,
    })
}

/// Compares an event's row with what it must be. The body went early, and nobody can make it again, if values of its booking were
/// erased.
fn compare(row: &Row, event: &CheckedEvent, told: &EventRow, findings: &mut Findings) {
    let thing = format!("event {}", event.event_id);
    let made_at = event.event_id.made_at();
    if made_at != event.at {
        let detail = format!("it was made at {made_at}, the ledger says {}", event.at);
        findings.add("event", format!("{thing} field id"), detail);
    }
    let mut said = projection::event(told).to_vec();
    match &event.content {
        Content::Whole(_) => {
            said.extend([Arg::Null, Arg::Null]);
            findings.compare("event", &thing, row, &projection::EVENT, &said);
        }
        Content::Pruned(pruned) => {
            let left = match event.is_erased {
                true => *pruned,
                false => left(pruned, told),
            };
            if let Some(body) = said.last_mut() {
                *body = Arg::Null;
            }
            said.extend(projection::pruned(&left));
            findings.compare("event", &thing, row, &projection::EVENT, &said);
            if !event.is_erased && pruned.at.ms() - event.at.ms() < RETENTION_MS - CLOCK_SLACK_MS {
                let detail = format!("{} is too soon after the event, {}", pruned.at, event.at);
                findings.doubt("event", format!("{thing} field pruned_ms"), detail);
            }
        }
    }
}

/// The event that the cause produces, with the stored id and number, and with the address of the evidence as the event
/// gave it.
fn told_of(event: &CheckedEvent, state: &BookingState, cause: &Cause<'_>) -> EventRow {
    let (event_id, booking, at) = (event.event_id, &state.booking, cause.at);
    let url = |member| evidence_url(event, state, member);
    let evidence = || url("evidencePacketUrl");
    let head = match cause.fact {
        CausingFact::Created => body::created(event_id, booking),
        CausingFact::Protected => body::protected(event_id, booking, at, &evidence()),
        CausingFact::Resolved(r) => body::resolved(event_id, r, &url("packetUrl")),
        CausingFact::Decided(r) => body::decided(event_id, r, &url("packetUrl")),
        CausingFact::Rescheduled(fact) => {
            let dates = (fact.former.previous_event_date, fact.event_date);
            body::rescheduled(event_id, booking, at, dates, &evidence())
        }
        CausingFact::Accepted(fact) => {
            let accepted = (fact.party, fact.disclosure_hash.as_str());
            body::accepted(event_id, booking, at, accepted, &evidence())
        }
    };
    EventRow {
        partner_id: booking.partner_id,
        event_type: cause.event_type(),
        ..stored_as(event, Some(booking.booking_id), &head)
    }
}

/// The event with this body, and otherwise as it is stored.
fn stored_as(event: &CheckedEvent, booking_id: Option<BookingId>, head: &str) -> EventRow {
    EventRow {
        event_id: event.event_id,
        partner_id: event.partner_id,
        seq: event.seq,
        booking_id,
        event_type: event.event_type,
        body: Arc::from(body::finish(head, event.seq).into_bytes()),
    }
}

/// What must be left of a pruned body. For `booking.created` the ledger determines the body and so its hash. The bodies
/// of the other types contained an address whose host name was lost with them, or what the ledger does not know, so their
/// stored hash is accepted.
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
    let payload = event.payload();
    let url = payload
        .as_ref()
        .and_then(|payload| payload[member].as_str());
    url.filter(|url| url.ends_with(&path))
        .unwrap_or(&path)
        .to_owned()
}

impl CheckedEvent {
    /// The payload of its body, if it is there and can be read.
    fn payload(&self) -> Option<Value> {
        let mut body: Value = serde_json::from_slice(self.content.body()?).ok()?;
        body.get_mut("payload").map(Value::take)
    }

    /// Whether it may have happened without going to an endpoint that took it: what suspends an endpoint is not sent there.
    pub fn may_pass_over(&self, endpoint_id: &EndpointId) -> bool {
        let suspended = || {
            self.payload()?["endpointId"]
                .as_str()
                .and_then(EndpointId::parse)
        };
        self.event_type == EventType::EndpointSuspended
            && suspended().is_none_or(|suspended| suspended == *endpoint_id)
    }

    /// Whether the event happened clearly after an instant of another command.
    pub fn clearly_after(&self, at: Timestamp) -> bool {
        self.at.ms() - at.ms() > CLOCK_SLACK_MS
    }

    /// Whether the event happened clearly before an instant of another command.
    pub fn clearly_before(&self, at: Timestamp) -> bool {
        at.ms() - self.at.ms() > CLOCK_SLACK_MS
    }
}
