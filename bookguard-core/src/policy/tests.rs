//! Freezing and evaluating: the cases that need explanation.

use serde_json::{Value, json};

mod clocks;
mod disclosures;
mod editions;
mod endings;
mod moments;
mod properties;

use super::*;
use crate::model::{Amount, BookingId, Currency, Timestamp};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn usd(text: &str) -> Amount {
    Amount::parse(text, Currency::USD).unwrap()
}

fn booking_id() -> BookingId {
    BookingId::from_bytes([7; 16])
}

fn booked(event_date: &str) -> Booked<'static> {
    Booked {
        event_date: EventDate::parse(event_date).unwrap(),
        time_zone: None,
        partner_time_zone: None,
        value: usd("1000"),
        paid: None,
        created_at: at("2026-01-10T15:00:00.750Z"),
    }
}

fn template(id: &str) -> Option<(Policy, PolicySource)> {
    Some((Policy::template(id).unwrap().clone(), PolicySource::Named))
}

/// The terms of this policy of the library.
fn terms_of(policy: &str, booked: &Booked<'_>) -> Terms {
    Terms::freeze(template(policy), booked, MissingZone::Refuse).unwrap()
}

/// The terms of `firm` for an event on 20 June 2026, 19:00 in UTC.
fn firm() -> Terms {
    terms_of("firm", &booked("2026-06-20T19:00:00Z"))
}

/// The terms of `firm` for 19:00 in New York.
fn firm_in_new_york() -> Terms {
    terms_of("firm", &booked_in_new_york())
}

fn booked_in_new_york() -> Booked<'static> {
    Booked {
        time_zone: Some("America/New_York"),
        ..booked("2026-06-20T19:00:00")
    }
}

/// The terms of a booking's own policy, for the same event in UTC.
fn own(policy: &str) -> Terms {
    let policy = Policy::from_json(policy).unwrap();
    let policy = Some((policy, PolicySource::Booking));
    Terms::freeze(policy, &booked("2026-06-20T19:00:00Z"), MissingZone::Refuse).unwrap()
}

fn evaluated(terms: &Terms, question: &Question) -> Evaluation {
    evaluate(&protected(terms), question).unwrap()
}

/// The code of the question's refusal.
fn refused(terms: &Terms, question: &Question) -> String {
    let error = evaluate(&protected(terms), question).unwrap_err();
    error.code.into_owned()
}

fn ask(received_at: &str) -> Question {
    Question {
        mode: Mode::Evaluate,
        actor: Actor::Organizer,
        reason: None,
        at: None,
        received_at: at(received_at),
        evidence: 0,
        agreed_refund: None,
    }
}

fn protected<'a>(terms: &'a Terms) -> Subject<'a> {
    Subject {
        booking_id: booking_id(),
        terms,
        standing: Standing::Protected,
        reschedules: &[],
    }
}

#[test]
fn the_first_zone_there_is_counts() {
    let in_policy = Policy::from_json(
        r#"{"policyId":"p","timeZone":"Asia/Tokyo","organizer":{"late":{"refundBps":0}}}"#,
    )
    .unwrap();
    let plain = Policy::template("firm").unwrap().clone();
    let (berlin, new_york) = (Some("Europe/Berlin"), Some("America/New_York"));
    let (local, fixed) = ("2026-06-20T19:00:00", "2026-06-20T19:00:00+02:00");
    #[rustfmt::skip]
    let cases = [
        (&in_policy, berlin, new_york, local, "Europe/Berlin", "17:00"),
        (&in_policy, None, new_york, local, "Asia/Tokyo", "10:00"),
        (&plain, None, new_york, local, "America/New_York", "23:00"),
        (&plain, None, new_york, fixed, "America/New_York", "17:00"),
        (&plain, None, None, fixed, "+02:00", "17:00"),
        (&plain, None, None, "2026-06-20T19:00:00Z", "+00:00", "19:00"),
        (&plain, None, None, "2026-06-20", "UTC", "00:00"),
    ];
    for (policy, own, partner, date, zone, anchor) in cases {
        let facts = Booked {
            time_zone: own,
            partner_time_zone: partner,
            ..booked(date)
        };
        let policy = Some((policy.clone(), PolicySource::Booking));
        let terms = Terms::freeze(policy, &facts, MissingZone::AssumeUtc).unwrap();
        assert_eq!(
            (terms.time_zone.to_string().as_str(), terms.anchor),
            (zone, at(&format!("2026-06-20T{anchor}:00Z"))),
            "{date}"
        );
        let assumed = terms.assumptions.contains(&Assumption::TimeZoneAssumedUtc);
        assert_eq!(assumed, zone == "UTC");
    }
}

#[test]
fn freezing_refuses_what_cannot_be_evaluated() {
    let facts = booked("2026-06-20T19:00:00");
    let refused = |policy, facts: &Booked<'_>| {
        Terms::freeze(policy, facts, MissingZone::Refuse)
            .unwrap_err()
            .code
    };
    assert_eq!(refused(template("firm"), &facts), "time_zone_required");
    let unknown = Booked {
        time_zone: Some("Europe/Berlln"),
        ..facts
    };
    let refusal = Terms::freeze(template("firm"), &unknown, MissingZone::Refuse).unwrap_err();
    assert_eq!(refusal.code, "time_zone_unknown");
    let said = "The booking's time zone \"Europe/Berlln\" is not an IANA time zone.";
    assert_eq!(refusal.message, said);
    let zoned = booked("2026-06-20T19:00:00Z");
    assert_eq!(
        refused(template("hotel_guaranteed_6pm"), &zoned),
        "policy_currency_mismatch"
    );
    let paid = Some(Amount::parse("1", Currency::parse("EUR").unwrap()).unwrap());
    assert_eq!(
        refused(None, &Booked { paid, ..zoned }),
        "currency_mismatch"
    );
}

#[test]
fn a_library_default_is_reported() {
    let policy = Policy::template_for_event_type("Bar Mitzvah").clone();
    let terms = Terms::freeze(
        Some((policy, PolicySource::Library)),
        &booked("2026-06-20T19:00:00Z"),
        MissingZone::Refuse,
    )
    .unwrap();
    let evaluation = evaluated(&terms, &ask("2026-02-01T00:00:00Z"));
    assert_eq!(
        evaluation.assumptions,
        [Assumption::PolicyAssumedFromLibrary]
    );
    assert_eq!(
        evaluation.policy.unwrap().policy_source,
        PolicySource::Library
    );
}

#[test]
fn without_a_policy_nothing_is_evaluable_and_nothing_canceled() {
    let terms = Terms::freeze(None, &booked("2026-06-20T19:00:00Z"), MissingZone::Refuse).unwrap();
    terms.verify().unwrap();
    let evaluation = evaluated(&terms, &ask("2026-02-01T00:00:00Z"));
    assert_eq!(evaluation.evaluation_status, EvaluationStatus::NotEvaluable);
    assert_eq!(evaluation.resolution_path, ResolutionPath::None);
    assert_eq!((evaluation.refund, &evaluation.policy), (None, &None));
    let cancel = Question {
        mode: Mode::Cancel,
        ..ask("2026-02-01T00:00:00Z")
    };
    assert_eq!(refused(&terms, &cancel), "policy_missing");
}

#[test]
fn after_the_claim_window_an_evaluation_is_closed() {
    let facts = booked("2026-06-20T19:00:00Z");
    let terms = terms_of("firm", &facts);
    assert_eq!(terms.claim_until, at("2026-07-04T19:00:00Z"));
    let closed = evaluated(&terms, &ask("2026-07-04T19:00:01Z"));
    assert_eq!(closed.evaluation_status, EvaluationStatus::Closed);
    assert_eq!(closed.resolution_path, ResolutionPath::None);
    assert_eq!(closed.matched_rule, None);
    // A booking recorded long after its event has no schedule at all.
    let late = Booked {
        created_at: at("2027-01-01T00:00:00Z"),
        ..facts
    };
    let terms = terms_of("firm", &late);
    assert_eq!(terms.schedule, []);
    let closed = evaluated(&terms, &ask("2027-01-02T00:00:00Z"));
    assert_eq!(closed.evaluation_status, EvaluationStatus::Closed);
}

#[test]
fn a_booking_can_be_evaluated_in_the_second_of_its_creation() {
    let terms = firm();
    let evaluation = evaluated(&terms, &ask("2026-01-10T15:00:00.751Z"));
    assert_eq!(evaluation.matched_rule, Some(Rule::Grace));
}

#[test]
fn without_an_instant_a_cancellation_is_never_before_the_booking() {
    let terms = firm();
    for received in ["2026-01-10T14:59:59.900Z", "2026-01-10T14:00:00Z"] {
        for mode in [Mode::Evaluate, Mode::Cancel] {
            let question = Question {
                mode,
                ..ask(received)
            };
            let evaluation = evaluated(&terms, &question);
            assert_eq!(evaluation.as_of, terms.created_at);
            assert_eq!(evaluation.evaluated_at, at(received));
            assert_eq!(evaluation.matched_rule, Some(Rule::Grace));
            let named = Question {
                at: Some(at(received)),
                ..question
            };
            let refused = evaluate(&protected(&terms), &named).unwrap_err();
            assert_eq!(refused.code, "effective_at_before_booking");
        }
    }
}

#[test]
fn an_explanation_names_the_deadline_on_both_clocks_and_both_amounts() {
    let terms = firm_in_new_york();
    let cancel = Question {
        mode: Mode::Cancel,
        reason: Some(Reason::ChangedPlans),
        ..ask("2026-06-01T00:00:00Z")
    };
    let evaluation = evaluated(&terms, &cancel);
    assert_eq!(
        evaluation.explanation.text,
        "Organizer canceled 19 days 23 hours before the event. The deadline for this step was 2026-06-13 19:00 \
         America/New_York (2026-06-13T23:00:00Z). 50 % applies: USD 500.00 is returned, USD 500.00 is kept."
    );
    assert_eq!(
        evaluation.explanation.params["deadlineLocal"],
        "2026-06-13 19:00"
    );
    let hash = &terms.policy_hash().unwrap()[..19];
    assert_eq!(
        evaluation.summary(),
        format!(
            "Canceled by organizer 19d 23h before the event: partial_refund. Refund USD 500.00, kept USD 500.00 (firm v1, organizer.tiers[1], policy {hash})."
        )
    );
}

#[test]
fn the_next_change_is_the_first_second_of_another_refund() {
    let terms = firm_in_new_york();
    // Grace and the first tier both return everything: the change is the end of the tier.
    for received in ["2026-01-10T16:00:00Z", "2026-05-21T23:00:00Z"] {
        let next = evaluated(&terms, &ask(received)).next_change.unwrap();
        assert_eq!(
            (next.at, next.then_refund),
            (at("2026-05-21T23:00:01Z"), Some(usd("500")))
        );
    }
    let last = evaluated(&terms, &ask("2026-06-20T00:00:00Z"));
    assert_eq!(
        last.next_change, None,
        "late and no-show both return nothing"
    );
}

#[test]
fn a_review_shows_what_could_be_decided() {
    let terms = firm_in_new_york();
    let claim = Question {
        mode: Mode::Cancel,
        reason: Some(Reason::ForceMajeure),
        ..ask("2026-06-19T12:00:00Z")
    };
    let evaluation = evaluated(&terms, &claim);
    assert_eq!(evaluation.review_reasons, [ReviewReason::EvidenceMissing]);
    assert_eq!((evaluation.refund, evaluation.penalty), (None, None));
    let shown: Vec<_> = evaluation
        .alternatives
        .iter()
        .map(|a| (a.rule_id, a.refund))
        .collect();
    assert_eq!(
        shown,
        [
            (Some(Rule::ForceMajeure), Some(usd("1000"))),
            (Some(Rule::Late), Some(usd("0")))
        ]
    );

    let backdated = Question {
        mode: Mode::Cancel,
        at: Some(at("2026-05-20T12:00:00Z")),
        ..ask("2026-05-23T12:00:00Z")
    };
    let evaluation = evaluated(&terms, &backdated);
    let shown: Vec<_> = evaluation
        .alternatives
        .iter()
        .map(|a| (a.rule_id, a.refund))
        .collect();
    assert_eq!(
        shown,
        [
            (Some(Rule::Tier(0)), Some(usd("1000"))),
            (Some(Rule::Tier(1)), Some(usd("500")))
        ]
    );

    let terms = terms_of("case_by_case", &booked_in_new_york());
    let evaluation = evaluated(&terms, &ask("2026-05-20T12:00:00Z"));
    assert_eq!(evaluation.explanation.code, "MANUAL_ZONE");
    let shown: Vec<_> = evaluation.alternatives.iter().map(|a| a.refund).collect();
    assert_eq!(shown, [Some(usd("1000")), Some(usd("0"))]);
}

#[test]
fn an_alternative_has_no_sum_where_a_person_had_to_decide_before_a_move() {
    let terms = own(
        r#"{"policyId":"p","organizer":{"tiers":[{"before":"P7D","outcome":{"refundBps":10000}}],"late":{"manual":true}}}"#,
    );
    let reschedules = [PastReschedule::of(&terms, &[], at("2026-06-17T19:00:00Z"))];
    let date = EventDate::parse("2026-08-20T19:00:00Z").unwrap();
    let terms = terms.rescheduled(date, None).unwrap();
    let subject = Subject {
        reschedules: &reschedules,
        ..protected(&terms)
    };
    let question = Question {
        reason: Some(Reason::ForceMajeure),
        ..ask("2026-06-18T00:00:00Z")
    };
    let shown = |evaluation: &Evaluation| -> Vec<_> {
        let all = evaluation.alternatives.iter();
        all.map(|a| (a.rule_id, a.resolution_path, a.refund))
            .collect()
    };
    let proven = (
        Some(Rule::ForceMajeure),
        ResolutionPath::FullRefund,
        Some(usd("1000")),
    );
    let by_itself = (Some(Rule::Tier(0)), ResolutionPath::ManualReview, None);
    let latest = evaluate(&subject, &question).unwrap();
    assert_eq!(shown(&latest), [proven, by_itself]);
    // The first release recorded the sum of the step alone, and was the same otherwise.
    let first = evaluate_as_first(&subject, &question).unwrap();
    let by_step_alone = (
        Some(Rule::Tier(0)),
        ResolutionPath::FullRefund,
        Some(usd("1000")),
    );
    assert_eq!(shown(&first), [proven, by_step_alone]);
    let alternatives = latest.alternatives.clone();
    assert_eq!(
        Evaluation {
            alternatives,
            ..first
        },
        latest
    );
}

#[test]
fn a_deposit_that_is_not_refundable_is_the_least_an_organizer_loses() {
    let terms = own(
        r#"{"policyId":"p","deposit":{"bps":2500,"nonRefundable":true},"organizer":{"tiers":[{"before":"P7D","outcome":{"refundBps":10000}}],"late":{"refundBps":0}}}"#,
    );
    let organizer = evaluated(&terms, &ask("2026-03-01T00:00:00Z"));
    assert_eq!(
        (organizer.refund, organizer.explanation.code.as_str()),
        (Some(usd("750")), "DEPOSIT_FLOOR")
    );
    assert_eq!(organizer.schedule[0].refund, Some(usd("750")));
    let talent = Question {
        actor: Actor::Talent,
        ..ask("2026-03-01T00:00:00Z")
    };
    assert_eq!(evaluated(&terms, &talent).refund, Some(usd("1000")));
}

#[test]
fn an_agreement_is_what_both_sides_say_and_nothing_more_is_owed() {
    let facts = Booked {
        paid: Some(usd("300")),
        ..booked("2026-06-20T19:00:00Z")
    };
    let terms = terms_of("firm", &facts);
    let agreed = |refund: Option<Amount>| {
        let question = Question {
            mode: Mode::Cancel,
            actor: Actor::Mutual,
            agreed_refund: refund,
            ..ask("2026-06-19T00:00:00Z")
        };
        evaluate(&protected(&terms), &question)
    };
    let evaluation = agreed(Some(usd("100"))).unwrap();
    assert_eq!(evaluation.resolution_path, ResolutionPath::MutualAgreement);
    assert_eq!(
        (
            evaluation.refund,
            evaluation.penalty,
            evaluation.balance_due
        ),
        (Some(usd("100")), Some(usd("200")), Some(usd("0")))
    );
    assert!(agreed(Some(usd("300"))).is_ok(), "all that was paid");
    assert_eq!(agreed(None).unwrap_err().code, "agreed_refund_required");
    assert_eq!(
        agreed(Some(usd("300.01"))).unwrap_err().code,
        "agreed_refund_exceeds_paid"
    );
    let euros = Amount::parse("1", Currency::parse("EUR").unwrap()).unwrap();
    assert_eq!(agreed(Some(euros)).unwrap_err().code, "currency_mismatch");
}

#[test]
fn compensation_comes_on_top_of_the_refund() {
    let terms = own(
        r#"{"policyId":"p","organizer":{"late":{"refundBps":0}},"talent":{"cancel":{"refundBps":10000,"compensationBps":2000}}}"#,
    );
    let question = Question {
        actor: Actor::Talent,
        ..ask("2026-03-01T00:00:00Z")
    };
    let evaluation = evaluated(&terms, &question);
    assert_eq!(
        evaluation.resolution_path,
        ResolutionPath::RefundWithCompensation
    );
    assert_eq!(
        (evaluation.refund, evaluation.compensation),
        (Some(usd("1000")), Some(usd("200")))
    );
}

#[test]
fn terms_that_were_changed_are_found_out() {
    let terms = firm();
    let sound = serde_json::to_value(&terms).unwrap();
    type Change = fn(&mut Value);
    #[rustfmt::skip]
    let changes: [(&str, Change); 4] = [
        ("terms_policy_hash", |v| { v["policy"]["document"]["organizer"]["late"] = json!({"refundBps": 1}) }),
        ("terms_schedule", |v| { v["anchor"] = json!("2026-06-21T19:00:00Z") }),
        ("terms_schedule", |v| { v["schedule"][1]["to"] = json!("2026-06-01T00:00:00Z") }),
        ("currency_mismatch", |v| v["paid"] = json!({"amount": "1", "minorUnits": 1, "currency": "JPY"})),
    ];
    for (code, change) in changes {
        let mut json = sound.clone();
        change(&mut json);
        let changed: Terms = serde_json::from_value(json).unwrap();
        assert_eq!(changed.verify().unwrap_err().code, code);
    }
    // A rule that the policy does not have is refused, not looked up.
    let mut json = sound;
    json["schedule"][1]["ruleId"] = json!("organizer.tiers[9]");
    let changed: Terms = serde_json::from_value(json).unwrap();
    let refusal = evaluate(&protected(&changed), &ask("2026-03-01T00:00:00Z")).unwrap_err();
    assert_eq!(refusal.code, "terms_inconsistent");
}
