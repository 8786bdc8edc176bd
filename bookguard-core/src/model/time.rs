//! An instant: milliseconds since 1970-01-01T00:00:00Z, always written in UTC.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant to the millisecond, from year 0001 to 9999. Its text is `2026-11-05T10:00:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 0001-01-01T00:00:00.000Z.
const FIRST_MS: i64 = -62_135_596_800_000;
/// 9999-12-31T23:59:59.999Z: the last instant four year digits can write.
const LAST_MS: i64 = 253_402_300_799_999;

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const EPOCH: Self = Self(0);

    /// From milliseconds since the epoch, held within the years 0001 to 9999.
    pub fn from_ms(ms: i64) -> Self {
        Self(ms.clamp(FIRST_MS, LAST_MS))
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

    /// Later (or, negative, earlier) by `ms` milliseconds.
    pub fn plus_ms(self, ms: i64) -> Self {
        Self::from_ms(self.0.saturating_add(ms))
    }

    /// Reads RFC 3339 with any offset; digits below the millisecond are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        // RFC 3339 writes a "T"; chrono also takes a space, which other readers refuse.
        let separator = text.as_bytes().get(10)?;
        if !matches!(separator, b'T' | b't') {
            return None;
        }
        let instant = DateTime::parse_from_rfc3339(text).ok()?;
        let ms = instant.timestamp_millis();
        (FIRST_MS..=LAST_MS).contains(&ms).then_some(Self(ms))
    }

    /// The same instant for calendar arithmetic.
    pub fn to_utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(DateTime::<Utc>::MIN_UTC)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_utc().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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

    #[test]
    fn any_offset_is_read_and_utc_milliseconds_are_written() {
        for (text, written) in [
            ("2026-11-05T10:00:00Z", "2026-11-05T10:00:00.000Z"),
            ("2026-11-05T12:30:00.5+02:30", "2026-11-05T10:00:00.500Z"),
            ("2026-11-05T10:00:00.123999999Z", "2026-11-05T10:00:00.123Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), written);
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
