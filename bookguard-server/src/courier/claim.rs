//! Takes deliveries that are due from the store: retries whose time has come, what found no room in memory, what another
//! node gave back; and takes back what is still held when its lease has ended. Recoveries that are under way
//! are taken a step further on the same occasion. When the clock was set back, what waits is put to the new time.
//!
//! What is due is judged by the service's clock, how often to look by the real one. Every node looks: whichever comes
//! first takes it, and the write turn sees to it that nobody else does. Invariants: looking writes nothing while nothing
//! is due, and takes no more than a twentieth of the time, or a fifth while healthy endpoints have more due than there is
//! room for; only as much is claimed as there is room for, theirs first; what is claimed arrives through the outbox like everything
//! else.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::{Command, Envelope, Reclaim};
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::entropy;
use bookguard_core::error::Error;
use bookguard_core::features::deliveries::{ClaimDeliveries, ReclaimDeliveries};
use bookguard_core::features::recoveries;
use bookguard_core::model::Timestamp;
use bookguard_core::service::Service;
use bookguard_core::store::read::Due;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::dispatch::Note;
use crate::skew::{self, Doubts};

/// How often to look while nothing is due: the most by which a retry comes late.
const POLL: Duration = Duration::from_millis(250);
/// After a look that took longer, so many times what it took: thousands of endpoints may have something waiting.
const POLL_SHARE: u32 = 20;
/// The same while there may be more to claim at once.
const HURRY_SHARE: u32 = 4;
/// How often to look for leases that are over.
const RECLAIM: Duration = Duration::from_secs(1);
/// How long to leave a store alone that did not answer.
const POLL_FAILED: Duration = Duration::from_secs(2);
/// The shortest time between two looks, whatever happens.
const GAP: Duration = Duration::from_millis(2);
/// Endpoints in one claim: with `CLAIMED_PER_ENDPOINT` rows each, a commit of some ten milliseconds.
const ENDPOINTS_PER_CLAIM: usize = 16;

/// Claims what is due and has room, for ever.
pub(super) struct Claimer {
    pub service: Arc<Service>,
    pub outbox: Arc<Outbox>,
    pub notes: UnboundedSender<Note>,
    /// Told when an endpoint that was full has room again.
    pub wake: Arc<Notify>,
}

/// What there is to do.
struct Found {
    /// How long the store worked to say so: in all, and the last time it was asked.
    worked: Duration,
    last: Duration,
    /// Endpoints that have something due.
    due: Vec<Due>,
    /// By when leases have ended, if any has.
    lapsed: Option<Timestamp>,
    /// The next steps of recoveries.
    recoveries: Vec<Envelope<()>>,
    /// Whether something waits for a time that a clock reckoned which was ahead.
    ahead: bool,
}

/// What to ask the store for beside what is due.
#[derive(Clone, Copy)]
struct Asked {
    lapsed: bool,
    recoveries: bool,
    ahead: bool,
}

/// What one look at the store came to.
enum Looked {
    /// Something was claimed, or taken back; there may be more.
    Claimed,
    /// There is nothing to claim, or no room for it.
    Nothing,
    /// The store did not answer; the service or its writer has reported why.
    Failed,
}

impl Claimer {
    pub(super) async fn run(self) {
        let mut reclaim_at = Instant::now();
        let mut recover_at = Instant::now();
        let mut doubts = Doubts::default();
        loop {
            let began = Instant::now();
            let now = self.service.clock().now();
            let asked = Asked {
                lapsed: began >= reclaim_at,
                recoveries: began >= recover_at,
                ahead: doubts.of(began.into_std(), now),
            };
            let Some(mut store) = self.ask(asked).await else {
                sleep(POLL_FAILED).await;
                continue;
            };
            let (worked, last) = (store.worked, store.last);
            if asked.ahead && !store.ahead {
                doubts.settle(began.into_std());
            }
            if asked.lapsed {
                // There may be more than one command takes back.
                let pause = RECLAIM.max(worked * POLL_SHARE);
                reclaim_at = Instant::now() + if store.lapsed.is_none() { pause } else { GAP };
            }
            let steps = std::mem::take(&mut store.recoveries);
            let looked = self.act(store).await;
            if !steps.is_empty() {
                // After what is due, and then the writer is left to others for as long as that took.
                let began = Instant::now();
                self.recover(steps).await;
                recover_at = Instant::now() + began.elapsed();
            }
            match looked {
                Looked::Claimed => {}
                Looked::Nothing => {
                    let idle = POLL.max(worked * POLL_SHARE);
                    // While a recovery is under way its next step is what to wait for.
                    let step = recover_at.checked_duration_since(Instant::now());
                    let pause = step.map_or(idle, |until| idle.min(until));
                    let _ = timeout(pause, self.wake.notified()).await;
                }
                Looked::Failed => sleep(POLL_FAILED).await,
            }
            sleep(GAP.max(last * HURRY_SHARE)).await;
        }
    }

    async fn act(&self, store: Found) -> Looked {
        let reclaims = store.lapsed.is_some() || store.ahead;
        if store.ahead {
            let from = Reclaim::Ahead;
            if !self.submit(ReclaimDeliveries { from }).await {
                return Looked::Failed;
            }
        }
        if let Some(ended) = store.lapsed {
            let from = Reclaim::EndedBy(ended);
            if !self.submit(ReclaimDeliveries { from }).await {
                return Looked::Failed;
            }
        }
        let mut due = store.due;
        // In an order of chance: no endpoint comes first every time, and another node may be at it too.
        due.sort_by_cached_key(|_| entropy::number());
        let claims = self.outbox.claims(&due);
        if !claims.full.is_empty() {
            // A dispatcher that is gone has ended this task too.
            let _ = self.notes.send(Note::Backlog(claims.full));
        }
        for endpoints in claims.open.chunks(ENDPOINTS_PER_CLAIM) {
            let claim = ClaimDeliveries {
                lease: self.service.lease(),
                endpoints: endpoints.to_vec(),
            };
            if !self.submit(claim).await {
                return Looked::Failed;
            }
        }
        // Of endpoints in trouble enough was taken to last until the next look.
        match reclaims || claims.urgent > 0 {
            true => Looked::Claimed,
            false => Looked::Nothing,
        }
    }

    /// Takes recoveries a step further, in one commit if nothing comes between. One that fails is asked for again: nothing
    /// else waits for it.
    async fn recover(&self, steps: Vec<Envelope<()>>) {
        let mut under_way = JoinSet::new();
        for step in steps {
            let service = Arc::clone(&self.service);
            under_way.spawn(async move { service.submit_patiently(step).await.is_ok() });
        }
        under_way.join_all().await;
    }

    /// Whether it was done.
    async fn submit(&self, command: impl Command<Reply = ()>) -> bool {
        let command = self.service.envelope(command);
        self.service.submit_patiently(command).await.is_ok()
    }

    /// Asks the store what is due, and what is to be taken back when it is time for that.
    async fn ask(&self, asked: Asked) -> Option<Found> {
        let service = Arc::clone(&self.service);
        let looking = tokio::task::spawn_blocking(move || look(&service, asked).ok());
        looking.await.ok().flatten()
    }
}

fn look(service: &Service, asked: Asked) -> Result<Found, Error> {
    // A node whose own clock is wrong judges nobody's.
    let judges = asked.ahead && skew::agrees(service)?;
    let now = service.clock().now();
    let fault = |error| service.fault(&error);
    let (mut due, mut worked) = (Vec::new(), Duration::ZERO);
    let (mut began, mut after) = (Instant::now(), None);
    let mut reader = loop {
        let mut reader = service.reader()?;
        let (found, next) = reader.endpoints_with_due(now, after).map_err(fault)?;
        due.extend(found);
        after = next;
        if after.is_none() {
            break reader;
        }
        drop(reader);
        // Thousands at once would keep a processor from requests for ten milliseconds.
        let took = began.elapsed();
        worked += took;
        std::thread::sleep(took * HURRY_SHARE);
        began = Instant::now();
    };
    let lapsed = asked.lapsed && reader.has_lapsed_leases(now).map_err(fault)?;
    let recoveries = match asked.recoveries {
        true => recoveries::next_steps(service, &mut reader).map_err(fault)?,
        false => Vec::new(),
    };
    let ahead = judges && reader.has_ahead(now).map_err(fault)?;
    let last = began.elapsed();
    Ok(Found {
        worked: worked + last,
        last,
        due,
        lapsed: lapsed.then_some(now),
        recoveries,
        ahead,
    })
}
