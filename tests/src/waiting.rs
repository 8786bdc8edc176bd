//! Waits for conditions, up to a bound; on failure a test says what it waited for.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long anything may take before a test gives up: far more than a loaded machine needs.
pub const BOUND: Duration = Duration::from_secs(20);
/// The shortest and the longest pause between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(250)];

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
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        let waited = began.elapsed();
        assert!(waited < bound, "waited {bound:?} for {what}");
        // What takes long is looked at less often: a look is often a request, which takes the processor from what is waited for.
        sleep((waited / 10).clamp(PAUSES[0], PAUSES[1])).await;
    }
}
