//! Times and amounts as people read them.
//!
//! A time is given on the wall clock of the booking's terms first, then in UTC. The tables of time zones change, so a packet
//! keeps the offset of every time in its sentences, and a verifier writes the sentences with those.

use chrono::{Datelike as _, Month, NaiveDate, NaiveDateTime, TimeDelta};

use super::Wording;
use crate::evidence::FrozenTerms;
use crate::model::{Amount, Timestamp};
use crate::policy::{EventDate, ZONE_CHANGE_MS, Zone, clock};
use crate::text::grouped;

const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// Writes times, and keeps the offset of each.
pub(super) struct WallClock<'a> {
    zone: Zone,
    wording: Wording,
    /// The offsets to use, in the order of the times; beyond them and without them, those of the tables.
    given: &'a [i32],
    /// The offsets used so far: seconds by which the clock was ahead of UTC.
    pub used: Vec<i32>,
}

impl<'a> WallClock<'a> {
    pub fn new(zone: Zone, wording: Wording, given: &'a [i32]) -> Self {
        Self {
            zone,
            wording,
            given,
            used: Vec::new(),
        }
    }

    /// `Saturday 20 June 2026, 19:00 New York time (23:00 UTC)`.
    pub fn time(&mut self, at: Timestamp) -> String {
        self.time_in(self.zone, at)
    }

    /// When an event starts that starts at this instant under these terms: on their clock, or the day alone if nobody named a time.
    pub fn start(&mut self, terms: &FrozenTerms, at: Timestamp) -> String {
        match (self.wording, terms.date) {
            (Wording::First, _) => self.time(at),
            (Wording::Second, EventDate::Date(date)) => day_alone(date),
            (Wording::Second, _) => self.time_in(terms.zone, at),
        }
    }

    /// A time on the clock of another zone.
    fn time_in(&mut self, zone: Zone, at: Timestamp) -> String {
        let table = zone.offset_at(at);
        let given = self.given.get(self.used.len()).copied();
        let offset = given
            .filter(|given| may_be(zone, *given, table))
            .unwrap_or(table);
        self.used.push(offset);
        let utc = at.to_utc().naive_utc();
        // Within the years of a timestamp, no offset of a day leaves the calendar.
        let local = utc + TimeDelta::seconds(i64::from(offset));
        let (date, name) = (weekday_and_day(local), zone.in_words());
        if name == "UTC" {
            return format!("{date}, {} UTC", clock(utc));
        }
        let is_other_year = utc.year() != local.year() && self.wording >= Wording::Second;
        let utc = match utc.date() == local.date() {
            true => clock(utc),
            false if is_other_year => format!("{}, {}", day(utc), clock(utc)),
            false => format!("{} {}, {}", utc.day(), month(utc), clock(utc)),
        };
        format!("{date}, {} {name} ({utc} UTC)", clock(local))
    }
}

/// Whether an offset in this zone can be that of another edition of the tables. One that cannot is not used, so the sentences differ.
fn may_be(zone: Zone, given: i32, table: i32) -> bool {
    let change = i64::from(given) - i64::from(table);
    matches!(zone, Zone::Named(_)) && change.abs() * 1000 <= ZONE_CHANGE_MS
}

/// `Saturday 20 June 2026 (no time of day was given)`.
fn day_alone(date: NaiveDate) -> String {
    format!(
        "{} (no time of day was given)",
        weekday_and_day(date.into())
    )
}

/// `Saturday 20 June 2026`.
fn weekday_and_day(local: NaiveDateTime) -> String {
    let weekday = WEEKDAYS[local.weekday().num_days_from_monday() as usize];
    format!("{weekday} {}", day(local))
}

/// `20 June 2026`.
pub(super) fn day(local: NaiveDateTime) -> String {
    format!("{} {} {}", local.day(), month(local), local.year())
}

fn month(time: NaiveDateTime) -> &'static str {
    let number = u8::try_from(time.month()).unwrap_or_default();
    Month::try_from(number).map_or("", |month| month.name())
}

/// `USD 1,200.50`: the thousands are grouped.
pub(super) fn money(amount: Amount) -> String {
    grouped(&amount.to_string())
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;
    use crate::model::Currency;

    fn clock(zone: Zone, given: &[i32]) -> WallClock<'_> {
        WallClock::new(zone, Wording::LATEST, given)
    }

    #[test]
    fn times_are_local_first_and_in_utc_too() {
        let summer = "2026-06-20T23:00:00Z";
        #[rustfmt::skip]
        let cases = [
            (Zone::iana("America/New_York"), summer, "Saturday 20 June 2026, 19:00 New York time (23:00 UTC)"),
            (Zone::iana("Asia/Tokyo"), "2026-06-20T23:00:05.900Z",
                "Sunday 21 June 2026, 08:00:05 Tokyo time (20 June, 23:00:05 UTC)"),
            (Zone::iana("America/Argentina/Buenos_Aires"), summer, "Saturday 20 June 2026, 20:00 Buenos Aires time (23:00 UTC)"),
            (Some(Zone::UTC), summer, "Saturday 20 June 2026, 23:00 UTC"),
            (Zone::iana("Etc/UTC"), summer, "Saturday 20 June 2026, 23:00 UTC"),
            (Zone::iana("EST5EDT"), summer, "Saturday 20 June 2026, 19:00 EST5EDT (23:00 UTC)"),
            (FixedOffset::east_opt(-9000).map(Zone::Fixed), summer, "Saturday 20 June 2026, 20:30 UTC-02:30 (23:00 UTC)"),
        ];
        for (zone, at, text) in cases {
            let at = Timestamp::parse(at).unwrap();
            assert_eq!(clock(zone.unwrap(), &[]).time(at), text);
        }
    }

    #[test]
    fn the_date_in_utc_has_its_year_if_that_is_another() {
        let zone = Zone::iana("America/New_York").unwrap();
        let at = Timestamp::parse("2027-01-01T00:30:00Z").unwrap();
        for (wording, utc) in [
            (Wording::First, "1 January, 00:30 UTC"),
            (Wording::Second, "1 January 2027, 00:30 UTC"),
        ] {
            let told = WallClock::new(zone, wording, &[]).time(at);
            assert_eq!(
                told,
                format!("Thursday 31 December 2026, 19:30 New York time ({utc})")
            );
        }
    }

    #[test]
    fn every_day_of_a_year_has_its_name() {
        let first = Timestamp::parse("2028-01-01T12:00:00Z").unwrap();
        for n in 0..366 {
            let at = Timestamp::from_ms(first.ms() + n * 86_400_000);
            let named = at.to_utc().format("%A %-d %B %Y, 12:00 UTC").to_string();
            assert_eq!(clock(Zone::UTC, &[]).time(at), named);
        }
    }

    #[test]
    fn offsets_that_a_packet_kept_count_more_than_the_tables() {
        let at = Timestamp::parse("2026-06-20T23:00:00Z").unwrap();
        let mut known = clock(Zone::iana("America/New_York").unwrap(), &[-3 * 3600]);
        assert!(known.time(at).contains("20:00 New York"));
        assert!(known.time(at).contains("19:00 New York"));
        assert_eq!(known.used, [-10_800, -14_400]);
        for (zone, at) in [("Asia/Tokyo", i64::MAX), ("America/New_York", i64::MIN)] {
            let mut clock = clock(Zone::iana(zone).unwrap(), &[i32::MAX, i32::MIN]);
            let told = clock.time(Timestamp::from_ms(at));
            assert!(told.contains("time ("), "{told}");
            assert!(clock.used[0].abs() < 86_400);
        }
    }

    #[test]
    fn amounts_have_the_decimals_of_their_currency_and_grouped_thousands() {
        for (text, code, written) in [
            ("0", "USD", "USD 0.00"),
            ("999.5", "USD", "USD 999.50"),
            ("1200.50", "USD", "USD 1,200.50"),
            ("1234567", "JPY", "JPY 1,234,567"),
            ("12345.678", "KWD", "KWD 12,345.678"),
        ] {
            let amount = Amount::parse(text, Currency::parse(code).unwrap()).unwrap();
            assert_eq!(money(amount), written);
        }
    }
}
