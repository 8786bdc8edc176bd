//! Cancellations and decisions as tables, on bookings made by hand.

use crate::features::cancellations::{CancelBooking, CancelRequest, DecideResolution, Expected};
use crate::features::fixture::*;
use crate::features::reschedules::RescheduleRequest;
use crate::ledger::{Hash, Leaf, LeafKind};
use crate::policy::{
    Actor, EvaluationStatus, EvidenceGrade, NamedDocument, Policy, Reason, ResolutionPath,
    ResolutionStatus,
};

fn cancel(work: &BatchState, when: &str, ask: CancelRequest) -> Resolved {
    asked(work, at(when), canceling(ask))
}

const TERM_TIME: &str = "2026-06-01T00:00:00.500Z";

#[test]
fn a_cancellation_is_two_entries_one_resolution_and_one_event() {
    for (status, grade) in [
        (BookingStatus::Created, EvidenceGrade::RecordOnly),
        (BookingStatus::Protected, EvidenceGrade::LedgerAnchored),
    ] {
        let mut work = work_with(state(Some("firm"), status));
        let ask = ask_to_cancel(Actor::Organizer, Some(Reason::Illness));
        let (changes, resolution) = cancel(&work, TERM_TIME, ask).unwrap();
        assert_eq!(resolution.status, ResolutionStatus::Final);
        assert_eq!(resolution.evidence_grade, grade);
        assert_eq!(resolution.evaluation.refund.unwrap().minor(), 60_025);
        assert_eq!(resolution.canceled_at, at(TERM_TIME));

        let [canceled, resolved] = entries(&changes)[..] else {
            panic!("{changes:?}")
        };
        assert_eq!(canceled.fact.kind, LeafKind::BookingCanceled);
        assert_eq!(resolved.fact.kind, LeafKind::ResolutionCreated);
        assert_eq!((canceled.index, resolved.index), (10, 11));
        assert_eq!((canceled.seq, resolved.seq), (1, 2));
        assert_ne!(canceled.fact.seed, resolved.fact.seed);
        let leaf = Leaf::parse(&resolved.leaf).unwrap();
        assert_eq!((leaf.prev, leaf.t), (canceled.hash, at(TERM_TIME).ms()));
        assert_eq!(Leaf::parse(&canceled.leaf).unwrap().prev, Hash([7; 32]));
        // The partner's event leaves out the note: no personal data leaves the booking's own entry.
        assert!(canceled.fact.members.contains("a note"));
        assert!(!resolved.fact.members.contains("a note"));

        let events: Vec<_> = changes
            .iter()
            .filter_map(|change| match change {
                Change::EventAdded(event) => Some(event),
                _ => None,
            })
            .collect();
        assert_eq!(events.len(), 1);
        let body: serde_json::Value = serde_json::from_slice(&events[0].body).unwrap();
        assert_eq!(body["type"], "resolution.created");
        assert_eq!(body["seq"], 5);
        let payload = &body["payload"];
        assert_eq!(payload["resolutionSummary"], resolution.summary.as_str());
        assert_eq!(payload["resolutionPath"], "partial_refund");
        assert_eq!(payload["packetUrl"], "https://api.example.com/packet");
        assert!(payload.get("supersedes").is_none());

        apply_all(&mut work, &changes);
        let state = &work.bookings[&booking_id()];
        assert_eq!(state.booking.status, BookingStatus::Canceled);
        assert_eq!(state.booking.protected, status == BookingStatus::Protected);
        assert_eq!(state.booking.resolution_id, Some(resolution.resolution_id));
        let chain = &work.chains[&booking_id()];
        assert_eq!((chain.entries, chain.tip), (3, resolved.hash));
        assert_eq!(work.size, 12);
        let again = decide(&work, &command(protecting()));
        assert_eq!(refusal(again), "booking_canceled");
    }
}

#[test]
fn the_same_cancellation_repeats_and_any_other_conflicts() {
    let instant = Some(at("2026-05-31T23:30:00Z"));
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let first = CancelRequest {
        effective_at: instant,
        ..ask_to_cancel(Actor::Organizer, Some(Reason::Illness))
    };
    let made = apply(&mut work, TERM_TIME, canceling(first.clone()));
    #[rustfmt::skip]
    let cases = [
        ("the same", first.clone(), true),
        (
            "another note and evidence",
            CancelRequest {
                note: None,
                evidence: vec![NamedDocument {
                    kind: "k".to_owned(),
                    name: None,
                    media_type: None,
                    sha256: String::new(),
                }],
                ..first.clone()
            },
            true,
        ),
        ("another actor", CancelRequest { canceled_by: Actor::Talent, ..first.clone() }, false),
        ("another reason", CancelRequest { reason: None, ..first.clone() }, false),
        ("another instant", CancelRequest { effective_at: instant.map(|at| at.plus_ms(1)), ..first.clone() }, false),
        ("no instant", CancelRequest { effective_at: None, ..first.clone() }, false),
    ];
    for (what, ask, replays) in cases {
        // However late the repeat comes.
        let again = CancelBooking {
            resolution: new_resolution(30),
            ..canceling(ask)
        };
        let answer = asked(&work, at("2030-01-01T00:00:00Z"), again);
        if replays {
            let (changes, resolution) = answer.unwrap();
            assert!(changes.is_empty(), "{what}");
            assert!(resolution.evaluation.replayed, "{what}");
            assert_eq!(resolution.resolution_id, made.resolution_id, "{what}");
            assert_eq!(resolution.evaluation.refund, made.evaluation.refund);
        } else {
            let error = answer.unwrap_err();
            assert_eq!(error.code, "booking_already_canceled", "{what}");
            assert_eq!(error.kind, Kind::Conflict);
            let obstacle = error.obstacle.unwrap();
            assert_eq!(obstacle.resolution_id, Some(made.resolution_id), "{what}");
            assert!(error.message.contains(&made.resolution_id.to_string()));
        }
    }
}

#[test]
fn another_figure_is_another_agreement() {
    let agree = |figure: Option<&str>| CancelRequest {
        agreed_refund: figure.map(str::to_owned),
        ..ask_to_cancel(Actor::Mutual, None)
    };
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let first = canceling(agree(Some("400")));
    let made = apply(&mut work, TERM_TIME, first);
    for (figure, replays) in [
        (Some("400"), true),
        (Some("400.00"), true),
        (None, true),
        (Some("400.01"), false),
        (Some("0"), false),
    ] {
        match cancel(&work, TERM_TIME, agree(figure)) {
            Ok((changes, resolution)) => {
                assert!(replays && changes.is_empty(), "{figure:?}");
                assert_eq!(resolution.resolution_id, made.resolution_id);
            }
            Err(error) => {
                assert!(!replays, "{figure:?}: {error}");
                assert_eq!(error.code, "booking_already_canceled");
            }
        }
    }
}

#[test]
fn what_the_design_refuses_is_refused_by_its_code_and_field() {
    let organizer = || ask_to_cancel(Actor::Organizer, None);
    let with = |effective: &str| CancelRequest {
        effective_at: Some(at(effective)),
        ..organizer()
    };
    let mutual = |refund: Option<&str>| CancelRequest {
        agreed_refund: refund.map(str::to_owned),
        ..ask_to_cancel(Actor::Mutual, None)
    };
    let no_show = ask_to_cancel(Actor::Organizer, Some(Reason::NoShow));
    #[rustfmt::skip]
    let cases = [
        (TERM_TIME, with("2026-06-01T00:05:01Z"), Kind::Invalid, "effective_at_in_future", "/effectiveAt"),
        (TERM_TIME, with("2026-01-10T14:59:59Z"), Kind::Invalid, "effective_at_before_booking", "/effectiveAt"),
        // Within the minutes left for clocks that differ, but behind a deadline that has not passed.
        ("2026-05-21T23:00:00.500Z", with("2026-05-21T23:00:01Z"), Kind::Invalid, "effective_at_in_future", "/effectiveAt"),
        (TERM_TIME, no_show, Kind::Invalid, "no_show_before_event", "/reason"),
        ("2026-06-20T22:56:00Z", CancelRequest { reason: Some(Reason::NoShow), ..with("2026-06-20T23:00:00Z") }, Kind::Invalid,
            "no_show_before_event", "/reason"),
        (TERM_TIME, mutual(None), Kind::Invalid, "agreed_refund_required", "/agreedRefund"),
        (TERM_TIME, mutual(Some("1200.51")), Kind::Invalid, "agreed_refund_exceeds_paid", "/agreedRefund"),
        (TERM_TIME, mutual(Some("0.001")), Kind::Invalid, "amount_precision", "/agreedRefund"),
        (TERM_TIME, mutual(Some("-1")), Kind::Invalid, "amount_negative", "/agreedRefund"),
        ("2026-08-01T00:00:00Z", organizer(), Kind::Conflict, "claim_window_closed", ""),
    ];
    for (when, ask, kind, code, pointer) in cases {
        let work = work_with(state(Some("firm"), BookingStatus::Created));
        let error = cancel(&work, when, ask).unwrap_err();
        assert_eq!((error.kind, &*error.code), (kind, code));
        let at = error.details.first().map_or("", |fault| &*fault.pointer);
        assert_eq!(at, pointer, "{code}");
        assert!(error.obstacle.is_none());
    }
    let work = work_with(state(Some("firm"), BookingStatus::Created));
    cancel(&work, TERM_TIME, with("2026-06-01T00:05:00Z")).unwrap();
    let bare = work_with(state(None, BookingStatus::Created));
    let error = cancel(&bare, TERM_TIME, organizer()).unwrap_err();
    assert_eq!(
        (error.kind, &*error.code),
        (Kind::Invalid, "policy_missing")
    );
    assert!(error.message.contains("Settle it outside"), "{error}");
}

#[test]
fn a_cancellation_is_not_dated_before_the_event_was_last_moved() {
    const CODE: &str = "effective_at_before_reschedule";
    let evidence = vec![NamedDocument::of("notice", Some("mail.eml"), b"we cancel")];
    let dated = |by: Actor, instant: Option<&str>| CancelRequest {
        effective_at: instant.map(at),
        evidence: evidence.clone(),
        agreed_refund: (by == Actor::Mutual).then(|| "400".to_owned()),
        ..ask_to_cancel(by, None)
    };
    let moved = |policy| {
        let mut work = work_with(state(policy, BookingStatus::Protected));
        for (agreed, date) in [
            ("2026-05-31T22:00:00Z", "2026-09-20T19:00"),
            ("2026-05-31T23:30:00Z", "2026-10-20T19:00"),
        ] {
            let asked = RescheduleRequest {
                at: Some(at(agreed)),
                ..ask_to_reschedule(date)
            };
            rescheduled(&mut work, TERM_TIME, asked);
        }
        work
    };
    let work = moved(Some("firm"));
    for (instant, refused) in [
        // On this day, everything would still have been returned.
        (Some("2026-05-21T23:00:00Z"), true),
        // Between the moves.
        (Some("2026-05-31T23:00:00Z"), true),
        (Some("2026-05-31T23:29:59.999Z"), true),
        // In the second of the agreement, half an hour before its receipt.
        (Some("2026-05-31T23:30:00Z"), false),
        (Some("2026-05-31T23:45:00Z"), false),
        (None, false),
    ] {
        for by in [
            Actor::Organizer,
            Actor::Talent,
            Actor::Partner,
            Actor::Mutual,
        ] {
            let answer = cancel(&work, "2026-06-02T00:00:00Z", dated(by, instant));
            let Err(error) = answer else {
                assert!(!refused, "{by} {instant:?}");
                continue;
            };
            assert!(refused, "{by} {instant:?}: {error}");
            assert_eq!((error.kind, &*error.code), (Kind::Invalid, CODE));
            assert_eq!(error.details[0].pointer, "/effectiveAt");
            assert!(error.message.contains("2026-05-31T23:30:00"), "{error}");
        }
    }
    let early = || dated(Actor::Organizer, Some("2026-05-21T23:00:00Z"));
    let error = cancel(&moved(None), TERM_TIME, early()).unwrap_err();
    assert_eq!(error.code, "policy_missing");
    // A canceled booking has its resolution, whatever is asked.
    let mut work = work;
    apply(
        &mut work,
        TERM_TIME,
        canceling(dated(Actor::Organizer, None)),
    );
    let error = cancel(&work, TERM_TIME, early()).unwrap_err();
    assert_eq!(error.code, "booking_already_canceled");
}

#[test]
fn an_unexpected_result_is_shown_and_changes_nothing() {
    let firm = Policy::template("firm").unwrap().hash();
    let other = Policy::template("moderate").unwrap().hash();
    let expecting = |minor, path, hash: Option<&str>| CancelRequest {
        expected: Expected {
            refund_minor_units: minor,
            resolution_path: path,
            policy_hash: hash.map(str::to_owned),
            ..Expected::default()
        },
        ..ask_to_cancel(Actor::Organizer, None)
    };
    let owing = |penalty, compensation| CancelRequest {
        expected: Expected {
            refund_minor_units: Some(60_025),
            penalty_minor_units: penalty,
            compensation_minor_units: compensation,
            ..Expected::default()
        },
        ..ask_to_cancel(Actor::Organizer, None)
    };
    let partial = Some(ResolutionPath::PartialRefund);
    #[rustfmt::skip]
    let cases = [
        (expecting(Some(60_025), partial, Some(firm)), false),
        (expecting(Some(60_025), None, None), false),
        (expecting(None, None, Some(firm)), false),
        (owing(Some(60_025), Some(0)), false),
        (owing(Some(60_024), None), true),
        (owing(None, Some(1)), true),
        (expecting(Some(60_026), partial, Some(firm)), true),
        (expecting(Some(60_025), Some(ResolutionPath::FullRefund), None), true),
        (expecting(None, Some(ResolutionPath::ManualReview), None), true),
        (expecting(Some(60_025), None, Some(other)), true),
    ];
    for (ask, changed) in cases {
        let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
        let expected = ask.expected.clone();
        let answer = cancel(&work, TERM_TIME, ask.clone());
        if !changed {
            apply(&mut work, TERM_TIME, canceling(ask));
            // A repeat must match the expectation as well.
            let lie = expecting(Some(1), None, None);
            let error = cancel(&work, TERM_TIME, lie).unwrap_err();
            assert_eq!(error.code, "quote_changed");
            assert!(error.message.contains("already canceled"), "{error}");
            assert!(error.obstacle.unwrap().resolution_id.is_some());
            continue;
        }
        let error = answer.unwrap_err();
        assert_eq!(error.code, "quote_changed", "{expected:?}");
        let obstacle = error.obstacle.unwrap();
        assert_eq!(obstacle.resolution_id, None);
        let fresh =
            serde_json::from_str::<crate::policy::Evaluation>(&obstacle.evaluation.unwrap())
                .unwrap();
        assert_eq!(fresh.refund.unwrap().minor(), 60_025);
        let status = fresh.evaluation_status;
        assert_eq!(status, EvaluationStatus::Evaluated, "nothing is canceled");
    }
}

#[test]
fn a_review_cancels_all_the_same_and_is_decided_once() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let storm = ask_to_cancel(Actor::Talent, Some(Reason::ForceMajeure));
    let pending = apply(&mut work, TERM_TIME, canceling(storm.clone()));
    assert_eq!(pending.status, ResolutionStatus::PendingReview);
    assert_eq!(pending.evaluation.refund, None);
    assert!(!pending.evaluation.alternatives.is_empty());

    let decided_at = "2026-06-03T09:00:00Z";
    let decide_as = |work: &BatchState, refund: &str| asked(work, at(decided_at), deciding(refund));
    for (refund, code) in [
        ("1200.51", "refund_exceeds_paid"),
        ("1.001", "amount_precision"),
        ("-1", "amount_negative"),
        ("1e99", "amount_too_large"),
    ] {
        let error = decide_as(&work, refund).unwrap_err();
        let fault = &error.details[0];
        assert_eq!((&*error.code, &*fault.pointer), (code, "/refund"));
        // Only the fix says the way out.
        assert!(!fault.message.contains("Send"), "{}", fault.message);
    }
    let other = DecideResolution {
        resolution_id: id(77),
        ..deciding("1")
    };
    let error = asked(&work, at(decided_at), other).unwrap_err();
    assert_eq!(error, Error::not_found("resolution"));

    let (changes, _) = decide_as(&work, "1000.25").unwrap();
    assert_eq!(entries(&changes).len(), 1);
    let ask = deciding("1000.25");
    let decided = apply(&mut work, decided_at, ask);
    assert_eq!(decided.status, ResolutionStatus::Decided);
    assert_eq!(decided.supersedes, Some(pending.resolution_id));
    assert_eq!(
        decided.evaluation.resolution_path,
        ResolutionPath::PartialRefund
    );
    let sums = [decided.evaluation.refund, decided.evaluation.penalty];
    assert_eq!(sums.map(|sum| sum.unwrap().minor()), [100_025, 20_025]);
    let event = changes.iter().find_map(|change| match change {
        Change::EventAdded(event) => Some(event),
        _ => None,
    });
    let body: serde_json::Value = serde_json::from_slice(&event.unwrap().body).unwrap();
    let superseded = &body["payload"]["supersedes"];
    assert_eq!(*superseded, pending.resolution_id.to_string());

    let (changes, again) = decide_as(&work, "1000.25").unwrap();
    assert!(changes.is_empty() && again == decided);
    let by_itself = DecideResolution {
        resolution_id: decided.resolution_id,
        ..deciding("1000.25")
    };
    for another in [deciding("1000.24"), by_itself] {
        let error = asked(&work, at(decided_at), another).unwrap_err();
        assert_eq!(error.code, "resolution_already_decided");
        let shown = error.obstacle.unwrap().resolution_id;
        assert_eq!(shown, Some(decided.resolution_id));
    }
    // The cancellation itself repeats as what it has become, also for whoever expected a review.
    for (path, repeats) in [
        (None, true),
        (Some(ResolutionPath::ManualReview), true),
        (Some(ResolutionPath::PartialRefund), true),
        (Some(ResolutionPath::FullRefund), false),
    ] {
        let mut again = storm.clone();
        again.expected.resolution_path = path;
        match cancel(&work, TERM_TIME, again) {
            Ok((changes, again)) => {
                assert!(repeats && changes.is_empty(), "{path:?}");
                assert_eq!(again.resolution_id, decided.resolution_id);
            }
            Err(error) => assert_eq!((repeats, &*error.code), (false, "quote_changed")),
        }
    }
}

#[test]
fn what_the_policy_alone_gave_is_not_decided() {
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let by_policy = ask_to_cancel(Actor::Organizer, None);
    let made = apply(&mut work, TERM_TIME, canceling(by_policy));
    let ask = deciding("1");
    let error = asked(&work, at(TERM_TIME), ask).unwrap_err();
    assert_eq!(error.code, "resolution_final");
    let shown = error.obstacle.unwrap().resolution_id;
    assert_eq!(shown, Some(made.resolution_id));
}

#[test]
fn another_partners_booking_answers_like_one_that_does_not_exist() {
    let work = work_with(state(Some("firm"), BookingStatus::Protected));
    let ask = ask_to_cancel(Actor::Organizer, None);
    let stranger = CancelBooking {
        partner_id: id(8),
        ..canceling(ask.clone())
    };
    let unknown = CancelBooking {
        booking_id: id(99),
        ..canceling(ask)
    };
    for command in [stranger, unknown] {
        let error = asked(&work, at(TERM_TIME), command).unwrap_err();
        assert_eq!(error, Error::not_found("booking"));
    }
    let error = asked(&work, at(TERM_TIME), deciding("1"));
    assert_eq!(error.unwrap_err(), Error::not_found("resolution"));
}
