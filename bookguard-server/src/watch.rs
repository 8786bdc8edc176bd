//! Reads that wait: repeated until there is something to answer or patience ends.
//!
//! The writer of this process tells of every event it commits; what other processes commit is found by looking again.
//! Invariants: an event that this process commits while somebody waits is not missed, and a service that stops waits for
//! nobody.

use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::ops::Watch;
use bookguard_core::session::Session;
use tokio::time::{Instant, timeout_at};

/// How soon after a look another follows, and how late once several found nothing.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What `watch` comes to; `look` takes one look, where blocking is allowed.
///
/// # Errors
/// Those of a look.
pub async fn watch<T, F: Future<Output = Result<T, Error>>>(
    session: &Session,
    watch: &Watch<T>,
    look: impl Fn() -> F,
) -> Result<T, Error> {
    let until = Instant::now() + watch.patience;
    let news = session.service.news();
    let waiter = news.on(watch.partner_id);
    let mut wait = LOOK_AGAIN.0;
    loop {
        let found = look().await?;
        let now = Instant::now();
        if (watch.is_enough)(&found) || now >= until || news.is_closed() {
            return Ok(found);
        }
        // Over either way: told, or time to look whether another process had something to tell.
        let _ = timeout_at(until.min(now + wait), waiter.told()).await;
        wait = (wait * 3 / 2).min(LOOK_AGAIN.1);
    }
}
