//! How an endpoint fares: failing after ten failures in a row, suspended after five days of nothing else, back with the first
//! success; verified by the first success at its address.
//!
//! Faults of ours are not its failures. Invariants: what is disabled, by its partner or by a 410, is brought back by its partner
//! alone; while an endpoint is suspended or not verified, one delivery at a time is in anybody's hands.

use crate::limits::{
    LEASE_MS, LEASE_SKEW_MS, MOVED_MS, PROBE_MAX_MS, PROBE_MS, PROBE_SHARE, SUSPENDED_AFTER_MS,
    UNVERIFIED_MS, WARNING_FAILURES,
};
use crate::model::{EndpointHealth, EndpointStatus, Timestamp};
use crate::webhook::{Attempt, FailureClass};

/// How it fares after an attempt that was settled at `at`.
pub(crate) fn after(health: EndpointHealth, at: Timestamp, attempt: &Attempt) -> EndpointHealth {
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
        Some(FailureClass::OurFault) => unsent(health, at),
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
pub(crate) fn decided(
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
    let before = health;
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
    let probe_at = match unverified_since {
        None => decided.probe_at,
        Some(_) if !decided.status.takes_events() => None,
        // Whose address it is has not asked for anything: whatever the partner decides, and however often, sends nothing sooner.
        Some(_) if decided == before || matches!(before.status, Active | Failing) => {
            before.probe_at
        }
        Some(_) => Some(at.plus_ms(UNVERIFIED_MS)),
    };
    EndpointHealth {
        unverified_since,
        probe_at,
        ..decided
    }
}

/// How it fares once its partner has asked by hand that something be sent there: now if it is suspended, but soon where nobody has
/// accepted anything.
pub(crate) fn woken(health: EndpointHealth, at: Timestamp) -> EndpointHealth {
    if health.status != EndpointStatus::Suspended {
        return health;
    }
    let next = match health.unverified_since {
        None => at,
        Some(_) => at.plus_ms(UNVERIFIED_MS),
    };
    EndpointHealth {
        probe_at: health.probe_at.map(|probe_at| probe_at.min(next)),
        ..health
    }
}

/// How it fares after a try of which nothing came, by no fault of its own: of one that is not verified the next is as soon as after a
/// failure.
pub(crate) fn unsent(health: EndpointHealth, at: Timestamp) -> EndpointHealth {
    let soon = at.plus_ms(UNVERIFIED_MS);
    match (health.status, health.unverified_since, health.probe_at) {
        (EndpointStatus::Active | EndpointStatus::Failing, Some(_), Some(probe_at)) => {
            EndpointHealth {
                probe_at: Some(probe_at.min(soon)),
                ..health
            }
        }
        _ => health,
    }
}

/// How it fares where its next try is further away than any pause, or its address newer than any can be, because the clock has
/// been set back: a whole pause away, and new from now on.
pub(crate) fn reckoned_anew(health: EndpointHealth, at: Timestamp) -> EndpointHealth {
    let (longest, pause) = match health.status {
        EndpointStatus::Suspended => {
            let pause = probe_pause(health.failing_since.unwrap_or(at), at);
            (pause, pause)
        }
        _ => (2 * LEASE_MS, UNVERIFIED_MS),
    };
    let sooner = |time: Timestamp, longest: i64, pause: i64| {
        let far = time > at.plus_ms(longest + LEASE_SKEW_MS);
        if far { at.plus_ms(pause) } else { time }
    };
    EndpointHealth {
        probe_at: health.probe_at.map(|time| sooner(time, longest, pause)),
        unverified_since: health
            .unverified_since
            .map(|time| sooner(time, MOVED_MS, MOVED_MS)),
        ..health
    }
}

/// How many of `room` deliveries may be taken now, and how it fares once any is: of one that is suspended or not verified a single
/// delivery is tried, and until the next moment for that nobody else does.
pub(crate) fn claimable(
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

#[cfg(test)]
mod tests;
