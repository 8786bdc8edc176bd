//! Takes deliveries that are due from the store: retries whose time has come, what found no room in memory, and what
//! another node left behind when its lease ended.
//!
//! What is due is judged by the service's clock, how often to look by the real one. Invariants: looking writes
//! nothing while nothing is due; only as much is claimed as there is room for; what is claimed arrives through the
//! outbox like everything else.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::command::{Ask, Command};
use bookguard_core::limits::CLAIMED_PER_ENDPOINT;
use bookguard_core::model::EndpointId;
use bookguard_core::ops::events;
use bookguard_core::outbox::Outbox;
use bookguard_core::service::Service;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

use super::dispatch::Note;

/// How often to look while nothing is due.
const POLL: Duration = Duration::from_millis(250);
/// How long to leave a store alone that did not answer.
const POLL_FAILED: Duration = Duration::from_secs(2);
/// The shortest time between two looks, whatever happens.
const GAP: Duration = Duration::from_millis(2);
/// Endpoints in one claim: with [`CLAIMED_PER_ENDPOINT`] rows each, a commit of some ten milliseconds.
const ENDPOINTS_PER_CLAIM: usize = 16;

/// Claims what is due and has room, for ever.
pub(super) struct Claimer {
    pub service: Arc<Service>,
    pub outbox: Arc<Outbox>,
    pub notes: UnboundedSender<Note>,
    /// Told when an endpoint that was full has room again.
    pub wake: Arc<Notify>,
}

/// What one look at the store came to.
enum Looked {
    /// Something was claimed; there may be more.
    Claimed,
    /// There is nothing to claim, or no room for it.
    Nothing,
    /// The store did not answer; the service or its writer has reported why.
    Failed,
}

impl Claimer {
    pub(super) async fn run(self) {
        loop {
            match self.look().await {
                Looked::Claimed => {}
                Looked::Nothing => {
                    let _ = timeout(POLL, self.wake.notified()).await;
                }
                Looked::Failed => sleep(POLL_FAILED).await,
            }
            sleep(GAP).await;
        }
    }

    async fn look(&self) -> Looked {
        let Some(due) = self.due().await else {
            return Looked::Failed;
        };
        let (open, full): (Vec<_>, Vec<_>) = due
            .into_iter()
            .partition(|endpoint_id| self.outbox.room(endpoint_id) >= CLAIMED_PER_ENDPOINT);
        if !full.is_empty() {
            // A dispatcher that is gone has ended this task too.
            let _ = self.notes.send(Note::Backlog(full));
        }
        if open.is_empty() {
            return Looked::Nothing;
        }
        for endpoints in open.chunks(ENDPOINTS_PER_CLAIM) {
            let claim = Command {
                at: self.service.clock().now(),
                ask: Ask::Claim {
                    lease: events::lease(),
                    endpoints: endpoints
                        .iter()
                        .map(|endpoint_id| (*endpoint_id, CLAIMED_PER_ENDPOINT))
                        .collect(),
                },
                remember: None,
            };
            if self.service.submit_patiently(claim).await.is_err() {
                return Looked::Failed;
            }
        }
        Looked::Claimed
    }

    async fn due(&self) -> Option<Vec<EndpointId>> {
        let service = Arc::clone(&self.service);
        let read = tokio::task::spawn_blocking(move || {
            let now = service.clock().now();
            let mut reader = service.reader().ok()?;
            let due = reader.endpoints_with_due(now);
            due.map_err(|error| service.fault(&error)).ok()
        });
        read.await.ok().flatten()
    }
}
