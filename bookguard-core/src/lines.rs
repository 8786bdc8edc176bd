//! The lines that this process logs, handed to whoever writes them.
//!
//! Every crate of ours logs through `tracing`; [`LineSubscriber`] receives it. Libraries of others are not heard, because they log
//! headers, addresses and messages, which may hold secrets. Invariant: a message says everything by itself; its fields
//! repeat what programs look for.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// The levels and their words, the most important first.
pub const LEVELS: [(&str, Level); 4] = [
    ("error", Level::ERROR),
    ("warn", Level::WARN),
    ("info", Level::INFO),
    ("debug", Level::DEBUG),
];

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The word of its level.
    pub level: &'static str,
    /// One or more sentences for the operator.
    pub message: String,
    /// What programs look for, by name.
    pub fields: Vec<(&'static str, Value)>,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            self.fields
                .push((field.name(), format!("{value:?}").into()));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), value.into()));
    }
}

/// The least important level that is logged; it can change at any time.
#[derive(Debug, Clone)]
pub struct Threshold(Arc<AtomicU8>);

impl Threshold {
    /// Starts at this level.
    pub fn new(level: Level) -> Self {
        Self(Arc::new(AtomicU8::new(rank(level))))
    }

    /// Changes it.
    pub fn set(&self, level: Level) {
        self.0.store(rank(level), Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    fn takes(&self, level: Level) -> bool {
        rank(level) <= self.0.load(Ordering::Relaxed)
    }
}

/// The index in [`LEVELS`]; any less important level gets the index after the last.
fn rank(level: Level) -> u8 {
    let place = LEVELS.iter().position(|(_, known)| *known == level);
    place.unwrap_or(LEVELS.len()) as u8
}

/// Hands each line of ours to `write`, on the thread that logs it.
pub struct LineSubscriber<W> {
    threshold: Threshold,
    write: W,
}

impl<W: Fn(Line) + Send + Sync + 'static> LineSubscriber<W> {
    /// Creates one for lines at least as important as `threshold`.
    pub fn new(threshold: Threshold, write: W) -> Self {
        Self { threshold, write }
    }
}

/// Hears only what this thread logs, until the result is dropped. It is for tests.
pub fn hear_here(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    // Where there is only one subscriber, `tracing` asks the thread that first reaches a place whether anybody hears what is
    // logged there, and keeps the answer for all threads.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&SECOND);
    tracing::subscriber::set_default(subscriber)
}

impl<W: Fn(Line) + Send + Sync + 'static> Subscriber for LineSubscriber<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with("bookguard")
            && self.threshold.takes(*metadata.level())
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line {
            level: LEVELS[usize::from(rank(*metadata.level())).min(LEVELS.len() - 1)].0,
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut line);
        (self.write)(line);
    }

    // Nothing of ours opens a span, and those of others are not enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
