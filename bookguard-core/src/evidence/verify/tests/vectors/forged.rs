//! Packets that were changed after they were made: by anybody, or by the ledger's holder, who can sign them again.

use serde_json::{Value, json};

use self::content::CONTENT;
use self::entries::ENTRIES;
use super::super::super::decode;
use super::super::fixture::Fixture;
use super::super::{signed_anew, text};
use super::{Bad, Noticed, World, flip};
use crate::evidence::statement::SignedStatement;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::hash::Hash;
use crate::ledger::{Signer, jcs, leaf_hash};

mod content;
mod entries;

pub type Change = fn(&World, &mut Value);

/// A character or number changed, in each part of a packet.
#[rustfmt::skip]
const FLIPS: &[(&str, &str, &str)] = &[
    ("booking", "created-without-policy", "/booking/eventType"),
    ("partner-name", "created-without-policy", "/partnerName"),
    ("created-at", "created-without-policy", "/createdAt"),
    ("leaf", "created-without-policy", "/entries/0/leaf"),
    ("digest", "created-without-policy", "/entries/0/body/sd/eventType"),
    ("value", "created-without-policy", "/entries/0/disclosures/5/value"),
    ("value-salt", "created-without-policy", "/entries/0/disclosures/5/salt"),
    ("proof", "created-without-policy", "/entries/0/proof"),
    ("policy-hash", "created", "/policyHash"),
    ("terms", "created", "/terms/until"),
    ("text", "created", "/termsDisclosures/0/text"),
    ("acceptance", "accepted", "/acceptances/0/method"),
    ("evaluation", "created", "/evaluation/explanation/text"),
    ("resolution", "canceled-final", "/resolution/summary"),
    ("host", "created-without-policy", "/deliveries/0/url"),
    ("headline", "created-without-policy", "/summary/headline"),
    ("signature", "created-without-policy", "/signature"),
];

/// Changed, and not signed again.
#[rustfmt::skip]
const CHANGED: &[(&str, &str, &str, Change)] = &[
    ("dropped-first-entry", "canceled-final", "the first entry is missing", |_, doc| drop(entries(doc).remove(0))),
    ("dropped-middle-entry", "canceled-final", "an entry in between is missing", |_, doc| drop(entries(doc).remove(1))),
    ("dropped-last-entry", "protected", "the last entry is missing", |_, doc| drop(entries(doc).pop())),
    ("exchanged-entries", "protected", "two entries changed places", |_, doc| entries(doc).swap(0, 1)),
    ("stream-with-lines", "created-without-policy",
        "the booking is another, and the stream has line feeds and the genuine text, for a verifier that works by lines",
        |world, doc| {
            let mut genuine = world.doc("created-without-policy");
            genuine.as_object_mut().unwrap().remove("signature");
            let genuine = jcs::to_canonical(&genuine).unwrap();
            let stream = doc["stream"].as_str().unwrap();
            let lines = format!("{stream}\ncontent\t{genuine}\nstream\t{stream}");
            doc["stream"] = lines.into();
            doc["partnerName"] = json!("Somebody else");
        }),
    ("signature-missing", "created-without-policy", "the signature is empty", |_, doc| doc["signature"] = json!("")),
    ("signature-of-another-packet", "created-without-policy", "the signature is another packet's",
        |world, doc| { doc["signature"] = world.good["protected"]["signature"].clone(); }),
    ("signature-is-a-checkpoint", "created-without-policy", "the ledger key signed the note, but it is a checkpoint", |_, doc| {
        let proof = doc["entries"][0]["proof"].as_str().unwrap();
        doc["signature"] = proof.split_once("\n\n").unwrap().1.into();
    }),
];

const STRUCTURE: Noticed = Noticed::Structure;

fn entries(document: &mut Value) -> &mut Vec<Value> {
    document["entries"].as_array_mut().unwrap()
}

/// Another key with the ledger's name.
fn impostor(world: &World) -> Signer {
    Signer::from_seed(world.fixture.signer.name(), &[9; 32]).unwrap()
}

fn spelled(document: &Value) -> Vec<u8> {
    jcs::to_canonical(document).unwrap().into_bytes()
}

/// Notes of the ledger key that do not say of the packet what it shows.
#[rustfmt::skip]
fn notes(world: &World) -> Vec<(&'static str, &'static str, String)> {
    let signer = &world.fixture.signer;
    let note = world.good["protected"]["signature"].as_str().unwrap();
    let own = SignedStatement::open(note, signer.verifier()).unwrap();
    let of = |change: fn(&mut SignedStatement)| {
        let mut other = own.clone();
        change(&mut other);
        signer.sign(&other.to_string()).unwrap()
    };
    let signed = |text: String| signer.sign(&text).unwrap();
    let said = own.to_string();
    vec![
        ("note-digest", "the note is of another digest", of(|s| s.digest = [1; 32])),
        ("note-stream", "the note is of another stream", of(|s| s.stream = [1; 16])),
        ("note-count", "the note counts an entry more", of(|s| s.count += 1)),
        ("note-head", "the note names another last entry", of(|s| s.head = Hash::ZERO)),
        ("note-log-size", "the note is of another size of the log", of(|s| s.log_size += 1)),
        ("note-count-spelled", "the note's count has a leading zero", signed(said.replace("\n2\n", "\n02\n"))),
        ("note-more-lines", "the note has a line more", signed(format!("{said}more\n"))),
        ("note-fewer-lines", "the note has only type and digest",
            signed(said.lines().take(2).map(|line| format!("{line}\n")).collect())),
        ("note-of-another-type", "the note is of another type", signed(said.replace("packet/1", "packet/2"))),
        ("note-with-two-signatures", "another key has signed the note too", format!("{note}\u{2014} someone AAAAAAAA\n")),
        ("note-of-another-key", "another key of the same name has signed the note", impostor(world).sign(&said).unwrap()),
        ("note-cut", "the note's last line is cut", note.trim_end().to_owned()),
    ]
}

/// Proofs of the one entry of a packet, and their checkpoints, all signed by the ledger key.
#[rustfmt::skip]
fn proofs(world: &World, document: &Value) -> Vec<(&'static str, &'static str, String)> {
    let signer = &world.fixture.signer;
    let genuine = document["entries"][0]["proof"].as_str().unwrap();
    let (path, checkpoint) = genuine.split_once("\n\n").unwrap();
    let (text, signature) = checkpoint.split_once("\n\n").unwrap();
    let (_, other) = document["signature"]
        .as_str()
        .unwrap()
        .split_once("\n\n")
        .unwrap();
    let leaf = decode(document["entries"][0]["leaf"].as_str().unwrap()).unwrap();
    let name = signer.name();
    let of = |index, size| {
        let head = format!("{name}\n{size}\n{}\n", leaf_hash(&leaf).to_base64());
        let head = signer.sign(&head).unwrap();
        format!("c2sp.org/tlog-proof@v1\nindex {index}\n\n{head}")
    };
    let signed = |text: String| format!("{path}\n\n{}", signer.sign(&text).unwrap());
    vec![
        ("checkpoint-of-another-text", "the checkpoint has the key's signature of another text",
            format!("{path}\n\n{text}\n\n{other}")),
        ("checkpoint-of-another-origin", "the key has signed the checkpoint of a log with another name",
            signed(format!("{text}\n").replace(name, "example.com/other"))),
        ("checkpoint-signed-twice", "the key has signed the checkpoint twice", format!("{genuine}{signature}")),
        ("checkpoint-with-a-cut-signature", "the checkpoint has a line of another key with no more than its id",
            format!("{genuine}\u{2014} witness AAAAAA==\n")),
        ("checkpoint-signed-under-no-name", "the checkpoint has a line of another key, in whose name is a control character",
            format!("{genuine}\u{2014} wit\u{7f}ness AAAAAAAA\n")),
        ("checkpoint-signed-under-a-long-name", "the checkpoint has a line of another key, whose name has 256 bytes",
            format!("{genuine}\u{2014} {} AAAAAAAA\n", "w".repeat(256))),
        ("proof-beyond-the-log", "the index is the size of the log", of(1, 1)),
        ("proof-too-short", "a proof has a hash less", of(0, 2)),
    ]
}

/// Packets that no service of ours writes, and that are good.
#[rustfmt::skip]
pub fn good(world: &World) -> Vec<(&'static str, &'static str, String)> {
    let mut document = world.doc("created-without-policy");
    let genuine = document["entries"][0]["proof"].as_str().unwrap();
    let (path, checkpoint) = genuine.split_once("\n\n").unwrap();
    let text = checkpoint.split_once("\n\n").unwrap().0;
    let more = world
        .fixture
        .signer
        .sign(&format!("{text}\nmore\n"))
        .unwrap();
    let witness = impostor(world).sign(&format!("{text}\nmore\n")).unwrap();
    let witness = witness.split_once("\n\n").unwrap().1;
    document["entries"][0]["proof"] = format!("{path}\n\n{more}{witness}").into();
    let text =
        |document: &Value| String::from_utf8(signed_anew(document, &world.fixture.signer)).unwrap();
    vec![
        ("witnessed", "the checkpoint has a further line, and the signature of another key of the same name", text(&document)),
        ("cosigned", "two witnesses have cosigned the checkpoint", text(&cosigned(world, cosign))),
        ("cosigned-at-no-date", "two witnesses have cosigned the checkpoint, in seconds that are of no date",
            text(&cosigned(world, |note| cosign_at(note, 1 << 62)))),
    ]
}

fn witness(name: &str, seed: u8) -> Cosigner {
    Cosigner::from_seed(&format!("witness.example.com/{name}"), &[seed; 32]).unwrap()
}

/// The note with the cosignatures of two witnesses.
pub fn cosign(note: &str) -> String {
    cosign_at(note, 1_790_000_000)
}

/// The note with the cosignatures of two witnesses, from this second on.
fn cosign_at(note: &str, time: u64) -> String {
    let text = &note[..=note.find("\n\n").unwrap()];
    let lines = [("one", 1), ("two", 2)]
        .map(|(name, seed)| witness(name, seed).cosign(text, time + u64::from(seed)));
    format!("{note}{}", lines.concat())
}

/// A trust policy that demands two of three witnesses.
pub fn policy() -> String {
    let line = |(name, seed)| format!("witness {name} {}\n", witness(name, seed).verifier());
    let lines = [("one", 1), ("two", 2), ("three", 3)].map(line).concat();
    format!("{lines}group witnesses 2 one two three\nquorum witnesses\n")
}

/// A packet of several entries whose checkpoint two witnesses have cosigned. It is not signed anew.
fn cosigned(world: &World, cosign: fn(&str) -> String) -> Value {
    let mut document = world.doc("accepted");
    for entry in entries(&mut document) {
        let proof = entry["proof"].as_str().unwrap();
        let (path, checkpoint) = proof.split_once("\n\n").unwrap();
        entry["proof"] = format!("{path}\n\n{}", cosign(checkpoint)).into();
    }
    document
}

/// Changes of the cosignatures of a packet, which its holder alone could make.
#[rustfmt::skip]
fn recosigned(world: &World) -> Vec<(&'static str, &'static str, Value)> {
    let signed = signed_anew(&cosigned(world, cosign), &world.fixture.signer);
    let genuine: Value = serde_json::from_slice(&signed).unwrap();
    let lines = |change: fn(&str) -> String| {
        let mut document = genuine.clone();
        for entry in entries(&mut document) {
            entry["proof"] = change(entry["proof"].as_str().unwrap()).into();
        }
        document
    };
    vec![
        ("cosignature-removed", "a witness's line was taken away from every proof",
            lines(|proof| proof[..=proof.trim_end().rfind('\n').unwrap()].to_owned())),
        ("cosignature-added", "a line of a witness was added to every proof",
            lines(|proof| format!("{proof}\u{2014} witness.example.com/three AAAAAAAAAAA=\n"))),
        ("cosignature-changed", "the lines of two witnesses changed places in every proof", lines(|proof| {
            let mut lines: Vec<&str> = proof.lines().collect();
            let last = lines.len() - 1;
            lines.swap(last - 1, last);
            lines.join("\n") + "\n"
        })),
    ]
}

/// A genuine packet of another ledger.
fn foreign() -> Vec<u8> {
    let other = Fixture::named("example.com/other");
    text(&other.recorded(), &other.signer).into_bytes()
}

/// A packet that must be refused: name, packet it is made of, why, who notices, first check that fails, change.
pub type Forgery = (
    &'static str,
    &'static str,
    &'static str,
    Noticed,
    &'static str,
    Change,
);

/// These packets, signed again by the ledger's holder.
pub fn signed(world: &World, forgeries: &[Forgery]) -> Vec<Bad> {
    let made = |&(name, base, why, noticed, check, change): &Forgery| {
        let mut document = world.doc(base);
        change(world, &mut document);
        let bytes = signed_anew(&document, &world.fixture.signer);
        Bad::of(name, why, noticed, check, bytes)
    };
    forgeries.iter().map(made).collect()
}

pub fn bad(world: &World) -> Vec<Bad> {
    let mut bad = Vec::new();
    let mut put = |name: &str, why: &str, check, bytes| {
        bad.push(Bad::of(name, why, STRUCTURE, check, bytes));
    };
    for (part, base, pointer) in FLIPS {
        let mut document = world.doc(base);
        flip(&mut document, pointer);
        let why = format!("one character of {pointer} is another");
        let name = format!("flip-{part}");
        put(&name, &why, "signature", spelled(&document));
    }
    for (name, base, why, change) in CHANGED {
        let mut document = world.doc(base);
        change(world, &mut document);
        put(name, why, "signature", spelled(&document));
    }
    for (name, why, document) in recosigned(world) {
        put(name, why, "signature", spelled(&document));
    }
    for (name, why, note) in notes(world) {
        let mut document = world.doc("protected");
        document["signature"] = note.into();
        put(name, why, "signature", spelled(&document));
    }
    let genuine = world.doc("created-without-policy");
    for (name, why, proof) in proofs(world, &genuine) {
        let mut document = genuine.clone();
        document["entries"][0]["proof"] = proof.into();
        let bytes = signed_anew(&document, &world.fixture.signer);
        put(name, why, "proof", bytes);
    }
    let why = "a genuine packet of another ledger";
    put("ledger-of-another", why, "signature", foreign());
    bad.extend(signed(world, ENTRIES));
    bad.extend(signed(world, CONTENT));
    bad
}
