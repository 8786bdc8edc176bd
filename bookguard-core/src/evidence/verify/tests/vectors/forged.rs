//! Packets that were changed after they were made: by anybody, or by the ledger's holder, who can sign them again.

use serde_json::{Value, json};

use super::super::super::decode;
use super::super::fixture::Fixture;
use super::super::{signed_anew, text};
use super::{Bad, Noticed, World, at, flip};
use crate::evidence::frozen;
use crate::evidence::statement::SignedStatement;
use crate::ledger::hash::Hash;
use crate::ledger::{Signer, jcs, leaf_hash};

pub type Change = fn(&World, &mut Value);

/// A character or number changed, in each part of a packet.
const FLIPS: &[(&str, &str, &str)] = &[
    ("booking", "created-without-policy", "/booking/eventType"),
    ("partner-name", "created-without-policy", "/partnerName"),
    ("created-at", "created-without-policy", "/createdAt"),
    ("leaf", "created-without-policy", "/entries/0/leaf"),
    (
        "digest",
        "created-without-policy",
        "/entries/0/body/sd/eventType",
    ),
    (
        "value",
        "created-without-policy",
        "/entries/0/disclosures/5/value",
    ),
    (
        "value-salt",
        "created-without-policy",
        "/entries/0/disclosures/5/salt",
    ),
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
const CHANGED: &[(&str, &str, &str, Change)] = &[
    (
        "dropped-first-entry",
        "canceled-final",
        "the first entry is missing",
        |_, doc| drop(entries(doc).remove(0)),
    ),
    (
        "dropped-middle-entry",
        "canceled-final",
        "an entry in between is missing",
        |_, doc| drop(entries(doc).remove(1)),
    ),
    (
        "dropped-last-entry",
        "protected",
        "the last entry is missing",
        |_, doc| drop(entries(doc).pop()),
    ),
    (
        "exchanged-entries",
        "protected",
        "two entries changed places",
        |_, doc| entries(doc).swap(0, 1),
    ),
    (
        "stream-with-lines",
        "created-without-policy",
        "the booking is another, and the stream has line feeds and the genuine text, for a verifier that works by lines",
        |world, doc| {
            let mut genuine = world.doc("created-without-policy");
            genuine.as_object_mut().unwrap().remove("signature");
            let genuine = jcs::to_canonical(&genuine).unwrap();
            let stream = doc["stream"].as_str().unwrap();
            let lines = format!("{stream}\ncontent\t{genuine}\nstream\t{stream}");
            doc["stream"] = lines.into();
            doc["partnerName"] = json!("Somebody else");
        },
    ),
    (
        "signature-missing",
        "created-without-policy",
        "the signature is empty",
        |_, doc| doc["signature"] = json!(""),
    ),
    (
        "signature-of-another-packet",
        "created-without-policy",
        "the signature is another packet's",
        |world, doc| {
            doc["signature"] = world.good["protected"]["signature"].clone();
        },
    ),
    (
        "signature-is-a-checkpoint",
        "created-without-policy",
        "the ledger's key signed the note, but it is a checkpoint",
        |_, doc| {
            let proof = doc["entries"][0]["proof"].as_str().unwrap();
            doc["signature"] = proof.split_once("\n\n").unwrap().1.into();
        },
    ),
];

/// Changed, and signed again by the ledger's holder.
const SIGNED: &[Forgery] = &[
    (
        "dropped-first-entry-signed",
        "canceled-final",
        "the first entry is missing",
        STRUCTURE,
        "chain",
        |_, doc| {
            drop(entries(doc).remove(0));
        },
    ),
    (
        "dropped-middle-entry-signed",
        "canceled-final",
        "an entry in between is missing",
        STRUCTURE,
        "chain",
        |_, doc| {
            drop(entries(doc).remove(1));
        },
    ),
    (
        "dropped-last-entry-signed",
        "protected",
        "the last entry is missing, and the booking is shown as if it were there",
        STRUCTURE,
        "booking",
        |_, doc| {
            drop(entries(doc).pop());
        },
    ),
    (
        "no-entries-signed",
        "created-without-policy",
        "it has no entries",
        STRUCTURE,
        "signature",
        |_, doc| entries(doc).clear(),
    ),
    (
        "exchanged-entries-signed",
        "protected",
        "two entries changed places",
        STRUCTURE,
        "chain",
        |_, doc| entries(doc).swap(0, 1),
    ),
    (
        "repeated-entry-signed",
        "protected",
        "an entry is there twice",
        STRUCTURE,
        "chain",
        |_, doc| {
            let last = doc["entries"][1].clone();
            entries(doc).push(last);
        },
    ),
    (
        "entry-of-another-booking",
        "protected",
        "an entry is another booking's",
        STRUCTURE,
        "chain",
        |world, doc| {
            doc["entries"][1] = world.good["canceled-final"]["entries"][1].clone();
        },
    ),
    (
        "entries-of-another-booking",
        "created-without-policy",
        "all entries and the stream are another booking's",
        STRUCTURE,
        "booking",
        |world, doc| {
            for part in ["entries", "stream"] {
                doc[part] = world.good["yen"][part].clone();
            }
        },
    ),
    (
        "unknown-member",
        "created-without-policy",
        "a member that is not known",
        STRUCTURE,
        "form",
        |_, doc| doc["more"] = json!(1),
    ),
    (
        "other-version",
        "created-without-policy",
        "a packet of a version that is not known",
        STRUCTURE,
        "form",
        |_, doc| doc["type"] = json!("bookguard.evidence/2"),
    ),
    (
        "unknown-member-of-an-entry",
        "created-without-policy",
        "an entry has a member that is not known",
        STRUCTURE,
        "form",
        |_, doc| {
            doc["entries"][0]["more"] = json!(1);
        },
    ),
    (
        "unknown-member-of-the-booking",
        "created-without-policy",
        "the booking has a member that is not recorded",
        STRUCTURE,
        "form",
        |_, doc| {
            doc["booking"]["more"] = json!(1);
        },
    ),
    (
        "unknown-member-of-a-delivery",
        "created-without-policy",
        "a delivery has a member that is not known",
        STRUCTURE,
        "form",
        |_, doc| {
            doc["deliveries"][0]["more"] = json!(1);
        },
    ),
    (
        "missing-member",
        "created-without-policy",
        "formerTerms is missing",
        STRUCTURE,
        "form",
        |_, doc| {
            doc.as_object_mut().unwrap().remove("formerTerms");
        },
    ),
    (
        "origin-of-another-log",
        "created-without-policy",
        "the packet names another ledger than its key",
        STRUCTURE,
        "key",
        |_, doc| {
            doc["log"]["origin"] = json!("example.com/other");
        },
    ),
    (
        "key-of-another-log",
        "created-without-policy",
        "the packet names another key",
        STRUCTURE,
        "key",
        |_, doc| {
            doc["log"]["vkey"] = Fixture::named("example.com/other").vkey().into();
        },
    ),
    (
        "created-before-its-entry",
        "created-without-policy",
        "the packet is older than its entry",
        STRUCTURE,
        "chain",
        |_, doc| {
            doc["createdAt"] = json!("2026-01-01T00:00:00.000Z");
        },
    ),
    (
        "proof-of-another-index",
        "protected",
        "a proof is for another index",
        STRUCTURE,
        "proof",
        |_, doc| {
            replace(doc, "/entries/0/proof", "index 1\n", "index 2\n");
        },
    ),
    (
        "proof-of-another-entry",
        "protected",
        "a proof is another entry's",
        STRUCTURE,
        "proof",
        |_, doc| {
            doc["entries"][0]["proof"] = doc["entries"][1]["proof"].clone();
        },
    ),
    (
        "proof-too-long",
        "protected",
        "a proof has a hash more",
        STRUCTURE,
        "proof",
        |_, doc| {
            let more = format!("index 1\n{}\n", Hash::ZERO.to_base64());
            replace(doc, "/entries/0/proof", "index 1\n", &more);
        },
    ),
    (
        "proof-with-extra-data",
        "protected",
        "a proof has extra data, which no signature covers",
        STRUCTURE,
        "proof",
        |_, doc| {
            replace(
                doc,
                "/entries/0/proof",
                "index 1\n",
                "extra AAAA\nindex 1\n",
            );
        },
    ),
    (
        "proof-under-another-log",
        "protected",
        "the checkpoint of a proof is another log's",
        STRUCTURE,
        "proof",
        |_, doc| {
            let other = Fixture::named("example.com/other").protected();
            doc["entries"][0]["proof"] = other.entries[0].proof.clone().into();
        },
    ),
    (
        "proof-under-another-key",
        "protected",
        "the checkpoint of a proof is signed by another key of the same name",
        STRUCTURE,
        "proof",
        |world, doc| {
            resign(doc, &impostor(world));
        },
    ),
    (
        "proof-under-an-older-checkpoint",
        "protected",
        "two entries are proven under different states of the log",
        STRUCTURE,
        "chain",
        |world, doc| {
            doc["entries"][0]["proof"] = world
                .fixture
                .proof_under(0, world.fixture.size() - 1)
                .into();
        },
    ),
    (
        "value-missing",
        "created-without-policy",
        "a recorded value is not shown",
        STRUCTURE,
        "disclosures",
        |_, doc| drop(shown(doc).pop()),
    ),
    (
        "value-added",
        "created-without-policy",
        "a value is shown that was not recorded",
        STRUCTURE,
        "disclosures",
        |_, doc| {
            let mut more = shown(doc)[0].clone();
            more["name"] = json!("zzz");
            shown(doc).push(more);
        },
    ),
    (
        "value-twice",
        "created-without-policy",
        "a value is shown twice",
        STRUCTURE,
        "disclosures",
        |_, doc| {
            let twice = shown(doc)[0].clone();
            shown(doc).insert(0, twice);
        },
    ),
    (
        "values-unsorted",
        "created-without-policy",
        "the values are not in order",
        STRUCTURE,
        "disclosures",
        |_, doc| shown(doc).swap(0, 1),
    ),
    (
        "value-of-another-salt",
        "created-without-policy",
        "the salt of a value is another's",
        STRUCTURE,
        "disclosures",
        |_, doc| {
            shown(doc)[0]["salt"] = shown(doc)[1]["salt"].clone();
        },
    ),
    (
        "value-other",
        "created-without-policy",
        "a value is not the one recorded",
        STRUCTURE,
        "disclosures",
        |_, doc| {
            shown(doc)[5]["value"] = json!("wedding");
        },
    ),
    (
        "value-other-number",
        "yen",
        "an amount is not the one recorded",
        STRUCTURE,
        "disclosures",
        |_, doc| {
            shown(doc)[1]["value"] = json!(333_334);
        },
    ),
    (
        "digest-added",
        "created-without-policy",
        "a body has the digest of a value that was not recorded",
        STRUCTURE,
        "commitment",
        |_, doc| {
            doc["entries"][0]["body"]["sd"]["zzz"] =
                doc["entries"][0]["body"]["sd"]["eventType"].clone();
        },
    ),
    (
        "entry-of-another-salt",
        "protected",
        "the salt of an entry is another's",
        STRUCTURE,
        "commitment",
        |_, doc| {
            doc["entries"][0]["salt"] = doc["entries"][1]["salt"].clone();
        },
    ),
    (
        "entry-of-another-kind",
        "protected",
        "an entry is shown as one of another kind",
        STRUCTURE,
        "commitment",
        |_, doc| {
            doc["entries"][1]["body"]["kind"] = json!("booking.created");
        },
    ),
    (
        "salt-stray-bits",
        "created-without-policy",
        "the last character of a salt has bits that belong to no byte",
        STRUCTURE,
        "commitment",
        |_, doc| {
            let salt = doc["entries"][0]["salt"].as_str().unwrap().to_owned();
            let next = char::from(salt.as_bytes()[42] + 1);
            doc["entries"][0]["salt"] = json!(format!("{}{next}", &salt[..42]));
        },
    ),
    (
        "booking-other",
        "created-without-policy",
        "the event is of another type than recorded",
        STRUCTURE,
        "booking",
        |_, doc| {
            doc["booking"]["eventType"] = json!("wedding");
        },
    ),
    (
        "booking-other-value",
        "yen",
        "the value is not the one recorded",
        STRUCTURE,
        "booking",
        |_, doc| {
            doc["booking"]["bookingValue"] = json!(333_334);
        },
    ),
    (
        "booking-protected",
        "created-without-policy",
        "the booking is shown as protected, and no entry says so",
        STRUCTURE,
        "booking",
        |_, doc| {
            doc["booking"]["protected"] = json!(true);
        },
    ),
    (
        "booking-without-metadata",
        "names",
        "recorded metadata are not shown",
        STRUCTURE,
        "booking",
        |_, doc| {
            doc["booking"].as_object_mut().unwrap().remove("metadata");
        },
    ),
    (
        "booking-not-moved",
        "moved-once",
        "the booking is shown with its first date",
        STRUCTURE,
        "booking",
        |_, doc| {
            doc["booking"]["eventDate"] = json!("2026-06-20T23:00:00.000Z");
        },
    ),
    (
        "policy-other",
        "created",
        "the text of the policy is not that of its hash",
        STRUCTURE,
        "policy",
        |_, doc| {
            doc["policy"]["name"] = json!("Soft");
        },
    ),
    (
        "policy-not-of-the-terms",
        "created",
        "policy, its hash and the booking name another policy than the terms",
        STRUCTURE,
        "booking",
        |world, doc| {
            for part in ["policy", "policyHash"] {
                doc[part] = world.good["names"][part].clone();
            }
            doc["booking"]["policy"] = world.good["names"]["booking"]["policy"].clone();
        },
    ),
    (
        "terms-other",
        "created-without-policy",
        "the terms are not those of the recorded hash",
        STRUCTURE,
        "terms",
        |_, doc| {
            flip(doc, "/terms/until");
        },
    ),
    (
        "former-terms-missing",
        "moved-once",
        "the terms before the move are missing",
        STRUCTURE,
        "terms",
        |_, doc| {
            doc["formerTerms"] = json!([]);
        },
    ),
    (
        "text-of-another-hash",
        "created-without-policy",
        "a text does not have the hash shown",
        STRUCTURE,
        "acceptances",
        |_, doc| {
            flip(doc, "/termsDisclosures/0/disclosureHash");
        },
    ),
    (
        "text-of-another-version",
        "created-without-policy",
        "a text is worded in a version that is not known",
        STRUCTURE,
        "acceptances",
        |_, doc| doc["termsDisclosures"][0]["version"] = json!("bookguard-disclosure-0"),
    ),
    (
        "text-missing",
        "moved-once",
        "the text of the terms before the move is missing",
        STRUCTURE,
        "acceptances",
        |_, doc| {
            doc["termsDisclosures"].as_array_mut().unwrap().remove(0);
        },
    ),
    (
        "acceptance-missing",
        "accepted",
        "a recorded acceptance is not shown",
        STRUCTURE,
        "acceptances",
        |_, doc| {
            doc["acceptances"].as_array_mut().unwrap().pop();
        },
    ),
    (
        "acceptance-other",
        "accepted",
        "an acceptance is not shown as recorded",
        STRUCTURE,
        "acceptances",
        |_, doc| {
            doc["acceptances"][0]["method"] = json!("signature");
        },
    ),
    (
        "resolution-missing",
        "canceled-final",
        "a recorded resolution is not shown",
        STRUCTURE,
        "resolution",
        |_, doc| {
            doc["resolution"] = Value::Null;
        },
    ),
    (
        "resolution-invented",
        "protected",
        "a resolution is shown that no entry records",
        STRUCTURE,
        "resolution",
        |world, doc| {
            doc["resolution"] = world.good["canceled-final"]["resolution"].clone();
        },
    ),
    (
        "resolution-before-the-decision",
        "canceled-decided",
        "the resolution shown is the one before the decision",
        STRUCTURE,
        "resolution",
        |_, doc| {
            let first = entries(doc)
                .iter()
                .find(|entry| entry["body"]["kind"] == "resolution.created");
            doc["resolution"] = first.unwrap()["disclosures"][0]["value"].clone();
        },
    ),
    (
        "evaluation-not-as-recorded",
        "canceled-final",
        "the evaluation is not that of the resolution",
        STRUCTURE,
        "evaluation",
        |_, doc| {
            flip(doc, "/evaluation/explanation/text");
        },
    ),
    (
        "evaluation-not-of-the-policy",
        "protected",
        "what canceling would come to is not what the policy gives",
        Noticed::Policy,
        "evaluation",
        |_, doc| {
            for part in ["refund", "penalty"] {
                doc["evaluation"][part] =
                    json!({ "amount": "600.00", "currency": "USD", "minorUnits": 60_000 });
            }
        },
    ),
    (
        "evaluation-of-another-booking-before-a-cancellation",
        "protected",
        "what canceling would come to is of another booking",
        STRUCTURE,
        "evaluation",
        |_, doc| {
            doc["evaluation"]["bookingId"] = json!("bkg_0190000000007000800000000000000a");
        },
    ),
    (
        "delivery-of-unknown-status",
        "created-without-policy",
        "a delivery has a status that is not known",
        STRUCTURE,
        "form",
        |_, doc| doc["deliveries"][0]["status"] = json!("lost"),
    ),
    (
        "delivery-with-path",
        "created-without-policy",
        "the address of a delivery has a path",
        STRUCTURE,
        "deliveries",
        |_, doc| doc["deliveries"][0]["url"] = json!("https://example.com/hook"),
    ),
    (
        "delivery-hidden",
        "names",
        "a delivery whose end is recorded is not shown",
        STRUCTURE,
        "deliveries",
        |_, doc| {
            doc["deliveries"] = json!([]);
        },
    ),
    (
        "delivery-twice",
        "names",
        "a delivery is shown twice",
        STRUCTURE,
        "deliveries",
        |_, doc| {
            let twice = doc["deliveries"][0].clone();
            doc["deliveries"].as_array_mut().unwrap().push(twice);
        },
    ),
    (
        "delivery-failed",
        "names",
        "a delivery that was accepted is shown as failed",
        STRUCTURE,
        "deliveries",
        |_, doc| {
            doc["deliveries"][0]["status"] = json!("failed");
        },
    ),
    (
        "delivery-end-hidden",
        "names",
        "the recorded end of a delivery is not shown",
        STRUCTURE,
        "deliveries",
        |_, doc| {
            doc["deliveries"][0]["recorded"] = json!([]);
            doc["deliveries"][0]["status"] = json!("failed");
            doc["deliveries"][0]["history"][0]["error"] = json!("timeout");
        },
    ),
    (
        "delivery-of-nothing",
        "created-without-policy",
        "an event of a protection that is not recorded",
        STRUCTURE,
        "deliveries",
        |_, doc| {
            doc["deliveries"][0]["type"] = json!("booking.protected");
        },
    ),
    (
        "delivery-attempts-missing",
        "names",
        "it counts more attempts than it shows",
        STRUCTURE,
        "deliveries",
        |_, doc| {
            doc["deliveries"][0]["attempts"] = json!(2);
        },
    ),
    (
        "delivery-other-answer",
        "names",
        "the last attempt is not the one recorded",
        STRUCTURE,
        "deliveries",
        |_, doc| {
            doc["deliveries"][0]["history"][0]["statusCode"] = json!(200);
        },
    ),
    (
        "text-not-of-the-terms",
        "created",
        "a text with its right hash says something else than the terms",
        Noticed::Wording,
        "acceptances",
        |_, doc| {
            let text = doc["termsDisclosures"][0]["text"]
                .as_str()
                .unwrap()
                .replace("returned", "kept");
            let hash = frozen::hash_of(&text, None);
            doc["termsDisclosures"][0]["text"] = text.into();
            doc["termsDisclosures"][0]["disclosureHash"] = hash.into();
        },
    ),
    (
        "summary-headline",
        "created-without-policy",
        "the headline says something else than the packet",
        Noticed::Wording,
        "summary",
        |_, doc| {
            flip(doc, "/summary/headline");
        },
    ),
    (
        "summary-silent",
        "protected",
        "the summary leaves out an entry",
        Noticed::Wording,
        "summary",
        |_, doc| {
            doc["summary"]["timeline"].as_array_mut().unwrap().remove(1);
        },
    ),
];

const STRUCTURE: Noticed = Noticed::Structure;

fn entries(document: &mut Value) -> &mut Vec<Value> {
    document["entries"].as_array_mut().unwrap()
}

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

/// Another key with the ledger's name.
fn impostor(world: &World) -> Signer {
    Signer::from_seed(world.fixture.signer.name(), &[9; 32]).unwrap()
}

/// Signs the checkpoint of the first entry with another key.
fn resign(document: &mut Value, other: &Signer) {
    let proof = document["entries"][0]["proof"].as_str().unwrap();
    let (path, checkpoint) = proof.split_once("\n\n").unwrap();
    let text = checkpoint.split_once("\n\n").unwrap().0;
    let signed = other.sign(&format!("{text}\n")).unwrap();
    document["entries"][0]["proof"] = format!("{path}\n\n{signed}").into();
}

fn spelled(document: &Value) -> Vec<u8> {
    jcs::to_canonical(document).unwrap().into_bytes()
}

/// Notes of the ledger's key that do not say of the packet what it shows.
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
        (
            "note-digest",
            "the note is of another digest",
            of(|s| s.digest = [1; 32]),
        ),
        (
            "note-stream",
            "the note is of another stream",
            of(|s| s.stream = [1; 16]),
        ),
        (
            "note-count",
            "the note counts an entry more",
            of(|s| s.count += 1),
        ),
        (
            "note-head",
            "the note names another last entry",
            of(|s| s.head = Hash::ZERO),
        ),
        (
            "note-log-size",
            "the note is of another size of the log",
            of(|s| s.log_size += 1),
        ),
        (
            "note-count-spelled",
            "the note's count has a leading zero",
            signed(said.replace("\n2\n", "\n02\n")),
        ),
        (
            "note-more-lines",
            "the note has a line more",
            signed(format!("{said}more\n")),
        ),
        (
            "note-fewer-lines",
            "the note has only type and digest",
            signed(
                said.lines()
                    .take(2)
                    .map(|line| format!("{line}\n"))
                    .collect(),
            ),
        ),
        (
            "note-of-another-type",
            "the note is of another type",
            signed(said.replace("packet/1", "packet/2")),
        ),
        (
            "note-with-two-signatures",
            "another key has signed the note too",
            format!("{note}\u{2014} someone AAAAAAAA\n"),
        ),
        (
            "note-of-another-key",
            "another key of the same name has signed the note",
            impostor(world).sign(&said).unwrap(),
        ),
        (
            "note-cut",
            "the note's last line is cut",
            note.trim_end().to_owned(),
        ),
    ]
}

/// Proofs of the one entry of a packet, and their checkpoints, all signed by the ledger's key.
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
        (
            "checkpoint-of-another-text",
            "the checkpoint has the key's signature of another text",
            format!("{path}\n\n{text}\n\n{other}"),
        ),
        (
            "checkpoint-of-another-origin",
            "the key has signed the checkpoint of a log with another name",
            signed(format!("{text}\n").replace(name, "example.com/other")),
        ),
        (
            "checkpoint-signed-twice",
            "the key has signed the checkpoint twice",
            format!("{genuine}{signature}"),
        ),
        (
            "checkpoint-with-a-cut-signature",
            "the checkpoint has a line of another key with no more than its id",
            format!("{genuine}\u{2014} witness AAAAAA==\n"),
        ),
        (
            "proof-beyond-the-log",
            "the index is the size of the log",
            of(1, 1),
        ),
        ("proof-too-short", "a proof has a hash less", of(0, 2)),
    ]
}

/// Packets that no service of ours writes, and that are good.
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
    let bytes = signed_anew(&document, &world.fixture.signer);
    vec![(
        "witnessed",
        "the checkpoint has a further line, and the signature of another key of the same name",
        String::from_utf8(bytes).unwrap(),
    )]
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
        Bad {
            name: name.to_owned(),
            why: why.to_owned(),
            noticed,
            check,
            bytes: signed_anew(&document, &world.fixture.signer),
        }
    };
    forgeries.iter().map(made).collect()
}

pub fn bad(world: &World) -> Vec<Bad> {
    let mut bad = Vec::new();
    let mut put = |name: &str, why: &str, noticed, check, bytes| {
        bad.push(Bad {
            name: name.to_owned(),
            why: why.to_owned(),
            noticed,
            check,
            bytes,
        });
    };
    for (part, base, pointer) in FLIPS {
        let mut document = world.doc(base);
        flip(&mut document, pointer);
        let why = format!("one character of {pointer} is another");
        put(
            &format!("flip-{part}"),
            &why,
            STRUCTURE,
            "signature",
            spelled(&document),
        );
    }
    for (name, base, why, change) in CHANGED {
        let mut document = world.doc(base);
        change(world, &mut document);
        put(name, why, STRUCTURE, "signature", spelled(&document));
    }
    for (name, why, note) in notes(world) {
        let mut document = world.doc("protected");
        document["signature"] = note.into();
        put(name, why, STRUCTURE, "signature", spelled(&document));
    }
    let genuine = world.doc("created-without-policy");
    for (name, why, proof) in proofs(world, &genuine) {
        let mut document = genuine.clone();
        document["entries"][0]["proof"] = proof.into();
        put(
            name,
            why,
            STRUCTURE,
            "proof",
            signed_anew(&document, &world.fixture.signer),
        );
    }
    let why = "a genuine packet of another ledger";
    put("ledger-of-another", why, STRUCTURE, "signature", foreign());
    bad.extend(signed(world, SIGNED));
    bad
}
