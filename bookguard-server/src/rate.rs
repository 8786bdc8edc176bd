//! Rate limits: how many requests one caller may make.
//!
//! Each caller has a token bucket, stored as the amount missing at one instant (the generic cell rate algorithm, ITU-T I.371).
//! A full bucket equals no bucket, so only recent callers are stored. A request takes one token up front and is charged
//! afterwards for processor time beyond what the token covers, so a bucket can go below empty; `governor` cannot charge
//! afterwards. The caller passes in the time. Invariant: there are never more than [`CALLERS`] buckets.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use poem::http::HeaderValue;
use poem::http::header::HeaderMap;

/// The most buckets held: 65,536 of at most 48 bytes.
pub const CALLERS: usize = 1 << 16;
/// Processor time covered by every request's token, whatever the rate: the time of an ordinary read or write.
const ORDINARY: Duration = Duration::from_micros(200);
/// Time charged for each unit of processor time used. In the long run a caller gets little more than half of one processor.
const PRICE: i64 = 2;
/// Microseconds by which a bucket can go below empty: however wrong a measurement is, no caller is shut out for longer.
const DEBT_US: i64 = 30_000_000;

/// A rate limit for callers identified by `K`. It may change while it is used.
pub struct Limiter<K> {
    name: &'static str,
    state: Mutex<State<K>>,
}

struct State<K> {
    /// `None` if everything is allowed.
    limit: Option<Limit>,
    buckets: HashMap<K, Bucket>,
}

#[derive(Clone, PartialEq, Eq)]
struct Limit {
    /// Tokens a full bucket holds.
    burst: i64,
    /// Microseconds for one token.
    interval_us: i64,
    policy: HeaderValue,
}

/// The state of a bucket at the instant `at`, in microseconds since the epoch: `missing` is the time in microseconds until it
/// is full.
#[derive(Clone, Copy)]
struct Bucket {
    missing: i64,
    at: i64,
}

impl Bucket {
    /// The time until it is full, at `now`. A clock that goes back does not fill it.
    fn missing_at(self, now: i64) -> i64 {
        (self.missing - (now - self.at).max(0)).max(0)
    }
}

/// The decision of a limit about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request is allowed.
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
    /// Allows everything until [`Self::set`].
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            state: Mutex::new(State {
                limit: None,
                buckets: HashMap::new(),
            }),
        }
    }

    /// Allows `rate` requests per `seconds` in the long run, and `burst` at once after a pause; everything if `rate` is 0. If
    /// that is a change, all buckets are full again.
    pub fn set(&self, rate: u32, seconds: u32, burst: u32) {
        let limit = (rate > 0).then(|| {
            let interval_us = (i64::from(seconds) * 1_000_000 / i64::from(rate)).max(1);
            let burst = i64::from(burst.max(1));
            let window_s = div_up(burst * interval_us, 1_000_000);
            let policy = format!("\"{}\";q={burst};w={window_s}", self.name);
            let policy = HeaderValue::try_from(policy);
            Limit {
                burst,
                interval_us,
                policy: policy.expect("a fixed name and two numbers are visible ASCII"),
            }
        });
        let mut state = self.state();
        if state.limit != limit {
            state.limit = limit;
            state.buckets = HashMap::new();
        }
    }

    /// Takes one token of `caller` at `now_ms`, in milliseconds since the epoch. Returns `None` if there is no limit.
    pub fn take(&self, caller: K, now_ms: i64) -> Option<Verdict> {
        let mut state = self.state();
        let State { limit, buckets } = &mut *state;
        let limit = limit.as_ref()?;
        let now = now_ms.saturating_mul(1000);
        let capacity = limit.burst * limit.interval_us;
        if buckets.len() >= CALLERS && !buckets.contains_key(&caller) {
            buckets.retain(|_, bucket| bucket.missing_at(now) > 0);
            // With so many active callers, it is better to forgive them all than to refuse new ones.
            if buckets.len() >= CALLERS {
                buckets.clear();
            }
        }
        let full = Bucket {
            missing: 0,
            at: now,
        };
        let bucket = buckets.entry(caller).or_insert(full);
        let before = bucket.missing_at(now);
        let after = before + limit.interval_us;
        let allowed = after <= capacity;
        let missing = if allowed { after } else { before };
        *bucket = Bucket { missing, at: now };
        Some(Verdict {
            allowed,
            remaining: ((capacity - missing) / limit.interval_us).max(0),
            full_in_s: div_up(missing, 1_000_000),
            retry_after_s: seconds_until(after - capacity),
            name: self.name,
            policy: limit.policy.clone(),
        })
    }

    /// Seconds until `caller` can take a token; `None` if it can now.
    pub fn retry_after_s(&self, caller: &K, now_ms: i64) -> Option<u32> {
        let state = self.state();
        let limit = state.limit.as_ref()?;
        let now = now_ms.saturating_mul(1000);
        let missing = state.buckets.get(caller).map_or(0, |b| b.missing_at(now));
        let lacks = missing + limit.interval_us - limit.burst * limit.interval_us;
        (lacks > 0).then(|| seconds_until(lacks))
    }

    /// Charges `caller` for the part of the processor time `spent` that the token it took does not cover.
    pub fn charge(&self, caller: K, spent: Duration, now_ms: i64) {
        let costly = spent.saturating_sub(ORDINARY).as_micros();
        let price = i64::try_from(costly)
            .unwrap_or(DEBT_US)
            .saturating_mul(PRICE);
        let mut state = self.state();
        let State {
            limit: Some(limit),
            buckets,
        } = &mut *state
        else {
            return;
        };
        let beyond = price - limit.interval_us;
        if beyond <= 0 {
            return;
        }
        // A caller whose bucket was dropped meanwhile starts with a full one.
        if let Some(bucket) = buckets.get_mut(&caller) {
            let now = now_ms.saturating_mul(1000);
            let most = limit.burst * limit.interval_us + DEBT_US;
            let missing = bucket.missing_at(now).saturating_add(beyond).min(most);
            *bucket = Bucket { missing, at: now };
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verdict {
    /// Writes the header fields of draft-ietf-httpapi-ratelimit-headers.
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

/// Converts microseconds to whole seconds, rounded up and at least 1.
fn seconds_until(us: i64) -> u32 {
    let seconds = u32::try_from(div_up(us, 1_000_000));
    seconds.unwrap_or(u32::MAX).max(1)
}

fn div_up(n: i64, by: i64) -> i64 {
    n.div_euclid(by) + i64::from(n.rem_euclid(by) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn limiter(rate: u32, burst: u32) -> Limiter<u32> {
        let limiter = Limiter::new("key");
        limiter.set(rate, 1, burst);
        limiter
    }

    impl Limiter<u32> {
        fn taken(&self, caller: u32, now_ms: i64) -> Verdict {
            self.take(caller, now_ms).unwrap()
        }
    }

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let limiter = limiter(10, 3);
        let remaining: Vec<_> = (0..3)
            .map(|_| limiter.taken(1, NOW))
            .map(|v| (v.allowed, v.remaining))
            .collect();
        assert_eq!(remaining, [(true, 2), (true, 1), (true, 0)]);
        let refused = limiter.taken(1, NOW);
        assert_eq!(
            (refused.allowed, refused.remaining, refused.retry_after_s),
            (false, 0, 1)
        );
        assert!(!limiter.taken(1, NOW + 99).allowed, "a token takes 100 ms");
        assert!(limiter.taken(1, NOW + 100).allowed);
        assert!(!limiter.taken(1, NOW + 100).allowed);
        assert_eq!(
            limiter.taken(1, NOW + 10_000).remaining,
            2,
            "full again after a pause, and not more than full"
        );
    }

    #[test]
    fn refusals_cost_nothing() {
        let limiter = limiter(1, 1);
        assert!(limiter.taken(1, NOW).allowed);
        for _ in 0..50 {
            assert!(!limiter.taken(1, NOW + 500).allowed);
        }
        assert!(limiter.taken(1, NOW + 1000).allowed);
    }

    #[test]
    fn callers_do_not_share() {
        let limiter = limiter(1, 1);
        assert!(limiter.taken(1, NOW).allowed && limiter.taken(2, NOW).allowed);
        assert!(!limiter.taken(1, NOW).allowed);
    }

    #[test]
    fn a_request_costs_the_time_it_took_or_its_token_whichever_is_more() {
        // One token every 10 ms and at most 100 of them. Each row is the time a request took and what is left after it.
        for (spent_us, remaining, retry_after_s) in [
            (0, 99, 1),
            (200, 99, 1),
            (5_200, 99, 1),
            (5_201, 98, 1),
            (10_200, 98, 1),
            (50_200, 90, 1),
            (500_200, 0, 1),
            (1_500_200, 0, 3),
            // The debt is bounded, however long the request took.
            (3_600_000_000, 0, 31),
        ] {
            let limiter = limiter(100, 100);
            limiter.taken(1, NOW);
            limiter.charge(1, Duration::from_micros(spent_us), NOW);
            let next = limiter.taken(1, NOW);
            assert_eq!(next.allowed, remaining > 0, "{spent_us}");
            let left = next.remaining + i64::from(next.allowed);
            assert_eq!(
                (left, next.retry_after_s),
                (remaining, retry_after_s),
                "{spent_us}"
            );
            let told = limiter.retry_after_s(&1, NOW);
            assert_eq!(
                told,
                (!limiter.taken(1, NOW).allowed).then_some(retry_after_s)
            );
            assert!(limiter.taken(2, NOW).allowed, "others have their own");
        }
    }

    #[test]
    fn nobody_uses_much_more_than_half_a_processor_in_the_long_run() {
        let limiter = limiter(1000, 2000);
        for (took_ms, most_ms) in [(1, 64_000), (8, 53_000), (40, 53_000)] {
            let mut spent_ms = 0;
            for now in NOW..NOW + 100_000 {
                while limiter.taken(took_ms, now).allowed {
                    spent_ms += took_ms;
                    limiter.charge(took_ms, Duration::from_millis(took_ms.into()), now);
                }
            }
            // The full bucket at the start adds two seconds' worth.
            assert!(
                (40_000..=most_ms).contains(&spent_ms),
                "{took_ms}: {spent_ms}"
            );
        }
    }

    #[test]
    fn a_clock_set_back_locks_nobody_out() {
        let limiter = limiter(1, 2);
        limiter.taken(1, NOW + 86_400_000);
        assert!(limiter.taken(1, NOW).allowed);
        let refused = limiter.taken(1, NOW);
        assert_eq!((refused.allowed, refused.retry_after_s), (false, 1));
        assert!(limiter.taken(1, NOW + 1000).allowed);
    }

    #[test]
    fn the_number_of_callers_held_is_bounded() {
        let limiter = limiter(1, 1);
        for caller in 0..(CALLERS as u32 + 10) {
            assert!(limiter.taken(caller, NOW).allowed);
            assert!(limiter.state().buckets.len() <= CALLERS);
        }
    }

    #[test]
    fn headers_say_quota_window_rest_and_reset() {
        let limiter = Limiter::new("registration");
        limiter.set(20, 60, 20);
        let mut headers = HeaderMap::new();
        limiter.taken(1, NOW).write(&mut headers);
        assert_eq!(headers["ratelimit-policy"], "\"registration\";q=20;w=60");
        assert_eq!(headers["ratelimit"], "\"registration\";r=19;t=3");
    }

    #[test]
    fn a_changed_limit_begins_anew_and_the_same_one_goes_on() {
        let limiter = Limiter::new("key");
        assert_eq!(limiter.take(1, NOW), None);
        for (rate, allowed) in [(1, true), (1, false), (2, true), (2, false), (1, true)] {
            limiter.set(rate, 1, 1);
            assert_eq!(limiter.taken(1, NOW).allowed, allowed, "{rate}");
        }
        limiter.set(0, 1, 5);
        assert_eq!(limiter.take(1, NOW), None);
        assert_eq!(limiter.retry_after_s(&1, NOW), None);
    }
}
