//! Measures the processor time of work.
//!
//! Wall-clock time would charge a caller for other load on the machine, so this measures the thread's own time where the system
//! reports it.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Up to this duration, wall-clock time is close enough and costs a tenth: reading the thread's own time is a system call.
const SHORT: Duration = Duration::from_micros(100);

/// Measures one thread's processor time from its start.
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

    /// The processor time since the start. Call it on the same thread.
    pub(crate) fn spent(&self) -> Duration {
        let passed = self.began.elapsed();
        if passed <= SHORT {
            return passed;
        }
        now().saturating_sub(self.spent)
    }
}

thread_local! {
    /// The time that was measured within the work that is measured now.
    static WITHIN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Runs work and returns its processor time, without that of work within it that was measured too.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let around = WITHIN.replace(Duration::ZERO);
    let meter = Meter::start();
    let done = work();
    let spent = meter.spent();
    let within = WITHIN.replace(around + spent);
    (done, spent.saturating_sub(within))
}

/// Runs a future and passes the processor time of each poll to `tell`.
pub(crate) async fn metered<T>(future: impl Future<Output = T>, tell: impl Fn(Duration)) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let (polled, spent) = measured(|| future.as_mut().poll(context));
        tell(spent);
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
    use super::*;

    fn work(least: Duration) {
        let (began, meter) = (Instant::now(), Meter::start());
        while meter.spent() < least && began.elapsed().as_secs() < 10 {}
    }

    #[test]
    fn what_is_measured_within_counts_once() {
        let ms = Duration::from_millis;
        let ((within, inner), outer) = measured(|| {
            work(ms(3));
            let first = measured(|| work(ms(20))).1;
            let (deep, second) = measured(|| measured(|| work(ms(20))).1);
            (first + deep, second)
        });
        assert!(within >= ms(40), "{within:?}");
        assert!(
            inner < ms(5) && outer >= ms(3) && outer < ms(15),
            "{inner:?} {outer:?}"
        );
    }

    #[tokio::test]
    async fn what_waits_costs_nothing_and_what_works_does() {
        let spent = Cell::new(Duration::ZERO);
        let add = |took| spent.set(spent.get() + took);
        metered(tokio::time::sleep(Duration::from_millis(60)), add).await;
        assert!(spent.get() < Duration::from_millis(30), "{spent:?}");
        metered(async { work(Duration::from_millis(5)) }, add).await;
        assert!(spent.get() >= Duration::from_millis(5), "{spent:?}");
    }
}
