//! Whose turn it is: the deliveries one node holds, queued per endpoint, and how many of them may be in flight.
//!
//! Pure: no clock, no I/O; the dispatcher asks and tells. Invariants: no endpoint has more in flight than its share
//! and all together no more than the limit; of an endpoint with a rate limit no attempt begins sooner after the last than that
//! allows, however long nothing was sent; endpoints take turns, so a slow one delays only itself; of an endpoint's
//! turns, retries get one in [`RETRY_TURN`] while first tries wait, and all of them otherwise; no more is held for an
//! endpoint than it takes, at the pace of its last attempts, within half a lease.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use bookguard_core::command::Parcel;
use bookguard_core::limits::{
    IN_FLIGHT, IN_FLIGHT_PER_ENDPOINT, QUEUE_MS, QUEUED_PER_ENDPOINT, QUEUED_PER_SLOW_ENDPOINT,
};
use bookguard_core::model::EndpointId;
use bookguard_core::outbox::whole_claim;
use tokio::time::Instant;

/// First tries go before retries; every this many turns it is the other way round.
const RETRY_TURN: u32 = 4;

/// Moments remembered beyond those of endpoints that have anything here, before those gone by are forgotten.
const PACES: usize = 1_024;

/// How an attempt ended, as far as its endpoint's queue is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With an answer, or quickly without one.
    Promptly,
    /// At its deadline: it held its place as long as it could.
    TimedOut,
    /// With a 410: the endpoint takes nothing more.
    Gone,
    /// Before it began: the endpoint was deleted or disabled meanwhile.
    Closed,
    /// Before it began.
    Unsent,
}

/// The queues of all endpoints that have anything here.
#[derive(Debug, Default)]
pub(super) struct Rota {
    lanes: HashMap<EndpointId, Lane>,
    /// Endpoints that have something to send and a place to send it, each once, the next one first.
    turns: VecDeque<EndpointId>,
    /// Endpoints that have something to send, each once, and the moment before which their rate limit lets nothing begin.
    paced: BTreeSet<(Instant, EndpointId)>,
    /// When an endpoint with a rate limit may begin its next attempt.
    paces: HashMap<EndpointId, Instant>,
    in_flight: usize,
}

#[derive(Debug)]
struct Lane {
    first_tries: VecDeque<Parcel>,
    retries: VecDeque<Parcel>,
    /// First tries sent since the last retry, while retries waited.
    since_retry: u32,
    in_flight: usize,
    /// Attempts that have ended and are not settled yet.
    settling: usize,
    /// How many may be in flight. One after a time-out, twice as many after each attempt that ends otherwise: so
    /// that many dead endpoints together do not hold all places of the node.
    share: usize,
    /// Milliseconds an attempt takes, the last ones counting most.
    takes_ms: u64,
    /// How many may be held: a power of two, so that it changes seldom.
    most: usize,
    /// Attempts that may begin per second, as of the last delivery to come.
    per_second: Option<u32>,
    /// Whether it has its turn, or a moment to wait for.
    in_turns: bool,
    /// Whether the store holds more for this endpoint than there was room for.
    backlog: bool,
    gone: bool,
}

impl Lane {
    fn new() -> Self {
        Lane {
            first_tries: VecDeque::new(),
            retries: VecDeque::new(),
            since_retry: 0,
            in_flight: 0,
            settling: 0,
            share: IN_FLIGHT_PER_ENDPOINT,
            takes_ms: 0,
            most: QUEUED_PER_ENDPOINT,
            per_second: None,
            in_turns: false,
            backlog: false,
            gone: false,
        }
    }

    fn queued(&self) -> usize {
        self.first_tries.len() + self.retries.len()
    }

    fn held(&self) -> usize {
        self.queued() + self.in_flight + self.settling
    }

    /// Takes note of how long an attempt took; the new [`most`](Lane::most) when that changes it.
    fn pace(&mut self, took_ms: u64) -> Option<usize> {
        self.takes_ms = (self.takes_ms * 7 + took_ms) / 8;
        let in_time = (self.share as u64 * QUEUE_MS).checked_div(self.takes_ms);
        let limited = self
            .per_second
            .map_or(u64::MAX, |n| u64::from(n) * QUEUE_MS / 1000);
        let most = usize::try_from(in_time.unwrap_or(u64::MAX).min(limited))
            .unwrap_or(usize::MAX)
            .clamp(QUEUED_PER_SLOW_ENDPOINT, QUEUED_PER_ENDPOINT);
        let most = 1 << most.ilog2();
        (std::mem::replace(&mut self.most, most) != most).then_some(most)
    }

    fn may_send(&self) -> bool {
        self.queued() > 0 && self.in_flight < self.share
    }

    fn empty(&mut self) -> impl Iterator<Item = Parcel> + use<> {
        let first_tries = std::mem::take(&mut self.first_tries);
        first_tries
            .into_iter()
            .chain(std::mem::take(&mut self.retries))
    }

    fn take(&mut self) -> Option<Parcel> {
        if self.retries.is_empty() {
            return self.first_tries.pop_front();
        }
        if self.first_tries.is_empty() || self.since_retry + 1 >= RETRY_TURN {
            self.since_retry = 0;
            return self.retries.pop_front();
        }
        self.since_retry += 1;
        self.first_tries.pop_front()
    }
}

impl Rota {
    /// Queues a delivery.
    pub(super) fn add(&mut self, parcel: Parcel) {
        let endpoint_id = parcel.endpoint_id;
        let lane = self.lanes.entry(endpoint_id).or_insert_with(Lane::new);
        lane.per_second = parcel.per_second;
        if parcel.attempts == 0 {
            lane.first_tries.push_back(parcel);
        } else {
            lane.retries.push_back(parcel);
        }
        queue_up(lane, endpoint_id, &mut self.turns);
    }

    /// The delivery to be attempted next, which from now on is in flight; `None` while nothing may be sent.
    pub(super) fn next(&mut self, now: Instant) -> Option<Parcel> {
        if self.in_flight >= IN_FLIGHT {
            return None;
        }
        while let Some((at, endpoint_id)) = self.paced.first().copied()
            && at <= now
        {
            self.paced.pop_first();
            self.turns.push_back(endpoint_id);
        }
        while let Some(endpoint_id) = self.turns.pop_front() {
            let Some(lane) = self.lanes.get_mut(&endpoint_id) else {
                continue;
            };
            lane.in_turns = false;
            if !lane.may_send() {
                continue;
            }
            if let Some(at) = self.paces.get(&endpoint_id).filter(|at| **at > now)
                && lane.per_second.is_some()
            {
                lane.in_turns = true;
                self.paced.insert((*at, endpoint_id));
                continue;
            }
            let Some(parcel) = lane.take() else { continue };
            lane.in_flight += 1;
            self.in_flight += 1;
            if let Some(per_second) = lane.per_second {
                let next = now + Duration::from_secs(1) / per_second.max(1);
                self.paces.insert(endpoint_id, next);
            }
            queue_up(lane, endpoint_id, &mut self.turns);
            if self.paces.len() > self.lanes.len() + PACES {
                self.paces.retain(|_, at| *at > now);
            }
            return Some(parcel);
        }
        None
    }

    /// When to ask for the next delivery though nothing has happened: a rate limit lets one begin then.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let (at, _) = self.paced.first()?;
        (self.in_flight < IN_FLIGHT).then_some(*at)
    }

    /// An attempt is over: its place is free, though the delivery is still held until it is [`done`](Self::done). How
    /// many may be held for the endpoint from now on, when that changes; see [`shed`](Self::shed).
    pub(super) fn sent(
        &mut self,
        endpoint_id: &EndpointId,
        ended: Ended,
        took_ms: u64,
    ) -> Option<usize> {
        let lane = self.lanes.get_mut(endpoint_id)?;
        lane.in_flight -= 1;
        lane.settling += 1;
        self.in_flight -= 1;
        lane.share = match ended {
            Ended::TimedOut => 1,
            Ended::Unsent | Ended::Closed => lane.share,
            Ended::Promptly | Ended::Gone => (lane.share * 2).min(IN_FLIGHT_PER_ENDPOINT),
        };
        queue_up(lane, *endpoint_id, &mut self.turns);
        match ended {
            Ended::Unsent | Ended::Closed => None,
            Ended::Promptly | Ended::TimedOut | Ended::Gone => lane.pace(took_ms),
        }
    }

    /// What is queued for the endpoint beyond what may be held; the last to come goes first.
    pub(super) fn shed(&mut self, endpoint_id: &EndpointId) -> Vec<Parcel> {
        let Some(lane) = self.lanes.get_mut(endpoint_id) else {
            return Vec::new();
        };
        let surplus = lane.queued().saturating_sub(lane.most);
        std::iter::from_fn(|| {
            lane.first_tries
                .pop_back()
                .or_else(|| lane.retries.pop_back())
        })
        .take(surplus)
        .collect()
    }

    /// A delivery that was [`sent`](Self::sent) is settled, or given back. Says whether the claimer should come: the
    /// store holds more for this endpoint, and now there is room for a whole claim.
    pub(super) fn done(&mut self, endpoint_id: &EndpointId) -> bool {
        let Some(lane) = self.lanes.get_mut(endpoint_id) else {
            return false;
        };
        lane.settling -= 1;
        let wanted = lane.backlog && has_room(lane);
        if wanted {
            lane.backlog = false;
        }
        if lane.held() == 0 {
            self.lanes.remove(endpoint_id);
        }
        wanted
    }

    /// The endpoint takes nothing more: what was queued for it. `None` when that was known already.
    pub(super) fn gone(&mut self, endpoint_id: &EndpointId) -> Option<Vec<Parcel>> {
        let lane = self.lanes.get_mut(endpoint_id)?;
        if std::mem::replace(&mut lane.gone, true) {
            return None;
        }
        Some(lane.empty().collect())
    }

    /// The store holds more for these endpoints, and there was no room. Says whether there is room by now.
    pub(super) fn backlog(&mut self, endpoint_ids: &[EndpointId]) -> bool {
        let mut room = false;
        for endpoint_id in endpoint_ids {
            match self.lanes.get_mut(endpoint_id) {
                Some(lane) if !has_room(lane) => lane.backlog = true,
                _ => room = true,
            }
        }
        room
    }

    /// Hands out everything that is queued.
    pub(super) fn clear(&mut self) -> Vec<Parcel> {
        let queued = self.lanes.values_mut().flat_map(Lane::empty).collect();
        self.lanes.retain(|_, lane| lane.held() > 0);
        queued
    }

    /// Whether nothing is held.
    pub(super) fn is_idle(&self) -> bool {
        self.lanes.is_empty()
    }
}

fn has_room(lane: &Lane) -> bool {
    lane.held() + whole_claim(lane.most) <= lane.most
}

fn queue_up(lane: &mut Lane, endpoint_id: EndpointId, turns: &mut VecDeque<EndpointId>) {
    if lane.may_send() && !lane.in_turns {
        lane.in_turns = true;
        turns.push_back(endpoint_id);
    }
}

#[cfg(test)]
mod tests;
