//! How much processor time something took.
//!
//! Wall-clock time would charge a caller for whoever else kept the machine busy, so this is the thread's own time, where the
//! system reports it.

use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Up to so long the time on the wall is near enough, and asking for it costs a tenth: the thread's own is a system call.
const SHORT: Duration = Duration::from_micros(100);

/// One thread's processor time from here on.
pub(crate) struct Meter {
    spent: Duration,
    began: Instant,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            spent: now(),
            began: Instant::now(),
        }
    }

    /// What this thread took since; to be asked on the same thread.
    pub(crate) fn spent(&self) -> Duration {
        let passed = self.began.elapsed();
        if passed <= SHORT {
            return passed;
        }
        now().saturating_sub(self.spent)
    }
}

/// Runs a future and tells what each of its own turns took.
pub(crate) async fn metered<T>(future: impl Future<Output = T>, tell: impl Fn(Duration)) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let meter = Meter::start();
        let polled = future.as_mut().poll(context);
        tell(meter.spent());
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
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_waits_costs_nothing_and_what_works_does() {
        let spent = Cell::new(Duration::ZERO);
        let add = |took| spent.set(spent.get() + took);
        metered(tokio::time::sleep(Duration::from_millis(60)), add).await;
        assert!(spent.get() < Duration::from_millis(30), "{spent:?}");
        let work = async {
            let began = Instant::now();
            let meter = Meter::start();
            while meter.spent() < Duration::from_millis(5) && began.elapsed().as_secs() < 10 {}
        };
        metered(work, add).await;
        assert!(spent.get() >= Duration::from_millis(5), "{spent:?}");
    }
}
