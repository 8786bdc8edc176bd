//! Reads that wait: repeated until there is something to answer or the timeout passes.
//!
//! The writer of this process announces every event it commits; events that other processes commit are found by looking again.
//! Invariants: an event that this process commits while a read waits is not missed, and a stopping service ends all waits.

use std::time::Duration;

use bookguard_core::engine::waiting::Waiting;
use bookguard_core::error::Error;
use bookguard_core::model::PartnerId;
use bookguard_core::operation::{Finished, Look, WatchStep};
use tokio::time::{Instant, sleep_until, timeout_at};

/// The least pause between two looks, and the longest, which is reached when several looks found nothing.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Runs `watch`: calls `look` until its result is enough. `look` looks once, where blocking is allowed; `news` announces
/// commits.
///
/// # Errors
/// The errors of `look`.
pub async fn watch<F: Future<Output = Result<Look, Error>>>(
    news: &Waiting<PartnerId>,
    watch: &WatchStep,
    look: impl Fn() -> F,
) -> Result<Finished, Error> {
    let until = Instant::now() + watch.patience;
    let waiter = news.on(watch.partner_id);
    let mut wait = LOOK_AGAIN.0;
    loop {
        let soonest = Instant::now() + LOOK_AGAIN.0;
        let found = look().await?;
        let now = Instant::now();
        if found.is_enough || now >= until || news.is_closed() {
            return Ok(found.finished);
        }
        // Woken by a commit here, or by the timer to look for commits of other processes; both mean look again.
        let _ = timeout_at(until.min(now + wait), waiter.told()).await;
        // A partner that writes all the time would otherwise make its waiting reads look after every commit.
        sleep_until(until.min(soonest)).await;
        wait = (wait * 3 / 2).min(LOOK_AGAIN.1);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use tokio::time::sleep;

    use super::*;

    /// Waits for up to 20 s until a look finds `enough`, in milliseconds. Returns the times of all looks.
    async fn looks(news: &Waiting<PartnerId>, enough: u64) -> Vec<u64> {
        let partner_id = PartnerId::from_bytes([1; 16]);
        let waiting = WatchStep {
            partner_id,
            patience: Duration::from_secs(20),
            look: Arc::new(|_| Err(Error::internal("looked past the test"))),
            is_long: false,
        };
        let (began, looks) = (Instant::now(), Cell::new(Vec::new()));
        let look = || async {
            let at = u64::try_from(began.elapsed().as_millis()).unwrap();
            let mut seen = looks.take();
            seen.push(at);
            looks.set(seen);
            Ok(Look {
                finished: Finished::stored(Vec::new(), None),
                is_enough: at >= enough,
            })
        };
        watch(news, &waiting, look).await.unwrap();
        looks.take()
    }

    async fn tell(news: &Waiting<PartnerId>, every: u64) {
        loop {
            sleep(Duration::from_millis(every)).await;
            news.tell(&PartnerId::from_bytes([1; 16]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn news_is_read_at_once_and_a_stream_of_it_ten_times_a_second() {
        let news = Waiting::default();
        for (every, enough, expected) in [
            // The first event wakes a read whose last look was long before.
            (450, 440, vec![0, 100, 250, 450]),
            (5, 300, vec![0, 100, 200, 300]),
        ] {
            tokio::select! {
                looked = looks(&news, enough) => {
                    // The timer counts milliseconds, and a look may come one late.
                    assert_eq!(looked.len(), expected.len(), "{every}: {looked:?}");
                    let late = looked.iter().zip(&expected).map(|(at, due)| at - due);
                    assert!(late.max().unwrap() < 10, "{every}: {looked:?}");
                }
                () = tell(&news, every) => {}
            }
        }
    }
}
