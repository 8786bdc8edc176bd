//! The terms in words: their contents, and that they never change.

use chrono::TimeDelta;
use proptest::prelude::*;

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

/// Accepted texts are recomputed from terms years later. When this test fails, the new wording needs its own version, and
/// this one must stay.
#[test]
fn the_words_of_this_version_are_these_for_ever() {
    let named = Some(("talent_standard", PolicySource::Named));
    let terms = frozen(named, "2026-06-20T19:00", NEW_YORK);
    let told = disclose(&terms, &[]).unwrap();
    assert_eq!(told.version, DISCLOSURE_VERSION);
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

#[test]
fn local_times_are_those_of_the_clock_as_it_was_when_the_terms_were_frozen() {
    let firm = Some(("firm", PolicySource::Library));
    let terms = frozen(firm, "2026-04-04T19:00", NEW_YORK);
    // Summer time begins between the deadlines.
    assert_eq!(terms.offsets, [-18_000, -18_000, -14_400]);
    let told = disclose(&terms, &[]).unwrap().text;
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
    let retold = disclose(&other, &[]).unwrap().text;
    assert!(
        retold.contains("2026-03-29 00:00 America/New_York (2026-03-28T23:00:00Z)"),
        "{retold}"
    );
    assert_eq!(other.verify().unwrap_err().code, "terms_schedule");
    let fixed = frozen(firm, "2026-04-04T19:00:00-04:00", None);
    assert_eq!((&fixed.offsets[..], fixed.offset(0)), (&[][..], -14_400));
    let told = disclose(&fixed, &[]).unwrap().text;
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
    let told = |reschedules: &[PastReschedule]| disclose(&moved, reschedules).unwrap();
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
    let bare = disclose(&frozen(None, "2026-06-20T19:00", None), &[])
        .unwrap()
        .text;
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
    let over = disclose(&over, &[]).unwrap().text;
    assert!(over.contains("nothing can be claimed"), "{over}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_terms_are_told_and_stored_terms_tell_the_same(terms in terms(), moved in prop::option::of(instant())) {
        let reschedules: Vec<PastReschedule> = moved.iter().map(|at| PastReschedule::of(&terms, &[], *at)).collect();
        let told = disclose(&terms, &reschedules).unwrap();
        let stored: Terms = serde_json::from_str(&serde_json::to_string(&terms).unwrap()).unwrap();
        prop_assert_eq!(&disclose(&stored, &reschedules).unwrap(), &told);
        prop_assert!(told.text.len() < 8_000, "{}", told.text);
        for step in &terms.schedule {
            let deadline = step.to.to_utc().format("%Y-%m-%dT%H:%M:%SZ").to_string();
            prop_assert!(told.text.contains(&deadline), "{}", told.text);
        }
        let named = matches!(terms.time_zone, Zone::Named(_));
        prop_assert_eq!(named, !terms.offsets.is_empty());
        for (place, step) in terms.schedule.iter().enumerate() {
            prop_assert_eq!(terms.offset(place), terms.time_zone.offset_at(step.to));
            let local = step.to.to_utc().naive_utc() + TimeDelta::seconds(terms.offset(place).into());
            let local = local.format("%Y-%m-%d %H:%M").to_string();
            prop_assert!(told.text.contains(&local), "{}", told.text);
        }
        prop_assert_eq!(terms.offset(terms.schedule.len()), terms.time_zone.offset_at(terms.anchor));
    }
}
