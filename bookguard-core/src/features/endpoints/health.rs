//! The health of an endpoint. It is failing after ten failures in a row and is suspended after five days of nothing but
//! failures; the first success makes it active again. The first success at its address verifies it.
//!
//! Our own faults do not count as its failures. Invariants: an endpoint that was disabled, by its partner or by a 410, is
//! enabled only by its partner; a suspended or unverified endpoint has at most one delivery in flight.

use crate::limits::{
    ATTEMPT_MS, LEASE_MS, LEASE_SKEW_MS, MOVED_MS, PROBE_MAX_MS, PROBE_MS, PROBE_SHARE,
    SUSPENDED_AFTER_MS, UNVERIFIED_MS, WARNING_FAILURES,
};
use crate::model::{EndpointHealth, EndpointStatus, Timestamp};
use crate::webhook::{Attempt, FailureClass};

/// The health of an endpoint after an attempt that was settled at `at`. If it `went_elsewhere`, because the endpoint's address
/// was changed meanwhile, it says nothing about the new one.
pub(crate) fn after(
    health: EndpointHealth,
    at: Timestamp,
    attempt: &Attempt,
    went_elsewhere: bool,
) -> EndpointHealth {
    use EndpointStatus::{Active, Disabled, Failing, Gone, Suspended};
    if matches!(health.status, Disabled | Gone) {
        return health;
    }
    if went_elsewhere {
        return unsent(health, at);
    }
    match attempt.class {
        None => EndpointHealth::of(Active),
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

/// The health of an endpoint that is added at `at`. If it is unverified, and its partner last deleted another such endpoint at
/// `deleted`, it waits for the two turns that tests of that one may have taken. Otherwise, deleting an endpoint and adding
/// another would send sooner.
pub(crate) fn added(
    health: EndpointHealth,
    at: Timestamp,
    deleted: Option<Timestamp>,
) -> EndpointHealth {
    let next = deleted.map(|deleted| deleted.min(at).plus_ms(2 * UNVERIFIED_MS));
    EndpointHealth {
        probe_at: health.unverified_since.and(next).filter(|next| *next > at),
        ..health
    }
}

/// Whether an attempt can be the one that suspends its endpoint.
pub(crate) fn may_suspend(attempt: &Attempt) -> bool {
    !matches!(
        attempt.class,
        None | Some(FailureClass::Gone | FailureClass::OurFault)
    )
}

/// The health after its partner enabled or disabled the endpoint, changed its address, or both. `moved` is set if the
/// address changed, and says whether the new one must be verified.
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
        // The new address has no history: it is tried now.
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
        // The address's owner may not have asked for anything: nothing a partner does sends sooner to an unverified address.
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

/// The health after its partner asked for a manual retry. A suspended endpoint is tried now, or, if it is unverified, after
/// a short pause.
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

/// The health after an attempt that says nothing about the endpoint, such as one that failed through a fault of ours. An
/// unverified endpoint is tried again as soon as after a failure.
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

/// The health after a test that begins at `at`. To an unverified address, tests and deliveries together are no more than
/// deliveries alone would be: a test takes the turn of the next attempt, which comes so much later. Otherwise deliveries that wait
/// would leave no moment for a test. A suspended endpoint, whose next attempt may be hours away, need not wait for it.
///
/// # Errors
/// If that is too soon: in how many milliseconds it may be tried again.
pub(crate) fn tested(health: EndpointHealth, at: Timestamp) -> Result<EndpointHealth, i64> {
    if health.unverified_since.is_none() {
        return Ok(health);
    }
    let next = health.probe_at.unwrap_or(at).max(at);
    let ahead = next.ms() - at.ms();
    let probe_at = match health.status {
        _ if ahead <= UNVERIFIED_MS => next.plus_ms(UNVERIFIED_MS),
        EndpointStatus::Suspended if ahead > 2 * UNVERIFIED_MS => at.plus_ms(2 * UNVERIFIED_MS),
        // If an attempt is under way, the next is planned for when it would be given up, and moved up once it ends.
        _ => return Err((ahead - UNVERIFIED_MS).min(ATTEMPT_MS.cast_signed())),
    };
    Ok(EndpointHealth {
        probe_at: Some(probe_at),
        ..health
    })
}

/// Corrects times that lie further ahead than any pause because the clock was set back: the next try is one whole pause
/// away, and a new address counts as new from now on.
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

/// How many of `room` deliveries may be taken now, and the health once any is. A suspended or unverified endpoint gets a
/// single delivery, and no other until its next probe.
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
            // The outcome sets the next probe. If none is recorded, as when the node is killed, the next probe is soon.
            let tried = EndpointHealth {
                probe_at: Some(at.plus_ms(2 * LEASE_MS)),
                ..health
            };
            (room.min(1), tried)
        }
        Active | Failing | Suspended => (0, health),
    }
}

/// Milliseconds until a suspended endpoint is tried again. The pause grows with the time since the endpoint began to fail.
fn probe_pause(since: Timestamp, at: Timestamp) -> i64 {
    ((at.ms() - since.ms()) / PROBE_SHARE).clamp(PROBE_MS, PROBE_MAX_MS)
}

#[cfg(test)]
mod tests;
