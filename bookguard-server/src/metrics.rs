//! What requests, the writer and the courier measure while they work, always on: an update is an atomic or a lock held for nanoseconds.
//!
//! `scrape` serves it. Invariant: no label holds anything that a partner can choose.

mod http;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bookguard_core::engine::writer::{BatchObserver, BatchReport};
use bookguard_core::model::Timestamp;
use bookguard_core::webhook::FailureClass;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

pub(crate) use http::HttpMetrics;

/// Seconds of a commit: from a fast disk to a write turn that does not come.
const COMMIT_S: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// Commands of a batch, up to `limits::BATCH`.
const BATCH: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// Seconds from due to sent: from at once to an outage of an hour.
const LAG_S: [f64; 14] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0,
];
/// The results of a question to a time-stamp authority.
const STAMPED: &str = "stamped";
const FAILED: &str = "failed";
/// No delivery is due.
const NONE: i64 = i64::MAX;

/// All that is measured.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) http: Arc<HttpMetrics>,
    pub(crate) writer: Arc<WriterMetrics>,
    pub(crate) delivery: Arc<DeliveryMetrics>,
    pub(crate) stamps: Arc<StampMetrics>,
}

/// What the task that has the log stamped reports.
#[derive(Debug)]
pub(crate) struct StampMetrics {
    questions: Family<ResultLabel, Counter>,
}

/// The only label of what is counted by its result.
type ResultLabel = [(&'static str, &'static str); 1];

fn result(word: &'static str) -> ResultLabel {
    [("result", word)]
}

/// The label of an attempt that failed so, if it did.
fn attempt(failure: Option<FailureClass>) -> ResultLabel {
    result(failure.map_or("delivered", FailureClass::word))
}

/// What the writer reports of its batches.
#[derive(Debug)]
pub(crate) struct WriterMetrics {
    commit: Histogram,
    batch: Histogram,
}

/// What the courier reports of its deliveries.
#[derive(Debug)]
pub struct DeliveryMetrics {
    attempts: Family<ResultLabel, Counter>,
    lag: Histogram,
    /// The milliseconds of the instant since when the oldest delivery is due, or [`NONE`].
    oldest_due: AtomicI64,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.http.register(registry);
        self.writer.register(registry);
        self.delivery.register(registry);
        self.stamps.register(registry);
    }
}

impl Default for StampMetrics {
    fn default() -> Self {
        let metrics = Self {
            questions: Family::default(),
        };
        // Shown from the start, so that the first ones count as an increase.
        for word in [STAMPED, FAILED] {
            drop(metrics.questions.get_or_create(&result(word)));
        }
        metrics
    }
}

impl StampMetrics {
    /// Notes whether an authority that was asked sent a valid time-stamp.
    pub(crate) fn asked(&self, stamped: bool) {
        let word = if stamped { STAMPED } else { FAILED };
        self.questions.get_or_create(&result(word)).inc();
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "bookguard_timestamp_requests",
            "This node: questions to time-stamp authorities, by result",
            self.questions.clone(),
        );
    }
}

impl Default for WriterMetrics {
    fn default() -> Self {
        Self {
            commit: Histogram::new(COMMIT_S),
            batch: Histogram::new(BATCH),
        }
    }
}

impl WriterMetrics {
    /// The callback for the writer, which calls it after each batch.
    pub(crate) fn observer(self: &Arc<Self>) -> BatchObserver {
        let metrics = Arc::clone(self);
        Arc::new(move |report: BatchReport| {
            let commands = u32::try_from(report.commands).unwrap_or(u32::MAX);
            metrics.batch.observe(f64::from(commands));
            if let Some(took) = report.commit {
                metrics.commit.observe(took.as_secs_f64());
            }
        })
    }

    fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "bookguard_writer_commit",
            "This node: time from asking for the write turn until a batch was durable or had failed",
            Unit::Seconds,
            self.commit.clone(),
        );
        registry.register(
            "bookguard_writer_batch_size",
            "This node: commands of a batch, refused ones included",
            self.batch.clone(),
        );
    }
}

impl Default for DeliveryMetrics {
    fn default() -> Self {
        let attempts = Family::default();
        // Shown from the start, so that the first ones count as an increase.
        for failure in [
            None,
            Some(FailureClass::Timeout),
            Some(FailureClass::Http5xx),
            Some(FailureClass::OurFault),
        ] {
            drop(attempts.get_or_create(&attempt(failure)));
        }
        Self {
            attempts,
            lag: Histogram::new(LAG_S),
            oldest_due: AtomicI64::new(NONE),
        }
    }
}

impl DeliveryMetrics {
    /// Notes that the first attempt of a delivery begins, which was due at `due`.
    pub(crate) fn began(&self, due: Timestamp, now: Timestamp) {
        let late = Duration::from_millis(now.ms().saturating_sub(due.ms()).try_into().unwrap_or(0));
        self.lag.observe(late.as_secs_f64());
    }

    /// Notes how an attempt ended.
    pub(crate) fn attempted(&self, failure: Option<FailureClass>) {
        self.attempts.get_or_create(&attempt(failure)).inc();
    }

    /// Notes since when the oldest delivery is due that a claim found.
    pub(crate) fn set_oldest_due(&self, since: Option<Timestamp>) {
        let since = since.map_or(NONE, Timestamp::ms);
        self.oldest_due.store(since, Ordering::Relaxed);
    }

    /// How long the oldest delivery has been due. It goes on growing while the store does not answer.
    pub(crate) fn oldest_due_age(&self, now: Timestamp) -> Duration {
        let late = now
            .ms()
            .saturating_sub(self.oldest_due.load(Ordering::Relaxed));
        Duration::from_millis(late.try_into().unwrap_or(0))
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "bookguard_delivery_attempts",
            "This node: attempts to deliver a webhook, by result",
            self.attempts.clone(),
        );
        registry.register_with_unit(
            "bookguard_delivery_lag",
            "This node: time from when a delivery was due until its first attempt, at endpoints whose last attempt did not fail",
            Unit::Seconds,
            self.lag.clone(),
        );
    }
}
