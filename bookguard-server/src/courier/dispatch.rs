//! The dispatcher: one task that owns the queues, starts attempts and learns how they end.
//!
//! It never waits for the store or a receiver. Invariant: every delivery that came through the outbox is released
//! exactly once, whether it was delivered, failed, or not sent at all.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::{HeldDelivery, LeasedDelivery};
use bookguard_core::model::EndpointId;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::claim::Claimer;
use super::deliver::DeliveryContext;
use super::fair_queue::{AttemptSeat, Ended, FairQueue};
use super::reclaim::keep_reclaiming;
use super::signing::Receivers;

/// Notes read at a time.
const NOTES: usize = 256;

/// How long giving back may take at the end, even if attempts in flight have used up the stop time.
const LAST_RETURN: Duration = Duration::from_secs(1);

/// A message to the dispatcher.
#[derive(Debug)]
pub(super) enum Note {
    /// The attempt that held this place has ended, after this many milliseconds.
    Sent(AttemptSeat, Ended, u64),
    /// A delivery to this endpoint is settled, or given up.
    Done(EndpointId),
    /// These endpoints have more deliveries due than there is room for.
    Backlog(Vec<EndpointId>),
    /// Take nothing more, let attempts in flight end until this instant, and return.
    Stop(Instant),
}

/// The state of the dispatcher. Dropping it ends every attempt at once.
pub(super) struct Dispatcher {
    context: Arc<DeliveryContext>,
    queue: FairQueue,
    receivers: Receivers,
    /// Wakes the claimer.
    wake: Arc<Notify>,
    tasks: JoinSet<()>,
    /// Tasks that give deliveries back to the store.
    returning: JoinSet<()>,
    /// Claims due deliveries: one task at most.
    claimer: JoinSet<()>,
    stop: Option<Instant>,
}

impl Dispatcher {
    pub(super) fn new(context: Arc<DeliveryContext>) -> Self {
        Dispatcher {
            queue: FairQueue::new(context.attempt_time),
            context,
            receivers: Receivers::default(),
            wake: Arc::default(),
            tasks: JoinSet::new(),
            returning: JoinSet::new(),
            claimer: JoinSet::new(),
            stop: None,
        }
    }

    /// Starts claiming due deliveries from the store.
    pub(super) fn claim(&mut self, notes: UnboundedSender<Note>) {
        let claimer = Claimer {
            service: Arc::clone(&self.context.service),
            outbox: Arc::clone(&self.context.outbox),
            notes,
            wake: Arc::clone(&self.wake),
            metrics: Arc::clone(&self.context.metrics),
        };
        self.claimer.spawn(claimer.run());
        // This keeps running when the node stops, until attempts in flight have ended.
        self.tasks
            .spawn(keep_reclaiming(Arc::clone(&self.context.service)));
    }

    /// Runs until it is stopped and nothing is in flight any more, or until the stop time has passed.
    pub(super) async fn run(
        mut self,
        mut deliveries: UnboundedReceiver<Vec<LeasedDelivery>>,
        mut notes: UnboundedReceiver<Note>,
    ) {
        let mut read = Vec::with_capacity(NOTES);
        let mut arrived = Vec::with_capacity(NOTES);
        while !(self.stop.is_some() && self.queue.is_idle()) {
            tokio::select! {
                count = notes.recv_many(&mut read, NOTES) => {
                    if count == 0 {
                        break;
                    }
                    read.drain(..).for_each(|note| self.hear(note));
                }
                count = deliveries.recv_many(&mut arrived, NOTES), if !deliveries.is_closed() => {
                    if count == 0 {
                        deliveries.close();
                    }
                    arrived.drain(..).flatten().for_each(|delivery| self.take(delivery));
                }
                () = sleep_until(self.queue.wake_at()) => {}
                () = sleep_until(self.stop) => break,
            }
            self.send();
            self.sweep();
        }
        let stop = self.stop;
        let leaving = self.leave(&mut deliveries);
        match stop {
            Some(end) => drop(timeout_at(end.max(Instant::now() + LAST_RETURN), leaving).await),
            None => leaving.await,
        }
    }

    /// Gives back deliveries that are still arriving. A claim may have been under way when its claimer ended, so that end is
    /// waited for. The writer answers in order, so once a later command is answered, everything claimed is in the channel.
    async fn leave(mut self, deliveries: &mut UnboundedReceiver<Vec<LeasedDelivery>>) {
        self.claimer.shutdown().await;
        self.returning
            .spawn(Arc::clone(&self.context).give_back(Vec::new()));
        while !self.returning.is_empty() {
            while self.returning.join_next().await.is_some() {}
            let mut left = Vec::new();
            while let Ok(more) = deliveries.try_recv() {
                left.extend(more);
            }
            self.put_back(left);
        }
    }

    /// Gives back deliveries that were not sent, and frees their places in the outbox.
    fn put_back(&mut self, unsent: Vec<LeasedDelivery>) {
        for delivery in &unsent {
            self.context.outbox.release(&delivery.endpoint_id);
        }
        let held: Vec<HeldDelivery> = unsent.iter().map(LeasedDelivery::held).collect();
        if !held.is_empty() {
            self.returning
                .spawn(Arc::clone(&self.context).give_back(held));
        }
    }

    fn hear(&mut self, note: Note) {
        match note {
            Note::Sent(seat, ended, took_ms) => {
                let endpoint_id = seat.endpoint_id;
                if let Some((partner_id, terms)) = self.queue.sent(seat, ended, took_ms) {
                    self.context.outbox.set(endpoint_id, partner_id, terms);
                    let surplus = self.queue.shed(&endpoint_id);
                    self.put_back(surplus);
                }
                if matches!(ended, Ended::Gone | Ended::Closed) {
                    self.gone(endpoint_id);
                }
            }
            Note::Done(endpoint_id) => self.done(endpoint_id),
            Note::Backlog(endpoint_ids) => {
                if self.queue.backlog(&endpoint_ids) {
                    self.wake.notify_one();
                }
            }
            Note::Stop(until) => {
                self.stop = Some(until);
                self.claimer.abort_all();
                let queued = self.queue.clear();
                self.put_back(queued);
            }
        }
    }

    fn take(&mut self, delivery: LeasedDelivery) {
        if self.stop.is_some() {
            self.put_back(vec![delivery]);
        } else {
            self.receivers.came(&delivery.endpoint_id);
            self.queue.add(delivery);
        }
    }

    fn done(&mut self, endpoint_id: EndpointId) {
        self.context.outbox.release(&endpoint_id);
        if self.queue.done(&endpoint_id) {
            self.wake.notify_one();
        }
        for endpoint_id in self.queue.forgotten() {
            self.context.outbox.forget(&endpoint_id);
        }
    }

    /// Gives back what is queued for an endpoint that takes nothing more. It is claimed again once the endpoint takes deliveries.
    fn gone(&mut self, endpoint_id: EndpointId) {
        if let Some(queued) = self.queue.gone(&endpoint_id) {
            self.put_back(queued);
        }
    }

    /// Starts as many attempts as there are free places.
    fn send(&mut self) {
        let now = self.context.service.clock().now();
        let began = Instant::now();
        while let Some(turn) = self.queue.next(began) {
            let receiver = self.receivers.of(turn.delivery.endpoint_id, now);
            self.tasks
                .spawn(Arc::clone(&self.context).deliver(turn, receiver));
        }
    }

    /// Removes tasks that have ended.
    fn sweep(&mut self) {
        while self.returning.try_join_next().is_some() {}
        let ended = || {
            self.tasks
                .try_join_next()
                .or_else(|| self.claimer.try_join_next())
        };
        for ended in std::iter::from_fn(ended) {
            if ended.is_err_and(|error| error.is_panic()) {
                tracing::error!(
                    "a task of the webhook courier panicked; this is a fault in Bookguard"
                );
            }
        }
    }
}

async fn sleep_until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
