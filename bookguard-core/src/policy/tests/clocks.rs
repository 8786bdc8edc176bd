//! Deadlines across clock changes, and money with other decimals: tables whose right column was computed by hand.

use serde_json::json;

use super::{ask, at, booking_id, protected};
use crate::model::{Amount, Currency, Timestamp};
use crate::policy::*;

/// Terms that return everything until `before` the event, and nothing from then on.
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

fn lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

/// The columns of a line; the last one may contain spaces.
fn columns<const N: usize>(line: &str) -> [&str; N] {
    let columns: Vec<&str> = line.splitn(N, ' ').collect();
    columns.try_into().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn a_deadline_follows_the_events_wall_clock_through_clock_changes() {
    for line in lines(include_str!("clocks.txt")) {
        let [zone, event, before, start, deadline, shown] = columns(line);
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
    for line in lines(include_str!("sums.txt")) {
        let [code, value, refund_bps, rounding, refund, penalty] = columns(line);
        let refund_bps: u16 = refund_bps.parse().unwrap();
        let shown = format!("{code} {refund}");
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
        assert!(evaluation.explanation.text.contains(&shown));
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
