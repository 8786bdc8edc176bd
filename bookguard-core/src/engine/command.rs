//! What can be asked of the writer. A command is a value that carries its own needs and its own decision.
//!
//! What does not depend on the batch (ids, salts, field digests, JSON) is prepared by the caller's own task
//! and travels in the command, so that the writer's time per command stays small.

use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::lease::Node;
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::evidence::facts::{LeafPlace, SealedFact};
use crate::ledger::Hash;
use crate::model::{
    ApiKey, Booking, BookingId, EndpointId, EventId, EventType, PartnerId, Timestamp,
};
use crate::policy::{Policy, PolicySet, Terms};

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
pub enum Written<R> {
    /// Decided now.
    Fresh(R),
    /// Decided before, under the same Idempotency-Key: the body that was sent then.
    Replayed(Arc<[u8]>),
}

/// The outcome of one command.
pub type CommandOutcome<R> = Result<Written<R>, Error>;

/// A key as the store keeps it.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What lists show.
    pub key: ApiKey,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
}

/// A booking with everything prepared that does not depend on its batch.
#[derive(Debug)]
pub struct NewBooking {
    /// The record.
    pub booking: Booking,
    /// The frozen policy and schedule.
    pub terms: Terms,
    /// The remembered policy set they were made from, which must be the partner's still; none when it was read just now.
    pub policy_set: Option<Arc<PolicySet>>,
    /// `booking` as GET shows it.
    pub body: String,
    /// `terms` as the store keeps them.
    pub terms_body: String,
    /// The booking's random name in the ledger.
    pub stream: [u8; 16],
    /// The committed `booking.created` fact.
    pub fact: Arc<SealedFact>,
    /// The event it causes.
    pub event: NewEvent,
}

impl NewBooking {
    /// What it counts for in its partner's quota: what is recorded of it, and its terms.
    pub fn bytes(&self) -> u64 {
        (self.fact.members.len() + self.terms_body.len()) as u64
    }
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

/// A version of a partner's own policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPolicy {
    /// The policy, its version in it.
    pub policy: Policy,
    /// When it was put.
    pub made_at: Timestamp,
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

/// A delivery in a courier's hands.
#[derive(Debug, Clone)]
pub struct LeasedDelivery {
    /// Which event.
    pub event_id: EventId,
    /// Whose.
    pub partner_id: PartnerId,
    /// The endpoint.
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
pub struct HeldDelivery {
    /// Of which event.
    pub event_id: EventId,
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The lease under which it is held.
    pub lease: i64,
}

/// Whose deliveries are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reclaim {
    /// Of everybody whose lease has ended by then: now, or later where all who held any are known to be gone.
    EndedBy(Timestamp),
    /// Of a node that is known to be gone, whenever its leases end.
    Gone(Node),
    /// Of nobody: whatever waits for a time that was reckoned by a clock which was ahead. It waits as long as then, from now on.
    Ahead,
}

impl Reclaim {
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

impl LeasedDelivery {
    /// Its name, to settle it or give it back.
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
    /// Number of leaves.
    pub size: u64,
    /// Root hash.
    pub root: Hash,
}

impl Receipt {
    /// Where a leaf stands, but for the tree, which is known only once the batch is in it.
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
