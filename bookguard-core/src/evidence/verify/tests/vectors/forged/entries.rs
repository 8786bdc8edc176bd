//! Faults in the form of a packet, and in its entries: their places, proofs, commitments and values.

use serde_json::{Value, json};

use super::super::super::fixture::Fixture;
use super::super::at;
use super::{Forgery, STRUCTURE, cosign, entries, impostor};
use crate::ledger::Signer;
use crate::ledger::hash::Hash;

#[rustfmt::skip]
pub const ENTRIES: &[Forgery] = &[
    ("dropped-first-entry-signed", "canceled-final", "the first entry is missing", STRUCTURE, "chain",
        |_, doc| { drop(entries(doc).remove(0)); }),
    ("dropped-middle-entry-signed", "canceled-final", "an entry in between is missing", STRUCTURE, "chain",
        |_, doc| { drop(entries(doc).remove(1)); }),
    ("dropped-last-entry-signed", "protected", "the last entry is missing, and the booking is shown as if it were there",
        STRUCTURE, "booking", |_, doc| { drop(entries(doc).pop()); }),
    ("no-entries-signed", "created-without-policy", "it has no entries", STRUCTURE, "signature", |_, doc| entries(doc).clear()),
    ("exchanged-entries-signed", "protected", "two entries changed places", STRUCTURE, "chain", |_, doc| entries(doc).swap(0, 1)),
    ("repeated-entry-signed", "protected", "an entry is there twice", STRUCTURE, "chain", |_, doc| {
        let last = doc["entries"][1].clone();
        entries(doc).push(last);
    }),
    ("entry-of-another-booking", "protected", "an entry is another booking's", STRUCTURE, "chain",
        |world, doc| { doc["entries"][1] = world.good["canceled-final"]["entries"][1].clone(); }),
    ("entries-of-another-booking", "created-without-policy", "all entries and the stream are another booking's", STRUCTURE,
        "booking", |world, doc| {
        for part in ["entries", "stream"] {
            doc[part] = world.good["yen"][part].clone();
        }
    }),
    ("unknown-member", "created-without-policy", "a member that is not known", STRUCTURE, "form",
        |_, doc| doc["more"] = json!(1)),
    ("other-version", "created-without-policy", "a packet of a version that is not known", STRUCTURE, "form",
        |_, doc| doc["type"] = json!("bookguard.evidence/2")),
    ("unknown-member-of-an-entry", "created-without-policy", "an entry has a member that is not known", STRUCTURE, "form",
        |_, doc| { doc["entries"][0]["more"] = json!(1); }),
    ("unknown-member-of-the-booking", "created-without-policy", "the booking has a member that is not recorded", STRUCTURE,
        "form", |_, doc| { doc["booking"]["more"] = json!(1); }),
    ("unknown-member-of-all-objects", "created-without-policy",
        "the booking has a member that is not recorded, and that every object of JavaScript seems to have", STRUCTURE, "form",
        |_, doc| { doc["booking"]["__proto__"] = json!({}); }),
    ("unknown-member-of-a-delivery", "created-without-policy", "a delivery has a member that is not known", STRUCTURE, "form",
        |_, doc| { doc["deliveries"][0]["more"] = json!(1); }),
    ("missing-member", "created-without-policy", "formerTerms is missing", STRUCTURE, "form",
        |_, doc| { doc.as_object_mut().unwrap().remove("formerTerms"); }),
    ("origin-of-another-log", "created-without-policy", "the packet names another ledger than its key", STRUCTURE, "key",
        |_, doc| { doc["log"]["origin"] = json!("example.com/other"); }),
    ("key-of-another-log", "created-without-policy", "the packet names another key", STRUCTURE, "key",
        |_, doc| { doc["log"]["vkey"] = Fixture::named("example.com/other").vkey().into(); }),
    ("created-before-its-entry", "created-without-policy", "the packet is older than its entry", STRUCTURE, "chain",
        |_, doc| { doc["createdAt"] = json!("2026-01-01T00:00:00.000Z"); }),
    ("proof-of-another-index", "protected", "a proof is for another index", STRUCTURE, "proof",
        |_, doc| { replace(doc, "/entries/0/proof", "index 1\n", "index 2\n"); }),
    ("proof-of-another-entry", "protected", "a proof is another entry's", STRUCTURE, "proof",
        |_, doc| { doc["entries"][0]["proof"] = doc["entries"][1]["proof"].clone(); }),
    ("proof-too-long", "protected", "a proof has a hash more", STRUCTURE, "proof", |_, doc| {
        let more = format!("index 1\n{}\n", Hash::ZERO.to_base64());
        replace(doc, "/entries/0/proof", "index 1\n", &more);
    }),
    ("proof-with-extra-data", "protected", "a proof has extra data, which no signature covers", STRUCTURE, "proof",
        |_, doc| { replace(doc, "/entries/0/proof", "index 1\n", "extra AAAA\nindex 1\n"); }),
    ("proof-under-another-log", "protected", "the checkpoint of a proof is another log's", STRUCTURE, "proof", |_, doc| {
        let other = Fixture::named("example.com/other").protected();
        doc["entries"][0]["proof"] = other.entries[0].proof.clone().into();
    }),
    ("proof-under-another-key", "protected", "the checkpoint of a proof is signed by another key of the same name", STRUCTURE,
        "proof", |world, doc| { resign(doc, &impostor(world)); }),
    ("proof-under-an-older-checkpoint", "protected", "two entries are proven under different states of the log", STRUCTURE,
        "chain", |world, doc| { doc["entries"][0]["proof"] = world.fixture.proof_under(0, world.fixture.size() - 1).into(); }),
    ("cosigned-in-one-proof", "protected", "witnesses have cosigned the checkpoint of one proof, but the others have it without",
        STRUCTURE, "chain", |_, doc| {
        let proof = doc["entries"][0]["proof"].as_str().unwrap();
        let (path, checkpoint) = proof.split_once("\n\n").unwrap();
        doc["entries"][0]["proof"] = format!("{path}\n\n{}", cosign(checkpoint)).into();
    }),
    ("value-missing", "created-without-policy", "a recorded value is not shown", STRUCTURE, "disclosures",
        |_, doc| drop(shown(doc).pop())),
    ("value-added", "created-without-policy", "a value is shown that was not recorded", STRUCTURE, "disclosures", |_, doc| {
        let mut more = shown(doc)[0].clone();
        more["name"] = json!("zzz");
        shown(doc).push(more);
    }),
    ("value-twice", "created-without-policy", "a value is shown twice", STRUCTURE, "disclosures", |_, doc| {
        let twice = shown(doc)[0].clone();
        shown(doc).insert(0, twice);
    }),
    ("values-unsorted", "created-without-policy", "the values are not in order", STRUCTURE, "disclosures",
        |_, doc| shown(doc).swap(0, 1)),
    ("value-of-another-salt", "created-without-policy", "the salt of a value is another's", STRUCTURE, "disclosures",
        |_, doc| { shown(doc)[0]["salt"] = shown(doc)[1]["salt"].clone(); }),
    ("value-other", "created-without-policy", "a value is not the one recorded", STRUCTURE, "disclosures",
        |_, doc| { shown(doc)[5]["value"] = json!("wedding"); }),
    ("value-other-number", "yen", "an amount is not the one recorded", STRUCTURE, "disclosures",
        |_, doc| { shown(doc)[1]["value"] = json!(333_334); }),
    ("digest-added", "created-without-policy", "a body has the digest of a value that was not recorded", STRUCTURE, "commitment",
        |_, doc| { doc["entries"][0]["body"]["sd"]["zzz"] = doc["entries"][0]["body"]["sd"]["eventType"].clone(); }),
    ("entry-of-another-salt", "protected", "the salt of an entry is another's", STRUCTURE, "commitment",
        |_, doc| { doc["entries"][0]["salt"] = doc["entries"][1]["salt"].clone(); }),
    ("entry-of-another-kind", "protected", "an entry is shown as one of another kind", STRUCTURE, "commitment",
        |_, doc| { doc["entries"][1]["body"]["kind"] = json!("booking.created"); }),
    ("salt-stray-bits", "created-without-policy", "the last character of a salt has bits that belong to no byte", STRUCTURE,
        "commitment", |_, doc| {
        let salt = doc["entries"][0]["salt"].as_str().unwrap().to_owned();
        let next = char::from(salt.as_bytes()[42] + 1);
        doc["entries"][0]["salt"] = json!(format!("{}{next}", &salt[..42]));
    }),
    ("delivery-of-unknown-status", "created-without-policy", "a delivery has a status that is not known", STRUCTURE, "form",
        |_, doc| doc["deliveries"][0]["status"] = json!("lost")),
];

/// The disclosures of the first entry.
fn shown(document: &mut Value) -> &mut Vec<Value> {
    document["entries"][0]["disclosures"]
        .as_array_mut()
        .unwrap()
}

fn replace(document: &mut Value, pointer: &str, from: &str, to: &str) {
    let value = at(document, pointer);
    let changed = value.as_str().unwrap().replacen(from, to, 1);
    assert_ne!(value.as_str(), Some(changed.as_str()), "{pointer}");
    *value = changed.into();
}

/// Signs the checkpoint of the first entry with another key.
fn resign(document: &mut Value, other: &Signer) {
    let proof = document["entries"][0]["proof"].as_str().unwrap();
    let (path, checkpoint) = proof.split_once("\n\n").unwrap();
    let text = checkpoint.split_once("\n\n").unwrap().0;
    let signed = other.sign(&format!("{text}\n")).unwrap();
    document["entries"][0]["proof"] = format!("{path}\n\n{signed}").into();
}
