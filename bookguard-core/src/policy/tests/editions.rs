//! Terms by other time zone tables: whatever those can give is possible, and nothing else.

use proptest::prelude::*;
use serde_json::json;

use super::at;
use super::properties::terms;
use crate::limits::HOUR_MS;
use crate::model::{Amount, Currency, Timestamp};
use crate::policy::*;

/// Terms by tables that give their zone the clock of another.
fn by_the_clock_of(zone: &str, terms: &Terms) -> Terms {
    Terms {
        time_zone: terms.time_zone,
        ..terms.rescheduled(terms.event_date, Some(zone)).unwrap()
    }
}

/// Terms for New York by tables that give it the clock of Chicago, an hour behind.
fn an_hour_late(event: &str, with_policy: bool) -> Terms {
    let policy = json!({
        "policyId": "p", "claimWindow": "PT48H",
        "organizer": {
            "tiers": [
                {"before": "P30D", "outcome": {"refundBps": 10_000}},
                {"before": "P7D", "outcome": {"refundBps": 5_000}},
                {"before": "PT48H", "outcome": {"refundBps": 2_500}},
            ],
            "late": {"refundBps": 0},
        },
    });
    let policy = Policy::from_json(&policy.to_string()).unwrap();
    let booked = Booked {
        event_date: EventDate::parse(event).unwrap(),
        time_zone: Some("America/New_York"),
        partner_time_zone: None,
        value: Amount::parse("1000", Currency::USD).unwrap(),
        paid: None,
        created_at: at("2026-01-10T15:00:00Z"),
    };
    let policy = with_policy.then_some((policy, PolicySource::Booking));
    let own = Terms::freeze(policy, &booked, MissingZone::Refuse).unwrap();
    by_the_clock_of("America/Chicago", &own)
}

/// Moves the end of a step, and with it the beginning of the next one.
fn end(terms: &mut Terms, step: usize, ms: i64) {
    let to = terms.schedule[step].to.plus_ms(ms);
    terms.schedule[step].to = to;
    terms.schedule[step + 1].from = to.plus_ms(1_000);
}

/// Leaves out the first step of a booking that was created then.
fn created(terms: &mut Terms, at: Timestamp) {
    terms.created_at = at;
    terms.schedule.remove(0);
    terms.schedule[0].from = at;
}

#[test]
fn what_no_tables_give_is_impossible() {
    type Change = fn(&mut Terms);
    // By these tables, the deadlines counted in days are an hour earlier.
    #[rustfmt::skip]
    let changes: [(&str, Change, bool); 18] = [
        ("as recorded", |_| {}, true),
        ("3 h later", |t| end(t, 0, 2 * HOUR_MS), true),
        ("more", |t| end(t, 0, 2 * HOUR_MS + 1_000), false),
        ("3 h earlier", |t| end(t, 1, -4 * HOUR_MS), true),
        ("less", |t| end(t, 1, -4 * HOUR_MS - 1_000), false),
        ("other hours", |t| end(t, 2, 1_000), false),
        ("late for longer", |t| end(t, 3, 1_000), false),
        (
            "other hours for claims",
            |t| {
                t.claim_until = t.claim_until.plus_ms(1_000);
                t.schedule[4].to = t.claim_until;
            },
            false,
        ),
        ("a gap", |t| t.schedule[1].from = t.schedule[1].from.plus_ms(1_000), false),
        ("another sum", |t| t.schedule[0].refund = None, false),
        ("another rule", |t| t.schedule[0].rule_id = Rule::Late, false),
        ("a step twice", |t| t.schedule.insert(1, t.schedule[0]), false),
        ("a step less, 3 h long by these tables", |t| created(t, at("2026-11-01T21:00:00Z")), false),
        ("a second shorter", |t| created(t, at("2026-11-01T21:00:01Z")), true),
        ("3 h behind", |t| t.offsets = vec![-8 * 3_600], true),
        ("further behind", |t| t.offsets = vec![-8 * 3_600 - 1], false),
        ("another start", |t| t.anchor = t.anchor.plus_ms(1_000), false),
        ("a clock that nobody moves", |t| t.time_zone = Zone::hours_east(-5), false),
    ];
    let sound = an_hour_late("2026-12-01T19:00", true);
    assert_eq!(sound.schedule[0].to, at("2026-11-02T01:00:00Z"));
    for (what, change, possible) in changes {
        let mut terms = sound.clone();
        change(&mut terms);
        assert_eq!(terms.may_be_of_other_tables(), possible, "{what}");
    }
}

#[test]
fn an_instant_is_the_same_by_all_tables_and_claims_end_with_the_start_without_a_policy() {
    let mut instant = an_hour_late("2026-12-01T19:00:00-05:00", false);
    assert!(instant.may_be_of_other_tables());
    instant.anchor = instant.anchor.plus_ms(1_000);
    instant.claim_until = instant.anchor;
    assert!(!instant.may_be_of_other_tables());
    let mut local = an_hour_late("2026-12-01T19:00", false);
    local.anchor = local.anchor.plus_ms(1_000);
    assert!(!local.may_be_of_other_tables());
    local.claim_until = local.anchor;
    assert!(local.may_be_of_other_tables());
}

#[test]
fn utc_is_the_same_by_all_tables() {
    let mut terms = an_hour_late("2026-12-01T19:00", false);
    terms.anchor = at("2026-12-01T20:00:00Z");
    terms.claim_until = terms.anchor;
    terms.offsets = vec![0];
    for (zone, possible) in [("Europe/London", true), ("UTC", false)] {
        terms.time_zone = Zone::iana(zone).unwrap();
        assert_eq!(terms.may_be_of_other_tables(), possible, "{zone}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_other_tables_give_is_possible(
        terms in terms(),
        (own, other) in prop::sample::select(vec![
            ("America/New_York", "America/Cancun"),
            ("America/Cancun", "America/New_York"),
            ("Europe/Paris", "Africa/Lagos"),
            ("Africa/Lagos", "Europe/Paris"),
        ]),
    ) {
        // At the ends of time, instants are clamped.
        let known = |at: Timestamp| at.ms().abs() < 4_000_000_000_000;
        prop_assume!(known(terms.anchor) && known(terms.created_at));
        let own = terms.rescheduled(terms.event_date, Some(own)).unwrap();
        prop_assert!(own.may_be_of_other_tables());
        prop_assert!(by_the_clock_of(other, &own).may_be_of_other_tables());
    }
}
