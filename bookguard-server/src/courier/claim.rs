//! Claims deliveries from the store that are due: retries whose time has come, deliveries that did not fit in memory, and ones
//! that another node gave back. Also takes back deliveries whose leases have ended, ends those that wait for deleted endpoints,
//! advances recoveries that are under way, and corrects due times after the clock was set back.
//!
//! The service's clock decides what is due; the real clock decides how often to look. Every node looks: the first to come
//! claims a delivery, and the write turn ensures that no other node does. Invariants: looking writes nothing while nothing is
//! due; it takes at most a twentieth of the time, or a fifth while healthy endpoints have more due than there is room for; no
//! more is claimed than there is room for, healthy endpoints first; claimed deliveries arrive through the outbox like all
//! others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::{CommandOutcome, Envelope, Reclaim, Written};
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::entropy;
use bookguard_core::error::{Error, Kind};
use bookguard_core::features::deliveries::{ClaimDeliveries, DropDeliveries, ReclaimDeliveries};
use bookguard_core::features::recoveries;
use bookguard_core::limits::{ENDPOINTS_EXAMINED, PAUSE_SHARE};
use bookguard_core::model::{EndpointId, PartnerId, Timestamp};
use bookguard_core::service::Service;
use bookguard_core::store::read::Due;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

use super::dispatch::Note;
use crate::apart::apart;
use crate::metrics::DeliveryMetrics;
use crate::skew::{self, Doubts};

/// How often to look while nothing is due: a retry is at most this late.
const POLL: Duration = Duration::from_millis(250);
/// The pause after a look while there may be more to claim at once, as a multiple of the time it took; else it is [`PAUSE_SHARE`].
const HURRY_SHARE: u32 = 4;
/// How often to look for leases that have ended.
const RECLAIM: Duration = Duration::from_secs(1);
/// The pause after the store did not answer.
const POLL_FAILED: Duration = Duration::from_secs(2);
/// The shortest time between two looks, whatever happens.
const GAP: Duration = Duration::from_millis(2);
/// Endpoints in one claim. A request that arrives meanwhile waits for its commit, and one of ten rows of each of 16 took 25 ms.
const ENDPOINTS_PER_CLAIM: usize = 4;
/// How long one claim waits for the one before. Where a commit takes longer, claims share one, but no more than [`CLAIMS_AT_ONCE`].
const CLAIM_TURN: Duration = Duration::from_millis(10);
const CLAIMS_AT_ONCE: usize = 4;

/// The task that claims due deliveries for which there is room. It never ends by itself.
pub(super) struct Claimer {
    pub service: Arc<Service>,
    pub outbox: Arc<Outbox>,
    pub notes: UnboundedSender<Note>,
    /// Notified when an endpoint that was full has room again.
    pub wake: Arc<Notify>,
    pub metrics: Arc<DeliveryMetrics>,
}

/// The result of a look at the store.
struct ClaimableWork {
    /// How long the store worked: in all, and for the last query.
    worked: Duration,
    last: Duration,
    /// Endpoints that have deliveries due.
    due: Vec<Due>,
    /// Some deleted endpoints for which deliveries wait.
    deleted: Vec<EndpointId>,
    /// Since when the longest waiting delivery is due, of those that only this service keeps waiting (see `DuePage::oldest`).
    oldest: Option<Timestamp>,
    /// The time by which some leases have ended, if any have.
    lapsed: Option<Timestamp>,
    /// The next steps of recoveries, and the partner after which those that follow are.
    recoveries: Option<(Vec<Envelope<()>>, PartnerId)>,
    /// Whether a due time lies ahead because a clock that was ahead computed it.
    ahead: bool,
}

/// The questions to the store besides the one for due deliveries.
#[derive(Clone, Copy)]
struct ClaimQuery {
    lapsed: bool,
    /// The partner after which recoveries go on, if it is time for a step.
    recoveries: Option<PartnerId>,
    ahead: bool,
}

/// The result of acting on one look at the store.
enum ClaimOutcome {
    /// Something was claimed or taken back; there may be more.
    Claimed,
    /// There is nothing to claim, or no room for it.
    Nothing,
    /// The store did not answer, or refused a part; the service or its writer has reported why.
    Failed,
}

/// What has become of some claims.
#[derive(Default)]
struct Claimed {
    deliveries: usize,
    /// Whether any claim failed.
    failed: bool,
    /// Whether one failed for a reason that others would fail for, and perhaps wait for as long.
    store_failed: bool,
}

impl Claimed {
    fn note(&mut self, ended: CommandOutcome<usize>) {
        match ended {
            Ok(written) => self.deliveries += count(&written),
            Err(error) => {
                self.failed = true;
                // A fault of what one claim needs does not concern the next one.
                self.store_failed |= error.kind != Kind::Internal;
            }
        }
    }
}

/// The number that a command answers with. Nothing remembers the answers of these.
fn count(written: &Written<usize>) -> usize {
    match written {
        Written::Fresh(count) => *count,
        Written::Replayed(_) => 0,
    }
}

impl Claimer {
    pub(super) async fn run(self) {
        let mut reclaim_at = Instant::now();
        let mut recover_at = Instant::now();
        let mut recovered = PartnerId::from_bytes([0; 16]);
        let mut doubts = Doubts::default();
        loop {
            let began = Instant::now();
            let now = self.service.clock().now();
            let asked = ClaimQuery {
                lapsed: began >= reclaim_at,
                recoveries: (began >= recover_at).then_some(recovered),
                ahead: doubts.of(began.into_std(), now),
            };
            let looking = apart(&self.service, move |service| look(service, asked));
            let Ok(mut store) = looking.await else {
                sleep(POLL_FAILED).await;
                continue;
            };
            self.metrics.set_oldest_due(store.oldest);
            let (worked, last) = (store.worked, store.last);
            if asked.ahead && !store.ahead {
                doubts.settle(began.into_std());
            }
            if asked.lapsed {
                reclaim_at = Instant::now() + RECLAIM.max(worked * PAUSE_SHARE);
            }
            let steps = store.recoveries.take();
            let (looked, took_back) = self.act(store).await;
            if took_back {
                // There may be more than one command can take back.
                reclaim_at = Instant::now();
            }
            if let Some((steps, last)) = steps.filter(|(steps, _)| !steps.is_empty()) {
                // Recoveries come after due deliveries; then the writer is left to others for as long as the step took.
                // However these end, those of other partners are next.
                recovered = last;
                let began = Instant::now();
                self.recover(steps).await;
                recover_at = Instant::now() + began.elapsed();
            }
            match looked {
                ClaimOutcome::Claimed => {}
                ClaimOutcome::Nothing => {
                    let idle = POLL.max(worked * PAUSE_SHARE);
                    // While a recovery is under way, wait only for its next step.
                    let step = recover_at.checked_duration_since(Instant::now());
                    let pause = step.map_or(idle, |until| idle.min(until));
                    let _ = timeout(pause, self.wake.notified()).await;
                }
                ClaimOutcome::Failed => sleep(POLL_FAILED).await,
            }
            sleep(GAP.max(last * HURRY_SHARE)).await;
        }
    }

    /// Takes back and claims what a look found. Also returns whether it took anything back.
    async fn act(&self, store: ClaimableWork) -> (ClaimOutcome, bool) {
        let (mut took_back, mut failed) = (false, false);
        let ahead = store.ahead.then_some(Reclaim::Ahead);
        for from in ahead.into_iter().chain(store.lapsed.map(Reclaim::EndedBy)) {
            let reclaim = self.service.envelope(ReclaimDeliveries { from });
            match self.service.submit_patiently(reclaim).await {
                Ok(taken) => took_back |= count(&taken) > 0,
                // What is due does not wait until that works.
                Err(_) => failed = true,
            }
        }
        let mut due = store.due;
        // Random order, so that no endpoint always comes first and nodes that claim at the same time collide less.
        due.sort_by_cached_key(|_| entropy::number());
        let claims = self.outbox.claims(&due);
        if !claims.full.is_empty() {
            // Sending fails only if the dispatcher is gone, which ends this task too.
            let _ = self.notes.send(Note::Backlog(claims.full));
        }
        let mut claimed = Claimed::default();
        self.claim(&claims.open, &mut claimed).await;
        if !store.deleted.is_empty() {
            // Every look steps over them until their deliveries end.
            let endpoints = store.deleted;
            let ending = self.service.envelope(DropDeliveries { endpoints });
            failed |= self.service.submit_patiently(ending).await.is_err();
        }
        // For troubled endpoints, enough was claimed to last until the next look.
        let outcome = match took_back || (claims.urgent > 0 && claimed.deliveries > 0) {
            _ if failed || claimed.failed => ClaimOutcome::Failed,
            true => ClaimOutcome::Claimed,
            false => ClaimOutcome::Nothing,
        };
        (outcome, took_back)
    }

    /// Claims what is due for these endpoints, a few to a command. Every command is handed over by this task itself, so that none
    /// follows once it has ended.
    async fn claim(&self, endpoints: &[(EndpointId, usize)], claimed: &mut Claimed) {
        let mut under_way = VecDeque::new();
        for endpoints in endpoints.chunks(ENDPOINTS_PER_CLAIM) {
            let claim = self.service.envelope(ClaimDeliveries {
                lease: self.service.lease(),
                endpoints: endpoints.to_vec(),
            });
            match self.service.enqueue(claim).await {
                Ok(claim) => under_way.push_back(claim),
                Err(error) => claimed.note(Err(error)),
            }
            let turn = match under_way.len() < CLAIMS_AT_ONCE {
                true => CLAIM_TURN,
                false => Duration::MAX,
            };
            // The writer answers in order, so the oldest ends first.
            if let Some(oldest) = under_way.front_mut()
                && let Ok(ended) = timeout(turn, Service::outcome(oldest)).await
            {
                claimed.note(ended);
                under_way.pop_front();
            }
            if claimed.store_failed {
                break;
            }
        }
        for claim in under_way {
            claimed.note(Service::outcome(claim).await);
        }
    }

    /// Advances recoveries, in one commit if no other command comes between. A step that fails is retried later; nothing else
    /// waits for it. Every step is handed over by this task itself, like a claim.
    async fn recover(&self, steps: Vec<Envelope<()>>) {
        let mut under_way = Vec::with_capacity(steps.len());
        for step in steps {
            under_way.extend(self.service.enqueue(step).await);
        }
        for step in under_way {
            let _ = Service::outcome(step).await;
        }
    }
}

/// Asks the store what is due and, when it is time for that, what to take back.
fn look(service: &Service, asked: ClaimQuery) -> Result<ClaimableWork, Error> {
    // A node whose own clock is wrong does not judge other nodes' times.
    let judges = asked.ahead && skew::agrees(service)?;
    let now = service.clock().now();
    let fault = |error| service.fault(&error);
    let (mut due, mut deleted, mut oldest) = (Vec::new(), Vec::new(), None);
    let mut worked = Duration::ZERO;
    let (mut began, mut after) = (Instant::now(), None);
    let mut reader = loop {
        let mut reader = service.reader()?;
        let page = reader.endpoints_with_due(now, after).map_err(fault)?;
        due.extend(page.due);
        deleted.extend(page.deleted);
        oldest = oldest.into_iter().chain(page.oldest).min();
        after = page.next;
        if after.is_none() {
            break reader;
        }
        drop(reader);
        // Reading thousands at once would keep a processor from requests for ten milliseconds.
        let took = began.elapsed();
        worked += took;
        std::thread::sleep(took * HURRY_SHARE);
        began = Instant::now();
    };
    // Any of them, so that none whose deliveries cannot be read keeps the others.
    deleted.sort_by_cached_key(|_| entropy::number());
    deleted.truncate(ENDPOINTS_EXAMINED as usize);
    let lapsed = asked.lapsed && reader.has_lapsed_leases(now).map_err(fault)?;
    let steps = |after| recoveries::next_steps(service, &mut reader, after).map_err(fault);
    let recoveries = asked.recoveries.map(steps).transpose()?;
    let ahead = judges && reader.has_ahead(now).map_err(fault)?;
    let last = began.elapsed();
    Ok(ClaimableWork {
        worked: worked + last,
        last,
        due,
        deleted,
        oldest,
        lapsed: lapsed.then_some(now),
        recoveries,
        ahead,
    })
}
