//! What an erasure takes, what it leaves, and what refuses it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::*;
use crate::evidence::facts::CreationFact;
use crate::evidence::verify::tests::fixture::{self, erased_values};
use crate::evidence::{Acceptance, EvidenceItem, HeldBy, ItemKind, LegalBasis, StoredHold};
use crate::features::fixture::*;
use crate::ledger::event::Opening;
use crate::ledger::{Disclosure, Leaf, LeafKind};
use crate::policy::{Cancellation, NamedDocument};

const NOW: &str = "2026-06-01T00:00:00.500Z";

/// An entry as it is stored.
fn stored(seq: u64, fact: impl Into<Fact>) -> StoredEntry {
    let fact = fact.into();
    let sealed = fact.seal([u8::try_from(seq).unwrap(); 32]).unwrap();
    let leaf = Leaf {
        commit: sealed.commit,
        prev: match seq {
            0 => Hash::ZERO,
            _ => crate::ledger::leaf_hash(b"before"),
        },
        seq,
        stream: [7; 16],
        t: at(NOW).ms(),
    };
    let entry = StoredEntry {
        index: 10 + seq,
        booking_id: Some(booking_id()),
        seq,
        leaf: leaf.encode().unwrap(),
        kind: fact.kind().to_string(),
        salt: [0; 32],
        disclosures: Vec::new(),
        erased: BTreeMap::new(),
        opening: Opening::Seed(sealed.seed),
    };
    read(entry, &sealed.seed, &sealed.members)
}

/// The entry with what its row holds.
fn read(entry: StoredEntry, opening: &[u8], facts: &str) -> StoredEntry {
    let opening = Opening::read(opening).unwrap();
    let members: Map<String, Value> = serde_json::from_str(facts).unwrap();
    let (salt, mut salts, erased) = opening.of(&members);
    let shown = members.into_iter().filter_map(|(name, value)| {
        let salt = salts.remove(&name)?;
        Some(Disclosure { name, salt, value })
    });
    StoredEntry {
        salt,
        disclosures: shown.collect(),
        erased,
        opening,
        ..entry
    }
}

fn item(n: u8, party: Option<Actor>) -> EvidenceItem {
    EvidenceItem {
        item_id: id(n),
        party,
        note: Some("Jane".to_owned()),
        sha256: Some(format!("sha256:{}", "5c".repeat(32))),
        ..fixture::item(
            booking_id(),
            at(NOW),
            ItemKind::Contract,
            "Contract of Jane",
        )
    }
}

/// The entries of a booking.
fn entries_of_booking() -> Vec<StoredEntry> {
    let mut booking = state(Some("firm"), BookingStatus::Created).state.booking;
    booking.metadata = [("email".to_owned(), "jane@example.com".to_owned())].into();
    let acceptance = Acceptance {
        booking_id: booking_id(),
        accepted_at: at(NOW),
        party: Actor::Organizer,
        method: "checkbox".to_owned(),
        at: at(NOW),
        ip: Some("203.0.113.9".to_owned()),
        user_agent: None,
        disclosure_hash: format!("sha256:{}", "ab".repeat(32)),
        disclosure_version: "bookguard-disclosure-1".to_owned(),
    };
    vec![
        stored(
            0,
            CreationFact::of(&booking, format!("sha256:{}", "cd".repeat(32))),
        ),
        stored(1, acceptance),
        stored(2, item(2, Some(Actor::Talent))),
        stored(3, item(3, None)),
    ]
}

fn erasure(reference: &str) -> Erasure {
    Erasure {
        booking_id: booking_id(),
        erased_at: at(NOW),
        legal_basis: LegalBasis::Objection,
        request_ref: Some(reference.to_owned()),
        values: vec![erased_values(0, &[Erasable::Talent])],
    }
}

fn shown(plan: &Plan) -> Value {
    json!(plan.values)
}

#[test]
fn only_what_is_asked_for_goes() {
    use Erasable::{Ip, Note, Organizer, Title};
    let entries = entries_of_booking();
    #[rustfmt::skip]
    let cases = [
        (Erased::Fields(vec![]), json!([])),
        (Erased::Fields(vec![Note, Ip, Organizer]),
            json!([
                {"entry": 0, "names": ["organizer"]}, {"entry": 1, "names": ["ip"]},
                {"entry": 2, "names": ["note"]}, {"entry": 3, "names": ["note"]},
            ])),
        (Erased::Of(ErasedParty::Organizer),
            json!([{"entry": 0, "names": ["organizer"]}, {"entry": 1, "names": ["ip", "method"]}])),
        (Erased::Of(ErasedParty::Talent),
            json!([{"entry": 0, "names": ["talent"]}, {"entry": 2, "names": ["note", "sha256", "title"]}])),
        (Erased::Of(ErasedParty::Everybody),
            json!([
                {"entry": 0, "names": ["eventType", "metadata", "organizer", "talent"]},
                {"entry": 1, "names": ["ip", "method"]},
                {"entry": 2, "names": ["note", "sha256", "title"]},
                {"entry": 3, "names": ["note", "sha256", "title"]},
            ])),
        (
            // Again, but of an entry that is another one now.
            Erased::Again(
                vec![
                    (
                        erased_values(2, &[Note, Title]),
                        entries[2].fact().unwrap().place.hash.to_string(),
                    ),
                    (
                        erased_values(3, &[Note]),
                        "00".repeat(32),
                    ),
                ],
                at(NOW),
            ),
            json!([{"entry": 2, "names": ["note", "title"]}]),
        ),
    ];
    for (what, expected) in cases {
        let plan = plan(&partner_id(), &entries, (&what, None)).unwrap();
        assert_eq!(shown(&plan), expected, "{what:?}");
        assert_eq!(plan.rows.len(), plan.values.len());
    }
}

#[test]
fn what_is_left_of_an_entry_opens_its_leaf_and_tells_nothing_more() {
    let everything = Erased::Of(ErasedParty::Everybody);
    for entry in entries_of_booking() {
        let (leaf, body) = (
            Leaf::parse(&entry.leaf).unwrap(),
            entry.event_body().unwrap(),
        );
        let salts: Vec<[u8; 32]> = entry.disclosures.iter().map(|one| one.salt).collect();
        // First one value, then the rest.
        let one = Erased::Fields(vec![Erasable::Organizer, Erasable::Ip, Erasable::Note]);
        let mut left = entry.clone();
        for what in [one, everything.clone()] {
            let plan = plan(&partner_id(), std::slice::from_ref(&left), (&what, None)).unwrap();
            let row = &plan.rows[0];
            left = read(left.clone(), &row.opening.to_bytes(), &row.facts);
            assert_eq!(left.event_body().unwrap(), body);
            body.verify(&leaf, &left.salt).unwrap();
            left.fact().unwrap();
        }
        let row = format!(
            "{:?}{}",
            left.shown(),
            String::from_utf8(left.opening.to_bytes()).unwrap()
        );
        for gone in ["Jane", "jane@", "203.0.113.9", "5c5c"] {
            assert!(!row.contains(gone), "{row}");
        }
        let kept: Vec<[u8; 32]> = left.disclosures.iter().map(|one| one.salt).collect();
        let gone = salts.iter().filter(|salt| !kept.contains(salt));
        for salt in gone {
            let text =
                base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, salt);
            assert!(
                !row.contains(&text),
                "the salt of an erased value is still there"
            );
        }
        // Nothing is left to erase.
        let again = plan(
            &partner_id(),
            std::slice::from_ref(&left),
            (&everything, None),
        )
        .unwrap();
        assert_eq!(again.values, []);
    }
}

fn erasing(plan: Plan) -> EraseValues {
    EraseValues {
        partner_id: partner_id(),
        booking_id: booking_id(),
        plan,
        legal_basis: LegalBasis::Objection,
        request_ref: None,
        expected: None,
        repeats: None,
        seed: [3; 32],
    }
}

/// A plan for the only entry of the booking in [`work_with`].
fn planned() -> Plan {
    let entries = &entries_of_booking()[..1];
    let what = Erased::Of(ErasedParty::Everybody);
    plan(&partner_id(), entries, (&what, None)).unwrap()
}

fn hold(by: HeldBy, released: bool) -> StoredHold {
    let mut stored = crate::features::fixture::hold(9, by);
    stored.hold.released_at = released.then(|| at("2026-05-02T00:00:00Z"));
    stored
}

#[test]
fn a_hold_a_newer_entry_and_another_owner_refuse_it() {
    let rival = |erase| EraseValues {
        partner_id: id(99),
        ..erase
    };
    let stale = |mut erase: EraseValues| {
        erase.plan.entries += 1;
        erase
    };
    let repeated = |erase| EraseValues {
        repeats: Some(at("2026-05-01T00:00:00Z")),
        ..erase
    };
    let shown = |mut erase: EraseValues| {
        erase.expected = erase.plan.report(booking_id(), true, |_| true).plan_hash;
        erase
    };
    let shown_less = |mut erase: EraseValues| {
        erase.expected = Plan::default()
            .report(booking_id(), true, |_| true)
            .plan_hash;
        erase
    };
    let as_it_is = |erase| erase;
    for (held, change, expected) in [
        (None, as_it_is as fn(EraseValues) -> EraseValues, None),
        (Some(true), as_it_is, None),
        (Some(false), as_it_is, Some("legal_hold")),
        (Some(false), repeated, None),
        (None, rival, Some("not_found")),
        (None, stale, Some("booking_changed")),
        (None, shown, None),
        (None, shown_less, Some("erasure_changed")),
    ] {
        let mut work = work_with(state(Some("firm"), BookingStatus::Created));
        if let Some(released) = held {
            let hold = hold(HeldBy::Operator, released);
            work.holds.insert(hold.hold.hold_id, hold);
        }
        let erase = change(erasing(planned()));
        let decided = decide(&work, &Envelope::new(at(NOW), erase));
        match expected {
            Some(code) => assert_eq!(decided.unwrap_err().code, code),
            None => {
                let changes = changes(decided);
                let [entry] = entries(&changes)[..] else {
                    panic!("{changes:?}")
                };
                assert_eq!(entry.fact.kind, LeafKind::EvidenceErased);
                let is_row = |change: &&Change| matches!(change, Change::EntryErased(_));
                assert_eq!(changes.iter().filter(is_row).count(), 1);
                let Some(Change::BookingChanged(booking)) = changes
                    .iter()
                    .find(|change| matches!(change, Change::BookingChanged(_)))
                else {
                    panic!("{changes:?}")
                };
                assert_eq!(booking.state.booking.organizer.name, "erased");
                assert!(matches!(changes.last(), Some(Change::AnswersErased(_))));
            }
        }
    }
}

#[test]
fn a_booking_under_a_hold_that_changed_meanwhile_keeps_the_files_that_it_may_need() {
    let placed = hold(HeldBy::Partner, false);
    let elsewhere = StoredHold {
        hold: Hold {
            booking_id: id(77),
            ..placed.hold
        },
        ..placed
    };
    let hold_id = elsewhere.hold.hold_id;
    for (deletes, seen_entries, expected) in [
        (true, None, Some("booking_changed")),
        (true, Some(2), Some("booking_changed")),
        (true, Some(3), None),
        (false, None, None),
    ] {
        let mut work = work_with(state(Some("firm"), BookingStatus::Created));
        work.holds.insert(hold_id, elsewhere.clone());
        let chain = crate::engine::batch::ChainState {
            entries: 3,
            ..work.chains[&booking_id()]
        };
        work.chains.insert(id(77), chain);
        let file = (id(5), FileId::of(&partner_id(), &[1; 32]));
        let seen = seen_entries.map(|entries| (id(77), entries));
        let plan = Plan {
            files: deletes.then_some(file).into_iter().collect(),
            elsewhere: HeldElsewhere(seen.into_iter().collect()),
            ..planned()
        };
        let decided = decide(&work, &Envelope::new(at(NOW), erasing(plan)));
        let refused = decided.err().map(|error| error.code);
        assert_eq!(refused.as_deref(), expected, "{deletes} {seen_entries:?}");
    }
}

#[test]
fn the_events_of_a_plan_lose_their_bodies_and_deliveries_that_wait_end_under_no_lease() {
    let waiting = delivery(DeliveryPhase::Pending, Some(1_000), Some(77));
    let over = delivery(DeliveryPhase::Delivered, None, None);
    let one = with_delivery(waiting);
    let mut work = BatchState {
        events: one.events,
        deliveries: one.deliveries,
        ..work_with(state(Some("firm"), BookingStatus::Created))
    };
    work.deliveries.insert((id(5), id(8)), over);
    let of_events = |work: &BatchState, events| -> Vec<Change> {
        let erase = erasing(Plan {
            events,
            ..planned()
        });
        let changes = caused(work, &Envelope::new(at(NOW), erase));
        let of_events = changes.into_iter().filter(|change| {
            matches!(
                change,
                Change::DeliveryUpdated(..) | Change::EventPruned(..)
            )
        });
        of_events.collect()
    };
    let ended = of_events(&work, vec![id(5)]);
    let [
        Change::DeliveryUpdated((event_id, endpoint_id), state),
        Change::EventPruned(pruned_id, pruned),
    ] = &ended[..]
    else {
        panic!("{ended:?}")
    };
    assert_eq!((*event_id, *endpoint_id), (id(5), id(7)));
    let expected = DeliveryState {
        since: None,
        ..delivery(DeliveryPhase::Failed, None, None)
    };
    assert_eq!(*state, expected);
    let digest: [u8; 32] = Sha256::digest("{}").into();
    assert_eq!(
        (*pruned_id, pruned.at, pruned.digest),
        (id(5), at(NOW), digest)
    );
    assert!(of_events(&work, vec![]).is_empty(), "the plan names none");
    assert!(of_events(&work, vec![id(9)]).is_empty(), "it is gone");
    let known = work.events.get_mut(&id(5)).unwrap();
    known.content = Content::Pruned(*pruned);
    assert!(of_events(&work, vec![id(5)]).is_empty(), "it was pruned");
}

#[test]
fn nothing_left_to_erase_changes_nothing() {
    let work = work_with(state(Some("firm"), BookingStatus::Created));
    let empty = Plan {
        entries: CHAIN.entries,
        ..Plan::default()
    };
    assert!(caused(&work, &Envelope::new(at(NOW), erasing(empty))).is_empty());
}

#[test]
fn what_was_said_of_a_result_goes_where_it_is_a_value_of_its_own_and_a_reference_by_its_name() {
    let canceled = |evidence_count| Cancellation {
        booking_id: booking_id(),
        canceled_at: at(NOW),
        canceled_by: Actor::Talent,
        reason: None,
        note: None,
        effective_at: None,
        agreed_refund: None,
        evidence: vec![NamedDocument::of("letter", Some("jane.pdf"), b"")],
        evidence_count,
    };
    let mut entries = vec![entries_of_booking().remove(0)];
    entries.push(stored(1, canceled(None)));
    entries.push(stored(2, canceled(Some(1))));
    entries.push(stored(3, erasure("R-1")));
    entries.push(stored(4, erasure("R-2")));
    let everything = [0, 2, 3, 4].map(|entry| match entry {
        0 => json!({"entry": 0, "names": ["eventType", "metadata", "organizer", "talent"]}),
        2 => json!({"entry": 2, "names": ["evidence"]}),
        entry => json!({"entry": entry, "names": ["requestRef"]}),
    });
    let fields = || Erased::Fields(vec![Erasable::RequestRef]);
    #[rustfmt::skip]
    let cases = [
        (Erased::Of(ErasedParty::Everybody), None, &everything[..2]),
        (Erased::Of(ErasedParty::Talent), None, &[json!({"entry": 0, "names": ["talent"]}), everything[1].clone()]),
        (Erased::Everything, None, &everything[..]),
        (Erased::Everything, Some("R-2"), &everything[..3]),
        (fields(), None, &everything[2..]),
        (fields(), Some("R-1"), &everything[3..]),
    ];
    for (what, request_ref, expected) in cases {
        let plan = plan(&partner_id(), &entries, (&what, request_ref)).unwrap();
        assert_eq!(shown(&plan), json!(expected), "{what:?} {request_ref:?}");
    }
}

#[test]
fn a_booking_with_many_erasures_takes_further_ones_without_a_reference() {
    let mut entries = vec![entries_of_booking().remove(0)];
    entries.extend((1..=ERASURES as u64).map(|seq| stored(seq, erasure("R-1"))));
    let fields = || Erased::Fields(vec![Erasable::RequestRef]);
    let everybody = || Erased::Of(ErasedParty::Everybody);
    #[rustfmt::skip]
    let cases = [
        (ERASURES, fields(), Some("R-2"), None),
        (ERASURES + 1, fields(), Some("R-2"), Some("too_many_erasures")),
        (ERASURES + 1, everybody(), Some("R-2"), Some("too_many_erasures")),
        (ERASURES + 1, fields(), None, None),
        // It was done before, and finds nothing left to erase.
        (ERASURES + 1, fields(), Some("R-1"), None),
        (ERASURES + 1, Erased::Everything, Some("R-2"), None),
    ];
    for (count, what, request_ref, expected) in cases {
        let planned = plan(&partner_id(), &entries[..count], (&what, request_ref));
        let refused = planned.err().map(|error| error.code);
        assert_eq!(
            refused.as_deref(),
            expected,
            "{count} {what:?} {request_ref:?}"
        );
    }
}

#[test]
fn texts_of_holds_go_with_notes_and_references_and_alone_leave_no_entry() {
    let released = hold(HeldBy::Partner, true);
    for (notes, references, reference, expected) in [
        (false, false, Some("CB-1"), None),
        (true, false, Some("CB-1"), Some(("erased", Some("CB-1")))),
        (false, true, Some("CB-1"), Some(("Court", None))),
        (false, true, None, None),
        (true, true, Some("CB-1"), Some(("erased", None))),
    ] {
        let mut work = work_with(state(Some("firm"), BookingStatus::Created));
        let mut stored = released.clone();
        stored.hold.reference = reference.map(str::to_owned);
        work.holds.insert(stored.hold.hold_id, stored);
        let plan = Plan {
            entries: CHAIN.entries,
            notes,
            references,
            ..Plan::default()
        };
        let changes = caused(&work, &Envelope::new(at(NOW), erasing(plan)));
        let Some((reason, reference)) = expected else {
            assert!(changes.is_empty(), "{changes:?}");
            continue;
        };
        let [
            Change::HoldWritten(left),
            Change::AnswersErased(_),
            Change::AnswersErased(_),
        ] = &changes[..]
        else {
            panic!("{changes:?}")
        };
        assert_eq!(
            (&*left.hold.reason, left.hold.reference.as_deref()),
            (reason, reference)
        );
        assert!(left.hold.released_at.is_some());
    }
}

#[test]
fn an_erasure_that_is_repeated_takes_the_notes_on_shares_from_before_it() {
    let share = Share {
        share_id: id(8),
        booking_id: booking_id(),
        created_at: at("2026-05-01T00:00:00Z"),
        expires_at: at("2026-07-01T00:00:00Z"),
        revoked_at: None,
        withhold: Vec::new(),
        note: Some("for Jane".to_owned()),
        views: 0,
        last_viewed_at: None,
        recent_views: Vec::new(),
    };
    for (repeats, expected) in [
        (None, 1),
        (Some("2026-05-01T00:00:00Z"), 1),
        (Some("2026-04-30T23:59:59.999Z"), 0),
    ] {
        let mut work = work_with(state(Some("firm"), BookingStatus::Created));
        let stored = StoredShare {
            share: share.clone(),
            hash: [8; 32],
        };
        work.shares.insert(share.share_id, stored);
        let erase = EraseValues {
            repeats: repeats.map(at),
            ..erasing(planned())
        };
        let changes = caused(&work, &Envelope::new(at(NOW), erase));
        let is_unnoted = |change: &&Change| matches!(change, Change::ShareChanged(left) if left.share.note.is_none());
        let unnoted = changes.iter().filter(is_unnoted).count();
        assert_eq!(unnoted, expected, "{repeats:?}");
    }
}
