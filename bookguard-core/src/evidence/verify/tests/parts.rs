//! Each part of a packet is held by its own check: entries, proofs, resolution and whatever else is shown.

use super::*;

type Change<'a> = &'a dyn Fn(&mut Packet);

/// Each change of a protected packet, signed with the ledger key, fails exactly these checks.
fn each_is_noticed(fixture: &Fixture, changes: &[(Change<'_>, &[&str])]) {
    for (nth, (change, checks)) in changes.iter().enumerate() {
        assert_eq!(noticed(fixture, change), *checks, "change {nth}");
    }
}

#[test]
fn entries_swapped_dropped_repeated_or_of_another_booking_are_noticed() {
    let fixture = Fixture::new();
    let other = fixture.other();
    #[rustfmt::skip]
    let changes: &[(Change<'_>, &[&str])] = &[
        (&|p| p.entries.swap(0, 1), &["chain"]),
        (&|p| drop(p.entries.remove(0)), &["chain"]),
        (&|p| p.entries.clear(), &["signature", "chain"]),
        (&|p| p.entries.push(p.entries[1].clone()), &["chain"]),
        (&|p| p.entries[1] = other.entries[1].clone(), &["chain"]),
        (&|p| p.entries[0] = other.entries[0].clone(), &["chain"]),
        (&|p| p.entries.clone_from(&other.entries), &["chain"]),
        // Without its last record, the booking would only be recorded, which is not what is shown.
        (&|p| drop(p.entries.pop()), &["booking", "evaluation", "deliveries", "summary"]),
        (&|p| {
            p.entries.clone_from(&other.entries);
            p.stream.clone_from(&other.stream);
        }, &["booking", "terms", "schedule", "evaluation", "deliveries", "summary"]),
    ];
    each_is_noticed(&fixture, changes);
}

#[test]
fn each_part_is_held_by_its_own_check() {
    let fixture = Fixture::new();
    let other = fixture.other();
    let later = |at: &Timestamp| at.plus_ms(86_400_000);
    #[rustfmt::skip]
    let changes: &[(Change<'_>, &[&str])] = &[
        (&|p| p.stream = other.stream.clone(), &["chain"]),
        (&|p| p.booking.event_type = "gala".to_owned(), &["booking", "summary"]),
        (&|p| p.booking.policy = None, &["booking"]),
        (&|p| p.log.origin.push('x'), &["key"]),
        (&|p| p.entries[0].disclosures[2].value = json!({"id": "t", "name": "Other"}), &["disclosures"]),
        (&|p| drop(p.entries[0].disclosures.pop()), &["disclosures"]),
        (&|p| p.entries[0].body.kind = "booking.canceled".to_owned(), &["commitment"]),
        (&|p| p.entries[0].salt = other.entries[0].salt.clone(), &["commitment"]),
        (&|p| p.entries[0].leaf = other.entries[0].leaf.clone(), &["proof"]),
        (&|p| p.policy = other.policy.clone(), &["booking", "policy", "schedule", "evaluation", "summary"]),
        (&|p| p.terms.schedule[0].2 += 86_400, &["terms", "schedule", "evaluation"]),
        (&|p| p.created_at = later(&p.created_at), &["evaluation", "summary"]),
        (&|p| p.created_at = Timestamp::EPOCH, &["chain"]),
        (&|p| p.evaluation = None, &["evaluation", "summary"]),
        (&|p| p.resolution = fixture.canceled().resolution, &["resolution"]),
        (&|p| p.summary.headline.push('!'), &["summary"]),
        (&|p| drop(p.summary.timeline.pop()), &["summary"]),
    ];
    each_is_noticed(&fixture, changes);
}

#[test]
fn a_canceled_booking_is_shown_with_its_latest_resolution_and_with_all_of_its_records() {
    let fixture = Fixture::new();
    let of = |packet: &Packet| packet.resolution.clone().unwrap();
    let (canceled, pending, decided) = (fixture.canceled(), fixture.pending(), fixture.decided());
    assert_eq!(of(&canceled).status, ResolutionStatus::Final);
    assert_eq!(of(&pending).status, ResolutionStatus::PendingReview);
    assert_eq!(of(&decided).status, ResolutionStatus::Decided);
    assert_eq!(decided.entries.len(), 5);
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), |p| p.resolution = None),
        ["resolution", "summary"]
    );
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), |p| p.resolution =
            decided.resolution.clone()),
        ["resolution", "summary"]
    );
    // Without the decision it would be pending; without its resolution, a cancellation is invalid.
    assert_eq!(
        noticed_in(&fixture, fixture.decided(), |p| drop(p.entries.pop())),
        ["booking", "resolution", "evaluation", "summary"]
    );
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), |p| drop(p.entries.pop())),
        ["booking"]
    );
    let edit = |p: &mut Packet| {
        let refund = Amount::parse("1200.50", Currency::USD).unwrap();
        p.resolution.as_mut().unwrap().evaluation.refund = Some(refund);
    };
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), edit),
        ["resolution"],
        "the amounts shown are not those recorded"
    );
}

#[test]
fn wrong_amounts_are_noticed_even_when_the_service_recorded_them() {
    let honest = Fixture::new();
    let sums = |minor| Amount::from_minor(minor, Currency::USD).unwrap();
    let given = "not what policy and facts give";
    #[rustfmt::skip]
    let cases = [
        (Lie::Refund(sums(120_050)), 7, "resolution", given),
        (Lie::Decision(sums(1)), 9, "resolution", given),
        (Lie::Evidence, 8, "resolution", given),
        (Lie::Reached(Some(sums(1))), 10, "schedule", "does not say what was reached"),
        (Lie::Moved, 11, "schedule", "not what the policy gives"),
        (Lie::Early, 12, "booking", "no earlier entry shows what the event reports"),
        (Lie::Text, 10, "acceptances",
            "What talent accepted, recorded 2026-05-03T00:00:00.000Z, is not the text of the terms in force"),
    ];
    for (lie, place, check, words) in cases {
        let fixture = Fixture::lying(&lie);
        let packet = fixture.packet_at(place);
        let bytes = text(&packet, &fixture.signer);
        let report = verify(bytes.as_bytes(), &fixture.vkey());
        let failed: Vec<_> = report.failures().map(|check| check.name).collect();
        assert_eq!(failed, [check], "{lie:?}: {report}");
        assert!(report.to_string().contains(words));
        assert_eq!(failures_of(&honest, &honest.packet_at(place)), [""; 0]);
    }
}

#[test]
fn proofs_of_another_state_or_another_ledger_are_noticed() {
    let fixture = Fixture::new();
    let older = fixture.proof_under(0, fixture.size() - 1);
    assert_eq!(
        noticed(&fixture, |p| p.entries[0].proof = older.clone()),
        ["chain"]
    );
    let own = fixture.protected().entries[0].proof.clone();
    for changed in [
        own.replace("index ", "extra AAAA\nindex "),
        own.replace("index 1\n", "index 2\n"),
        format!("{own}\u{2014} someone AAAAAAAA\n"),
        own.replace("\n\n", "\n"),
    ] {
        assert_ne!(changed, own);
        let names = noticed(&fixture, |p| p.entries[0].proof = changed);
        assert!(names == ["proof"] || names == ["chain"], "{names:?}");
    }
    let stranger = Fixture::named("example.com/other");
    let foreign = text(&stranger.protected(), &stranger.signer);
    assert_eq!(
        failures(foreign.as_bytes(), &fixture.vkey()),
        ["signature", "key", "proof"]
    );
    let impostor = Signer::from_seed(fixture.signer.name(), &[9; 32]).unwrap();
    let posing = text(&fixture.protected(), &impostor);
    assert_eq!(failures(posing.as_bytes(), &fixture.vkey()), ["signature"]);
    assert_eq!(
        failures(posing.as_bytes(), &impostor.verifier().to_string()),
        ["key", "proof"]
    );
}
