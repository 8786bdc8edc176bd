//! Prunes old events while the server runs: the event itself stays; its body and its delivery attempts are deleted.
//!
//! `features::retention` finds the old events, and its rule decides which may be pruned. This module calls it from time to time
//! on every node, in a task apart from deliveries so that none of them waits for it. Invariant: pruning takes at most a
//! twentieth of the time. A store that does not answer has reported itself and is left alone until the next turn.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::features::retention::{Begin, look, old_before};
use bookguard_core::service::Service;
use tokio::time::{Instant, sleep};

/// How often to look when nothing is old: an event is pruned at most this late.
const TURN: Duration = Duration::from_secs(60);
/// The pause after a look, as a multiple of the time the look and its commit took.
const SHARE: u32 = 20;
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
                if more {
                    GAP.max(began.elapsed() * SHARE)
                } else {
                    TURN
                }
            }
            Err(_) => TURN,
        };
        sleep(pause).await;
    }
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
