//! Has the log commit to the map of its entries, from time to time, in a task of its own.
//!
//! `features::epochs` decides when, and makes the map. Invariants: an epoch delays other writes only while its own rows are
//! written; however fast entries come in, there is room for other writes between two epochs.

use std::fmt::Display;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bookguard_core::engine::command::Written;
use bookguard_core::error::Error;
use bookguard_core::features::epochs;
use bookguard_core::service::Service;
use tokio::sync::oneshot;
use tokio::time::sleep;

/// How often to look whether an epoch is due.
const TURN: Duration = Duration::from_secs(1);
/// The pause before the next epoch if many entries wait for it.
const BEHIND: Duration = Duration::from_millis(50);

/// Records epochs; never returns.
pub(crate) async fn map(service: Arc<Service>, interval: Duration) {
    let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
    loop {
        let pause = match turn(&service, interval_ms).await {
            Ok(true) => BEHIND,
            Ok(false) => TURN,
            // A store that does not answer has reported itself.
            Err(error) => {
                tracing::debug!("the log was not mapped: {error}");
                TURN
            }
        };
        sleep(pause).await;
    }
}

/// Records an epoch, if one is due. Returns whether the next one is due already.
async fn turn(service: &Arc<Service>, interval_ms: i64) -> Result<bool, Error> {
    let (made, due) = oneshot::channel();
    let looking = Arc::clone(service);
    let work = move || {
        // Sending fails if the server is shutting down: it does not wait for the map.
        let _ = made.send(epochs::due(&looking, interval_ms));
    };
    let not_made = |why: &dyn Display| Error::internal(format!("the map was not made: {why}"));
    // The pages of a large map take tens of megabytes for a moment. A thread gives them back when it ends; each thread of a pool
    // would keep them.
    let thread = thread::Builder::new().name("map".to_owned()).spawn(work);
    thread.map_err(|why| not_made(&why))?;
    let due = due.await.map_err(|why| not_made(&why))??;
    let Some(epoch) = due else {
        return Ok(false);
    };
    let is_behind = epoch.is_behind;
    let recorded = service
        .submit_patiently(epochs::record(service, epoch))
        .await?;
    Ok(is_behind && matches!(recorded, Written::Fresh(true)))
}
