//! The fair queue: one node's deliveries, queued per endpoint, and how many of them may be in flight.
//!
//! It is pure, with no clock and no I/O: the dispatcher calls it. Healthy, new and troubled endpoints each have a pool of
//! places (`pool`). An endpoint's `record` decides which pool it uses and how many places it may have; the record outlives the
//! queue (`memory`).
//!
//! Invariants:
//!
//! - No endpoint has more in flight than its share, no partner more than its share of a pool, and no pool more than its places.
//!   So dead endpoints, however many, take no place from healthy ones.
//! - An endpoint with a rate limit never begins two attempts closer together than the limit allows, however long nothing was
//!   sent.
//! - Partners take turns, and so do the endpoints of one partner.
//! - While first tries wait, one in [`RETRY_TURN`] of an endpoint's turns goes to a retry; otherwise all do.
//! - No more is held for an endpoint than it takes within half a lease, at the pace of its last attempts.

mod memory;
mod pool;
mod record;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use bookguard_core::engine::command::LeasedDelivery;
use bookguard_core::engine::outbox::{EndpointAllowance, EndpointStanding, whole_claim};
use bookguard_core::limits::{IN_FLIGHT, IN_FLIGHT_NEW, IN_FLIGHT_TROUBLED};
use bookguard_core::model::{EndpointId, PartnerId, Timestamp};
use tokio::time::Instant;

use memory::Memory;
use pool::Pool;
use record::Record;

use super::sender::Asker;

/// First tries go before retries, except that every this many turns a retry goes first.
const RETRY_TURN: u32 = 4;

/// Rate-limit times kept beyond the number of endpoints with a queue, before those in the past are dropped.
const PACES: usize = 1_024;

/// How an attempt ended, as far as its endpoint's queue is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The delivery was accepted.
    Accepted,
    /// It was refused, or there was no connection.
    Refused,
    /// The deadline passed: the attempt held its place as long as it could, also if it waited for the operator's proxy.
    TimedOut,
    /// The receiver answered 410: the endpoint takes nothing more.
    Gone,
    /// Not begun, because the endpoint was deleted or disabled meanwhile.
    Closed,
    /// Not begun, or failed before its deadline through a fault of ours: this says nothing about the endpoint.
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

/// A place in a pool, to be given back when the attempt is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptSeat {
    pub endpoint_id: EndpointId,
    partner_id: PartnerId,
    pool: EndpointStanding,
    /// When the endpoint got the address that the attempt goes to, if not from the start.
    pub moved_at: Option<Timestamp>,
}

impl AttemptSeat {
    /// Identifies who looks up names for the attempt.
    pub(super) fn asker(&self) -> Asker {
        Asker {
            partner_id: self.partner_id,
            standing: self.pool,
        }
    }
}

/// The queues of all endpoints that have deliveries here.
#[derive(Debug)]
pub(super) struct FairQueue {
    queues: HashMap<EndpointId, EndpointQueue>,
    /// The places, and the endpoints that wait for one.
    pools: Pools,
    memory: Memory,
    /// Endpoints whose records were forgotten and that the caller was not told about yet.
    forgotten: Vec<EndpointId>,
    /// How long an attempt may take at most.
    attempt_time: Duration,
    /// Endpoints that have something to send but wait for their rate limit, each with the earliest time of its next attempt.
    /// May hold stale entries.
    paced: BTreeSet<(Instant, EndpointId)>,
    /// The earliest time of the next attempt to each endpoint with a rate limit.
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
    /// Attempts that have ended but are not settled yet.
    settling: usize,
    /// The rate limit, in attempts per second, as of the delivery that arrived last.
    per_second: Option<u32>,
    waits: Waits,
    /// Whether the store holds more for this endpoint than there was room for.
    backlog: bool,
    gone: bool,
}

/// What a queue waits for before it can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    No,
    /// A place in the pool of its standing.
    ForPlace,
    /// The time at which its rate limit allows the next attempt.
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
    /// Creates an empty queue. An attempt may take at most `attempt_time`.
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
        // Anything claimed after the endpoint was gone means that it was enabled again, so it may be gone once more.
        queue.gone = false;
        if delivery.attempts == 0 {
            queue.first_tries.push_back(delivery);
        } else {
            queue.retries.push_back(delivery);
        }
        queue_up(queue, endpoint_id, &mut self.pools);
    }

    /// Returns the next delivery to attempt, which counts as in flight from now on; `None` while nothing may be sent.
    pub(super) fn next(&mut self, now: Instant) -> Option<Turn> {
        while let Some((at, endpoint_id)) = self.paced.first().copied()
            && at <= now
        {
            self.paced.pop_first();
            // The entry may belong to a queue that was removed, and the endpoint's new queue may already wait for a place.
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
                moved_at: queue.record.moved_at(),
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

    /// When to call [`next`](Self::next) again even if nothing happens: a rate limit then allows an attempt.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.paced.first().map(|(at, _)| *at)
    }

    /// Notes that an attempt is over. Its place is free, but the delivery is still held until it is [`done`](Self::done).
    /// Returns how much is held for the endpoint from now on, if that changed; see [`shed`](Self::shed).
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
        queue
            .record
            .note(ended, took_ms, queue.per_second, seat.moved_at);
        let terms = queue.record.terms();
        if terms.standing != before.standing && queue.waits == Waits::ForPlace {
            queue.waits = Waits::No;
            let pool = self.pools.of(before.standing);
            pool.leave(queue.partner_id, seat.endpoint_id);
        }
        queue_up(queue, seat.endpoint_id, &mut self.pools);
        (terms != before).then_some((queue.partner_id, terms))
    }

    /// Removes what is queued for the endpoint beyond its limit, the latest arrivals first.
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

    /// Notes that a delivery that was [`sent`](Self::sent) is settled or given back. Returns whether to wake the claimer: the
    /// store holds more for this healthy endpoint, and there is now room for a whole claim.
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

    /// The endpoints that count as new from now on, each returned once.
    pub(super) fn forgotten(&mut self) -> Vec<EndpointId> {
        std::mem::take(&mut self.forgotten)
    }

    /// Notes that the endpoint takes nothing more, and returns what was queued for it; `None` if that was already known.
    pub(super) fn gone(&mut self, endpoint_id: &EndpointId) -> Option<Vec<LeasedDelivery>> {
        let queue = self.queues.get_mut(endpoint_id)?;
        if std::mem::replace(&mut queue.gone, true) {
            return None;
        }
        Some(queue.empty().collect())
    }

    /// Notes that the store holds more for these endpoints, for which there was no room. Returns whether there is room by now.
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

    /// Removes and returns everything that is queued.
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
