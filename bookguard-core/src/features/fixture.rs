//! Helpers for the tests of the rules: states made by hand, and commands decided on them.

mod loaded;

pub(crate) use std::collections::{BTreeMap, HashMap};
pub(crate) use std::fmt::Debug;
pub(crate) use std::sync::Arc;

pub(crate) use crate::engine::answers::{ForgetAnswers, ReplaceAnswer};
use crate::engine::batch::LoadedBooking;
pub(crate) use crate::engine::batch::{
    BatchState, ChainState, EventState, KeyState, PartnerState, RememberedAnswer,
};
use crate::engine::change::Entry;
pub(crate) use crate::engine::change::{Change, Content, DeliveryPhase, DeliveryState};
pub(crate) use crate::engine::command::{
    Command, Envelope, EventSeed, Head, LeasedDelivery, NewBooking, NewKey, Receipt, Remember,
};
pub(crate) use crate::engine::decide::Decision;
use crate::engine::needs::Needs;
use crate::entropy;
pub(crate) use crate::error::{Error, Kind};
use crate::evidence::facts::{CreationFact, Fact, SealedFact};
use crate::evidence::verify::tests::fixture;
use crate::evidence::{BookingState, FrozenTerms, HeldBy, Hold, StoredHold};
pub(crate) use crate::features::api_keys::{CreateApiKey, NewApiKey, RevokeApiKey};
pub(crate) use crate::features::bookings::{BookingCreated, CreateBooking, ProtectBooking};
use crate::features::cancellations::{
    CancelBooking, CancelRequest, DecideResolution, DecisionRequest, Expected, NewResolution,
};
pub(crate) use crate::features::deliveries::{
    ClaimDeliveries, DeliveryRecord, DropDeliveries, EndpointStatusChange, ReclaimDeliveries,
    ReleaseDeliveries, SettleDelivery,
};
pub(crate) use crate::features::endpoints::update::{EndpointChanges, UpdateEndpoint};
pub(crate) use crate::features::endpoints::{CreateEndpoint, DeleteEndpoint};
pub(crate) use crate::features::events::RetryEvent;
pub(crate) use crate::features::partners::{ApprovePartner, Registration};
use crate::features::reschedules::{RescheduleBooking, RescheduleRequest, Rescheduled};
pub(crate) use crate::ledger::Hash;
pub(crate) use crate::limits;
pub(crate) use crate::model::*;
pub(crate) use crate::policy::PolicySetVersion;
use crate::policy::{Actor, EventDate, PolicySet, Reason, Resolution};
pub(crate) use crate::webhook::{Attempt, FailureClass};

pub(crate) const NOW: Timestamp = Timestamp::EPOCH;

pub(crate) fn id<N: crate::model::id::Noun>(n: u8) -> Id<N> {
    Id::new(NOW, [n; 10])
}

pub(crate) fn update(changes: EndpointChanges) -> UpdateEndpoint {
    UpdateEndpoint {
        partner_id: id(1),
        endpoint_id: id(7),
        changes,
        secret: None,
        verifies: false,
    }
}

pub(crate) fn endpoint(n: u8, events: &[EventType]) -> Endpoint {
    Endpoint {
        endpoint_id: id(n),
        partner_id: None,
        url: format!("https://example.com/{n}"),
        events: events.to_vec(),
        description: None,
        rate_limit_per_second: None,
        own_secret: false,
        enabled: true,
        status: EndpointStatus::Active,
        failures: 0,
        failing_since: None,
        next_probe_at: None,
        unverified_since: None,
        created_at: NOW,
        moved_at: None,
    }
}

pub(crate) fn partner(status: PartnerStatus, endpoints: Vec<Endpoint>) -> PartnerState {
    let partner = Partner {
        partner_id: id(1),
        name: "Acme".to_owned(),
        business_type: "venue".to_owned(),
        contact_email: "a@example.com".to_owned(),
        website: None,
        status,
        created_at: NOW,
        contract_ended_at: None,
        settings: PartnerSettings::default(),
    };
    PartnerState {
        partner,
        events: 0,
        usage: Usage::default(),
        quota: Quota::default(),
        endpoints,
        policy_set_version: PolicySetVersion::default(),
        policies: BTreeMap::new(),
    }
}

pub(crate) fn work(status: PartnerStatus, endpoints: Vec<Endpoint>) -> BatchState {
    BatchState {
        room: HashMap::from([(id(7), 2)]),
        partners: HashMap::from([(id(1), partner(status, endpoints))]),
        ..BatchState::default()
    }
}

pub(crate) fn command<R>(command: impl Command<Reply = R>) -> Envelope<R> {
    Envelope::new(NOW, command)
}

pub(crate) fn new_key(n: u8) -> NewKey {
    let key = ApiKey {
        api_key_id: id(n),
        name: "k".to_owned(),
        scopes: Scopes::all(),
        hint: "abcd".to_owned(),
        created_at: NOW,
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    };
    NewKey { key, hash: [n; 32] }
}

/// The ledger's head after the batches of these tests.
pub(crate) const HEAD: Head = Head {
    size: 1_000,
    root: Hash([8; 32]),
};

/// Decides as the writer does: on what the command names and on nothing else, and completes the reply.
pub(crate) fn decide<R: 'static>(
    work: &BatchState,
    asked: &Envelope<R>,
) -> Result<Decision<R>, Error> {
    let mut needs = Needs {
        now: asked.at,
        ..Needs::default()
    };
    asked.command.needs(&mut needs);
    let mut decision = crate::engine::decide::decide(&loaded::of(work.clone(), &needs), asked)?;
    if let Decision::Do { reply, .. } = &mut decision {
        asked.command.complete(reply, &HEAD);
    }
    Ok(decision)
}

/// The tree that a receipt names.
pub(crate) fn tree_of(receipt: &Receipt) -> Head {
    Head {
        size: receipt.tree_size,
        root: receipt.root_hash.parse().unwrap(),
    }
}

/// Whether it is refused while the disk has room only for what is there already.
pub(crate) fn waits_for_room<R: Debug + 'static>(work: &BatchState, asked: &Envelope<R>) -> bool {
    let low = BatchState {
        storage_low: true,
        ..work.clone()
    };
    decide(&low, asked).is_err_and(|refused| refused.code == "storage_low")
}

/// Applies changes, so that the next command sees them.
pub(crate) fn apply_all(work: &mut BatchState, changes: &[Change]) {
    changes.iter().for_each(|change| work.apply(change));
}

/// The changes and the reply of a command that is decided anew, or its refusal.
pub(crate) fn outcome<R: Debug + 'static>(
    work: &BatchState,
    asked: &Envelope<R>,
) -> Result<(Vec<Change>, R), Error> {
    match decide(work, asked)? {
        Decision::Do { changes, reply } => Ok((changes, reply)),
        other => panic!("decided {other:?}"),
    }
}

/// Decides and applies. Returns the changes and the reply.
pub(crate) fn done<R: Debug + 'static>(
    work: &mut BatchState,
    command: &Envelope<R>,
) -> (Vec<Change>, R) {
    let (changes, reply) = outcome(work, command).unwrap();
    apply_all(work, &changes);
    (changes, reply)
}

/// What a command changes.
pub(crate) fn caused<R: Debug + 'static>(work: &BatchState, asked: &Envelope<R>) -> Vec<Change> {
    outcome(work, asked).unwrap().0
}

/// The code of a command's refusal, or nothing.
pub(crate) fn code_of<R: 'static>(work: &BatchState, asked: &Envelope<R>) -> String {
    decide(work, asked).map_or_else(|refused| refused.code.into_owned(), |_| String::new())
}

pub(crate) fn changes(decided: Result<Decision<impl Debug>, Error>) -> Vec<Change> {
    match decided.unwrap() {
        Decision::Do { changes, .. } => changes,
        other => panic!("decided {other:?}"),
    }
}

pub(crate) fn refusal(decided: Result<Decision<impl Debug>, Error>) -> String {
    decided.unwrap_err().code.into_owned()
}

pub(crate) fn delivery(
    phase: DeliveryPhase,
    due: Option<i64>,
    lease: Option<i64>,
) -> DeliveryState {
    DeliveryState {
        phase,
        attempts: 1,
        counted_attempts: 1,
        due: due.map(|ms| NOW.plus_ms(ms)),
        lease,
        settled_leaf: None,
        begun: None,
        since: due.map(|_| NOW),
    }
}

pub(crate) fn attempt(class: Option<FailureClass>) -> Attempt {
    Attempt {
        duration_ms: 1,
        phase: crate::webhook::Phase::Body,
        class,
        ..Attempt::begun(0)
    }
}

/// A batch with one event of one delivery to endpoint 7.
pub(crate) fn with_delivery(state: DeliveryState) -> BatchState {
    let mut work = work(PartnerStatus::Active, vec![endpoint(7, &[])]);
    work.events.insert(
        id(5),
        EventState {
            partner_id: id(1),
            seq: 1,
            booking_id: Some(id(6)),
            event_type: EventType::BookingCreated,
            content: Content::Whole(Arc::from(&b"{}"[..])),
            retries: 0,
            endpoints: vec![id(7)],
        },
    );
    work.deliveries.insert((id(5), id(7)), state);
    work.health
        .insert(id(7), EndpointHealth::of(EndpointStatus::Active));
    work.chains.insert(id(6), CHAIN);
    work.size = 20;
    work
}

/// The state of the chain of that event's booking.
pub(crate) const CHAIN: ChainState = ChainState {
    stream: [3; 16],
    entries: 1,
    tip: Hash([7; 32]),
};

/// The outcome of the attempt with this number at that delivery.
pub(crate) fn settle(
    at: Timestamp,
    lease: i64,
    number: u32,
    class: Option<FailureClass>,
) -> Envelope<Option<EndpointStatusChange>> {
    Envelope::new(at, settling(at, lease, number, class))
}

pub(crate) fn settling(
    at: Timestamp,
    lease: i64,
    number: u32,
    class: Option<FailureClass>,
) -> SettleDelivery {
    SettleDelivery {
        jitter: 1 << 63,
        ..SettleDelivery::of(&leased(lease, number), attempt(class), at).unwrap()
    }
}

/// That delivery, leased for the attempt with this number.
pub(crate) fn leased(lease: i64, number: u32) -> LeasedDelivery {
    LeasedDelivery {
        event_id: id(5),
        partner_id: id(1),
        endpoint_id: id(7),
        booking_id: Some(id(6)),
        event_type: EventType::BookingCreated,
        seq: 1,
        body: Arc::from(&b"{}"[..]),
        lease,
        until: NOW,
        attempts: number - 1,
        begun: NOW,
        per_second: None,
        failing: false,
    }
}

/// A retry by hand of that event.
pub(crate) fn retrying() -> RetryEvent {
    RetryEvent {
        partner_id: id(1),
        event_id: id(5),
        lease: 99,
    }
}

/// A claim of at most so many deliveries to that endpoint.
pub(crate) fn claiming(room: usize) -> ClaimDeliveries {
    ClaimDeliveries {
        lease: 42,
        endpoints: vec![(id(7), room)],
    }
}

pub(crate) fn deleting() -> DeleteEndpoint {
    DeleteEndpoint {
        partner_id: id(1),
        endpoint_id: id(7),
        before: None,
    }
}

/// A change of the endpoint's address alone.
pub(crate) fn moving_to(url: &str) -> EndpointChanges {
    EndpointChanges {
        url: Some(url.to_owned()),
        ..EndpointChanges::default()
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// A booking of a hundred bytes.
pub(crate) fn booking(at: Timestamp) -> Envelope<BookingCreated> {
    booking_by(at, None)
}

/// A booking of a hundred bytes, prepared with the partner's policies as they were remembered.
pub(crate) fn booking_by(at: Timestamp, policy_set: Option<PolicySet>) -> Envelope<BookingCreated> {
    let made = state(None, BookingStatus::Created);
    let fact = Fact::from(CreationFact::of(&made.booking, made.terms_hash.clone()));
    let fact = SealedFact {
        members: "f".repeat(60),
        ..fact.seal(entropy::bytes()).unwrap()
    };
    let new = NewBooking {
        policy_set: policy_set.map(Arc::new),
        body: String::new(),
        terms_body: "t".repeat(40),
        stream: entropy::bytes(),
        fact: Arc::new(fact),
        event: EventSeed {
            event_id: EventId::new(at, entropy::bytes()),
            lease: 5,
        },
        event_head: "{".to_owned(),
        booking: made.state.booking,
        terms: made.terms,
    };
    Envelope::new(at, CreateBooking(Arc::new(new)))
}

/// The number in the booking's id.
const BOOKING: u8 = 1;

pub(crate) fn booking_id() -> BookingId {
    BookingId::new(at("2026-01-10T15:00:00Z"), [BOOKING; 10])
}

pub(crate) fn partner_id() -> PartnerId {
    PartnerId::new(at("2026-01-10T15:00:00Z"), [9; 10])
}

/// A booking of USD 1,200.50 on 20 June 2026, 19:00 in New York.
pub(crate) fn state(policy: Option<&str>, status: BookingStatus) -> LoadedBooking {
    let created_at = at("2026-01-10T15:00:00Z");
    let terms = fixture::terms(policy, created_at);
    let mut booking = fixture::booking(BOOKING, created_at, &terms, Some("America/New_York"));
    if status == BookingStatus::Protected {
        booking.status = BookingStatus::Protected;
        booking.protected = true;
        booking.protected_at = Some(created_at.plus_ms(1000));
    }
    let hash = FrozenTerms::of(&terms).hash();
    LoadedBooking {
        state: BookingState::of(booking, hash),
        terms,
        first_terms: None,
        stream: CHAIN.stream,
    }
}

pub(crate) fn work_with(state: LoadedBooking) -> BatchState {
    let mut partner = partner(PartnerStatus::Active, vec![endpoint(7, &[])]);
    partner.partner.partner_id = partner_id();
    partner.events = 4;
    BatchState {
        partners: HashMap::from([(partner_id(), partner)]),
        chains: HashMap::from([(state.booking.booking_id, CHAIN)]),
        bookings: HashMap::from([(state.booking.booking_id, state.into())]),
        size: 10,
        ..BatchState::default()
    }
}

pub(crate) fn seed(n: u8, lease: i64) -> EventSeed {
    EventSeed {
        event_id: id(n),
        lease,
    }
}

pub(crate) fn new_resolution(n: u8) -> NewResolution {
    NewResolution {
        resolution_id: id(n),
        event: seed(n, 5),
        decided_event_id: id(n + 1),
        seed: [n; 32],
        packet_url: "https://api.example.com/packet".to_owned(),
    }
}

pub(crate) fn ask_to_cancel(by: Actor, reason: Option<Reason>) -> CancelRequest {
    CancelRequest {
        canceled_by: by,
        reason,
        note: Some("a note".to_owned()),
        effective_at: None,
        agreed_refund: None,
        evidence: Vec::new(),
        expected: Expected::default(),
    }
}

pub(crate) fn protecting() -> ProtectBooking {
    ProtectBooking {
        partner_id: partner_id(),
        booking_id: booking_id(),
        event: seed(40, 1),
        seed: [1; 32],
        evidence_url: String::new(),
    }
}

pub(crate) fn canceling(asked: CancelRequest) -> CancelBooking {
    CancelBooking {
        partner_id: partner_id(),
        booking_id: booking_id(),
        asked,
        resolution: new_resolution(20),
    }
}

/// A decision on the resolution of that cancellation.
pub(crate) fn deciding(refund: &str) -> DecideResolution {
    DecideResolution {
        partner_id: partner_id(),
        booking_id: booking_id(),
        resolution_id: id(20),
        asked: DecisionRequest {
            refund: refund.to_owned(),
            decided_by: "disputes".to_owned(),
            rationale: "a storm".to_owned(),
        },
        next: new_resolution(21),
    }
}

/// The changes and the resolution of a cancellation or a decision.
pub(crate) type Resolved = Result<(Vec<Change>, Resolution), Error>;

pub(crate) fn asked(
    work: &BatchState,
    at: Timestamp,
    command: impl Command<Reply = Resolution>,
) -> Resolved {
    outcome(work, &Envelope::new(at, command))
}

/// Decides a command and applies its changes.
pub(crate) fn apply(
    work: &mut BatchState,
    when: &str,
    ask: impl Command<Reply = Resolution>,
) -> Resolution {
    done(work, &Envelope::new(at(when), ask)).1
}

pub(crate) fn entries(changes: &[Change]) -> Vec<&Entry> {
    let mut entries = Vec::new();
    for change in changes {
        if let Change::Entry(entry) = change {
            entries.push(&**entry);
        }
    }
    entries
}

/// A hold on the booking of these tests.
pub(crate) fn hold(n: u8, by: HeldBy) -> StoredHold {
    StoredHold {
        partner_id: partner_id(),
        hold: Hold {
            hold_id: id(n),
            booking_id: booking_id(),
            placed_at: at("2026-05-01T00:00:00Z"),
            placed_by: by,
            reason: "Court".to_owned(),
            reference: None,
            released_at: None,
        },
    }
}

pub(crate) fn ask_to_reschedule(date: &str) -> RescheduleRequest {
    RescheduleRequest {
        event_date: EventDate::parse(date).unwrap(),
        time_zone: None,
        agreed_by: vec![Actor::Organizer, Actor::Talent],
        at: None,
        dry_run: false,
    }
}

pub(crate) fn moving(asked: RescheduleRequest) -> RescheduleBooking {
    RescheduleBooking {
        partner_id: partner_id(),
        booking_id: booking_id(),
        asked,
        seed: [1; 32],
        event: seed(41, 1),
        evidence_url: String::new(),
    }
}

pub(crate) type Moves = Result<(Vec<Change>, Rescheduled), Error>;

pub(crate) fn reschedule(work: &BatchState, when: &str, asked: RescheduleRequest) -> Moves {
    decided(work, when, moving(asked))
}

pub(crate) fn decided(work: &BatchState, when: &str, command: RescheduleBooking) -> Moves {
    outcome(work, &Envelope::new(at(when), command))
}

pub(crate) fn rescheduled(
    work: &mut BatchState,
    when: &str,
    asked: RescheduleRequest,
) -> Rescheduled {
    done(work, &Envelope::new(at(when), moving(asked))).1
}
