//! Terms before and after each move of the event, and the texts of them that were accepted.

use super::*;
use crate::evidence::{DisputeForm, DisputeReason, dispute};
use crate::policy::DisclosureWording;

#[test]
fn a_later_move_states_what_earlier_ones_had_reached_or_its_step_alone() {
    let sum = |minor| Some(Amount::from_minor(minor, Currency::USD).unwrap());
    for (stated, failed) in [
        (None, &[] as &[&str]),
        // As the first entries stated it.
        (Some(Lie::Reached(sum(0))), &[]),
        (Some(Lie::Reached(sum(1))), &["schedule"]),
        (Some(Lie::Reached(sum(60_026))), &["schedule"]),
        (Some(Lie::Reached(None)), &["schedule"]),
    ] {
        let mut fixture = Fixture::new();
        let (date, zone) = ("2026-06-20T19:00:00-04:00", Some("America/New_York"));
        let value = Amount::parse("1200.50", Currency::USD).unwrap();
        fixture.record(30, Some("firm"), date, zone, value, |_| {});
        // Half is kept when it is moved first, nothing by the second schedule alone.
        fixture.reschedule(13, "2026-06-01T00:00:00Z", "2026-12-20T19:00", None);
        fixture.lie = stated;
        fixture.reschedule(13, "2026-07-01T00:00:00Z", "2027-12-20T19:00", None);
        let packet = fixture.packet_at(13);
        let evaluation = packet.evaluation.as_ref().unwrap();
        if stated
            .is_none_or(|lie| matches!(lie, Lie::Reached(Some(least)) if least.minor() < 60_025))
        {
            assert_eq!(evaluation.penalty, sum(60_025), "{stated:?}");
        }
        assert_eq!(failures_of(&fixture, &packet), failed, "{stated:?}");
    }
}

/// The steps of the terms in force: the rule and the last minute of each.
fn steps(packet: &Packet) -> String {
    let steps = packet.terms.schedule.iter().map(|(rule, _, to, ..)| {
        let to = Timestamp::from_ms(to * 1000).to_string();
        format!("{rule} {}", &to[5..16]).replace("organizer.", "")
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// Governments move their clocks, and what was agreed on before stays. The service's tables gave New York another clock.
#[test]
fn terms_by_other_time_zone_tables_verify_even_if_these_give_other_steps() {
    let full = json!({"refundBps": 10_000});
    let policy = |tiers: Value| {
        let organizer = json!({"tiers": tiers, "late": {"refundBps": 0}});
        json!({"policyId": "p", "organizer": organizer})
    };
    let two_days = policy(json!([{"before": "P2D", "outcome": full}]));
    let day_and_hours = policy(json!([
        {"before": "P1D", "outcome": full},
        {"before": "PT23H", "outcome": {"refundBps": 5_000}},
    ]));
    let until_six =
        |before: &str| policy(json!([{"before": before, "cutoffTime": "18:00", "outcome": full}]));
    let mut graced = policy(json!([]));
    graced["grace"] = json!({"within": "PT2H", "minNotice": "P2D"});
    let zone = Some("America/New_York");
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    #[rustfmt::skip]
    let cases = [
        ("a step that would end before the booking", "America/Chicago", "2026-01-12T10:00", &two_days,
            "late 01-12T15:00, noShow 01-26T15:00", "tiers[0] 01-10T16:00, late 01-12T16:00, noShow 01-26T16:00"),
        ("one that ended before it by the tables of then", "America/Halifax", "2026-01-12T11:00", &two_days,
            "tiers[0] 01-10T16:00, late 01-12T16:00, noShow 01-26T16:00", "late 01-12T15:00, noShow 01-26T15:00"),
        ("one that would end before the one before it", "America/Cancun", "2026-03-08T12:00", &day_and_hours,
            "tiers[0] 03-07T17:00, late 03-08T16:00, noShow 03-22T16:00",
            "tiers[0] 03-07T17:00, tiers[1] 03-07T18:00, late 03-08T17:00, noShow 03-22T17:00"),
        ("a deadline beyond the start", "America/Chicago", "2026-06-20T18:30:00-04:00", &until_six("P0D"),
            "tiers[0] 06-20T22:00, late 06-20T22:30, noShow 07-04T22:30", "tiers[0] 06-20T23:00, noShow 07-04T22:30"),
        ("an event on another day", "America/Chicago", "2026-06-20T00:30:00-04:00", &until_six("P2D"),
            "tiers[0] 06-18T22:00, late 06-20T04:30, noShow 07-04T04:30",
            "tiers[0] 06-17T23:00, late 06-20T04:30, noShow 07-04T04:30"),
        ("hours that lead back to another day", "America/Cancun", "2026-03-08T16:30", &until_six("PT16H"),
            "tiers[0] 03-07T23:00, late 03-08T20:30, noShow 03-22T20:30", "tiers[0] 03-08T23:00, noShow 03-22T21:30"),
        ("a notice too short for grace", "America/Chicago", "2026-01-12T10:00", &graced, "late 01-12T15:00, noShow 01-26T15:00",
            "grace 01-10T17:31, late 01-12T16:00, noShow 01-26T16:00"),
    ];
    for (what, clock, date, policy, today, recorded) in cases {
        let policy = policy.to_string();
        let mut fixture = Fixture::new();
        fixture.record(30, Some(&policy), date, zone, value, |_| {});
        fixture.tables = Some(clock);
        fixture.record(31, Some(&policy), date, zone, value, |_| {});
        assert_eq!(steps(&fixture.packet_at(13)), today, "{what}");
        let packet = fixture.packet_at(14);
        assert_eq!(steps(&packet), recorded, "{what}");
        let report = verify(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey());
        assert!(report.verified(), "{what}: {report}");
        let mut checks = report.checks.iter();
        let said = checks.find(|check| check.name == "schedule").unwrap();
        let words = "except for a later change of the clocks in America/New_York";
        assert!(said.detail.contains(words), "{what}: {}", said.detail);
    }
    let mut fixture = Fixture::new();
    let day_and_hours = day_and_hours.to_string();
    fixture.record(
        30,
        Some(&day_and_hours),
        "2026-06-20T19:00",
        zone,
        value,
        |_| {},
    );
    fixture.tables = Some("America/Cancun");
    fixture.reschedule(13, "2026-02-01T00:00:00Z", "2026-03-08T12:00", None);
    let packet = fixture.packet_at(13);
    assert_eq!(packet.terms.schedule.len(), 4);
    assert_eq!(failures_of(&fixture, &packet), [""; 0]);
}

/// Such a cancellation is refused today; entries from before that keep what they say.
#[test]
fn a_cancellation_recorded_as_dated_before_a_move_verifies() {
    let mut fixture = Fixture::new();
    let (date, zone) = ("2026-06-20T19:00:00-04:00", Some("America/New_York"));
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    fixture.record(30, Some("firm"), date, zone, value, |_| {});
    fixture.reschedule_as(13, "2026-05-25T07:59:30Z", "2026-12-24T18:00", None, false);
    fixture.cancel(13, Actor::Organizer, Some(Reason::Illness));
    let packet = fixture.packet_at(13);
    let resolution = packet.resolution.as_ref().unwrap();
    assert_eq!(resolution.status, ResolutionStatus::Final);
    assert!(resolution.effective_at < packet.booking.rescheduled_at);
    assert_eq!(failures_of(&fixture, &packet), [""; 0]);
}

/// The first release showed a sum where today a person decides; entries from then keep what they say.
#[test]
fn a_review_with_the_alternatives_of_the_first_release_verifies() {
    const POLICY: &str = r#"{"policyId":"p","organizer":{"tiers":[{"before":"P7D","outcome":{"refundBps":10000}}],
        "late":{"manual":true}}}"#;
    let (date, zone) = ("2026-05-27T19:00:00-04:00", Some("America/New_York"));
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    for (wording, without_evidence) in [(Wording::First, Some(value)), (Wording::Second, None)] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        fixture.record(30, Some(POLICY), date, zone, value, |_| {});
        fixture.reschedule_as(13, "2026-05-24T00:00:00Z", "2026-12-24T18:00", None, false);
        fixture.cancel(13, Actor::Organizer, Some(Reason::ForceMajeure));
        let packet = fixture.packet_at(13);
        let alternatives = &packet.resolution.as_ref().unwrap().evaluation.alternatives;
        let refunds: Vec<_> = alternatives.iter().map(|one| one.refund).collect();
        assert_eq!(refunds, [Some(value), without_evidence]);
        assert_eq!(failures_of(&fixture, &packet), [""; 0]);
    }
}

/// The first release left nothing to a person that a talent dated back into the claim window; entries from then keep what they say.
#[test]
fn a_talent_s_cancellation_from_after_the_claim_window_verifies_as_either_release_tells_it() {
    const POLICY: &str = r#"{"policyId":"p","claimWindow":"PT0M","backdateTolerance":"PT0M","forceMajeure":{"outcome":
        {"refundBps":10000},"requiresEvidence":false},"organizer":{"late":{"refundBps":0}}}"#;
    let zone = Some("America/New_York");
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    for (wording, status) in [
        (Wording::First, ResolutionStatus::Final),
        (Wording::Second, ResolutionStatus::PendingReview),
    ] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        // The event starts half a minute before the cancellation is received, and half a minute after it took effect.
        let date = "2026-05-25T03:59:30-04:00";
        fixture.record(30, Some(POLICY), date, zone, value, |_| {});
        // The only reason with which the fixture names no evidence.
        fixture.cancel(13, Actor::Talent, Some(Reason::ForceMajeure));
        let packet = fixture.packet_at(13);
        assert_eq!(packet.resolution.as_ref().unwrap().status, status);
        assert_eq!(failures_of(&fixture, &packet), [""; 0]);
    }
}

/// The first release left out of the schedule of a closed booking what a move had kept; packets from then keep what they say.
#[test]
fn a_packet_of_a_closed_booking_that_was_moved_verifies_with_either_schedule() {
    let mut fixture = Fixture::new();
    let (date, zone) = ("2026-04-20T19:00:00-04:00", Some("America/New_York"));
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    fixture.record(30, Some("firm"), date, zone, value, |_| {});
    fixture.reschedule_as(13, "2026-04-10T00:00:00Z", "2026-05-01T19:00", None, false);
    let packet = fixture.packet_at(13);
    let evaluation = packet.evaluation.as_ref().unwrap();
    assert_eq!(evaluation.explanation.code, "CLAIM_WINDOW_CLOSED");
    let (terms, policy) = (packet.terms.clone(), packet.policy.clone());
    let steps = terms.thaw(&packet.booking, policy).unwrap().schedule;
    assert_ne!(evaluation.schedule, steps);
    assert_eq!(failures_of(&fixture, &packet), [""; 0]);
    let mut neither = steps.clone();
    neither[0].penalty = None;
    for (schedule, failed) in [(steps, &[] as &[&str]), (neither, &["evaluation"])] {
        let change = |p: &mut Packet| p.evaluation.as_mut().unwrap().schedule = schedule;
        assert_eq!(noticed_in(&fixture, fixture.packet_at(13), change), failed);
    }
}

#[test]
fn a_moved_booking_is_shown_with_its_terms_before_and_after_each_move() {
    let fixture = Fixture::new();
    let moved = fixture.rescheduled();
    assert_eq!(moved.former_terms.len(), 2);
    assert_eq!(moved.booking.time_zone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(failures_of(&fixture, &moved), [""; 0]);
    // Ten days before the second date, half was kept, and that stays.
    let evaluation = moved.evaluation.as_ref().unwrap();
    assert_eq!(evaluation.explanation.code, "RESCHEDULE_FLOOR");
    let canceled = fixture.moved_and_canceled();
    let resolution = canceled.resolution.as_ref().unwrap();
    assert_eq!(resolution.evaluation.penalty.unwrap().minor(), 60_025);
    #[rustfmt::skip]
    let cases = [
        ("former terms are missing", (|p: &mut Packet| drop(p.former_terms.pop())) as fn(&mut Packet), &["terms"][..]),
        ("former terms in another order", |p| p.former_terms.swap(0, 1), &["terms", "schedule"]),
        ("only the last terms", |p| p.former_terms.clear(), &["terms", "schedule"]),
        ("a move is missing", |p| drop(p.entries.pop()), &["booking", "terms", "acceptances", "evaluation", "summary"]),
    ];
    for (what, change, failed) in cases {
        assert_eq!(
            noticed_in(&fixture, fixture.rescheduled(), change),
            failed,
            "{what}"
        );
    }
}

#[test]
fn accepted_texts_are_shown_and_recomputed_from_the_terms() {
    let fixture = Fixture::new();
    let moved = fixture.rescheduled();
    let texts = &moved.terms_disclosures;
    assert_eq!((texts.len(), moved.acceptances.len()), (3, 2));
    assert_eq!(
        moved.acceptances[0].disclosure_hash,
        texts[0].disclosure_hash
    );
    assert_eq!(
        moved.acceptances[1].disclosure_hash,
        texts[1].disclosure_hash
    );
    #[rustfmt::skip]
    let cases = [
        ("another word", (|p: &mut Packet| p.terms_disclosures[0].text.push('!')) as fn(&mut Packet), &["acceptances"][..]),
        ("another hash", |p| { p.terms_disclosures[1].disclosure_hash = p.terms_disclosures[0].disclosure_hash.clone() },
            &["acceptances"]),
        ("another wording", |p| p.terms_disclosures[2].version.push('0'), &["acceptances"]),
        ("only the last text", |p| drop(p.terms_disclosures.drain(..2)), &["acceptances"]),
        ("an acceptance less", |p| drop(p.acceptances.pop()), &["acceptances"]),
        ("another party", |p| p.acceptances[0].party = Actor::Talent, &["acceptances"]),
        ("the text of other terms", |p| p.acceptances[0].disclosure_hash = p.acceptances[1].disclosure_hash.clone(),
            &["acceptances"]),
        ("the local times of other clocks", |p| p.former_terms[0].offsets[0] += 1_800, &["terms", "acceptances"]),
        ("clocks of no zone on earth", |p| p.former_terms[0].offsets[0] = i32::MAX, &["terms", "schedule"]),
    ];
    for (what, change, failed) in cases {
        assert_eq!(
            noticed_in(&fixture, fixture.rescheduled(), change),
            failed,
            "{what}"
        );
    }
}

/// One side was shown the terms before an upgrade, the other after it.
#[test]
fn terms_that_were_accepted_in_two_wordings_are_shown_in_both() {
    let mut fixture = Fixture::new();
    let (date, zone) = ("2026-06-20T19:00:00-04:00", Some("America/New_York"));
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    fixture.record(30, Some("firm"), date, zone, value, |_| {});
    fixture.disclosed = DisclosureWording::Second;
    fixture.accept(13, "2026-02-01T10:00:00Z", Actor::Talent, None);
    fixture.disclosed = DisclosureWording::First;
    fixture.accept(13, "2026-02-02T10:00:00Z", Actor::Organizer, None);
    let told = |packet: &Packet| {
        let export = dispute(packet, DisputeForm::Stripe, DisputeReason::General);
        serde_json::to_string(&export).unwrap()
    };
    let both = told(&fixture.packet_at(13));
    assert!(!both.contains("A later move"), "{both}");
    fixture.reschedule(13, "2026-03-01T00:00:00Z", "2026-09-20T19:00", None);
    fixture.disclosed = DisclosureWording::Second;
    let packet = fixture.packet_at(13);
    assert!(told(&packet).contains("A later move"));
    let versions: Vec<_> = (packet.terms_disclosures.iter())
        .map(|text| text.version.as_str())
        .collect();
    let [first, second] = DisclosureWording::ALL else {
        panic!("there are two wordings");
    };
    assert_eq!(versions, [first, second, second].map(|one| one.version()));
    assert_eq!(packet.moves_before_texts(), [0, 0, 1]);
    assert_eq!(failures_of(&fixture, &packet), [""; 0]);
    // In which wording terms are shown that nobody accepted is left to the service.
    fixture.disclosed = DisclosureWording::First;
    assert_eq!(failures_of(&fixture, &fixture.packet_at(13)), [""; 0]);
    #[rustfmt::skip]
    let cases = [
        ("texts in another order", (|p: &mut Packet| p.terms_disclosures.swap(0, 1)) as fn(&mut Packet)),
        ("an accepted text less", |p| drop(p.terms_disclosures.remove(0))),
        ("a text that nobody accepted", |p| { p.terms_disclosures.push(p.terms_disclosures[0].clone()); }),
    ];
    for (what, change) in cases {
        let noticed = noticed_in(&fixture, fixture.packet_at(13), change);
        assert_eq!(noticed, ["acceptances"], "{what}");
    }
}
