//! What a running server does from time to time. It announces keys that will soon expire. It deletes the bodies and
//! delivery attempts of old events; the events themselves stay. It deletes old records of the audit whole, without a
//! record of that: every one of that age goes, at a time that the settings name.
//!
//! `features::retention` and `features::audit` find what is old, and their rules decide what may go. This module calls them from
//! time to time on every node, in tasks apart from deliveries so that none of them waits. Invariant: each task takes at most a
//! twentieth of the time. A store that does not answer has reported itself and is left alone until the next turn.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::features::audit;
use bookguard_core::features::key_notices;
use bookguard_core::features::retention::{Begin, look, old_before};
use bookguard_core::limits::PAUSE_SHARE;
use bookguard_core::service::Service;
use tokio::time::{Instant, sleep};

/// How often to look when nothing is old: what is old is deleted at most this late.
const TURN: Duration = Duration::from_secs(60);
/// The shortest time between two looks.
const GAP: Duration = Duration::from_millis(50);
/// How often to start over with events that were skipped because they still waited to be delivered.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Prunes events older than `days`; never returns.
pub(crate) async fn prune_old_events(service: Arc<Service>, days: u32) {
    let mut again_at = Instant::now();
    loop {
        let began = Instant::now();
        let again = began >= again_at;
        let begin = if again { Begin::Waiting } else { Begin::Next };
        let pause = match step(&service, days, begin).await {
            Ok(more) => {
                if again {
                    again_at = began + AGAIN;
                }
                pause(began, more)
            }
            Err(_) => TURN,
        };
        sleep(pause).await;
    }
}

/// Deletes records of the audit older than `days`; never returns.
pub(crate) async fn prune_old_records(service: Arc<Service>, days: u32) {
    loop {
        let began = Instant::now();
        let more = prune_records(&service, days).await;
        sleep(more.map_or(TURN, |more| pause(began, more))).await;
    }
}

/// Tells partners of keys that will soon expire; never returns.
pub(crate) async fn tell_expiring_keys(service: Arc<Service>) {
    loop {
        let began = Instant::now();
        let more = tell_keys(&service).await;
        sleep(more.map_or(TURN, |more| pause(began, more))).await;
    }
}

/// Tells of a page of them; returns whether there were any.
async fn tell_keys(service: &Arc<Service>) -> Result<bool, Error> {
    let looking = Arc::clone(service);
    let due = tokio::task::spawn_blocking(move || key_notices::due(&looking));
    let due = due.await.map_err(|error| {
        Error::internal(format!("the search for keys that expire failed: {error}"))
    })??;
    let any = !due.is_empty();
    for key in due {
        let tell = key_notices::tell(service, key);
        service.submit_patiently(tell).await?;
    }
    Ok(any)
}

/// The pause after a look that began then.
fn pause(began: Instant, more: bool) -> Duration {
    match more {
        true => GAP.max(began.elapsed() * PAUSE_SHARE),
        false => TURN,
    }
}

/// Deletes a page of old records; returns whether there may be more.
async fn prune_records(service: &Arc<Service>, days: u32) -> Result<bool, Error> {
    let looking = Arc::clone(service);
    let found = tokio::task::spawn_blocking(move || {
        let before = old_before(looking.clock().now(), days);
        audit::look(&looking, before, None)
    });
    let found = found.await.map_err(|error| {
        Error::internal(format!("the search for old audit records failed: {error}"))
    })??;
    if let Some(command) = found.command(service.clock().now()) {
        service.submit_patiently(command).await?;
    }
    Ok(found.more)
}

/// Looks once and prunes what it finds; returns whether there is more.
async fn step(service: &Arc<Service>, days: u32, begin: Begin) -> Result<bool, Error> {
    let looking = Arc::clone(service);
    let found = tokio::task::spawn_blocking(move || {
        look(&looking, old_before(looking.clock().now(), days), begin)
    });
    let found = found
        .await
        .map_err(|error| Error::internal(format!("the search for old events failed: {error}")))??;
    let more = found.next.is_some();
    if let Some(command) = found.command(service.clock().now()) {
        service.submit_patiently(command).await?;
    }
    Ok(more)
}
