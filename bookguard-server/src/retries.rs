//! What came of a manual retry: its answer waits here, at most [`limits::RETRY_WAIT_MS`].
//!
//! Whoever settles deliveries calls [`Retries::settled`]; the outcome itself is always read from the store, so that
//! a delivery settled by another node is noticed too, only later.

use std::time::Duration;

use bookguard_core::command::RetryResult;
use bookguard_core::error::Error;
use bookguard_core::limits;
use bookguard_core::model::EventId;
use bookguard_core::ops::events;
use bookguard_core::session::Session;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How often the store is asked when nobody on this node settles anything.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Those who wait for the outcome of a retry.
#[derive(Default)]
pub struct Retries(Notify);

impl Retries {
    /// An attempt was settled: everybody who waits looks again.
    pub fn settled(&self) {
        self.0.notify_waiters();
    }

    /// What a retry of this event has come to, or `None` when that was not known in time.
    pub(crate) async fn outcome(
        &self,
        session: &Session,
        event_id: EventId,
    ) -> Result<Option<RetryResult>, Error> {
        let end = Instant::now() + Duration::from_millis(limits::RETRY_WAIT_MS);
        loop {
            // Registered before the store is asked, so that nothing settled in between is missed.
            let mut settled = std::pin::pin!(self.0.notified());
            settled.as_mut().enable();
            let asker = session.clone();
            let asked =
                tokio::task::spawn_blocking(move || events::retry_outcome(&asker, &event_id)).await;
            let outcome = asked
                .map_err(|e| Error::internal(format!("a retry's outcome was not read: {e}")))??;
            if outcome.is_some() || Instant::now() >= end {
                return Ok(outcome);
            }
            let _ = timeout_at(end.min(Instant::now() + ASK_AGAIN), settled).await;
        }
    }
}
