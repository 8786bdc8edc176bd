//! A witness's decision: every status code, and which reason goes before which.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::proof::prove_consistency;
use crate::ledger::{Signer, Tree, leaf_hash};

fn signer(seed: u8) -> Signer {
    Signer::from_seed("example.com/log", &[seed; 32]).unwrap()
}

/// The roots of a growing log, and proofs between them. Of two logs that are forked, the first three entries are the same.
struct Log {
    tiles: BTreeMap<(u8, u64), Vec<u8>>,
    roots: Vec<Hash>,
}

impl Log {
    fn new(fork: &str) -> Self {
        let mut tree = Tree::empty();
        let mut roots = vec![tree.root()];
        let mut tiles = BTreeMap::new();
        for at in 0..9 {
            let leaf = if at < 3 {
                format!("{at}")
            } else {
                format!("{at}{fork}")
            };
            for tile in tree.append([leaf_hash(leaf.as_bytes())]) {
                tiles.insert((tile.level, tile.index), tile.bytes);
            }
            roots.push(tree.root());
        }
        Self { tiles, roots }
    }

    fn head(&self, size: usize) -> Checkpoint {
        Checkpoint {
            origin: "example.com/log".to_owned(),
            size: size as u64,
            root: self.roots[size],
        }
    }

    fn request(&self, old: u64, size: usize) -> AddCheckpoint {
        let read = |level, index| Ok::<_, Infallible>(self.tiles.get(&(level, index)).cloned());
        let proof = prove_consistency(old.min(size as u64), size as u64, read);
        AddCheckpoint {
            old,
            proof: proof.unwrap(),
            note: Checkpoint::sign(&signer(1), size as u64, self.roots[size]),
        }
    }
}

/// What a witness answers that has cosigned `latest` last: 200, or the status of its refusal.
fn status(request: &AddCheckpoint, latest: Option<Checkpoint>) -> u16 {
    let printed = request.to_string();
    assert!(printed.len() <= MAX_REQUEST_BYTES);
    assert_eq!(AddCheckpoint::parse(&printed).as_ref(), Ok(request));
    let keys = [signer(1).verifier().clone()];
    judge(request, &keys, |_| latest).map_or_else(|why| why.status(), |_| 200)
}

#[test]
fn a_log_that_grows_is_cosigned_from_any_size_to_any_other() {
    let log = Log::new("");
    for old in 0..=9 {
        let latest = (old > 0).then(|| log.head(old));
        for size in old..=9 {
            let request = log.request(old as u64, size);
            assert_eq!(status(&request, latest.clone()), 200, "{old} to {size}");
            let wrong_size = status(&request, Some(log.head((old + 1) % 10)));
            assert_eq!(wrong_size, 409, "{old} to {size}");
            for at in 0..request.proof.len() {
                let mut changed = request.clone();
                changed.proof[at].0[0] ^= 1;
                assert_eq!(status(&changed, latest.clone()), 422);
                changed.proof.remove(at);
                assert_eq!(status(&changed, latest.clone()), 422);
            }
            let mut longer = request.clone();
            longer.proof.push(Hash::ZERO);
            assert_eq!(status(&longer, latest.clone()), 422);
        }
    }
}

#[test]
fn a_fork_is_evidence() {
    let (log, fork) = (Log::new(""), Log::new("'"));
    for old in 4..=9 {
        for size in old..=9 {
            let keys = [signer(1).verifier().clone()];
            let request = fork.request(old as u64, size);
            let refused = judge(&request, &keys, |_| Some(log.head(old))).unwrap_err();
            assert!(refused.is_evidence(), "{refused}");
            assert_eq!(refused.status(), 422);
            // A proof from a perfect tree does not repeat its root, so nobody can tell it from a wrong one.
            let is_proven = size == old || !old.is_power_of_two();
            let other_root = WitnessRefusal::OtherRoot { size: old as u64 };
            assert_eq!(refused == other_root, is_proven, "{old} to {size}");
            let mut wrong = log.request(old as u64, size);
            wrong.proof.push(Hash::ZERO);
            let refused = judge(&wrong, &keys, |_| Some(log.head(old))).unwrap_err();
            assert!(matches!(refused, WitnessRefusal::Proof(_)), "{refused}");
            for at in 0..wrong.proof.len() - 1 {
                let mut changed = log.request(old as u64, size);
                changed.proof[at].0[0] ^= 1;
                let refused = judge(&changed, &keys, |_| Some(log.head(old))).unwrap_err();
                assert!(matches!(refused, WitnessRefusal::Proof(_)), "{refused}");
            }
        }
    }
}

#[test]
fn the_first_reason_is_said() {
    let log = Log::new("");
    let latest = || Some(log.head(4));
    let good = log.request(4, 6);
    let with = |note: String| AddCheckpoint {
        note,
        ..good.clone()
    };
    let text = log.head(6).text();
    let signed = |text: &str| with(signer(1).sign(text).unwrap());
    let twice = good.note.clone() + good.note.split("\n\n").nth(1).unwrap();
    let empty = log
        .head(0)
        .text()
        .replace(&log.roots[0].to_base64(), &Hash::ZERO.to_base64());
    #[rustfmt::skip]
    let cases = [
        (with(signer(2).sign(&text).unwrap()), 403),
        (with(good.note.replace("example.com/log\n6", "example.com/log\n7")), 403),
        (with(twice), 403),
        (with(text.clone()), 403),
        (with(format!("{text}\n")), 403),
        (with(good.note.replacen("example.com/log\n", "example.com/other\n", 1)), 404),
        (with(String::new()), 404),
        (signed(&text.replace('6', "06")), 400),
        (signed("example.com/log\n6\n"), 400),
        (AddCheckpoint { old: 7, ..good.clone() }, 400),
        (AddCheckpoint { old: 3, ..good.clone() }, 409),
        (AddCheckpoint { old: 5, ..good.clone() }, 409),
        (AddCheckpoint { old: 0, ..good.clone() }, 409),
        (signed(&empty), 400),
        (AddCheckpoint { old: 0, proof: Vec::new(), ..signed(&empty) }, 409),
        (good.clone(), 200),
    ];
    for (request, expected) in cases {
        assert_eq!(status(&request, latest()), expected, "{request}");
    }
    let empty = AddCheckpoint {
        old: 0,
        proof: Vec::new(),
        ..signed(&empty)
    };
    assert_eq!(status(&empty, None), 422);
    assert_eq!(status(&log.request(0, 0), None), 200);
}

#[test]
fn a_body_that_is_no_request_is_refused() {
    let good = Log::new("").request(4, 6).to_string();
    let hash = Hash::ZERO.to_base64();
    for body in [
        String::new(),
        "old 4".to_owned(),
        good.replacen("old", "Old", 1),
        good.replacen("old 4", "old 04", 1),
        good.replacen("old 4", "old +4", 1),
        good.replacen("old 4", "old  4", 1),
        good.replacen("old 4", "old 4 ", 1),
        good.replacen("old 4", "old 18446744073709551616", 1),
        good.replacen("old 4\n", "old 4\r\n", 1),
        good.replacen("old 4\n", "old 4\nAAAA\n", 1),
        good.replacen("old 4\n", &format!("old 4\n{}\n", &hash[..43]), 1),
        format!(
            "old 4\n{}\n{}",
            format!("{hash}\n").repeat(MAX_PROOF + 1),
            "note"
        ),
    ] {
        let refused = AddCheckpoint::parse(&body).unwrap_err();
        assert_eq!(refused.status(), 400, "{body}");
    }
}

fn cosigner(seed: u8) -> Cosigner {
    Cosigner::from_seed("witness.example.com/w1", &[seed; 32]).unwrap()
}

#[test]
fn an_answer_is_read_for_what_it_is() {
    let log = Log::new("");
    let request = log.request(4, 6);
    let text = log.head(6).text();
    let (own, other) = (cosigner(2), cosigner(3));
    let keys = [own.verifier()];
    let read =
        |status, body: &str| WitnessAnswer::read(&request, 6, &keys, (status, body.as_bytes()));
    let line = own.cosign(&text, 7);
    let more = other.cosign(&text, 8) + &line;
    for body in [&line, &more] {
        let cosigned = WitnessAnswer::Cosigned(vec![(line.clone(), 7)]);
        assert_eq!(read(200, body), cosigned);
    }
    for (status, body) in [(409, "5\n"), (409, "5"), (409, "18446744073709551615\n")] {
        assert!(
            matches!(read(status, body), WitnessAnswer::Size(_)),
            "{body}"
        );
    }
    assert!(
        matches!(read(422, "no"), WitnessAnswer::Contradicts(why) if why.contains("(422: no)"))
    );
    // A text that ends with the checkpoint's own signature lines, signed by the witness.
    let shifted = format!(
        "{}\n{}",
        request.note,
        own.cosign(&format!("{}\n", request.note), 9)
    );
    for (status, body) in [
        (200, String::new()),
        (200, "ok".to_owned()),
        (200, line.trim_end().to_owned()),
        (200, other.cosign(&text, 7)),
        (200, own.cosign(&text, 0)),
        (200, own.cosign(&log.head(5).text(), 7)),
        (200, format!("{line}{line}")),
        (200, shifted[request.note.len()..].to_owned()),
        (200, "\u{2014} ".repeat(10_000)),
        (200, line.repeat(200)),
        (204, String::new()),
        (302, String::new()),
        (403, "other key".to_owned()),
        (404, "\u{202e}evil\u{7}".to_owned()),
        (409, String::new()),
        (409, "-1\n".to_owned()),
        (409, "05\n".to_owned()),
        (409, "4\n".to_owned()),
        (429, "x".repeat(9_999)),
        (500, "<html>".to_owned()),
    ] {
        match read(status, &body) {
            WitnessAnswer::Failed(why) => assert!(why.len() < 500 && why.is_ascii(), "{why}"),
            other => panic!("{status} {body:.60}: {other:?}"),
        }
    }
    // Of several keys at one address, those that signed count.
    let both = [other.verifier(), own.verifier()];
    let read_both = |body: &str| WitnessAnswer::read(&request, 6, &both, (200, body.as_bytes()));
    let (old, one) = ((other.cosign(&text, 8), 8), (line.clone(), 7));
    let untimed = other.cosign(&text, 0);
    for (body, found) in [
        (line.clone() + &old.0, vec![old.clone(), one.clone()]),
        (line.clone(), vec![one.clone()]),
        (old.0.clone(), vec![old]),
        (untimed.clone() + &line, vec![one]),
    ] {
        assert_eq!(read_both(&body), WitnessAnswer::Cosigned(found), "{body}");
    }
    for body in [untimed, String::new()] {
        assert!(matches!(read_both(&body), WitnessAnswer::Failed(_)));
    }
    let same = log.request(6, 6);
    let refused = WitnessAnswer::read(&same, 6, &keys, (409, b"6\n"));
    assert!(matches!(refused, WitnessAnswer::Contradicts(_)));
    let broken = WitnessAnswer::read(&request, 6, &keys, (200, &[0xff, 0xfe]));
    assert!(matches!(broken, WitnessAnswer::Failed(_)));
}
