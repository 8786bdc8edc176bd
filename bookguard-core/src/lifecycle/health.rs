//! How an endpoint fares: failing after ten failures in a row, suspended after five days of nothing else, back with the first
//! success; verified by the first success at its address.
//!
//! Faults of ours are not its failures. Invariants: what is disabled, by its partner or by a 410, is brought back by its partner
//! alone; while an endpoint is suspended or not verified, one delivery at a time is in anybody's hands.

use crate::limits::{
    LEASE_MS, MOVED_MS, PROBE_MAX_MS, PROBE_MS, PROBE_SHARE, SUSPENDED_AFTER_MS, UNVERIFIED_MS,
    WARNING_FAILURES,
};
use crate::model::{EndpointHealth, EndpointStatus, Timestamp};
use crate::webhook::{Attempt, FailureClass};

/// How it fares after an attempt that was settled at `at`.
pub(super) fn after(health: EndpointHealth, at: Timestamp, attempt: &Attempt) -> EndpointHealth {
    use EndpointStatus::{Active, Disabled, Failing, Gone, Suspended};
    if matches!(health.status, Disabled | Gone) {
        return health;
    }
    match attempt.class {
        None => {
            let began = Timestamp::from_ms(attempt.started_at);
            // What began before then may have gone to an address it had before.
            let unverified_since = health.unverified_since.filter(|since| began < *since);
            EndpointHealth {
                unverified_since,
                probe_at: unverified_since.map(|_| at.plus_ms(UNVERIFIED_MS)),
                ..EndpointHealth::of(Active)
            }
        }
        Some(FailureClass::Gone) => EndpointHealth {
            unverified_since: health.unverified_since,
            ..EndpointHealth::of(Gone)
        },
        Some(FailureClass::OurFault) => health,
        Some(_) => {
            let failures = health.failures.saturating_add(1);
            let began = Timestamp::from_ms(attempt.started_at);
            let since = health.failing_since.unwrap_or(began);
            let unverified = health.unverified_since.map(|_| at.plus_ms(UNVERIFIED_MS));
            let (status, probe_at) = match health.status {
                Suspended => (Suspended, Some(at.plus_ms(probe_pause(since, at)))),
                _ if failures < WARNING_FAILURES => (Active, unverified),
                _ if at.ms() - since.ms() < SUSPENDED_AFTER_MS => (Failing, unverified),
                _ => (Suspended, Some(at.plus_ms(probe_pause(since, at)))),
            };
            EndpointHealth {
                status,
                failures,
                failing_since: Some(since),
                probe_at,
                unverified_since: health.unverified_since,
            }
        }
    }
}

/// How it fares once its partner says that it is enabled or not, or gives it another address, or both; `moved` says whether that
/// address is to be verified.
pub(super) fn decided(
    health: EndpointHealth,
    at: Timestamp,
    enabled: Option<bool>,
    moved: Option<bool>,
) -> EndpointHealth {
    use EndpointStatus::{Active, Disabled, Failing, Suspended};
    let on = health.status.takes_events();
    let unverified_since = match moved {
        Some(verifies) => verifies.then(|| at.plus_ms(MOVED_MS)),
        None => health.unverified_since,
    };
    let moved = moved.is_some();
    let decided = match (enabled, health.status) {
        (Some(false), _) if on => EndpointHealth::of(Disabled),
        (Some(true), Suspended) => EndpointHealth::of(Active),
        (Some(true), _) if !on => EndpointHealth::of(Active),
        // Nobody knows yet how another address fares: it is tried now.
        (_, Active | Failing) if moved => EndpointHealth::of(Active),
        (_, Suspended) if moved => EndpointHealth {
            probe_at: Some(at),
            ..health
        },
        _ => health,
    };
    EndpointHealth {
        unverified_since,
        ..decided
    }
}

/// How many of `room` deliveries may be taken now, and how it fares once any is: of one that is suspended or not verified a single
/// delivery is tried, and until the next moment for that nobody else does.
pub(super) fn claimable(
    health: EndpointHealth,
    at: Timestamp,
    room: usize,
) -> (usize, EndpointHealth) {
    use EndpointStatus::{Active, Disabled, Failing, Gone, Suspended};
    match health.status {
        Disabled | Gone => (0, health),
        Active | Failing if health.unverified_since.is_none() => (room, health),
        Active | Failing | Suspended if health.probe_at.is_none_or(|probe_at| probe_at <= at) => {
            // Until its outcome says when the next one is; without one, as when the node is killed meanwhile, soon.
            let tried = EndpointHealth {
                probe_at: Some(at.plus_ms(2 * LEASE_MS)),
                ..health
            };
            (room.min(1), tried)
        }
        Active | Failing | Suspended => (0, health),
    }
}

/// Milliseconds until a suspended endpoint is tried again: the longer nothing came but failure, the longer.
fn probe_pause(since: Timestamp, at: Timestamp) -> i64 {
    ((at.ms() - since.ms()) / PROBE_SHARE).clamp(PROBE_MS, PROBE_MAX_MS)
}
