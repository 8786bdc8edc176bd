//! Changes of date as tables, on bookings made by hand.

use crate::evidence::FrozenTerms;
use crate::features::fixture::*;
use crate::features::reschedules::{RescheduleBooking, RescheduleRequest, Rescheduled};
use crate::ledger::LeafKind;
use crate::policy::{Actor, EventDate, Reason};

/// Between the tiers of `firm`: half of USD 1,200.50 is kept.
const BETWEEN: &str = "2026-06-01T00:00:00.500Z";
const HALF: i64 = 60_025;

#[test]
fn a_change_of_date_is_one_entry_with_the_new_terms_and_no_event() {
    for status in [BookingStatus::Created, BookingStatus::Protected] {
        let mut work = work_with(state(Some("firm"), status));
        let former = work.bookings[&booking_id()].terms.clone();
        let (changes, answer) =
            reschedule(&work, BETWEEN, ask_to_reschedule("2026-10-20T19:00")).unwrap();
        let [entry] = entries(&changes)[..] else {
            panic!("{changes:?}")
        };
        assert_eq!(entry.fact.kind, LeafKind::BookingRescheduled);
        assert_eq!((changes.len(), entry.index, entry.seq), (2, 10, 1));
        assert_eq!(answer.event_date, at("2026-10-20T23:00:00Z"));
        assert_eq!(answer.previous_event_date, "2026-06-20T19:00:00");
        assert_eq!(answer.time_zone.as_deref(), Some("America/New_York"));
        assert_eq!(answer.rescheduled_at, at(BETWEEN));
        assert_eq!(answer.at, at(BETWEEN).floor_to_second());
        assert_eq!(answer.reached.unwrap().minor(), HALF);
        // All steps after grace cost at least that from now on, including the first.
        let kept: Vec<i64> = answer
            .schedule
            .iter()
            .map(|s| s.penalty.unwrap().minor())
            .collect();
        assert_eq!(kept, [0, HALF, HALF, 120_050, 120_050]);
        let receipt = answer.receipt.as_ref().unwrap();
        assert_eq!((receipt.leaf_index, tree_of(receipt)), (10, HEAD));

        apply_all(&mut work, &changes);
        let state = &work.bookings[&booking_id()];
        assert_eq!(state.booking.status, status);
        assert_eq!(state.booking.event_date, at("2026-10-20T23:00:00Z"));
        assert_eq!(state.booking.rescheduled_at, Some(at(BETWEEN)));
        assert_eq!(
            (state.terms.anchor, work.chains[&booking_id()].entries),
            (state.booking.event_date, 2)
        );
        assert_eq!(state.terms.policy, former.policy);
        let first = state.first_terms.as_ref().unwrap();
        assert_eq!(first.date, former.event_date);
        assert_eq!(state.first_date.0, former.anchor);
        if status == BookingStatus::Created {
            let (changes, _) = done(&mut work.clone(), &command(protecting()));
            let entry = entries(&changes)[0];
            let hash = FrozenTerms::of(&state.terms).hash();
            assert!(entry.fact.members.contains(&hash), "{hash}");
        }

        // What follows is judged by the new date and by what was reached before.
        let cancel = canceling(ask_to_cancel(Actor::Organizer, Some(Reason::Illness)));
        let resolution = apply(&mut work, "2026-07-01T00:00:00Z", cancel);
        assert_eq!(resolution.evaluation.explanation.code, "RESCHEDULE_FLOOR");
        assert_eq!(resolution.evaluation.penalty.unwrap().minor(), HALF);
        assert_eq!(resolution.evaluation.schedule, answer.schedule);
        assert_eq!(resolution.evaluation.anchor_utc, at("2026-10-20T23:00:00Z"));
    }
}

#[test]
fn the_latest_change_repeats_and_a_former_one_is_a_new_one() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let agreed = Some(at("2026-05-31T23:30:00Z"));
    let first = RescheduleRequest {
        at: agreed,
        ..ask_to_reschedule("2026-10-20T19:00:00")
    };
    let made = rescheduled(&mut work, BETWEEN, first.clone());
    for again in [
        first.clone(),
        RescheduleRequest {
            time_zone: Some("America/New_York".to_owned()),
            dry_run: true,
            ..first.clone()
        },
    ] {
        let is_dry = again.dry_run;
        // However late the repeat comes.
        let again = RescheduleBooking {
            seed: [9; 32],
            ..moving(again)
        };
        let (changes, repeated) = decided(&work, "2030-01-01T00:00:00Z", again).unwrap();
        assert!(changes.is_empty());
        let expected = Rescheduled {
            dry_run: is_dry,
            receipt: made.receipt.clone().filter(|_| !is_dry),
            ..made.clone()
        };
        assert_eq!(repeated, expected);
    }
    for other in [
        RescheduleRequest {
            at: None,
            ..first.clone()
        },
        RescheduleRequest {
            agreed_by: vec![Actor::Organizer, Actor::Talent, Actor::Partner],
            ..first.clone()
        },
    ] {
        let error = reschedule(&work, BETWEEN, other).unwrap_err();
        assert_eq!(error.code, "event_date_unchanged");
    }
    // A change of zone moves the deadlines; two opposite changes of date move the event.
    let zone = RescheduleRequest {
        time_zone: Some("America/Toronto".to_owned()),
        at: None,
        ..first.clone()
    };
    rescheduled(&mut work, "2026-06-02T00:00:00Z", zone);
    rescheduled(
        &mut work,
        "2026-06-03T00:00:00Z",
        ask_to_reschedule("2026-06-20T19:00"),
    );
    rescheduled(
        &mut work,
        "2026-06-04T00:00:00Z",
        ask_to_reschedule("2026-10-20T19:00"),
    );
    let state = &work.bookings[&booking_id()];
    assert_eq!(state.booking.time_zone.as_deref(), Some("America/Toronto"));
    let reached = state.moves.iter().map(|a| a.reached.unwrap().minor());
    // Once half was reached, no later change of date says less.
    assert_eq!(reached.collect::<Vec<_>>(), [HALF; 4]);
    let kept = &state.first_date.1;
    assert_eq!(kept.as_deref(), Some("America/New_York"));
}

#[test]
fn what_cannot_be_moved_is_refused_by_its_code() {
    let work = work_with(state(Some("firm"), BookingStatus::Protected));
    let with = |change: &dyn Fn(&mut RescheduleRequest)| {
        let mut ask = ask_to_reschedule("2026-10-20T19:00:00");
        change(&mut ask);
        ask
    };
    let agreed = |text: &'static str| with(&|ask| ask.at = Some(at(text)));
    #[rustfmt::skip]
    let cases = [
        (BETWEEN, ask_to_reschedule("2026-06-20T19:00:00"), "event_date_unchanged"),
        (BETWEEN, ask_to_reschedule("2026-06-20T19:00:00-04:00"), "event_date_unchanged"),
        (BETWEEN, ask_to_reschedule("2026-05-31T19:59:59"), "event_date_passed"),
        (BETWEEN, ask_to_reschedule("0001-01-01"), "event_date_passed"),
        (BETWEEN, agreed("2026-06-01T00:05:01Z"), "rescheduled_in_future"),
        // Within the minutes left for clocks that differ, but behind a deadline that has not passed.
        ("2026-05-21T23:00:00.500Z", agreed("2026-05-21T23:00:01Z"), "rescheduled_in_future"),
        (BETWEEN, agreed("2026-01-10T14:59:59Z"), "rescheduled_before_booking"),
        (BETWEEN, agreed("2026-05-21T23:00:00Z"), "backdated_across_deadline"),
        (BETWEEN, with(&|ask| ask.time_zone = Some("Mars/Olympus".to_owned())), "time_zone_unknown"),
        ("2026-07-04T23:00:01Z", ask_to_reschedule("2026-10-20"), "claim_window_closed"),
    ];
    for (when, ask, code) in cases {
        let error = reschedule(&work, when, ask).unwrap_err();
        assert_eq!(error.code, code, "{when}");
    }
    for (when, ask) in [
        (BETWEEN, agreed("2026-06-01T00:05:00Z")),
        // In the second of the booking.
        ("2026-01-10T15:30:00Z", agreed("2026-01-10T15:00:00Z")),
        // Days ago, but in the same step.
        (BETWEEN, agreed("2026-05-21T23:00:01Z")),
        // A deadline lies between, but no more than the hour that the policy tolerates.
        ("2026-05-21T23:30:00Z", agreed("2026-05-21T22:30:00Z")),
        // Another node's clock is behind the one that recorded the booking.
        ("2026-01-10T14:59:00Z", with(&|_| ())),
        ("2026-01-10T14:59:00Z", agreed("2026-01-10T15:00:00Z")),
        // The evening was called off, and both sides agree on another one.
        ("2026-07-04T23:00:00Z", with(&|_| ())),
        (BETWEEN, self::ask_to_reschedule("9999-12-31T23:59:59")),
    ] {
        reschedule(&work, when, ask).unwrap();
    }
    let misspelled = with(&|ask| ask.time_zone = Some("Europe/Berlln".to_owned()));
    let error = reschedule(&work, BETWEEN, misspelled).unwrap_err();
    assert_eq!(error.details[0].fix, "Did you mean \"Europe/Berlin\"?");
    let mut moved = work_with(state(Some("firm"), BookingStatus::Created));
    rescheduled(&mut moved, BETWEEN, ask_to_reschedule("2026-10-20T19:00"));
    let earlier = RescheduleRequest {
        at: Some(at("2026-05-31T23:59:59Z")),
        ..ask_to_reschedule("2026-11-20T19:00")
    };
    let error = reschedule(&moved, BETWEEN, earlier).unwrap_err();
    assert_eq!(error.code, "rescheduled_out_of_order");
    assert_eq!(error.details[0].pointer, "/at");

    let mut canceled = work_with(state(Some("firm"), BookingStatus::Created));
    apply(
        &mut canceled,
        BETWEEN,
        canceling(ask_to_cancel(Actor::Talent, None)),
    );
    let error = reschedule(&canceled, BETWEEN, ask_to_reschedule("2026-10-20")).unwrap_err();
    assert_eq!(error.code, "booking_canceled");

    let foreign = RescheduleBooking {
        partner_id: id(77),
        ..moving(ask_to_reschedule("2026-10-20"))
    };
    let unknown = RescheduleBooking {
        booking_id: id(78),
        ..moving(ask_to_reschedule("2026-10-20"))
    };
    let error = |command| decided(&work, BETWEEN, command).unwrap_err();
    assert_eq!(error(foreign), error(unknown));
}

#[test]
fn a_date_without_offset_needs_a_zone_that_somebody_named() {
    let mut state = state(None, BookingStatus::Created);
    let zoneless = crate::policy::Booked {
        event_date: EventDate::parse("2026-06-20T19:00:00-04:00").unwrap(),
        time_zone: None,
        partner_time_zone: None,
        value: state.terms.value,
        paid: None,
        created_at: state.terms.created_at,
    };
    let refuse = crate::policy::MissingZone::Refuse;
    state.terms = crate::policy::Terms::freeze(None, &zoneless, refuse).unwrap();
    state.state.booking.time_zone = None;
    let work = work_with(state);
    let error = reschedule(&work, BETWEEN, ask_to_reschedule("2026-12-20T19:00")).unwrap_err();
    assert_eq!(error.code, "time_zone_required");
    assert_eq!(error.details[0].pointer, "/timeZone");
    let (_, answer) = reschedule(
        &work,
        BETWEEN,
        ask_to_reschedule("2026-12-20T19:00:00-05:00"),
    )
    .unwrap();
    assert_eq!(answer.event_date, at("2026-12-21T00:00:00Z"));
    assert_eq!((answer.time_zone, answer.schedule), (None, Vec::new()));
    // Without a policy, nothing is reached, and there is no claim window after the start.
    assert_eq!(answer.reached.unwrap().minor(), 0);
    let late = reschedule(
        &work,
        "2026-06-20T23:00:01Z",
        ask_to_reschedule("2026-12-20T19:00:00-05:00"),
    );
    assert_eq!(late.unwrap_err().code, "claim_window_closed");
}

#[test]
fn a_dry_run_says_what_would_come_of_it_and_changes_nothing() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Created));
    let dry = RescheduleRequest {
        dry_run: true,
        ..ask_to_reschedule("2026-10-20T19:00")
    };
    let (changes, shown) = reschedule(&work, BETWEEN, dry).unwrap();
    assert!(changes.is_empty() && shown.dry_run && shown.receipt.is_none());
    let made = rescheduled(&mut work, BETWEEN, ask_to_reschedule("2026-10-20T19:00"));
    let same = Rescheduled {
        dry_run: false,
        receipt: made.receipt.clone(),
        ..shown
    };
    assert_eq!(same, made);
}

#[test]
fn a_booking_is_moved_only_so_often() {
    for (policy, way_out) in [
        (Some("firm"), "Cancel it by agreement and record a new one."),
        (None, "it cannot be canceled"),
    ] {
        let mut work = work_with(state(policy, BookingStatus::Created));
        for n in 0..limits::RESCHEDULES {
            let date = format!("2027-{:02}-01T19:00", n % 12 + 1);
            rescheduled(&mut work, BETWEEN, ask_to_reschedule(&date));
        }
        let error = reschedule(&work, BETWEEN, ask_to_reschedule("2029-01-01")).unwrap_err();
        assert_eq!(error.code, "too_many_reschedules");
        assert!(error.message.contains(way_out), "{error}");
    }
}
