//! Decides how long to gather commands before a commit.
//!
//! If flushing takes time, callers that wait for each answer split into two halves that take turns: one half's commands
//! arrive while the other half's are flushed, so each flush carries only half of what it could. Waiting for the callers
//! that were just answered, while they keep coming back, puts all of them into one flush. Invariants: on a fast
//! disk there is no wait, and otherwise no wait is longer than the disk's last flush.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;

use crate::limits::BATCH;

/// The processor time that one command adds to a batch. The rest of a batch's time is the disk's.
const SHARE: Duration = Duration::from_micros(25);
/// The disk time from which waiting pays off.
const SLOW: Duration = Duration::from_micros(500);
/// How long to wait for the next command before giving up on more.
const STEP: Duration = Duration::from_micros(100);

/// What is known from the last batch.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The most commands that can arrive at a time, as far as was seen.
    expected: usize,
    /// The longest wait for them.
    patience: Duration,
}

impl Pace {
    /// Notes that a batch of `commands` took this long, and that `waiting` more arrived meanwhile.
    pub(super) fn note(&mut self, commands: usize, waiting: usize, took: Duration) {
        let processor = SHARE.saturating_mul(u32::try_from(commands).unwrap_or(u32::MAX));
        let disk = took.saturating_sub(processor);
        self.expected = (commands + waiting).min(BATCH);
        self.patience = if disk < SLOW { Duration::ZERO } else { disk };
    }

    /// Adds the commands that have arrived to a batch, and those that arrive while waiting pays off.
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

    /// The size of a batch after this note, with one command in it and `waiting` in the queue.
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
        // Ten seconds of patience, and no command arrives.
        let (_sender, mut jobs) = channel::<usize>(1);
        let mut pace = Pace::default();
        pace.note(60, 4, 10_000 * MS);
        let began = Instant::now();
        pace.gather(&mut jobs, &mut vec![0]);
        assert!(began.elapsed() < 5_000 * MS);
    }
}
