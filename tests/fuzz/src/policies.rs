//! Cancellation policies. Two lines: the facts of a booking and the question, as numbers; then the policy.

use bookguard_core::model::{Amount, BookingId, Currency, Timestamp};
use bookguard_core::policy::{
    Actor, Booked, EventDate, MissingZone, Mode, Policy, PolicySource, Question, Reason, Standing,
    Subject, Terms, evaluate as answer,
};

/// A policy that is accepted reads the same when it is written, and answers every question about every booking: the sums
/// add up, and a question is refused only for what it asks.
pub fn evaluate(bytes: &[u8]) {
    let Some((facts, text)) = crate::text(bytes).and_then(|text| text.split_once('\n')) else {
        return;
    };
    let Ok(policy) = Policy::from_json(text) else {
        return;
    };
    let again =
        Policy::from_json(policy.canonical_json()).expect("a normalised policy is a policy");
    assert_eq!(again.canonical_json(), policy.canonical_json());
    assert_eq!(again.hash(), policy.hash());

    let mut numbers = facts
        .split(' ')
        .map(|number| number.parse::<i64>().unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    let currency = policy
        .document()
        .currency
        .unwrap_or_else(|| Currency::parse("USD").unwrap());
    let mut amount =
        || Amount::from_minor(next().rem_euclid(1_000_000_000_000_000), currency).unwrap();
    let (value, paid, agreed) = (amount(), amount(), amount());
    let mut instant = || Timestamp::from_ms(next());
    let (starts, created_at, at, received_at) = (instant(), instant(), instant(), instant());
    let choice = next().unsigned_abs() as usize;
    let written = starts.to_string();
    let Some(event_date) = EventDate::parse(&written[..[written.len(), 19, 10][choice % 3]]) else {
        return;
    };
    let booked = Booked {
        event_date,
        time_zone: [
            None,
            Some("America/New_York"),
            Some("Australia/Lord_Howe"),
            Some("Pacific/Apia"),
        ][choice / 3 % 4],
        partner_time_zone: None,
        value,
        paid: (choice / 12 % 2 == 1).then_some(paid),
        created_at,
    };
    let terms = Terms::freeze(
        Some((policy, PolicySource::Booking)),
        &booked,
        MissingZone::AssumeUtc,
    )
    .expect("every booking can have every accepted policy of its currency");
    terms.verify().expect("terms agree with themselves");
    let stored: Terms = serde_json::from_str(&serde_json::to_string(&terms).unwrap()).unwrap();
    assert_eq!(stored, terms);

    let actor = Actor::WORDS[choice / 24 % Actor::WORDS.len()].1;
    let reason = Reason::WORDS
        .get(choice / 96 % (Reason::WORDS.len() + 1))
        .map(|(_, reason)| *reason);
    let subject = Subject {
        booking_id: BookingId::parse("bkg_0198f2a4c8d07e3fa1b2c3d4e5f60718").unwrap(),
        terms: &terms,
        standing: Standing::Protected,
        reschedules: &[],
    };
    for mode in [Mode::Evaluate, Mode::Cancel] {
        let question = Question {
            mode,
            actor,
            reason,
            at: Some(at),
            received_at,
            evidence: choice % 2,
            agreed_refund: Some(agreed),
        };
        match answer(&subject, &question) {
            Ok(evaluation) => {
                let back =
                    serde_json::from_str(&serde_json::to_string(&evaluation).unwrap()).unwrap();
                assert_eq!(evaluation, back);
                if let (Some(refund), Some(penalty), Some(due)) = (
                    evaluation.refund,
                    evaluation.penalty,
                    evaluation.balance_due,
                ) {
                    assert_eq!(
                        refund.minor() - due.minor(),
                        terms.paid.minor() - penalty.minor()
                    );
                }
            }
            Err(refusal) => assert!(
                [
                    "effective_at_in_future",
                    "effective_at_before_booking",
                    "no_show_before_event",
                    "agreed_refund_exceeds_paid",
                    "claim_window_closed",
                ]
                .contains(&&*refusal.code),
                "{refusal:?}"
            ),
        }
    }
}
