//! The state that a batch of commands can touch, loaded before the first command is decided.
//!
//! [`BatchState::apply`] makes each change visible to the next command of the batch. So deciding a batch gives the same
//! results as deciding its commands one after another.

mod apply;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::engine::change::{Content, DeliveryState, EventRow, Stamping, Sweep};
use crate::engine::command::{NewOperatorKey, StoredConsoleSession, StoredOperatorSession};
use crate::error::{Error, conflict};
use crate::evidence::{BookingState, Erasable, FrozenTerms, LoggedEpoch, StoredHold, StoredShare};
use crate::ledger::Hash;
use crate::ledger::rollback::{PublishedHead, Rollback};
use crate::model::{
    ApiKey, ApiKeyId, AuditId, BookingId, ConsoleSessionId, Endpoint, EndpointHealth, EndpointId,
    EventId, EventType, FileId, FileState, HoldId, OperatorKeyId, Partner, PartnerId,
    PartnerStatus, Quota, QuotaReport, Recovery, RecoveryId, ShareId, Timestamp, Usage,
    WitnessState,
};
use crate::policy::{PolicySetVersion, Terms};
use crate::webhook::SecretTerm;

/// The state that the commands of one batch can see.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct BatchState {
    /// The partners that commands name.
    pub partners: HashMap<PartnerId, PartnerState>,
    /// The bookings that commands name.
    pub bookings: HashMap<BookingId, Arc<LoadedBooking>>,
    /// The erased values of those bookings' acceptances: the index of the log entry, and which value.
    pub erased_of_acceptances: HashSet<(u64, Erasable)>,
    /// The ends of the chains that commands may extend: those of `bookings`, and those of bookings with a settled
    /// delivery.
    pub chains: HashMap<BookingId, ChainState>,
    /// The keys that commands name, and all working keys of partners whose commands add or revoke one.
    pub keys: HashMap<ApiKeyId, KeyState>,
    /// The operator keys that commands name, and all live ones if a command adds one.
    pub operator_keys: HashMap<OperatorKeyId, NewOperatorKey>,
    /// The console sessions that commands name, and all of a partner that have not expired if a command adds one.
    pub console_sessions: HashMap<ConsoleSessionId, StoredConsoleSession>,
    /// The operator's console sessions, chosen as `console_sessions` are.
    pub operator_sessions: HashMap<ConsoleSessionId, StoredOperatorSession>,
    /// The files that commands name, and those never completed, if requested.
    pub files: HashMap<FileId, FileState>,
    /// The shares that commands name, and all shares of bookings for which a command makes one.
    pub shares: HashMap<ShareId, StoredShare>,
    /// All legal holds of the bookings where a command erases something, or places or releases a hold.
    pub holds: HashMap<HoldId, StoredHold>,
    /// The events to prune whose bookings are under a hold.
    pub held_events: HashSet<EventId>,
    /// The events that commands name.
    pub events: HashMap<EventId, EventState>,
    /// The deliveries that commands name, and those that are due.
    pub deliveries: HashMap<(EventId, EndpointId), DeliveryState>,
    /// Deliveries that are due and not leased, by endpoint, the longest due first.
    pub due: HashMap<EndpointId, Vec<EventId>>,
    /// Deliveries whose lease ended or whose node is gone.
    pub lapsed: BTreeSet<(EventId, EndpointId)>,
    /// What is wrong with each delivery that was left out of these, because it cannot be read.
    pub left_out: Vec<String>,
    /// The deleted endpoints for which deliveries wait that are to be ended.
    pub deleted: HashSet<EndpointId>,
    /// How far the events were examined, if requested; `None` before the first time.
    pub sweep: Option<Sweep>,
    /// Where the stamps have got to, if requested.
    pub stamping: Stamping,
    /// The size of the checkpoint that was stamped last, if requested and if there is one.
    pub stamped: Option<u64>,
    /// The newest epoch, if requested and if there is one.
    pub epoch: Option<LoggedEpoch>,
    /// The rate limits of the endpoints in `due`, if they have any.
    pub limits: HashMap<EndpointId, Option<u32>>,
    /// The health of the endpoints whose deliveries are claimed or settled. Deleted endpoints are left out.
    pub health: HashMap<EndpointId, EndpointHealth>,
    /// The addresses of those whose deliveries are settled, as far as they can be read.
    pub addresses: HashMap<EndpointId, String>,
    /// When partners last deleted an endpoint that had not accepted anything, if they add one and that was lately.
    pub unverified_deleted: HashMap<PartnerId, Timestamp>,
    /// The terms of secrets that commands replace, by owner, in the order in which they were made.
    pub secrets: HashMap<[u8; 16], Vec<SecretTerm>>,
    /// The recoveries that commands continue, and those that count when a partner begins one; with their owners.
    pub recoveries: HashMap<RecoveryId, (PartnerId, Recovery)>,
    /// The next events of recoveries, by their numbers.
    pub log: HashMap<(PartnerId, u64), LoggedEvent>,
    /// How it went with witnesses of the log, by the ids of their rows.
    pub witnesses: HashMap<[u8; 32], WitnessState>,
    /// Answers remembered under the commands' keys.
    pub prior: HashMap<[u8; 32], RememberedAnswer>,
    /// The number of leaves in the log, including this batch's.
    pub size: u64,
    /// The time of the log's last entry, including this batch's. No later entry has an earlier time, whatever the clock
    /// says.
    pub written: Timestamp,
    /// The log's name.
    pub origin: String,
    /// The key that verifies the log, in note form.
    pub vkey: String,
    /// What the database lacks of the published log, if it was rolled back. Then only accepting the loss is allowed.
    pub rollback: Option<Rollback>,
    /// What the database itself says that it lacks.
    pub lacking: Vec<PublishedHead>,
    /// Whether the database's disk has less room than the operator reserves for existing data.
    pub storage_low: bool,
    /// The quota of partners without one of their own.
    pub quota: Quota,
    /// The bytes that a partner's files which are not completed yet will have. Absent: none.
    pub arriving: HashMap<PartnerId, u64>,
    /// The changes that partners whose commands add one have made in the day, as far as they count, up to the most that they may.
    pub changes: HashMap<PartnerId, u64>,
    /// The last record of the audit in each millisecond, of this batch and of the writer's last one.
    pub recorded: BTreeMap<Timestamp, AuditId>,
    /// How many more new deliveries the courier takes at once, by endpoint. Such deliveries are leased from the start.
    pub room: HashMap<EndpointId, usize>,
}

/// A partner and its endpoints.
#[derive(Debug, Clone)]
pub struct PartnerState {
    /// The partner.
    pub partner: Partner,
    /// The number of events so far.
    pub events: u64,
    /// Its usage so far.
    pub usage: Usage,
    /// The quota that the operator gave it.
    pub quota: Quota,
    /// The endpoints that are not deleted.
    pub endpoints: Vec<Endpoint>,
    /// The version of its policy set.
    pub policy_set_version: PolicySetVersion,
    /// The latest versions of its policies, by id, loaded only for commands that put one or choose among them.
    pub policies: BTreeMap<String, LatestPolicy>,
}

/// The latest version of a partner's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestPolicy {
    /// The version's number.
    pub version: u32,
    /// The hash of its text.
    pub hash: String,
    /// When it was put.
    pub made_at: Timestamp,
}

/// The end of a booking's chain of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainState {
    /// The booking's name in the ledger.
    pub stream: [u8; 16],
    /// The number of entries in its chain.
    pub entries: u64,
    /// The leaf hash of the last entry.
    pub tip: Hash,
}

/// A stored booking with its terms.
#[derive(Debug, Clone)]
pub struct LoadedBooking {
    /// The state that follows from its facts.
    pub state: BookingState,
    /// The terms in force.
    pub terms: Terms,
    /// The terms with which it was recorded, if its event was rescheduled since.
    pub first_terms: Option<FrozenTerms>,
    /// The booking's name in the ledger.
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
    /// The owner.
    pub partner_id: PartnerId,
    /// The key.
    pub key: ApiKey,
    /// For how many milliseconds it was made, if it expires. A rotation makes it expire earlier.
    pub lives_ms: Option<i64>,
    /// When to tell its owner that it will expire; `None` once that was done.
    pub notice_at: Option<Timestamp>,
}

impl KeyState {
    /// When it was made to expire, if it was.
    pub fn made_until(&self) -> Option<Timestamp> {
        self.lives_ms.map(|ms| self.key.created_at.plus_ms(ms))
    }

    /// Whether a rotation made it expire earlier than it was made to.
    pub fn is_rotated(&self) -> bool {
        self.key.expires_at != self.made_until()
    }
}

/// An event and its destinations.
#[derive(Debug, Clone)]
pub struct EventState {
    /// The partner it belongs to.
    pub partner_id: PartnerId,
    /// Its number in the partner's log.
    pub seq: u64,
    /// The booking it is about, if any.
    pub booking_id: Option<BookingId>,
    /// Its type. Endpoints made since then depend on it.
    pub event_type: EventType,
    /// Its body, or what is left of it.
    pub content: Content,
    /// Manual retries so far.
    pub retries: u32,
    /// The endpoints of its deliveries.
    pub endpoints: Vec<EndpointId>,
}

impl EventState {
    /// The event with this id as stored; `None` if it is pruned.
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

/// An event that a recovery examines.
#[derive(Debug, Clone)]
pub struct LoggedEvent {
    /// Its id.
    pub event_id: EventId,
    /// Its type. Endpoints made since then depend on it.
    pub event_type: EventType,
    /// Whether it is pruned, so that there is nothing left to send.
    pub is_pruned: bool,
    /// The endpoints of its deliveries when the batch began.
    pub endpoints: Vec<EndpointId>,
}

/// An answer remembered under an Idempotency-Key.
#[derive(Debug, Clone)]
pub enum RememberedAnswer {
    /// From an earlier batch.
    Stored {
        /// The request's digest.
        request: [u8; 32],
        /// The body that was sent.
        answer: Arc<[u8]>,
    },
    /// From an earlier batch, but gone because values of its booking were erased.
    Erased {
        /// The request's digest.
        request: [u8; 32],
    },
    /// From an earlier command of this batch.
    Pending {
        /// The request's digest.
        request: [u8; 32],
        /// The index of that command.
        command: usize,
    },
}

impl BatchState {
    /// A partner's quota and its usage by `at`.
    pub fn quota_of(&self, state: &PartnerState, at: Timestamp) -> QuotaReport {
        let quota = state.quota.or(self.quota);
        QuotaReport::of(quota, &state.usage, state.endpoints.len() as u64, at)
    }

    /// A partner's state.
    ///
    /// # Errors
    /// `not_found`.
    pub fn partner(&self, partner_id: &PartnerId) -> Result<&PartnerState, Error> {
        let state = self.partners.get(partner_id);
        state.ok_or_else(|| Error::not_found("partner"))
    }

    /// A partner's state, if something may be added or changed for the partner.
    ///
    /// # Errors
    /// `not_found`, `partner_pending`, `partner_ended`.
    pub fn active_partner(&self, partner_id: &PartnerId) -> Result<&PartnerState, Error> {
        let state = self.partner(partner_id)?;
        state.refuse_if_pending()?;
        state.refuse_if_ended()?;
        Ok(state)
    }

    /// A booking and the partner that it belongs to, if something may be added or changed for the partner.
    ///
    /// # Errors
    /// `not_found`, `partner_pending`, `partner_ended`.
    pub(crate) fn booking_of(
        &self,
        partner_id: PartnerId,
        booking_id: BookingId,
    ) -> Result<(&PartnerState, &LoadedBooking), Error> {
        let booking = self.kept_booking_of(partner_id, booking_id)?;
        Ok((self.active_partner(&partner_id)?, booking))
    }

    /// A partner's booking. The partner's contract may have ended: its bookings are still erased and held.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) fn kept_booking_of(
        &self,
        partner_id: PartnerId,
        booking_id: BookingId,
    ) -> Result<&LoadedBooking, Error> {
        let known = self.bookings.get(&booking_id);
        let known = known.filter(|state| state.booking.partner_id == partner_id);
        known
            .map(|state| &**state)
            .ok_or_else(|| Error::not_found("booking"))
    }
}

impl PartnerState {
    /// Refuses if the partner waits for approval.
    pub(crate) fn refuse_if_pending(&self) -> Result<(), Error> {
        match self.partner.status {
            PartnerStatus::Pending => Err(conflict!(
                "partner_pending",
                "Partner {} waits for approval and has no key. Approve it first.",
                self.partner.partner_id
            )),
            _ => Ok(()),
        }
    }

    /// Refuses if the partner's contract has ended.
    pub(crate) fn refuse_if_ended(&self) -> Result<(), Error> {
        self.refuse_if_erased()?;
        match self.partner.contract_ended_at {
            None => Ok(()),
            Some(at) => Err(conflict!(
                "partner_ended",
                "The contract of partner {} ended at {at}, and its personal data is being erased. Reinstate the partner first if the contract is to go on.",
                self.partner.partner_id
            )),
        }
    }

    /// Refuses if the partner's contract has ended and its record is erased.
    pub(crate) fn refuse_if_erased(&self) -> Result<(), Error> {
        match self.partner.is_erased() {
            false => Ok(()),
            true => Err(conflict!(
                "partner_ended",
                "The contract of partner {} has ended and its record is erased, so nothing more is recorded for it, and a review that \
                 was still open stays open. Register it anew, as another partner, if you work with it again.",
                self.partner.partner_id
            )),
        }
    }

    /// The endpoint with this id, unless it is deleted.
    pub(crate) fn endpoint(&self, endpoint_id: &EndpointId) -> Option<&Endpoint> {
        let mut endpoints = self.endpoints.iter();
        endpoints.find(|endpoint| endpoint.endpoint_id == *endpoint_id)
    }

    /// The endpoints that a new event of this type goes to.
    pub fn receivers(&self, event_type: EventType) -> Vec<&Endpoint> {
        let receivers = self.endpoints.iter();
        receivers
            .filter(|endpoint| endpoint.takes(event_type))
            .collect()
    }
}
