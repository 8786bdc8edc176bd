//! Deliveries that the writer hands to the courier in memory right after the commit that made them, and deliveries
//! handed back.
//!
//! The number is bounded per endpoint, per partner and in all. A delivery that finds no room stays in the store, due at
//! once, and is claimed when there is room. The room of an endpoint depends on its health: healthy, new and troubled
//! endpoints have separate pools, so that dead endpoints, however many, leave room for deliveries that succeed at once.
//! Within a pool, each partner has its share ([`partner_share`]). A new delivery gets the room there was when its batch
//! began.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::engine::command::LeasedDelivery;
use crate::limits::{
    CLAIMED_PER_ENDPOINT, LEASE_MS, QUEUED, QUEUED_NEW, QUEUED_PER_SLOW_ENDPOINT,
    QUEUED_PER_TROUBLED_ENDPOINT, QUEUED_TROUBLED,
};
use crate::model::{Endpoint, EndpointId, EventId, PartnerId, Timestamp};

/// The recent health of an endpoint, as far as this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointStanding {
    /// It accepts deliveries promptly.
    Good,
    /// Not known yet.
    New,
    /// It times out, is slow, or has refused everything for a while.
    Troubled,
}

/// How many deliveries the courier may hold for an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointAllowance {
    /// The pool they come from.
    pub standing: EndpointStanding,
    /// The maximum for this endpoint alone.
    pub most: usize,
}

/// The writer's end of the hand-over.
#[derive(Debug)]
pub struct Outbox {
    deliveries: mpsc::UnboundedSender<Vec<LeasedDelivery>>,
    held: Mutex<HeldCounts>,
    /// Events whose bodies were erased lately, and when. The courier may hold deliveries of them.
    recalled: Mutex<HashMap<EventId, Timestamp>>,
}

/// The number of deliveries the courier holds. Endpoints without an account count as new.
#[derive(Debug, Default)]
struct HeldCounts {
    endpoints: HashMap<EndpointId, EndpointLoad>,
    pools: HashMap<EndpointStanding, Pool>,
}

/// The number held for one endpoint, and its allowance.
#[derive(Debug)]
struct EndpointLoad {
    partner_id: PartnerId,
    count: usize,
    terms: EndpointAllowance,
}

/// The number held for all endpoints of one standing.
#[derive(Debug, Clone, Default)]
struct Pool {
    count: usize,
    partners: HashMap<PartnerId, usize>,
}

/// What may be claimed now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The endpoints to claim from, and the most from each; healthy ones first.
    pub open: Vec<(EndpointId, usize)>,
    /// How many of these, from the first on, are worth another look at once.
    pub urgent: usize,
    /// Endpoints that are not troubled but have no room of their own. Whoever frees room for one should report it.
    pub full: Vec<EndpointId>,
}

/// The most places of `size` that one partner may hold while `taken` are held, its own included: half of the free part
/// of the first half, but at least one. So a single partner gets a sixth of all places, and however many greedy
/// partners came before, half of the places are left for partners that hold none.
#[must_use]
pub fn partner_share(size: usize, taken: usize) -> usize {
    ((size / 2).saturating_sub(taken) / 2).max(1)
}

/// The number of deliveries for which a claim should find room, given the most that may be held. Makes claims fewer and
/// larger.
#[must_use]
pub fn whole_claim(most: usize) -> usize {
    CLAIMED_PER_ENDPOINT.min(most / 2).max(1)
}

impl EndpointStanding {
    /// The most that may be held for all endpoints of this standing.
    fn size(self) -> usize {
        match self {
            Self::Good => QUEUED,
            Self::New => QUEUED_NEW,
            Self::Troubled => QUEUED_TROUBLED,
        }
    }
}

impl EndpointAllowance {
    /// The allowance of an unknown endpoint.
    pub const NEW: EndpointAllowance = EndpointAllowance {
        standing: EndpointStanding::New,
        most: QUEUED_PER_SLOW_ENDPOINT,
    };
    /// The allowance of a troubled endpoint.
    pub const TROUBLED: EndpointAllowance = EndpointAllowance {
        standing: EndpointStanding::Troubled,
        most: QUEUED_PER_TROUBLED_ENDPOINT,
    };

    /// The allowance of an endpoint that only the store knows. The store may know that it fails.
    #[must_use]
    pub fn of_unknown(failing: bool) -> EndpointAllowance {
        match failing {
            false => Self::NEW,
            true => Self::TROUBLED,
        }
    }
}

impl Pool {
    /// How many more this partner may hold.
    fn left(&self, size: usize, partner_id: PartnerId) -> usize {
        if self.count >= size {
            return 0;
        }
        let own = self.partners.get(&partner_id).copied().unwrap_or_default();
        partner_share(size, self.count).saturating_sub(own)
    }

    fn put(&mut self, partner_id: PartnerId, count: usize) {
        if count > 0 {
            self.count += count;
            *self.partners.entry(partner_id).or_default() += count;
        }
    }

    fn take(&mut self, partner_id: PartnerId, count: usize) {
        self.count = self.count.saturating_sub(count);
        if let Some(own) = self.partners.get_mut(&partner_id) {
            *own = own.saturating_sub(count);
            if *own == 0 {
                self.partners.remove(&partner_id);
            }
        }
    }
}

impl HeldCounts {
    /// The endpoint's allowance, and how much room of its own is left.
    fn of(&self, endpoint_id: &EndpointId, failing: bool) -> (EndpointAllowance, usize) {
        let account = self.endpoints.get(endpoint_id);
        let unknown = || (EndpointAllowance::of_unknown(failing), 0);
        let (terms, count) = account.map_or_else(unknown, |of| (of.terms, of.count));
        (terms, terms.most.saturating_sub(count))
    }

    fn left(&self, standing: EndpointStanding, partner_id: PartnerId) -> usize {
        let size = standing.size();
        let pool = self.pools.get(&standing);
        pool.map_or(partner_share(size, 0), |pool| pool.left(size, partner_id))
    }
}

impl Outbox {
    /// Returns an outbox and the courier's end of it.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Vec<LeasedDelivery>>) {
        let (deliveries, received) = mpsc::unbounded_channel();
        (
            Self {
                deliveries,
                held: Mutex::default(),
                recalled: Mutex::default(),
            },
            received,
        )
    }

    fn held(&self) -> MutexGuard<'_, HeldCounts> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of deliveries to this endpoint that the courier holds.
    pub fn count(&self, endpoint_id: &EndpointId) -> usize {
        let held = self.held();
        held.endpoints.get(endpoint_id).map_or(0, |of| of.count)
    }

    /// The deliveries that a claim may take from endpoints with something due, given the endpoints' health in the
    /// store. An endpoint is skipped until it has room for a whole claim. Endpoints of one partner take turns with
    /// those of other partners. Otherwise they keep their order.
    pub fn claims(&self, due: &[(EndpointId, PartnerId, bool)]) -> Claims {
        let held = self.held();
        let mut claims = Claims::default();
        let mut ranks: HashMap<(EndpointStanding, PartnerId), usize> = HashMap::new();
        let mut open = Vec::new();
        for (endpoint_id, partner_id, failing) in due {
            let (terms, room) = held.of(endpoint_id, *failing);
            if room >= whole_claim(terms.most) {
                let rank = ranks.entry((terms.standing, *partner_id)).or_default();
                open.push((terms.standing, *rank, *endpoint_id, *partner_id, room));
                *rank += 1;
            } else if terms.standing != EndpointStanding::Troubled {
                claims.full.push(*endpoint_id);
            }
        }
        open.sort_by_key(|(standing, rank, ..)| (*standing, *rank));
        let mut pools = held.pools.clone();
        drop(held);
        for (standing, _, endpoint_id, partner_id, room) in open {
            let pool = pools.entry(standing).or_default();
            let left = pool.left(standing.size(), partner_id);
            let most = room.min(left).min(CLAIMED_PER_ENDPOINT);
            if most == 0 {
                continue;
            }
            pool.put(partner_id, most);
            claims.open.push((endpoint_id, most));
            if standing != EndpointStanding::Troubled {
                claims.urgent = claims.open.len();
            }
        }
        claims
    }

    /// Sets an endpoint's allowance, which also lasts while nothing is held for it.
    pub fn set(&self, endpoint_id: EndpointId, partner_id: PartnerId, terms: EndpointAllowance) {
        let mut held = self.held();
        let HeldCounts { endpoints, pools } = &mut *held;
        let account = endpoints.entry(endpoint_id).or_insert(EndpointLoad {
            partner_id,
            count: 0,
            terms,
        });
        let before = std::mem::replace(&mut account.terms, terms).standing;
        if before != terms.standing {
            let (partner_id, count) = (account.partner_id, account.count);
            pools.entry(before).or_default().take(partner_id, count);
            let pool = pools.entry(terms.standing).or_default();
            pool.put(partner_id, count);
        }
    }

    /// Forgets the endpoint's allowance, because the courier has forgotten its health.
    pub fn forget(&self, endpoint_id: &EndpointId) {
        let mut held = self.held();
        if held
            .endpoints
            .get(endpoint_id)
            .is_some_and(|of| of.count == 0)
        {
            held.endpoints.remove(endpoint_id);
        }
    }

    /// How many new deliveries to each of a partner's endpoints may be leased to the courier from the start.
    ///
    /// That is the room less one claim. Otherwise, if events came faster than the endpoint takes them, new deliveries
    /// would fill every free place, and those waiting in the store would wait for ever.
    pub(crate) fn rooms_at_birth(
        &self,
        partner_id: PartnerId,
        endpoints: &[Endpoint],
    ) -> Vec<(EndpointId, usize)> {
        let held = self.held();
        let room = |endpoint: &Endpoint| {
            let (terms, room) = held.of(&endpoint.endpoint_id, endpoint.failures > 0);
            let room = room.saturating_sub(whole_claim(terms.most));
            let left = held.left(terms.standing, partner_id);
            (endpoint.endpoint_id, room.min(left))
        };
        endpoints.iter().map(room).collect()
    }

    /// Hands deliveries to the courier. If the courier is gone, they wait for their leases to end.
    pub(crate) fn hand_over(&self, deliveries: Vec<LeasedDelivery>) {
        if deliveries.is_empty() {
            return;
        }
        {
            let mut held = self.held();
            let HeldCounts { endpoints, pools } = &mut *held;
            for delivery in &deliveries {
                let account = endpoints
                    .entry(delivery.endpoint_id)
                    .or_insert(EndpointLoad {
                        partner_id: delivery.partner_id,
                        count: 0,
                        terms: EndpointAllowance::of_unknown(delivery.failing),
                    });
                account.count += 1;
                let pool = pools.entry(account.terms.standing).or_default();
                pool.put(account.partner_id, 1);
            }
        }
        let _ = self.deliveries.send(deliveries);
    }

    /// Has the courier send no delivery of these events that it has not begun: their bodies were erased.
    pub(crate) fn recall(&self, erased: Vec<EventId>, now: Timestamp) {
        if erased.is_empty() {
            return;
        }
        let mut recalled = self.recalled();
        // A delivery that is held is not sent after its lease.
        recalled.retain(|_, at| (now.ms() - at.ms()).abs() < 2 * LEASE_MS);
        recalled.extend(erased.into_iter().map(|event_id| (event_id, now)));
    }

    /// Whether the body of this event was erased while deliveries of it may have been held.
    pub fn is_recalled(&self, event_id: &EventId) -> bool {
        self.recalled().contains_key(event_id)
    }

    fn recalled(&self) -> MutexGuard<'_, HashMap<EventId, Timestamp>> {
        self.recalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the courier is done with one delivery to this endpoint.
    pub fn release(&self, endpoint_id: &EndpointId) {
        let mut held = self.held();
        let HeldCounts { endpoints, pools } = &mut *held;
        let Some(of) = endpoints.get_mut(endpoint_id).filter(|of| of.count > 0) else {
            return;
        };
        of.count -= 1;
        let pool = pools.entry(of.terms.standing).or_default();
        pool.take(of.partner_id, 1);
        if of.count == 0 && of.terms.standing == EndpointStanding::New {
            endpoints.remove(endpoint_id);
        }
    }
}

#[cfg(test)]
mod tests;
