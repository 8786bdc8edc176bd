//! The slice of state that a batch of commands can touch, loaded before the first is decided.
//!
//! [`BatchState::apply`] makes each change visible to the next command of the batch, so that deciding a batch gives
//! what deciding its commands one after another would.

mod apply;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::engine::change::{Content, DeliveryState, EventRow, Sweep};
use crate::evidence::{BookingState, FrozenTerms};
use crate::ledger::Hash;
use crate::ledger::rollback::Rollback;
use crate::model::{
    ApiKey, ApiKeyId, BookingId, Endpoint, EndpointHealth, EndpointId, EventId, EventType, Partner,
    PartnerId, PartnerStatus, Quota, QuotaReport, Recovery, RecoveryId, Timestamp, Usage,
};
use crate::policy::{PolicySetVersion, Terms};
use crate::webhook::SecretTerm;

/// What the commands of one batch can see.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct BatchState {
    /// Partners named by commands.
    pub partners: HashMap<PartnerId, PartnerState>,
    /// Bookings named by commands.
    pub bookings: HashMap<BookingId, LoadedBooking>,
    /// Where the chains of bookings stand to which a command may add, these and those of which a delivery is settled.
    pub chains: HashMap<BookingId, ChainState>,
    /// Keys that commands name, and all live ones of partners whose commands add or revoke one.
    pub keys: HashMap<ApiKeyId, KeyState>,
    /// Events named by commands.
    pub events: HashMap<EventId, EventState>,
    /// Deliveries named by commands, or due.
    pub deliveries: HashMap<(EventId, EndpointId), DeliveryState>,
    /// Deliveries that are due and in nobody's hands, by endpoint, the longest due first.
    pub due: HashMap<EndpointId, Vec<EventId>>,
    /// Deliveries that are held too long, or by who is gone.
    pub lapsed: BTreeSet<(EventId, EndpointId)>,
    /// Endpoints that are deleted, of those for which old events wait.
    pub deleted: HashSet<EndpointId>,
    /// How far the events were looked through, where that is asked; `None` before the first time.
    pub sweep: Option<Sweep>,
    /// Limits of the endpoints in `due`, if they have any.
    pub limits: HashMap<EndpointId, Option<u32>>,
    /// The health of the endpoints whose deliveries are claimed or settled; deleted ones are left out.
    pub health: HashMap<EndpointId, EndpointHealth>,
    /// The terms of secrets that commands replace, in the order they were made, by owner.
    pub secrets: HashMap<[u8; 16], Vec<SecretTerm>>,
    /// Recoveries that commands take further, and those of partners who begin one that count for that; with their owners.
    pub recoveries: HashMap<RecoveryId, (PartnerId, Recovery)>,
    /// The next events of recoveries, by their numbers.
    pub log: HashMap<(PartnerId, u64), LoggedEvent>,
    /// Answers remembered under the commands' keys.
    pub prior: HashMap<[u8; 32], Prior>,
    /// Leaves in the log, those of this batch included.
    pub size: u64,
    /// The time of the log's last entry, this batch included. No later one has an earlier time, whatever the clock says.
    pub written: Timestamp,
    /// The log's name.
    pub origin: String,
    /// The key the log verifies under, in note form.
    pub vkey: String,
    /// How the database lacks what was published: then all that can be asked is to accept the loss.
    pub rollback: Option<Rollback>,
    /// Whether the database's disk has less room than the operator keeps for what is there already.
    pub storage_low: bool,
    /// The quota of partners that have none of their own.
    pub quota: Quota,
    /// Whether deliveries may be born in the courier's hands, by endpoint: how many more it will take.
    pub room: HashMap<EndpointId, usize>,
}

/// A partner and its endpoints.
#[derive(Debug, Clone)]
pub struct PartnerState {
    /// The partner.
    pub partner: Partner,
    /// Events so far.
    pub events: u64,
    /// What it has brought in so far.
    pub usage: Usage,
    /// What the operator said it may have.
    pub quota: Quota,
    /// Keys that are not revoked; counted only for commands that add or revoke one.
    pub live_keys: usize,
    /// Endpoints that are not deleted.
    pub endpoints: Vec<Endpoint>,
    /// How far it has come with its policies.
    pub policy_set_version: PolicySetVersion,
    /// The latest versions of its policies, by id; loaded only for commands that put one or choose among them.
    pub policies: BTreeMap<String, LatestPolicy>,
}

/// The latest version of a partner's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestPolicy {
    /// Its number.
    pub version: u32,
    /// Its hash.
    pub hash: String,
    /// When it was put.
    pub made_at: Timestamp,
}

/// Where the chain of a booking's entries stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainState {
    /// The booking's name in the ledger.
    pub stream: [u8; 16],
    /// Entries in its chain.
    pub entries: u64,
    /// The leaf hash of the last.
    pub tip: Hash,
}

/// A booking as it is kept, with its terms.
#[derive(Debug, Clone)]
pub struct LoadedBooking {
    /// What its facts come to.
    pub state: BookingState,
    /// The terms in force.
    pub terms: Terms,
    /// The terms with which it was recorded, once its event was moved.
    pub first_terms: Option<FrozenTerms>,
    /// Its name in the ledger.
    pub stream: [u8; 16],
}

impl Deref for LoadedBooking {
    type Target = BookingState;

    fn deref(&self) -> &BookingState {
        &self.state
    }
}

/// A key and its owner.
#[derive(Debug, Clone)]
pub struct KeyState {
    /// Whose.
    pub partner_id: PartnerId,
    /// The key.
    pub key: ApiKey,
}

/// An event and where it goes.
#[derive(Debug, Clone)]
pub struct EventState {
    /// Whose.
    pub partner_id: PartnerId,
    /// Its number in the partner's sequence.
    pub seq: u64,
    /// Of which booking it tells.
    pub booking_id: BookingId,
    /// Its type, for endpoints made since.
    pub event_type: EventType,
    /// Its body, or what is left of it.
    pub content: Content,
    /// Manual retries so far.
    pub retries: u32,
    /// Its deliveries' endpoints.
    pub endpoints: Vec<EndpointId>,
}

impl EventState {
    /// The event with this id as it is kept; `None` once it is pruned.
    pub fn row(&self, event_id: EventId) -> Option<EventRow> {
        let body = self.content.body()?;
        Some(EventRow {
            event_id,
            partner_id: self.partner_id,
            seq: self.seq,
            booking_id: self.booking_id,
            event_type: self.event_type,
            body: Arc::clone(body),
        })
    }
}

/// An event that a recovery comes by.
#[derive(Debug, Clone)]
pub struct LoggedEvent {
    /// Its id.
    pub event_id: EventId,
    /// Its type, for endpoints made since.
    pub event_type: EventType,
    /// Whether there is nothing left to send.
    pub is_pruned: bool,
    /// Its deliveries' endpoints, when the batch began.
    pub endpoints: Vec<EndpointId>,
}

/// An answer remembered under an Idempotency-Key.
#[derive(Debug, Clone)]
pub enum Prior {
    /// From an earlier batch.
    Stored {
        /// What was asked.
        request: [u8; 32],
        /// The body that was sent.
        answer: Arc<[u8]>,
    },
    /// From an earlier command of this batch.
    Pending {
        /// What was asked.
        request: [u8; 32],
        /// That command's index.
        command: usize,
    },
}

impl BatchState {
    /// What a partner may have, and has by `at`.
    pub fn quota_of(&self, state: &PartnerState, at: Timestamp) -> QuotaReport {
        let quota = state.quota.or(self.quota);
        QuotaReport::of(quota, &state.usage, state.endpoints.len() as u64, at)
    }

    /// The partner's state, when it may act.
    pub fn active_partner(&self, partner_id: &PartnerId) -> Option<&PartnerState> {
        self.partners
            .get(partner_id)
            .filter(|state| state.partner.status != PartnerStatus::Pending)
    }
}
