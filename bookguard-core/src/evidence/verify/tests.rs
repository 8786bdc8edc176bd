//! Genuine packets verify; a packet changed in any way does not, and the report says where.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::super::SealedPacket;
use super::super::summary::Wording;
use super::*;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::{Signer, TlogProof, leaf_hash};
use crate::limits::DELIVERIES_PER_EVENT;
use crate::model::{
    Amount, Currency, DeliveryStatus, EndpointId, EventId, RecordedEventType, Timestamp,
};
use crate::policy::{Actor, Reason, ResolutionStatus};
use crate::tests::{is_long, shared_out};

mod any_change;
pub(crate) mod fixture;
mod notifications;
mod parts;
mod places;
mod stamps;
mod terms_versions;
mod vectors;

use fixture::{Fixture, Lie};

fn witnessed_by(policy: &TrustPolicy) -> Trust<'_> {
    Trust {
        witnesses: Some(policy),
        ..Trust::default()
    }
}

/// The packet as its service signs it, even if it is one that no honest service makes.
fn text(packet: &Packet, signer: &Signer) -> String {
    String::from_utf8(signed_anew(&serde_json::to_value(packet).unwrap(), signer)).unwrap()
}

/// The names of the checks that failed.
fn failures(bytes: &[u8], vkey: &str) -> Vec<&'static str> {
    let report = verify(bytes, vkey);
    assert_eq!(
        report.verified(),
        report.failures().count() == 0,
        "{report}"
    );
    let mut names: Vec<_> = report.failures().map(|check| check.name).collect();
    names.dedup();
    names
}

/// The names of the checks that a packet fails as its service signs it.
fn failures_of(fixture: &Fixture, packet: &Packet) -> Vec<&'static str> {
    failures(text(packet, &fixture.signer).as_bytes(), &fixture.vkey())
}

/// Packets with none, one and two cosignatures, judged by policies that demand this many of two witnesses.
#[test]
fn a_trust_policy_demands_witnesses_and_the_report_names_them() {
    let fixture = Fixture::new();
    let vkey = fixture.vkey();
    let cosigners =
        [1, 2].map(|n| Cosigner::from_seed(&format!("w{n}.example.com"), &[n; 32]).unwrap());
    let forger = Cosigner::from_seed("w1.example.com", &[9; 32]).unwrap();
    let keys: Vec<String> = (cosigners.iter())
        .map(|one| one.verifier().to_string())
        .collect();
    let policy = |quorum: &str| {
        let text = format!(
            "witness one {}\nwitness two {}\n{quorum}\n",
            keys[0], keys[1]
        );
        TrustPolicy::parse(&text).unwrap()
    };
    let (none, any) = (
        policy("quorum none"),
        policy("group any any one two\nquorum any"),
    );
    let all = policy("group all all one two\nquorum all");
    let packet = |cosigners: &[&Cosigner]| {
        let mut packet = fixture.protected();
        for entry in &mut packet.entries {
            let mut proof = TlogProof::parse(&entry.proof).unwrap();
            let text = proof.claimed_head().unwrap().text();
            let lines = cosigners.iter().map(|one| one.cosign(&text, 1_790_000_000));
            proof.checkpoint.extend(lines);
            entry.proof = proof.to_string();
        }
        text(&packet, &fixture.signer)
    };
    let [one, two] = &cosigners;
    for (cosigners, reached) in [
        (&[][..], [true, false, false]),
        (&[two], [true, true, false]),
        (&[one, two], [true, true, true]),
        (&[&forger], [true, false, false]),
        (&[&forger, one, two], [true, true, true]),
    ] {
        let packet = packet(cosigners);
        assert!(verify(packet.as_bytes(), &vkey).verified());
        for (policy, reached) in [&none, &any, &all].into_iter().zip(reached) {
            let (report, timeline) = verify_with(packet.as_bytes(), &vkey, witnessed_by(policy));
            assert_eq!(report.verified(), reached, "{report}");
            let shown = json!(report);
            assert_eq!(shown["verified"], reached);
            assert_eq!(shown.get("witnesses").is_some(), reached);
            assert_eq!(timeline.is_some(), reached);
            let check = report.checks.last().unwrap();
            assert_eq!((check.name, check.passed), ("witnesses", reached));
            let expected = cosigners
                .iter()
                .filter(|it| it.verifier() != forger.verifier());
            let expected = expected.map(|it| {
                if it.verifier() == one.verifier() {
                    "one"
                } else {
                    "two"
                }
            });
            let expected = expected.map(|name| CosignedBy {
                witness: name.to_owned(),
                at: Timestamp::parse("2026-09-21T14:13:20Z").unwrap(),
            });
            let expected = reached.then(|| expected.collect::<Vec<_>>());
            assert_eq!(report.witnesses, expected);
            let names = expected.unwrap_or_default();
            assert!(names.iter().all(|by| check.detail.contains(&by.witness)));
        }
    }
    // A wrong cosignature is said to be wrong, not missing.
    let genuine = packet(&[one, two]);
    let elsewhere = fixture.canceled();
    let mut document: Value = serde_json::from_str(&text(&elsewhere, &fixture.signer)).unwrap();
    let line = one.cosign("example.com/other\n1\nAAAA\n", 1_790_000_000);
    for entry in document["entries"].as_array_mut().unwrap() {
        entry["proof"] = format!("{}{line}", entry["proof"].as_str().unwrap()).into();
    }
    let forged = signed_anew(&document, &fixture.signer);
    let (report, _) = verify_with(&forged, &vkey, witnessed_by(&any));
    let said = report.failures().next().unwrap().detail.clone();
    assert!(said.contains("the witness one does not verify"), "{said}");
    // A policy that names logs names this one.
    let (own, other) = (fixture.vkey(), Fixture::named("example.com/other").vkey());
    for (log, named) in [(own, true), (other, false)] {
        let text = format!("log {log}\nwitness one {}\nquorum one\n", keys[0]);
        let policy = TrustPolicy::parse(&text).unwrap();
        let (report, _) = verify_with(genuine.as_bytes(), &vkey, witnessed_by(&policy));
        assert_eq!(report.verified(), named, "{report}");
    }
    // Nobody has cosigned what does not verify by itself.
    let (report, _) = verify_with(&genuine.as_bytes()[1..], &vkey, witnessed_by(&none));
    assert_eq!((report.verified(), report.witnesses), (false, None));
}

#[test]
fn a_genuine_packet_verifies_and_says_so_check_by_check() {
    let fixture = Fixture::new();
    for packet in [
        fixture.recorded(),
        fixture.protected(),
        fixture.bare(),
        fixture.canceled(),
        fixture.pending(),
        fixture.decided(),
        fixture.notified(),
    ] {
        let text = text(&packet, &fixture.signer);
        let report = verify(text.as_bytes(), &fixture.vkey());
        assert!(report.verified(), "{report}");
        assert_eq!(report.booking_id, Some(packet.booking.booking_id));
        assert_eq!(report.ledger.as_ref().unwrap().tree_size, fixture.size());
        let shown = report.to_string();
        assert!(
            shown.ends_with("is genuine.") && !shown.contains("FAILED"),
            "{shown}"
        );
        let names = "form signature key proof commitment disclosures chain booking policy terms schedule evaluation \
                     resolution summary deliveries";
        for name in names.split_whitespace() {
            assert!(
                report.checks.iter().any(|check| check.name == name),
                "{name}"
            );
        }
        let with_newline = format!("{text}\n");
        assert!(verify(with_newline.as_bytes(), &format!("{}\n", fixture.vkey())).verified());
    }
}

#[test]
fn a_packet_that_was_only_formatted_anew_is_the_same_packet() {
    let fixture = Fixture::new();
    let genuine = text(&fixture.decided(), &fixture.signer);
    let value: Map<String, Value> = serde_json::from_str(&genuine).unwrap();
    let backwards: Vec<String> = (value.iter().rev())
        .map(|(name, value)| format!("{}: {value}", json!(name)))
        .collect();
    let escaped = genuine.replacen("concert", "\\u0063oncert", 1);
    for (other, same) in [
        (serde_json::to_string_pretty(&value).unwrap(), true),
        (format!("{{{}}}", backwards.join(",\t")), true),
        (escaped.clone(), true),
        (escaped.replacen("\\u0063", "\\u0043", 1), false),
        (format!("\n {genuine} \n"), true),
        (
            genuine.replacen("\"type\"", "\"type\":\"bookguard.evidence/1\",\"type\"", 1),
            false,
        ),
    ] {
        assert_ne!(other, genuine);
        let report = verify(other.as_bytes(), &fixture.vkey());
        assert_eq!(report.verified(), same, "{report}");
        assert!(
            !same || report.checks[0].detail.contains("formatted anew"),
            "{report}"
        );
    }
}

fn pointer(path: &[String]) -> String {
    path.iter()
        .map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")))
        .collect()
}

/// A document with the value at `path` replaced, or removed.
fn changed(document: &Value, path: &[String], to: Option<Value>) -> Value {
    let mut document = document.clone();
    let (last, parent) = path.split_last().unwrap();
    match (document.pointer_mut(&pointer(parent)).unwrap(), to) {
        (Value::Object(members), None) => drop(members.remove(last)),
        (Value::Object(members), Some(value)) => drop(members.insert(last.clone(), value)),
        (Value::Array(items), None) => drop(items.remove(last.parse().unwrap())),
        (Value::Array(items), Some(value)) => items[last.parse::<usize>().unwrap()] = value,
        _ => unreachable!("a place has a parent that holds it"),
    }
    document
}

/// The document signed again by the ledger's own key: what a dishonest service could do. The note says what the document
/// shows, whatever else it holds.
fn signed_anew(document: &Value, signer: &Signer) -> Vec<u8> {
    let mut document = document.clone();
    let digest = digest(&CanonicalText::of(&document).unwrap());
    let note = signer.sign(&note_text(&document, digest)).unwrap();
    document[super::super::packet::SIGNATURE] = note.into();
    jcs::to_canonical(&document).unwrap().into_bytes()
}

/// The text of the note over a document with this digest. What cannot be read is as if there were nothing.
fn note_text(document: &Value, digest: [u8; 32]) -> String {
    let entries = document["entries"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let last = |name: &str| entries.last().and_then(|entry| entry[name].as_str());
    let leaf = last("leaf").and_then(super::decode).unwrap_or_default();
    let size = last("proof").and_then(|proof| proof.split_once("\n\n")?.1.lines().nth(1));
    format!(
        "bookguard.packet/1\n{}\n{}\n{}\n{}\n{}\n",
        STANDARD.encode(digest),
        document["stream"].as_str().unwrap_or_default(),
        entries.len(),
        leaf_hash(&leaf),
        size.unwrap_or("0")
    )
}

/// Changes a packet's fields, signs it with the ledger key, and returns the checks that notice.
fn noticed(fixture: &Fixture, change: impl FnOnce(&mut Packet)) -> Vec<&'static str> {
    noticed_in(fixture, fixture.protected(), change)
}

/// Does the same as [`noticed`] in another packet.
fn noticed_in(
    fixture: &Fixture,
    mut packet: Packet,
    change: impl FnOnce(&mut Packet),
) -> Vec<&'static str> {
    change(&mut packet);
    failures_of(fixture, &packet)
}

#[test]
fn nothing_that_is_no_packet_makes_the_verifier_panic() {
    let fixture = Fixture::new();
    let deep = "[".repeat(100_000);
    let long = vec![b' '; PACKET_BYTES + 1];
    let heavy = format!(
        r#"{{"type":"{PACKET_TYPE}","entries":[{}]}}"#,
        vec![r#"{"":0}"#; 500_000].join(",")
    );
    let typed = |members: Value| {
        let mut document = Map::from_iter([("type".to_owned(), json!(PACKET_TYPE))]);
        document.extend(members.as_object().unwrap().clone());
        Value::Object(document).to_string()
    };
    for bytes in [
        b"".as_slice(),
        b"\n",
        b"{}",
        b"null",
        b"\xff",
        b"[]",
        b"\"\"",
        b"1e999",
        deep.as_bytes(),
        heavy.as_bytes(),
        &long,
        br#"{"type":"bookguard.evidence/2"}"#,
        br#"{"type":1}"#,
        typed(json!({})).as_bytes(),
        typed(json!({"entries": []})).as_bytes(),
    ] {
        assert_eq!(failures(bytes, &fixture.vkey()), ["form"]);
    }
    let genuine = text(&fixture.recorded(), &fixture.signer);
    for vkey in [
        "",
        "x",
        "example.com/log+00000000+AAAA",
        &fixture.vkey()[1..],
        "\u{0}",
    ] {
        assert_eq!(failures(genuine.as_bytes(), vkey), ["key"]);
    }
}

#[test]
fn a_sealed_packet_travels_byte_for_byte() {
    let fixture = Fixture::new();
    let sealed = fixture.protected().seal(&fixture.signer).unwrap();
    let wire = serde_json::to_vec(&sealed).unwrap();
    assert_eq!(wire, sealed.text().as_bytes());
    let read: SealedPacket = serde_json::from_slice(&wire).unwrap();
    assert_eq!(serde_json::to_string_pretty(&read).unwrap(), sealed.text());
    assert_eq!(read.read().unwrap().booking, fixture.protected().booking);
}
