//! This machine's clock beside the database server's, and beside the time that really passed.
//!
//! Leases and due times carry the clock of the node that wrote them. Two nodes that differ by `LEASE_SKEW_MS` at most
//! never send the same delivery at the same time; beyond that a receiver may get one twice, and records get a wrong
//! time, which only the operator can mend. Invariant: told once when it begins and once when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bookguard_core::limits::LEASE_SKEW_MS;
use bookguard_core::model::Timestamp;
use bookguard_core::service::Service;

/// Two nodes that are no further from the server are no further from each other than their leases allow.
const TOLERATED_MS: i64 = LEASE_SKEW_MS / 2;

/// What was said of the clock.
pub(crate) struct Skew {
    told: AtomicBool,
    report: fn(&str),
}

impl Skew {
    pub(crate) fn new(report: fn(&str)) -> Self {
        Self {
            told: AtomicBool::new(false),
            report,
        }
    }

    /// Compares the clocks; blocks. A store that does not answer has reported itself.
    pub(crate) fn look(&self, service: &Service) {
        if let Ok(Some(ahead_ms)) = service.clock_ahead_ms()
            && let Some(news) = self.news(ahead_ms)
        {
            (self.report)(&news);
        }
    }

    /// What is to be told, if it was not told before.
    fn news(&self, ahead_ms: i64) -> Option<String> {
        let wrong = ahead_ms.abs() > TOLERATED_MS;
        if self.told.swap(wrong, Ordering::Relaxed) == wrong {
            return None;
        }
        if !wrong {
            return Some("the clock agrees with the database server's again".to_owned());
        }
        let side = if ahead_ms > 0 { "ahead of" } else { "behind" };
        Some(format!(
            "the clock of this machine is {} s {side} the database server's; set both by NTP: meanwhile webhooks may be \
             delivered twice and records get a wrong time",
            ahead_ms.abs() / 1_000
        ))
    }
}

/// A clock that moves by this much more or less than the time that passed was set; NTP corrects less by being slow.
const STEP_MS: i64 = 2_000;

/// Notices when the clock is set. Invariant: every step is told once.
#[derive(Default)]
pub(crate) struct Steps(Option<(Instant, Timestamp)>);

impl Steps {
    /// What is to be told of the clock, which says `wall` at `now`; to be asked every second or so.
    pub(crate) fn look(&mut self, now: Instant, wall: Timestamp) -> Option<String> {
        let (then, said) = self.0.replace((now, wall))?;
        let passed = i64::try_from(now.saturating_duration_since(then).as_millis());
        let step = wall.ms() - said.ms() - passed.unwrap_or(i64::MAX);
        if step.abs() < STEP_MS {
            return None;
        }
        let way = if step > 0 { "forward" } else { "back" };
        Some(format!(
            "the clock of this machine was set {way} by {}.{:03} s, or the machine slept: deadlines and records follow it from now \
             on, and entries of the ledger keep their order. Set it by NTP; `bookguard ledger verify` warns of what no longer fits \
             together in time",
            step.abs() / 1_000,
            step.abs() % 1_000
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_is_set_is_told_of_once_by_how_much() {
        let (mut steps, begun) = (Steps::default(), Instant::now());
        for (passed_ms, wall_ms, says) in [
            (0, 5_000_000, None),
            (1_000, 5_001_000, None),
            // A look that came late, and a clock that is slewed.
            (61_000, 5_061_900, None),
            (62_000, 5_066_900, Some("forward by 4.000 s")),
            (63_000, 5_067_900, None),
            (64_000, 1_068_900, Some("back by 4000.000 s")),
            (65_000, 1_069_900, None),
        ] {
            let now = begun + Duration::from_millis(passed_ms);
            let news = steps.look(now, Timestamp::from_ms(wall_ms));
            match (says, &news) {
                (None, None) => {}
                (Some(says), Some(news)) if news.contains(says) => {}
                _ => panic!("{passed_ms}: {news:?}"),
            }
        }
    }

    #[test]
    fn a_wrong_clock_is_told_of_once_and_so_is_its_end() {
        let skew = Skew::new(|_| {});
        for (ahead_ms, says) in [
            (0, None),
            (TOLERATED_MS, None),
            (TOLERATED_MS + 1, Some("5 s ahead of the database server's")),
            (90_000, None),
            (
                -TOLERATED_MS,
                Some("agrees with the database server's again"),
            ),
            (-90_000, Some("90 s behind the database server's")),
            (90_000, None),
            (1, Some("agrees")),
        ] {
            let news = skew.news(ahead_ms);
            match (says, &news) {
                (None, None) => {}
                (Some(says), Some(news)) if news.contains(says) => {}
                _ => panic!("{ahead_ms}: {news:?}"),
            }
        }
    }
}
