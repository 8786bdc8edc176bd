//! The terms in words: their contents, and that they never change.

use chrono::TimeDelta;
use proptest::prelude::*;
use serde_json::json;

use super::properties::{instant, terms};
use crate::model::{Amount, Currency, Timestamp};
use crate::policy::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn frozen(policy: Option<(&str, PolicySource)>, date: &str, zone: Option<&str>) -> Terms {
    let policy = policy.map(|(id, source)| (Policy::template(id).unwrap().clone(), source));
    let booked = Booked {
        event_date: EventDate::parse(date).unwrap(),
        time_zone: zone,
        partner_time_zone: None,
        value: Amount::parse("1200.50", Currency::USD).unwrap(),
        paid: Some(Amount::parse("400", Currency::USD).unwrap()),
        created_at: at("2026-01-10T15:00:00Z"),
    };
    Terms::freeze(policy, &booked, MissingZone::AssumeUtc).unwrap()
}

const NEW_YORK: Option<&str> = Some("America/New_York");

fn first(terms: &Terms, reschedules: &[PastReschedule]) -> TermsDisclosure {
    disclose_in(DisclosureWording::First, terms, reschedules).unwrap()
}

/// Accepted texts are recomputed from terms years later. When this test fails, the new wording needs its own version, and
/// this one must stay.
#[test]
fn the_words_of_the_first_version_are_these_for_ever() {
    let named = Some(("talent_standard", PolicySource::Named));
    let terms = frozen(named, "2026-06-20T19:00", NEW_YORK);
    let told = first(&terms, &[]);
    assert_eq!(told.version, "bookguard-disclosure-1");
    assert_eq!(
        told.text,
        "Cancellation terms of this booking\n\
         \n\
         The event starts on 2026-06-20 19:00 America/New_York (2026-06-20T23:00:00Z).\n\
         The price is USD 1200.50, of which USD 400.00 counts as paid.\n\
         The policy is \"Talent standard\" (talent_standard version 1, sha256:c02339898157dc71afce7ae00b5fa44a325c0e20bf1d1e0e854605ff4dd47dce).\n\
         \n\
         If the organizer cancels:\n\
         - within the grace period, until 2026-01-11 10:00 America/New_York (2026-01-11T15:00:00Z): USD 400.00 is returned, USD 0.00 is kept.\n\
         - after that, until 2026-05-21 19:00 America/New_York (2026-05-21T23:00:00Z): USD 99.87 is returned, USD 300.13 is kept.\n\
         - after that, until 2026-06-06 19:00 America/New_York (2026-06-06T23:00:00Z): USD 0.00 is returned, USD 400.00 is kept, USD 200.25 is still owed by the organizer.\n\
         - after that, until 2026-06-13 19:00 America/New_York (2026-06-13T23:00:00Z): USD 0.00 is returned, USD 400.00 is kept, USD 500.37 is still owed by the organizer.\n\
         - after that, until the event starts, 2026-06-20 19:00 America/New_York (2026-06-20T23:00:00Z): USD 0.00 is returned, USD 400.00 is kept, USD 800.50 is still owed by the organizer.\n\
         - from then on, or without coming, if claimed until 2026-07-04 19:00 America/New_York (2026-07-04T23:00:00Z): USD 0.00 is returned, USD 400.00 is kept, USD 800.50 is still owed by the organizer.\n\
         - for want of payment, whoever cancels: the same as on that day.\n\
         \n\
         If somebody else cancels:\n\
         - the talent cancels: USD 400.00 is returned, USD 0.00 is kept.\n\
         - the talent does not come: USD 400.00 is returned, USD 0.00 is kept.\n\
         - the partner cancels: USD 400.00 is returned, USD 0.00 is kept.\n\
         - force majeure, whoever cancels (with evidence of it; without, a person decides): USD 400.00 is returned, USD 0.00 is kept.\n\
         - both sides together: what they agree on is returned, at most USD 400.00.\n\
         \n\
         If both sides move the event to another date, the deadlines are counted anew, and what the organizer's cancellation would have cost on that day is the least that it costs from then on, except within the grace period.\n\
         \n\
         Wording: bookguard-disclosure-1."
    );
    assert_eq!(
        told.disclosure_hash,
        "sha256:762c40ac5b8f0db4095d9d29a231c58bbd737393a4c7c5746b70d10783c84818"
    );
}

/// As of the first version.
#[test]
fn the_words_of_the_second_version_are_these_for_ever() {
    let named = Some(("talent_standard", PolicySource::Named));
    let told = disclose(&frozen(named, "2026-06-20T19:00", NEW_YORK), &[]).unwrap();
    assert_eq!(told.version, DISCLOSURE_VERSION);
    assert_eq!(
        told.text,
        "Cancellation terms of this booking\n\
         \n\
         The organizer books, the talent is booked, and the platform is where that happens. The service that keeps the record is Bookguard.\n\
         The event starts on Saturday 20 June 2026, 19:00 New York time (23:00 UTC).\n\
         The price is USD 1,200.50, of which USD 400.00 counts as paid.\n\
         The policy is \"Talent standard\" (talent_standard version 1, sha256:c02339898157dc71afce7ae00b5fa44a325c0e20bf1d1e0e854605ff4dd47dce).\n\
         \n\
         If the organizer cancels:\n\
         - within the grace period, until Sunday 11 January 2026, 10:00 New York time (15:00 UTC): USD 400.00 is returned, and nothing is kept.\n\
         - after that, until Thursday 21 May 2026, 19:00 New York time (23:00 UTC): USD 99.87 is returned, and USD 300.13 is kept.\n\
         - after that, until Saturday 6 June 2026, 19:00 New York time (23:00 UTC): nothing is returned, USD 400.00 is kept, and the organizer still owes USD 200.25.\n\
         - after that, until Saturday 13 June 2026, 19:00 New York time (23:00 UTC): nothing is returned, USD 400.00 is kept, and the organizer still owes USD 500.37.\n\
         - after that, until the event starts on Saturday 20 June 2026, 19:00 New York time (23:00 UTC): nothing is returned, USD 400.00 is kept, and the organizer still owes USD 800.50.\n\
         - after that, until Saturday 4 July 2026, 19:00 New York time (23:00 UTC): nothing is returned, USD 400.00 is kept, and the organizer still owes USD 800.50.\n\
         If the platform or the talent cancels because the organizer did not pay, the same applies as if the organizer had canceled at that moment: the lines above say what is returned to the organizer, and what the organizer still owes.\n\
         \n\
         If somebody else cancels:\n\
         - the talent: USD 400.00 is returned, and nothing is kept.\n\
         - the platform: USD 400.00 is returned, and nothing is kept.\n\
         - the organizer and the talent together: what they agree on is returned, at most USD 400.00, and nothing more is owed.\n\
         - anybody, because of something that nobody could prevent (force majeure), with evidence of it: USD 400.00 is returned, and nothing is kept. Without evidence, a person decides.\n\
         \n\
         If somebody does not come:\n\
         - the organizer: nothing is returned, USD 400.00 is kept, and the organizer still owes USD 800.50.\n\
         - the talent: USD 400.00 is returned, and nothing is kept.\n\
         \n\
         An earlier time of cancellation counts if it is at most 1 hour before the service receives the cancellation, or with evidence of it. Otherwise, a person decides if another rule would apply at the time of receipt.\n\
         Nothing can be claimed under these terms after Saturday 4 July 2026, 19:00 New York time (23:00 UTC).\n\
         \n\
         If both sides move the event to another date, the deadlines are counted again from that date. What a cancellation by the organizer would have cost when they agreed to move it is the least that it costs from then on, except within the grace period.\n\
         \n\
         Wording: bookguard-disclosure-2."
    );
    assert_eq!(
        told.disclosure_hash,
        "sha256:6aaebccb35ff679975244b94b95e616d1ff3f00e9498c8e80e2e923b9ad14af3"
    );
}

/// The terms of a booking under this policy, in this currency.
fn under(policy: &serde_json::Value, date: &str, value: (&str, &str)) -> Terms {
    let policy = Policy::from_json(&policy.to_string()).unwrap();
    let currency = Currency::parse(value.1).unwrap();
    let booked = Booked {
        event_date: EventDate::parse(date).unwrap(),
        time_zone: None,
        partner_time_zone: None,
        value: Amount::parse(value.0, currency).unwrap(),
        paid: None,
        created_at: at("2026-01-10T15:00:00Z"),
    };
    let policy = Some((policy, PolicySource::Booking));
    Terms::freeze(policy, &booked, MissingZone::AssumeUtc).unwrap()
}

#[test]
fn the_second_version_says_what_the_policy_says() {
    let base = json!({
        "policyId": "p", "organizer": {"tiers": [{"before": "P7D", "outcome": {"refundBps": 5000}}], "late": {"refundBps": 0}},
        "talent": {"cancel": {"refundBps": 10000, "compensationBps": 1000}, "noShow": {"manual": true}},
    });
    let told = |change: &dyn Fn(&mut serde_json::Value), date: &str, value: (&str, &str)| {
        let mut policy = base.clone();
        change(&mut policy);
        disclose(&under(&policy, date, value), &[]).unwrap().text
    };
    let (date, yen, dinar) = (
        "2026-06-20T19:00:00+05:30",
        ("333333", "JPY"),
        ("1234.567", "KWD"),
    );
    let tolerance = |tolerance: &'static str| {
        move |policy: &mut serde_json::Value| policy["backdateTolerance"] = json!(tolerance)
    };
    #[rustfmt::skip]
    let cases = [
        (told(&|_| (), date, yen), "The price is JPY 333,333, and all of it counts as paid."),
        (told(&|_| (), date, yen), "- until Saturday 13 June 2026, 19:00 UTC+05:30 (13:30 UTC): JPY 166,667 is returned, and JPY 166,666 is kept."),
        (told(&|_| (), date, yen), "- the talent: JPY 333,333 is returned, nothing is kept, and the organizer is owed JPY 33,333 more."),
        (told(&|_| (), date, yen), "- the talent: a person decides."),
        (told(&|_| (), date, dinar), "at most KWD 1,234.567, and nothing more is owed."),
        (told(&tolerance("PT12H"), date, dinar), "counts if it is at most 12 hours before the service receives the cancellation, or with"),
        (told(&tolerance("PT0H"), date, dinar), "An earlier time of cancellation counts only with evidence of it."),
        (told(&|_| (), "2026-06-20", dinar),
            "The event is on Saturday 20 June 2026. No time of day was given: it counts as starting on Saturday 20 June 2026, 00:00 UTC."),
        (told(&|_| (), "2026-06-20", dinar), "- after that, until Saturday 20 June 2026, 00:00 UTC: nothing is returned"),
        (told(&|_| (), "2026-06-20", dinar), "If another time zone would make a difference, a person decides."),
        (told(&|policy| policy["forceMajeure"] = json!({"outcome": {"manual": true}}), date, dinar), "(force majeure): a person decides."),
        (told(&|policy| policy["forceMajeure"] = json!({"outcome": {"refundBps": 0}, "requiresEvidence": false}), date, dinar),
            "(force majeure): nothing is returned, and KWD 1,234.567 is kept."),
        (told(&|policy| policy["reschedule"] = json!({"floor": "reset"}), date, dinar), "are counted again from that date.\n\nWording"),
        (told(&|_| (), "2025-06-20T19:00:00Z", dinar),
            "Nothing can be claimed under these terms. The time for that ended on Friday 4 July 2025, 19:00 UTC, before the booking was made."),
    ];
    for (text, words) in cases {
        assert!(text.contains(words), "{words}: {text}");
        assert!(!text.contains("partner"), "{text}");
    }
    for (paid, words) in [
        (
            "0",
            "The price is USD 1,200.50, and nothing counts as paid yet.",
        ),
        (
            "400",
            "The price is USD 1,200.50, of which USD 400.00 counts as paid.",
        ),
        (
            "1300",
            "The price is USD 1,200.50, but USD 1,300.00 counts as paid.",
        ),
    ] {
        let terms = Terms {
            paid: Amount::parse(paid, Currency::USD).unwrap(),
            ..frozen(None, "2026-06-20T19:00", None)
        };
        let text = disclose(&terms, &[]).unwrap().text;
        assert!(text.contains(words), "{text}");
    }
    let new_year = disclose(&frozen(None, "2026-12-31T19:30", NEW_YORK), &[]).unwrap();
    let words = "Thursday 31 December 2026, 19:30 New York time (1 January 2027, 00:30 UTC).";
    assert!(new_year.text.contains(words), "{}", new_year.text);
    let bare = disclose(&frozen(None, "2026-06-20T19:00", None), &[])
        .unwrap()
        .text;
    let words = "so all times are in UTC.\nNo cancellation policy was agreed on. What";
    assert!(bare.contains(words), "{bare}");
}

#[test]
fn the_second_version_says_what_is_left_of_moves() {
    let terms = frozen(
        Some(("firm", PolicySource::Named)),
        "2026-06-20T19:00",
        NEW_YORK,
    );
    let moved = terms
        .rescheduled(EventDate::parse("2026-10-20T19:00").unwrap(), NEW_YORK)
        .unwrap();
    let once = |moved: &str| PastReschedule::of(&terms, &[], at(moved));
    let late = once("2026-06-01T00:00:00Z");
    let open = PastReschedule {
        reached: None,
        ..late
    };
    #[rustfmt::skip]
    let cases = [
        (vec![once("2026-02-01T00:00:00Z")], "The event was moved once. That raised none of the amounts above."),
        (vec![late], "The event was moved once. Because of that, the organizer's cancellation costs at least USD 600.25"),
        (vec![late], "(23:00 UTC): nothing is returned, USD 400.00 is kept, and the organizer still owes USD 200.25."),
        (vec![late, late], "The event was moved 2 times. Because of that"),
        (vec![open], "What the organizer's cancellation costs at least because of that is for a person to decide."),
        (vec![open], "No cancellation counts from a time before the last move."),
    ];
    for (reschedules, words) in cases {
        let text = disclose(&moved, &reschedules).unwrap().text;
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_wording_has_one_version() {
    for wording in DisclosureWording::ALL {
        assert_eq!(DisclosureWording::of(wording.version()), Some(*wording));
    }
    assert_eq!(DisclosureWording::LATEST.version(), DISCLOSURE_VERSION);
    assert_eq!(DisclosureWording::of("bookguard-disclosure-0"), None);
}

#[test]
fn local_times_are_those_of_the_clock_as_it_was_when_the_terms_were_frozen() {
    let firm = Some(("firm", PolicySource::Library));
    let terms = frozen(firm, "2026-04-04T19:00", NEW_YORK);
    // Summer time begins between the deadlines.
    assert_eq!(terms.offsets, [-18_000, -18_000, -14_400]);
    let told = first(&terms, &[]).text;
    for words in [
        "2026-03-05 19:00 America/New_York (2026-03-06T00:00:00Z)",
        "2026-03-28 19:00 America/New_York (2026-03-28T23:00:00Z)",
        "Nobody chose it: it is the service's default for such events.",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // Another edition of the tables would give another offset; the frozen one is used.
    let other = Terms {
        offsets: vec![3_600],
        ..terms.clone()
    };
    let retold = first(&other, &[]).text;
    assert!(
        retold.contains("2026-03-29 00:00 America/New_York (2026-03-28T23:00:00Z)"),
        "{retold}"
    );
    assert_eq!(other.verify().unwrap_err().code, "terms_schedule");
    let fixed = frozen(firm, "2026-04-04T19:00:00-04:00", None);
    assert_eq!((&fixed.offsets[..], fixed.offset(0)), (&[][..], -14_400));
    let told = first(&fixed, &[]).text;
    assert!(
        told.contains("2026-04-04 19:00 -04:00 (2026-04-04T23:00:00Z)"),
        "{told}"
    );
}

#[test]
fn the_step_reached_before_a_move_is_in_words_and_figures() {
    let firm = Some(("firm", PolicySource::Named));
    let terms = frozen(firm, "2026-06-20T19:00", NEW_YORK);
    let moved = terms
        .rescheduled(EventDate::parse("2026-10-20T19:00").unwrap(), NEW_YORK)
        .unwrap();
    let told = |reschedules: &[PastReschedule]| first(&moved, reschedules);
    let untouched = told(&[]);
    let early = told(&[PastReschedule::of(&terms, &[], at("2026-02-01T00:00:00Z"))]);
    let late = told(&[PastReschedule::of(&terms, &[], at("2026-06-01T00:00:00Z"))]);
    let open = told(&[PastReschedule {
        reached: None,
        ..PastReschedule::of(&terms, &[], at("2026-06-01T00:00:00Z"))
    }]);
    #[rustfmt::skip]
    let cases = [
        (&early, "The event was moved once, and nothing had been reached before."),
        (&late, "The event was moved once; USD 600.25 had been reached before."),
        (&late, "(2026-09-20T23:00:00Z): USD 0.00 is returned, USD 400.00 is kept, USD 200.25 is still owed by the organizer."),
        (&open, "is for a person to say."),
        (&open, "(2026-09-20T23:00:00Z): a person decides."),
    ];
    for (told, words) in cases {
        assert!(told.text.contains(words), "{words}: {}", told.text);
    }
    let hashes = [&untouched, &early, &late, &open].map(|told| &told.disclosure_hash);
    for (n, hash) in hashes.iter().enumerate() {
        assert!(!hashes[n + 1..].contains(hash), "{n}");
    }
}

#[test]
fn terms_without_a_policy_or_past_every_claim_are_told_too() {
    let bare = first(&frozen(None, "2026-06-20T19:00", None), &[]).text;
    for words in [
        "No cancellation policy was agreed on",
        "Nobody named a time zone: all times are read as UTC.",
        "2026-06-20 19:00 UTC (2026-06-20T19:00:00Z)",
    ] {
        assert!(bare.contains(words), "{words}: {bare}");
    }
    let over = frozen(
        Some(("firm", PolicySource::Named)),
        "2025-06-20T19:00",
        NEW_YORK,
    );
    assert_eq!(over.schedule, []);
    let over = first(&over, &[]).text;
    assert!(over.contains("nothing can be claimed"), "{over}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_terms_are_told_and_stored_terms_tell_the_same(terms in terms(), moved in prop::option::of(instant())) {
        let reschedules: Vec<PastReschedule> = moved.iter().map(|at| PastReschedule::of(&terms, &[], *at)).collect();
        let stored: Terms = serde_json::from_str(&serde_json::to_string(&terms).unwrap()).unwrap();
        for (wording, utc, local) in [
            (DisclosureWording::First, "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M"),
            (DisclosureWording::Second, "%H:%M", "%-d %B %Y, %H:%M"),
        ] {
            let told = disclose_in(wording, &terms, &reschedules).unwrap();
            prop_assert_eq!(&disclose_in(wording, &stored, &reschedules).unwrap(), &told);
            prop_assert!(told.text.len() < 8_000, "{}", told.text);
            for (place, step) in terms.schedule.iter().enumerate() {
                let deadline = step.to.to_utc().naive_utc();
                let on_the_clock = deadline + TimeDelta::seconds(terms.offset(place).into());
                for words in [deadline.format(utc).to_string(), on_the_clock.format(local).to_string()] {
                    prop_assert!(told.text.contains(&words), "{}", told.text);
                }
            }
        }
        let named = matches!(terms.time_zone, Zone::Named(_));
        prop_assert_eq!(named, !terms.offsets.is_empty());
        for (place, step) in terms.schedule.iter().enumerate() {
            prop_assert_eq!(terms.offset(place), terms.time_zone.offset_at(step.to));
        }
        prop_assert_eq!(terms.offset(terms.schedule.len()), terms.time_zone.offset_at(terms.anchor));
    }
}
