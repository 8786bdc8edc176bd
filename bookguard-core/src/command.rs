//! What can be asked of the writer. A command is a value that carries its own needs and its own decision.
//!
//! What does not depend on the batch (ids, salts, field digests, JSON) is prepared by the caller's own task
//! and travels in the command, so that the writer's time per command stays small.

use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::batch::BatchState;
use crate::change::Change;
use crate::error::Error;
use crate::evidence::Acceptance;
use crate::evidence::facts::Fact;
use crate::lease::Node;
use crate::ledger::Hash;
use crate::model::{
    Amount, ApiKey, ApiKeyId, Booking, BookingId, BookingStatus, DeliveryStatus, Endpoint,
    EndpointId, EventId, EventType, PartnerId, PartnerStatus, ResolutionId, Scopes, Timestamp,
};
use crate::needs::Needs;
use crate::policy::{Actor, Policy, ResolutionPath, Segment, Shelf, Terms};
use crate::webhook::Secret;

/// What a command causes, and what its caller is answered; or why it is refused.
pub type Decided<R> = Result<(Vec<Change>, R), Error>;

/// One thing that can be asked of the writer.
///
/// A command says itself which rows it has to see and what follows from them. A refused one causes nothing, so it never
/// disturbs its neighbours in a batch.
pub trait Command: Debug + Send + 'static {
    /// What the caller is answered.
    type Reply;

    /// Names what [`decide`](Self::decide) looks at, so that it is loaded with the batch.
    fn needs(&self, needs: &mut Needs);

    /// The rule: no clock, no dice, no I/O. `at` is when the command was received, the instant of every fact it causes.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Self::Reply>;

    /// Adds to the reply what is known only once the batch's leaves are in the tree.
    fn complete(&self, _reply: &mut Self::Reply, _head: &Head) {}

    /// Whether it brings in something new. What little room is left on a disk is kept for the bookings that are there (their
    /// protection, changes, cancellations and deliveries), and for keys and secrets that have to be replaced.
    fn brings_new(&self) -> bool {
        false
    }

    /// Whether it may be decided while the database lacks what was published.
    fn mends_rollback(&self) -> bool {
        false
    }

    /// Whether it only tries out whether writing works, so that nobody loses anything when it fails.
    fn is_probe(&self) -> bool {
        false
    }
}

/// A command on its way to the writer.
#[derive(Debug)]
pub struct Envelope<R> {
    /// When it was received: the instant of every fact it causes.
    pub at: Timestamp,
    /// What is asked.
    pub command: Box<dyn Command<Reply = R>>,
    /// Present when the caller sent an Idempotency-Key.
    pub remember: Option<Remember<R>>,
}

impl<R> Envelope<R> {
    /// A command that was received at this instant, without an Idempotency-Key.
    pub fn new(at: Timestamp, command: impl Command<Reply = R>) -> Self {
        Self {
            at,
            command: Box::new(command),
            remember: None,
        }
    }
}

/// How an answer is remembered under an Idempotency-Key.
#[derive(Debug)]
pub struct Remember<R> {
    /// SHA-256 over the caller's scope and the key: keys of different callers never meet.
    pub key: [u8; 32],
    /// SHA-256 over operation, path and body: the same key with another request is refused.
    pub request: [u8; 32],
    /// Writes the answer's body exactly as it is sent.
    pub encode: fn(&R) -> Vec<u8>,
}

/// What the writer hands back for one command.
#[derive(Debug, Clone)]
pub enum Answer<R> {
    /// Decided now.
    Fresh(R),
    /// Decided before, under the same Idempotency-Key: the body that was sent then.
    Replayed(Arc<[u8]>),
}

/// The outcome of one command.
pub type Outcome<R> = Result<Answer<R>, Error>;

/// A key as the store keeps it.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What lists show.
    pub key: ApiKey,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
}

/// A signing secret that nobody has seen yet.
#[derive(Debug, Clone)]
pub struct NewSecret {
    /// The secret, to be shown once.
    pub secret: Secret,
    /// The same as the store keeps it.
    pub sealed: Vec<u8>,
}

/// What becomes of an endpoint; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct EndpointUpdate {
    /// Another address, which webhooks may go to.
    pub url: Option<String>,
    /// The types it receives from now on; all of them when empty.
    pub events: Option<Vec<EventType>>,
    /// Other words, or none.
    pub description: Option<Option<String>>,
    /// Another limit, or none.
    pub rate_limit_per_second: Option<Option<u32>>,
    /// Whether events that happen from now on go there.
    pub enabled: Option<bool>,
    /// A secret of its own, used if it has none, or `None` within for the partner's.
    pub own_secret: Option<Option<NewSecret>>,
    /// Whether another address is to be verified.
    pub verifies: bool,
}

/// A booking with everything prepared that does not depend on its batch.
#[derive(Debug)]
pub struct NewBooking {
    /// The record as GET shows it.
    pub booking: Booking,
    /// The frozen policy and schedule.
    pub terms: Terms,
    /// The remembered shelf they were made from, which must be the partner's still; none when it was read just now.
    pub shelf: Option<Arc<Shelf>>,
    /// `booking` as the store keeps it.
    pub body: String,
    /// `terms` as the store keeps them.
    pub terms_body: String,
    /// The booking's random name in the ledger.
    pub stream: [u8; 16],
    /// The committed `booking.created` fact.
    pub fact: Arc<Fact>,
    /// The event it causes.
    pub event: NewEvent,
}

impl NewBooking {
    /// What it counts for in its partner's quota.
    pub fn bytes(&self) -> u64 {
        (self.body.len() + self.terms_body.len()) as u64
    }
}

/// What the caller was shown before it canceled; what is absent is not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The refund in minor units.
    pub refund_minor_units: Option<i64>,
    /// The resolution path.
    pub resolution_path: Option<ResolutionPath>,
    /// The policy's hash.
    pub policy_hash: Option<String>,
}

/// What a new resolution needs and `decide` itself cannot make: it rolls no dice.
#[derive(Debug, Clone)]
pub struct NewResolution {
    /// The id it will have.
    pub resolution_id: ResolutionId,
    /// The id its event will have.
    pub event_id: EventId,
    /// Names the leases of that event's deliveries.
    pub lease: i64,
    /// Seed of the facts' salts.
    pub seed: [u8; 32],
    /// The evidence address for the event's payload.
    pub packet_url: String,
}

/// An event before its partner's sequence number is known.
#[derive(Debug)]
pub struct NewEvent {
    /// Its id.
    pub event_id: EventId,
    /// What happened.
    pub event_type: EventType,
    /// The body without its last field and closing brace; the writer adds `"seq"`.
    pub head: String,
    /// Names the leases its deliveries are born with.
    pub lease: i64,
}

/// What of a partner's settings changes; what is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartnerUpdate {
    /// Defaults set and removed.
    pub default_policies: Vec<DefaultPolicy>,
    /// A zone's IANA name, or `Some(None)` to have none.
    pub time_zone: Option<Option<String>>,
}

/// A default policy that is set or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPolicy {
    /// The event type as it was sent, for faults.
    pub said: String,
    /// The event type as it is kept, or `*`.
    pub event_type: String,
    /// The policy's id; none removes.
    pub policy_id: Option<String>,
}

/// A version of a partner's own policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPolicy {
    /// The policy, its version in it.
    pub policy: Policy,
    /// When it was put.
    pub made_at: Timestamp,
}

/// Answer to a registration (spec: POST /v1/partners/register) and to an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct Registration {
    /// The partner's id.
    pub partner_id: PartnerId,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub status: PartnerStatus,
    /// The first key's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub api_key_id: Option<ApiKeyId>,
    /// The first key, with all scopes. Shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub api_key: Option<String>,
    /// What webhooks are signed with. Shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub signing_secret: Option<String>,
}

/// Answer to a new key (spec: POST /v1/api-keys).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct NewApiKey {
    /// The key's id.
    pub api_key_id: ApiKeyId,
    /// The key itself. Shown once.
    pub api_key: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Answer to a new endpoint, and to a changed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct EndpointKept {
    /// The endpoint.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", oai(flatten))]
    pub endpoint: Endpoint,
    /// The secret it got of its own. Shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub secret: Option<String>,
    /// When that takes over from the partner's secret, where the partner's signed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub switches_at: Option<Timestamp>,
}

/// Answer to the rotation of a signing secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct RotatedSecret {
    /// The new secret. Shown once.
    pub secret: String,
    /// Until then `x-service-signature` is made with the old secret, and `webhook-signature` lists one signature of each;
    /// from then on only the new one signs.
    pub switches_at: Timestamp,
}

/// Answer to a new booking (spec: POST /v1/bookings).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct BookingCreated {
    /// The booking's id.
    pub booking_id: BookingId,
    /// The partner that owns it.
    pub partner_id: PartnerId,
    /// Where it stands.
    pub status: BookingStatus,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// Answer to a protection (spec: POST /v1/bookings/{bookingId}/protect).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct Protected {
    /// The booking's id.
    pub booking_id: BookingId,
    /// Always true.
    pub protected: bool,
    /// When it was first protected.
    pub protected_at: Timestamp,
    /// Where the record stands in the ledger.
    pub receipt: Receipt,
}

/// Answer to a change of an event's date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct Rescheduled {
    /// The booking's id.
    pub booking_id: BookingId,
    /// When the event starts from now on.
    pub event_date: Timestamp,
    /// The booking's IANA time zone from now on, when it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub time_zone: Option<String>,
    /// The date it had until then, as it was said.
    pub previous_event_date: String,
    /// When the change was received.
    pub rescheduled_at: Timestamp,
    /// When it was agreed on: the instant whose step was reached, whole seconds.
    pub at: Timestamp,
    /// Who agreed.
    pub agreed_by: Vec<Actor>,
    /// What the organizer's cancellation would have cost at that instant; null when a person would have decided. Under a
    /// policy with `keep_reached_tier` it costs at least that from now on.
    #[cfg_attr(feature = "openapi", oai(nullable))]
    pub reached: Option<Amount>,
    /// The organizer's schedule from now on, with what was reached before.
    pub schedule: Vec<Segment>,
    /// True when this is what would happen, and nothing did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(
        feature = "openapi",
        oai(default, skip_serializing_if = "std::ops::Not::not")
    )]
    pub dry_run: bool,
    /// Where the record stands in the ledger; absent when nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub receipt: Option<Receipt>,
}

/// Answer to an acceptance of a booking's terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
pub struct Accepted {
    /// The acceptance as the ledger records it.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", oai(flatten))]
    pub acceptance: Acceptance,
    /// Where the record stands in the ledger.
    pub receipt: Receipt,
}

/// Where a leaf stands in the log (RFC 6962).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct Receipt {
    /// The log's name.
    pub log_origin: String,
    /// The leaf's index.
    pub leaf_index: u64,
    /// The leaf's hash, lower-case hex.
    pub leaf_hash: String,
    /// A size of the tree that holds the leaf.
    pub tree_size: u64,
    /// The root at that size, lower-case hex.
    pub root_hash: String,
}

/// Answer to a manual retry (spec: Retry result).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct RetryResult {
    /// The event's id.
    pub event_id: EventId,
    /// What came of it: `pending` when that is not known yet.
    pub retry_status: DeliveryStatus,
    /// Manual retries of the event so far, this one included.
    pub retry_count: u32,
}

/// A delivery in a courier's hands.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Which event.
    pub event_id: EventId,
    /// Whose.
    pub partner_id: PartnerId,
    /// To which endpoint.
    pub endpoint_id: EndpointId,
    /// Of which booking the event tells.
    pub booking_id: BookingId,
    /// What it tells.
    pub event_type: EventType,
    /// Its number in the partner's sequence.
    pub seq: u64,
    /// The exact bytes to send.
    pub body: Arc<[u8]>,
    /// The lease under which the attempt is settled.
    pub lease: i64,
    /// When the lease ends and anybody may take the delivery.
    pub until: Timestamp,
    /// Attempts made before this one.
    pub attempts: u32,
    /// Deliveries to this endpoint that may begin per second, if that is limited.
    pub per_second: Option<u32>,
    /// Whether the last attempt at this endpoint that anybody settled had failed.
    pub failing: bool,
}

/// What names a delivery while it is in somebody's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Of which event.
    pub event_id: EventId,
    /// To which endpoint.
    pub endpoint_id: EndpointId,
    /// The lease under which it is held.
    pub lease: i64,
}

/// Whose deliveries are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lapse {
    /// Of everybody whose lease has ended by then: now, or later where all who held any are known to be gone.
    EndedBy(Timestamp),
    /// Of a node that is known to be gone, whenever its leases end.
    Gone(Node),
    /// Of nobody: whatever waits for a time that was reckoned by a clock which was ahead. It waits as long as then, from now on.
    Ahead,
}

impl Lapse {
    /// Whether a delivery held under this lease, which ends then, is one of them.
    #[must_use]
    pub fn takes(self, lease: i64, end: Timestamp) -> bool {
        match self {
            Self::EndedBy(ended) => end <= ended,
            Self::Gone(node) => node.leases().contains(&lease),
            Self::Ahead => false,
        }
    }
}

impl Parcel {
    /// Its name, to settle it or give it back.
    #[must_use]
    pub fn held(&self) -> Held {
        Held {
            event_id: self.event_id,
            endpoint_id: self.endpoint_id,
            lease: self.lease,
        }
    }
}

/// The ledger's head after a batch, for receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of leaves.
    pub size: u64,
    /// Root hash.
    pub root: Hash,
}

impl Receipt {
    /// Where a leaf stands, but for the tree, which is known only once the batch is in it.
    pub(crate) fn of(log_origin: &str, (leaf_index, leaf): (u64, Hash)) -> Self {
        Self {
            log_origin: log_origin.to_owned(),
            leaf_index,
            leaf_hash: leaf.to_string(),
            tree_size: 0,
            root_hash: String::new(),
        }
    }

    /// Fills in the tree that holds the leaf.
    pub(crate) fn complete(&mut self, head: &Head) {
        self.tree_size = head.size;
        self.root_hash = head.root.to_string();
    }
}
