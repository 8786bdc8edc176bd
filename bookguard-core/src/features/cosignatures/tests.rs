//! What an answer of a witness does to what is known of it.

use std::collections::BTreeSet;

use super::*;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::{Hash, Signer};

fn cosigner(seed: u8) -> Cosigner {
    Cosigner::from_seed("witness.example.com/w", &[seed; 32]).unwrap()
}

/// A turn with a witness that is thought to have cosigned this size last.
fn turn(size: u64) -> WitnessTurn {
    let place = WitnessPlace {
        url: "https://witness.example.com".to_owned(),
        names: vec!["w".to_owned()],
        keys: vec![cosigner(1).verifier()],
    };
    let state = WitnessState {
        url: place.url.clone(),
        origin: "example.com/log".to_owned(),
        size,
        lease: 1,
        due: Timestamp::EPOCH,
        asked_at: Timestamp::EPOCH,
        cosigned_at: None,
        signed: BTreeMap::new(),
        expected: BTreeSet::new(),
        failures: 0,
        trouble: None,
    };
    WitnessTurn::new(place, state)
}

/// The turn after it has sent the newest checkpoint of a log of this size and got this answer; and whether to send another.
fn answered(mut turn: WitnessTurn, log_size: u64, answer: (u16, &str)) -> (WitnessTurn, bool) {
    let old = match turn.state.size > log_size {
        true => 0,
        false => turn.state.size,
    };
    turn.sent = Some(SentCheckpoint {
        request: AddCheckpoint {
            old,
            proof: Vec::new(),
            note: String::new(),
        },
        size: log_size,
        log_size,
    });
    let (status, body) = answer;
    let again = turn.answered((status, body.as_bytes()), Timestamp::EPOCH);
    (turn, again)
}

#[test]
fn an_alarm_stays_until_the_witness_cosigns() {
    let (mut turn, again) = answered(turn(10), 12, (422, "no"));
    assert!(!again && turn.state.is_alarm());
    let alarm = turn.state.trouble.clone();
    turn.unanswered("it did not answer".to_owned());
    assert_eq!(turn.state.trouble, alarm);
    for answer in [(503, ""), (409, "11\n"), (200, "no cosignature")] {
        // None of these says that the log is whole.
        (turn, _) = answered(turn, 12, answer);
        assert_eq!(turn.state.trouble, alarm, "{answer:?}");
    }
}

#[test]
fn a_larger_size_is_an_alarm_only_against_a_head_that_was_read_after_it_was_named() {
    for (log_size, is_alarm) in [(12, true), (16, true), (17, false), (20, false)] {
        let (turn, again) = answered(turn(10), 12, (409, "17\n"));
        assert!(again && !turn.state.is_alarm());
        assert_eq!(turn.state.size, 17);
        // The head is read again.
        let answer = match log_size < 17 {
            true => "17\n",
            // It went on meanwhile, as the log did.
            false => "21\n",
        };
        let (turn, again) = answered(turn, log_size, (409, answer));
        assert_eq!(turn.state.is_alarm(), is_alarm, "{log_size}");
        assert_eq!(again, !is_alarm);
    }
}

#[test]
fn what_one_key_of_a_place_signed_is_kept_without_its_neighbour_which_is_named() {
    let signer = Signer::from_seed("example.com/log", &[7; 32]).unwrap();
    let head = Checkpoint {
        origin: "example.com/log".to_owned(),
        size: 12,
        root: Hash::of(b"root"),
    };
    let mut turn = turn(10);
    turn.place.keys = vec![cosigner(1).verifier(), cosigner(2).verifier()];
    let note = Checkpoint::sign(&signer, head.size, head.root);
    let line = cosigner(2).cosign(&head.text(), 9);
    turn.sent = Some(SentCheckpoint {
        request: AddCheckpoint {
            old: 10,
            proof: Vec::new(),
            note: note.clone(),
        },
        size: 12,
        log_size: 12,
    });
    assert!(!turn.answered((200, line.as_bytes()), Timestamp::EPOCH));
    let kept = StoredCosignature {
        key: cosigner(2).verifier().to_string(),
        size: 12,
        note: note + &line,
    };
    let [silent, signed] = [1, 2].map(|seed| cosigner(seed).verifier().to_string());
    assert_eq!(turn.cosigned, [kept]);
    let mut state = turn.state;
    assert_eq!(state.trouble, None);
    assert_eq!(state.signed_at(&silent), None);
    assert_eq!(state.signed_at(&signed), Some(Timestamp::EPOCH));
    assert!(state.trouble_of(&silent).unwrap().contains(&silent));
    assert_eq!(state.trouble_of(&signed), None);
    let added = cosigner(3).verifier().to_string();
    assert_eq!(state.trouble_of(&added), None, "it was not asked yet");
    // A row from before its keys were told apart.
    state.signed.clear();
    let row = serde_json::to_string(&state).unwrap();
    assert!(!row.contains("\"signed\""), "{row}");
    assert_eq!(serde_json::from_str::<WitnessState>(&row).unwrap(), state);
    assert_eq!(state.signed_at(&silent), state.cosigned_at);
    assert_eq!(state.trouble_of(&silent), None);
}
