//! Tasks that wait for something to happen to a key, and how they are woken.
//!
//! If nobody waits, telling costs one look at a counter. Invariant: a waiter misses nothing that is told after
//! [`Waiting::on`] returned.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Everyone who waits, by key.
#[derive(Debug)]
pub struct Waiting<K> {
    count: AtomicUsize,
    waiters: Mutex<Waiters<K>>,
}

#[derive(Debug)]
struct Waiters<K> {
    by_key: HashMap<K, Vec<Arc<Notify>>>,
    closed: bool,
}

/// A single waiter. Dropping it ends the wait.
#[derive(Debug)]
pub struct Waiter<'w, K: Eq + Hash> {
    waiting: &'w Waiting<K>,
    key: K,
    told: Arc<Notify>,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            waiters: Mutex::new(Waiters {
                by_key: HashMap::new(),
                closed: false,
            }),
        }
    }
}

impl<K: Eq + Hash + Copy> Waiting<K> {
    /// Starts waiting for `key`.
    pub fn on(&self, key: K) -> Waiter<'_, K> {
        let told = Arc::new(Notify::new());
        let mut waiters = self.lock();
        waiters
            .by_key
            .entry(key)
            .or_default()
            .push(Arc::clone(&told));
        self.count.fetch_add(1, Ordering::SeqCst);
        Waiter {
            waiting: self,
            key,
            told,
        }
    }

    /// Wakes the waiters of `key`.
    pub fn tell(&self, key: &K) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for waiter in self.lock().by_key.get(key).into_iter().flatten() {
            waiter.notify_one();
        }
    }

    /// Wakes all waiters and ends waiting for good.
    pub fn close(&self) {
        let mut waiters = self.lock();
        waiters.closed = true;
        for waiter in waiters.by_key.values().flatten() {
            waiter.notify_one();
        }
    }

    /// Whether waiting has ended for good.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

impl<K> Waiting<K> {
    fn lock(&self) -> MutexGuard<'_, Waiters<K>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Waiter<'_, K> {
    /// Returns once something has happened to the key since it last returned.
    pub async fn told(&self) {
        self.told.notified().await;
    }
}

impl<K: Eq + Hash> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        let mut waiters = self.waiting.lock();
        if let Some(same) = waiters.by_key.get_mut(&self.key) {
            same.retain(|waiter| !Arc::ptr_eq(waiter, &self.told));
            if same.is_empty() {
                waiters.by_key.remove(&self.key);
            }
        }
        self.waiting.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn was_told(waiter: &Waiter<'_, u8>) -> bool {
        let told = pin!(waiter.told());
        told.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn every_waiter_of_the_key_is_woken_even_by_what_happens_before_it_looks() {
        let waiting = Waiting::default();
        let waiters = [waiting.on(1_u8), waiting.on(1), waiting.on(2)];
        waiting.tell(&1);
        assert_eq!(waiters.each_ref().map(was_told), [true, true, false]);
        assert_eq!(waiters.each_ref().map(was_told), [false; 3]);
        assert!(!waiting.is_closed());
        waiting.close();
        assert!(waiting.is_closed());
        assert_eq!(waiters.each_ref().map(was_told), [true; 3]);
        drop(waiters);
        assert!(waiting.lock().by_key.is_empty());
        assert_eq!(waiting.count.load(Ordering::SeqCst), 0);
    }
}
