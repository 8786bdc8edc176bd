//! How long commands are gathered before a commit.
//!
//! On a disk that takes its time to flush, callers that wait for each answer split in two halves that take turns: one
//! half's commands arrive while the other's are flushed, so that a flush carries half of what it could. Waiting for
//! those that were just answered, while they keep coming back, puts all into one flush. Invariants: where flushing is
//! fast nothing is waited for; otherwise never longer than the disk took last time.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;

use crate::limits::BATCH;

/// What a command's share of a batch takes the processor; what a batch took beyond is the disk's time.
const SHARE: Duration = Duration::from_micros(25);
/// Disk time from which waiting pays.
const SLOW: Duration = Duration::from_micros(500);
/// How long to wait for the next to come back before the others are kept waiting no longer.
const STEP: Duration = Duration::from_micros(100);

/// What is known from the last batch.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// How many commands there can be at a time, as far as was seen.
    expected: usize,
    /// How long to wait for them at most.
    patience: Duration,
}

impl Pace {
    /// A batch of `commands` took so long, and `waiting` more have come meanwhile.
    pub(super) fn note(&mut self, commands: usize, waiting: usize, took: Duration) {
        let processor = SHARE.saturating_mul(u32::try_from(commands).unwrap_or(u32::MAX));
        let disk = took.saturating_sub(processor);
        self.expected = (commands + waiting).min(BATCH);
        self.patience = if disk < SLOW { Duration::ZERO } else { disk };
    }

    /// Adds to a batch what has come, and what comes while it is worth waiting for.
    pub(super) fn gather<T>(&self, jobs: &mut Receiver<T>, batch: &mut Vec<T>) {
        if self.patience.is_zero() {
            return;
        }
        let until = Instant::now() + self.patience;
        while batch.len() < self.expected && Instant::now() < until {
            std::thread::sleep(STEP);
            let before = batch.len();
            while batch.len() < BATCH
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
            if batch.len() == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// What is in the batch, one command there and `waiting` in the queue, after this was noted.
    fn gathered(commands: usize, waiting: usize, took: Duration) -> usize {
        let (sender, mut jobs) = channel(1_000);
        for n in 1..=waiting {
            sender.try_send(n).unwrap();
        }
        let mut pace = Pace::default();
        pace.note(commands, waiting, took);
        let mut batch = vec![0];
        pace.gather(&mut jobs, &mut batch);
        batch.len()
    }

    #[test]
    fn only_a_slow_disk_is_waited_for() {
        for (commands, waiting, took, expected) in [
            (32, 32, 5 * MS, 33),
            (32, 32, MS, 1),
            (256, 32, 6 * MS, 1),
            (1, 0, 5 * MS, 1),
            (1, 1, 5 * MS, 2),
        ] {
            assert_eq!(
                gathered(commands, waiting, took),
                expected,
                "{commands} {waiting} {took:?}"
            );
        }
    }

    #[test]
    fn a_batch_stays_within_its_limit() {
        assert_eq!(gathered(BATCH, 900, 1_000 * MS), BATCH);
    }

    #[test]
    fn those_that_do_not_come_back_are_not_waited_for() {
        // Ten seconds of patience, and nobody comes.
        let (_sender, mut jobs) = channel::<usize>(1);
        let mut pace = Pace::default();
        pace.note(60, 4, 10_000 * MS);
        let began = Instant::now();
        pace.gather(&mut jobs, &mut vec![0]);
        assert!(began.elapsed() < 5_000 * MS);
    }
}
