//! Threads that may wait for the store: everything that reads runs here, and the tasks of requests never block.
//!
//! Few, because readers of one file mostly wait for the same processors; tokio's own blocking threads would become as
//! many as there are requests, each with memory of its own. Invariant: work whose caller has gone is not begun.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bookguard_core::error::Error;
use tokio::sync::oneshot;

/// At least and at most as many threads, twice the processors in between; the store has eight connections that read.
const THREADS: (usize, usize) = (2, 8);

type Job = Box<dyn FnOnce() + Send>;

/// The threads; they end when this is dropped and nothing is queued any more.
pub(crate) struct Readers(Arc<Desk>);

#[derive(Default)]
struct Desk {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Readers {
    /// Starts them.
    ///
    /// Errors: a sentence for the operator when the system gives no threads.
    pub(crate) fn start() -> Result<Self, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let readers = Self(Arc::default());
        for _ in 0..(2 * processors).clamp(THREADS.0, THREADS.1) {
            let desk = Arc::clone(&readers.0);
            std::thread::Builder::new()
                .name("reader".to_owned())
                .spawn(move || desk.work())
                .map_err(|e| format!("no threads to read with: {e}"))?;
        }
        Ok(readers)
    }

    /// Runs what may block, after what came before it. A panic there is a panic here.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = oneshot::channel();
        self.0.add(Box::new(move || {
            if !tell.is_closed() {
                // A caller that went away meanwhile has nobody to tell.
                let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
            }
        }));
        match told.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Error::unavailable("The service is shutting down.")),
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.queue().closed = true;
        self.0.arrived.notify_all();
    }
}

impl Desk {
    fn add(&self, job: Job) {
        self.queue().jobs.push_back(job);
        self.arrived.notify_one();
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    /// The next job, waited for; `None` when there will be none.
    fn next(&self) -> Option<Job> {
        let mut queue = self
            .arrived
            .wait_while(self.queue(), |queue| queue.jobs.is_empty() && !queue.closed)
            .unwrap_or_else(PoisonError::into_inner);
        queue.jobs.pop_front()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_at_once_all_come_back_with_their_own() {
        let readers = Arc::new(Readers::start().unwrap());
        let asked = (0..500).map(|n| {
            let readers = Arc::clone(&readers);
            tokio::spawn(async move { readers.run(move || Ok(n)).await.unwrap() == n })
        });
        for asked in asked.collect::<Vec<_>>() {
            assert!(asked.await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_panic_reaches_its_caller_and_leaves_the_thread_to_the_others() {
        let readers = Arc::new(Readers::start().unwrap());
        for _ in 0..2 * THREADS.1 {
            let readers = Arc::clone(&readers);
            let asked =
                tokio::spawn(async move { readers.run::<()>(|| panic!("of the work")).await });
            assert!(asked.await.unwrap_err().is_panic());
        }
        assert_eq!(readers.run(|| Ok(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_not_begun() {
        let readers = Arc::new(Readers::start().unwrap());
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        // Every thread waits at the gate, so that what comes now stays in the queue.
        let busy: Vec<_> = (0..THREADS.1)
            .map(|_| {
                let (readers, gate) = (Arc::clone(&readers), Arc::clone(&gate));
                tokio::spawn(async move {
                    let wait = move || Ok(gate.lock().unwrap().recv().is_err());
                    readers.run(wait).await
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let begun = Arc::new(Mutex::new(false));
        let late = {
            let (readers, begun) = (Arc::clone(&readers), Arc::clone(&begun));
            tokio::spawn(async move {
                let begin = move || {
                    *begun.lock().unwrap() = true;
                    Ok(())
                };
                readers.run(begin).await
            })
        };
        tokio::task::yield_now().await;
        late.abort();
        assert!(late.await.unwrap_err().is_cancelled());
        drop(open);
        for busy in busy {
            assert_eq!(busy.await.unwrap(), Ok(true));
        }
        assert_eq!(readers.run(|| Ok(())).await, Ok(()));
        assert!(!*begun.lock().unwrap());
    }
}
