//! When an event starts, as precisely as the partner gave it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{
    DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, SecondsFormat, TimeDelta, Timelike,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::duration::TimeOfDay;
use super::zone::Zone;
use crate::model::{ParseError, Timestamp};

/// An event's start: an instant with its offset, a local date-time, or a bare date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum EventDate {
    /// RFC 3339 with an offset: the instant is known.
    Instant {
        /// The instant.
        at: Timestamp,
        /// The offset it was written with.
        offset: FixedOffset,
    },
    /// A local date-time: an instant only together with a zone.
    Local(NaiveDateTime),
    /// A bare date: starts at the policy's `anchorTime`, in a zone.
    Date(NaiveDate),
}

/// The pattern (ECMA 262) of what [`EventDate::parse`] reads, as far as one can express it: a date, then a local time or one with
/// its offset.
pub const EVENT_DATE_PATTERN: &str = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\
                          (T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,9})?)?\
                          |[Tt]([01][0-9]|2[0-3]):[0-5][0-9](:([0-5][0-9]|60)(\\.[0-9]{1,9})?)?\
                          ([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))?$";

impl EventDate {
    /// Reads `2026-06-20T19:00[:00]-04:00`, `2026-06-20T19:00[:00]` or `2026-06-20`, years 0001 to 9999.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.is_ascii() {
            return None;
        }
        let text = with_seconds(text);
        let text = &*text;
        if let Some(at) = Timestamp::parse(text) {
            let offset = *DateTime::parse_from_rfc3339(text).ok()?.offset();
            return is_exact(text).then_some(Self::Instant { at, offset });
        }
        let (date, time) = match text.split_at_checked(10)? {
            (date, "") => (date, None),
            (date, time) => (date, Some(time)),
        };
        if !has_shape(date.as_bytes(), "dddd-dd-dd") || date.starts_with("0000") {
            return None;
        }
        match time {
            None => date.parse().ok().map(Self::Date),
            Some(time) => local(text, time).map(Self::Local),
        }
    }

    /// What is wrong with a text that [`parse`](Self::parse) does not take.
    pub(crate) fn fault(text: &str) -> &'static str {
        match is_exact(text) {
            true => Timestamp::fault(&with_seconds(text)),
            false => "has more than nine digits of a fraction of a second",
        }
    }

    /// Whether the start lies in the years 0001 to 9999 whatever the time zone is.
    pub(crate) fn is_in_range(self) -> bool {
        let date = match self {
            Self::Instant { .. } => return true,
            Self::Local(local) => local.date(),
            Self::Date(date) => date,
        };
        [-1, 1].into_iter().all(|days| {
            let near = date.checked_add_signed(TimeDelta::days(days));
            near.is_some_and(|near| (1..=9999).contains(&near.year()))
        })
    }

    /// The event's start, in whole seconds. An instant ignores the zone, and only a bare date uses the time.
    pub fn anchor(self, zone: Zone, anchor_time: TimeOfDay) -> Timestamp {
        match self {
            Self::Instant { at, .. } => at.floor_to_second(),
            Self::Local(local) => zone.to_instant(local),
            Self::Date(date) => zone.at(date, anchor_time),
        }
    }
}

/// The text, with the seconds that a date-time with an offset may leave out in ISO 8601, though not in RFC 3339.
fn with_seconds(text: &str) -> Cow<'_, str> {
    match text.split_at_checked(16) {
        Some((minute, offset)) if offset.starts_with(['Z', 'z', '+', '-']) => {
            format!("{minute}:00{offset}").into()
        }
        _ => text.into(),
    }
}

/// Whether a date-time has at most nine digits of a second's fraction.
fn is_exact(text: &str) -> bool {
    let fraction = text.get(19..).and_then(|rest| rest.strip_prefix('.'));
    let digits = fraction.map_or(0, |fraction| {
        fraction.bytes().take_while(u8::is_ascii_digit).count()
    });
    digits <= 9
}

/// Reads the local date-time in `text`, whose part from the tenth character on is `time`; drops a fraction of a second.
fn local(text: &str, time: &str) -> Option<NaiveDateTime> {
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let digits = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    let short = has_shape(time.as_bytes(), "Tdd:dd");
    if !digits || !(short || has_shape(whole.as_bytes(), "Tdd:dd:dd")) {
        return None;
    }
    let local = format!("{}{whole}{}", &text[..10], if short { ":00" } else { "" });
    // Second 60 is an instant of UTC, not of a wall clock; chrono would keep it as a leap second.
    if local.ends_with(":60") {
        return None;
    }
    local.parse().ok()
}

/// Whether `text` has the form `shape`, in which `d` stands for any digit.
pub(crate) fn has_shape(text: &[u8], shape: &str) -> bool {
    text.len() == shape.len()
        && text
            .iter()
            .zip(shape.bytes())
            .all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                _ => *byte == shape,
            })
}

impl fmt::Display for EventDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant { at, offset } => {
                let local = at.to_utc().with_timezone(offset);
                f.write_str(&local.to_rfc3339_opts(SecondsFormat::AutoSi, false))
            }
            // Written by hand: chrono parses its format strings each time, and every booking needs this.
            Self::Local(local) => {
                let (hour, minute, second) = (local.hour(), local.minute(), local.second());
                write!(
                    f,
                    "{}T{hour:02}:{minute:02}:{second:02}",
                    Self::Date(local.date())
                )
            }
            Self::Date(date) => write!(
                f,
                "{:04}-{:02}-{:02}",
                date.year(),
                date.month(),
                date.day()
            ),
        }
    }
}

impl FromStr for EventDate {
    type Err = ParseError;

    /// Reads what [`EventDate::parse`] reads, and says what is wrong with anything else.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text).ok_or_else(|| ParseError::new(text, Self::fault(text)))
    }
}

impl Serialize for EventDate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom("not a date-time with offset, a local date-time or a date")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_are_read_and_written() {
        #[rustfmt::skip]
        let cases = [
            ("2026-06-20T19:00:00-04:00", "2026-06-20T19:00:00-04:00"),
            ("2026-06-20T19:00:00.250Z", "2026-06-20T19:00:00.250+00:00"),
            ("2026-06-20t19:00:00.123456789z", "2026-06-20T19:00:00.123+00:00"),
            ("2026-06-20T19:00-04:00", "2026-06-20T19:00:00-04:00"),
            ("2026-06-20t19:00z", "2026-06-20T19:00:00+00:00"),
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),
            ("2016-12-31T18:59:60.5-05:00", "2016-12-31T19:00:00.500-05:00"),
            ("2026-06-20T19:00:00", "2026-06-20T19:00:00"),
            ("2026-06-20T19:00:00.999", "2026-06-20T19:00:00"),
            ("2026-06-20T19:00", "2026-06-20T19:00:00"),
            ("2026-06-20", "2026-06-20"),
            ("0001-01-01", "0001-01-01"),
        ];
        for (text, written) in cases {
            let date = EventDate::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(date.to_string(), written);
            assert_eq!(EventDate::parse(written), Some(date), "{text} reads back");
        }
    }

    #[test]
    fn a_date_without_an_offset_is_in_range_only_if_it_is_in_every_time_zone() {
        for (text, in_range) in [
            ("0001-01-01", false),
            ("0001-01-01T23:59:59", false),
            ("0001-01-01T00:00:00Z", true),
            ("0001-01-02", true),
            ("9999-12-30T23:59:59", true),
            ("9999-12-31", false),
            ("9999-12-31T00:00:00", false),
            ("9999-12-31T23:59:59Z", true),
        ] {
            let date = EventDate::parse(text).unwrap();
            assert_eq!(date.is_in_range(), in_range, "{text}");
        }
    }

    #[test]
    fn a_fault_says_what_is_wrong_with_a_date_time_that_looks_right() {
        let beyond = "is outside the years 0001 to 9999 in UTC";
        for (text, fault) in [
            ("soon", "is not a valid date-time"),
            // It needs no offset.
            ("2026-06-20T9:00", "is not a valid date-time"),
            ("2031-02-29", "names a day that does not exist"),
            (
                "2026-06-20T24:00",
                "names a time of day that does not exist",
            ),
            (
                "2026-06-20T19:00:60",
                "names a time of day that does not exist",
            ),
            (
                "2026-06-20T19:00:60-04:00",
                "has second 60, which UTC may have only at the end of a month",
            ),
            (
                "2026-06-20T19:00:00.1234567890",
                "has more than nine digits of a fraction of a second",
            ),
            (
                "2026-06-20 19:00:00Z",
                "has no T between the date and the time",
            ),
            (
                "2026-06-20T19:00+0200",
                "has an offset that is neither Z nor in the form of +02:00",
            ),
            ("9999-12-31T23:59-08:00", beyond),
            ("9999-12-31T23:59:59-08:00", beyond),
            ("0001-01-01T00:00:00+14:00", beyond),
            ("0000-06-20T19:00:00Z", beyond),
            (
                "2026-06-20T19:00:00.1234567890Z",
                "has more than nine digits of a fraction of a second",
            ),
        ] {
            assert_eq!(EventDate::parse(text), None, "{text}");
            assert_eq!(EventDate::fault(text), fault, "{text}");
            let refused = text.parse::<EventDate>().unwrap_err();
            assert_eq!(refused.to_string(), format!("\"{text}\" {fault}"));
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "soon",
            "2026",
            "2026-06",
            "2026-6-20",
            "2026-02-30",
            "0000-01-01",
            "+2026-06-20",
            "2026-06-20T",
            "2026-06-20T24:00",
            "2026-06-20T19",
            "2026-06-20 19:00:00",
            "2026-06-20T19:00:60",
            "2026-06-20T19:00:60-04:00",
            "2026-06-30T23:58:60Z",
            "2026-06-20T23:59:60Z",
            "2026-06-30T23:59:60",
            "2026-06-20T19:00:00.1234567890Z",
            "2026-06-20T19:00:00.",
            "2026-06-20T19:00.5",
            "2026-06-20T19:00:00+25:00",
            "2026-06-20T19:00+25:00",
            "2026-06-20 19:00Z",
            "2026-06-20T19:00:Z",
            "2026-06-20T19Z",
            "12026-06-20",
            "2026-06-20T19:00:00é",
            "2026-06-2é",
        ] {
            assert_eq!(EventDate::parse(text), None, "{text}");
        }
    }
}
