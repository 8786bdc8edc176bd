//! The recent health of an endpoint, and what follows: its pool, how much may be in flight and held for it, and how long an
//! attempt may take.
//!
//! Pure. An endpoint is new until its first attempt has ended. It is in trouble once it times out twice in a row, is slow on average, or
//! refuses ten times in a row; one that is new is with the first of these. A delivery it accepts in good time makes it good.

use std::time::Duration;

use bookguard_core::engine::outbox::{EndpointAllowance, EndpointStanding};
use bookguard_core::limits::{
    ATTEMPT_MS_LEAST, FULL_PATIENCE_EVERY, IN_FLIGHT_PER_ENDPOINT, IN_FLIGHT_PER_NEW_ENDPOINT,
    IN_FLIGHT_PER_TROUBLED_ENDPOINT, QUEUE_MS, QUEUED_PER_ENDPOINT, QUEUED_PER_SLOW_ENDPOINT,
    SLOW_MS, WARNING_FAILURES,
};

use super::Ended;

#[derive(Debug, Clone)]
pub(super) struct Record {
    terms: EndpointAllowance,
    /// How many of a good one may be in flight: one after a time-out, twice as many after each attempt that ends otherwise.
    share: usize,
    /// Milliseconds an attempt takes, the last ones counting most.
    takes_ms: u64,
    /// Milliseconds the last attempt took that was answered: less patience than twice that would be none.
    needs_ms: u64,
    /// Time-outs since the last attempt that ended otherwise.
    timeouts: u32,
    /// Quick refusals since the last delivery it accepted.
    refusals: u32,
}

impl Record {
    /// Of an endpoint nobody here knows.
    pub(super) fn unknown(failing: bool) -> Self {
        Record {
            terms: EndpointAllowance::of_unknown(failing),
            share: 1,
            takes_ms: 0,
            needs_ms: 0,
            timeouts: 0,
            refusals: 0,
        }
    }

    pub(super) fn terms(&self) -> EndpointAllowance {
        self.terms
    }

    /// How many may be in flight.
    pub(super) fn cap(&self) -> usize {
        match self.terms.standing {
            EndpointStanding::Good => self.share,
            EndpointStanding::New => IN_FLIGHT_PER_NEW_ENDPOINT,
            EndpointStanding::Troubled => IN_FLIGHT_PER_TROUBLED_ENDPOINT,
        }
    }

    /// How long the next attempt may take: half as long after each time-out, but neither less than what works needs, nor less than
    /// the endpoint was seen to need; and now and then as long as any.
    pub(super) fn patience(&self, full: Duration) -> Duration {
        if self.timeouts.is_multiple_of(FULL_PATIENCE_EVERY) {
            return full;
        }
        let halved = full / (1 << self.timeouts.min(16));
        let least = ATTEMPT_MS_LEAST.max(self.needs_ms.saturating_mul(2));
        halved.max(Duration::from_millis(least)).min(full)
    }

    /// Takes note of an attempt.
    pub(super) fn note(&mut self, ended: Ended, took_ms: u64, per_second: Option<u32>) {
        if matches!(ended, Ended::Unsent | Ended::Closed) {
            return;
        }
        let before = self.terms.standing;
        self.takes_ms = (self.takes_ms * 7 + took_ms) / 8;
        if ended == Ended::TimedOut {
            self.timeouts = self.timeouts.saturating_add(1);
        } else {
            self.timeouts = 0;
            self.needs_ms = took_ms;
        }
        let slow = ended == Ended::TimedOut || took_ms > SLOW_MS;
        self.share = match slow {
            true => 1,
            false => (self.share * 2).min(IN_FLIGHT_PER_ENDPOINT),
        };
        self.refusals = match ended {
            Ended::Accepted => 0,
            _ => self.refusals.saturating_add(1),
        };
        let good = if ended == Ended::Accepted && !slow {
            if before == EndpointStanding::Troubled {
                // What it took while it was in trouble says nothing about how it fares from now on.
                (self.takes_ms, self.share) = (took_ms, 2);
            }
            true
        } else {
            before == EndpointStanding::Good
                && self.timeouts < 2
                && self.takes_ms <= SLOW_MS
                && self.refusals < WARNING_FAILURES
        };
        self.terms = match good {
            true => EndpointAllowance {
                standing: EndpointStanding::Good,
                most: self.most(per_second),
            },
            false => EndpointAllowance::TROUBLED,
        };
    }

    /// How many of a good one may be held: what it takes in half a lease; a power of two, so that it changes seldom.
    fn most(&self, per_second: Option<u32>) -> usize {
        let in_time = (self.share as u64 * QUEUE_MS).checked_div(self.takes_ms);
        let limited = per_second.map_or(u64::MAX, |n| u64::from(n) * QUEUE_MS / 1000);
        let most = usize::try_from(in_time.unwrap_or(u64::MAX).min(limited))
            .unwrap_or(usize::MAX)
            .clamp(QUEUED_PER_SLOW_ENDPOINT, QUEUED_PER_ENDPOINT);
        1 << most.ilog2()
    }
}
