//! Trust policies: every rule of the format, and every set of witnesses against nested groups.

use super::*;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::{Signer, leaf_hash};

fn log(seed: u8) -> Signer {
    Signer::from_seed("example.com/log", &[seed; 32]).unwrap()
}

fn witness(seed: u8) -> Cosigner {
    Cosigner::from_seed(&format!("witness.example.com/{seed}"), &[seed; 32]).unwrap()
}

fn vkey(seed: u8) -> String {
    witness(seed).verifier().to_string()
}

/// The example of the specification: two of three, and one of three others.
fn nested() -> String {
    let mut text = format!("# who we trust\n\nlog {}\n", log(1).verifier());
    for at in 0..6 {
        text.push_str(&format!(
            " \twitness w{at}\t{} https://w{at}.example\n",
            vkey(10 + at)
        ));
    }
    text + "group X 2 w0 w1 w2\ngroup Y any w3 w4 w5\ngroup both all X Y\nquorum both\n"
}

/// A checkpoint with the cosignatures of these witnesses.
fn note(cosigned: &[u8]) -> String {
    let mut note = Checkpoint::sign(&log(1), 3, leaf_hash(b"root"));
    let text = log(1).verifier().open(&note).unwrap().to_owned();
    for seed in cosigned {
        note.push_str(&witness(*seed).cosign(&text, 1_700_000_000 + u64::from(*seed)));
    }
    note
}

#[test]
fn every_set_of_witnesses_is_judged_as_the_quorum_says() {
    let policy = TrustPolicy::parse(&nested()).unwrap();
    for set in 0..64_u8 {
        let signed: Vec<u8> = (0..6)
            .filter(|at| set >> at & 1 == 1)
            .map(|at| 10 + at)
            .collect();
        let enough = (set & 0b111).count_ones() >= 2 && set >> 3 != 0;
        // Others' signatures count for nothing.
        let checked = policy.check(&note(&[&signed[..], &[99]].concat()));
        assert_eq!(checked.is_ok(), enough, "{signed:?}");
        let cosigned = match checked {
            Ok(trusted) => trusted.cosigned,
            Err(TrustError::Quorum { cosigned }) => cosigned,
            Err(other) => panic!("{other}"),
        };
        let expected = signed
            .iter()
            .map(|seed| (format!("w{}", seed - 10), 1_700_000_000 + u64::from(*seed)));
        assert_eq!(cosigned, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_checkpoint_is_of_one_of_the_logs() {
    let keys = format!(
        "log {}\nlog {}\nquorum none\n",
        log(2).verifier(),
        log(1).verifier()
    );
    assert!(TrustPolicy::parse(&keys).unwrap().check(&note(&[])).is_ok());
    let other = format!("log {}\nquorum none\n", log(2).verifier());
    let refused = TrustPolicy::parse(&other).unwrap().check(&note(&[]));
    assert!(
        matches!(refused, Err(TrustError::Log(Some(_)))),
        "{refused:?}"
    );
    let refused = TrustPolicy::parse("quorum none\n")
        .unwrap()
        .check(&note(&[]));
    assert_eq!(refused, Err(TrustError::Log(None)));
}

#[test]
fn a_forged_cosignature_of_a_witness_is_never_just_missing() {
    let policy = TrustPolicy::parse(&nested()).unwrap();
    let line = witness(13).cosign("example.com/log\n4\nanother text\n", 7);
    let refused = policy.check(&(note(&[10, 11, 14]) + &line));
    let expected = "the cosignature of the witness w3 does not verify: ";
    assert!(refused.unwrap_err().to_string().starts_with(expected));
}

#[test]
fn what_breaks_a_rule_of_the_format_is_refused_with_its_line() {
    let two = format!("witness a {}\nwitness b {}\n", vkey(1), vkey(2));
    let alias = Cosigner::from_seed("alias", &[1; 32]).unwrap().verifier();
    let many: String = (0..=MAX_ENTRIES)
        .map(|at| {
            format!(
                "group g{at} any {}\n",
                if at == 0 {
                    "a".to_owned()
                } else {
                    format!("g{}", at - 1)
                }
            )
        })
        .collect();
    #[rustfmt::skip]
    let cases = [
        (String::new(), 0, Fault::NoQuorum),
        (two.clone(), 0, Fault::NoQuorum),
        ("quorum".to_owned(), 1, Fault::Form),
        ("quorum none none".to_owned(), 1, Fault::Form),
        ("\n#\nquorum none\nquorum none\n".to_owned(), 4, Fault::TwoQuorums),
        (format!("quorum a\n{two}"), 1, Fault::Undefined),
        (format!("{two}quorum A"), 3, Fault::Undefined),
        (format!("{two}group g any a c"), 3, Fault::Undefined),
        (format!("{two}group g any g"), 3, Fault::Undefined),
        (format!("{two}group g any none"), 3, Fault::Undefined),
        (format!("{two}group g any a a"), 3, Fault::TwiceAMember),
        (format!("{two}group g any a\ngroup h any a"), 4, Fault::TwiceAMember),
        (format!("{two}group g 0 a"), 3, Fault::Threshold),
        (format!("{two}group g 2 a"), 3, Fault::Threshold),
        (format!("{two}group g +1 a"), 3, Fault::Threshold),
        (format!("{two}group g some a"), 3, Fault::Threshold),
        (format!("{two}group g any"), 3, Fault::Form),
        (format!("{two}group a any b"), 3, Fault::Name),
        (format!("{two}group none any b"), 3, Fault::Name),
        (format!("{two}witness b {}", vkey(3)), 3, Fault::Name),
        (format!("{two}witness c {}", vkey(1)), 3, Fault::TwiceTheKey),
        (format!("{two}witness c {alias}"), 3, Fault::TwiceTheKey),
        (format!("witness a {} https://a https://b", vkey(1)), 1, Fault::Form),
        (format!("witness a {}\rquorum a", vkey(1)), 1, Fault::Control),
        ("witness a b".to_owned(), 1, Fault::Key(KeyError::Form)),
        (format!("witness a {}", log(1).verifier()), 1, Fault::Key(KeyError::Kind { found: 1, expected: 4 })),
        (format!("log {}", vkey(1)), 1, Fault::Key(KeyError::Kind { found: 4, expected: 1 })),
        ("logs".to_owned(), 1, Fault::Form),
        (format!("{two}{many}"), 2 + MAX_ENTRIES + 1, Fault::TooMany),
        ("#".repeat(MAX_POLICY_BYTES + 1), 0, Fault::TooLong),
    ];
    for (text, line, fault) in cases {
        let refused = TrustPolicy::parse(&text).unwrap_err();
        assert_eq!(refused, TrustPolicyError::new(line, fault), "{text:.300}");
        assert!(!refused.to_string().is_empty());
    }
}
