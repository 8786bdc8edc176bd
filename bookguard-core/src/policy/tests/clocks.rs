//! Deadlines on clocks that are changed, and money of other decimals: tables whose right column was worked out by hand.

use serde_json::json;

use super::{ask, at, booking_id, protected};
use crate::model::{Amount, Currency, Timestamp};
use crate::policy::*;

/// All back until `before` the event, nothing from then on.
fn terms(zone: &str, event: &str, before: &str) -> Terms {
    let policy = json!({
        "policyId": "p",
        "organizer": {"tiers": [{"before": before, "outcome": {"refundBps": 10000}}], "late": {"refundBps": 0}}
    });
    let event_date = EventDate::parse(event).unwrap();
    let booked = Booked {
        event_date,
        time_zone: Some(zone),
        partner_time_zone: None,
        value: Amount::parse("1000", Currency::USD).unwrap(),
        paid: None,
        created_at: at("2011-06-01T00:00:00Z"),
    };
    let policy = Policy::from_json(&policy.to_string()).unwrap();
    let policy = Some((policy, PolicySource::Booking));
    Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap()
}

#[test]
fn a_deadline_follows_the_events_wall_clock_through_clock_changes() {
    for (zone, event, before, start, deadline, shown) in [
        // A day of 23 hours, and one of 25.
        (
            "America/New_York",
            "2026-03-08T12:00:00",
            "P1D",
            "2026-03-08T16:00:00Z",
            "2026-03-07T17:00:00Z",
            "2026-03-07 12:00",
        ),
        (
            "America/New_York",
            "2026-11-01T12:00:00",
            "P1D",
            "2026-11-01T17:00:00Z",
            "2026-10-31T16:00:00Z",
            "2026-10-31 12:00",
        ),
        // The same in elapsed hours.
        (
            "America/New_York",
            "2026-03-08T12:00:00",
            "PT24H",
            "2026-03-08T16:00:00Z",
            "2026-03-07T16:00:00Z",
            "2026-03-07 11:00",
        ),
        (
            "America/New_York",
            "2026-11-01T12:00:00",
            "PT24H",
            "2026-11-01T17:00:00Z",
            "2026-10-31T17:00:00Z",
            "2026-10-31 13:00",
        ),
        // 02:30 comes twice that night: the earlier.
        (
            "Europe/Berlin",
            "2026-10-26T02:30:00",
            "P1D",
            "2026-10-26T01:30:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25 02:30",
        ),
        // Zones with half hours and quarters.
        (
            "Asia/Kolkata",
            "2026-06-20T19:00:00",
            "P7D",
            "2026-06-20T13:30:00Z",
            "2026-06-13T13:30:00Z",
            "2026-06-13 19:00",
        ),
        (
            "Asia/Kathmandu",
            "2026-06-20T19:00:00",
            "P1W",
            "2026-06-20T13:15:00Z",
            "2026-06-13T13:15:00Z",
            "2026-06-13 19:00",
        ),
        (
            "America/St_Johns",
            "2026-03-10T20:00:00",
            "P3D",
            "2026-03-10T22:30:00Z",
            "2026-03-07T23:30:00Z",
            "2026-03-07 20:00",
        ),
        // Clocks that are changed by half an hour, forth and back.
        (
            "Australia/Lord_Howe",
            "2026-10-05T12:00:00",
            "P2D",
            "2026-10-05T01:00:00Z",
            "2026-10-03T01:30:00Z",
            "2026-10-03 12:00",
        ),
        (
            "Australia/Lord_Howe",
            "2026-04-06T12:00:00",
            "P2D",
            "2026-04-06T01:30:00Z",
            "2026-04-04T01:00:00Z",
            "2026-04-04 12:00",
        ),
        // Days that begin at 01:00, because clocks are put forward at midnight.
        (
            "America/Santiago",
            "2026-09-13",
            "P7D",
            "2026-09-13T03:00:00Z",
            "2026-09-06T04:00:00Z",
            "2026-09-06 01:00",
        ),
        (
            "Africa/Cairo",
            "2026-05-01",
            "P7D",
            "2026-04-30T21:00:00Z",
            "2026-04-23T22:00:00Z",
            "2026-04-24 01:00",
        ),
        (
            "Asia/Beirut",
            "2026-04-05",
            "P1W",
            "2026-04-04T21:00:00Z",
            "2026-03-28T22:00:00Z",
            "2026-03-29 01:00",
        ),
        (
            "America/Santiago",
            "2026-09-06",
            "P1D",
            "2026-09-06T04:00:00Z",
            "2026-09-05T05:00:00Z",
            "2026-09-05 01:00",
        ),
        // A day that there never was.
        (
            "Pacific/Apia",
            "2012-01-02T12:00:00",
            "P3D",
            "2012-01-01T22:00:00Z",
            "2011-12-30T22:00:00Z",
            "2011-12-31 12:00",
        ),
    ] {
        let terms = terms(zone, event, before);
        assert_eq!(terms.anchor, at(start), "{zone} {event}");
        let deadline = at(deadline);
        assert_eq!(terms.schedule[0].to, deadline, "{zone} {event} {before}");
        for (moment, rule, refund) in [
            (deadline, Rule::Tier(0), 100_000),
            (deadline.plus_ms(1000), Rule::Late, 0),
        ] {
            let question = Question {
                received_at: moment,
                ..ask("2026-01-01T00:00:00Z")
            };
            let evaluation = evaluate(&protected(&terms), &question).unwrap();
            let came = (evaluation.matched_rule, evaluation.refund.unwrap().minor());
            assert_eq!(
                came,
                (Some(rule), refund),
                "{zone} {event} {before} at {moment}"
            );
            if rule == Rule::Tier(0) {
                let words = format!("{shown} {zone} ({}Z)", &deadline.to_string()[..19]);
                let text = evaluation.explanation.text;
                assert!(text.contains(&words), "{text} does not say {words}");
            }
        }
    }
}

#[test]
fn sums_have_the_decimals_of_their_currency_and_add_up() {
    for (code, value, refund_bps, rounding, refund, penalty, shown) in [
        (
            "JPY",
            "33333",
            5000,
            "half_up",
            "16667",
            "16666",
            "JPY 16667",
        ),
        (
            "JPY",
            "33333",
            5000,
            "half_even",
            "16666",
            "16667",
            "JPY 16666",
        ),
        ("JPY", "1", 5000, "down", "0", "1", "JPY 0"),
        ("JPY", "1", 1, "up", "1", "0", "JPY 1"),
        (
            "KWD",
            "1234.567",
            2500,
            "half_up",
            "308.642",
            "925.925",
            "KWD 308.642",
        ),
        (
            "KWD",
            "0.001",
            5000,
            "half_up",
            "0.001",
            "0.000",
            "KWD 0.001",
        ),
        (
            "CLF",
            "1234.5678",
            3333,
            "half_up",
            "411.4814",
            "823.0864",
            "CLF 411.4814",
        ),
        (
            "CLF",
            "99999999999.9999",
            3333,
            "half_up",
            "33330000000.0000",
            "66669999999.9999",
            "CLF 33330000000.0000",
        ),
        (
            "USD",
            "99.99",
            3333,
            "half_up",
            "33.33",
            "66.66",
            "USD 33.33",
        ),
    ] {
        let currency = Currency::parse(code).unwrap();
        let policy = json!({
            "policyId": "p", "rounding": rounding, "organizer": {"late": {"refundBps": refund_bps}}
        });
        let booked = Booked {
            event_date: EventDate::parse("2026-06-20T19:00:00Z").unwrap(),
            time_zone: None,
            partner_time_zone: None,
            value: Amount::parse(value, currency).unwrap(),
            paid: None,
            created_at: at("2026-01-01T00:00:00Z"),
        };
        let policy = Policy::from_json(&policy.to_string()).unwrap();
        let policy = Some((policy, PolicySource::Booking));
        let terms = Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap();
        let subject = Subject {
            booking_id: booking_id(),
            ..protected(&terms)
        };
        let cancel = Question {
            mode: Mode::Cancel,
            ..ask("2026-02-01T00:00:00Z")
        };
        let evaluation = evaluate(&subject, &cancel).unwrap();
        let sums = [evaluation.refund, evaluation.penalty].map(|sum| sum.unwrap());
        let digits = sums.map(|sum| sum.decimal());
        assert_eq!(
            digits,
            [refund, penalty],
            "{code} {value} {refund_bps} {rounding}"
        );
        let [back, kept] = sums.map(Amount::minor);
        assert_eq!(back + kept, booked.value.minor(), "{code} {value}");
        assert!(
            evaluation.summary().contains(&format!("Refund {shown},")),
            "{}",
            evaluation.summary()
        );
        assert!(evaluation.explanation.text.contains(shown));
    }
}

#[test]
fn what_is_frozen_is_compiled_once_and_read_back_the_same() {
    let terms = terms("America/Santiago", "2026-09-13", "P7D");
    let stored: Terms = serde_json::from_str(&serde_json::to_string(&terms).unwrap()).unwrap();
    let moments = (0..400_i64)
        .map(|day| Timestamp::from_ms(at("2025-10-01T03:59:59Z").ms() + day * 86_400_000));
    for moment in moments {
        let question = Question {
            received_at: moment,
            ..ask("2026-01-01T00:00:00Z")
        };
        let answers =
            [&terms, &stored].map(|terms| evaluate(&protected(terms), &question).unwrap());
        assert_eq!(answers[0], answers[1], "{moment}");
    }
}
