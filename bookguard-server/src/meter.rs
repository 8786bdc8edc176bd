//! What something took of a processor.
//!
//! Time on the wall would charge a caller for whoever else kept the machine busy, so it is the thread's own, where the system
//! tells it.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

/// One thread's processor time from here on.
pub(crate) struct Meter(Duration);

impl Meter {
    pub(crate) fn start() -> Self {
        Self(now())
    }

    /// What this thread took since; to be asked on the same thread.
    pub(crate) fn spent(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

/// Runs a future and adds what its own turns took to `spent`, those before it was given up included.
pub(crate) async fn metered<T>(future: impl Future<Output = T>, spent: &mut Duration) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let meter = Meter::start();
        let polled = future.as_mut().poll(context);
        *spent += meter.spent();
        polled
    })
    .await
}

#[cfg(unix)]
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(not(unix))]
fn now() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn what_waits_costs_nothing_and_what_works_does() {
        let mut spent = Duration::ZERO;
        metered(tokio::time::sleep(Duration::from_millis(60)), &mut spent).await;
        assert!(spent < Duration::from_millis(30), "{spent:?}");
        let work = async {
            let began = Instant::now();
            let meter = Meter::start();
            while meter.spent() < Duration::from_millis(5) && began.elapsed().as_secs() < 10 {}
        };
        metered(work, &mut spent).await;
        assert!(spent >= Duration::from_millis(5), "{spent:?}");
    }
}
