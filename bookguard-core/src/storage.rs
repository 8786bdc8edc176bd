//! Whether the database takes writes, as far as this node's own last attempts tell: what health answers by, and what the
//! operator reads.
//!
//! The writer notes how each batch ended and how the engine's upkeep after it did; the service notes the free disk space. What
//! nobody has tried lately is tried by `ProbeStorage`, the smallest command that writes, which goes
//! the way of every other. Invariants: nothing here does I/O; a state is told once when it begins and once, with a count, when
//! it has been over for a second; what has not failed is tried only where somebody asks for the node's health, or the disk is
//! as good as full.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Kind};
use crate::limits::DISK_RESERVE;
use crate::store::StoreError;

/// How long a write counts as proof that writing works.
const FRESH: Duration = Duration::from_millis(500);
/// How long after a write a log that cannot be brought into the database file is tried again: each try makes it longer.
const UPKEEP_AGAIN: Duration = Duration::from_secs(5);
/// How long a state must be over before that is told: on a disk that is almost full small writes pass between large ones that do
/// not.
const SETTLED: Duration = Duration::from_secs(1);
/// A batch that is under way for longer is not going to end soon: the disk hangs, or somebody keeps the write turn.
const STUCK: Duration = Duration::from_secs(3);

/// What the node knows of its storage.
pub struct Storage {
    report: fn(&str),
    /// Bytes of free disk space below which nothing new is taken in; 0 for no such limit.
    min_free: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// While batches are refused.
    writes: Option<Outage>,
    /// While the engine's upkeep fails.
    upkeep: Option<Outage>,
    /// Since when a batch is under way.
    begun: Option<Instant>,
    /// When a batch was last made durable.
    written: Option<Instant>,
    /// Whether somebody asked for the node's health since it was last tried.
    asked: bool,
    /// Bytes free on the database's disk.
    free: Option<u64>,
    /// Whether that is less than there must be.
    low: bool,
}

/// What stands in the way, in the coarsest terms an operator can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Full,
    ReadOnly,
    Moved,
    Failing,
}

/// A state in which something fails.
struct Outage {
    reason: Reason,
    /// What was told of already.
    told: Vec<Reason>,
    since: Instant,
    /// How often it failed.
    times: u64,
    /// Batches that were refused and held more than a probe.
    batches: u64,
    /// What was refused with them.
    requests: usize,
    /// Since when it works again.
    over: Option<Instant>,
}

impl Reason {
    fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Full => Self::Full,
            StoreError::ReadOnly => Self::ReadOnly,
            StoreError::Moved(_) => Self::Moved,
            _ => Self::Failing,
        }
    }

    /// What a question about health is answered with; `None` where the head itself says it.
    fn refusal(self) -> Option<Error> {
        let (code, message) = match self {
            Self::Full => (
                "storage_full",
                "The service's disk is full. Reads continue; writes are refused until there is room again.",
            ),
            Self::ReadOnly => (
                "storage_read_only",
                "The service's database is read-only at present. Reads continue; writes are refused.",
            ),
            Self::Failing => (
                "storage_failing",
                "The service's database does not take writes at present.",
            ),
            Self::Moved => return None,
        };
        Some(not_ready(code, message))
    }
}

fn not_ready(code: &'static str, message: &str) -> Error {
    Error {
        retry_after_s: Some(1),
        ..Error::new(Kind::Unavailable, code, message)
    }
}

impl Outage {
    /// Notes one more failure of `what`; the line to tell, if this is news.
    fn note(
        outage: &mut Option<Self>,
        what: &str,
        error: &StoreError,
        now: Instant,
    ) -> Option<String> {
        let reason = Reason::of(error);
        let known = outage.get_or_insert_with(|| Self {
            reason,
            told: Vec::new(),
            since: now,
            times: 0,
            batches: 0,
            requests: 0,
            over: None,
        });
        known.reason = reason;
        known.over = None;
        known.times += 1;
        if known.told.contains(&reason) {
            return None;
        }
        known.told.push(reason);
        Some(format!("{what}: {error}"))
    }

    fn lasts(outage: Option<&Self>) -> Option<Reason> {
        outage.filter(|o| o.over.is_none()).map(|o| o.reason)
    }

    /// The state, once it has been over for long enough to be told.
    fn ended(outage: &mut Option<Self>, now: Instant) -> Option<(Self, u64)> {
        let over = outage.as_ref()?.over?;
        if now.saturating_duration_since(over) < SETTLED {
            return None;
        }
        let ended = outage.take()?;
        let lasted = over.saturating_duration_since(ended.since).as_secs();
        Some((ended, lasted))
    }
}

impl Storage {
    /// Nothing is known yet, and nothing is held against it. `report` is told a line when a state begins or ends.
    pub fn new(report: fn(&str), min_free: u64) -> Self {
        Self {
            report,
            min_free,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch begins.
    pub(crate) fn begins(&self) {
        self.state().begun = Some(Instant::now());
    }

    /// A batch has ended, whatever came of it.
    pub(crate) fn ends(&self) {
        self.state().begun = None;
    }

    /// A batch was made durable.
    pub(crate) fn wrote(&self) {
        let now = Instant::now();
        let mut state = self.state();
        state.written = Some(now);
        if let Some(outage) = &mut state.writes {
            outage.over.get_or_insert(now);
        }
    }

    /// A batch with so many requests was refused.
    pub(crate) fn refused(&self, error: &StoreError, requests: usize) {
        let mut state = self.state();
        let news = Outage::note(&mut state.writes, "writes fail", error, Instant::now());
        if let Some(outage) = state.writes.as_mut().filter(|_| requests > 0) {
            outage.batches += 1;
            outage.requests += requests;
        }
        drop(state);
        if let Some(news) = news {
            (self.report)(&format!(
                "{news} (more of the same are counted, not reported)"
            ));
        }
    }

    /// How the engine's upkeep after a batch went: on a file, moving what the write-ahead log holds into the database.
    pub(crate) fn kept_up(&self, done: Result<(), StoreError>) {
        let mut state = self.state();
        let news = match done {
            Ok(()) => {
                if let Some(outage) = &mut state.upkeep {
                    outage.over.get_or_insert_with(Instant::now);
                }
                None
            }
            Err(error) => {
                let what = "the write-ahead log cannot be brought into the database file";
                Outage::note(&mut state.upkeep, what, &error, Instant::now())
            }
        };
        drop(state);
        if let Some(news) = news {
            (self.report)(&format!(
                "{news}. What is written is kept in the log, which grows until this is mended: look at the disk (more of the \
                 same are counted, not reported)"
            ));
        }
    }

    /// So many bytes are free on the database's disk.
    pub(crate) fn measured(&self, free: Option<u64>) {
        let mut state = self.state();
        state.free = free;
        let low = free.is_some_and(|free| free < self.min_free);
        if std::mem::replace(&mut state.low, low) == low {
            return;
        }
        drop(state);
        let mib = |bytes: u64| bytes / (1024 * 1024);
        if low {
            (self.report)(&format!(
                "{} MiB of the database's disk are free, less than the {} of min_free_disk: new bookings, partners, policies, \
                 endpoints and recoveries are refused; what is there is protected, canceled and delivered as before",
                mib(free.unwrap_or(0)),
                mib(self.min_free)
            ));
        } else {
            (self.report)("the database's disk has room again: new bookings are taken");
        }
    }

    /// Whether less disk space is free than there must be for anything new.
    pub(crate) fn is_low(&self) -> bool {
        self.state().low
    }

    /// Whether writes are known to fail.
    pub fn is_failing(&self) -> bool {
        Outage::lasts(self.state().writes.as_ref()).is_some()
    }

    /// Why the node is not ready, if its storage is why.
    pub fn not_ready(&self) -> Option<Error> {
        let mut state = self.state();
        state.asked = true;
        if let Some(reason) = Outage::lasts(state.writes.as_ref()) {
            return reason.refusal();
        }
        if state.begun.is_some_and(|begun| begun.elapsed() > STUCK) {
            return Reason::Failing.refusal();
        }
        Outage::lasts(state.upkeep.as_ref()).map(|_| {
            not_ready(
                "checkpoints_failing",
                "The service takes writes, but its database file cannot be brought up to date with them.",
            )
        })
    }

    /// Whether it should be tried now if the database takes writes. To be asked twice a second.
    pub(crate) fn wants_probe(&self) -> bool {
        let mut state = self.state();
        let asked = std::mem::take(&mut state.asked);
        state.wants_probe(asked, Instant::now())
    }

    /// Tells of states that have ended. To be called twice a second.
    pub(crate) fn tell_ended(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let writes = Outage::ended(&mut state.writes, now);
        let upkeep = Outage::ended(&mut state.upkeep, now);
        drop(state);
        if let Some((outage, lasted)) = writes {
            (self.report)(&format!(
                "writes work again after {lasted} s, in which {} batches with {} requests were refused",
                outage.batches, outage.requests
            ));
        }
        if let Some((outage, lasted)) = upkeep {
            (self.report)(&format!(
                "the write-ahead log is brought into the database file again, after {} attempts that failed in {lasted} s",
                outage.times
            ));
        }
    }
}

impl State {
    fn wants_probe(&self, asked: bool, now: Instant) -> bool {
        let none_left = self.free.is_some_and(|free| free < DISK_RESERVE);
        match Outage::lasts(self.writes.as_ref()) {
            Some(Reason::Moved) => return false,
            // One small write that finds a gap proves nothing to those that do not.
            Some(Reason::Full) => return !none_left,
            Some(_) => return true,
            None => {}
        }
        let written_within = |time: Duration| {
            self.written
                .is_some_and(|at| now.saturating_duration_since(at) < time)
        };
        if Outage::lasts(self.upkeep.as_ref()).is_some() {
            return !none_left && !written_within(UPKEEP_AGAIN);
        }
        (asked || none_left) && self.begun.is_none() && !written_within(FRESH)
    }
}

#[cfg(test)]
mod tests;
