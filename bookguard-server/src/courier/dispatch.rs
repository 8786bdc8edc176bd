//! The dispatcher: one task that owns the queues, starts attempts and hears how they end.
//!
//! It never waits for the store or a receiver. Invariant: every parcel that came through the outbox is released
//! exactly once, whether it was delivered, failed, or not sent at all.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::{Held, Parcel};
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::model::EndpointId;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::carry::Van;
use super::claim::Claimer;
use super::relief::relieve;
use super::rota::{Ended, Rota, Seat, Turn};
use super::signing::Receivers;

/// Notes read at a time.
const NOTES: usize = 256;

/// What giving back gets at the end, when attempts in flight took all the time there was.
const LAST_RETURN: Duration = Duration::from_secs(1);

/// What the dispatcher is told.
#[derive(Debug)]
pub(super) enum Note {
    /// The attempt that held this place is over, after so many milliseconds.
    Sent(Seat, Ended, u64),
    /// A delivery to this endpoint is settled, or given up.
    Done(EndpointId),
    /// These endpoints have more due than there is room for.
    Backlog(Vec<EndpointId>),
    /// Take nothing more, let what is in flight end until then, and return.
    Stop(Instant),
}

/// The dispatcher's desk. Dropping it ends every attempt at once.
pub(super) struct Dispatcher {
    van: Arc<Van>,
    outbox: Arc<Outbox>,
    rota: Rota,
    receivers: Receivers,
    /// Calls the claimer.
    wake: Arc<Notify>,
    tasks: JoinSet<()>,
    /// Deliveries on their way back to the store.
    returning: JoinSet<()>,
    claimer: Option<AbortHandle>,
    stop: Option<Instant>,
}

impl Dispatcher {
    pub(super) fn new(van: Arc<Van>, outbox: Arc<Outbox>) -> Self {
        Dispatcher {
            rota: Rota::new(van.attempt_time),
            van,
            outbox,
            receivers: Receivers::default(),
            wake: Arc::default(),
            tasks: JoinSet::new(),
            returning: JoinSet::new(),
            claimer: None,
            stop: None,
        }
    }

    /// Starts to claim what is due in the store.
    pub(super) fn claim(&mut self, notes: UnboundedSender<Note>) {
        let claimer = Claimer {
            service: Arc::clone(&self.van.service),
            outbox: Arc::clone(&self.outbox),
            notes,
            wake: Arc::clone(&self.wake),
        };
        self.claimer = Some(self.tasks.spawn(claimer.run()));
        // Goes on when this node stops, until what is under way has ended.
        self.tasks.spawn(relieve(Arc::clone(&self.van.service)));
    }

    /// Runs until it is stopped and nothing is in flight any more, or the time for that is over.
    pub(super) async fn run(
        mut self,
        mut parcels: UnboundedReceiver<Vec<Parcel>>,
        mut notes: UnboundedReceiver<Note>,
    ) {
        let mut read = Vec::with_capacity(NOTES);
        let mut arrived = Vec::with_capacity(NOTES);
        while !(self.stop.is_some() && self.rota.is_idle()) {
            tokio::select! {
                count = notes.recv_many(&mut read, NOTES) => {
                    if count == 0 {
                        break;
                    }
                    read.drain(..).for_each(|note| self.hear(note));
                }
                count = parcels.recv_many(&mut arrived, NOTES), if !parcels.is_closed() => {
                    if count == 0 {
                        parcels.close();
                    }
                    arrived.drain(..).flatten().for_each(|parcel| self.take(parcel));
                }
                () = sleep_until(self.rota.wake_at()) => {}
                () = sleep_until(self.stop) => break,
            }
            self.send();
            self.sweep();
        }
        let stop = self.stop;
        let leaving = self.leave(&mut parcels);
        match stop {
            Some(end) => drop(timeout_at(end.max(Instant::now() + LAST_RETURN), leaving).await),
            None => leaving.await,
        }
    }

    /// Gives back what is still on its way to here. A claim may have been under way when its claimer ended: what it
    /// takes is in the channel once a later command was answered, since the writer answers in order.
    async fn leave(mut self, parcels: &mut UnboundedReceiver<Vec<Parcel>>) {
        self.returning
            .spawn(Arc::clone(&self.van).give_back(Vec::new()));
        while !self.returning.is_empty() {
            while self.returning.join_next().await.is_some() {}
            let mut left = Vec::new();
            while let Ok(more) = parcels.try_recv() {
                left.extend(more);
            }
            self.put_back(left);
        }
    }

    /// Lets go of deliveries that were not sent, and of their places here.
    fn put_back(&mut self, unsent: Vec<Parcel>) {
        for parcel in &unsent {
            self.outbox.release(&parcel.endpoint_id);
        }
        let held: Vec<Held> = unsent.iter().map(Parcel::held).collect();
        if !held.is_empty() {
            self.returning.spawn(Arc::clone(&self.van).give_back(held));
        }
    }

    fn hear(&mut self, note: Note) {
        match note {
            Note::Sent(seat, ended, took_ms) => {
                let endpoint_id = seat.endpoint_id;
                if let Some((partner_id, terms)) = self.rota.sent(seat, ended, took_ms) {
                    self.outbox.set(endpoint_id, partner_id, terms);
                    let surplus = self.rota.shed(&endpoint_id);
                    self.put_back(surplus);
                }
                if matches!(ended, Ended::Gone | Ended::Closed) {
                    self.gone(endpoint_id, ended);
                }
            }
            Note::Done(endpoint_id) => self.done(endpoint_id),
            Note::Backlog(endpoint_ids) => {
                if self.rota.backlog(&endpoint_ids) {
                    self.wake.notify_one();
                }
            }
            Note::Stop(until) => {
                self.stop = Some(until);
                if let Some(claimer) = self.claimer.take() {
                    claimer.abort();
                }
                let queued = self.rota.clear();
                self.put_back(queued);
            }
        }
    }

    fn take(&mut self, parcel: Parcel) {
        if self.stop.is_some() {
            self.put_back(vec![parcel]);
        } else {
            self.receivers.came(&parcel.endpoint_id);
            self.rota.add(parcel);
        }
    }

    fn done(&mut self, endpoint_id: EndpointId) {
        self.outbox.release(&endpoint_id);
        if self.rota.done(&endpoint_id) {
            self.wake.notify_one();
        }
        for endpoint_id in self.rota.forgotten() {
            self.outbox.forget(&endpoint_id);
        }
    }

    /// What is queued for an endpoint that takes nothing more stays unsent, and nobody claims it again.
    fn gone(&mut self, endpoint_id: EndpointId, ended: Ended) {
        let Some(queued) = self.rota.gone(&endpoint_id) else {
            return;
        };
        self.put_back(queued);
        if ended == Ended::Gone {
            (self.van.report)(&format!(
                "webhook endpoint {endpoint_id} answered 410 Gone and is disabled; events that waited for it stay \
                 undelivered"
            ));
        }
    }

    /// Starts as many attempts as there are places.
    fn send(&mut self) {
        let now = self.van.service.clock().now();
        let mut late = Vec::new();
        let began = Instant::now();
        while let Some(turn) = self.rota.next(began) {
            if self.van.in_time(&turn.parcel, now) {
                let receiver = self.receivers.of(turn.parcel.endpoint_id, now);
                self.tasks
                    .spawn(Arc::clone(&self.van).carry(turn, receiver));
            } else {
                // An attempt now could end after somebody else began one.
                let Turn { parcel, seat, .. } = turn;
                self.rota.sent(seat, Ended::Unsent, 0);
                if self.rota.done(&parcel.endpoint_id) {
                    self.wake.notify_one();
                }
                late.push(parcel);
            }
        }
        self.put_back(late);
    }

    /// Forgets tasks that have ended.
    fn sweep(&mut self) {
        while self.returning.try_join_next().is_some() {}
        while let Some(ended) = self.tasks.try_join_next() {
            if ended.is_err_and(|error| error.is_panic()) {
                (self.van.report)(
                    "a task of the webhook courier panicked; this is a fault in Bookguard",
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
