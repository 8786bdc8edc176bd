//! The dispatcher: one task that owns the queues, starts attempts and hears how they end.
//!
//! It never waits for the store or a receiver. Invariant: every parcel that came through the outbox is released
//! exactly once, whether it was delivered, failed, or not sent at all.

use std::sync::Arc;

use bookguard_core::command::Parcel;
use bookguard_core::model::EndpointId;
use bookguard_core::outbox::Outbox;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::carry::Van;
use super::claim::Claimer;
use super::rota::{Ended, Rota};
use super::signing::Secrets;

/// Notes read at a time.
const NOTES: usize = 256;

/// What the dispatcher is told.
#[derive(Debug)]
pub(super) enum Note {
    /// An attempt at a delivery to this endpoint is over.
    Sent(EndpointId, Ended),
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
    secrets: Secrets,
    /// Calls the claimer.
    wake: Arc<Notify>,
    tasks: JoinSet<()>,
    claimer: Option<AbortHandle>,
    stop: Option<Instant>,
}

impl Dispatcher {
    pub(super) fn new(van: Arc<Van>, outbox: Arc<Outbox>) -> Self {
        Dispatcher {
            van,
            outbox,
            rota: Rota::default(),
            secrets: Secrets::default(),
            wake: Arc::default(),
            tasks: JoinSet::new(),
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
                () = sleep_until(self.stop) => break,
            }
            self.send();
            self.sweep();
        }
        parcels.close();
        while let Ok(left) = parcels.try_recv() {
            left.iter()
                .for_each(|parcel| self.outbox.release(&parcel.endpoint_id));
        }
    }

    fn hear(&mut self, note: Note) {
        match note {
            Note::Sent(endpoint_id, ended) => {
                self.rota.sent(&endpoint_id, ended);
                if ended == Ended::Gone {
                    self.gone(endpoint_id);
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
                for endpoint_id in self.rota.clear() {
                    self.outbox.release(&endpoint_id);
                }
            }
        }
    }

    fn take(&mut self, parcel: Parcel) {
        if self.stop.is_some() {
            // Its lease ends by itself, and whoever is there then claims it.
            self.outbox.release(&parcel.endpoint_id);
        } else {
            self.rota.add(parcel);
        }
    }

    fn done(&mut self, endpoint_id: EndpointId) {
        self.outbox.release(&endpoint_id);
        if self.rota.done(&endpoint_id) {
            self.wake.notify_one();
        }
    }

    /// What is queued for an endpoint that said 410 stays unsent; its leases end and nobody claims it again.
    fn gone(&mut self, endpoint_id: EndpointId) {
        let Some(queued) = self.rota.gone(&endpoint_id) else {
            return;
        };
        (0..queued).for_each(|_| self.outbox.release(&endpoint_id));
        (self.van.report)(&format!(
            "webhook endpoint {endpoint_id} answered 410 Gone and is disabled; events that waited for it stay undelivered"
        ));
    }

    /// Starts as many attempts as there are places.
    fn send(&mut self) {
        let now = self.van.service.clock().now();
        while let Some(parcel) = self.rota.next() {
            if self.van.in_time(&parcel, now) {
                let secret = self.secrets.of(parcel.partner_id, now);
                self.tasks
                    .spawn(Arc::clone(&self.van).carry(parcel, secret));
            } else {
                // An attempt now could end after somebody else began one. Left to be claimed when the lease is over.
                self.rota.sent(&parcel.endpoint_id, Ended::Unsent);
                self.done(parcel.endpoint_id);
            }
        }
    }

    /// Forgets tasks that have ended.
    fn sweep(&mut self) {
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
