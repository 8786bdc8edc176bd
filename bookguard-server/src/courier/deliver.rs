//! Takes one delivery from the queue to its settled outcome: sign, send, settle, or give back unsent.
//!
//! The dispatcher decides whose turn it is; `sender` makes the attempt. Invariant: for every delivery the dispatcher is told
//! first that its place is free and then that it is done, even if its task panics.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bookguard_core::engine::command::{Envelope, HeldDelivery, LeasedDelivery, Written};
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::engine::waiting::Waiting;
use bookguard_core::error::Kind;
use bookguard_core::features::deliveries::{
    EndpointStatusChange, ReleaseDeliveries, SettleDelivery,
};
use bookguard_core::limits::{CLAIMED_PER_ENDPOINT, LEASE_SKEW_MS};
use bookguard_core::model::{EndpointHealth, EndpointId, EndpointStatus, EventId, Timestamp};
use bookguard_core::service::Service;
use bookguard_core::webhook::{Attempt, FailureClass};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::dispatch::Note;
use super::fair_queue::{AttemptSeat, Ended, Turn};
use super::sender::{ASKER, Sender};
use super::signing::{self, Destination, EndpointReader, KnownReceiver, ReceiverCell};
use crate::metrics::DeliveryMetrics;

/// The first pause before settling an outcome again after a failure; each further one is twice as long.
const SETTLE_AGAIN: Duration = Duration::from_millis(100);
/// The longest such pause.
const SETTLE_AGAIN_MAX: Duration = Duration::from_secs(2);
/// How long a failed attempt keeps its turn to settle. Where a commit takes longer, more outcomes share one; otherwise they would
/// wait for so few at a time that their leases end.
const FAILURE_TURN: Duration = Duration::from_millis(5);

/// What all deliveries share.
pub(super) struct DeliveryContext {
    pub service: Arc<Service>,
    pub outbox: Arc<Outbox>,
    pub sender: Sender,
    /// How long an attempt may take.
    pub attempt_time: Duration,
    pub notes: UnboundedSender<Note>,
    pub waiting: Arc<Waiting<EventId>>,
    pub endpoints: EndpointReader,
    /// Turns to settle failed attempts.
    pub failures: Semaphore,
    /// Whether outcomes cannot be settled at present. An outage is reported once, not once per delivery.
    pub failing: AtomicBool,
    /// When the operator was last told that sending fails because of this side, by the reason.
    pub complained: Mutex<HashMap<String, Instant>>,
    pub metrics: Arc<DeliveryMetrics>,
}

/// How often the operator is told of each reason why sending fails because of this side: every attempt may fail that way.
const COMPLAIN: Duration = Duration::from_secs(60);
/// The most reasons that the operator is told of in that time; there are few at once.
const REASONS: usize = 16;

/// Tells the dispatcher how far a delivery has come, at the latest when the guard is dropped.
struct CompletionGuard {
    seat: AttemptSeat,
    notes: UnboundedSender<Note>,
    sent: bool,
}

impl CompletionGuard {
    fn sent(&mut self, ended: Ended, took_ms: u64) {
        if !std::mem::replace(&mut self.sent, true) {
            // Without a dispatcher there are no queues to update.
            let note = Note::Sent(self.seat, ended, took_ms);
            let _ = self.notes.send(note);
        }
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.sent(Ended::Unsent, 0);
        let _ = self.notes.send(Note::Done(self.seat.endpoint_id));
    }
}

impl DeliveryContext {
    /// Whether an attempt that begins at `now` ends within the delivery's lease, even by the clock of a node that is ahead.
    fn in_time(&self, delivery: &LeasedDelivery, now: Timestamp) -> bool {
        let time = i64::try_from(self.attempt_time.as_millis()).unwrap_or(i64::MAX);
        now.ms().saturating_add(time).saturating_add(LEASE_SKEW_MS) <= delivery.until.ms()
    }

    /// Gives deliveries back to the store, due at once for any node. If that fails, they are taken back when their leases end.
    pub(super) async fn give_back(self: Arc<Self>, held: Vec<HeldDelivery>) {
        let mut left = held.as_slice();
        loop {
            let (now, later) = left.split_at(left.len().min(CLAIMED_PER_ENDPOINT));
            let release = self
                .service
                .envelope(ReleaseDeliveries { held: now.to_vec() });
            if self.service.submit_patiently(release).await.is_err() || later.is_empty() {
                return;
            }
            left = later;
        }
    }

    /// Attempts the delivery and settles the outcome.
    pub(super) async fn deliver(self: Arc<Self>, turn: Turn, receiver: ReceiverCell) {
        let Turn {
            delivery,
            seat,
            mut patience,
        } = turn;
        let mut completion = CompletionGuard {
            seat,
            notes: self.notes.clone(),
            sent: false,
        };
        let known = self.endpoints.receiver(&receiver, &delivery).await;
        // Only now, because the store may have been slow: what was erased meanwhile is not sent, and an attempt started too late
        // could end after another node has begun one.
        let is_recalled = self.outbox.is_recalled(&delivery.event_id);
        let is_late = !self.in_time(&delivery, self.service.clock().now());
        let known = match known {
            _ if is_recalled || is_late => Err(Ended::Unsent),
            KnownReceiver::Open(endpoint, destination) => Ok(Some((endpoint, destination))),
            KnownReceiver::Unknown => Ok(None),
            KnownReceiver::Closed => Err(Ended::Closed),
        };
        let known = match known {
            Ok(known) => known,
            Err(ended) => {
                completion.sent(ended, 0);
                return self.give_back(vec![delivery.held()]).await;
            }
        };
        if delivery.attempts == 0 && !delivery.failing {
            self.metrics
                .began(delivery.begun, self.service.clock().now());
        }
        if let Some((endpoint, _)) = known
            && endpoint.moved_at != seat.moved_at
        {
            // How long the former address took says nothing about this one.
            completion.seat.moved_at = endpoint.moved_at;
            patience = self.attempt_time;
        }
        let (event_id, body) = (&delivery.event_id, &delivery.body);
        let destination = known.map(|(_, destination)| destination);
        let attempting = self.attempt(patience, event_id, body, destination);
        let mut attempt = ASKER.scope(seat.asker(), attempting).await;
        attempt.url = known.map(|(endpoint, _)| endpoint.url.clone());
        let ended = ended(&attempt, patience);
        self.metrics.attempted(attempt.class);
        completion.sent(ended, attempt.duration_ms);
        let settling = self.settle(&delivery, attempt);
        let is_settled = match ended {
            Ended::Accepted => settling.await,
            _ => self.in_turn(settling).await,
        };
        if is_settled {
            self.waiting.tell(&delivery.event_id);
        }
    }

    /// Settles a failed attempt when its turn comes.
    async fn in_turn(&self, settling: impl Future<Output = bool>) -> bool {
        // The semaphore is never closed, so everybody gets a turn.
        let turn = self.failures.acquire().await;
        let mut settling = pin!(settling);
        if let Ok(is_settled) = timeout(FAILURE_TURN, &mut settling).await {
            return is_settled;
        }
        drop(turn);
        settling.await
    }

    /// Signs the body and sends it once. Gives up after `patience`.
    pub(super) async fn attempt(
        &self,
        patience: Duration,
        event_id: &EventId,
        body: &Arc<[u8]>,
        destination: Option<&Destination>,
    ) -> Attempt {
        let now = self.service.clock().now();
        let signed = destination.and_then(|to| {
            let headers = signing::headers(&to.keyring, event_id, body, now)?;
            Some((to, headers))
        });
        let Some((to, headers)) = signed else {
            let why = "the endpoint or its signing secret could not be read; nothing was sent";
            let attempt = unsent(now, FailureClass::OurFault, why);
            self.complain(&attempt);
            return attempt;
        };
        let Some(url) = &to.url else {
            let why = "the endpoint's address cannot be read; change it";
            return unsent(now, FailureClass::BlockedAddress, why);
        };
        let body = Bytes::from_owner(Arc::clone(body));
        let attempt = self
            .sender
            .send(patience, url, headers, body, now.ms())
            .await;
        self.complain(&attempt);
        attempt
    }

    /// Records the outcome, and returns whether it is durable. Retries until it is, or until the lease ends and others may
    /// attempt the delivery.
    async fn settle(&self, delivery: &LeasedDelivery, attempt: Attempt) -> bool {
        let mut wait = SETTLE_AGAIN;
        let mut tells = true;
        loop {
            let at = self.service.clock().now();
            let told = match SettleDelivery::of(delivery, attempt.clone(), at) {
                Ok(settle) => {
                    let settle = match tells {
                        true => settle,
                        false => settle.without_telling(),
                    };
                    let settle = Envelope::new(at, settle);
                    self.service.submit_patiently(settle).await
                }
                Err(error) => Err(error),
            };
            match told {
                Ok(answer) => {
                    self.mark(false, "");
                    Self::tell(&answer);
                    return true;
                }
                // It needs what cannot be read: perhaps another endpoint, which only a suspension is told to.
                Err(error) if error.kind == Kind::Internal && std::mem::take(&mut tells) => {
                    continue;
                }
                Err(error) => self.mark(true, &error.message),
            }
            if self.service.clock().now() >= delivery.until {
                return false;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(SETTLE_AGAIN_MAX);
        }
    }

    /// Reports a change of the endpoint's status that the outcome caused.
    fn tell(answer: &Written<Option<EndpointStatusChange>>) {
        if let Written::Fresh(Some(EndpointStatusChange {
            endpoint_id,
            from,
            health,
        })) = answer
            && let Some(line) = turned(*endpoint_id, *from, health)
        {
            match health.status {
                EndpointStatus::Active => tracing::info!(%endpoint_id, "{line}"),
                _ => tracing::warn!(%endpoint_id, "{line}"),
            }
        }
    }

    /// Tells the operator from time to time of faults that are not the receiver's.
    fn complain(&self, attempt: &Attempt) {
        if attempt.class != Some(FailureClass::OurFault) {
            return;
        }
        let why = attempt.detail.as_deref().unwrap_or("unknown");
        let told = self.complained.lock();
        let mut told = told.unwrap_or_else(PoisonError::into_inner);
        if is_due(&mut told, why, Instant::now()) {
            tracing::error!("webhooks cannot be sent, through no fault of their receivers: {why}");
        }
    }

    /// Notes whether outcomes can be settled, and reports when that changes.
    fn mark(&self, failing: bool, why: &str) {
        if self.failing.load(Ordering::Relaxed) == failing
            || self.failing.swap(failing, Ordering::Relaxed) == failing
        {
            return;
        }
        if failing {
            tracing::error!(
                "the outcomes of webhook deliveries cannot be recorded at present ({why}); those that stay \
                 unrecorded are delivered again"
            );
        } else {
            tracing::info!("the outcomes of webhook deliveries are recorded again");
        }
    }
}

/// How an attempt that could last for `patience` ended. One that held its place to the end has timed out, whoever is to blame:
/// a proxy that waits for a dead receiver would otherwise take the places of new and healthy endpoints.
fn ended(attempt: &Attempt, patience: Duration) -> Ended {
    let lasted = Duration::from_millis(attempt.duration_ms.saturating_add(1)) > patience;
    match attempt.class {
        None => Ended::Accepted,
        Some(FailureClass::Gone) => Ended::Gone,
        Some(FailureClass::Timeout) => Ended::TimedOut,
        Some(FailureClass::OurFault) if lasted => Ended::TimedOut,
        Some(FailureClass::OurFault) => Ended::Unsent,
        Some(_) => Ended::Refused,
    }
}

/// The report of an endpoint whose status changed.
fn turned(
    endpoint_id: EndpointId,
    from: EndpointStatus,
    health: &EndpointHealth,
) -> Option<String> {
    use EndpointStatus::{Active, Failing, Gone, Suspended};
    let failures = health.failures;
    let since = health
        .failing_since
        .map_or_else(String::new, |at| at.to_string());
    match (from, health.status) {
        (_, Failing) => Some(format!(
            "webhook endpoint {endpoint_id} has failed {failures} times in a row since {since}; after five days of nothing else it \
             is suspended"
        )),
        (_, Suspended) => Some(format!(
            "webhook endpoint {endpoint_id} is suspended: it has failed {failures} times in a row since {since}. Its \
             deliveries wait, and now and then a single one tests whether it is back"
        )),
        (_, Gone) => Some(format!(
            "webhook endpoint {endpoint_id} answered 410 Gone and is disabled. The delivery that it answered so is given up; \
             the others wait until its partner enables it"
        )),
        (Suspended, Active) => Some(format!(
            "webhook endpoint {endpoint_id} is back: it takes deliveries again, and what waited for it is sent"
        )),
        _ => None,
    }
}

/// Whether it is time to report this reason again; if so, notes that it is reported now.
fn is_due(told: &mut HashMap<String, Instant>, why: &str, now: Instant) -> bool {
    told.retain(|_, at| now.saturating_duration_since(*at) < COMPLAIN);
    let is_due = told.len() < REASONS && !told.contains_key(why);
    if is_due {
        told.insert(why.to_owned(), now);
    }
    is_due
}

/// The record of an attempt that ended before anything was sent.
fn unsent(now: Timestamp, class: FailureClass, why: &str) -> Attempt {
    Attempt {
        class: Some(class),
        detail: Some(why.to_owned()),
        ..Attempt::begun(now.ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_gone_is_reported_and_what_waits_for_it_is_not_lost() {
        use EndpointStatus::{Active, Gone};
        let endpoint_id = EndpointId::from_bytes([7; 16]);
        let line = turned(endpoint_id, Active, &EndpointHealth::of(Gone)).unwrap();
        assert!(line.contains("the others wait"), "{line}");
    }

    #[test]
    fn an_attempt_that_keeps_its_place_to_the_end_times_out_though_the_fault_is_ours() {
        let patience = Duration::from_micros(3_750_500);
        for (class, took_ms, expected) in [
            (None, 3_750, Ended::Accepted),
            (Some(FailureClass::Gone), 3_750, Ended::Gone),
            (Some(FailureClass::Timeout), 2_000, Ended::TimedOut),
            (Some(FailureClass::Http5xx), 3_750, Ended::Refused),
            (Some(FailureClass::OurFault), 3_749, Ended::Unsent),
            // As many whole milliseconds as the patience has.
            (Some(FailureClass::OurFault), 3_750, Ended::TimedOut),
        ] {
            let attempt = Attempt {
                class,
                duration_ms: took_ms,
                ..unsent(Timestamp::from_ms(0), FailureClass::OurFault, "")
            };
            assert_eq!(ended(&attempt, patience), expected, "{class:?} {took_ms}");
        }
    }

    #[test]
    fn what_is_so_all_the_time_is_told_once_a_minute() {
        let began = Instant::now();
        let mut told = HashMap::new();
        let mut is_told = |why: &str, seconds| {
            let now = began + Duration::from_secs(seconds);
            is_due(&mut told, why, now)
        };
        let due = [0, 1, 59, 60, 61, 119, 120, 300].map(|seconds| is_told("no files", seconds));
        assert_eq!(due, [true, false, false, true, false, false, true, true]);
        // One reason does not hide another, and all together have an end.
        assert!(is_told("no secret", 301) && !is_told("no secret", 302));
        let others = (0..2 * REASONS).filter(|n| is_told(&n.to_string(), 303));
        assert_eq!(others.count(), REASONS - 2);
    }
}
