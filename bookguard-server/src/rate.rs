//! Rate limits: how often one caller may ask.
//!
//! Each caller has a token bucket, kept as the one instant at which it will be full again (the generic cell rate
//! algorithm, ITU-T I.371): a full bucket is the same as none, so only callers that were here lately are held.
//! Time comes from the caller. Invariant: never more than [`CALLERS`] buckets, whatever callers do.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use poem::http::HeaderValue;
use poem::http::header::HeaderMap;

/// Buckets held at a time: 65,536 of at most 40 bytes.
pub const CALLERS: usize = 1 << 16;

/// A limit for callers named by `K`.
pub struct Limiter<K> {
    name: &'static str,
    /// Tokens a full bucket holds.
    burst: i64,
    /// Microseconds for one token.
    interval_us: i64,
    policy: HeaderValue,
    /// When each caller's bucket is full again, microseconds since the epoch.
    full_at: Mutex<HashMap<K, i64>>,
}

/// What a limit says to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Requests that could follow at once.
    pub remaining: i64,
    /// Seconds until the bucket is full again.
    pub full_in_s: i64,
    /// Seconds until the next request is allowed, at least 1; for refusals.
    pub retry_after_s: u32,
    name: &'static str,
    policy: HeaderValue,
}

impl<K: Hash + Eq> Limiter<K> {
    /// `rate` requests per `seconds` in the long run, `burst` at once after a pause; `None` when `rate` is 0.
    pub fn new(name: &'static str, rate: u32, seconds: u32, burst: u32) -> Option<Self> {
        if rate == 0 {
            return None;
        }
        let interval_us = (i64::from(seconds) * 1_000_000 / i64::from(rate)).max(1);
        let burst = i64::from(burst.max(1));
        let window_s = div_up(burst * interval_us, 1_000_000);
        let policy = format!("\"{name}\";q={burst};w={window_s}");
        let policy =
            HeaderValue::try_from(policy).expect("a fixed name and two numbers are visible ASCII");
        Some(Self {
            name,
            burst,
            interval_us,
            policy,
            full_at: Mutex::default(),
        })
    }

    /// Takes one token of `caller`'s at `now_ms`, milliseconds since the epoch.
    pub fn take(&self, caller: K, now_ms: i64) -> Verdict {
        let now = now_ms.saturating_mul(1000);
        let capacity = self.burst * self.interval_us;
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS && !buckets.contains_key(&caller) {
            buckets.retain(|_, full_at| *full_at > now);
            // So many callers in so little time: forgiving them all is better than refusing strangers.
            if buckets.len() >= CALLERS {
                buckets.clear();
            }
        }
        let full_at = buckets.entry(caller).or_insert(now);
        // The upper bound matters only after the clock was set back.
        let before = (*full_at).clamp(now, now + capacity);
        let after = before + self.interval_us;
        let allowed = after - now <= capacity;
        *full_at = if allowed { after } else { before };
        let missing = *full_at - now;
        Verdict {
            allowed,
            remaining: (capacity - missing) / self.interval_us,
            full_in_s: div_up(missing, 1_000_000),
            retry_after_s: u32::try_from(div_up(after - now - capacity, 1_000_000))
                .unwrap_or(u32::MAX)
                .max(1),
            name: self.name,
            policy: self.policy.clone(),
        }
    }
}

impl Verdict {
    /// Writes the fields of draft-ietf-httpapi-ratelimit-headers.
    pub fn write(self, headers: &mut HeaderMap) {
        let limit = format!(
            "\"{}\";r={};t={}",
            self.name, self.remaining, self.full_in_s
        );
        if let Ok(limit) = HeaderValue::try_from(limit) {
            headers.insert("ratelimit", limit);
        }
        headers.insert("ratelimit-policy", self.policy);
    }
}

fn div_up(n: i64, by: i64) -> i64 {
    n.div_euclid(by) + i64::from(n.rem_euclid(by) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn limiter(rate: u32, burst: u32) -> Limiter<u32> {
        Limiter::new("key", rate, 1, burst).unwrap()
    }

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let limiter = limiter(10, 3);
        let remaining: Vec<_> = (0..3)
            .map(|_| limiter.take(1, NOW))
            .map(|v| (v.allowed, v.remaining))
            .collect();
        assert_eq!(remaining, [(true, 2), (true, 1), (true, 0)]);
        let refused = limiter.take(1, NOW);
        assert_eq!(
            (refused.allowed, refused.remaining, refused.retry_after_s),
            (false, 0, 1)
        );
        assert!(!limiter.take(1, NOW + 99).allowed, "a token takes 100 ms");
        assert!(limiter.take(1, NOW + 100).allowed);
        assert!(!limiter.take(1, NOW + 100).allowed);
        assert_eq!(
            limiter.take(1, NOW + 10_000).remaining,
            2,
            "full again after a pause, and not more than full"
        );
    }

    #[test]
    fn refusals_cost_nothing() {
        let limiter = limiter(1, 1);
        assert!(limiter.take(1, NOW).allowed);
        for _ in 0..50 {
            assert!(!limiter.take(1, NOW + 500).allowed);
        }
        assert!(limiter.take(1, NOW + 1000).allowed);
    }

    #[test]
    fn callers_do_not_share() {
        let limiter = limiter(1, 1);
        assert!(limiter.take(1, NOW).allowed && limiter.take(2, NOW).allowed);
        assert!(!limiter.take(1, NOW).allowed);
    }

    #[test]
    fn a_clock_set_back_locks_nobody_out() {
        let limiter = limiter(1, 2);
        limiter.take(1, NOW + 86_400_000);
        let refused = limiter.take(1, NOW);
        assert_eq!((refused.allowed, refused.retry_after_s), (false, 1));
        assert!(limiter.take(1, NOW + 1000).allowed);
    }

    #[test]
    fn the_number_of_callers_held_is_bounded() {
        let limiter = limiter(1, 1);
        for caller in 0..(CALLERS as u32 + 10) {
            assert!(limiter.take(caller, NOW).allowed);
            assert!(limiter.full_at.lock().unwrap().len() <= CALLERS);
        }
    }

    #[test]
    fn headers_say_quota_window_rest_and_reset() {
        let limiter = Limiter::new("registration", 20, 60, 20).unwrap();
        let mut headers = HeaderMap::new();
        limiter.take(1, NOW).write(&mut headers);
        assert_eq!(headers["ratelimit-policy"], "\"registration\";q=20;w=60");
        assert_eq!(headers["ratelimit"], "\"registration\";r=19;t=3");
        assert!(Limiter::<u32>::new("off", 0, 1, 5).is_none());
    }
}
