//! The recent health of an endpoint, and what follows from it: its pool, how much may be in flight and held for it, and how
//! long an attempt may take.
//!
//! This module is pure. An endpoint is new until its first attempt has ended. It becomes troubled when it times out twice in a
//! row, is slow on average, or refuses ten times in a row; a new endpoint becomes troubled at the first time-out, slow attempt
//! or refusal. A delivery that it accepts in good time makes it good. At a new address, an endpoint is new.

use std::time::Duration;

use bookguard_core::engine::outbox::{EndpointAllowance, EndpointStanding};
use bookguard_core::limits::{
    ATTEMPT_MS_LEAST, FULL_PATIENCE_EVERY, IN_FLIGHT_PER_ENDPOINT, IN_FLIGHT_PER_NEW_ENDPOINT,
    IN_FLIGHT_PER_TROUBLED_ENDPOINT, QUEUE_MS, QUEUED_PER_ENDPOINT, QUEUED_PER_SLOW_ENDPOINT,
    SLOW_MS, WARNING_FAILURES,
};
use bookguard_core::model::Timestamp;

use super::Ended;

#[derive(Debug, Clone)]
pub(super) struct Record {
    terms: EndpointAllowance,
    /// How many deliveries to a good endpoint may be in flight: one after a time-out or slow attempt, doubled after each other
    /// attempt.
    share: usize,
    /// The average duration of an attempt in milliseconds, weighted towards the latest.
    takes_ms: u64,
    /// The duration of the last attempt that was answered, in milliseconds. Patience never falls below twice this.
    needs_ms: u64,
    /// Consecutive time-outs.
    timeouts: u32,
    /// Failures since the last accepted delivery.
    refusals: u32,
    /// When the endpoint got the address at which all that was, if not from the start.
    moved_at: Option<Timestamp>,
}

impl Record {
    /// The record of an endpoint that this node does not know.
    pub(super) fn unknown(failing: bool) -> Self {
        Record {
            terms: EndpointAllowance::of_unknown(failing),
            share: 1,
            takes_ms: 0,
            needs_ms: 0,
            timeouts: 0,
            refusals: 0,
            moved_at: None,
        }
    }

    pub(super) fn terms(&self) -> EndpointAllowance {
        self.terms
    }

    pub(super) fn moved_at(&self) -> Option<Timestamp> {
        self.moved_at
    }

    /// How many deliveries may be in flight.
    pub(super) fn cap(&self) -> usize {
        match self.terms.standing {
            EndpointStanding::Good => self.share,
            EndpointStanding::New => IN_FLIGHT_PER_NEW_ENDPOINT,
            EndpointStanding::Troubled => IN_FLIGHT_PER_TROUBLED_ENDPOINT,
        }
    }

    /// How long the next attempt may take. It halves after each time-out, but not below [`ATTEMPT_MS_LEAST`] or twice what the
    /// endpoint last needed. Every [`FULL_PATIENCE_EVERY`] time-outs, an attempt gets the full time.
    pub(super) fn patience(&self, full: Duration) -> Duration {
        if self.timeouts.is_multiple_of(FULL_PATIENCE_EVERY) {
            return full;
        }
        let halved = full / (1 << self.timeouts.min(16));
        let least = ATTEMPT_MS_LEAST.max(self.needs_ms.saturating_mul(2));
        halved.max(Duration::from_millis(least)).min(full)
    }

    /// Records how an attempt ended, at the address that the endpoint got then. What ends at a former address says nothing.
    pub(super) fn note(
        &mut self,
        ended: Ended,
        took_ms: u64,
        per_second: Option<u32>,
        moved_at: Option<Timestamp>,
    ) {
        if matches!(ended, Ended::Unsent | Ended::Closed) || moved_at < self.moved_at {
            return;
        }
        if moved_at != self.moved_at {
            *self = Record {
                moved_at,
                ..Record::unknown(false)
            };
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
                // How long attempts took while it was troubled says nothing about its health from now on.
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

    /// How many deliveries to hold for a good endpoint: what it takes in half a lease, rounded down to a power of two so that
    /// it seldom changes.
    fn most(&self, per_second: Option<u32>) -> usize {
        let in_time = (self.share as u64 * QUEUE_MS).checked_div(self.takes_ms);
        let limited = per_second.map_or(u64::MAX, |n| u64::from(n) * QUEUE_MS / 1000);
        let most = usize::try_from(in_time.unwrap_or(u64::MAX).min(limited))
            .unwrap_or(usize::MAX)
            .clamp(QUEUED_PER_SLOW_ENDPOINT, QUEUED_PER_ENDPOINT);
        1 << most.ilog2()
    }
}
