//! How an endpoint fares: failing after ten failures in a row, suspended after five days of nothing else, back with the first
//! success.
//!
//! Faults of ours are not its failures. Invariant: what is disabled, by its partner or by a 410, is brought back by its partner
//! alone.

use crate::limits::{
    LEASE_MS, PROBE_MAX_MS, PROBE_MS, PROBE_SHARE, SUSPENDED_AFTER_MS, WARNING_FAILURES,
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
        None => EndpointHealth::of(Active),
        Some(FailureClass::Gone) => EndpointHealth::of(Gone),
        Some(FailureClass::OurFault) => health,
        Some(_) => {
            let failures = health.failures.saturating_add(1);
            let began = Timestamp::from_ms(attempt.started_at);
            let since = health.failing_since.unwrap_or(began);
            let (status, probe_at) = match health.status {
                Suspended => (Suspended, Some(at.plus_ms(probe_pause(since, at)))),
                _ if failures < WARNING_FAILURES => (Active, None),
                _ if at.ms() - since.ms() < SUSPENDED_AFTER_MS => (Failing, None),
                _ => (Suspended, Some(at.plus_ms(probe_pause(since, at)))),
            };
            EndpointHealth {
                status,
                failures,
                failing_since: Some(since),
                probe_at,
            }
        }
    }
}

/// How it fares once its partner says that it is enabled or not, or gives it another address, or both.
pub(super) fn decided(
    health: EndpointHealth,
    at: Timestamp,
    enabled: Option<bool>,
    moved: bool,
) -> EndpointHealth {
    use EndpointStatus::{Active, Disabled, Failing, Suspended};
    let on = health.status.takes_events();
    match (enabled, health.status) {
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
    }
}

/// How many of `room` deliveries may be taken now, and how it fares once any is: of a suspended one a single delivery tries
/// whether it is back, and until the next moment for that nobody else does.
pub(super) fn claimable(
    health: EndpointHealth,
    at: Timestamp,
    room: usize,
) -> (usize, EndpointHealth) {
    use EndpointStatus::{Active, Disabled, Failing, Gone, Suspended};
    match health.status {
        Active | Failing => (room, health),
        Suspended if health.probe_at.is_none_or(|probe_at| probe_at <= at) => {
            // Until its outcome says when the next one is; without one, as when the node is killed meanwhile, soon.
            let tried = EndpointHealth {
                probe_at: Some(at.plus_ms(2 * LEASE_MS)),
                ..health
            };
            (room.min(1), tried)
        }
        Suspended | Disabled | Gone => (0, health),
    }
}

/// Milliseconds until a suspended endpoint is tried again: the longer nothing came but failure, the longer.
fn probe_pause(since: Timestamp, at: Timestamp) -> i64 {
    ((at.ms() - since.ms()) / PROBE_SHARE).clamp(PROBE_MS, PROBE_MAX_MS)
}
