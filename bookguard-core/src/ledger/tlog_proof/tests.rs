//! The text of a proof: made from a log, checked offline, and never valid for another statement.

use proptest::prelude::*;

use super::*;
use crate::ledger::note::Signer;
use crate::ledger::proof::prove_inclusion;
use crate::ledger::tree::Tree;

fn signer() -> Signer {
    Signer::from_seed("example.com/log", &[5; 32]).unwrap()
}

fn entry(index: u64) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

/// The proof of one entry of a log of `entry(0), entry(1), …`.
fn proof(index: u64, size: u64) -> TlogProof {
    let mut tree = Tree::empty();
    let tiles = tree.append((0..size).map(|index| leaf_hash(&entry(index))));
    let read = |level, index| {
        let tile = tiles
            .iter()
            .find(|tile| (tile.level, tile.index) == (level, index));
        Ok::<_, std::fmt::Error>(tile.map(|tile| tile.bytes.clone()))
    };
    TlogProof {
        extra: None,
        index,
        path: prove_inclusion(index, size, read).unwrap(),
        checkpoint: Checkpoint::sign(&signer(), size, tree.root()),
    }
}

#[test]
fn a_proof_is_written_line_by_line() {
    let proof = proof(1, 3);
    let expected = format!(
        "c2sp.org/tlog-proof@v1\nindex 1\n{}\n{}\n\n{}",
        leaf_hash(&entry(0)).to_base64(),
        leaf_hash(&entry(2)).to_base64(),
        proof.checkpoint
    );
    assert_eq!(proof.to_string(), expected);
    let extra = TlogProof {
        extra: Some(b"more".to_vec()),
        ..proof
    };
    let with_extra = expected.replacen("index", "extra bW9yZQ==\nindex", 1);
    assert_eq!(extra.to_string(), with_extra);
    assert_eq!(TlogProof::parse(&with_extra), Ok(extra));
}

#[test]
fn the_only_entry_of_a_log_needs_no_hashes() {
    let proof = proof(0, 1);
    let text = proof.to_string();
    assert!(text.starts_with("c2sp.org/tlog-proof@v1\nindex 0\n\nexample.com/log\n1\n"));
    let read = TlogProof::parse(&text).unwrap();
    assert_eq!(read.verify(&entry(0), signer().verifier()).unwrap().size, 1);
}

#[test]
fn a_proof_with_any_bit_flipped_never_verifies() {
    let text = proof(5, 11).to_string();
    let verify = |text: &str| TlogProof::parse(text)?.verify(&entry(5), signer().verifier());
    assert_eq!(verify(&text).unwrap().size, 11);
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            if let Ok(flipped) = String::from_utf8(bytes) {
                assert!(verify(&flipped).is_err(), "byte {at} bit {bit}: {flipped}");
            }
        }
    }
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        assert!(verify(&text[..end]).is_err(), "cut at {end}");
    }
    for more in ["\n", " ", "x", "x\n", "\0"] {
        assert!(verify(&format!("{text}{more}")).is_err(), "{more:?}");
    }
}

#[test]
fn a_proof_is_about_one_entry_of_one_log() {
    let proof = proof(5, 11);
    let mut other_entry = entry(5);
    for at in 0..other_entry.len() {
        other_entry[at] ^= 1;
        let refused = proof.verify(&other_entry, signer().verifier());
        assert_eq!(refused, Err(TlogProofError::Inclusion(ProofError::Root)));
        other_entry[at] ^= 1;
    }
    let other_log = Signer::from_seed("example.com/log", &[6; 32]).unwrap();
    assert!(matches!(
        proof.verify(&entry(5), other_log.verifier()),
        Err(TlogProofError::Checkpoint(_))
    ));
    let beyond = TlogProof { index: 11, ..proof };
    assert!(matches!(
        beyond.verify(&entry(5), signer().verifier()),
        Err(TlogProofError::Inclusion(ProofError::OutOfRange { .. }))
    ));
}

#[test]
fn an_error_says_its_cause_once() {
    use std::error::Error as _;

    let other_log = Signer::from_seed("example.com/log", &[6; 32]).unwrap();
    let refused = proof(5, 11).verify(&entry(5), other_log.verifier());
    let refused = refused.unwrap_err();
    let TlogProofError::Checkpoint(cause) = &refused else {
        panic!("{refused}")
    };
    assert_eq!(
        refused.to_string(),
        format!("the ledger proof does not verify: {cause}")
    );
    assert!(refused.source().is_none() && cause.source().is_none());
}

#[test]
fn a_proof_spelled_in_any_other_way_is_refused() {
    let good = proof(5, 11).to_string();
    let hash = proof(5, 11).path[0].to_base64();
    let too_many = format!("{hash}\n").repeat(65);
    for (from, to) in [
        ("@v1\n", "@v2\n"),
        ("@v1\n", "@v1\r\n"),
        ("@v1\n", "@v1 \n"),
        ("@v1\n", "@v1\n\n"),
        ("c2sp", "\u{feff}c2sp"),
        ("index 5", "index 05"),
        ("index 5", "index +5"),
        ("index 5", "index -5"),
        ("index 5", "index 5 "),
        ("index 5", "index  5"),
        ("index 5", "Index 5"),
        ("index 5", "index "),
        ("index 5", "index 18446744073709551616"),
        ("index 5\n", ""),
        ("index 5", "index 5\nindex 5"),
        ("index 5", "extra \nindex 5"),
        ("index 5", "extra AA\nindex 5"),
        ("index 5", "extra AB==\nindex 5"),
        ("index 5", "extra AA==\nextra AA==\nindex 5"),
        ("index 5", "index 5\nextra AA=="),
        (&hash, &hash[..43]),
        (&hash, &format!("{hash} ")),
        (&hash, &format!(" {hash}")),
        (&hash, &STANDARD.encode([1; 31])),
        (&hash, &STANDARD.encode([1; 33])),
        (&format!("{hash}\n"), &too_many),
    ] {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good, "{from} is not in the proof");
        let refused = TlogProof::parse(&changed);
        assert!(matches!(refused, Err(TlogProofError::Form(_))), "{changed}");
    }
    let long = format!("{good}{}", "x".repeat(MAX_PROOF_BYTES));
    assert_eq!(
        TlogProof::parse(&long),
        Err(TlogProofError::Form("it is too long"))
    );
    let extra = STANDARD.encode(vec![0; MAX_EXTRA_BYTES + 1]);
    let much = good.replacen("index", &format!("extra {extra}\nindex"), 1);
    assert!(TlogProof::parse(&much).is_err());
}

proptest! {
    #[test]
    fn whatever_is_printed_is_read_back(
        extra in prop::option::of(prop::collection::vec(any::<u8>(), 1..40)),
        index: u64,
        path in prop::collection::vec(any::<[u8; 32]>(), 0..=MAX_PATH),
        checkpoint in "[^\\x00]{1,60}",
    ) {
        let path = path.into_iter().map(Hash).collect();
        let proof = TlogProof { extra, index, path, checkpoint };
        prop_assert_eq!(TlogProof::parse(&proof.to_string()), Ok(proof));
    }
}
