//! The slice of state that a batch of commands can touch, loaded before the first is decided.
//!
//! [`BatchState::apply`] makes each change visible to the next command of the batch, so that deciding a batch gives
//! what deciding its commands one after another would.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::engine::change::{Change, Content, DeliveryState, EventRow, Sweep};
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
    /// Makes a change visible to the commands that follow.
    ///
    /// `BookingAdded` and `Entry` need no trace here beyond counts and the size: nothing in the same batch can name a booking
    /// whose id has not been answered yet, except through `chains`, which `Entry` updates.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::PartnerAdded { partner, .. } => {
                let state = PartnerState {
                    partner: (**partner).clone(),
                    events: 0,
                    usage: Usage::default(),
                    quota: Quota::default(),
                    live_keys: 0,
                    endpoints: Vec::new(),
                    policy_set_version: PolicySetVersion::default(),
                    policies: BTreeMap::new(),
                };
                self.partners.insert(partner.partner_id, state);
            }
            Change::PartnerStatusChanged { partner_id, status } => {
                self.with_partner(*partner_id, |state| state.partner.status = *status);
            }
            Change::KeyAdded { partner_id, key } => {
                self.with_partner(*partner_id, |state| state.live_keys += 1);
                self.keys.insert(
                    key.key.api_key_id,
                    KeyState {
                        partner_id: *partner_id,
                        key: key.key.clone(),
                    },
                );
            }
            Change::KeyRevoked { api_key_id, at } => {
                if let Some(state) = self.keys.get_mut(api_key_id) {
                    state.key.revoked_at = Some(*at);
                    let partner_id = state.partner_id;
                    self.with_partner(partner_id, |state| {
                        state.live_keys = state.live_keys.saturating_sub(1)
                    });
                }
            }
            Change::PolicyAdded {
                partner_id,
                kept,
                versions,
            } => self.with_partner(*partner_id, |state| {
                let document = kept.policy.document();
                let latest = LatestPolicy {
                    version: document.version,
                    hash: kept.policy.hash().to_owned(),
                    made_at: kept.made_at,
                };
                state.policies.insert(document.policy_id.clone(), latest);
                state.policy_set_version = PolicySetVersion {
                    versions: *versions,
                    put_at: kept.made_at,
                };
            }),
            Change::PartnerDecided {
                partner_id,
                settings,
            } => self.with_partner(*partner_id, |state| {
                state.partner.settings = (**settings).clone();
            }),
            Change::Entry(entry) => {
                self.size = entry.index + 1;
                self.written = entry.at;
                let Some(booking_id) = entry.booking_id else {
                    return;
                };
                if let Some(chain) = self.chains.get_mut(&booking_id) {
                    chain.entries = entry.seq + 1;
                    chain.tip = entry.hash;
                }
            }
            Change::LogRenamed { origin, vkey } => {
                self.origin.clone_from(origin);
                self.vkey.clone_from(vkey);
                self.rollback = None;
            }
            Change::BookingChanged(booking) => {
                self.bookings
                    .insert(booking.booking.booking_id, (**booking).clone());
            }
            Change::EventAdded(event) => {
                self.with_partner(event.partner_id, |state| {
                    state.events = event.seq;
                    state.usage.count_event(event.event_id.made_at());
                });
            }
            Change::DeliveryAdded {
                event_id,
                endpoint_id,
                state,
            } => {
                if let Some(event) = self.events.get_mut(event_id) {
                    event.endpoints.push(*endpoint_id);
                }
                self.take_room(*endpoint_id, state);
                self.deliveries.insert((*event_id, *endpoint_id), *state);
            }
            Change::DeliveryUpdated {
                event_id,
                endpoint_id,
                state,
            } => {
                self.take_room(*endpoint_id, state);
                self.deliveries.insert((*event_id, *endpoint_id), *state);
            }
            // Whoever holds it holds it still.
            Change::DeliveryRenewed {
                event_id,
                endpoint_id,
                state,
            } => {
                self.deliveries.insert((*event_id, *endpoint_id), *state);
            }
            Change::EventRetried { event_id, retries } => {
                if let Some(event) = self.events.get_mut(event_id) {
                    event.retries = *retries;
                }
            }
            Change::EventPruned { event_id, pruned } => {
                if let Some(event) = self.events.get_mut(event_id) {
                    event.content = Content::Pruned(*pruned);
                    if let Some(logged) = self.log.get_mut(&(event.partner_id, event.seq)) {
                        logged.is_pruned = true;
                    }
                }
            }
            Change::Swept(sweep) => self.sweep = Some(*sweep),
            Change::EndpointAdded {
                partner_id,
                endpoint,
            } => {
                self.with_partner(*partner_id, |state| {
                    state.endpoints.push((**endpoint).clone())
                });
            }
            Change::EndpointHealthChanged {
                endpoint_id,
                health,
            } => {
                if let Some(known) = self.health.get_mut(endpoint_id) {
                    *known = *health;
                }
                self.with_endpoint(endpoint_id, |endpoint| {
                    *endpoint = endpoint.clone().with_health(*health);
                });
            }
            Change::EndpointChanged { endpoint, .. } => {
                self.with_endpoint(&endpoint.endpoint_id, |known| known.clone_from(endpoint));
            }
            Change::SecretAdded { owner, term, .. } => {
                self.secrets.entry(*owner).or_default().push(*term);
            }
            Change::SecretsForgotten { owner, made_before } => {
                if let Some(terms) = self.secrets.get_mut(owner) {
                    terms.retain(|term| made_before.is_some_and(|before| term.made >= before));
                }
            }
            Change::RecoveryAdded {
                partner_id,
                recovery,
            }
            | Change::RecoveryUpdated {
                partner_id,
                recovery,
            } => {
                let now = (*partner_id, (**recovery).clone());
                self.recoveries.insert(recovery.recovery_id, now);
            }
            Change::EndpointDeleted { endpoint_id, .. } => self.delete_endpoint(*endpoint_id),
            Change::QuotaSet { partner_id, quota } => {
                self.with_partner(*partner_id, |state| state.quota = *quota);
            }
            Change::BookingAdded(new) => self.with_partner(new.booking.partner_id, |state| {
                state.usage.bookings += 1;
                state.usage.bytes += new.bytes();
            }),
            Change::AttemptAdded { .. }
            | Change::AnswerReplaced { .. }
            | Change::AnswersForgotten { .. }
            | Change::WriteTried => {}
        }
    }

    fn with_partner(&mut self, partner_id: PartnerId, change: impl FnOnce(&mut PartnerState)) {
        if let Some(state) = self.partners.get_mut(&partner_id) {
            change(state);
        }
    }

    fn with_endpoint(&mut self, endpoint_id: &EndpointId, change: impl Fn(&mut Endpoint)) {
        let endpoints = self
            .partners
            .values_mut()
            .flat_map(|state| &mut state.endpoints);
        endpoints
            .filter(|endpoint| endpoint.endpoint_id == *endpoint_id)
            .for_each(change);
    }

    /// A delivery that goes into the courier's hands leaves less room for the next.
    fn take_room(&mut self, endpoint_id: EndpointId, state: &DeliveryState) {
        if state.lease.is_some()
            && let Some(room) = self.room.get_mut(&endpoint_id)
        {
            *room = room.saturating_sub(1);
        }
    }

    fn delete_endpoint(&mut self, endpoint_id: EndpointId) {
        for state in self.partners.values_mut() {
            state
                .endpoints
                .retain(|endpoint| endpoint.endpoint_id != endpoint_id);
        }
        self.due.remove(&endpoint_id);
        self.health.remove(&endpoint_id);
    }

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
