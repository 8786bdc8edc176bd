//! The courier: delivers one node's webhooks to their endpoints.
//!
//! Deliveries arrive leased from the writer through the [`Outbox`], either new or claimed when due. Each becomes one attempt
//! and one `Settle` command, fenced by its lease, so delivery is at-least-once whatever fails.
//!
//! The core's rules decide what an outcome means. [`address`] decides where a webhook may go, [`proxy`] is the operator's
//! proxy, [`sender`] makes one attempt, `fair_queue` decides whose turn it is, `dispatch` runs the attempts, `deliver` takes
//! one delivery to its settled end, `claim` asks the store for due deliveries, and `reclaim` takes over from dead nodes.
//! Invariants: no database connection is held during a request; a slow or dead receiver uses up only its own share of places
//! and memory; no partner has more than [`RETRIES_WAITING`] manual retries whose answers wait for the outcome.

pub mod address;
mod claim;
mod deliver;
mod dispatch;
mod endpoint_test;
mod fair_queue;
pub mod proxy;
mod reclaim;
mod rule;
pub mod sender;
mod signing;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bookguard_core::engine::command::LeasedDelivery;
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::engine::waiting::Waiting;
use bookguard_core::error::{Error, Kind};
use bookguard_core::features::attempts::AttemptRecord;
use bookguard_core::features::events::RetryResult;
use bookguard_core::limits::{ATTEMPT_MS, FAILURES_SETTLED_AT_ONCE, RETRIES_WAITING};
use bookguard_core::model::{EventId, PartnerId};
use bookguard_core::operation::{self, Awaits};
use bookguard_core::service::Service;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::metrics::DeliveryMetrics;
use crate::under_way::{OneUnderWay, UnderWay};
use address::AddressRules;
use deliver::DeliveryContext;
use dispatch::{Dispatcher, Note};
pub use endpoint_test::EndpointTest;
use endpoint_test::EndpointTests;
use proxy::Proxy;
pub use rule::endpoint_rule;
use sender::{Sender, SenderError};
use signing::EndpointReader;

/// How long to wait for an outcome before asking the store whether another process settled it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The longest such wait; each is one and a half times the one before.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(500);

/// The configuration of a courier.
#[derive(Debug, Clone)]
pub struct CourierConfig {
    /// Where webhooks may go.
    pub rules: AddressRules,
    /// The proxy through which webhooks are sent, if any.
    pub proxy: Option<Proxy>,
    /// How long one attempt may take, answer included. Must be well below `LEASE_MS`, otherwise nothing is ever sent.
    pub attempt_time: Duration,
    /// Whether to claim due deliveries from the store. Without this, only deliveries leased by this process's own commands are
    /// sent: a command line needs no more for one manual retry.
    pub claims: bool,
    /// Counts what is delivered.
    pub metrics: Arc<DeliveryMetrics>,
}

/// What an operation's answer waits for.
#[derive(Debug)]
pub enum Awaited {
    /// The outcome of a manual retry.
    Outcome(RetryWait),
    /// The result of an endpoint test.
    Test(EndpointTest),
}

/// A manual retry whose answer waits. Dropping it lets another one wait.
#[derive(Debug)]
pub struct RetryWait {
    event_id: EventId,
    _place: OneUnderWay<PartnerId>,
}

/// A running courier. Dropping it ends every attempt at once; deliveries in flight are sent again when their leases end.
pub struct Courier {
    notes: UnboundedSender<Note>,
    waiting: Arc<Waiting<EventId>>,
    context: Arc<DeliveryContext>,
    /// Manual retries whose answers wait. Without a bound, retries at an endpoint whose turn is far away would look into the
    /// database all the time.
    retries: Arc<UnderWay<PartnerId>>,
    tests: EndpointTests,
    /// The dispatcher's task, taken by the first [`stop`](Courier::stop).
    dispatcher: Mutex<JoinSet<()>>,
}

impl CourierConfig {
    /// The configuration of a server: attempts of up to [`ATTEMPT_MS`], without a proxy, claiming due deliveries.
    pub fn new(rules: AddressRules) -> Self {
        CourierConfig {
            rules,
            proxy: None,
            attempt_time: Duration::from_millis(ATTEMPT_MS),
            claims: true,
            metrics: Arc::default(),
        }
    }
}

impl Courier {
    /// Starts delivering. `outbox` must be the one `service` was opened with, `deliveries` its other end. Call this within a
    /// Tokio runtime with timers and network.
    ///
    /// # Errors
    /// [`SenderError`] if the HTTP client cannot be set up.
    pub fn start(
        service: Arc<Service>,
        outbox: Arc<Outbox>,
        deliveries: UnboundedReceiver<Vec<LeasedDelivery>>,
        settings: CourierConfig,
    ) -> Result<Courier, SenderError> {
        let (notes, heard) = mpsc::unbounded_channel();
        let waiting = Arc::<Waiting<EventId>>::default();
        let context = DeliveryContext {
            outbox,
            sender: Sender::new(settings.rules, settings.proxy, settings.attempt_time)?,
            attempt_time: settings.attempt_time,
            notes: notes.clone(),
            waiting: Arc::clone(&waiting),
            endpoints: EndpointReader::new(&service),
            service,
            failures: Semaphore::new(FAILURES_SETTLED_AT_ONCE),
            failing: AtomicBool::new(false),
            complained: Mutex::default(),
            metrics: settings.metrics,
        };
        let context = Arc::new(context);
        let mut dispatcher = Dispatcher::new(Arc::clone(&context));
        if settings.claims {
            dispatcher.claim(notes.clone());
        }
        let mut task = JoinSet::new();
        task.spawn(dispatcher.run(deliveries, heard));
        Ok(Courier {
            notes,
            waiting,
            context,
            retries: UnderWay::new(RETRIES_WAITING, usize::MAX),
            tests: EndpointTests::default(),
            dispatcher: Mutex::new(task),
        })
    }

    /// Prepares what an operation's answer waits for, before the operation is written. `None` if the answer is given at once,
    /// because enough others of this partner wait.
    ///
    /// # Errors
    /// `test_running` and `busy`, both for a test only.
    pub fn ready(&self, awaits: Awaits) -> Result<Option<Awaited>, Error> {
        Ok(match awaits {
            Awaits::Outcome(partner_id, event_id) => {
                let place = self.retries.begin(partner_id).ok();
                place.map(|place| {
                    Awaited::Outcome(RetryWait {
                        event_id,
                        _place: place,
                    })
                })
            }
            Awaits::Test(test) => Some(Awaited::Test(self.tests.begin(test)?)),
        })
    }

    /// Waits for the answer and returns it as JSON, or `None` if it is not known after `patience`. A test takes as long as an
    /// attempt may. `look` asks for the outcome of an event's retry once, where blocking is allowed.
    ///
    /// # Errors
    /// Those of `look`.
    pub async fn answer<F: Future<Output = Result<Option<RetryResult>, Error>>>(
        &self,
        awaited: Awaited,
        patience: Duration,
        look: impl Fn(EventId) -> F,
    ) -> Result<Option<Vec<u8>>, Error> {
        match awaited {
            Awaited::Outcome(wait) => {
                let outcome = self.outcome_of(wait.event_id, patience, look).await?;
                Ok(outcome.as_ref().map(operation::to_json))
            }
            Awaited::Test(test) => {
                let attempt = test.run(&self.context).await;
                let record = AttemptRecord::of(test.endpoint_id(), 1, &attempt);
                Ok(Some(operation::to_json(&record)))
            }
        }
    }

    /// Waits until no process is attempting any of the event's deliveries, at most for `patience`. Returns the result of the
    /// manual retry, or `None` if it is not known yet.
    ///
    /// # Errors
    /// Those of `look`.
    async fn outcome_of<F: Future<Output = Result<Option<RetryResult>, Error>>>(
        &self,
        event_id: EventId,
        patience: Duration,
        look: impl Fn(EventId) -> F,
    ) -> Result<Option<RetryResult>, Error> {
        let until = Instant::now() + patience;
        let waiter = self.waiting.on(event_id);
        let mut wait = LOOK_AGAIN;
        loop {
            let outcome = match look(event_id).await {
                // The retry is accepted all the same.
                Err(error) if error.kind == Kind::RateLimited => None,
                outcome => outcome?,
            };
            let now = Instant::now();
            if outcome.is_some() || now >= until {
                return Ok(outcome);
            }
            // Woken when it is settled here, or by the timer to look whether it was settled elsewhere.
            let _ = timeout_at(until.min(now + wait), waiter.told()).await;
            wait = (wait * 3 / 2).min(LOOK_AGAIN_MAX);
        }
    }

    /// Stops the courier: it takes nothing more, gives attempts in flight up to `patience` to end and be settled, and cuts off
    /// the rest. Any node claims what was not sent or settled when its lease ends. A second call changes the patience and
    /// returns at once.
    pub async fn stop(&self, patience: Duration) {
        let mut task = std::mem::take(
            &mut *self
                .dispatcher
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        // Both fail only if the dispatcher has already ended.
        let _ = self.notes.send(Note::Stop(Instant::now() + patience));
        let _ = task.join_next().await;
    }
}

#[cfg(test)]
mod tests;
