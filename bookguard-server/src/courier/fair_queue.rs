//! The fair queue: the deliveries one node holds, queued per endpoint, and how many of them may be in flight.
//!
//! Pure: no clock, no I/O; the dispatcher asks and tells. Healthy endpoints, new ones, and troubled ones each work from a pool of
//! places (`pool`); which one it is, and how many places an endpoint may have, is said by its `record`, which outlives its queue
//! (`memory`). Invariants: no endpoint has more in flight than its share, no partner more than its own of a pool, and no pool more than its
//! places; so dead endpoints, however many, take no place from healthy ones. Of an endpoint with a rate limit no attempt
//! begins sooner after the last than that allows, however long nothing was sent; partners take turns, and so do the endpoints of one;
//! of an endpoint's turns, retries get one in [`RETRY_TURN`] while first tries wait, and all of them otherwise; no more is held for an
//! endpoint than it takes, at the pace of its last attempts, within half a lease.

mod memory;
mod pool;
mod record;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use bookguard_core::engine::command::LeasedDelivery;
use bookguard_core::engine::outbox::{EndpointAllowance, EndpointStanding, whole_claim};
use bookguard_core::limits::{IN_FLIGHT, IN_FLIGHT_NEW, IN_FLIGHT_TROUBLED};
use bookguard_core::model::{EndpointId, PartnerId};
use tokio::time::Instant;

use memory::Memory;
use pool::Pool;
use record::Record;

use super::sender::Asker;

/// First tries go before retries; every this many turns it is the other way round.
const RETRY_TURN: u32 = 4;

/// Moments remembered beyond those of endpoints that have anything here, before those gone by are forgotten.
const PACES: usize = 1_024;

/// How an attempt ended, as far as its endpoint's queue is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The delivery was accepted.
    Accepted,
    /// It was refused, or there was no connection.
    Refused,
    /// At its deadline: it held its place as long as it could.
    TimedOut,
    /// With a 410: the endpoint takes nothing more.
    Gone,
    /// Before it began: the endpoint was deleted or disabled meanwhile.
    Closed,
    /// Before it began, or by a fault of ours: it says nothing about the endpoint.
    Unsent,
}

/// A delivery whose turn it is.
#[derive(Debug)]
pub(super) struct Turn {
    pub delivery: LeasedDelivery,
    pub seat: AttemptSeat,
    /// How long the attempt may take.
    pub patience: Duration,
}

/// The place it holds, to be given back when the attempt is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptSeat {
    pub endpoint_id: EndpointId,
    partner_id: PartnerId,
    pool: EndpointStanding,
}

impl AttemptSeat {
    /// Who looks up names for the attempt.
    pub(super) fn asker(&self) -> Asker {
        Asker {
            partner_id: self.partner_id,
            standing: self.pool,
        }
    }
}

/// The queues of all endpoints that have anything here.
#[derive(Debug)]
pub(super) struct FairQueue {
    queues: HashMap<EndpointId, EndpointQueue>,
    /// Places, and the endpoints that have something to send and may have one.
    pools: Pools,
    memory: Memory,
    /// Endpoints whose ways were forgotten and nobody was told.
    forgotten: Vec<EndpointId>,
    /// How long an attempt may take at most.
    attempt_time: Duration,
    /// Endpoints that have something to send, each once, and the moment before which their rate limit lets nothing begin.
    paced: BTreeSet<(Instant, EndpointId)>,
    /// When an endpoint with a rate limit may begin its next attempt.
    paces: HashMap<EndpointId, Instant>,
}

#[derive(Debug)]
struct Pools {
    good: Pool,
    new: Pool,
    troubled: Pool,
}

impl Pools {
    fn of(&mut self, standing: EndpointStanding) -> &mut Pool {
        match standing {
            EndpointStanding::Good => &mut self.good,
            EndpointStanding::New => &mut self.new,
            EndpointStanding::Troubled => &mut self.troubled,
        }
    }
}

#[derive(Debug)]
struct EndpointQueue {
    partner_id: PartnerId,
    record: Record,
    first_tries: VecDeque<LeasedDelivery>,
    retries: VecDeque<LeasedDelivery>,
    /// First tries sent since the last retry, while retries waited.
    since_retry: u32,
    in_flight: usize,
    /// Attempts that have ended and are not settled yet.
    settling: usize,
    /// Attempts that may begin per second, as of the last delivery to come.
    per_second: Option<u32>,
    waits: Waits,
    /// Whether the store holds more for this endpoint than there was room for.
    backlog: bool,
    gone: bool,
}

/// What a queue that has something to send waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    No,
    /// For its turn in the pool of its standing.
    ForPlace,
    /// For the moment at which its rate limit lets an attempt begin.
    ForMoment,
}

impl EndpointQueue {
    fn new(partner_id: PartnerId, record: Record) -> Self {
        EndpointQueue {
            partner_id,
            record,
            first_tries: VecDeque::new(),
            retries: VecDeque::new(),
            since_retry: 0,
            in_flight: 0,
            settling: 0,
            per_second: None,
            waits: Waits::No,
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

    fn may_send(&self) -> bool {
        self.queued() > 0 && self.in_flight < self.record.cap()
    }

    fn empty(&mut self) -> impl Iterator<Item = LeasedDelivery> + use<> {
        let first_tries = std::mem::take(&mut self.first_tries);
        first_tries
            .into_iter()
            .chain(std::mem::take(&mut self.retries))
    }

    fn take(&mut self) -> Option<LeasedDelivery> {
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

impl FairQueue {
    /// Without queues; an attempt may take so long.
    pub(super) fn new(attempt_time: Duration) -> Self {
        FairQueue {
            queues: HashMap::new(),
            pools: Pools {
                good: Pool::new(IN_FLIGHT),
                new: Pool::new(IN_FLIGHT_NEW),
                troubled: Pool::new(IN_FLIGHT_TROUBLED),
            },
            memory: Memory::default(),
            forgotten: Vec::new(),
            attempt_time,
            paced: BTreeSet::new(),
            paces: HashMap::new(),
        }
    }

    /// Queues a delivery.
    pub(super) fn add(&mut self, delivery: LeasedDelivery) {
        let (endpoint_id, partner_id) = (delivery.endpoint_id, delivery.partner_id);
        let queue = self.queues.entry(endpoint_id).or_insert_with(|| {
            let known = self.memory.take(&endpoint_id);
            let record = known.unwrap_or_else(|| Record::unknown(delivery.failing));
            EndpointQueue::new(partner_id, record)
        });
        queue.per_second = delivery.per_second;
        // What is claimed after that is for an endpoint which was brought back: it may end once more.
        queue.gone = false;
        if delivery.attempts == 0 {
            queue.first_tries.push_back(delivery);
        } else {
            queue.retries.push_back(delivery);
        }
        queue_up(queue, endpoint_id, &mut self.pools);
    }

    /// The delivery to be attempted next, which from now on is in flight; `None` while nothing may be sent.
    pub(super) fn next(&mut self, now: Instant) -> Option<Turn> {
        while let Some((at, endpoint_id)) = self.paced.first().copied()
            && at <= now
        {
            self.paced.pop_first();
            // A moment may be that of a queue which is gone, and the endpoint's new one may wait for a place already.
            if let Some(queue) = self.queues.get_mut(&endpoint_id)
                && queue.waits == Waits::ForMoment
            {
                queue.waits = Waits::No;
                queue_up(queue, endpoint_id, &mut self.pools);
            }
        }
        let pools = [
            EndpointStanding::Good,
            EndpointStanding::New,
            EndpointStanding::Troubled,
        ];
        pools.into_iter().find_map(|pool| self.next_of(pool, now))
    }

    fn next_of(&mut self, pool: EndpointStanding, now: Instant) -> Option<Turn> {
        while let Some(endpoint_id) = self.pools.of(pool).call() {
            let Some(queue) = self.queues.get_mut(&endpoint_id) else {
                continue;
            };
            queue.waits = Waits::No;
            if !queue.may_send() {
                continue;
            }
            if let Some(at) = self.paces.get(&endpoint_id).filter(|at| **at > now)
                && queue.per_second.is_some()
            {
                queue.waits = Waits::ForMoment;
                self.paced.insert((*at, endpoint_id));
                continue;
            }
            let Some(delivery) = queue.take() else {
                continue;
            };
            queue.in_flight += 1;
            let seat = AttemptSeat {
                endpoint_id,
                partner_id: queue.partner_id,
                pool,
            };
            self.pools.of(pool).begin(seat.partner_id);
            if let Some(per_second) = queue.per_second {
                let next = now + Duration::from_secs(1) / per_second.max(1);
                self.paces.insert(endpoint_id, next);
            }
            let patience = queue.record.patience(self.attempt_time);
            queue_up(queue, endpoint_id, &mut self.pools);
            if self.paces.len() > self.queues.len() + PACES {
                self.paces.retain(|_, at| *at > now);
            }
            return Some(Turn {
                delivery,
                seat,
                patience,
            });
        }
        None
    }

    /// When to ask for the next delivery though nothing has happened: a rate limit lets one begin then.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.paced.first().map(|(at, _)| *at)
    }

    /// An attempt is over: its place is free, though the delivery is still held until it is [`done`](Self::done). How
    /// much is held for the endpoint from now on, when that changes; see [`shed`](Self::shed).
    pub(super) fn sent(
        &mut self,
        seat: AttemptSeat,
        ended: Ended,
        took_ms: u64,
    ) -> Option<(PartnerId, EndpointAllowance)> {
        self.pools.of(seat.pool).end(seat.partner_id);
        let queue = self.queues.get_mut(&seat.endpoint_id)?;
        queue.in_flight -= 1;
        queue.settling += 1;
        let before = queue.record.terms();
        queue.record.note(ended, took_ms, queue.per_second);
        let terms = queue.record.terms();
        if terms.standing != before.standing && queue.waits == Waits::ForPlace {
            queue.waits = Waits::No;
            let pool = self.pools.of(before.standing);
            pool.leave(queue.partner_id, seat.endpoint_id);
        }
        queue_up(queue, seat.endpoint_id, &mut self.pools);
        (terms != before).then_some((queue.partner_id, terms))
    }

    /// What is queued for the endpoint beyond what may be held; the last to come goes first.
    pub(super) fn shed(&mut self, endpoint_id: &EndpointId) -> Vec<LeasedDelivery> {
        let Some(queue) = self.queues.get_mut(endpoint_id) else {
            return Vec::new();
        };
        let surplus = queue.queued().saturating_sub(queue.record.terms().most);
        std::iter::from_fn(|| {
            queue
                .first_tries
                .pop_back()
                .or_else(|| queue.retries.pop_back())
        })
        .take(surplus)
        .collect()
    }

    /// A delivery that was [`sent`](Self::sent) is settled, or given back. Says whether the claimer should come: the
    /// store holds more for this endpoint, which is healthy, and now there is room for a whole claim.
    pub(super) fn done(&mut self, endpoint_id: &EndpointId) -> bool {
        let Some(queue) = self.queues.get_mut(endpoint_id) else {
            return false;
        };
        queue.settling -= 1;
        let good = queue.record.terms().standing == EndpointStanding::Good;
        let wanted = good && queue.backlog && has_room(queue);
        if wanted {
            queue.backlog = false;
        }
        if queue.held() == 0
            && let Some(queue) = self.queues.remove(endpoint_id)
        {
            if queue.waits == Waits::ForPlace {
                let pool = self.pools.of(queue.record.terms().standing);
                pool.leave(queue.partner_id, *endpoint_id);
            }
            self.forgotten
                .extend(self.memory.keep(*endpoint_id, queue.record));
        }
        wanted
    }

    /// Endpoints that are new from now on, each told once.
    pub(super) fn forgotten(&mut self) -> Vec<EndpointId> {
        std::mem::take(&mut self.forgotten)
    }

    /// The endpoint takes nothing more: what was queued for it. `None` when that was known already.
    pub(super) fn gone(&mut self, endpoint_id: &EndpointId) -> Option<Vec<LeasedDelivery>> {
        let queue = self.queues.get_mut(endpoint_id)?;
        if std::mem::replace(&mut queue.gone, true) {
            return None;
        }
        Some(queue.empty().collect())
    }

    /// The store holds more for these endpoints, and there was no room. Says whether there is room by now.
    pub(super) fn backlog(&mut self, endpoint_ids: &[EndpointId]) -> bool {
        let mut room = false;
        for endpoint_id in endpoint_ids {
            match self.queues.get_mut(endpoint_id) {
                Some(queue) if !has_room(queue) => queue.backlog = true,
                _ => room = true,
            }
        }
        room
    }

    /// Hands out everything that is queued.
    pub(super) fn clear(&mut self) -> Vec<LeasedDelivery> {
        let queued = self
            .queues
            .values_mut()
            .flat_map(EndpointQueue::empty)
            .collect();
        self.queues.retain(|_, queue| queue.held() > 0);
        queued
    }

    /// Whether nothing is held.
    pub(super) fn is_idle(&self) -> bool {
        self.queues.is_empty()
    }
}

fn has_room(queue: &EndpointQueue) -> bool {
    let most = queue.record.terms().most;
    queue.held() + whole_claim(most) <= most
}

fn queue_up(queue: &mut EndpointQueue, endpoint_id: EndpointId, pools: &mut Pools) {
    if queue.may_send() && queue.waits == Waits::No {
        queue.waits = Waits::ForPlace;
        let pool = pools.of(queue.record.terms().standing);
        pool.wait(queue.partner_id, endpoint_id);
    }
}

#[cfg(test)]
mod tests;
