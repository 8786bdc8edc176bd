//! Runs reads of the store so that requests do not block each other.
//!
//! Handing over a short read of a database file takes longer than the read itself, so the request's own task does it. One
//! thread of the runtime never does, so a disk that hangs cannot block them all. Other reads run on a small pool of threads
//! that may block. The pool is small because readers of one file mostly compete for the same processors; tokio's blocking pool
//! would grow to one thread per request, each with its own memory. Long reads have a few threads of their own at lower
//! priority, so a thread is always free for short reads. Whoever presents a key waits until it is looked up, so look-ups of
//! callers ([`LookUps`]) have threads of their own, which no other read can occupy. Callers take turns, so one with many reads
//! delays only itself. For long reads, callers that are known by their network only take one turn together, because somebody may
//! have many networks.
//!
//! Invariants: work is not begun if its caller is gone; no caller has more reads queued than [`ReadClass::waiting`].

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::service::Service;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::observer;
use crate::payer::Payer;
use crate::refusal::rate_limited;

/// The least and the most threads; between them, twice the number of processors. The store has eight read connections.
const THREADS: (usize, usize) = (2, 8);
/// One in this many threads, and at least one, is for long reads.
const LONG_SHARE: usize = 4;
/// The threads for look-ups. A look-up takes 0.1 ms, or a few round trips to the database server, but a thread whose connection
/// is dead waits for 10 s.
const LOOK_UP_THREADS: usize = 4;
/// How long a caller waits for a look-up on such a thread, its turn included.
const PATIENCE: Duration = Duration::from_secs(5);
/// The message for a caller that was not looked up within it.
const LATE: &str = "The caller could not be looked up in time. Try again.";
/// The message for a caller whose long read was not done in time.
const BUSY: &str = "The service had too much to do to answer in time. Try again.";

/// How long a read may take, which decides the threads that run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadClass {
    /// A look-up of a caller.
    LookUp,
    /// About a millisecond.
    Short,
    /// Possibly long.
    Long,
}

impl ReadClass {
    /// The most reads that one caller may have queued: for long reads what is done within a second or two, for others as many as
    /// the writer queues for all callers.
    fn waiting(self) -> usize {
        match self {
            Self::LookUp | Self::Short => bookguard_core::limits::INBOX,
            Self::Long => bookguard_core::limits::LONG_READS_WAITING,
        }
    }

    /// The refusal for a caller that already has [`Self::waiting`] reads queued.
    fn full(self, payer: Payer) -> Error {
        match (payer, self) {
            // They may be those of many callers, and some may be gone.
            (Payer::Network(_), Self::LookUp | Self::Short) => {
                Error::unavailable("Too many requests are waiting already. Try again.")
            }
            _ => rate_limited(1, "Too many requests of yours are waiting already."),
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The reader threads. They end when this is dropped and the queues are empty.
pub(crate) struct Readers {
    look_ups: Arc<JobQueue>,
    short: Arc<JobQueue>,
    long: Arc<JobQueue>,
    /// Permits for tasks to read on their own thread.
    in_place: Semaphore,
}

#[derive(Default)]
struct JobQueue {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Each job, or `None` for the next one of `networks`.
    turns: Turns<Payer, Option<Job>>,
    /// The long reads of networks.
    networks: Turns<Payer, Job>,
    closed: bool,
}

impl Queue {
    /// Queues a job; returns false if its caller already has as many as it may.
    fn add(&mut self, payer: Payer, class: ReadClass, job: Job) -> bool {
        let most = class.waiting();
        match (payer, class) {
            (Payer::Network(_), ReadClass::Long) => {
                self.networks.add(payer, job, most)
                    && self.turns.add(Payer::STRANGER, None, usize::MAX)
            }
            _ => self.turns.add(payer, Some(job), most),
        }
    }

    fn next(&mut self) -> Option<Job> {
        self.turns.next()?.or_else(|| self.networks.next())
    }
}

/// Queued work by caller, served round-robin.
struct Turns<K, T> {
    /// The callers with queued work, each once, in the order in which they are served.
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
    /// Queues work for a caller; returns false if it already has `most` queued.
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
    /// Starts them. On `in_place` threads at most, a read that is not long is the calling thread's own work.
    ///
    /// # Errors
    /// A sentence for the operator if the system gives no threads.
    pub(crate) fn start(in_place: usize) -> Result<Self, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (2 * processors).clamp(THREADS.0, THREADS.1);
        let readers = Self {
            look_ups: Arc::default(),
            short: Arc::default(),
            long: Arc::default(),
            in_place: Semaphore::new(in_place),
        };
        for _ in 0..LOOK_UP_THREADS {
            readers.look_ups.employ("look-up", || ())?;
        }
        let long = (threads / LONG_SHARE).max(1);
        for _ in long..threads {
            readers.short.employ("reader", || ())?;
        }
        for _ in 0..long {
            readers.long.employ("long-reader", give_way)?;
        }
        Ok(readers)
    }

    /// Runs work that may block, when it is the caller's turn. A panic in it is propagated.
    ///
    /// # Errors
    /// `rate_limited` if the caller has too much queued already, `unavailable` if a network has; and the errors of the work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        payer: Payer,
        class: ReadClass,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if class != ReadClass::Long
            && let Ok(_held) = self.in_place.try_acquire()
        {
            return work();
        }
        let (tell, told) = oneshot::channel();
        let job: Job = Box::new(move || {
            if !tell.is_closed() {
                // Sending fails if the caller went away meanwhile.
                let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
            }
        });
        let jobs = match class {
            ReadClass::LookUp => &self.look_ups,
            ReadClass::Short => &self.short,
            ReadClass::Long => &self.long,
        };
        if !jobs.add(payer, class, job) {
            return Err(class.full(payer));
        }
        match told.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Error::unavailable("The service is shutting down.")),
        }
    }

    /// As [`Self::run`], but waits for a long read only until `due`; one that has not begun by then is dropped.
    ///
    /// # Errors
    /// `unavailable` if it is not done by then, and those of [`Self::run`].
    pub(crate) async fn run_until<T: Send + 'static>(
        &self,
        due: Instant,
        payer: Payer,
        class: ReadClass,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.run(payer, class, work);
        let late = |_| Err(Error::unavailable(BUSY));
        match class {
            ReadClass::Long => timeout_at(due, done).await.unwrap_or_else(late),
            // The rest of a file is read while its client takes what came before, which may last.
            ReadClass::LookUp | ReadClass::Short => done.await,
        }
    }
}

/// Look-ups of a caller. Nobody is charged for them.
pub(crate) struct LookUps<'r> {
    pub(crate) service: &'r Arc<Service>,
    pub(crate) readers: &'r Readers,
    /// Whose turn they take: the caller's network until it is known.
    pub(crate) payer: Payer,
}

impl LookUps<'_> {
    /// Runs one.
    ///
    /// # Errors
    /// `unavailable` if it was not done in time, and those of [`Readers::run`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Arc<Service>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let service = Arc::clone(self.service);
        let observed = observer::current();
        let work = move || match observed {
            Some(observed) => observed.at_once(|| read(&service)),
            None => read(&service),
        };
        let done = self.readers.run(self.payer, ReadClass::LookUp, work);
        let late = |_| Err(Error::unavailable(LATE));
        timeout(PATIENCE, done).await.unwrap_or_else(late)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for jobs in [&self.look_ups, &self.short, &self.long] {
            jobs.queue().closed = true;
            jobs.arrived.notify_all();
        }
    }
}

impl JobQueue {
    /// Starts one more thread, which begins with `first`.
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

    fn add(&self, payer: Payer, class: ReadClass, job: Job) -> bool {
        let added = self.queue().add(payer, class, job);
        self.arrived.notify_one();
        added
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    /// Waits for the next job; returns `None` when the queue is closed and empty.
    fn next(&self) -> Option<Job> {
        let mut queue = self
            .arrived
            .wait_while(self.queue(), |queue| {
                queue.turns.order.is_empty() && !queue.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        queue.next()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lowers this thread's priority, where the system supports that for threads.
///
/// A nice thread still gets about a tenth of a processor that others keep busy. Under the idle policy it would get nothing,
/// and on a busy machine a document of a few milliseconds would take minutes.
fn give_way() {
    // Elsewhere this would lower the priority of the whole process. If the system refuses, the thread keeps its own.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

#[cfg(test)]
mod tests;
