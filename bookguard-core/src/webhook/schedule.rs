//! When a failed delivery is tried again.
//!
//! Decides from what happened; the caller brings the clock, the random number and the count. Invariant: the number of
//! automatic attempts charged to an endpoint never exceeds the number of delays in the schedule.

use std::time::UNIX_EPOCH;

use super::attempt::{Attempt, FailureClass};
use crate::limits::RETRY_AFTER_MS;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The wait after an attempt that failed on the sending side, in milliseconds.
pub const OUR_FAULT_DELAY_MS: u64 = 30 * SECOND;

/// The delays before the first, second, … automatic attempt, in milliseconds; each is spread by ±20 %.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    delays_ms: Vec<u64>,
}

/// 0, 5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h: a receiver may be down for three days and miss nothing.
impl Default for Schedule {
    fn default() -> Self {
        let hours = [2, 5, 10, 14, 20, 24].map(|hours| hours * HOUR);
        Schedule {
            delays_ms: [&[0, 5 * SECOND, 5 * MINUTE, 30 * MINUTE][..], &hours].concat(),
        }
    }
}

impl Schedule {
    /// The number of automatic attempts, including the first.
    pub fn attempts(&self) -> usize {
        self.delays_ms.len()
    }

    /// The wait after `last` until the next automatic attempt, in milliseconds; `None` if there is none.
    ///
    /// `attempts_made` counts the attempts charged so far, `last` included unless it is [uncharged](Attempt::uncharged);
    /// `random` is any uniformly distributed number. A wait that the receiver asked for is respected in full, but never
    /// shortens the schedule's own. An attempt that was not charged because the endpoint is suspended is due at once, for the
    /// endpoint's next probe. A delivered event, a 410 and a 413 have no next attempt.
    pub fn next_delay(&self, attempts_made: usize, last: &Attempt, random: u64) -> Option<u64> {
        match last.class? {
            FailureClass::Gone | FailureClass::PayloadTooLarge => None,
            FailureClass::OurFault if last.uncharged => Some(spread(OUR_FAULT_DELAY_MS, random)),
            _ => {
                let step = *self.delays_ms.get(attempts_made)?;
                let delay = if last.uncharged {
                    0
                } else {
                    spread(step, random)
                };
                let asked = if matches!(last.status_code, Some(429 | 503)) {
                    last.retry_after_ms
                } else {
                    None
                };
                Some(delay.max(asked.unwrap_or(0).min(RETRY_AFTER_MS)))
            }
        }
    }
}

/// The wait that a `Retry-After` value asks for, in milliseconds, at most [`RETRY_AFTER_MS`]; `None` if it is neither
/// seconds nor an HTTP date. `now_ms` is milliseconds since the epoch; a date in the past asks for no wait.
///
/// Source: RFC 9110, sections 10.2.3 and 5.6.7 (all three forms of a date).
pub fn retry_after_ms(value: &str, now_ms: i64) -> Option<u64> {
    let value = value.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits to parse mean a very long wait, not a malformed one.
        let seconds: u64 = value.parse().unwrap_or(u64::MAX);
        return Some(seconds.saturating_mul(SECOND).min(RETRY_AFTER_MS));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let until = until.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let wait = i128::try_from(until).ok()? - i128::from(now_ms);
    Some(u64::try_from(wait.max(0)).ok()?.min(RETRY_AFTER_MS))
}

/// `delay_ms` moved by up to a fifth in either direction, uniformly over `random`.
fn spread(delay_ms: u64, random: u64) -> u64 {
    let fifth = delay_ms / 5;
    // The high half of the product maps all of u64 onto 0..=2*fifth without the bias of a remainder.
    let offset = (u128::from(random) * (u128::from(2 * fifth) + 1)) >> 64;
    delay_ms - fifth
        + u64::try_from(offset).expect("an offset is at most two fifths of a u64 delay")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::attempt::Phase;
    use super::*;

    /// The middle of the range: exactly the schedule's delay.
    const EVEN: u64 = u64::MAX / 2;
    /// 1994-11-06T08:49:37Z, the date in every RFC example.
    const RFC_MS: i64 = 784_111_777_000;

    fn failed(
        class: FailureClass,
        status_code: Option<u16>,
        retry_after_ms: Option<u64>,
    ) -> Attempt {
        Attempt {
            duration_ms: 1,
            phase: Phase::Body,
            class: Some(class),
            status_code,
            retry_after_ms,
            ..Attempt::begun(0)
        }
    }

    #[test]
    fn ten_attempts_over_three_days_and_then_no_more() {
        let schedule = Schedule::default();
        let timeout = failed(FailureClass::Timeout, None, None);
        let after = |made| schedule.next_delay(made, &timeout, EVEN);
        let seconds = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
        for (made, seconds) in (1..).zip(seconds) {
            assert_eq!(after(made), Some(seconds * 1000), "after {made}");
        }
        assert_eq!(after(10), None);
        assert_eq!(after(usize::MAX), None);
        assert_eq!(schedule.attempts(), 10);
    }

    #[test]
    fn what_happened_decides_whether_there_is_another_attempt() {
        let schedule = Schedule::default();
        let mut delivered = failed(FailureClass::Timeout, Some(200), None);
        delivered.class = None;
        assert_eq!(schedule.next_delay(1, &delivered, EVEN), None);
        for (word, class) in FailureClass::WORDS {
            let next = schedule.next_delay(1, &failed(*class, None, None), EVEN);
            let expected = match class {
                FailureClass::Gone | FailureClass::PayloadTooLarge => None,
                // Charged, like the failure of an event that is too old for further free attempts.
                _ => Some(5000),
            };
            assert_eq!(next, expected, "{word}");
        }
    }

    #[test]
    fn uncounted_attempts_neither_use_up_nor_return_attempts() {
        let schedule = Schedule::default();
        let uncharged = |class, status, asked| Attempt {
            uncharged: true,
            ..failed(class, status, asked)
        };
        let ours = uncharged(FailureClass::OurFault, None, None);
        let suspended = uncharged(FailureClass::Timeout, None, None);
        let asked = uncharged(FailureClass::Throttled, Some(429), Some(HOUR));
        for (attempt, made, next) in [
            (&ours, 0, Some(OUR_FAULT_DELAY_MS)),
            (&ours, 10, Some(OUR_FAULT_DELAY_MS)),
            (&suspended, 0, Some(0)),
            (&suspended, 9, Some(0)),
            (&suspended, 10, None),
            (&asked, 9, Some(HOUR)),
            (&asked, 10, None),
        ] {
            assert_eq!(
                schedule.next_delay(made, attempt, EVEN),
                next,
                "{made} {attempt:?}"
            );
        }
    }

    #[test]
    fn a_wait_asked_for_by_429_or_503_is_kept_in_full_up_to_a_day() {
        let schedule = Schedule::default();
        let next = |class, status, asked, made| {
            schedule.next_delay(made, &failed(class, Some(status), asked), EVEN)
        };
        let hour = Some(HOUR);
        assert_eq!(next(FailureClass::Throttled, 429, hour, 1), hour);
        assert_eq!(next(FailureClass::Http5xx, 503, hour, 1), hour);
        assert_eq!(next(FailureClass::Http5xx, 500, hour, 1), Some(5000));
        assert_eq!(
            next(FailureClass::Throttled, 429, Some(1), 2),
            Some(300_000),
            "never sooner than planned"
        );
        assert_eq!(
            next(FailureClass::Throttled, 429, Some(u64::MAX), 1),
            Some(RETRY_AFTER_MS)
        );
        assert_eq!(
            next(FailureClass::Throttled, 429, hour, 10),
            None,
            "it buys no extra attempt"
        );
    }

    #[test]
    fn retry_after_is_seconds_or_any_http_date() {
        for (value, expected) in [
            ("0", Some(0)),
            ("120", Some(120_000)),
            (" 120\t", Some(120_000)),
            ("86401", Some(RETRY_AFTER_MS)),
            ("999999999999999999999999", Some(RETRY_AFTER_MS)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10_000)),
            ("Sun Nov  6 08:49:47 1994", Some(10_000)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Mon, 06 Nov 1995 08:49:37 GMT", Some(RETRY_AFTER_MS)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("soon", None),
            ("Sun, 06 Nov 1994 08:49:47 CET", None),
            ("Mon, 06 Nov 1994 08:49:47 GMT", None),
            ("Sun, 31 Feb 1994 08:49:47 GMT", None),
            ("Fri, 01 Jan 99999 00:00:00 GMT", None),
        ] {
            assert_eq!(retry_after_ms(value, RFC_MS), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn jitter_stays_within_a_fifth_and_reaches_both_ends(delay in 0..=168 * HOUR, random: u64) {
            let fifth = delay / 5;
            let spread_by = spread(delay, random);
            prop_assert!((delay - fifth..=delay + fifth).contains(&spread_by));
            prop_assert_eq!(spread(delay, 0), delay - fifth);
            prop_assert_eq!(spread(delay, u64::MAX), delay + fifth);
        }

        #[test]
        fn no_retry_after_panics_or_waits_longer_than_a_day(value in ".*", now: i64) {
            prop_assert!(retry_after_ms(&value, now).unwrap_or(0) <= RETRY_AFTER_MS);
        }
    }
}
