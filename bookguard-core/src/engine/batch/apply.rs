//! The effect of a change on the state of its batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{BatchState, KeyState, LatestPolicy, PartnerState};
use crate::engine::change::{Change, Content, DeliveryState, Entry, Pruned};
use crate::engine::command::KeptPolicy;
use crate::model::{
    ApiKey, Endpoint, EndpointId, EventId, Partner, PartnerId, Quota, Timestamp, Usage,
    WitnessState,
};
use crate::policy::PolicySetVersion;

impl BatchState {
    /// Makes a change visible to the commands that follow.
    ///
    /// `Entry` needs no trace here beyond counts and the size: nothing in the same batch can name a booking whose id has not
    /// been answered yet, except through `chains`, which `Entry` updates.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Entry(entry) => self.append(entry),
            Change::LogRenamed { origin, vkey } => {
                self.origin.clone_from(origin);
                self.vkey.clone_from(vkey);
                self.rollback = None;
            }
            Change::LossesNoted(lacking) => self.lacking.clone_from(lacking),
            Change::BookingChanged(booking) => {
                self.bookings
                    .insert(booking.booking.booking_id, Arc::clone(booking));
            }
            Change::ShareAdded(share) | Change::ShareChanged(share) => {
                self.shares.insert(share.share.share_id, (**share).clone());
            }
            Change::OperatorKeyAdded(stored) | Change::OperatorKeyRevoked(stored) => {
                self.operator_keys
                    .insert(stored.key.operator_key_id, (**stored).clone());
            }
            Change::ConsoleSessionAdded(stored) | Change::ConsoleSessionChanged(stored) => {
                self.console_sessions
                    .insert(stored.session.console_session_id, (**stored).clone());
            }
            Change::OperatorSessionAdded(stored) | Change::OperatorSessionChanged(stored) => {
                self.operator_sessions
                    .insert(stored.session.console_session_id, (**stored).clone());
            }
            Change::WitnessNoted(state) => {
                self.witnesses
                    .insert(WitnessState::id(&state.url), (**state).clone());
            }
            Change::HoldWritten(hold) => {
                self.holds.insert(hold.hold.hold_id, (**hold).clone());
            }
            Change::EntryErased(entry) => self.with_partner(entry.partner_id, |state| {
                let used = &mut state.usage.bytes;
                *used = used.saturating_add_signed(entry.grows);
            }),
            Change::Swept(sweep) => self.sweep = Some(*sweep),
            Change::Stamped(stamp) => self.stamped = Some(stamp.size),
            Change::Mapped(written) => self.epoch = Some(written.epoch.clone()),
            Change::StampingChanged(stamping) => self.stamping = (**stamping).clone(),
            Change::Recorded(record) => {
                self.recorded.insert(record.at, record.audit_id);
                if let Some(partner_id) = record.partner_id.filter(|_| record.is_counted()) {
                    *self.changes.entry(partner_id).or_default() += 1;
                }
            }
            Change::FilePartAdded { file, .. } => {
                let before = self.files.insert(file.file_id, *file);
                let partner_id = file.file_id.partner_id();
                let arriving = self.arriving.entry(partner_id).or_default();
                match (before.is_some(), file.is_whole()) {
                    (false, false) => *arriving += file.size,
                    (true, true) => *arriving = arriving.saturating_sub(file.size),
                    _ => {}
                }
                if file.is_whole() {
                    self.with_partner(partner_id, |state| {
                        state.usage.file_bytes += file.size;
                    });
                }
            }
            Change::FileDeleted(file) => {
                self.files.remove(&file.file_id);
                let partner_id = file.file_id.partner_id();
                if file.is_whole() {
                    self.with_partner(partner_id, |state| {
                        let used = &mut state.usage.file_bytes;
                        *used = used.saturating_sub(file.size);
                    });
                } else if let Some(arriving) = self.arriving.get_mut(&partner_id) {
                    *arriving = arriving.saturating_sub(file.size);
                }
            }
            Change::PartnerAdded { .. }
            | Change::PartnerEdited(_)
            | Change::PartnerStatusChanged(..)
            | Change::PartnerSettingsChanged(..)
            | Change::QuotaSet(..)
            | Change::PolicyAdded { .. }
            | Change::KeyAdded(..)
            | Change::KeyStandingChanged(..)
            | Change::KeyExpiryTold(_)
            | Change::BookingAdded(_) => self.apply_to_partner(change),
            Change::EventAdded(_)
            | Change::EventRetried(..)
            | Change::EventPruned(..)
            | Change::DeliveryAdded(..)
            | Change::DeliveryUpdated(..)
            | Change::DeliveryRenewed(..)
            | Change::RecoveryAdded(..)
            | Change::RecoveryUpdated(..) => self.apply_to_event(change),
            Change::EndpointAdded(..)
            | Change::EndpointChanged { .. }
            | Change::EndpointHealthChanged(..)
            | Change::EndpointDeleted(..)
            | Change::SecretAdded { .. }
            | Change::SecretsForgotten { .. } => self.apply_to_endpoint(change),
            Change::AttemptAdded { .. }
            | Change::AuditPruned(..)
            | Change::AnswerReplaced(..)
            | Change::AnswersForgotten(..)
            | Change::AnswersErased(_)
            | Change::SharesForgotten(..)
            | Change::ConsoleSessionsForgotten(..)
            | Change::CosignatureAdded(_)
            | Change::CosignatureForgotten(..)
            | Change::WriteTried => {}
        }
    }

    /// What changes a partner's record, keys, policies or usage.
    fn apply_to_partner(&mut self, change: &Change) {
        match change {
            Change::PartnerAdded { partner, .. } => {
                let state = PartnerState::new((**partner).clone());
                self.partners.insert(partner.partner_id, state);
            }
            Change::PartnerEdited(partner) => self.with_partner(partner.partner_id, |state| {
                state.partner = (**partner).clone();
            }),
            Change::PartnerStatusChanged(partner_id, status) => {
                self.with_partner(*partner_id, |state| state.partner.status = *status);
            }
            Change::PartnerSettingsChanged(partner_id, settings) => {
                let settings = (**settings).clone();
                self.with_partner(*partner_id, |state| state.partner.settings = settings);
            }
            Change::QuotaSet(partner_id, quota) => {
                self.with_partner(*partner_id, |state| state.quota = *quota);
            }
            Change::PolicyAdded {
                partner_id,
                kept,
                versions,
            } => self.with_partner(*partner_id, |state| state.put_policy(kept, *versions)),
            Change::KeyAdded(partner_id, key) => self.add_key(*partner_id, key.key.clone()),
            Change::KeyStandingChanged(api_key_id, standing) => {
                if let Some(state) = self.keys.get_mut(api_key_id) {
                    state.key.revoked_at = standing.revoked_at;
                    state.key.expires_at = standing.expires_at;
                    state.notice_at = None;
                }
            }
            Change::KeyExpiryTold(api_key_id) => {
                if let Some(state) = self.keys.get_mut(api_key_id) {
                    state.notice_at = None;
                }
            }
            Change::BookingAdded(new) => self.with_partner(new.booking.partner_id, |state| {
                state.usage.bookings += 1;
                state.usage.bytes += new.bytes();
            }),
            _ => {}
        }
    }

    /// What changes an event, its deliveries, or how far a recovery of events is.
    fn apply_to_event(&mut self, change: &Change) {
        match change {
            Change::EventAdded(event) => self.with_partner(event.partner_id, |state| {
                state.events = event.seq;
                state.usage.count_event(event.event_id.made_at());
            }),
            Change::EventRetried(event_id, retries) => {
                if let Some(event) = self.events.get_mut(event_id) {
                    event.retries = *retries;
                }
            }
            Change::EventPruned(event_id, pruned) => self.prune(event_id, *pruned),
            Change::DeliveryAdded(name, state) => {
                let (event_id, endpoint_id) = name;
                if let Some(event) = self.events.get_mut(event_id) {
                    event.endpoints.push(*endpoint_id);
                }
                self.take_room(*endpoint_id, state);
                self.deliveries.insert(*name, *state);
            }
            Change::DeliveryUpdated(name, state) => {
                self.take_room(name.1, state);
                self.deliveries.insert(*name, *state);
            }
            // The holder keeps its lease, so this takes no room.
            Change::DeliveryRenewed(name, state) => {
                self.deliveries.insert(*name, *state);
            }
            Change::RecoveryAdded(partner_id, recovery)
            | Change::RecoveryUpdated(partner_id, recovery) => {
                let now = (*partner_id, (**recovery).clone());
                self.recoveries.insert(recovery.recovery_id, now);
            }
            _ => {}
        }
    }

    /// What changes an endpoint or the secrets that deliveries are signed with.
    fn apply_to_endpoint(&mut self, change: &Change) {
        match change {
            Change::EndpointAdded(partner_id, endpoint) => {
                let endpoint = (**endpoint).clone();
                self.with_partner(*partner_id, |state| state.endpoints.push(endpoint));
            }
            Change::EndpointChanged { endpoint, .. } => {
                if let Some(url) = self.addresses.get_mut(&endpoint.endpoint_id) {
                    url.clone_from(&endpoint.url);
                }
                self.with_endpoint(&endpoint.endpoint_id, |known| known.clone_from(endpoint));
            }
            Change::EndpointHealthChanged(endpoint_id, health) => {
                if let Some(known) = self.health.get_mut(endpoint_id) {
                    *known = *health;
                }
                self.with_endpoint(endpoint_id, |endpoint| {
                    *endpoint = endpoint.clone().with_health(*health);
                });
            }
            Change::EndpointDeleted(endpoint_id, at) => self.delete_endpoint(*endpoint_id, *at),
            Change::SecretAdded { owner, term, .. } => {
                self.secrets.entry(*owner).or_default().push(*term);
            }
            Change::SecretsForgotten { owner, made_before } => {
                if let Some(terms) = self.secrets.get_mut(owner) {
                    terms.retain(|term| made_before.is_some_and(|before| term.made >= before));
                }
            }
            _ => {}
        }
    }

    fn add_key(&mut self, partner_id: PartnerId, key: ApiKey) {
        let state = KeyState {
            partner_id,
            lives_ms: key.lives_ms(),
            notice_at: key.notice_at(),
            key,
        };
        self.keys.insert(state.key.api_key_id, state);
    }

    fn append(&mut self, entry: &Entry) {
        self.size = entry.index + 1;
        self.written = entry.at;
        let chain = entry.booking_id.and_then(|id| self.chains.get_mut(&id));
        if let Some(chain) = chain {
            chain.entries = entry.seq + 1;
            chain.tip = entry.hash;
        }
    }

    fn prune(&mut self, event_id: &EventId, pruned: Pruned) {
        if let Some(event) = self.events.get_mut(event_id) {
            event.content = Content::Pruned(pruned);
            if let Some(logged) = self.log.get_mut(&(event.partner_id, event.seq)) {
                logged.is_pruned = true;
            }
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

    /// A delivery leased to the courier leaves less room for the next.
    fn take_room(&mut self, endpoint_id: EndpointId, state: &DeliveryState) {
        if state.lease.is_some()
            && let Some(room) = self.room.get_mut(&endpoint_id)
        {
            *room = room.saturating_sub(1);
        }
    }

    fn delete_endpoint(&mut self, endpoint_id: EndpointId, at: Timestamp) {
        for (partner_id, state) in &mut self.partners {
            let is_it = |endpoint: &mut Endpoint| endpoint.endpoint_id == endpoint_id;
            for endpoint in state.endpoints.extract_if(.., is_it) {
                if endpoint.unverified_since.is_some() {
                    self.unverified_deleted.insert(*partner_id, at);
                }
            }
        }
        self.due.remove(&endpoint_id);
        self.health.remove(&endpoint_id);
        self.addresses.remove(&endpoint_id);
    }
}

impl PartnerState {
    fn new(partner: Partner) -> Self {
        Self {
            partner,
            events: 0,
            usage: Usage::default(),
            quota: Quota::default(),
            endpoints: Vec::new(),
            policy_set_version: PolicySetVersion::default(),
            policies: BTreeMap::new(),
        }
    }

    fn put_policy(&mut self, kept: &KeptPolicy, versions: u64) {
        let document = kept.policy.document();
        let latest = LatestPolicy {
            version: document.version,
            hash: kept.policy.hash().to_owned(),
            made_at: kept.made_at,
        };
        self.policies.insert(document.policy_id.clone(), latest);
        self.policy_set_version = PolicySetVersion {
            versions,
            put_at: kept.made_at,
        };
    }
}
