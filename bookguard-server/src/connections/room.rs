//! The open connections, and which of them are closed when the server is full.
//!
//! A connection is idle between two requests and before its first one. Closing it then loses nothing, and HTTP clients expect
//! it. So a full server closes the connections that have been idle longest. One network address may have only a share of the
//! connections; above that share, its own idle connections are closed. If no connection is idle, new ones go to the reserve,
//! where only the health check is answered. Invariants: a connection with a request in progress is never closed here; there are
//! never more connections than the main pool and the reserve hold, apart from those that were told to leave and are about to
//! close.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::LATE;
use super::progress::Progress;
use crate::config::Connections;

/// When the room is full, one in this many idle connections is closed at once, so that one search serves many new connections.
const SHED: usize = 64;
/// In the reserve, one address gets one in this many places.
const RESERVE_SHARE: usize = 8;

/// All connections of a server.
pub(super) struct ConnectionTable {
    pools: Mutex<Pools>,
}

struct Pools {
    main: Pool,
    reserve: Pool,
    /// The last name given to a seat.
    next: u64,
}

/// Connections under one limit, grouped by network. The group `None` holds those of trusted proxies, which have no limit per
/// network.
struct Pool {
    most: usize,
    per_network: usize,
    taken: usize,
    seats: HashMap<Option<IpAddr>, HashMap<u64, Arc<ConnectionState>>>,
}

/// The state of one connection.
pub(super) struct ConnectionState {
    progress: Mutex<Progress>,
    leave: Notify,
}

/// A place in the room, freed on drop.
pub(super) struct ConnectionSlot {
    room: Arc<ConnectionTable>,
    pub(super) seat: Arc<ConnectionState>,
    network: Option<IpAddr>,
    name: u64,
    /// Whether the place is in the reserve.
    pub(super) reserved: bool,
}

impl ConnectionTable {
    pub(super) fn new(limits: Connections) -> Arc<Self> {
        Arc::new(Self {
            pools: Mutex::new(Pools {
                main: Pool::new(limits.all, limits.per_address),
                reserve: Pool::new(limits.reserve, (limits.reserve / RESERVE_SHARE).max(1)),
                next: 0,
            }),
        })
    }

    /// Takes a place for a connection from `network`, or from a trusted proxy if `None`. Returns `None` if the reserve is full
    /// too.
    pub(super) fn admit(self: &Arc<Self>, network: Option<IpAddr>) -> Option<ConnectionSlot> {
        let mut pools = self.pools();
        let Pools {
            main,
            reserve,
            next,
        } = &mut *pools;
        let reserved = !main.make_room(network);
        if reserved && !reserve.make_room(network) {
            return None;
        }
        let pool = if reserved { reserve } else { main };
        *next += 1;
        let seat = Arc::new(ConnectionState::new());
        pool.taken += 1;
        let seats = pool.seats.entry(network).or_default();
        seats.insert(*next, Arc::clone(&seat));
        Some(ConnectionSlot {
            room: Arc::clone(self),
            seat,
            network,
            name: *next,
            reserved,
        })
    }

    /// Closes some of the connections idle longest, because the process has run out of files.
    pub(super) fn shed(&self) {
        self.pools().main.shed(None);
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut pools = self.room.pools();
        let pool = if self.reserved {
            &mut pools.reserve
        } else {
            &mut pools.main
        };
        pool.remove(self.network, self.name);
    }
}

impl Pool {
    fn new(most: usize, per_network: usize) -> Self {
        Self {
            most,
            per_network,
            taken: 0,
            seats: HashMap::new(),
        }
    }

    /// Whether there is a place for one more connection from `network`, after closing idle ones if necessary.
    fn make_room(&mut self, network: Option<IpAddr>) -> bool {
        let own = || self.seats.get(&network).map_or(0, HashMap::len);
        if network.is_some() && own() >= self.per_network {
            return self.shed(Some(network));
        }
        self.taken < self.most || self.shed(None)
    }

    /// Tells the connections idle longest to leave, of all networks or of one; returns whether there were any.
    fn shed(&mut self, of: Option<Option<IpAddr>>) -> bool {
        let mut waiting: Vec<(Instant, Option<IpAddr>, u64)> = Vec::new();
        let mut look = |network: Option<IpAddr>, seats: &HashMap<u64, Arc<ConnectionState>>| {
            let since = |(name, seat): (&u64, &Arc<ConnectionState>)| {
                Some((seat.progress().idle_since()?, network, *name))
            };
            waiting.extend(seats.iter().filter_map(since));
        };
        match of {
            Some(network) => {
                if let Some(seats) = self.seats.get(&network) {
                    look(network, seats);
                }
            }
            None => self
                .seats
                .iter()
                .for_each(|(network, seats)| look(*network, seats)),
        }
        let few = waiting.len().div_ceil(SHED);
        if few < waiting.len() {
            waiting.select_nth_unstable(few);
            waiting.truncate(few);
        }
        for (_, network, name) in &waiting {
            if let Some(seat) = self.remove(*network, *name) {
                seat.leave.notify_one();
            }
        }
        !waiting.is_empty()
    }

    fn remove(&mut self, network: Option<IpAddr>, name: u64) -> Option<Arc<ConnectionState>> {
        let seats = self.seats.get_mut(&network)?;
        let seat = seats.remove(&name)?;
        if seats.is_empty() {
            self.seats.remove(&network);
        }
        self.taken -= 1;
        Some(seat)
    }
}

impl ConnectionState {
    pub(super) fn new() -> Self {
        Self {
            progress: Mutex::new(Progress::new(Instant::now())),
            leave: Notify::new(),
        }
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection is idle: no request is in progress and no answer is being sent.
    pub(super) fn is_waiting(&self) -> bool {
        self.progress().idle_since().is_some()
    }

    /// Whether what the connection waits for should have happened.
    pub(super) fn is_late(&self) -> bool {
        self.progress().is_late(Instant::now())
    }

    /// Wakes the connection when it is late, and resolves if it still is a little later: a body that is late is refused with words,
    /// and what reads or writes ends by itself.
    pub(super) async fn overdue(&self) {
        loop {
            let look = self.progress().look_at(Instant::now());
            sleep_until(look).await;
            if self.is_late() {
                sleep(LATE).await;
                if self.is_late() {
                    return;
                }
            }
        }
    }

    /// Resolves when the connection must make room.
    pub(super) async fn told_to_leave(&self) {
        self.leave.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::super::REQUEST;
    use super::*;

    const LIMITS: Connections = Connections {
        all: 4,
        per_address: 2,
        reserve: 8,
    };

    fn network(n: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, n]))
    }

    fn engage(held: &ConnectionSlot) {
        held.seat.progress().engage(Instant::now());
    }

    /// A request is answered whole.
    fn used(seat: &ConnectionState) {
        seat.progress().engage(Instant::now());
        seat.progress().answer(None, Instant::now());
        seat.progress().produced();
        seat.progress().flushed(Instant::now());
    }

    async fn told(held: &ConnectionSlot) -> bool {
        let told = held.seat.told_to_leave();
        tokio::time::timeout(Duration::ZERO, told).await.is_ok()
    }

    /// Opens connections from `networks`, one second apart.
    async fn fill(room: &Arc<ConnectionTable>, networks: &[u8]) -> Vec<ConnectionSlot> {
        let mut held = Vec::new();
        for n in networks {
            held.push(room.admit(network(*n)).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_longest_makes_room() {
        let room = ConnectionTable::new(LIMITS);
        let held = fill(&room, &[1, 1, 2, 2]).await;
        // The first connection was used since, so the second has been idle longest.
        used(&held[0].seat);
        let fifth = room.admit(network(3)).unwrap();
        assert!(!fifth.reserved);
        for (index, expected) in [false, true, false, false].into_iter().enumerate() {
            assert_eq!(told(&held[index]).await, expected, "{index}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_progress_is_never_ended_and_the_reserve_is_for_then() {
        let room = ConnectionTable::new(LIMITS);
        let held = fill(&room, &[1, 1, 2, 2]).await;
        for (index, held) in held.iter().enumerate() {
            engage(held);
            // An answer that is not fully sent is in progress too.
            if index % 2 == 0 {
                held.seat.progress().answer(None, Instant::now());
                held.seat.progress().produced();
            }
        }
        let reserved = room.admit(network(3)).unwrap();
        assert!(reserved.reserved);
        for held in &held {
            assert!(!told(held).await && !held.seat.is_waiting());
        }
        drop(held);
        assert!(!room.admit(network(3)).unwrap().reserved);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_makes_room_for_itself_and_not_at_the_cost_of_others() {
        let room = ConnectionTable::new(LIMITS);
        let held = fill(&room, &[2, 1, 1]).await;
        let third = room.admit(network(1)).unwrap();
        assert!(!third.reserved);
        assert!(!told(&held[0]).await && told(&held[1]).await && !told(&held[2]).await);
        engage(&held[2]);
        engage(&third);
        let fourth = room.admit(network(1)).unwrap();
        assert!(fourth.reserved);
        assert!(!told(&held[0]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_gets_a_share_of_the_reserve_and_trusted_proxies_are_not_limited() {
        let room = ConnectionTable::new(LIMITS);
        let proxied: Vec<ConnectionSlot> = (0..4).map(|_| room.admit(None).unwrap()).collect();
        for held in &proxied {
            assert!(!held.reserved);
            engage(held);
        }
        let first = room.admit(network(1)).unwrap();
        engage(&first);
        assert!(first.reserved);
        assert!(room.admit(network(1)).is_none());
        assert!(room.admit(network(2)).unwrap().reserved);
        drop(first);
        assert!(room.admit(network(1)).unwrap().reserved);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_worked_on_for_too_long_is_noticed() {
        let seat = ConnectionState::new();
        let second = Duration::from_secs(1);
        let (mut overdue, began) = (pin!(seat.overdue()), Instant::now());
        assert!(timeout(10 * second, overdue.as_mut()).await.is_err());
        used(&seat);
        assert!(timeout(second, overdue.as_mut()).await.is_err());
        seat.progress().engage(Instant::now());
        overdue.await;
        assert_eq!(began.elapsed(), 11 * second + REQUEST + LATE);
    }

    #[tokio::test(start_paused = true)]
    async fn many_make_room_at_once_where_there_are_many() {
        let room = ConnectionTable::new(Connections {
            all: 640,
            per_address: 640,
            reserve: 8,
        });
        let held: Vec<ConnectionSlot> = (0..640).map(|_| room.admit(network(1)).unwrap()).collect();
        let next = room.admit(network(2)).unwrap();
        assert_eq!(room.pools().main.taken, 631);
        drop((held, next));
        assert_eq!(room.pools().main.taken, 0);
        assert!(room.pools().main.seats.is_empty());
    }
}
