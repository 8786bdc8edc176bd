//! Where the store is read, so that requests do not keep each other waiting.
//!
//! A short read of a file takes less time than handing it over, so the request's own task does it, on all but one of the
//! runtime's threads: a disk that hangs holds up no more. All else runs on threads that may wait. Of these there are few, because
//! readers of one file mostly wait for the same processors; tokio's own blocking threads would become as many as there are
//! requests, each with memory of its own. Long reads have few threads of their own, which give way to every other thread,
//! so that there is always one for short reads. Callers take turns: one with many reads waits for its own turns.
//! Invariants: work whose caller has gone is not begun; nobody has more waiting than [`ReadClass::waiting`].

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bookguard_core::error::Error;
use tokio::sync::{Semaphore, oneshot};

use crate::payer::Payer;
use crate::refusal::rate_limited;

/// At least and at most as many threads, twice the processors in between; the store has eight connections that read.
const THREADS: (usize, usize) = (2, 8);
/// One of so many is for what takes long, and at least one.
const LONG_SHARE: usize = 4;

/// Which threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadClass {
    /// For what is done in a millisecond or so.
    Short,
    /// For what may take long.
    Long,
}

impl ReadClass {
    /// What one caller may have waiting: as much as the writer takes of all; for what takes long, what is done within a second or
    /// two.
    fn waiting(self) -> usize {
        match self {
            Self::Short => bookguard_core::limits::INBOX,
            Self::Long => bookguard_core::limits::LONG_READS_WAITING,
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads; they end when this is dropped and nothing is queued any more.
pub(crate) struct Readers {
    short: Arc<JobQueue>,
    long: Arc<JobQueue>,
    /// How many tasks more may read by themselves.
    in_place: Semaphore,
}

#[derive(Default)]
struct JobQueue {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    turns: Turns<Payer, Job>,
    closed: bool,
}

/// What waits, by whose it is: one of each in turn.
struct Turns<K, T> {
    /// Whoever has something waiting, once, in the order of their turns.
    order: VecDeque<K>,
    waiting: HashMap<K, VecDeque<T>>,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + std::hash::Hash, T> Turns<K, T> {
    /// Adds something of this caller's, unless `most` of it waits already.
    fn add(&mut self, whose: K, what: T, most: usize) -> bool {
        let own = self.waiting.entry(whose).or_default();
        if own.len() >= most {
            return false;
        }
        if own.is_empty() {
            self.order.push_back(whose);
        }
        own.push_back(what);
        true
    }

    fn next(&mut self) -> Option<T> {
        let whose = self.order.pop_front()?;
        let own = self.waiting.get_mut(&whose)?;
        let next = own.pop_front();
        if own.is_empty() {
            self.waiting.remove(&whose);
        } else {
            self.order.push_back(whose);
        }
        next
    }
}

impl Readers {
    /// Starts them. On `in_place` threads at most, a short read is the calling thread's own work.
    ///
    /// # Errors
    /// A sentence for the operator when the system gives no threads.
    pub(crate) fn start(in_place: usize) -> Result<Self, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (2 * processors).clamp(THREADS.0, THREADS.1);
        let readers = Self {
            short: Arc::default(),
            long: Arc::default(),
            in_place: Semaphore::new(in_place),
        };
        let long = (threads / LONG_SHARE).max(1);
        for _ in long..threads {
            readers.short.employ("reader", || ())?;
        }
        for _ in 0..long {
            readers.long.employ("long-reader", give_way)?;
        }
        Ok(readers)
    }

    /// Runs what may block, in its caller's turn. A panic there is a panic here.
    ///
    /// # Errors
    /// `rate_limited` when too much of this caller's waits already, and those of the work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        payer: Payer,
        class: ReadClass,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if class == ReadClass::Short
            && let Ok(_held) = self.in_place.try_acquire()
        {
            return work();
        }
        let (tell, told) = oneshot::channel();
        let job: Job = Box::new(move || {
            if !tell.is_closed() {
                // A caller that went away meanwhile has nobody to tell.
                let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
            }
        });
        let jobs = match class {
            ReadClass::Short => &self.short,
            ReadClass::Long => &self.long,
        };
        if !jobs.add(payer, job, class.waiting()) {
            let why = "Too many requests of yours are waiting already.";
            return Err(rate_limited(1, why));
        }
        match told.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Error::unavailable("The service is shutting down.")),
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for jobs in [&self.short, &self.long] {
            jobs.queue().closed = true;
            jobs.arrived.notify_all();
        }
    }
}

impl JobQueue {
    /// Puts one more thread to work, which begins with `first`.
    fn employ(self: &Arc<Self>, name: &str, first: fn()) -> Result<(), String> {
        let jobs = Arc::clone(self);
        let work = move || {
            first();
            jobs.work();
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(work).map(drop);
        started.map_err(|e| format!("cannot start reader threads: {e}"))
    }

    fn add(&self, payer: Payer, job: Job, most: usize) -> bool {
        let added = self.queue().turns.add(payer, job, most);
        self.arrived.notify_one();
        added
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
            .wait_while(self.queue(), |queue| {
                queue.turns.order.is_empty() && !queue.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        queue.turns.next()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes this thread give way to the others, where a system knows that of threads.
///
/// By its policy, not by a nice value: on Linux a thread that wakes interrupts an idle one at once, but waits for the slice of
/// a nice one to end, which is 4 ms on most machines and several times what its own work takes.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
            set_thread_priority_and_policy, thread_native_id,
        };

        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        // On a machine that refuses, it only does not.
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    }
}

#[cfg(test)]
mod tests;
