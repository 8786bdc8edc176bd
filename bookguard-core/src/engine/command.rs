//! What can be asked of the writer. A command is a value that carries its own needs and its own decision.
//!
//! Whatever does not depend on the batch (ids, salts, field digests, JSON) is prepared by the caller's own task and
//! travels in the command, so that the writer spends little time on each command.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::lease::Node;
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::evidence::facts::{LeafPlace, SealedFact};
use crate::ledger::Hash;
use crate::limits::CHANGES_PER_DAY;
use crate::model::{
    ApiKey, AuditRecord, Booking, BookingId, ConsoleSession, EndpointId, EventId, EventType,
    OperatorKey, OperatorSession, PartnerId, Timestamp,
};
use crate::policy::{Policy, PolicySet, Terms};

/// The changes that a command causes and the reply to its caller, or why it is refused.
pub type Decided<R> = Result<(Vec<Change>, R), Error>;

/// A request to the writer.
///
/// A command says which rows it must see and what follows from them. A refused command causes nothing, so it never
/// disturbs its neighbours in a batch.
pub trait Command: Debug + Send + 'static {
    /// The reply to the caller.
    type Reply;

    /// Names the rows that [`decide`](Self::decide) reads, so that they are loaded with the batch. Some read none.
    fn needs(&self, _needs: &mut Needs) {}

    /// Applies the rule, without clock, randomness or I/O. `at` is when the command was received, and is the instant of
    /// every fact it causes.
    ///
    /// # Errors
    /// The refusals of the operation; `internal` for stored data that cannot be.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Self::Reply>;

    /// Adds to the reply what is known only once the batch's leaves are in the tree.
    fn complete(&self, _reply: &mut Self::Reply, _head: &Head) {}

    /// What an erasure names to take its remembered answer, if that holds values of a booking that the command neither changes nor needs.
    fn remembered_with(&self) -> Option<BookingId> {
        None
    }

    /// Whether it adds something new, if it changes anything. When disk space is low, the rest is reserved for existing bookings (their
    /// protection, changes, cancellations and deliveries) and for keys and secrets that must be replaced.
    fn brings_new(&self) -> bool {
        false
    }

    /// Whether it only ends something, such as a key. Then no number of a partner's changes in a day refuses it.
    fn only_ends(&self) -> bool {
        false
    }

    /// With how many changes of its partner in the day it is refused, if the audit records it.
    fn refused_from(&self) -> u64 {
        CHANGES_PER_DAY
    }

    /// Whether it may be decided while the database lacks published entries.
    fn is_for_rollback(&self) -> bool {
        false
    }

    /// Whether it only tests that writing works, so that nobody loses anything if it fails.
    fn is_probe(&self) -> bool {
        false
    }
}

/// A command on its way to the writer.
#[derive(Debug)]
pub struct Envelope<R> {
    /// When it was received: the instant of every fact it causes.
    pub at: Timestamp,
    /// The command.
    pub command: Box<dyn Command<Reply = R>>,
    /// The partner whose key asks for it, which must not be suspended when it is decided.
    pub asked_by: Option<PartnerId>,
    /// Present if the caller sent an Idempotency-Key.
    pub remember: Option<Remember<R>>,
    /// Present if it is recorded in the audit.
    pub audit: Option<Box<Audited<R>>>,
}

/// What the audit records of a command, if it changes anything.
#[derive(Debug)]
pub struct Audited<R> {
    /// The record, as far as it is known before the reply.
    pub record: AuditRecord,
    /// The ids that the reply holds.
    pub ids_of: fn(&R) -> BTreeMap<String, String>,
    /// The status of its answer, if it is an operation.
    pub status: Option<u16>,
}

impl<R> Audited<R> {
    /// The record of a command with this reply.
    pub(crate) fn record(&self, reply: &R) -> AuditRecord {
        let mut record = self.record.clone();
        record.concern((self.ids_of)(reply));
        record
    }
}

impl<R> Envelope<R> {
    /// A command received at this instant, without an Idempotency-Key.
    pub fn new(at: Timestamp, command: impl Command<Reply = R>) -> Self {
        Self {
            at,
            command: Box::new(command),
            asked_by: None,
            remember: None,
            audit: None,
        }
    }

    /// Whether a caller asked for it, and not the service itself.
    pub(crate) fn has_caller(&self) -> bool {
        self.asked_by.is_some() || self.remember.is_some() || self.audit.is_some()
    }

    /// The same command, with the record that the audit keeps of it.
    #[must_use]
    pub fn recorded_as(self, record: AuditRecord) -> Self {
        let audited = Audited {
            record,
            ids_of: |_| BTreeMap::new(),
            status: None,
        };
        Self {
            audit: Some(Box::new(audited)),
            ..self
        }
    }

    /// The partner whose daily limit of changes this command counts against: the calling partner. The operator is not limited.
    pub(crate) fn changing(&self) -> Option<PartnerId> {
        let record = &self.audit.as_ref()?.record;
        record.partner_id.filter(|_| record.is_counted())
    }
}

/// How to remember an answer under an Idempotency-Key.
#[derive(Debug)]
pub struct Remember<R> {
    /// SHA-256 over the caller's scope and the key, so that keys of different callers never collide.
    pub key: [u8; 32],
    /// SHA-256 over operation, path and body. Another request under the same key is refused.
    pub request: [u8; 32],
    /// Encodes the answer's body exactly as it is sent.
    pub encode: fn(&R) -> Vec<u8>,
}

/// Stands for a request that is refused by now, so that nothing but its remembered answer is left.
pub(crate) struct Repeat<R> {
    why: Error,
    reply: PhantomData<fn() -> R>,
}

impl<R> Repeat<R> {
    pub(crate) fn new(why: Error) -> Self {
        let reply = PhantomData;
        Self { why, reply }
    }
}

impl<R> Debug for Repeat<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.why, f)
    }
}

impl<R: 'static> Command for Repeat<R> {
    type Reply = R;

    fn decide(&self, _: &BatchState, _: Timestamp) -> Decided<R> {
        Err(self.why.clone())
    }
}

/// The writer's answer to one command.
#[derive(Debug, Clone)]
pub enum Written<R> {
    /// Decided now.
    Fresh(R),
    /// Decided before, under the same Idempotency-Key. Holds the body that was sent then.
    Replayed(Arc<[u8]>),
}

/// The outcome of one command.
pub type CommandOutcome<R> = Result<Written<R>, Error>;

/// A key as stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The public part, which lists show.
    pub key: ApiKey,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
}

/// An operator key as stored.
#[derive(Debug, Clone)]
pub struct NewOperatorKey {
    /// The public part, which lists show.
    pub key: OperatorKey,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
}

/// A console session as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConsoleSession {
    /// The owner of its key.
    pub partner_id: PartnerId,
    /// The public part, which lists show.
    pub session: ConsoleSession,
    /// SHA-256 of the token that opens it: the link's until it is opened, then the session's.
    pub hash: [u8; 32],
}

/// A session of the operator's console as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOperatorSession {
    /// The public part, which lists show.
    pub session: OperatorSession,
    /// SHA-256 of the token that opens it: the link's until it is opened, then the session's.
    pub hash: [u8; 32],
}

/// A booking, with everything prepared that does not depend on its batch.
#[derive(Debug)]
pub struct NewBooking {
    /// The booking.
    pub booking: Booking,
    /// The frozen policy and schedule.
    pub terms: Terms,
    /// The remembered policy set from which the terms were made, which must still be the partner's. `None` if it was
    /// just read.
    pub policy_set: Option<Arc<PolicySet>>,
    /// `booking` as GET shows it.
    pub body: String,
    /// `terms` as stored.
    pub terms_body: String,
    /// The booking's random name in the ledger.
    pub stream: [u8; 16],
    /// The committed `booking.created` fact.
    pub fact: Arc<SealedFact>,
    /// For the event it causes.
    pub event: EventSeed,
    /// The beginning of that event's body: all but its last field and the closing brace. The writer adds `"seq"`, which is not known
    /// yet.
    pub event_head: String,
}

impl NewBooking {
    /// The bytes it adds to its partner's usage: its recorded facts and its terms.
    pub fn bytes(&self) -> u64 {
        (self.fact.members.len() + self.terms_body.len()) as u64
    }
}

/// What a rule needs to cause an event and cannot make itself, because it rolls no dice.
#[derive(Debug, Clone, Copy)]
pub struct EventSeed {
    /// The event's id.
    pub event_id: EventId,
    /// The lease under which its deliveries are added.
    pub lease: i64,
}

/// A version of a partner's own policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPolicy {
    /// The policy, which contains its version.
    pub policy: Policy,
    /// When it was put.
    pub made_at: Timestamp,
}

/// Where a leaf stands in the log (RFC 6962).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
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

/// A delivery leased to a courier.
#[derive(Debug, Clone)]
pub struct LeasedDelivery {
    /// The event.
    pub event_id: EventId,
    /// The partner it belongs to.
    pub partner_id: PartnerId,
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The booking that the event is about, if any.
    pub booking_id: Option<BookingId>,
    /// The event's type.
    pub event_type: EventType,
    /// The event's number in the partner's log.
    pub seq: u64,
    /// The exact bytes to send.
    pub body: Arc<[u8]>,
    /// The lease, needed to settle the attempt.
    pub lease: i64,
    /// When the lease ends and any courier may take the delivery.
    pub until: Timestamp,
    /// The number of attempts made before this one.
    pub attempts: u32,
    /// When its schedule began, and with it the first attempt was due.
    pub begun: Timestamp,
    /// The number of deliveries to this endpoint that may begin per second, if limited.
    pub per_second: Option<u32>,
    /// Whether the last settled attempt at this endpoint failed.
    pub failing: bool,
}

/// The name of a leased delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldDelivery {
    /// The event.
    pub event_id: EventId,
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The lease under which it is held.
    pub lease: i64,
}

/// Selects the deliveries that are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reclaim {
    /// Deliveries whose lease ends by this time. It is now, or later if all nodes that held any are known to be gone.
    EndedBy(Timestamp),
    /// Deliveries of a node that is known to be gone, whenever its leases end.
    Gone(Node),
    /// Deliveries whose wait was computed by a clock that was ahead. They wait as long as computed then, but from now on.
    Ahead,
}

impl Reclaim {
    /// Whether a delivery with this lease, which ends at `end`, is selected.
    #[must_use]
    pub fn takes(self, lease: i64, end: Timestamp) -> bool {
        match self {
            Self::EndedBy(ended) => end <= ended,
            Self::Gone(node) => node.leases().contains(&lease),
            Self::Ahead => false,
        }
    }
}

impl LeasedDelivery {
    /// The delivery's name, used to settle it or give it back.
    #[must_use]
    pub fn held(&self) -> HeldDelivery {
        HeldDelivery {
            event_id: self.event_id,
            endpoint_id: self.endpoint_id,
            lease: self.lease,
        }
    }
}

/// The ledger's head after a batch, for receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of leaves.
    pub size: u64,
    /// Root hash.
    pub root: Hash,
}

impl Receipt {
    /// The place of a leaf, without the tree, which is known only once the batch is in it.
    pub(crate) fn of(log_origin: &str, leaf: &LeafPlace) -> Self {
        Self {
            log_origin: log_origin.to_owned(),
            leaf_index: leaf.index,
            leaf_hash: leaf.hash.to_string(),
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
