//! Whether the database takes writes, judged by this node's own last attempts. Health checks answer from this, and the
//! operator reads its reports, also of reads that fail.
//!
//! The writer notes how each batch ended and how the engine's upkeep after it went; the service notes the free disk
//! space, reads that failed, and what the head says. If nobody has written lately, `ProbeStorage` tries: it is the
//! smallest command that writes, and takes the same path as every other. Invariants: nothing here does I/O. A state is
//! reported once when it begins, and once, with a count, when it has been over for a while; a cause for which reads fail,
//! once a minute; a move of the ledger, once. A write that has not failed is probed only if somebody asks for the node's
//! health, the disk is as good as full, or the database file is not in its place.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Kind};
use crate::limits::DISK_RESERVE;
use crate::store::StoreError;

/// How long a write counts as proof that writing works.
const FRESH: Duration = Duration::from_millis(500);
/// The wait after a write before upkeep that failed is tried again. Each try makes the write-ahead log longer.
const UPKEEP_AGAIN: Duration = Duration::from_secs(5);
/// How long a state must be over before its end is reported. On an almost full disk, small writes succeed between large
/// ones that fail.
const SETTLED: Duration = Duration::from_secs(1);
/// The same for reads. A database that has no connection left lets some in and refuses others.
const READS_SETTLED: Duration = Duration::from_secs(5);
/// A batch under way for longer will not end soon: the disk hangs, or another process holds the write turn.
const STUCK: Duration = Duration::from_secs(3);
/// How often a cause for which reads fail is reported.
const READS_AGAIN: Duration = Duration::from_secs(60);
/// The most such causes that are reported by themselves.
const CAUSES: usize = 100;

/// This node's knowledge of its storage.
pub struct Storage {
    /// The free disk space in bytes below which nothing new is accepted; 0 for no such limit.
    min_free: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The outage while batches are refused.
    writes: Option<Outage>,
    /// The outage while the engine's upkeep fails.
    upkeep: Option<Outage>,
    /// When the batch under way began.
    begun: Option<Instant>,
    /// When a batch was last made durable.
    written: Option<Instant>,
    /// Whether somebody asked for the node's health since the last probe.
    asked: bool,
    /// Bytes free on the database's disk.
    free: Option<u64>,
    /// Whether `free` is less than it must be.
    low: bool,
    /// Reads that failed lately, by cause.
    reads: HashMap<String, FailedReads>,
    /// The outage while the database cannot be reached, in which reads fail for whatever cause.
    unreached: Option<Outage>,
    /// Where the ledger was moved to, as last reported.
    moved_to: Option<String>,
}

/// Reads that failed for one cause.
struct FailedReads {
    /// When that was last reported.
    told: Instant,
    /// How many have failed since.
    more: u64,
}

/// Why writes fail, in the coarsest terms an operator can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Full,
    ReadOnly,
    Moved,
    Upgraded,
    Failing,
}

/// A state in which something fails.
struct Outage {
    reason: Reason,
    /// The reasons already reported.
    told: Vec<Reason>,
    since: Instant,
    /// The number of failures.
    times: u64,
    /// The number of refused batches that held more than a probe.
    batches: u64,
    /// The number of requests in those batches.
    requests: usize,
    /// When it began to work again.
    over: Option<Instant>,
}

impl Reason {
    fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Full => Self::Full,
            StoreError::ReadOnly => Self::ReadOnly,
            StoreError::Moved(_) => Self::Moved,
            StoreError::Newer { .. } => Self::Upgraded,
            _ => Self::Failing,
        }
    }

    /// The answer to a health check; `None` if the head itself says it.
    fn refusal(self) -> Option<Error> {
        match self {
            Self::Full => Some(Error::storage_full()),
            Self::ReadOnly => Some(Error::storage_read_only()),
            Self::Failing => Some(not_ready(
                "storage_failing",
                "The service's database does not take writes at present.",
            )),
            Self::Upgraded => Some(Error::schema_newer()),
            Self::Moved => None,
        }
    }
}

fn not_ready(code: &'static str, message: &str) -> Error {
    Error {
        retry_after_s: Some(1),
        ..Error::new(Kind::Unavailable, code, message)
    }
}

impl Outage {
    /// Notes one more failure of `what`. Returns the line to report if the reason is new.
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

    /// Takes the outage if it has been over for `settled`, with its duration in seconds.
    fn ended(outage: &mut Option<Self>, settled: Duration, now: Instant) -> Option<(Self, u64)> {
        let over = outage.as_ref()?.over?;
        if now.saturating_duration_since(over) < settled {
            return None;
        }
        let ended = outage.take()?;
        let lasted = over.saturating_duration_since(ended.since).as_secs();
        Some((ended, lasted))
    }
}

impl Storage {
    /// Starts without any knowledge and assumes no failure.
    pub fn new(min_free: u64) -> Self {
        Self {
            min_free,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a batch begins.
    pub(crate) fn begins(&self) {
        self.state().begun = Some(Instant::now());
    }

    /// Notes that a batch has ended, whatever its result.
    pub(crate) fn ends(&self) {
        self.state().begun = None;
    }

    /// Notes that a batch was made durable.
    pub(crate) fn wrote(&self) {
        let now = Instant::now();
        let mut state = self.state();
        state.written = Some(now);
        if let Some(outage) = &mut state.writes {
            outage.over.get_or_insert(now);
        }
    }

    /// Notes that a batch with `requests` requests was refused.
    pub(crate) fn refused(&self, error: &StoreError, requests: usize) {
        let mut state = self.state();
        let news = Outage::note(&mut state.writes, "writes fail", error, Instant::now());
        if let Some(outage) = state.writes.as_mut().filter(|_| requests > 0) {
            outage.batches += 1;
            outage.requests += requests;
        }
        if let StoreError::Moved(to) = error {
            // Told once, by whoever sees it first.
            return Self::tell_moved(state, Some(to));
        }
        drop(state);
        if let Some(news) = news {
            tracing::error!("{news} (more of the same are counted, not reported)");
        }
    }

    /// Notes the result of the engine's upkeep after a batch. On a file, upkeep copies the write-ahead log into the
    /// database.
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
            tracing::error!(
                "{news}. Writes are kept in the log, which grows until this is repaired: check the disk (more of the \
                 same are counted, not reported)"
            );
        }
    }

    /// Notes how many bytes are free on the database's disk.
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
            tracing::warn!(
                "{} MiB of the database's disk are free, less than the {} MiB of min_free_disk: nothing new is accepted; existing \
                 bookings are protected, rescheduled, canceled and delivered as before",
                mib(free.unwrap_or(0)),
                mib(self.min_free)
            );
        } else {
            tracing::info!("the database's disk has room again: new bookings are taken");
        }
    }

    /// The free disk space in bytes below which nothing new is accepted; 0 for no such limit.
    pub(crate) fn min_free(&self) -> u64 {
        self.min_free
    }

    /// Whether less disk space is free than anything new requires.
    pub(crate) fn is_low(&self) -> bool {
        self.state().low
    }

    /// Whether writes are known to fail.
    pub fn is_failing(&self) -> bool {
        Outage::lasts(self.state().writes.as_ref()).is_some()
    }

    /// Why the node is not ready, if its storage is the reason.
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

    /// Whether to probe now whether the database takes writes. Call this twice a second.
    pub(crate) fn wants_probe(&self) -> bool {
        let mut state = self.state();
        let asked = std::mem::take(&mut state.asked);
        state.wants_probe(asked, Instant::now())
    }

    /// Notes that a read failed, and reports it unless its cause was reported lately.
    pub(crate) fn read_failed(&self, error: &StoreError) {
        let news = self.state().note_read(error, Instant::now());
        if let Some(cause) = news {
            tracing::error!("a read failed: {cause}");
        }
    }

    /// Notes that the head was read, and reports it if the ledger was moved or reopened since. Call this about every second.
    pub(crate) fn head_read(&self, moved_to: Option<&str>) {
        let mut state = self.state();
        if let Some(outage) = &mut state.unreached {
            outage.over.get_or_insert_with(Instant::now);
        }
        Self::tell_moved(state, moved_to);
    }

    /// Reports where the ledger was moved to, or that it continues here again, unless that was reported.
    fn tell_moved(mut state: MutexGuard<'_, State>, moved_to: Option<&str>) {
        if state.moved_to.as_deref() == moved_to {
            return;
        }
        state.moved_to = moved_to.map(str::to_owned);
        drop(state);
        match moved_to {
            Some(to) => tracing::error!(
                "nothing can be written any more: {}",
                StoreError::Moved(to.to_owned())
            ),
            None => tracing::info!("the ledger continues in this database again"),
        }
    }

    /// Reports the states that have ended, and each minute how many reads failed. Call this twice a second.
    pub(crate) fn tell_ended(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let writes = Outage::ended(&mut state.writes, SETTLED, now);
        let upkeep = Outage::ended(&mut state.upkeep, SETTLED, now);
        let unreached = state.reached(now);
        let reads = state.failed_reads(now);
        drop(state);
        if let Some((outage, lasted)) = unreached {
            tracing::info!(
                "reads work again after {lasted} s, in which {} failed",
                outage.times
            );
        }
        for (cause, more, lasted) in reads {
            tracing::error!("a read failed again ({more} more in {lasted} s): {cause}");
        }
        if let Some((outage, lasted)) = writes {
            tracing::info!(
                "writes work again after {lasted} s, in which {} batches with {} requests were refused",
                outage.batches,
                outage.requests
            );
        }
        if let Some((outage, lasted)) = upkeep {
            tracing::info!(
                "the write-ahead log is brought into the database file again, after {} attempts that failed in {lasted} s",
                outage.times
            );
        }
    }
}

impl State {
    /// Notes that a read failed. Returns its cause if that is to be reported now.
    fn note_read(&mut self, error: &StoreError, now: Instant) -> Option<String> {
        let is_out = Outage::lasts(self.unreached.as_ref()).is_some();
        if is_out || matches!(error, StoreError::Unreachable(_)) {
            // Its causes are reported as those of the reads.
            let _ = Outage::note(&mut self.unreached, "reads fail", error, now);
        }
        let cause = error.to_string();
        let has_place = self.reads.len() < CAUSES || self.reads.contains_key(&cause);
        let known_as = if has_place {
            cause.as_str()
        } else {
            "other causes"
        };
        if let Some(known) = self.reads.get_mut(known_as) {
            known.more += 1;
            return None;
        }
        let begun = FailedReads { told: now, more: 0 };
        self.reads.insert(known_as.to_owned(), begun);
        Some(cause)
    }

    /// Takes the outage in which the database could not be reached, if it is over, with its duration in seconds. What failed in it is
    /// told with that, and is new when it fails again.
    fn reached(&mut self, now: Instant) -> Option<(Outage, u64)> {
        let ended = Outage::ended(&mut self.unreached, READS_SETTLED, now)?;
        self.reads.clear();
        Some(ended)
    }

    /// The causes to report again, each with the number of reads that failed since, and the seconds. Forgets those that are over.
    fn failed_reads(&mut self, now: Instant) -> Vec<(String, u64, u64)> {
        let mut again = Vec::new();
        self.reads.retain(|cause, failed| {
            let since = now.saturating_duration_since(failed.told);
            if since < READS_AGAIN {
                return true;
            }
            let more = std::mem::take(&mut failed.more);
            failed.told = now;
            if more > 0 {
                again.push((cause.clone(), more, since.as_secs()));
            }
            more > 0
        });
        again
    }

    fn wants_probe(&self, asked: bool, now: Instant) -> bool {
        let none_left = self.free.is_some_and(|free| free < DISK_RESERVE);
        match Outage::lasts(self.writes.as_ref()) {
            Some(Reason::Moved) => return false,
            // On a full disk, a small write that still fits proves nothing for larger ones.
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
