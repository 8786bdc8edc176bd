//! Waits for conditions, up to a bound; on failure a test says what it waited for.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long anything may take before a test gives up: far more than a loaded machine needs.
pub const BOUND: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Polls until there is an answer, and returns it.
///
/// Panics with `what` after [`BOUND`].
pub async fn until<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(BOUND, what, ask).await
}

/// Like [`until`], for cases in which the product itself waits longer than the bound.
pub async fn until_within<T>(
    bound: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + bound;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "waited {bound:?} for {what}");
        sleep(LOOK_AGAIN).await;
    }
}
