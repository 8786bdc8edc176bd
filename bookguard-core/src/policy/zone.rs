//! Wall clocks: conversion between local times and instants, and calendar steps.
//!
//! Invariant: every local time has exactly one instant. A local time that does not exist moves forward by the gap; one that
//! exists twice means the earlier of the two. Instants computed here are whole seconds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{
    FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone,
};
use chrono_tz::Tz;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::duration::{Duration, TimeOfDay};
use crate::input::nearest;
use crate::limits::HOUR_MS;
use crate::model::{ParseError, Timestamp};

/// How many milliseconds apart two editions of the time zone tables can place an instant: no zone has ever moved its clocks
/// further at once, except across the date line.
pub(crate) const ZONE_CHANGE_MS: i64 = 3 * HOUR_MS;

/// A wall clock: an IANA zone, or a fixed offset from UTC.
///
/// Its dates and local times are those of [`chrono`], which this crate re-exports:
///
/// ```
/// use bookguard_core::chrono::NaiveDate;
/// use bookguard_core::policy::{TimeOfDay, Zone};
///
/// let zone = Zone::iana("America/New_York").unwrap();
/// let day = NaiveDate::from_ymd_opt(2026, 6, 20).unwrap();
/// assert_eq!(zone.at(day, TimeOfDay::MIDNIGHT).to_string(), "2026-06-20T04:00:00.000Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Zone {
    /// A zone of the IANA database.
    Named(Tz),
    /// An offset that never changes.
    Fixed(FixedOffset),
}

impl Zone {
    /// UTC.
    pub const UTC: Self = Self::Named(Tz::UTC);

    /// Reads an IANA name, spelled as IANA does.
    pub fn iana(name: &str) -> Option<Self> {
        name.parse().ok().map(Self::Named)
    }

    /// What to do about a name that is not one of IANA's.
    pub(crate) fn fix(typed: &str) -> String {
        match Self::nearest_iana(typed) {
            Some(near) => format!("Did you mean \"{near}\"?"),
            None => {
                "Send the IANA name of a place, such as \"America/New_York\" or \"Europe/Berlin\"."
                    .to_owned()
            }
        }
    }

    /// The IANA name closest to what was typed. An abbreviation close to another one means another zone, so one is suggested only if
    /// nothing but its case is wrong.
    pub fn nearest_iana(typed: &str) -> Option<&'static str> {
        let names = chrono_tz::TZ_VARIANTS.iter().map(|tz| tz.name());
        let meant = names.filter(|name| name.contains('/') || name.eq_ignore_ascii_case(typed));
        nearest(typed, &meant.collect::<Vec<_>>())
    }

    /// What people call it: `New York time`, `UTC`, `UTC+02:00`. Texts of terms that were accepted hold it, so it stays as it is.
    pub fn in_words(self) -> String {
        match self {
            Self::Fixed(offset) if offset.local_minus_utc() == 0 => "UTC".to_owned(),
            Self::Fixed(offset) => format!("UTC{offset}"),
            Self::Named(tz) => match tz.name().rsplit_once('/') {
                Some(("Etc", "UTC" | "UCT" | "Universal" | "Zulu")) => "UTC".to_owned(),
                Some(("Etc", _)) | None => tz.name().to_owned(),
                Some((_, city)) => format!("{} time", city.replace('_', " ")),
            },
        }
    }

    /// A fixed number of hours east of UTC, −23 to 23. Beyond these, the nearer of the two counts.
    pub fn hours_east(hours: i32) -> Self {
        FixedOffset::east_opt(hours.clamp(-23, 23) * 3600).map_or(Self::UTC, Self::Fixed)
    }

    /// Local time at an instant.
    pub fn to_local(self, instant: Timestamp) -> NaiveDateTime {
        let utc = instant.to_utc().naive_utc();
        utc + TimeDelta::seconds(i64::from(self.offset_at(instant)))
    }

    /// Seconds by which the clock is ahead of UTC at an instant.
    pub fn offset_at(self, instant: Timestamp) -> i32 {
        let offset = match self {
            Self::Named(tz) => tz
                .offset_from_utc_datetime(&instant.to_utc().naive_utc())
                .fix(),
            Self::Fixed(offset) => offset,
        };
        offset.local_minus_utc()
    }

    /// The instant of a local time.
    pub fn to_instant(self, local: NaiveDateTime) -> Timestamp {
        let tz = match self {
            Self::Fixed(offset) => return instant(local, offset),
            Self::Named(tz) => tz,
        };
        match tz.offset_from_local_datetime(&local) {
            MappedLocalTime::Single(offset) => instant(local, offset.fix()),
            MappedLocalTime::Ambiguous(a, b) => {
                instant(local, a.fix()).min(instant(local, b.fix()))
            }
            // The clock before the gap, read past the gap's start, shows the time moved forward by the gap.
            MappedLocalTime::None => instant(local, offset_before_gap(tz, local)),
        }
    }

    /// `duration` before an instant: calendar days first, then elapsed time.
    pub fn before(self, from: Timestamp, duration: &Duration) -> Timestamp {
        self.step(from, -1, duration)
    }

    /// `duration` after an instant: calendar days first, then elapsed time.
    pub fn after(self, from: Timestamp, duration: &Duration) -> Timestamp {
        self.step(from, 1, duration)
    }

    /// The deadline at a local time on the day `before` ahead of `from`.
    pub fn cutoff(self, from: Timestamp, before: &Duration, time: TimeOfDay) -> Timestamp {
        let day = if before.minutes() == 0 {
            (self.to_local(from) - TimeDelta::days(i64::from(before.days()))).date()
        } else {
            self.to_local(self.before(from, before)).date()
        };
        self.at(day, time)
    }

    /// The instant of a time of day on a date.
    pub fn at(self, day: NaiveDate, time: TimeOfDay) -> Timestamp {
        let minutes = TimeDelta::minutes(i64::from(time.minutes()));
        self.to_instant(day.and_time(NaiveTime::MIN) + minutes)
    }

    fn step(self, from: Timestamp, sign: i64, duration: &Duration) -> Timestamp {
        // Without a calendar step, the instant must not pass through the wall clock, which shows some hours twice.
        let stepped = if duration.days() == 0 {
            from
        } else {
            let days = TimeDelta::days(sign * i64::from(duration.days()));
            self.to_instant(self.to_local(from) + days)
        };
        stepped
            .plus_ms(sign * i64::from(duration.minutes()) * 60_000)
            .floor_to_second()
    }
}

fn instant(local: NaiveDateTime, offset: FixedOffset) -> Timestamp {
    let seconds = i64::from(offset.local_minus_utc());
    // Floored, because the last possible instant, to which later ones are clamped, is not a whole second.
    Timestamp::from_ms(local.and_utc().timestamp_millis() - seconds * 1000).floor_to_second()
}

/// The offset in force just before the gap that contains `local`. No gap is longer than a day and a half.
fn offset_before_gap(tz: Tz, local: NaiveDateTime) -> FixedOffset {
    (1..=144)
        .find_map(|quarters| {
            let earlier = local - TimeDelta::minutes(15 * quarters);
            tz.offset_from_local_datetime(&earlier).latest()
        })
        .map_or_else(
            || Tz::UTC.offset_from_utc_datetime(&local).fix(),
            |offset| offset.fix(),
        )
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(tz) => f.write_str(tz.name()),
            Self::Fixed(offset) => offset.fmt(f),
        }
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Zone {
    type Err = ParseError;

    /// Reads what [`fmt::Display`] writes: an IANA name or `±HH:MM`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::iana(text)
            .or_else(|| text.parse().ok().map(Self::Fixed))
            .filter(|zone| zone.to_string() == text)
            .ok_or_else(|| {
                let fix = Self::fix(text);
                let rule = format!("is not an IANA time zone or a UTC offset. {fix}");
                ParseError::new(text, &rule)
            })
    }
}

impl<'de> Deserialize<'de> for Zone {
    /// Reads what [`FromStr`] reads.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| serde::de::Error::custom("not an IANA time zone or a UTC offset"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> NaiveDateTime {
        text.parse().unwrap()
    }

    #[test]
    fn every_local_time_has_one_instant() {
        #[rustfmt::skip]
        let cases = [
            ("America/New_York", "2026-06-20T19:00:00", "2026-06-20T23:00:00Z"),
            // Skipped in spring: forward by the gap. Repeated in autumn: the earlier one.
            ("America/New_York", "2026-03-08T02:30:00", "2026-03-08T07:30:00Z"),
            ("America/New_York", "2026-11-01T01:30:00", "2026-11-01T05:30:00Z"),
            ("America/Santiago", "2026-09-06T00:00:00", "2026-09-06T04:00:00Z"),
            // Samoa skipped the whole of 30 December 2011.
            ("Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T22:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:45:00Z"),
            ("UTC", "2026-06-20T19:00:00", "2026-06-20T19:00:00Z"),
        ];
        for (zone, time, expected) in cases {
            let instant = Zone::iana(zone).unwrap().to_instant(local(time));
            assert_eq!(Some(instant), Timestamp::parse(expected), "{zone} {time}");
        }
        let india = Zone::Fixed("+05:30".parse().unwrap());
        assert_eq!(
            Some(india.to_instant(local("2026-06-20T19:00:00"))),
            Timestamp::parse("2026-06-20T13:30:00Z")
        );
    }

    #[test]
    fn days_are_calendar_steps_and_hours_are_elapsed() {
        let york = Zone::iana("America/New_York").unwrap();
        let noon = york.to_instant(local("2026-03-08T12:00:00"));
        for (duration, expected) in [
            ("P1D", "2026-03-07T17:00:00Z"),
            ("PT24H", "2026-03-07T16:00:00Z"),
            ("P1DT1H", "2026-03-07T16:00:00Z"),
            ("P0D", "2026-03-08T16:00:00Z"),
        ] {
            let duration = Duration::parse(duration).unwrap();
            assert_eq!(
                Some(york.before(noon, &duration)),
                Timestamp::parse(expected)
            );
        }
        // The second 01:30 of the autumn night stays the second one if there is no step.
        let second = Timestamp::parse("2026-11-01T06:30:00Z").unwrap();
        assert_eq!(
            york.before(second, &Duration::parse("P0D").unwrap()),
            second
        );
    }

    #[test]
    fn a_cutoff_is_a_local_time_on_the_day_ahead() {
        let paris = Zone::iana("Europe/Paris").unwrap();
        let start = Timestamp::parse("2026-07-04T13:00:00Z").unwrap();
        for (before, expected) in [
            ("P0D", "2026-07-04T16:00:00Z"),
            ("P2D", "2026-07-02T16:00:00Z"),
            ("PT16H", "2026-07-03T16:00:00Z"),
        ] {
            let deadline = paris.cutoff(
                start,
                &Duration::parse(before).unwrap(),
                TimeOfDay::parse("18:00").unwrap(),
            );
            assert_eq!(Some(deadline), Timestamp::parse(expected), "{before}");
        }
    }

    #[test]
    fn the_text_of_a_zone_reads_back() {
        for text in ["Europe/Berlin", "UTC", "+02:00", "-03:30", "+00:00"] {
            let zone: Zone = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(zone).unwrap(), text);
        }
        let refused = "europe/berlin".parse::<Zone>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "\"europe/berlin\" is not an IANA time zone or a UTC offset. Did you mean \"Europe/Berlin\"?"
        );
        for text in ["Europe/Berlln", "+2", "", "europe/berlin", "+99:00"] {
            assert!(
                serde_json::from_value::<Zone>(text.into()).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_place_is_suggested_and_no_abbreviation_for_another() {
        for (typed, near) in [
            ("europe/berlln", Some("Europe/Berlin")),
            ("America/NewYork", Some("America/New_York")),
            ("utc", Some("UTC")),
            ("BST", None),
            ("CST", None),
            ("IST", None),
            ("PST", None),
            ("Z", None),
        ] {
            assert_eq!(Zone::nearest_iana(typed), near, "{typed}");
        }
        assert!(Zone::fix("BST").contains("a place, such as"));
    }

    #[test]
    fn a_fixed_offset_is_less_than_a_day() {
        for (hours, counted) in [
            (-23, -23),
            (0, 0),
            (24, 23),
            (i32::MIN, -23),
            (i32::MAX, 23),
        ] {
            let zone = Zone::hours_east(hours);
            assert_eq!(zone.offset_at(Timestamp::EPOCH), counted * 3600, "{hours}");
        }
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        let long = Duration::parse("P999W9999DT99999H9999M").unwrap();
        for zone in ["Pacific/Kiritimati", "America/New_York", "Africa/Monrovia"] {
            let zone = Zone::iana(zone).unwrap();
            for ms in [i64::MIN, i64::MAX, 0] {
                let at = Timestamp::from_ms(ms).floor_to_second();
                assert!(zone.before(at, &long) <= at);
                assert!(zone.after(at, &long) >= at);
                zone.cutoff(at, &long, TimeOfDay::MIDNIGHT);
            }
        }
    }
}
