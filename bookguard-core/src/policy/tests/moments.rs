//! Which instant is judged, and what a second decides there.

use super::*;
use crate::policy::{Actor, Reason};

/// For an event on 20 June 2026, 19:00, whose zone nobody named; the first deadline of `firm` is thirty days before.
fn firm_in_an_unknown_zone() -> Terms {
    let booked = booked("2026-06-20T19:00:00");
    Terms::freeze(template("firm"), &booked, MissingZone::AssumeUtc).unwrap()
}

#[test]
fn only_the_evaluation_of_a_named_instant_is_simulated() {
    let named = Some(at("2026-03-01T00:00:00Z"));
    for (mode, instant, simulated) in [
        (Mode::Evaluate, None, false),
        (Mode::Evaluate, named, true),
        (Mode::Cancel, None, false),
        (Mode::Cancel, named, false),
    ] {
        let question = Question {
            mode,
            at: instant,
            ..ask("2026-03-01T00:30:00Z")
        };
        let evaluation = evaluated(&firm(), &question);
        assert_eq!(evaluation.simulated, simulated, "{mode:?} {instant:?}");
    }
}

#[test]
fn an_instant_is_refused_from_the_first_second_that_cannot_be() {
    const NOW: &str = "2026-06-01T00:00:00Z";
    let no_show = Some(Reason::NoShow);
    #[rustfmt::skip]
    let cases = [
        (Mode::Cancel, None, "2026-06-01T00:05:00Z", None),
        (Mode::Cancel, None, "2026-06-01T00:05:01Z", Some(("effective_at_in_future", "instant 2026-06-01"))),
        (Mode::Evaluate, None, "2026-06-01T00:05:01Z", None),
        (Mode::Evaluate, None, "2026-01-10T15:00:00Z", None),
        (Mode::Evaluate, None, "2026-01-10T14:59:59Z", Some(("effective_at_before_booking", "instant 2026-01-10"))),
        (Mode::Cancel, None, "2026-01-10T14:59:59Z", Some(("effective_at_before_booking", "instant 2026-01-10"))),
        (Mode::Evaluate, no_show, "2026-06-20T18:59:59Z", Some(("no_show_before_event", "by 2026-06-20"))),
        (Mode::Evaluate, no_show, "2026-06-20T19:00:00Z", None),
    ];
    for (mode, reason, instant, refused) in cases {
        let question = Question {
            mode,
            reason,
            at: Some(at(instant)),
            ..ask(NOW)
        };
        let answer = evaluate(&protected(&firm()), &question);
        let Some((code, named)) = refused else {
            assert!(answer.is_ok(), "{mode:?} {instant}: {answer:?}");
            continue;
        };
        let error = answer.unwrap_err();
        assert_eq!(error.code, code, "{mode:?} {instant}");
        assert!(error.message.contains(named), "{error}");
    }
}

#[test]
fn an_instant_after_receipt_is_refused_where_it_makes_a_difference() {
    let terms = firm_in_an_unknown_zone();
    // In the zones of the earth, the deadline lies between 05:00 on 21 May and 07:00 on the next day; in UTC at 19:00.
    for (received, instant, refused) in [
        ("2026-05-21T04:59:59Z", "2026-05-21T05:00:00Z", false),
        ("2026-05-21T05:00:00Z", "2026-05-21T05:00:01Z", true),
        ("2026-05-21T05:00:01Z", "2026-05-21T05:00:02Z", false),
        ("2026-05-21T19:00:00Z", "2026-05-21T19:00:01Z", true),
        ("2026-05-22T07:00:00Z", "2026-05-22T07:00:01Z", true),
    ] {
        let question = Question {
            mode: Mode::Cancel,
            at: Some(at(instant)),
            ..ask(received)
        };
        let answer = evaluate_now(&protected(&terms), &question);
        let code = answer.err().map(|refusal| refusal.code);
        let expected = refused.then_some("effective_at_in_future");
        assert_eq!(code.as_deref(), expected, "{instant}");
        let only_asked = Question {
            mode: Mode::Evaluate,
            ..question
        };
        assert!(evaluate_now(&protected(&terms), &only_asked).is_ok());
    }
}

#[test]
fn nothing_that_is_asked_now_is_dated_before_the_last_move() {
    let terms = firm();
    let moves = [PastReschedule::of(&terms, &[], at("2026-03-01T00:00:00Z"))];
    let booking = Subject {
        reschedules: &moves,
        ..protected(&terms)
    };
    for (instant, refused) in [
        ("2026-02-28T23:59:59.999Z", true),
        ("2026-03-01T00:00:00Z", false),
    ] {
        for mode in [Mode::Evaluate, Mode::Cancel] {
            let question = Question {
                mode,
                at: Some(at(instant)),
                ..ask("2026-03-02T00:00:00Z")
            };
            assert!(evaluate(&booking, &question).is_ok(), "{mode:?} {instant}");
            let code = evaluate_now(&booking, &question).err();
            let code = code.map(|refusal| refusal.code);
            let expected = refused.then_some("effective_at_before_reschedule");
            assert_eq!(code.as_deref(), expected, "{mode:?} {instant}");
        }
    }
}

#[test]
fn what_is_backdated_across_a_deadline_says_so_and_beyond_the_tolerance_needs_evidence() {
    // The deadline is at 19:00 on 21 May, and an hour is tolerated.
    #[rustfmt::skip]
    let cases = [
        ("2026-05-21T18:30:00Z", "2026-05-21T19:30:00Z", 0, false, true),
        // Within the tolerance, on one side of the deadline.
        ("2026-05-21T18:00:00Z", "2026-05-21T18:59:59Z", 0, false, false),
        ("2026-05-21T18:30:00Z", "2026-05-21T19:30:01Z", 0, true, true),
        ("2026-05-21T18:30:00Z", "2026-05-21T19:30:01Z", 1, false, true),
        ("2026-05-22T00:00:00Z", "2026-06-01T00:00:00Z", 0, false, true),
    ];
    for (instant, received, evidence, needs_a_person, is_backdated) in cases {
        let question = Question {
            mode: Mode::Cancel,
            at: Some(at(instant)),
            evidence,
            ..ask(received)
        };
        let evaluation = evaluated(&firm(), &question);
        let reviews = &evaluation.review_reasons;
        let flagged = reviews.contains(&ReviewReason::BackdatedAcrossDeadline);
        assert_eq!(flagged, needs_a_person, "{instant} received {received}");
        let said = evaluation.assumptions.contains(&Assumption::Backdated);
        assert_eq!(said, is_backdated && !needs_a_person, "{received}");
    }
}

#[test]
fn after_the_claim_window_what_is_dated_back_into_it_needs_evidence_whoever_cancels() {
    use Actor::{Mutual, Organizer, Partner, Talent};
    let terms = own(
        r#"{"policyId":"p","claimWindow":"PT0M","backdateTolerance":"PT2M","organizer":{"late":{"refundBps":0}}}"#,
    );
    let storm = Some(Reason::ForceMajeure);
    let last = "2026-06-20T19:00:00Z";
    #[rustfmt::skip]
    let cases = [
        (Organizer, None, "2026-06-20T19:02:01Z", 0, true),
        (Talent, None, "2026-06-20T19:02:01Z", 0, true),
        (Partner, None, "2026-06-20T19:02:01Z", 0, true),
        (Talent, storm, "2026-06-20T19:02:01Z", 1, false),
        (Talent, None, "2026-06-20T19:02:01Z", 1, false),
        (Talent, None, "2026-06-20T19:02:00Z", 0, false),
        // Both sides know when notice was given.
        (Mutual, None, "2026-06-20T19:02:01Z", 0, false),
    ];
    for (actor, reason, received, evidence, needs_a_person) in cases {
        let question = Question {
            mode: Mode::Cancel,
            actor,
            reason,
            at: Some(at(last)),
            evidence,
            agreed_refund: (actor == Mutual).then(|| usd("400")),
            ..ask(received)
        };
        let evaluation = evaluated(&terms, &question);
        let expected: &[ReviewReason] = match needs_a_person {
            true => &[ReviewReason::BackdatedAcrossDeadline],
            false => &[],
        };
        assert_eq!(evaluation.review_reasons, expected, "{actor} {received}");
        let said = evaluation.assumptions.contains(&Assumption::Backdated);
        assert_eq!(said, !needs_a_person, "{actor} {received}");
    }
    // Receipt alone gives nothing.
    let question = Question {
        mode: Mode::Cancel,
        actor: Talent,
        at: Some(at(last)),
        ..ask("2026-06-20T19:02:01Z")
    };
    let alternatives = evaluated(&terms, &question).alternatives;
    let shown: Vec<_> = alternatives.iter().map(|a| (a.rule_id, a.refund)).collect();
    let by_notice = (Some(Rule::TalentCancel), Some(usd("1000")));
    assert_eq!(shown, [by_notice, (None, None)]);
    // The first release took the rule of a talent for one that applies for ever.
    let first = evaluate_as_first(&protected(&terms), &question).unwrap();
    assert_eq!(first.evaluation_status, EvaluationStatus::Final);
    // What took effect later is refused, and the refusal names what is left.
    let late = Question {
        at: None,
        ..question
    };
    let refusal = evaluate(&protected(&terms), &late).unwrap_err();
    assert_eq!(refusal.code, "claim_window_closed");
    assert!(refusal.message.contains("took effect by then"), "{refusal}");
}

#[test]
fn once_it_is_closed_the_schedule_still_has_what_a_move_kept() {
    let former = firm();
    let moves = [PastReschedule::of(&former, &[], at("2026-06-01T00:00:00Z"))];
    let date = EventDate::parse("2026-12-20T19:00:00Z").unwrap();
    let terms = former.rescheduled(date, None).unwrap();
    let booking = Subject {
        reschedules: &moves,
        ..protected(&terms)
    };
    let open = evaluate(&booking, &ask("2027-01-03T19:00:00Z")).unwrap();
    let closing = ask("2027-01-03T19:00:01Z");
    let closed = evaluate(&booking, &closing).unwrap();
    assert_eq!(open.evaluation_status, EvaluationStatus::Evaluated);
    assert_eq!(closed.evaluation_status, EvaluationStatus::Closed);
    let mut steps = open.schedule.iter();
    let first_tier = steps.find(|step| step.rule_id == Rule::Tier(0)).unwrap();
    assert_eq!(first_tier.penalty, Some(usd("500")));
    assert_eq!(closed.schedule, open.schedule);
    // The first release showed the steps alone, and was the same otherwise.
    let first = evaluate_as_first(&booking, &closing).unwrap();
    assert_eq!(first.schedule, terms.schedule);
    let schedule = closed.schedule.clone();
    assert_eq!(Evaluation { schedule, ..first }, closed);
}

#[test]
fn time_matters_only_where_it_decides() {
    use Actor::{Organizer, Partner, Talent};
    let (evaluate, cancel) = (Mode::Evaluate, Mode::Cancel);
    // In the zones of the earth, the deadline lies between 05:00 on 21 May and 07:00 on the next day.
    #[rustfmt::skip]
    let cases = [
        (Organizer, None, evaluate, "2026-05-21T05:00:00Z", false, true),
        (Organizer, None, evaluate, "2026-05-21T05:00:01Z", true, true),
        (Organizer, None, evaluate, "2026-05-22T07:00:00Z", true, true),
        (Organizer, None, evaluate, "2026-05-22T07:00:01Z", false, true),
        (Organizer, None, cancel, "2026-05-21T12:00:00Z", true, false),
        (Partner, Some(Reason::NonPayment), evaluate, "2026-05-21T12:00:00Z", true, true),
        (Organizer, Some(Reason::ForceMajeure), evaluate, "2026-05-21T12:00:00Z", false, false),
        (Talent, None, evaluate, "2026-05-21T12:00:00Z", false, false),
    ];
    for (actor, reason, mode, instant, zone_matters, changes) in cases {
        let question = Question {
            mode,
            actor,
            reason,
            ..ask(instant)
        };
        let evaluation = evaluated(&firm_in_an_unknown_zone(), &question);
        let reviews = &evaluation.review_reasons;
        let flagged = reviews.contains(&ReviewReason::TimeZoneAmbiguous);
        assert_eq!(
            flagged, zone_matters,
            "{actor} {reason:?} {mode:?} {instant}"
        );
        let change = evaluation.next_change;
        assert_eq!(change.is_some(), changes, "{actor} {reason:?} {mode:?}");
    }
}
