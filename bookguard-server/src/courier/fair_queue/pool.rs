//! The places for endpoints of one standing, and whose turn it is: fair among partners, then among one partner's endpoints.
//!
//! Invariants: a place goes to the partner that has the fewest, and among equals to the one that has waited longest; no partner
//! has more than [`partner_share`] allows, so half of the places are left to partners that have none.

use std::collections::{BTreeSet, HashMap, VecDeque};

use bookguard_core::engine::outbox::partner_share;
use bookguard_core::model::{EndpointId, PartnerId};

#[derive(Debug)]
pub(super) struct Pool {
    size: usize,
    in_flight: usize,
    partners: HashMap<PartnerId, Group>,
    /// The waiting partners, ordered by the places they have and then by the turn since which they wait.
    order: BTreeSet<(usize, u64, PartnerId)>,
    turn: u64,
}

/// A partner that has places or waits for one.
#[derive(Debug, Default)]
struct Group {
    in_flight: usize,
    since: u64,
    waiting: VecDeque<EndpointId>,
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        Pool {
            size,
            in_flight: 0,
            partners: HashMap::new(),
            order: BTreeSet::new(),
            turn: 0,
        }
    }

    /// Adds an endpoint, which must not wait yet, to those that wait for a place.
    pub(super) fn wait(&mut self, partner_id: PartnerId, endpoint_id: EndpointId) {
        self.turn += 1;
        let group = self.partners.entry(partner_id).or_default();
        if group.waiting.is_empty() {
            group.since = self.turn;
            self.order
                .insert((group.in_flight, group.since, partner_id));
        }
        group.waiting.push_back(endpoint_id);
    }

    /// Removes a waiting endpoint. A partner has few endpoints, so the search is cheap.
    pub(super) fn leave(&mut self, partner_id: PartnerId, endpoint_id: EndpointId) {
        let Some(group) = self.partners.get_mut(&partner_id) else {
            return;
        };
        group.waiting.retain(|waiting| *waiting != endpoint_id);
        if group.waiting.is_empty() {
            let before = (group.in_flight, group.since, partner_id);
            self.order.remove(&before);
            self.forget_idle(partner_id);
        }
    }

    /// Returns the endpoint whose turn it is, if there is a free place, and removes it from those that wait.
    pub(super) fn call(&mut self) -> Option<EndpointId> {
        let (in_flight, _, partner_id) = *self.order.first()?;
        if self.in_flight >= self.size || in_flight >= partner_share(self.size, self.in_flight) {
            return None;
        }
        let group = self.partners.get_mut(&partner_id)?;
        let endpoint_id = group.waiting.pop_front();
        if group.waiting.is_empty() {
            self.order.pop_first();
            self.forget_idle(partner_id);
        }
        endpoint_id
    }

    /// Takes a place for an endpoint of this partner.
    pub(super) fn begin(&mut self, partner_id: PartnerId) {
        self.in_flight += 1;
        self.turn += 1;
        let group = self.partners.entry(partner_id).or_default();
        let before = (group.in_flight, group.since, partner_id);
        group.in_flight += 1;
        if self.order.remove(&before) {
            group.since = self.turn;
            self.order
                .insert((group.in_flight, group.since, partner_id));
        }
    }

    /// Frees a place.
    pub(super) fn end(&mut self, partner_id: PartnerId) {
        let Some(group) = self.partners.get_mut(&partner_id) else {
            return;
        };
        self.in_flight -= 1;
        let before = (group.in_flight, group.since, partner_id);
        group.in_flight -= 1;
        if self.order.remove(&before) {
            self.order
                .insert((group.in_flight, group.since, partner_id));
        }
        self.forget_idle(partner_id);
    }

    fn forget_idle(&mut self, partner_id: PartnerId) {
        let idle = |group: &Group| group.in_flight == 0 && group.waiting.is_empty();
        if self.partners.get(&partner_id).is_some_and(idle) {
            self.partners.remove(&partner_id);
        }
    }
}
