//! Everything a command can cause. The store writes changes; [`crate::engine::batch::BatchState`] makes them visible to the
//! next command of the same batch.

use std::sync::Arc;

use crate::engine::batch::LoadedBooking;
use crate::engine::command::{KeptPolicy, NewBooking, NewKey};
use crate::evidence::facts::{LeafPlace, SealedFact};
use crate::ledger::Hash;
use crate::model::{
    ApiKeyId, BookingId, Endpoint, EndpointHealth, EndpointId, EventId, EventType, Partner,
    PartnerId, PartnerSettings, PartnerStatus, Quota, Recovery, Timestamp,
};
use crate::webhook::{Attempt, SecretTerm};

/// One effect of an accepted command.
#[derive(Debug, Clone)]
pub enum Change {
    /// A partner exists.
    PartnerAdded {
        /// The partner.
        partner: Box<Partner>,
        /// Its sealed signing secret.
        secret: Vec<u8>,
    },
    /// A partner moved on.
    PartnerStatusChanged {
        /// Which.
        partner_id: PartnerId,
        /// Where to.
        status: PartnerStatus,
    },
    /// A key exists.
    KeyAdded {
        /// Whose.
        partner_id: PartnerId,
        /// The key.
        key: Box<NewKey>,
    },
    /// A key ended.
    KeyRevoked {
        /// Which.
        api_key_id: ApiKeyId,
        /// When.
        at: Timestamp,
    },
    /// A version of a policy exists, and is its latest.
    PolicyAdded {
        /// Whose.
        partner_id: PartnerId,
        /// The version.
        kept: Box<KeptPolicy>,
        /// Versions of all the partner's policies, now.
        versions: u64,
    },
    /// A partner decided otherwise.
    PartnerDecided {
        /// Which.
        partner_id: PartnerId,
        /// What holds from now on.
        settings: Box<PartnerSettings>,
    },
    /// The operator gave a partner a quota of its own.
    QuotaSet {
        /// Which.
        partner_id: PartnerId,
        /// What holds from now on.
        quota: Quota,
    },
    /// A booking exists. Its first entry follows.
    BookingAdded(Arc<NewBooking>),
    /// A booking is otherwise than it was, by the entries before this.
    BookingChanged(Box<LoadedBooking>),
    /// A leaf is appended to the log, and to its booking's chain.
    Entry(Box<Entry>),
    /// The log goes on under a new name.
    LogRenamed {
        /// The name.
        origin: String,
        /// The key under that name, in note form.
        vkey: String,
    },
    /// An event happened.
    EventAdded(Box<EventRow>),
    /// An event goes to an endpoint.
    DeliveryAdded {
        /// Which event.
        event_id: EventId,
        /// The endpoint.
        endpoint_id: EndpointId,
        /// Its state.
        state: DeliveryState,
    },
    /// A delivery's state.
    DeliveryUpdated {
        /// Which event.
        event_id: EventId,
        /// The endpoint.
        endpoint_id: EndpointId,
        /// Its state.
        state: DeliveryState,
    },
    /// A delivery's schedule begins anew while an attempt at it is under way, which is left to whoever makes it.
    DeliveryRenewed {
        /// Which event.
        event_id: EventId,
        /// The endpoint.
        endpoint_id: EndpointId,
        /// Its state, under the lease it was under.
        state: DeliveryState,
    },
    /// One attempt of a delivery, append-only.
    AttemptAdded {
        /// Which event.
        event_id: EventId,
        /// The endpoint.
        endpoint_id: EndpointId,
        /// Its number, from 1.
        number: u32,
        /// What happened.
        attempt: Box<Attempt>,
    },
    /// An event was retried by hand.
    EventRetried {
        /// Which.
        event_id: EventId,
        /// How often, now.
        retries: u32,
    },
    /// An old event's body is deleted, and every attempt to deliver it.
    EventPruned {
        /// Which.
        event_id: EventId,
        /// What is left of the body.
        pruned: Pruned,
    },
    /// Events were looked through to here.
    Swept(Sweep),
    /// An endpoint exists.
    EndpointAdded {
        /// Whose.
        partner_id: PartnerId,
        /// The endpoint.
        endpoint: Box<Endpoint>,
    },
    /// An endpoint is otherwise than it was: its address, types, words, limit, or whose secret it uses.
    EndpointChanged {
        /// As it is now.
        endpoint: Box<Endpoint>,
        /// Since when it takes what it takes now, if that is what changed.
        since: Option<Timestamp>,
    },
    /// An endpoint's health changed.
    EndpointHealthChanged {
        /// Which.
        endpoint_id: EndpointId,
        /// Its health now.
        health: EndpointHealth,
    },
    /// A further secret signs.
    SecretAdded {
        /// A partner's id or an endpoint's.
        owner: [u8; 16],
        /// When it was made, and from when on it signs alone.
        term: SecretTerm,
        /// The secret.
        sealed: Vec<u8>,
    },
    /// Secrets of one owner that sign nothing any more are forgotten.
    SecretsForgotten {
        /// A partner's id or an endpoint's.
        owner: [u8; 16],
        /// Those made before; all of them when not given.
        made_before: Option<Timestamp>,
    },
    /// An endpoint was deleted, and with it what still waited for it is given up.
    EndpointDeleted {
        /// Which.
        endpoint_id: EndpointId,
        /// When.
        at: Timestamp,
    },
    /// A recovery exists, perhaps finished already.
    RecoveryAdded {
        /// Whose.
        partner_id: PartnerId,
        /// The recovery.
        recovery: Box<Recovery>,
    },
    /// A recovery has come further.
    RecoveryUpdated {
        /// Whose.
        partner_id: PartnerId,
        /// As it is now.
        recovery: Box<Recovery>,
    },
    /// A remembered answer was replaced.
    AnswerReplaced {
        /// The answer's key.
        key: [u8; 32],
        /// The body that was sent.
        answer: Vec<u8>,
    },
    /// Answers remembered before this instant are forgotten, a thousand at a time.
    AnswersForgotten {
        /// The instant.
        before: Timestamp,
    },
    /// Something is written and deleted again.
    WriteTried,
}

/// A leaf with what its commitment opens to.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Position in the log.
    pub index: u64,
    /// Whose booking; of none when the fact is the log's own.
    pub booking_id: Option<BookingId>,
    /// Position in the booking's chain.
    pub seq: u64,
    /// The leaf's time: the command's, or the log's last where that is later.
    pub at: Timestamp,
    /// The exact leaf bytes.
    pub leaf: Vec<u8>,
    /// Their RFC 6962 hash.
    pub hash: Hash,
    /// What the leaf commits to.
    pub fact: Arc<SealedFact>,
}

impl Entry {
    /// Where it stands.
    pub fn place(&self) -> LeafPlace {
        LeafPlace {
            index: self.index,
            hash: self.hash,
            at: self.at,
        }
    }
}

/// An event as it is kept.
#[derive(Debug, Clone)]
pub struct EventRow {
    /// Its id.
    pub event_id: EventId,
    /// Whose.
    pub partner_id: PartnerId,
    /// Number in the partner's gapless sequence.
    pub seq: u64,
    /// Which booking.
    pub booking_id: BookingId,
    /// What happened.
    pub event_type: EventType,
    /// The exact body of every delivery.
    pub body: Arc<[u8]>,
}

/// What the store has of an event's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The exact body of every delivery.
    Whole(Arc<[u8]>),
    /// It was deleted.
    Pruned(Pruned),
}

impl Content {
    /// The body, while there is one.
    pub fn body(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Whole(body) => Some(body),
            Self::Pruned(_) => None,
        }
    }
}

/// What is left of a body that was deleted because its event was old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// When.
    pub at: Timestamp,
    /// Its SHA-256.
    pub digest: [u8; 32],
}

/// How far the events were looked through for old ones. Their ids are in the order of their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// The first id that was not looked at.
    pub next: EventId,
    /// The first event before that which was old and still waited to be delivered.
    pub waiting: Option<EventId>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            next: EventId::from_bytes([0; 16]),
            waiting: None,
        }
    }
}

/// What is known of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryState {
    /// Where it stands.
    pub phase: DeliveryPhase,
    /// Attempts made.
    pub attempts: u32,
    /// Of these, how many count for the schedule: faults of ours do not.
    pub counted_attempts: u32,
    /// When somebody may next take it: the next attempt's time, or the lease's end. `None` when it is over.
    pub due: Option<Timestamp>,
    /// The lease under which it is being attempted, while it is.
    pub lease: Option<i64>,
    /// The leaf that records how it ended, the latest if it was tried again after that.
    pub settled_leaf: Option<u64>,
    /// When its schedule began, where that was not when the event happened: it was recovered, or is of an endpoint that
    /// came later.
    pub begun: Option<Timestamp>,
    /// When `due` was reckoned: a clock that is set back after that says an earlier time. `None` when it is over.
    pub since: Option<Timestamp>,
}

impl DeliveryState {
    /// Since when the event, which names the instant by its id, is being delivered.
    pub fn begun_at(&self, event_id: &EventId) -> Timestamp {
        self.begun.unwrap_or(event_id.made_at())
    }
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryPhase {
    /// No attempt has ended.
    Pending = 0,
    /// The receiver answered 2xx.
    Delivered = 1,
    /// The last attempt failed, or there is nobody to deliver to any more.
    Failed = 2,
}

impl DeliveryPhase {
    /// From the number the store keeps.
    pub fn from_number(n: i64) -> Option<Self> {
        [Self::Pending, Self::Delivered, Self::Failed]
            .into_iter()
            .find(|phase| *phase as i64 == n)
    }
}

impl From<DeliveryPhase> for crate::model::DeliveryStatus {
    fn from(phase: DeliveryPhase) -> Self {
        match phase {
            DeliveryPhase::Pending => Self::Pending,
            DeliveryPhase::Delivered => Self::Delivered,
            DeliveryPhase::Failed => Self::Failed,
        }
    }
}
