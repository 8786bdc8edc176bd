//! Who waits for the outcome of an event, and how they are woken.
//!
//! A delivery that nobody waits for costs one look at a counter.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bookguard_core::model::EventId;
use tokio::sync::Notify;

/// Everybody who waits.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    count: AtomicUsize,
    by_event: Mutex<HashMap<EventId, Vec<Arc<Notify>>>>,
}

/// One who waits; dropping it ends the wait.
#[derive(Debug)]
pub(super) struct Waiter<'w> {
    waiting: &'w Waiting,
    event_id: EventId,
    settled: Arc<Notify>,
}

impl Waiting {
    /// Waits for `event_id` from now on: no outcome after this call is missed.
    pub(super) fn on(&self, event_id: EventId) -> Waiter<'_> {
        let settled = Arc::new(Notify::new());
        self.lock()
            .entry(event_id)
            .or_default()
            .push(Arc::clone(&settled));
        self.count.fetch_add(1, Ordering::SeqCst);
        Waiter {
            waiting: self,
            event_id,
            settled,
        }
    }

    /// One of the event's deliveries was settled.
    pub(super) fn settled(&self, event_id: &EventId) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for waiter in self.lock().get(event_id).into_iter().flatten() {
            waiter.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EventId, Vec<Arc<Notify>>>> {
        self.by_event.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Returns once one of the event's deliveries was settled since the last return.
    pub(super) async fn settled(&self) {
        self.settled.notified().await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut by_event = self.waiting.lock();
        if let Some(waiters) = by_event.get_mut(&self.event_id) {
            waiters.retain(|waiter| !Arc::ptr_eq(waiter, &self.settled));
            if waiters.is_empty() {
                by_event.remove(&self.event_id);
            }
        }
        self.waiting.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_waiter_of_the_event_is_woken_even_by_an_outcome_before_it_looks() {
        let waiting = Waiting::default();
        let [one, other] = [1, 2].map(|byte| EventId::from_bytes([byte; 16]));
        let (first, second, third) = (waiting.on(one), waiting.on(one), waiting.on(other));
        waiting.settled(&one);
        first.settled().await;
        second.settled().await;
        tokio::select! {
            biased;
            () = third.settled() => panic!("nothing of its event was settled"),
            () = std::future::ready(()) => {}
        }
        drop((first, second, third));
        assert!(waiting.lock().is_empty());
        assert_eq!(waiting.count.load(Ordering::SeqCst), 0);
    }
}
