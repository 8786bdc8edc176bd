//! What the ledger's formats are read from: other logs, witnesses, mirrors, and files.

use std::sync::LazyLock;

use bookguard_core::evidence::SignedStatement;
use bookguard_core::ledger::cosignature::Cosigner;
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::witness::{AddCheckpoint, WitnessAnswer, judge};
use bookguard_core::ledger::{
    Checkpoint, Hash, Leaf, Signer, TilePath, TlogProof, VerifierKey, jcs, proof, tile,
};

use crate::text;

static SIGNER: LazyLock<Signer> =
    LazyLock::new(|| Signer::from_seed("example.com/log", &[7; 32]).unwrap());
static COSIGNER: LazyLock<Cosigner> =
    LazyLock::new(|| Cosigner::from_seed("witness.example", &[9; 32]).unwrap());

/// What is canonical stays as it is, and means the same.
pub fn json(bytes: &[u8]) {
    let Some(value) = text(bytes).and_then(|text| jcs::parse(text).ok()) else {
        return;
    };
    let Ok(canonical) = jcs::to_canonical(&value) else {
        return;
    };
    let again = jcs::parse(&canonical).expect("canonical JSON is JSON");
    assert_eq!(jcs::to_canonical(&again).unwrap(), canonical);
}

/// A leaf has one text: what is read is what would be written.
pub fn leaves(bytes: &[u8]) {
    if let Ok(leaf) = Leaf::parse(bytes) {
        assert_eq!(leaf.encode().unwrap(), bytes);
    }
}

/// The first line is a key; the rest is a note, which no key but the example's has signed. The text of a note can be signed
/// as a checkpoint, or as the statement of a packet, only if it reads back the same.
pub fn notes(bytes: &[u8]) {
    let Some((key, note)) = text(bytes).and_then(|text| text.split_once('\n')) else {
        return;
    };
    if let Ok(key) = key.parse::<VerifierKey>() {
        assert_eq!(key.to_string().parse::<VerifierKey>().unwrap(), key);
        if let Ok(opened) = key.open(note) {
            assert!(note.starts_with(opened));
            let alone = key.alone(note).expect("what opens has its signature");
            assert_eq!(key.open(&alone).unwrap(), opened);
        }
    }
    if let Ok(head) = Checkpoint::parse(note) {
        let again = Checkpoint::parse(&head.text()).expect("a checkpoint reads what it writes");
        assert_eq!(again, head);
    }
    if let Ok(signed) = SIGNER.sign(note) {
        assert_eq!(
            SIGNER
                .verifier()
                .open(&signed)
                .expect("what is signed opens"),
            note
        );
        if let Ok(statement) = SignedStatement::open(&signed, SIGNER.verifier()) {
            assert_eq!(statement.to_string(), note);
        }
        let cosigned = signed + &COSIGNER.cosign(note, 1);
        assert_eq!(
            COSIGNER
                .verifier()
                .verify(&cosigned)
                .expect("what is cosigned verifies"),
            1
        );
    } else {
        assert!(SIGNER.verifier().open(note).is_err());
    }
}

/// A proof reads what it writes. Its bytes are also an inclusion proof of some entry, which never proves what is not there.
pub fn proofs(bytes: &[u8]) {
    if let Some(read) = text(bytes).and_then(|text| TlogProof::parse(text).ok()) {
        let written = read.to_string();
        assert_eq!(
            TlogProof::parse(&written).expect("a proof reads what it writes"),
            read
        );
        assert!(written.len() <= bytes.len());
        let _ = read.claimed_head();
        assert!(read.verify(b"entry", SIGNER.verifier()).is_err());
    }
    let mut numbers = bytes
        .chunks_exact(8)
        .map(|eight| u64::from_le_bytes(eight.try_into().unwrap()));
    let (Some(from), Some(to)) = (numbers.next(), numbers.next()) else {
        return;
    };
    let path: Vec<Hash> = bytes[16..]
        .chunks_exact(32)
        .map(|hash| Hash::try_from(hash).unwrap())
        .collect();
    let (leaf, root) = (Hash::of(b"leaf"), Hash::of(b"root"));
    assert!(proof::verify_inclusion(&leaf, from, to, &path, &root).is_err());
    if proof::verify_consistency(from, &leaf, to, &root, &path).is_ok() {
        assert_eq!(from, 0, "two made-up roots are not consistent");
    }
}

/// A path reads what it writes, and a bundle is what its entries make. The first byte is the bundle's width.
pub fn tiles(bytes: &[u8]) {
    if let Some(path) = text(bytes).and_then(|text| TilePath::parse(text).ok()) {
        assert_eq!(path.to_string().as_bytes(), bytes);
    }
    if let Some((&width, bundle)) = bytes.split_first()
        && let Ok(entries) = tile::parse_bundle(bundle, usize::from(width) + 1)
    {
        assert_eq!(tile::encode_bundle(entries).unwrap(), bundle);
    }
}

/// A policy, a line of equals signs, and a note. A note is trusted only as a checkpoint of one of the policy's logs.
pub fn trust(bytes: &[u8]) {
    let Some(text) = text(bytes) else {
        return;
    };
    let (policy, note) = text.split_once("\n===\n").unwrap_or((text, ""));
    match TrustPolicy::parse(policy) {
        Ok(policy) => {
            if let Ok(trusted) = policy.check(note) {
                assert!(policy.logs().iter().any(
                    |log| Checkpoint::open(note, &log.key).as_ref() == Ok(&trusted.checkpoint)
                ));
                assert!(trusted.cosigned.len() <= policy.witnesses().len());
            }
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// A request reads what it writes, and nothing that the log's key has not signed is cosigned. The example's key signs the
/// note, so that what comes after the signature is reached.
pub fn witness(bytes: &[u8]) {
    let Some(Ok(asked)) = text(bytes).map(AddCheckpoint::parse) else {
        return;
    };
    assert_eq!(
        AddCheckpoint::parse(&asked.to_string()).expect("a request reads what it writes"),
        asked
    );
    let logs = [SIGNER.verifier().clone()];
    assert!(judge(&asked, &logs, |_| None).is_err());
    let Ok(note) = SIGNER.sign(&asked.note) else {
        return;
    };
    let last = Checkpoint {
        origin: "example.com/log".to_owned(),
        size: 5,
        root: Hash::of(b"root"),
    };
    let signed = AddCheckpoint { note, ..asked };
    if let Ok((_, head)) = judge(&signed, &logs, |_| Some(last.clone())) {
        assert_eq!(
            (head.size, head.root),
            (last.size, last.root),
            "no proof continues a made-up root"
        );
    }
    let _ = judge(&signed, &logs, |_| None);
}

/// What a witness answers: a status, a line with a time, and the body, before which stands a genuine cosignature of that time if there is
/// one. Nothing but a genuine one is taken.
pub fn cosignatures(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let (status, time, rest) = (next(), next(), next());
    let number = |bytes| text(bytes).and_then(|text| text.parse::<u64>().ok());
    let Some(status) = number(status).and_then(|status| u16::try_from(status).ok()) else {
        return;
    };
    let head = Checkpoint {
        origin: "example.com/log".to_owned(),
        size: 5,
        root: Hash::of(b"root"),
    };
    let note = SIGNER
        .sign(&head.text())
        .expect("a checkpoint can be signed");
    let request = AddCheckpoint {
        old: 3,
        proof: Vec::new(),
        note,
    };
    let genuine = number(time).map(|time| COSIGNER.cosign(&head.text(), time));
    let body = [genuine.unwrap_or_default().as_bytes(), rest].concat();
    match WitnessAnswer::read(&request, head.size, &[COSIGNER.verifier()], (status, &body)) {
        WitnessAnswer::Cosigned(found) => {
            let [(line, time)] = &found[..] else {
                panic!("{found:?} for one witness");
            };
            assert_eq!(
                line.trim_end(),
                COSIGNER.cosign(&head.text(), *time).trim_end()
            );
        }
        WitnessAnswer::Size(size) => assert_ne!(size, request.old),
        WitnessAnswer::Contradicts(said) | WitnessAnswer::Failed(said) => {
            assert!(!said.is_empty() && said.chars().count() < 1000 && !said.contains('\n'));
        }
    }
}
