//! Work of the service that may wait for a disk or a database server, on a thread for that.

use std::sync::Arc;

use bookguard_core::error::Error;
use bookguard_core::service::Service;
use tokio::task::spawn_blocking;

/// Does this work where it may wait.
///
/// # Errors
/// Those of the work, and `internal` if it panics.
pub(crate) async fn apart<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Service) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let service = Arc::clone(service);
    let done = spawn_blocking(move || work(&service)).await;
    done.unwrap_or_else(|e| {
        Err(Error::internal(format!(
            "work on the store did not end: {e}"
        )))
    })
}
