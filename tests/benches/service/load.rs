//! A closed loop of clients: each does one thing after another as fast as it is answered, and every turn is timed.
//!
//! The [`Client`] defines what a turn is. Invariant: the clock starts when every client is connected and stops when the
//! last turn ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};

use crate::Fallible;
use crate::http::Connection;

/// Threads that drive the clients: on two cores, a second one does not raise the empty handler's rate.
const THREADS: usize = 1;

/// One of many concurrent clients.
pub trait Client: Send {
    /// Does one thing to its end; returns `false` if there is nothing left to do.
    fn turn(&mut self, connection: &mut Connection) -> impl Future<Output = Fallible<bool>>;
}

/// When a load ends: at whichever limit comes first.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The most time.
    pub time: Duration,
    /// The most turns.
    pub turns: u64,
}

impl Limit {
    /// A limit of time only.
    pub fn time(time: Duration) -> Self {
        Self {
            time,
            turns: u64::MAX,
        }
    }

    /// A limit of turns; no load takes longer than ten minutes.
    pub fn turns(turns: u64) -> Self {
        Self {
            time: Duration::from_secs(600),
            turns,
        }
    }
}

/// The timing of a load.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// The number of turns that ended.
    pub turns: u64,
    /// From the start of the first turn to the end of the last.
    pub elapsed: Duration,
    /// The latency of every turn in microseconds, ascending.
    latencies: Vec<u32>,
}

impl Timing {
    /// Makes a timing from latencies measured elsewhere.
    pub fn of(elapsed: Duration, latencies: impl IntoIterator<Item = Duration>) -> Self {
        let mut latencies: Vec<u32> = latencies.into_iter().map(micros).collect();
        latencies.sort_unstable();
        Self {
            turns: latencies.len() as u64,
            elapsed,
            latencies,
        }
    }

    /// Turns per second.
    pub fn rate(&self) -> f64 {
        self.turns as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The latency that `percent` of all turns did not exceed, in milliseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        let index =
            (self.latencies.len() * percent / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies
            .get(index)
            .map_or(f64::NAN, |us| f64::from(*us) / 1000.0)
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// The state that the threads of a load share.
struct Shared {
    begin: Barrier,
    turns: AtomicU64,
    limit: Limit,
}

/// Runs the clients until the limit, spread evenly over these servers, and returns them with what they have recorded.
pub fn run<C: Client + 'static>(
    servers: &[SocketAddr],
    limit: Limit,
    clients: Vec<C>,
) -> Fallible<(Timing, Vec<C>)> {
    let shared = Arc::new(Shared {
        begin: Barrier::new(THREADS),
        turns: AtomicU64::new(0),
        limit,
    });
    let mut groups: Vec<Vec<(SocketAddr, C)>> = (0..THREADS).map(|_| Vec::new()).collect();
    let turns = (0..THREADS).cycle();
    let servers = servers.iter().copied().cycle();
    for (client, group) in servers.zip(clients).zip(turns) {
        groups[group].push(client);
    }
    let drive_one = |group| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || drive(&shared, group))
    };
    let threads: Vec<_> = groups.into_iter().map(drive_one).collect();
    let (mut clients, mut latencies) = (Vec::new(), Vec::new());
    let (mut first, mut last) = (None::<Instant>, None::<Instant>);
    for thread in threads {
        let driven = thread.join().map_err(|_| "a driving thread panicked")??;
        first = first.into_iter().chain([driven.began]).min();
        last = last.into_iter().chain([driven.ended]).max();
        clients.extend(driven.clients);
        latencies.extend(driven.latencies);
    }
    let elapsed = last
        .zip(first)
        .map_or(Duration::ZERO, |(last, first)| last - first);
    Ok((Timing::of(elapsed, latencies), clients))
}

/// The result of one thread.
struct Driven<C> {
    clients: Vec<C>,
    latencies: Vec<Duration>,
    began: Instant,
    ended: Instant,
}

fn drive<C: Client + 'static>(
    shared: &Arc<Shared>,
    clients: Vec<(SocketAddr, C)>,
) -> Fallible<Driven<C>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let here = LocalSet::new();
    here.block_on(&runtime, async {
        let mut connections = Vec::with_capacity(clients.len());
        for (server, _) in &clients {
            connections.push(Connection::open(*server).await);
        }
        shared.begin.wait();
        let began = Instant::now();
        let mut acting = JoinSet::new();
        for ((_, client), connection) in clients.into_iter().zip(connections) {
            acting.spawn_local(act(client, connection?, began, Arc::clone(shared)));
        }
        let mut driven = Driven {
            clients: Vec::new(),
            latencies: Vec::new(),
            began,
            ended: began,
        };
        while let Some(acted) = acting.join_next().await {
            let (client, latencies, ended) = acted??;
            driven.clients.push(client);
            driven.latencies.extend(latencies);
            driven.ended = driven.ended.max(ended);
        }
        Ok(driven)
    })
}

async fn act<C: Client>(
    mut client: C,
    mut connection: Connection,
    began: Instant,
    shared: Arc<Shared>,
) -> Fallible<(C, Vec<Duration>, Instant)> {
    let mut latencies = Vec::with_capacity(1 << 12);
    let until = began + shared.limit.time;
    let mut now = Instant::now();
    while now < until && shared.turns.fetch_add(1, Ordering::Relaxed) < shared.limit.turns {
        if !client.turn(&mut connection).await? {
            break;
        }
        let ended = Instant::now();
        latencies.push(ended - now);
        now = ended;
    }
    Ok((client, latencies, now))
}
