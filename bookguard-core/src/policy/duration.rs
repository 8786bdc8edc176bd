//! Durations and times of day as a policy writes them.
//!
//! Weeks and days are calendar steps on the event's wall clock, hours and minutes are elapsed time; the zone turns them
//! into instants. Invariant: the text a policy was written with is kept, because it is hashed.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::model::ParseError;

/// `P[nW][nD][T[nH][nM]]`: at most 999 weeks, 9,999 days, 99,999 hours and 9,999 minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duration {
    text: Box<str>,
    days: u32,
    minutes: u32,
}

impl Duration {
    /// Reads the text; `None` if it does not have the form above. There are no months, years or seconds.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('P')?;
        if !rest.starts_with(|c: char| c.is_ascii_digit() || c == 'T') {
            return None;
        }
        let (weeks, rest) = count(rest, 3, 'W');
        let (days, rest) = count(rest, 4, 'D');
        let (hours, minutes) = match rest.strip_prefix('T') {
            Some(clock) if clock.starts_with(|c: char| c.is_ascii_digit()) => {
                let (hours, clock) = count(clock, 5, 'H');
                let (minutes, end) = count(clock, 4, 'M');
                end.is_empty().then_some((hours, minutes))?
            }
            None if rest.is_empty() => (0, 0),
            _ => return None,
        };
        Some(Self {
            text: text.into(),
            days: weeks * 7 + days,
            minutes: hours * 60 + minutes,
        })
    }

    /// Calendar days, weeks included: 0 to 16,992.
    pub fn days(&self) -> u32 {
        self.days
    }

    /// Elapsed minutes, hours included.
    pub fn minutes(&self) -> u32 {
        self.minutes
    }

    /// Whether it is written without calendar steps (`PT…`), so that it is equally long everywhere.
    pub fn is_exact(&self) -> bool {
        self.text.starts_with("PT")
    }

    /// The length in minutes with every day counted as 24 hours. Only for comparing two durations, never for deadlines.
    pub fn nominal_minutes(&self) -> u32 {
        self.days * 1440 + self.minutes
    }

    /// Formats the duration for people: `30 days`, `1 day 12 hours`. Texts of terms that were accepted hold it, so it stays as it is.
    pub fn in_english(&self) -> String {
        let parts = [
            (self.days, "day"),
            (self.minutes / 60, "hour"),
            (self.minutes % 60, "minute"),
        ];
        let words: Vec<String> = parts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, unit)| plural(u64::from(*n), unit))
            .collect();
        if words.is_empty() {
            return "0 days".to_owned();
        }
        words.join(" ")
    }
}

/// A count with its unit: `1 day`, `2 days`.
pub(super) fn plural(n: u64, unit: &str) -> String {
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

/// Takes `1..=digits` digits and their unit from the front. Without them, returns zero and the whole text.
fn count(text: &str, digits: usize, unit: char) -> (u32, &str) {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(length);
    match (number.parse(), rest.strip_prefix(unit)) {
        (Ok(number), Some(rest)) if length <= digits => (number, rest),
        _ => (0, text),
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Duration {
    type Err = ParseError;

    /// Reads what [`Duration::parse`] reads, and says what is wrong with anything else.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let rule = "is not a duration of weeks, days, hours and minutes, such as P2W, P7D or PT24H";
        Self::parse(text).ok_or_else(|| ParseError::new(text, rule))
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// A time of day to the minute, `00:00` to `23:59`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    /// Midnight.
    pub const MIDNIGHT: Self = Self(0);

    /// Reads `HH:MM`, two digits each.
    pub fn parse(text: &str) -> Option<Self> {
        let (hours, minutes) = text.split_once(':')?;
        let two = |s: &str| s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit());
        if !two(hours) || !two(minutes) {
            return None;
        }
        let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
        (hours < 24 && minutes < 60).then_some(Self(hours * 60 + minutes))
    }

    /// Minutes since midnight.
    pub fn minutes(self) -> u16 {
        self.0
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl FromStr for TimeOfDay {
    type Err = ParseError;

    /// Reads what [`TimeOfDay::parse`] reads, and says what is wrong with anything else.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
            .ok_or_else(|| ParseError::new(text, "is not a time of day from 00:00 to 23:59"))
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_keep_their_text() {
        for (text, days, minutes) in [
            ("P0D", 0, 0),
            ("P7D", 7, 0),
            ("P007D", 7, 0),
            ("P2W", 14, 0),
            ("P1W1DT1H1M", 8, 61),
            ("PT24H", 0, 1440),
            ("PT90M", 0, 90),
            ("P999W9999DT99999H9999M", 16_992, 6_009_939),
        ] {
            let duration = Duration::parse(text).unwrap();
            assert_eq!(
                (duration.days(), duration.minutes()),
                (days, minutes),
                "{text}"
            );
            assert_eq!(duration.to_string(), text);
            assert_eq!(duration.is_exact(), text.starts_with("PT"), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in [
            "",
            "P",
            "PT",
            "P1",
            "P1M",
            "P1Y",
            "P1DT",
            "P1D1W",
            "PT1M1H",
            "P1000W",
            "P10000D",
            "PT100000H",
            "PT10000M",
            "P-1D",
            "P1.5D",
            "p1d",
            " P1D",
            "P1D ",
            "P1D\n",
            "PT1S",
            "P١D",
            "1D",
            "T1H",
            "P1H",
            "PT1D",
        ] {
            assert_eq!(Duration::parse(text), None, "{text}");
        }
    }

    #[test]
    fn times_of_day_have_two_digits_each() {
        assert_eq!(TimeOfDay::parse("18:05").unwrap().minutes(), 1085);
        assert_eq!(TimeOfDay::parse("00:00"), Some(TimeOfDay::MIDNIGHT));
        assert_eq!(TimeOfDay::parse("23:59").unwrap().to_string(), "23:59");
        for text in [
            "24:00", "9:00", "09:60", "09:0", "0900", "09:00:00", "+9:00", "",
        ] {
            assert_eq!(TimeOfDay::parse(text), None, "{text}");
            let refused = text.parse::<TimeOfDay>().unwrap_err().to_string();
            assert!(
                refused.ends_with(" is not a time of day from 00:00 to 23:59"),
                "{refused}"
            );
        }
    }

    #[test]
    fn durations_read_as_english() {
        for (text, english) in [
            ("P1D", "1 day"),
            ("P2WT36H", "14 days 36 hours"),
            ("PT90M", "1 hour 30 minutes"),
            ("P0D", "0 days"),
        ] {
            assert_eq!(Duration::parse(text).unwrap().in_english(), english);
        }
    }
}
