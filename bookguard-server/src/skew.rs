//! Compares this machine's clock with the database server's and with elapsed time.
//!
//! Leases and due times use the clock of the node that wrote them. Two nodes whose clocks differ by at most `LEASE_SKEW_MS`
//! never send the same delivery at the same time. With a larger difference a receiver may get a delivery twice and records get
//! wrong times, and only the operator can correct the clocks. A node whose clock differs that much from the server's deletes
//! nothing for its age. A file has no second clock: after a start and a leap forward, the operator has an hour before anything is deleted.
//!
//! Webhooks are signed by the node's clock; if that is wrong by more than [`TOLERANCE`], receivers refuse them. The signatures are not
//! corrected by the server's clock, because it may be the wrong one, and would then spoil those of every node.
//!
//! Invariant: each fault is reported once when it begins and once when it is over.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_core::error::Error;
use bookguard_core::limits::LEASE_SKEW_MS;
use bookguard_core::model::Timestamp;
use bookguard_core::service::Service;
use bookguard_core::webhook::TOLERANCE;

/// If each of two nodes is within this of the server, they are within `LEASE_SKEW_MS` of each other.
const TOLERATED_MS: i64 = LEASE_SKEW_MS / 2;

/// Receivers refuse a signature whose time differs from theirs by more than this.
const REFUSED_MS: i64 = TOLERANCE.as_secs().cast_signed() * 1_000;

/// Watches the clock: its difference to the database server's, and its steps.
#[derive(Default)]
pub(crate) struct Skew {
    /// Which limits the difference exceeded when it was last reported: none, the tolerated one, or that of receivers too.
    told: AtomicU8,
    steps: Mutex<ClockSteps>,
}

impl Skew {
    /// Begins to watch, before this process records anything by its clock. Blocks.
    pub(crate) fn begin(service: &Service) -> Self {
        let has_second_clock = matches!(service.clock_ahead_ms(), Ok(Some(_)));
        let steps = ClockSteps::begin(Instant::now(), service.clock().now(), has_second_clock);
        Self {
            steps: Mutex::new(steps),
            ..Self::default()
        }
    }

    fn steps(&self) -> MutexGuard<'_, ClockSteps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether the clock was set since the last call. Call this about every second. Returns whether to delete nothing for
    /// its age, because the clock may have leapt.
    pub(crate) fn watch(&self, service: &Service) -> bool {
        // A clock that is set by hand does not follow elapsed time.
        let Clock::System = service.clock() else {
            return false;
        };
        let mut steps = self.steps();
        let now = Instant::now();
        if let Some(news) = steps.look(now, service.clock().now()) {
            tracing::warn!("{news}");
        }
        steps.is_held(now)
    }

    /// Fails if this node must not delete anything for its age: by a clock that is ahead, it would delete what is still needed, here
    /// or by other nodes. Such a clock was reported. Blocks.
    ///
    /// # Errors
    /// `unavailable` if the clock may have leapt or does not agree with the database server's, or if the store does not answer.
    pub(crate) fn may_delete_old(&self, service: &Service) -> Result<(), Error> {
        if self.watch(service) {
            return Err(Error::unavailable(
                "The clock of this machine may have leapt forward.",
            ));
        }
        match agrees(service)? {
            true => Ok(()),
            false => Err(Error::unavailable(
                "The clock of this machine does not agree with the database server's.",
            )),
        }
    }

    /// Compares the clocks. Blocks. A store that does not answer has reported itself.
    pub(crate) fn look(&self, service: &Service) {
        if let Ok(Some(ahead_ms)) = service.clock_ahead_ms()
            && let Some(news) = self.news(ahead_ms)
        {
            tracing::warn!("{news}");
        }
    }

    /// The line to report, if the state has changed.
    fn news(&self, ahead_ms: i64) -> Option<String> {
        let apart = ahead_ms.abs();
        let exceeded = u8::from(apart > TOLERATED_MS) + u8::from(apart > REFUSED_MS);
        if self.told.swap(exceeded, Ordering::Relaxed) == exceeded {
            return None;
        }
        if exceeded == 0 {
            return Some("the clock agrees with the database server's again".to_owned());
        }
        let side = if ahead_ms > 0 { "ahead of" } else { "behind" };
        Some(format!(
            "the clock of this machine is {} s {side} the database server's; set both by NTP: meanwhile webhooks may be \
             delivered twice, records get a wrong time, with more than {} s this node deletes nothing for its age, and with more \
             than {} s receivers refuse its webhooks if its clock is the wrong one",
            apart / 1_000,
            LEASE_SKEW_MS / 1_000,
            REFUSED_MS / 1_000
        ))
    }
}

/// A clock that moves by this much more or less than the elapsed time was set; NTP corrects smaller differences gradually.
const STEP_MS: i64 = 2_000;

/// A clock that moves forward by more than this has leapt: what it judges as old may not be.
const LEAP_MS: i64 = 5 * 60 * 1_000;
/// For how long nothing is deleted for its age after a leap, or a start that may follow one. By then, somebody can have set the clock right.
const HOLD: Duration = Duration::from_secs(60 * 60);

/// Notices when the clock is set. Invariant: every step is reported once.
#[derive(Default)]
struct ClockSteps {
    last: Option<(Instant, Timestamp)>,
    held_until: Option<Instant>,
}

impl ClockSteps {
    /// The steps from `now`, when the clock shows `wall`. Whether it leapt before, only another clock can tell.
    fn begin(now: Instant, wall: Timestamp, has_second_clock: bool) -> Self {
        Self {
            last: Some((now, wall)),
            held_until: (!has_second_clock).then(|| now + HOLD),
        }
    }

    /// Whether nothing is to be deleted for its age.
    fn is_held(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }

    /// The line to report if the clock, which shows `wall` at `now`, was set since the last call. Call it about every second.
    fn look(&mut self, now: Instant, wall: Timestamp) -> Option<String> {
        let (then, said) = self.last.replace((now, wall))?;
        let passed = i64::try_from(now.saturating_duration_since(then).as_millis());
        let step = wall.ms() - said.ms() - passed.unwrap_or(i64::MAX);
        if step.abs() < STEP_MS {
            return None;
        }
        let seconds = step.abs() / 1_000;
        let what = match step > 0 {
            true => format!(
                "went forward by {seconds} s: it was set, or the machine slept. Deadlines and records follow it from now on."
            ),
            false => format!(
                "was set back by {seconds} s. Deadlines and records follow it from now on; until it has passed the last entry of the \
                 ledger, new entries get that one's time."
            ),
        };
        let held = match step > LEAP_MS {
            true => {
                self.held_until = Some(now + HOLD);
                " Nothing is deleted for its age in the next hour."
            }
            false => "",
        };
        Some(format!(
            "the clock of this machine {what}{held} If that did not correct it, set it by NTP"
        ))
    }
}

/// Whether this node's clock is fit to judge times of other nodes: it agrees with the database server's clock, if there is one.
/// Blocks.
///
/// # Errors
/// `unavailable` if the store does not answer.
pub(crate) fn agrees(service: &Service) -> Result<bool, Error> {
    // A clock that is set by hand belongs to a test.
    let Clock::System = service.clock() else {
        return Ok(true);
    };
    let ahead = service.clock_ahead_ms()?;
    Ok(ahead.is_none_or(|ms| ms.abs() <= LEASE_SKEW_MS))
}

/// How often to look for times in the future although this clock was not set: a node that is gone may have had a wrong clock.
const DOUBT_AGAIN: Duration = Duration::from_secs(60 * 60);

/// Decides when to look for stored times that a clock ahead of this one may have written: at startup, after this clock was set
/// back, and from time to time. Not more often, because a node with a wrong clock would otherwise keep moving the due times of
/// other nodes.
#[derive(Default)]
pub(crate) struct Doubts {
    /// The instant of the first call, and the largest lead of the clock over the time elapsed since then.
    begun: Option<(Instant, i64)>,
    /// When a look last found no times in the future.
    settled: Option<Instant>,
}

impl Doubts {
    /// Whether to look now, when the clock shows `wall`.
    pub(crate) fn of(&mut self, now: Instant, wall: Timestamp) -> bool {
        let (begun, most) = self.begun.unwrap_or((now, i64::MIN));
        let passed = i64::try_from(now.saturating_duration_since(begun).as_millis());
        let lead = wall.ms().saturating_sub(passed.unwrap_or(i64::MAX));
        let set_back = lead < most.saturating_sub(LEASE_SKEW_MS);
        self.begun = Some((begun, if set_back { lead } else { lead.max(most) }));
        if set_back {
            self.settled = None;
        }
        let long_ago = |at| now.saturating_duration_since(at) >= DOUBT_AGAIN;
        self.settled.is_none_or(long_ago)
    }

    /// Records that a look found nothing.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.settled = Some(now);
    }
}

/// A node whose clock is a day ahead of its database server's.
#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use bookguard_core::key_file::LedgerKeySource;
    use bookguard_core::service::ServiceConfig;
    use bookguard_test_postgres::{Postgres, database_of};
    use tempfile::TempDir;

    use super::*;

    pub(crate) struct Ahead {
        pub(crate) service: Arc<Service>,
        postgres: &'static Postgres,
        database: String,
        _folder: TempDir,
    }

    impl Ahead {
        /// Starts one; `None` if PostgreSQL is not installed. Blocks.
        pub(crate) fn start() -> Option<Self> {
            let postgres = Postgres::shared()?;
            let folder = tempfile::tempdir().unwrap();
            let url = postgres.fresh_database();
            let database = database_of(&url).to_owned();
            // Sessions find the function of this name in `public` first.
            postgres.sql(&database, &server_clock(" - interval ''25 hours''"));
            let found_first =
                format!("ALTER DATABASE {database} SET search_path = public, pg_catalog");
            postgres.sql("postgres", &found_first);
            let config = ServiceConfig {
                ledger_key: Some(LedgerKeySource::File(folder.path().join("ledger.key"))),
                ..ServiceConfig::of(url.as_str().into())
            };
            let (service, _) = Service::open(config).unwrap();
            Some(Self {
                service,
                postgres,
                database,
                _folder: folder,
            })
        }

        /// Sets the clocks right.
        pub(crate) fn agree(&self) {
            self.sql(&server_clock(""));
        }

        pub(crate) fn sql(&self, sql: &str) -> String {
            self.postgres.sql(&self.database, sql)
        }
    }

    fn server_clock(change: &str) -> String {
        format!(
            "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
             'SELECT pg_catalog.clock_timestamp(){change}'"
        )
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::service::ServiceConfig;

    use super::*;

    #[test]
    fn a_clock_that_is_set_is_told_of_once_by_how_much() {
        let (mut steps, begun) = (ClockSteps::default(), Instant::now());
        for (passed_ms, wall_ms, says, is_held) in [
            (0, 5_000_000, None, false),
            (1_000, 5_001_000, None, false),
            // A late look, and a clock that is slewed.
            (61_000, 5_061_900, None, false),
            (
                62_000,
                5_066_900,
                Some("went forward by 4 s: it was set, or the machine slept."),
                false,
            ),
            (63_000, 5_067_900, None, false),
            (
                64_000,
                1_068_900,
                Some("was set back by 4000 s. Deadlines"),
                false,
            ),
            (65_000, 1_069_900, None, false),
            // Forward so far that it may be wrong.
            (66_000, 1_370_901, Some("now on. Nothing is deleted"), true),
            (3_665_999, 4_970_900, None, true),
            (3_666_000, 4_970_901, None, false),
        ] {
            let now = begun + Duration::from_millis(passed_ms);
            let news = steps.look(now, Timestamp::from_ms(wall_ms));
            match (says, &news) {
                (None, None) => {}
                (Some(says), Some(news)) if news.contains(says) => {}
                _ => panic!("{passed_ms}: {news:?}"),
            }
            assert_eq!(steps.is_held(now), is_held, "{passed_ms}");
        }
    }

    #[test]
    fn without_a_second_clock_a_start_deletes_nothing_for_an_hour() {
        let (begun, wall) = (Instant::now(), Timestamp::from_ms(5_000_000));
        for has_second_clock in [false, true] {
            let mut steps = ClockSteps::begin(begun, wall, has_second_clock);
            assert_eq!(steps.is_held(begun), !has_second_clock);
            assert!(!steps.is_held(begun + HOLD));
            let news = steps.look(begun, wall.plus_ms(STEP_MS));
            assert!(news.is_some(), "the first look sees a step since the start");
        }
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("b.db");
        let (service, _) = Service::open(ServiceConfig::of(db.as_path().into())).unwrap();
        let skew = Skew::begin(&service);
        assert!(skew.may_delete_old(&service).is_err());
    }

    #[test]
    fn the_clock_is_doubted_at_the_start_when_set_back_and_every_hour() {
        let (mut doubts, begun) = (Doubts::default(), Instant::now());
        let hour = 3_600_000_i64;
        for (passed_ms, wall_ms, doubted) in [
            (0, 5_000_000, true),
            (0, 5_000_000, false),
            (1_000, 5_001_000, false),
            // Forward, and back by the tolerated difference.
            (2_000, 5_802_000, false),
            (3_000, 5_803_000 - LEASE_SKEW_MS, false),
            (4_000, 5_803_999 - LEASE_SKEW_MS, true),
            (5_000, 5_804_999 - LEASE_SKEW_MS, false),
            (6_000, 5_000, true),
            (7_000, 6_000, false),
            (hour + 5_999, hour + 4_999, false),
            (hour + 6_000, hour + 5_000, true),
        ] {
            let now = begun + Duration::from_millis(passed_ms.unsigned_abs());
            let doubt = doubts.of(now, Timestamp::from_ms(wall_ms));
            assert_eq!(doubt, doubted, "{passed_ms}");
            // The doubt stays until it is settled.
            assert_eq!(doubts.of(now, Timestamp::from_ms(wall_ms)), doubted);
            if doubt {
                doubts.settle(now);
            }
        }
    }

    #[test]
    fn a_wrong_clock_is_told_of_once_and_so_is_its_end() {
        let skew = Skew::default();
        for (ahead_ms, says) in [
            (0, None),
            (TOLERATED_MS, None),
            (TOLERATED_MS + 1, Some("5 s ahead of the database server's")),
            (90_000, None),
            (
                -TOLERATED_MS,
                Some("agrees with the database server's again"),
            ),
            (-90_000, Some("90 s behind the database server's")),
            (90_000, None),
            // Receivers do not tolerate as much: it is told again, and so is the end of that.
            (REFUSED_MS, None),
            (REFUSED_MS + 1, Some("receivers refuse its webhooks")),
            (-REFUSED_MS - 1, None),
            (90_000, Some("90 s ahead")),
            (1, Some("agrees")),
        ] {
            let news = skew.news(ahead_ms);
            match (says, &news) {
                (None, None) => {}
                (Some(says), Some(news)) if news.contains(says) => {}
                _ => panic!("{ahead_ms}: {news:?}"),
            }
        }
    }
}
