//! When witnesses are asked, and which cosignatures count, on states made by hand.

use super::*;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::{Checkpoint, Signer, leaf_hash};
use crate::model::WitnessTrouble;

const URL: &str = "https://w.example.com";
fn now() -> Timestamp {
    Timestamp::from_ms(1_790_000_000_000)
}

fn state() -> WitnessState {
    WitnessState {
        url: URL.to_owned(),
        origin: "log.example".to_owned(),
        size: 7,
        lease: 5,
        due: now(),
        asked_at: now(),
        cosigned_at: Some(now()),
        signed: BTreeMap::new(),
        expected: [cosigner(1).verifier().to_string()].into(),
        failures: 0,
        trouble: None,
    }
}

fn trouble() -> Option<WitnessTrouble> {
    Some(WitnessTrouble {
        is_alarm: false,
        what: "it is away".to_owned(),
    })
}

#[test]
fn a_witness_is_asked_when_there_is_something_to_cosign_and_its_wait_is_over() {
    let known = state();
    let fresh = COSIGNATURE_FRESH_MS;
    #[rustfmt::skip]
    let cases = [
        (None, ("log.example", 0), 0, false),
        (None, ("log.example", 1), 0, true),
        (Some(state()), ("log.example", 7), 0, false),
        (Some(state()), ("log.example", 8), 0, true),
        (Some(state()), ("log.example", 6), 0, true),
        (Some(state()), ("renamed.example", 7), 0, true),
        (Some(state()), ("log.example", 7), fresh - 1, false),
        (Some(state()), ("log.example", 7), fresh, true),
        // The clock was set back.
        (Some(state()), ("log.example", 7), -1, false),
        (Some(state()), ("log.example", 7), -WITNESS_BACKOFF_MS, false),
        (Some(state()), ("log.example", 7), -WITNESS_BACKOFF_MS - 1, true),
        (Some(WitnessState { cosigned_at: None, ..known.clone() }), ("log.example", 7), 0, true),
        (Some(WitnessState { trouble: trouble(), ..known.clone() }), ("log.example", 7), 0, true),
        (Some(WitnessState { trouble: trouble(), ..known }), ("log.example", 7), -1, false),
    ];
    for (known, log, after_ms, due) in cases {
        let at = now().plus_ms(after_ms);
        assert_eq!(
            is_due(known.as_ref(), log, &[cosigner(1).verifier()], at),
            due,
            "{known:?} {log:?} {after_ms}"
        );
    }
    // Another key takes the place of one, or stands beside it, until it was asked once.
    for (keys, due) in [(vec![1], false), (vec![2], true), (vec![1, 2], true)] {
        let keys: Vec<_> = keys.into_iter().map(|n| cosigner(n).verifier()).collect();
        let found = is_due(Some(&state()), ("log.example", 7), &keys, now());
        assert_eq!(found, due, "{keys:?}");
    }
}

#[test]
fn waits_double_up_to_a_quarter_of_an_hour() {
    let waits: Vec<i64> = (0..10).map(|failures| wait(failures) / 1000).collect();
    assert_eq!(waits, [10, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
    assert_eq!(wait(u32::MAX), WITNESS_BACKOFF_MS);
}

#[test]
fn one_holder_of_a_turn_notes_how_it_went() {
    let mut batch = BatchState::default();
    let claim = |lease| ClaimWitness {
        url: URL.to_owned(),
        keys: vec![cosigner(1).verifier()],
        log: ("log.example".to_owned(), 7),
        lease,
    };
    let take = |batch: &mut BatchState, claim: &ClaimWitness, at| {
        let (changes, taken) = claim.decide(batch, at).unwrap();
        changes.iter().for_each(|change| batch.apply(change));
        taken
    };
    let first = take(&mut batch, &claim(1), now()).unwrap();
    assert_eq!((first.size, first.lease), (0, 1));
    assert_eq!(take(&mut batch, &claim(2), now()), None);
    let later = lease_end(now());
    let second = take(&mut batch, &claim(2), later).unwrap();
    let note = |state: &WitnessState, size| NoteWitness {
        state: WitnessState {
            size,
            ..state.clone()
        },
        cosigned: vec![cosigned(1, 7)],
        forgotten: vec![(3, [4; 32])],
    };
    let (changes, ()) = note(&first, 6).decide(&batch, later).unwrap();
    assert!(changes.is_empty(), "it came too late");
    let (changes, ()) = note(&second, 7).decide(&batch, later).unwrap();
    assert!(matches!(
        changes.as_slice(),
        [
            Change::WitnessNoted(_),
            Change::CosignatureAdded(_),
            Change::CosignatureForgotten(3, _)
        ]
    ));
    changes.iter().for_each(|change| batch.apply(change));
    assert_eq!(batch.witnesses[&WitnessState::id(URL)].size, 7);
}

fn cosigner(n: u8) -> Cosigner {
    Cosigner::from_seed(&format!("w{n}.example.com"), &[n; 32]).unwrap()
}

fn log() -> Signer {
    Signer::from_seed("log.example", &[99; 32]).unwrap()
}

fn checkpoint(size: u64) -> String {
    Checkpoint::sign(&log(), size, leaf_hash(&size.to_be_bytes()))
}

/// A checkpoint of this size that a witness has cosigned.
fn cosigned(n: u8, size: u64) -> StoredCosignature {
    let note = checkpoint(size);
    let text = &note[..=note.find("\n\n").unwrap()];
    let line = cosigner(n).cosign(text, size + 1);
    StoredCosignature {
        key: cosigner(n).verifier().to_string(),
        size,
        note: note + &line,
    }
}

/// Two of the first three witnesses.
fn policy() -> TrustPolicy {
    let lines = (1..=3).map(|n| format!("witness w{n} {}\n", cosigner(n).verifier()));
    let text = lines.collect::<String>() + "group two 2 w1 w2 w3\nquorum two\n";
    TrustPolicy::parse(&text).unwrap()
}

#[test]
fn the_best_cosigned_checkpoint_has_a_quorum_then_more_witnesses_then_more_entries() {
    let policy = policy();
    let all = [
        (1, 5),
        (2, 5),
        (3, 5),
        (1, 8),
        (3, 8),
        (1, 9),
        (2, 10),
        (9, 11),
        (8, 11),
    ];
    let all = all.map(|(n, size)| cosigned(n, size));
    for (least, most, expected) in [
        (1, 99, Some((5, 3))),
        (5, 5, Some((5, 3))),
        (6, 99, Some((8, 2))),
        (9, 99, Some((10, 1))),
        (9, 9, Some((9, 1))),
        (11, 99, None),
        (1, 4, None),
    ] {
        let found = super::super::cosigned_head(&all, &policy, log().verifier(), least..=most);
        let found = found.map(|head| {
            assert!(head.note.starts_with(&checkpoint(head.size)));
            for key in &head.witnesses {
                let key: crate::ledger::cosignature::CosignerKey = key.parse().unwrap();
                assert_eq!(key.verify(&head.note), Ok(head.size + 1));
            }
            let lines = head.note.matches('\u{2014}').count() - 1;
            assert_eq!(lines, head.witnesses.len());
            (head.size, lines)
        });
        assert_eq!(found, expected, "{least} {most}");
    }
    let other = Signer::from_seed("other.example", &[99; 32]).unwrap();
    let of_other = super::super::cosigned_head(&all, &policy, other.verifier(), 1..=99);
    assert_eq!(of_other, None, "it is of another log");
    for changed in [
        all[0].note.replacen("\n5\n", "\n6\n", 1),
        all[0]
            .note
            .replacen("w1.example.com ", "w1.example.com A", 1),
        cosigned(2, 5).note,
    ] {
        let mut forged = all.clone();
        forged[0].note = changed;
        let found = super::super::cosigned_head(&forged[..1], &policy, log().verifier(), 1..=99);
        assert_eq!(found, None);
    }
}

#[test]
fn what_the_newest_quorum_and_the_newest_few_make_useless_goes() {
    let policy = policy();
    let sizes = |n: u8| move |size: &u64| cosigned(n, *size);
    let mut all: Vec<_> = [3, 5, 7, 8, 9, 10, 11, 12].iter().map(sizes(1)).collect();
    all.extend([2, 5].iter().map(sizes(2)));
    all.extend([6, 12].iter().map(sizes(9)));
    let gone: BTreeMap<_, _> = superseded(&all, &policy, &checkpoint(12))
        .into_iter()
        .map(|(size, id)| ((size, id), ()))
        .collect();
    let mut left: Vec<(u64, &str)> = (all.iter())
        .filter(|one| !gone.contains_key(&(one.size, one.id())))
        .map(|one| (one.size, one.key.split('+').next().unwrap()))
        .collect();
    left.sort_unstable();
    let (w1, w2) = ("w1.example.com", "w2.example.com");
    assert_eq!(
        left,
        [(5, w1), (5, w2), (9, w1), (10, w1), (11, w1), (12, w1)]
    );
    let renamed = Checkpoint::sign(
        &Signer::from_seed("new.example", &[99; 32]).unwrap(),
        1,
        leaf_hash(b"x"),
    );
    assert_eq!(superseded(&all, &policy, &renamed).len(), all.len());
}
