//! An instant: milliseconds since 1970-01-01T00:00:00Z, always written in UTC.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ParseError;
use crate::limits::CLOCK_SKEW_MS;

/// An instant to the millisecond, from year 0001 to 9999. Its text is `2026-11-05T10:00:00.000Z`.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 0001-01-01T00:00:00.000Z.
const FIRST_MS: i64 = -62_135_596_800_000;
/// 9999-12-31T23:59:59.999Z: the last instant that a four-digit year can express.
const LAST_MS: i64 = 253_402_300_799_999;

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const EPOCH: Self = Self(0);

    /// Makes an instant from milliseconds since the epoch, clamped to the years 0001 to 9999.
    pub fn from_ms(ms: i64) -> Self {
        Self(ms.clamp(FIRST_MS, LAST_MS))
    }

    /// Makes an instant from whole seconds since the epoch, clamped likewise.
    pub(crate) fn from_seconds(seconds: i64) -> Self {
        Self::from_ms(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub fn ms(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, floored.
    pub fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The same instant with the fraction of its second dropped.
    pub fn floor_to_second(self) -> Self {
        Self(self.unix_seconds() * 1000)
    }

    /// This instant plus `ms` milliseconds, which may be negative.
    pub fn plus_ms(self, ms: i64) -> Self {
        Self::from_ms(self.0.saturating_add(ms))
    }

    /// What is wrong with an instant that a request names, if it lies so far after receipt that clocks which differ do not explain it.
    pub(crate) fn after_receipt(self, received: Self) -> Option<String> {
        let minutes = CLOCK_SKEW_MS / 60_000;
        (self > received.plus_ms(CLOCK_SKEW_MS))
            .then(|| format!("{self} is more than {minutes} minutes after receipt ({received})"))
    }

    /// Reads RFC 3339 with any offset; digits below the millisecond are dropped. Second 60 is read only where UTC may have one, at
    /// the end of a month, and counts as the first instant of the next.
    pub fn parse(text: &str) -> Option<Self> {
        Self::read(text).or_else(|| Self::parse_any(text))
    }

    /// What is wrong with a text that [`parse`](Self::parse) does not take.
    pub(crate) fn fault(text: &str) -> &'static str {
        match Self::rfc_3339(text).map(Self::within) {
            Some(None) => "is outside the years 0001 to 9999 in UTC",
            Some(Some(_)) => "has second 60, which UTC may have only at the end of a month",
            None => unknown_to_the_calendar(text)
                .or_else(|| broken_rule(text))
                .unwrap_or("is not a valid date-time"),
        }
    }

    /// Reads the text that [`Display`](fmt::Display) writes, and only that: stored data holds it millions of times.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text: &[u8; 24] = text.as_bytes().try_into().ok()?;
        let marks = [4, 7, 10, 13, 16, 19, 23].map(|at| text[at]);
        (marks == *b"--T::.Z").then_some(())?;
        let number = |at: usize, digits: usize| {
            text[at..at + digits].iter().try_fold(0, |number, digit| {
                let digit = char::from(*digit).to_digit(10)?;
                Some(number * 10 + digit)
            })
        };
        let year = i32::try_from(number(0, 4)?).ok()?;
        let day = NaiveDate::from_ymd_opt(year, number(5, 2)?, number(8, 2)?)?;
        let [hour, minute, second] = [number(11, 2)?, number(14, 2)?, number(17, 2)?];
        let instant = day.and_hms_milli_opt(hour, minute, second, number(20, 3)?)?;
        Self::within(instant.and_utc())
    }

    fn parse_any(text: &str) -> Option<Self> {
        let at = Self::within(Self::rfc_3339(text)?)?;
        let utc = at.to_utc();
        let may_leap = (utc.day(), utc.hour(), utc.minute(), utc.second()) == (1, 0, 0, 0);
        (may_leap || text.get(17..19) != Some("60")).then_some(at)
    }

    fn rfc_3339(text: &str) -> Option<DateTime<Utc>> {
        // RFC 3339 writes a "T"; chrono also takes a space, which other readers refuse.
        let separator = text.as_bytes().get(10)?;
        if !matches!(separator, b'T' | b't') {
            return None;
        }
        let instant = DateTime::parse_from_rfc3339(text).ok()?;
        Some(instant.to_utc())
    }

    fn within(instant: DateTime<Utc>) -> Option<Self> {
        let ms = instant.timestamp_millis();
        (FIRST_MS..=LAST_MS).contains(&ms).then_some(Self(ms))
    }

    /// The same instant for calendar arithmetic.
    pub fn to_utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(DateTime::<Utc>::MIN_UTC)
    }
}

/// What does not exist of the day and the time that a text names in digits; `None` if they exist, or if it names none.
fn unknown_to_the_calendar(text: &str) -> Option<&'static str> {
    let number = |at: usize, mark: &str, digits: usize| -> Option<u32> {
        let part = text.get(at..)?.strip_prefix(mark)?.get(..digits)?;
        let is_whole = part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| is_whole)
    };
    let year = i32::try_from(number(0, "", 4)?).ok()?;
    let (month, day) = (number(4, "-", 2)?, number(7, "-", 2)?);
    if NaiveDate::from_ymd_opt(year, month, day).is_none() {
        return Some("names a day that does not exist");
    }
    let (hour, minute) = (number(11, "", 2)?, number(13, ":", 2)?);
    let second = number(16, ":", 2).unwrap_or_default();
    let exists = hour < 24 && minute < 60 && second < 60;
    (!exists).then_some("names a time of day that does not exist")
}

/// The rule of RFC 3339 that a text beginning with a day breaks, if it can be told.
fn broken_rule(text: &str) -> Option<&'static str> {
    let (day, time) = text.split_at_checked(10)?;
    day.parse::<NaiveDate>().ok()?;
    if time.is_empty() {
        return Some("has no time of day");
    }
    let Some(time) = time.strip_prefix(['T', 't']) else {
        return Some("has no T between the date and the time");
    };
    let Some(end) = time.find(['Z', 'z', '+', '-']) else {
        let with = |end: &str| Timestamp::rfc_3339(&format!("{text}{end}"));
        let is_all = with("Z").or_else(|| with(":00Z")).is_some();
        return is_all.then_some("has no offset from UTC");
    };
    let (clock, offset) = time.split_at(end);
    match offset.as_bytes() {
        b"Z" | b"z" | [b'+' | b'-', _, _, b':', _, _] => {
            (clock.len() == 5).then_some("has no seconds")
        }
        _ => Some("has an offset that is neither Z nor in the form of +02:00"),
    }
}

impl Timestamp {
    /// The text, without allocation or a format string: every booking writes a dozen of these.
    fn text(self) -> [u8; 24] {
        let utc = self.to_utc();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: usize, digits: usize, mut number: u32| {
            for slot in text[at..at + digits].iter_mut().rev() {
                *slot = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        put(0, 4, utc.year().unsigned_abs());
        put(5, 2, utc.month());
        put(8, 2, utc.day());
        put(11, 2, utc.hour());
        put(14, 2, utc.minute());
        put(17, 2, utc.second());
        put(20, 3, utc.timestamp_subsec_millis());
        text
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Timestamp {
    type Err = ParseError;

    /// Reads what [`Timestamp::parse`] reads, and says what is wrong with anything else.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text).ok_or_else(|| ParseError::new(text, Self::fault(text)))
    }
}

impl From<SystemTime> for Timestamp {
    /// Drops what is below the millisecond.
    fn from(at: SystemTime) -> Self {
        let ms = |since: std::time::Duration| i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Self::from_ms(match at.duration_since(UNIX_EPOCH) {
            Ok(since) => ms(since),
            Err(before) => -ms(before.duration()),
        })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text();
        serializer.serialize_str(std::str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 date-time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_offset_is_read_and_utc_milliseconds_are_written() {
        for (text, written) in [
            ("2026-11-05T10:00:00Z", "2026-11-05T10:00:00.000Z"),
            ("2026-11-05T12:30:00.5+02:30", "2026-11-05T10:00:00.500Z"),
            ("2026-11-05T10:00:00.123999999Z", "2026-11-05T10:00:00.123Z"),
            ("2016-12-31T18:59:60-05:00", "2017-01-01T00:00:00.000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), written);
        }
    }

    proptest! {
        #[test]
        fn every_instant_is_written_as_the_calendar_says(ms in FIRST_MS..=LAST_MS) {
            let at = Timestamp::from_ms(ms);
            prop_assert_eq!(at.to_string(), at.to_utc().to_rfc3339_opts(chrono::SecondsFormat::Millis, true));
            prop_assert_eq!(Timestamp::read(&at.to_string()), Some(at));
        }

        #[test]
        fn nothing_but_the_written_text_is_read_at_once(
            ms in FIRST_MS..=LAST_MS, at in 0..24_usize, byte in b' '..=b'~',
        ) {
            let mut text = Timestamp::from_ms(ms).to_string().into_bytes();
            text[at] = byte;
            let text = String::from_utf8(text).unwrap();
            let known = Timestamp::parse_any(&text).filter(|known| known.to_string() == text);
            prop_assert_eq!(Timestamp::read(&text), known);
        }
    }

    #[test]
    fn a_fault_names_what_does_not_exist() {
        let day = "names a day that does not exist";
        let time = "names a time of day that does not exist";
        for (text, fault) in [
            ("2031-02-29T00:00:00Z", day),
            ("2031-13-01T00:00:00Z", day),
            ("2031-02-29", day),
            ("2031-03-01T24:00:00Z", time),
            ("2031-03-01T12:60:00+01:00", time),
            ("2031-03-01T12:00:61Z", time),
            ("2031-03-01T12:00:60", time),
            (
                "2031-03-01T12:00:60Z",
                "has second 60, which UTC may have only at the end of a month",
            ),
            ("2031-03-01", "has no time of day"),
            (
                "2031-03-01 12:00:00Z",
                "has no T between the date and the time",
            ),
            (
                "2031-03-01T12:00:00+0200",
                "has an offset that is neither Z nor in the form of +02:00",
            ),
            ("2031-03-01T12:00Z", "has no seconds"),
            ("2031-03-01T12:00:00", "has no offset from UTC"),
            ("2031-03-01T12:00", "has no offset from UTC"),
            ("2031-03-01T9:00", "is not a valid date-time"),
            ("2031-03-01T12:00:00+25:00", "is not a valid date-time"),
            ("2031-3-1T12:00:00Z", "is not a valid date-time"),
            ("+031-02-29T00:00:00Z", "is not a valid date-time"),
            ("2031-0é", "is not a valid date-time"),
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
            assert_eq!(Timestamp::fault(text), fault, "{text}");
            let refused = text.parse::<Timestamp>().unwrap_err();
            assert_eq!(refused.to_string(), format!("\"{text}\" {fault}"));
        }
        let long = "2031-06-01T09:00:00.".to_owned() + &"0".repeat(100);
        let refused = long.parse::<Timestamp>().unwrap_err().to_string();
        assert!(
            refused.contains("00\"… has no offset from UTC"),
            "{refused}"
        );
        assert_eq!(
            "2031-06-01T09:00:00Z".parse::<Timestamp>().ok(),
            Timestamp::parse("2031-06-01T09:00:00Z")
        );
    }

    #[test]
    fn the_time_of_the_system_is_an_instant() {
        let of = std::time::Duration::from_micros;
        for (at, ms) in [
            (UNIX_EPOCH + of(1_500_999), 1500),
            (UNIX_EPOCH, 0),
            (UNIX_EPOCH - of(1_500_000), -1500),
        ] {
            assert_eq!(Timestamp::from(at).ms(), ms);
        }
    }

    #[test]
    fn what_is_not_rfc_3339_is_refused() {
        for text in [
            "",
            "now",
            "2026-11-05",
            "2026-11-05 10:00:00Z",
            "2026-11-05T10:00:00",
            "2026-13-05T10:00:00Z",
            "0000-12-31T23:59:59Z",
            "9999-12-31T23:59:59-01:00",
            "2026-11-05T10:00:00Z ",
            "+02026-11-05T10:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
