//! Partners who write without a pause, unless they are far ahead of the test, on nodes that come and go.
//!
//! A client that gets no answer, or the answer that the service is unavailable, repeats the request with the same
//! Idempotency-Key at the next node, as a partner would. Invariant: [`Confirmed`] holds exactly what was answered; an
//! answer that no client may get, such as a 500, fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::caller::{Caller, Reply};
use crate::json::Members as _;
use crate::samples;
use crate::waiting::until_within;

/// How long one request may go without an answer, over all its repetitions: longer than any outage in the tests.
const PATIENCE: Duration = Duration::from_secs(90);
/// The pause before a client repeats a request.
const PAUSE: Duration = Duration::from_millis(50);
/// How many bookings clients may make beyond those a test waits for. The more there are, the longer the final check takes;
/// without a bound, clients would make more during that check than before it.
const AHEAD: usize = 300;

/// Runs all of `tasks` at the same time.
pub async fn at_once<T: Send + 'static>(
    tasks: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut set = JoinSet::new();
    for task in tasks {
        set.spawn(task);
    }
    set.join_all().await
}

/// The addresses of the nodes; a restarted node has a new one.
#[derive(Debug, Clone)]
pub struct Addresses(Arc<Mutex<Vec<String>>>);

impl Addresses {
    /// The addresses of these nodes.
    pub fn of<S: Into<String>>(nodes: impl IntoIterator<Item = S>) -> Self {
        let nodes = nodes.into_iter().map(Into::into).collect();
        Self(Arc::new(Mutex::new(nodes)))
    }

    /// Sets a node's new address.
    pub fn set(&self, node: usize, address: &str) {
        address.clone_into(&mut self.lock()[node]);
    }

    fn choose(&self, number: usize) -> String {
        let nodes = self.lock();
        nodes[number % nodes.len()].clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answers that the clients got.
#[derive(Debug, Clone, Default)]
pub struct Confirmed {
    /// Bookings answered with 201, by idempotency key.
    pub bookings: BTreeMap<String, String>,
    /// Bookings answered as protected.
    pub protected: BTreeSet<String>,
    /// Resolutions of bookings answered as canceled.
    pub canceled: BTreeMap<String, String>,
    /// How many answers said that the service was unavailable.
    pub unavailable: usize,
    /// How many requests lost their connection before the answer.
    pub broken: usize,
}

/// Running clients.
pub struct Load {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
}

/// What the clients and the test know of each other.
#[derive(Default)]
struct Shared {
    told: Mutex<Confirmed>,
    /// How many bookings the test waits for.
    enough: AtomicUsize,
    stop: AtomicBool,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Confirmed> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    /// Starts clients with the caller's key, spread over the nodes.
    pub fn start(clients: usize, caller: &Caller, addresses: &Addresses) -> Self {
        let shared = Arc::<Shared>::default();
        let mut set = JoinSet::new();
        for number in 0..clients {
            let client = Client {
                number,
                caller: caller.clone(),
                addresses: addresses.clone(),
                shared: Arc::clone(&shared),
            };
            set.spawn(client.work());
        }
        Self {
            shared,
            clients: set,
        }
    }

    /// The answers so far.
    pub fn told(&self) -> Confirmed {
        self.shared.told().clone()
    }

    /// Waits until this many more bookings were answered.
    ///
    /// Panics if that takes too long, or a client failed.
    pub async fn answers(&mut self, more: usize) {
        let enough = self.told().bookings.len() + more;
        let Self { shared, clients } = self;
        shared.enough.store(enough, Ordering::Release);
        until_within(PATIENCE, "enough answers", async || {
            if let Some(ended) = clients.try_join_next() {
                ended.expect("a client goes on until it is stopped");
            }
            (shared.told().bookings.len() >= enough).then_some(())
        })
        .await;
    }

    /// Waits until clients got this many more answers that the service is unavailable.
    pub async fn refusals(&self, more: usize) {
        let enough = self.told().unavailable + more;
        until_within(PATIENCE, "clients that are told", async || {
            (self.told().unavailable >= enough).then_some(())
        })
        .await;
    }

    /// Waits until every client has its answer, and stops them.
    pub async fn finish(self) -> Confirmed {
        self.shared.stop.store(true, Ordering::Release);
        // Panics if a client did.
        self.clients.join_all().await;
        self.shared.told().clone()
    }
}

impl Confirmed {
    /// Checks that every answered booking exists, and is protected and canceled if that was answered. Returns all bookings
    /// that exist, by id.
    pub async fn check(&self, caller: &Caller) -> BTreeMap<String, Value> {
        let shown = caller.rows("/v1/bookings?limit=100").await;
        let by_id = shown
            .into_iter()
            .map(|booking| (booking.text("bookingId").to_owned(), booking));
        let shown: BTreeMap<String, Value> = by_id.collect();
        for (key, id) in &self.bookings {
            let booking = shown.get(id);
            let booking =
                booking.unwrap_or_else(|| panic!("{id} ({key}) was answered and is gone"));
            let is_so = booking["protected"] == true || !self.protected.contains(id);
            assert!(is_so, "{id} was answered as protected");
            if let Some(resolution) = self.canceled.get(id) {
                assert_eq!(booking["status"], "canceled", "{id} was answered so");
                assert_eq!(booking["resolutionId"], **resolution, "{id}");
            }
        }
        shown
    }

    /// Like [`Self::check`], and checks that no other booking exists: every repeated request took effect once.
    pub async fn check_all(&self, caller: &Caller) -> BTreeMap<String, Value> {
        let shown = self.check(caller).await;
        let answered: BTreeSet<&String> = self.bookings.values().collect();
        assert_eq!(answered.len(), self.bookings.len(), "a booking of each key");
        assert_eq!(shown.keys().collect::<BTreeSet<_>>(), answered);
        shown
    }
}

struct Client {
    number: usize,
    caller: Caller,
    addresses: Addresses,
    shared: Arc<Shared>,
}

impl Client {
    /// Records bookings, protects every second one and cancels every third, until it is stopped.
    async fn work(self) {
        let mut count = 0;
        while !self.shared.stop.load(Ordering::Acquire) {
            if self.shared.told().bookings.len()
                >= self.shared.enough.load(Ordering::Acquire) + AHEAD
            {
                sleep(PAUSE).await;
                continue;
            }
            let key = format!("{}-{count}", self.number);
            let booking = samples::booking();
            let reply = self.persist("/v1/bookings", &key, &booking, 201).await;
            let id = reply.string("bookingId");
            self.shared.told().bookings.insert(key.clone(), id.clone());
            if count % 2 == 0 {
                let path = format!("/v1/bookings/{id}/protect");
                let key = format!("{key}-protect");
                let protected = self.persist(&path, &key, &Value::Null, 200).await;
                assert_eq!(protected.json()["protected"], true);
                self.shared.told().protected.insert(id.clone());
            }
            if count % 3 == 0 {
                let path = format!("/v1/bookings/{id}/cancel");
                let key = format!("{key}-cancel");
                let body = samples::cancellation();
                let canceled = self.persist(&path, &key, &body, 201).await;
                let resolution = canceled.string("resolutionId");
                self.shared.told().canceled.insert(id, resolution);
            }
            count += 1;
        }
    }

    /// Repeats a request until it is answered.
    async fn persist(&self, path: &str, key: &str, body: &Value, status: u16) -> Reply {
        let end = Instant::now() + PATIENCE;
        for attempt in 0.. {
            let caller = self
                .caller
                .at(&self.addresses.choose(self.number + attempt));
            let mut request = caller.request("POST", path).header("idempotency-key", key);
            if !body.is_null() {
                request = request.header("content-type", "application/json");
                request = request.body(body.to_string());
            }
            let why = match caller.try_send(request).await {
                Ok(reply) if reply.status == status => return reply,
                Ok(reply) => {
                    let known = ["unavailable", "busy"].contains(&reply.code().as_str());
                    let later = reply.header("retry-after").is_some();
                    assert!(reply.status == 503 && known && later, "{reply:?}");
                    self.shared.told().unavailable += 1;
                    reply.text()
                }
                Err(error) => {
                    // A request that was never sent was not in flight.
                    self.shared.told().broken += usize::from(!error.is_connect());
                    error.to_string()
                }
            };
            assert!(
                Instant::now() < end,
                "{path} has no answer for {PATIENCE:?}: {why}"
            );
            sleep(PAUSE).await;
        }
        unreachable!("attempts are not counted to an end")
    }
}
