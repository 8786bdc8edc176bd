//! Takes back the deliveries of dead nodes long before their leases end, and lets other nodes notice when this one dies.
//!
//! It is a task of its own, because a node that does not report its presence in time counts as dead, whatever else the courier
//! waits for. A registry that cannot be reached blocks nothing else.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::{Reclaim, Written};
use bookguard_core::features::deliveries::ReclaimDeliveries;
use bookguard_core::service::Service;
use tokio::time::sleep;

use crate::apart::apart;

/// How often this node reports its presence: often enough that a pause of the machine is not taken for its death.
const ANSWER: Duration = Duration::from_millis(500);

/// Reports this node's presence and takes back deliveries, without end. Returns at once if the database keeps no list of nodes.
pub(super) async fn keep_reclaiming(service: Arc<Service>) {
    loop {
        let gone = match apart(&service, Service::gone).await {
            Ok(None) => return,
            Ok(Some(gone)) => gone,
            // The service has reported a failure; the next turn makes up for it.
            Err(_) => Vec::new(),
        };
        if gone.is_empty() {
            sleep(ANSWER).await;
        }
        for node in gone {
            let from = Reclaim::Gone(node);
            let command = service.envelope(ReclaimDeliveries { from });
            match service.submit_patiently(command).await {
                // What is left of it cannot be read, or another node took it back.
                Ok(Written::Fresh(0)) | Err(_) => sleep(ANSWER).await,
                Ok(_) => tracing::warn!(
                    %node,
                    "node {node} is gone; the deliveries that it held were taken back"
                ),
            }
        }
    }
}
