//! Everything that can be asked of the writer, and everything it can answer. A command is a plain value.
//!
//! What does not depend on the batch (ids, salts, field digests, JSON) is prepared by the caller's own task
//! and travels in the command, so that the writer's time per command stays small.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::change::Sweep;
use crate::error::Error;
use crate::evidence::Acceptance;
use crate::evidence::facts::Fact;
use crate::guard::Rollback;
use crate::lease::Node;
use crate::ledger::Hash;
use crate::log::Continuation;
use crate::model::{
    Amount, ApiKey, ApiKeyId, Booking, BookingId, BookingStatus, DeliveryStatus, Endpoint,
    EndpointHealth, EndpointId, EndpointStatus, EventId, EventType, Partner, PartnerAccount,
    PartnerId, PartnerStatus, QuotaChanges, Recovery, RecoveryId, ResolutionId, Scopes, Timestamp,
};
use crate::policy::{
    Actor, EventDate, EvidenceItem, Policy, Reason, Resolution, ResolutionPath, Segment, Shelf,
    Terms,
};
use crate::webhook::{Attempt, Secret};

/// One thing asked, by whom it may be remembered, and the instant it was received.
#[derive(Debug)]
pub struct Command {
    /// When it was received: the instant of every fact it causes.
    pub at: Timestamp,
    /// What is asked.
    pub ask: Ask,
    /// Present when the caller sent an Idempotency-Key.
    pub remember: Option<Remember>,
}

/// How an answer is remembered under an Idempotency-Key.
#[derive(Debug, Clone)]
pub struct Remember {
    /// SHA-256 over the caller's scope and the key: keys of different callers never meet.
    pub key: [u8; 32],
    /// SHA-256 over operation, path and body: the same key with another request is refused.
    pub request: [u8; 32],
    /// Writes the answer's body exactly as it is sent.
    pub encode: fn(&Reply) -> Vec<u8>,
}

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

/// The name under which a log goes on after a loss.
#[derive(Debug)]
pub struct NewLog {
    /// The name, new to everybody.
    pub origin: String,
    /// The log's key under that name, in note form.
    pub vkey: String,
    /// The loss that is accepted: no other.
    pub accepted: Rollback,
    /// The random name of the entry that says so.
    pub stream: [u8; 16],
    /// Seed of the salts: `decide` itself rolls no dice.
    pub seed: [u8; 32],
}

/// A change of an event's date as it is asked for.
#[derive(Debug, Clone)]
pub struct Reschedule {
    /// Whose booking.
    pub partner_id: PartnerId,
    /// Which.
    pub booking_id: BookingId,
    /// The new date, as it was said.
    pub event_date: EventDate,
    /// The event's IANA zone from now on; what it was when not said.
    pub time_zone: Option<String>,
    /// Who agreed, each once, in the order of the vocabulary: organizer and talent at least.
    pub agreed_by: Vec<Actor>,
    /// When they did; the instant of receipt when not said.
    pub at: Option<Timestamp>,
    /// Whether only to say what it would come to.
    pub dry_run: bool,
    /// Seed of the fact's salts: `decide` itself rolls no dice.
    pub seed: [u8; 32],
}

/// An acceptance of a booking's terms as it is asked for.
#[derive(Debug, Clone)]
pub struct Accept {
    /// Whose booking.
    pub partner_id: PartnerId,
    /// Which.
    pub booking_id: BookingId,
    /// Who accepts.
    pub party: Actor,
    /// How, in the partner's words.
    pub method: String,
    /// When, as the partner says.
    pub at: Timestamp,
    /// From which network address.
    pub ip: Option<String>,
    /// With which program.
    pub user_agent: Option<String>,
    /// The hash of the text that was shown.
    pub disclosure_hash: String,
    /// Seed of the fact's salts: `decide` itself rolls no dice.
    pub seed: [u8; 32],
}

/// A cancellation as it is asked for.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// Whose booking.
    pub partner_id: PartnerId,
    /// Which.
    pub booking_id: BookingId,
    /// Who cancels.
    pub canceled_by: Actor,
    /// Why.
    pub reason: Option<Reason>,
    /// In somebody's own words.
    pub note: Option<String>,
    /// From when it is to count.
    pub effective_at: Option<Timestamp>,
    /// The agreed refund, a decimal number of the booking's currency as it was written.
    pub agreed_refund: Option<String>,
    /// What is said to prove it.
    pub evidence: Vec<EvidenceItem>,
    /// What it must come to, or nothing happens.
    pub expected: Expected,
    /// What is prepared for its resolution.
    pub resolution: NewResolution,
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

/// A person's decision about a cancellation that was left open.
#[derive(Debug, Clone)]
pub struct Decide {
    /// Whose booking.
    pub partner_id: PartnerId,
    /// Which: the one the resolution is of, which never changes.
    pub booking_id: BookingId,
    /// The resolution that is pending.
    pub resolution_id: ResolutionId,
    /// What goes back, a decimal number of the booking's currency as it was written.
    pub refund: String,
    /// Who decided.
    pub decided_by: String,
    /// Why.
    pub rationale: String,
    /// What is prepared for the resolution in its place.
    pub next: NewResolution,
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

/// Everything that can be asked.
#[derive(Debug)]
pub enum Ask {
    /// A new partner, with a first key unless it must wait for approval.
    RegisterPartner {
        /// The partner.
        partner: Partner,
        /// Its signing secret, sealed.
        secret: Vec<u8>,
        /// Its first key.
        key: Option<NewKey>,
        /// What to answer.
        reply: Box<Registration>,
    },
    /// The administrator lets a pending partner in.
    ApprovePartner {
        /// Which.
        partner_id: PartnerId,
        /// Its first key.
        key: NewKey,
        /// What to answer.
        reply: Box<Registration>,
    },
    /// The administrator gives a partner a quota of its own.
    SetQuota {
        /// Which.
        partner_id: PartnerId,
        /// What changes.
        changes: QuotaChanges,
    },
    /// A further key.
    CreateApiKey {
        /// Whose.
        partner_id: PartnerId,
        /// The key.
        key: NewKey,
        /// What to answer.
        reply: Box<NewApiKey>,
    },
    /// Ends a key.
    RevokeApiKey {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        api_key_id: ApiKeyId,
        /// What the asking key may do; `None` for the administrator, who may end any key.
        by: Option<Scopes>,
    },
    /// Records a booking.
    CreateBooking(Box<NewBooking>),
    /// Locks a booking into the ledger.
    Protect {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        booking_id: BookingId,
        /// The id its event will have.
        event_id: EventId,
        /// Names the leases of its deliveries.
        lease: i64,
        /// Seed of the salts: `decide` itself rolls no dice.
        seed: [u8; 32],
        /// The evidence address for the event's payload.
        evidence_url: String,
    },
    /// A policy of a partner's own: a new version unless it says what the latest says.
    PutPolicy {
        /// Whose.
        partner_id: PartnerId,
        /// The policy; its version is what its author said, if that was said.
        policy: Policy,
        /// Whether the author said a version.
        version_said: bool,
    },
    /// What a partner decides for its bookings.
    UpdatePartner {
        /// Whose.
        partner_id: PartnerId,
        /// What changes.
        update: Box<PartnerUpdate>,
    },
    /// Moves a booking's event to another date.
    Reschedule(Box<Reschedule>),
    /// Records that a party accepted a booking's terms.
    Accept(Box<Accept>),
    /// Cancels a booking.
    Cancel(Box<Cancel>),
    /// Ends the review of a cancellation.
    Decide(Box<Decide>),
    /// A new webhook endpoint.
    CreateEndpoint {
        /// Whose.
        partner_id: PartnerId,
        /// The endpoint.
        endpoint: Endpoint,
        /// Its own secret, if it has one.
        secret: Option<NewSecret>,
    },
    /// Changes an endpoint, and brings back one that was disabled.
    UpdateEndpoint {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        endpoint_id: EndpointId,
        /// What becomes of it.
        update: Box<EndpointUpdate>,
    },
    /// Asks for a test of an endpoint; writes nothing but the answer to be remembered.
    TestEndpoint {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        endpoint_id: EndpointId,
    },
    /// Replaces the secret that a partner's webhooks, or those of one endpoint, are signed with.
    RotateSecret {
        /// Whose.
        partner_id: PartnerId,
        /// Of which endpoint; the partner's own when not given.
        endpoint_id: Option<EndpointId>,
        /// The new one.
        secret: NewSecret,
        /// How long the old one goes on signing, milliseconds.
        overlap_ms: i64,
    },
    /// Ends an endpoint and the deliveries that still wait for it.
    DeleteEndpoint {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        endpoint_id: EndpointId,
    },
    /// Attempts an event's open deliveries now.
    RetryEvent {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        event_id: EventId,
        /// Names the leases of the deliveries taken.
        lease: i64,
    },
    /// Has a partner's events delivered once more, or counts what that would be: begins, and looks at the first of them.
    BeginRecovery {
        /// Whose.
        partner_id: PartnerId,
        /// What is asked for; through which event, the writer says.
        recovery: Box<Recovery>,
    },
    /// Takes a recovery a step further. One that has meanwhile come further is left alone.
    GoOnRecovering {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        recovery_id: RecoveryId,
        /// The number of the last event it has looked at.
        after: u64,
    },
    /// Takes deliveries that are due and in nobody's hands, for the courier.
    Claim {
        /// Names the leases taken.
        lease: i64,
        /// From which endpoints, and at most how many of each.
        endpoints: Vec<(EndpointId, usize)>,
    },
    /// Gives back deliveries that were taken and will not be attempted: they are due at once. A lease that is no longer
    /// held changes nothing.
    Release {
        /// Which.
        held: Vec<Held>,
    },
    /// Takes deliveries, a few hundred at a time, from whoever has held them too long or is gone: they are due.
    Reclaim {
        /// From whom.
        from: Lapse,
    },
    /// Records one attempt's outcome. A lease that is no longer held, or an attempt that is not the next, changes nothing.
    Settle {
        /// Of which event.
        event_id: EventId,
        /// To which endpoint.
        endpoint_id: EndpointId,
        /// The lease under which it was attempted.
        lease: i64,
        /// The attempt's number, from 1.
        number: u32,
        /// What happened.
        attempt: Box<Attempt>,
        /// Random bits that spread the next attempt.
        jitter: u64,
        /// The event's booking, which the fact is one of.
        booking_id: BookingId,
        /// The committed `webhook.settled`, for the case that this ends the delivery.
        fact: Arc<Fact>,
    },
    /// Deletes the bodies and attempts of old events that wait for nothing.
    Prune(Box<Prune>),
    /// Replaces a remembered answer, once the outcome a retry waited for is known.
    Amend {
        /// The remembered answer's key.
        key: [u8; 32],
        /// The body that was sent.
        answer: Vec<u8>,
    },
    /// Forgets answers whose time is over, a thousand at a time.
    Forget,
    /// Writes something and deletes it again, to learn whether writing works.
    Probe,
    /// The administrator accepts that entries were lost: the log goes on under a new name.
    ContinueLog(Box<NewLog>),
}

/// Old events to be pruned, as they were found by whoever looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// Only events made before this instant.
    pub before: Timestamp,
    /// Which; those that are not as they were found are left as they are.
    pub events: Vec<EventId>,
    /// How far the looks had come.
    pub from: Sweep,
    /// How far they have come with this one. It counts only if none came in between.
    pub to: Sweep,
}

/// Everything the writer can answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// To a registration or approval.
    Registered(Box<Registration>),
    /// To a new key.
    KeyCreated(Box<NewApiKey>),
    /// To a revocation.
    KeyRevoked(Box<ApiKey>),
    /// To a policy: the version that says it.
    PolicyPut(Box<KeptPolicy>),
    /// To a change of settings, or of a quota.
    PartnerUpdated(Box<PartnerAccount>),
    /// To a new booking.
    BookingCreated(BookingCreated),
    /// To a protection.
    Protected(Box<Protected>),
    /// To a change of date.
    Rescheduled(Box<Rescheduled>),
    /// To an acceptance.
    Accepted(Box<Accepted>),
    /// To a cancellation, and to a decision.
    Resolved(Box<Resolution>),
    /// To a new or changed endpoint.
    EndpointKept(Box<EndpointKept>),
    /// To an ended endpoint.
    Endpoint(Box<Endpoint>),
    /// To the test of an endpoint, asked for then, before its outcome is known.
    Testing(EndpointId, Timestamp),
    /// To another signing secret.
    SecretRotated(Box<RotatedSecret>),
    /// To a manual retry, before its outcome is known.
    Retrying(RetryResult),
    /// To a recovery: how far it has come at once.
    Recovering(Box<Recovery>),
    /// To a look at old events: how many were pruned.
    Pruned(u64),
    /// To the administrator who accepted a loss.
    LogContinued(Box<Continuation>),
    /// To the courier, whose outcome moved an endpoint.
    EndpointTurned {
        /// Which.
        endpoint_id: EndpointId,
        /// Where it stood before.
        from: EndpointStatus,
        /// How it fares now.
        health: EndpointHealth,
    },
    /// To the courier.
    Done,
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

/// What the writer hands back for one command.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Decided now.
    Fresh(Reply),
    /// Decided before, under the same Idempotency-Key: the body that was sent then.
    Replayed(Arc<[u8]>),
}

/// The outcome of one command.
pub type Outcome = Result<Answer, Error>;

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

impl Reply {
    /// Fills in what is known only once the batch's leaves are in the tree.
    pub fn complete(&mut self, head: &Head) {
        let receipt = match self {
            Self::Protected(protected) => Some(&mut protected.receipt),
            Self::Rescheduled(rescheduled) => rescheduled.receipt.as_mut(),
            Self::Accepted(accepted) => Some(&mut accepted.receipt),
            _ => None,
        };
        if let Some(receipt) = receipt {
            receipt.tree_size = head.size;
            receipt.root_hash = head.root.to_string();
        }
    }
}
