//! Takes back the deliveries of dead nodes long before their leases end, and lets other nodes notice the end of this one.
//!
//! A task of its own, because a node that does not answer to its name in time counts as gone, whatever else the courier
//! waits for. A registry that cannot be reached blocks nothing else.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::Reclaim;
use bookguard_core::features::deliveries::ReclaimDeliveries;
use bookguard_core::service::Service;
use tokio::time::sleep;

/// How often to answer to this node's name: so often that a pause of the machine is not taken for its end.
const ANSWER: Duration = Duration::from_millis(500);

/// Answers and takes back, for ever; ends at once where no list of nodes is kept.
pub(super) async fn keep_reclaiming(service: Arc<Service>) {
    loop {
        let asked = Arc::clone(&service);
        // What failed was reported by the service; an answer that is late is made good by the next.
        let gone = match tokio::task::spawn_blocking(move || asked.gone()).await {
            Ok(Ok(None)) => return,
            Ok(Ok(Some(gone))) => gone,
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        if gone.is_empty() {
            sleep(ANSWER).await;
        }
        for node in gone {
            let from = Reclaim::Gone(node);
            let command = service.envelope(ReclaimDeliveries { from });
            if service.submit_patiently(command).await.is_err() {
                sleep(ANSWER).await;
            }
        }
    }
}
