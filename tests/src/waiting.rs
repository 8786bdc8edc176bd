//! Conditions awaited with a bound: a test waits as long as it must, and says what it waited for when it must not.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long anything may take before a test gives up: far above what a loaded machine needs.
pub const BOUND: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Asks until the answer is there.
///
/// Panics with `what` after [`BOUND`].
pub async fn until<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(BOUND, what, ask).await
}

/// As [`until`], where the product's own patience is longer than the bound.
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
