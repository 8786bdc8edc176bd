//! Genuine packets verify; a packet changed in any way does not, and the report says where.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::super::SealedPacket;
use super::super::summary::Wording;
use super::*;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::hash::Hash;
use crate::ledger::{Signer, TlogProof, leaf_hash};
use crate::limits::DELIVERIES_PER_EVENT;
use crate::model::{
    Amount, Currency, DeliveryStatus, EndpointId, EventId, RecordedEventType, Timestamp,
};
use crate::policy::{Actor, Reason, ResolutionStatus};
use crate::tests::{is_long, shared_out};

pub(crate) mod fixture;
mod stamps;
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
        for name in [
            "form",
            "signature",
            "key",
            "proof",
            "commitment",
            "disclosures",
            "chain",
            "booking",
            "policy",
            "terms",
            "schedule",
            "evaluation",
            "resolution",
            "summary",
            "deliveries",
        ] {
            assert!(
                report.checks.iter().any(|check| check.name == name),
                "{name}"
            );
        }
        let with_newline = format!("{text}\n");
        assert!(verify(with_newline.as_bytes(), &format!("{}\n", fixture.vkey())).verified());
    }
}

/// The bytes to change: of a word its first, every eighth and its last byte, and all between words. A word is what nothing
/// separates, as a hash in Base64. The digest of the whole notices a change wherever it is, so every third of these stands for the others.
fn bytes_to_change(text: &[u8]) -> Vec<usize> {
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let mut begun = 0;
    let mut places = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        if !in_word(byte) {
            begun = at + 1;
        }
        let is_last = !text.get(at + 1).is_some_and(in_word);
        if is_long() || at < begun || (at - begun) % 8 == 0 || is_last {
            places.push(at);
        }
    }
    let every = if is_long() { 1 } else { 3 };
    places.into_iter().step_by(every).collect()
}

#[test]
fn a_packet_with_any_byte_changed_never_verifies() {
    let fixture = Fixture::new();
    // A packet with many parts: protected, canceled, decided.
    let genuine = text(&fixture.decided(), &fixture.signer).into_bytes();
    let vkey = fixture.vkey();
    assert!(verify(&genuine, &vkey).verified());
    let places = bytes_to_change(&genuine);
    shared_out(
        &places,
        || genuine.clone(),
        |changed, &at| {
            let byte = genuine[at];
            let others = [byte ^ 1, [byte ^ 0x20, b' ', b'0'][at % 3]];
            let tried = if is_long() {
                &others[..]
            } else {
                &others[at % 2..][..1]
            };
            for &other in tried.iter().filter(|other| **other != byte) {
                changed[at] = other;
                let report = verify(changed, &vkey);
                assert!(!report.verified(), "byte {at}, {byte} to {other}");
            }
            changed[at] = byte;
        },
    );
    for at in (0..genuine.len()).step_by(61) {
        assert!(!verify(&genuine[..at], &vkey).verified(), "cut at {at}");
    }
    for more in ["x", "\0", "{}"] {
        assert!(!verify(&[&genuine, more.as_bytes()].concat(), &vkey).verified());
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

#[test]
fn what_is_signed_of_a_packet_must_be_what_it_shows() {
    let fixture = Fixture::new();
    let sealed = text(&fixture.decided(), &fixture.signer);
    let document: Value = jcs::parse(&sealed).unwrap();
    let key = fixture.signer.verifier();
    let own = SignedStatement::open(document["signature"].as_str().unwrap(), key).unwrap();
    let (stream, head) = ([1; 16], Hash::ZERO);
    for (statement, verifies) in [
        (own.clone(), true),
        (
            SignedStatement {
                stream,
                ..own.clone()
            },
            false,
        ),
        (
            SignedStatement {
                count: own.count + 1,
                ..own.clone()
            },
            false,
        ),
        (
            SignedStatement {
                head,
                ..own.clone()
            },
            false,
        ),
        (
            SignedStatement {
                log_size: own.log_size + 1,
                ..own.clone()
            },
            false,
        ),
    ] {
        let note = fixture.signer.sign(&statement.to_string()).unwrap();
        let told = changed(&document, &["signature".to_owned()], Some(note.into()));
        let failed = failures(&serde_json::to_vec(&told).unwrap(), &fixture.vkey());
        assert_eq!(failed.is_empty(), verifies, "{statement}");
        assert!(verifies || failed == ["signature"], "{failed:?}");
    }
    let more = format!("{own}more\n");
    assert!(SignedStatement::open(&fixture.signer.sign(&more).unwrap(), key).is_err());
}

/// Collects every place in a document, as the names and numbers that lead to it.
fn places(value: &Value, path: Vec<String>, out: &mut Vec<Vec<String>>) {
    let steps: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (step, value) in steps {
        let mut path = path.clone();
        path.push(step);
        places(value, path.clone(), out);
        out.push(path);
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

/// What may stand in place of the `nth` value, or not stand there.
fn others(nth: usize, value: &Value) -> Vec<Option<Value>> {
    // Every reader of a value refuses another kind in one way, so one kind stands for the others.
    let kinds = [Value::Null, json!("x"), json!(7), json!({}), json!([])].map(Some);
    let mut others = vec![None];
    others.extend(if is_long() {
        kinds.to_vec()
    } else {
        vec![kinds[nth % kinds.len()].clone()]
    });
    match value {
        Value::String(text) => others.push(Some(json!(format!("{text} ")))),
        Value::Number(number) => others.push(Some(json!(number.as_f64().unwrap() + 1.0))),
        Value::Bool(b) => others.push(Some(json!(!b))),
        Value::Array(items) => {
            others.push(Some(items.iter().rev().cloned().collect()));
            others.push(Some(items.iter().chain(items.last()).cloned().collect()));
            others.push(Some(items.iter().skip(1).cloned().collect()));
        }
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("more".to_owned(), Value::Null);
            others.push(Some(Value::Object(more)));
        }
        Value::Null => {}
    }
    others.retain(|other| other.as_ref() != Some(value));
    others
}

/// What a service can change under its own key, with `N` for every number, and why.
const STATED: &[(&str, &str)] = &[
    ("/signature", "it is made anew"),
    ("/deliveries", "in what order they are told"),
    (
        "/deliveries/N",
        "that an event went nowhere is recorded nowhere",
    ),
    (
        "/deliveries/N/url",
        "an address is the partner's to change, and stands in no entry",
    ),
    ("/deliveries/N/history", "attempts are not kept for ever"),
    ("/deliveries/N/history/N", "the same"),
    (
        "/deliveries/N/history/N/statusCode",
        "only the attempt with which a delivery ended is recorded",
    ),
    ("/deliveries/N/history/N/error", "the same"),
];

#[test]
fn a_packet_with_any_field_changed_never_verifies_whoever_signs_it() {
    let fixture = Fixture::new();
    let mut stated = Vec::new();
    no_field_is_free(&fixture, &fixture.decided(), |_| true, &mut stated);
    // The parts that the other packets share with it need not be tried again.
    for (packet, kind, own) in [
        (
            fixture.rescheduled(),
            "booking.rescheduled",
            &[
                "/booking",
                "/evaluation",
                "/formerTerms",
                "/summary",
                "/terms",
            ][..],
        ),
        (
            fixture.notified(),
            "webhook.settled",
            &["/deliveries", "/summary"],
        ),
    ] {
        let of_kind = |at: &str| {
            let entry = at
                .strip_prefix("/entries/")
                .and_then(|rest| rest.split('/').next());
            let entry = entry.and_then(|n| packet.entries.get(n.parse::<usize>().ok()?));
            entry.is_some_and(|entry| entry.body.kind == kind)
        };
        let is_own = |at: &str| of_kind(at) || own.iter().any(|part| at.starts_with(part));
        no_field_is_free(&fixture, &packet, is_own, &mut stated);
    }
    for (place, why) in STATED {
        let needed = *place == "/signature" || stated.iter().any(|at| at == place);
        // A part of the changes cannot show that a line is needed by none.
        assert!(needed || !is_long(), "{place} is held all the same");
        assert!(!why.is_empty());
    }
}

/// A pointer with `N` for every number.
fn pattern(at: &str) -> String {
    let steps = at.split('/').map(|step| match step.parse::<usize>() {
        Ok(_) => "N",
        Err(_) => step,
    });
    steps.collect::<Vec<_>>().join("/")
}

/// Records in `stated` which places of [`STATED`] can be changed unnoticed.
fn no_field_is_free(
    fixture: &Fixture,
    packet: &Packet,
    tried: impl Fn(&str) -> bool,
    stated: &mut Vec<String>,
) {
    let text = text(packet, &fixture.signer);
    let document: Value = jcs::parse(&text).unwrap();
    let mut all = Vec::new();
    places(&document, Vec::new(), &mut all);
    assert!(all.len() > 200);
    all.retain(|path| tried(&pointer(path)));
    let mut patterns = HashSet::new();
    let all: Vec<_> = (all.into_iter().enumerate())
        .map(|(nth, path)| {
            let is_first = patterns.insert(pattern(&pointer(&path)));
            (nth, path, is_first || is_long())
        })
        .collect();
    let found = shared_out(&all, Vec::new, |stated, (nth, path, as_it_is)| {
        let at = pointer(path);
        for other in others(*nth, document.pointer(&at).unwrap()) {
            let changed = changed(&document, path, other.clone());
            // The digest of the whole notices a change that nobody signed anew, wherever it is, so one place of each form is tried.
            if *as_it_is {
                let spelled = jcs::to_canonical(&changed).unwrap();
                assert!(
                    !verify(spelled.as_bytes(), &fixture.vkey()).verified(),
                    "{at}: {other:?}"
                );
            }
            let anew = signed_anew(&changed, &fixture.signer);
            if verify(&anew, &fixture.vkey()).verified() {
                let place = pattern(&at);
                let known = STATED.iter().any(|(known, _)| *known == place);
                assert!(known, "signed anew, {at}: {other:?}");
                stated.push(place);
            }
        }
    });
    stated.extend(found.into_iter().flatten());
}

#[test]
fn a_field_given_twice_never_verifies() {
    let fixture = Fixture::new();
    let text = text(&fixture.protected(), &fixture.signer);
    let document: Value = jcs::parse(&text).unwrap();
    let mut all = Vec::new();
    places(&document, Vec::new(), &mut all);
    for path in all {
        let (name, parent) = path.split_last().unwrap();
        let Some(Value::Object(members)) = document.pointer(&pointer(parent)) else {
            continue;
        };
        let value = jcs::to_canonical(&members[name]).unwrap();
        let member = format!("{}:{value}", json!(name));
        for twice in [
            format!("{member},{member}"),
            format!("{}:null,{member}", json!(name)),
        ] {
            let doubled = text.replacen(&member, &twice, 1);
            assert_ne!(doubled, text, "{member}");
            assert_eq!(
                failures(doubled.as_bytes(), &fixture.vkey()),
                ["form"],
                "{member}"
            );
        }
    }
}

/// Changes a packet's fields, signs it with the ledger key, and returns the checks that notice.
fn noticed(fixture: &Fixture, change: impl FnOnce(&mut Packet)) -> Vec<&'static str> {
    let mut packet = fixture.protected();
    change(&mut packet);
    failures(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey())
}

#[test]
fn entries_swapped_dropped_repeated_or_of_another_booking_are_noticed() {
    let fixture = Fixture::new();
    let other = fixture.other();
    assert_eq!(noticed(&fixture, |p| p.entries.swap(0, 1)), ["chain"]);
    assert_eq!(noticed(&fixture, |p| drop(p.entries.remove(0))), ["chain"]);
    assert_eq!(
        noticed(&fixture, |p| p.entries.clear()),
        ["signature", "chain"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.entries.push(p.entries[1].clone())),
        ["chain"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.entries[1] = other.entries[1].clone()),
        ["chain"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.entries[0] = other.entries[0].clone()),
        ["chain"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.entries.clone_from(&other.entries)),
        ["chain"]
    );
    // Without its last record, the booking would only be recorded, which is not what is shown.
    assert_eq!(
        noticed(&fixture, |p| drop(p.entries.pop())),
        ["booking", "evaluation", "deliveries", "summary"]
    );
    let whole = noticed(&fixture, |p| {
        p.entries.clone_from(&other.entries);
        p.stream.clone_from(&other.stream);
    });
    assert_eq!(
        whole,
        [
            "booking",
            "terms",
            "schedule",
            "evaluation",
            "deliveries",
            "summary"
        ]
    );
}

#[test]
fn each_part_is_held_by_its_own_check() {
    let fixture = Fixture::new();
    let other = fixture.other();
    let later = |at: &Timestamp| at.plus_ms(86_400_000);
    assert_eq!(
        noticed(&fixture, |p| p.stream = other.stream.clone()),
        ["chain"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.booking.event_type = "gala".to_owned()),
        ["booking", "summary"]
    );
    assert_eq!(noticed(&fixture, |p| p.booking.policy = None), ["booking"]);
    assert_eq!(noticed(&fixture, |p| p.log.origin.push('x')), ["key"]);
    assert_eq!(
        noticed(&fixture, |p| p.entries[0].disclosures[2].value =
            json!({"id": "t", "name": "Other"})),
        ["disclosures"]
    );
    assert_eq!(
        noticed(&fixture, |p| drop(p.entries[0].disclosures.pop())),
        ["disclosures"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.entries[0].body.kind =
            "booking.canceled".to_owned()),
        ["commitment"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.entries[0].salt =
            other.entries[0].salt.clone()),
        ["commitment"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.entries[0].leaf =
            other.entries[0].leaf.clone()),
        ["proof"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.policy = other.policy.clone()),
        ["booking", "policy", "schedule", "evaluation", "summary"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.terms.schedule[0].2 += 86_400),
        ["terms", "schedule", "evaluation"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.created_at = later(&p.created_at)),
        ["evaluation", "summary"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.created_at = Timestamp::EPOCH),
        ["chain"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.evaluation = None),
        ["evaluation", "summary"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.resolution = fixture.canceled().resolution),
        ["resolution"]
    );
    assert_eq!(
        noticed(&fixture, |p| p.summary.headline.push('!')),
        ["summary"]
    );
    assert_eq!(
        noticed(&fixture, |p| drop(p.summary.timeline.pop())),
        ["summary"]
    );
}

/// Does the same as [`noticed`] in another packet.
fn noticed_in(
    fixture: &Fixture,
    mut packet: Packet,
    change: impl FnOnce(&mut Packet),
) -> Vec<&'static str> {
    change(&mut packet);
    failures(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey())
}

#[test]
fn a_canceled_booking_is_shown_with_its_latest_resolution_and_with_all_of_its_records() {
    let fixture = Fixture::new();
    let of = |packet: &Packet| packet.resolution.clone().unwrap();
    let (canceled, pending, decided) = (fixture.canceled(), fixture.pending(), fixture.decided());
    assert_eq!(of(&canceled).status, ResolutionStatus::Final);
    assert_eq!(of(&pending).status, ResolutionStatus::PendingReview);
    assert_eq!(of(&decided).status, ResolutionStatus::Decided);
    assert_eq!(decided.entries.len(), 5);
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), |p| p.resolution = None),
        ["resolution", "summary"]
    );
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), |p| p.resolution =
            decided.resolution.clone()),
        ["resolution", "summary"]
    );
    // Without the decision it would be pending; without its resolution, a cancellation is invalid.
    assert_eq!(
        noticed_in(&fixture, fixture.decided(), |p| drop(p.entries.pop())),
        ["booking", "resolution", "evaluation", "summary"]
    );
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), |p| drop(p.entries.pop())),
        ["booking"]
    );
    let edit = |p: &mut Packet| {
        let refund = Amount::parse("1200.50", Currency::USD).unwrap();
        p.resolution.as_mut().unwrap().evaluation.refund = Some(refund);
    };
    assert_eq!(
        noticed_in(&fixture, fixture.canceled(), edit),
        ["resolution"],
        "the amounts shown are not those recorded"
    );
}

#[test]
fn wrong_amounts_are_noticed_even_when_the_service_recorded_them() {
    let honest = Fixture::new();
    let sums = |minor| Amount::from_minor(minor, Currency::USD).unwrap();
    let given = "not what policy and facts give";
    for (lie, place, check, words) in [
        (Lie::Refund(sums(120_050)), 7, "resolution", given),
        (Lie::Decision(sums(1)), 9, "resolution", given),
        (Lie::Evidence, 8, "resolution", given),
        (
            Lie::Reached(Some(sums(1))),
            10,
            "schedule",
            "does not say what was reached",
        ),
        (Lie::Moved, 11, "schedule", "not what the policy gives"),
        (
            Lie::Early,
            12,
            "booking",
            "no earlier record shows what the event reports",
        ),
        (
            Lie::Text,
            10,
            "acceptances",
            "What talent accepted, recorded 2026-05-03T00:00:00.000Z, is not the text of the terms in force",
        ),
    ] {
        let fixture = Fixture::lying(&lie);
        let packet = fixture.packet_at(place);
        let bytes = text(&packet, &fixture.signer);
        let report = verify(bytes.as_bytes(), &fixture.vkey());
        let failed: Vec<_> = report.failures().map(|check| check.name).collect();
        assert_eq!(failed, [check], "{lie:?}: {report}");
        assert!(report.to_string().contains(words));
        let genuine = text(&honest.packet_at(place), &honest.signer);
        assert_eq!(
            failures(genuine.as_bytes(), &honest.vkey()),
            [] as [&str; 0]
        );
    }
}

#[test]
fn a_later_move_states_what_earlier_ones_had_reached_or_its_step_alone() {
    let sum = |minor| Some(Amount::from_minor(minor, Currency::USD).unwrap());
    for (stated, failed) in [
        (None, &[] as &[&str]),
        // As the first entries stated it.
        (Some(Lie::Reached(sum(0))), &[]),
        (Some(Lie::Reached(sum(1))), &["schedule"]),
        (Some(Lie::Reached(sum(60_026))), &["schedule"]),
        (Some(Lie::Reached(None)), &["schedule"]),
    ] {
        let mut fixture = Fixture::new();
        let (date, zone) = ("2026-06-20T19:00:00-04:00", Some("America/New_York"));
        let value = Amount::parse("1200.50", Currency::USD).unwrap();
        fixture.record(30, Some("firm"), date, zone, value, |_| {});
        // Half is kept when it is moved first, nothing by the second schedule alone.
        fixture.reschedule(13, "2026-06-01T00:00:00Z", "2026-12-20T19:00", None);
        fixture.lie = stated;
        fixture.reschedule(13, "2026-07-01T00:00:00Z", "2027-12-20T19:00", None);
        let packet = fixture.packet_at(13);
        let evaluation = packet.evaluation.as_ref().unwrap();
        if stated
            .is_none_or(|lie| matches!(lie, Lie::Reached(Some(least)) if least.minor() < 60_025))
        {
            assert_eq!(evaluation.penalty, sum(60_025), "{stated:?}");
        }
        let bytes = text(&packet, &fixture.signer);
        let names = failures(bytes.as_bytes(), &fixture.vkey());
        assert_eq!(names, failed, "{stated:?}");
    }
}

/// The steps of the terms in force: the rule and the last minute of each.
fn steps(packet: &Packet) -> String {
    let steps = packet.terms.schedule.iter().map(|(rule, _, to, ..)| {
        let to = Timestamp::from_ms(to * 1000).to_string();
        format!("{rule} {}", &to[5..16]).replace("organizer.", "")
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// Governments move their clocks, and what was agreed on before stays. The service's tables gave New York another clock.
#[test]
fn terms_by_other_time_zone_tables_verify_even_if_these_give_other_steps() {
    let full = json!({"refundBps": 10_000});
    let policy = |tiers: Value| {
        let organizer = json!({"tiers": tiers, "late": {"refundBps": 0}});
        json!({"policyId": "p", "organizer": organizer})
    };
    let two_days = policy(json!([{"before": "P2D", "outcome": full}]));
    let day_and_hours = policy(json!([
        {"before": "P1D", "outcome": full},
        {"before": "PT23H", "outcome": {"refundBps": 5_000}},
    ]));
    let until_six =
        |before: &str| policy(json!([{"before": before, "cutoffTime": "18:00", "outcome": full}]));
    let mut graced = policy(json!([]));
    graced["grace"] = json!({"within": "PT2H", "minNotice": "P2D"});
    let zone = Some("America/New_York");
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    for (what, clock, date, policy, today, recorded) in [
        (
            "a step that would end before the booking",
            "America/Chicago",
            "2026-01-12T10:00",
            &two_days,
            "late 01-12T15:00, noShow 01-26T15:00",
            "tiers[0] 01-10T16:00, late 01-12T16:00, noShow 01-26T16:00",
        ),
        (
            "one that ended before it by the tables of then",
            "America/Halifax",
            "2026-01-12T11:00",
            &two_days,
            "tiers[0] 01-10T16:00, late 01-12T16:00, noShow 01-26T16:00",
            "late 01-12T15:00, noShow 01-26T15:00",
        ),
        (
            "one that would end before the one before it",
            "America/Cancun",
            "2026-03-08T12:00",
            &day_and_hours,
            "tiers[0] 03-07T17:00, late 03-08T16:00, noShow 03-22T16:00",
            "tiers[0] 03-07T17:00, tiers[1] 03-07T18:00, late 03-08T17:00, noShow 03-22T17:00",
        ),
        (
            "a deadline beyond the start",
            "America/Chicago",
            "2026-06-20T18:30:00-04:00",
            &until_six("P0D"),
            "tiers[0] 06-20T22:00, late 06-20T22:30, noShow 07-04T22:30",
            "tiers[0] 06-20T23:00, noShow 07-04T22:30",
        ),
        (
            "an event on another day",
            "America/Chicago",
            "2026-06-20T00:30:00-04:00",
            &until_six("P2D"),
            "tiers[0] 06-18T22:00, late 06-20T04:30, noShow 07-04T04:30",
            "tiers[0] 06-17T23:00, late 06-20T04:30, noShow 07-04T04:30",
        ),
        (
            "hours that lead back to another day",
            "America/Cancun",
            "2026-03-08T16:30",
            &until_six("PT16H"),
            "tiers[0] 03-07T23:00, late 03-08T20:30, noShow 03-22T20:30",
            "tiers[0] 03-08T23:00, noShow 03-22T21:30",
        ),
        (
            "a notice too short for grace",
            "America/Chicago",
            "2026-01-12T10:00",
            &graced,
            "late 01-12T15:00, noShow 01-26T15:00",
            "grace 01-10T17:31, late 01-12T16:00, noShow 01-26T16:00",
        ),
    ] {
        let policy = policy.to_string();
        let mut fixture = Fixture::new();
        fixture.record(30, Some(&policy), date, zone, value, |_| {});
        fixture.tables = Some(clock);
        fixture.record(31, Some(&policy), date, zone, value, |_| {});
        assert_eq!(steps(&fixture.packet_at(13)), today, "{what}");
        let packet = fixture.packet_at(14);
        assert_eq!(steps(&packet), recorded, "{what}");
        let report = verify(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey());
        assert!(report.verified(), "{what}: {report}");
        let mut checks = report.checks.iter();
        let said = checks.find(|check| check.name == "schedule").unwrap();
        let words = "except for a later change of the clocks in America/New_York";
        assert!(said.detail.contains(words), "{what}: {}", said.detail);
    }
    let mut fixture = Fixture::new();
    let day_and_hours = day_and_hours.to_string();
    fixture.record(
        30,
        Some(&day_and_hours),
        "2026-06-20T19:00",
        zone,
        value,
        |_| {},
    );
    fixture.tables = Some("America/Cancun");
    fixture.reschedule(13, "2026-02-01T00:00:00Z", "2026-03-08T12:00", None);
    let packet = fixture.packet_at(13);
    assert_eq!(packet.terms.schedule.len(), 4);
    assert_eq!(
        failures(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey()),
        [] as [&str; 0]
    );
}

/// Such a cancellation is refused today; entries from before that keep what they say.
#[test]
fn a_cancellation_recorded_as_dated_before_a_move_verifies() {
    let mut fixture = Fixture::new();
    let (date, zone) = ("2026-06-20T19:00:00-04:00", Some("America/New_York"));
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    fixture.record(30, Some("firm"), date, zone, value, |_| {});
    fixture.reschedule_as(13, "2026-05-25T07:59:30Z", "2026-12-24T18:00", None, false);
    fixture.cancel(13, Actor::Organizer, Some(Reason::Illness));
    let packet = fixture.packet_at(13);
    let resolution = packet.resolution.as_ref().unwrap();
    assert_eq!(resolution.status, ResolutionStatus::Final);
    assert!(resolution.effective_at < packet.booking.rescheduled_at);
    let bytes = text(&packet, &fixture.signer);
    let names = failures(bytes.as_bytes(), &fixture.vkey());
    assert_eq!(names, [] as [&str; 0]);
}

/// The first release showed a sum where today a person decides; entries from then keep what they say.
#[test]
fn a_review_with_the_alternatives_of_the_first_release_verifies() {
    const POLICY: &str = r#"{"policyId":"p","organizer":{"tiers":[{"before":"P7D","outcome":{"refundBps":10000}}],
        "late":{"manual":true}}}"#;
    let (date, zone) = ("2026-05-27T19:00:00-04:00", Some("America/New_York"));
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    for (wording, without_evidence) in [(Wording::First, Some(value)), (Wording::Second, None)] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        fixture.record(30, Some(POLICY), date, zone, value, |_| {});
        fixture.reschedule_as(13, "2026-05-24T00:00:00Z", "2026-12-24T18:00", None, false);
        fixture.cancel(13, Actor::Organizer, Some(Reason::ForceMajeure));
        let packet = fixture.packet_at(13);
        let alternatives = &packet.resolution.as_ref().unwrap().evaluation.alternatives;
        let refunds: Vec<_> = alternatives.iter().map(|one| one.refund).collect();
        assert_eq!(refunds, [Some(value), without_evidence]);
        let bytes = text(&packet, &fixture.signer);
        let names = failures(bytes.as_bytes(), &fixture.vkey());
        assert_eq!(names, [] as [&str; 0]);
    }
}

#[test]
fn a_moved_booking_is_shown_with_its_terms_before_and_after_each_move() {
    let fixture = Fixture::new();
    let moved = fixture.rescheduled();
    assert_eq!(moved.former_terms.len(), 2);
    assert_eq!(moved.booking.time_zone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(
        failures(text(&moved, &fixture.signer).as_bytes(), &fixture.vkey()),
        [] as [&str; 0]
    );
    // Ten days before the second date, half was kept, and that stays.
    let evaluation = moved.evaluation.as_ref().unwrap();
    assert_eq!(evaluation.explanation.code, "RESCHEDULE_FLOOR");
    let canceled = fixture.moved_and_canceled();
    let resolution = canceled.resolution.as_ref().unwrap();
    assert_eq!(resolution.evaluation.penalty.unwrap().minor(), 60_025);
    for (what, change, failed) in [
        (
            "former terms are missing",
            (|p: &mut Packet| drop(p.former_terms.pop())) as fn(&mut Packet),
            &["terms"][..],
        ),
        (
            "former terms in another order",
            |p| p.former_terms.swap(0, 1),
            &["terms", "schedule"],
        ),
        (
            "only the last terms",
            |p| p.former_terms.clear(),
            &["terms", "schedule"],
        ),
        (
            "a move is missing",
            |p| drop(p.entries.pop()),
            &["booking", "terms", "acceptances", "evaluation", "summary"],
        ),
    ] {
        assert_eq!(
            noticed_in(&fixture, fixture.rescheduled(), change),
            failed,
            "{what}"
        );
    }
}

#[test]
fn accepted_texts_are_shown_and_recomputed_from_the_terms() {
    let fixture = Fixture::new();
    let moved = fixture.rescheduled();
    let texts = &moved.terms_disclosures;
    assert_eq!((texts.len(), moved.acceptances.len()), (3, 2));
    assert_eq!(
        moved.acceptances[0].disclosure_hash,
        texts[0].disclosure_hash
    );
    assert_eq!(
        moved.acceptances[1].disclosure_hash,
        texts[1].disclosure_hash
    );
    for (what, change, failed) in [
        (
            "another word",
            (|p: &mut Packet| p.terms_disclosures[0].text.push('!')) as fn(&mut Packet),
            &["acceptances"][..],
        ),
        (
            "another hash",
            |p| {
                p.terms_disclosures[1].disclosure_hash =
                    p.terms_disclosures[0].disclosure_hash.clone()
            },
            &["acceptances"],
        ),
        (
            "another wording",
            |p| p.terms_disclosures[2].version.push('0'),
            &["acceptances"],
        ),
        (
            "only the last text",
            |p| drop(p.terms_disclosures.drain(..2)),
            &["acceptances"],
        ),
        (
            "an acceptance less",
            |p| drop(p.acceptances.pop()),
            &["acceptances"],
        ),
        (
            "another party",
            |p| p.acceptances[0].party = Actor::Talent,
            &["acceptances"],
        ),
        (
            "the text of other terms",
            |p| p.acceptances[0].disclosure_hash = p.acceptances[1].disclosure_hash.clone(),
            &["acceptances"],
        ),
        (
            "the local times of other clocks",
            |p| p.former_terms[0].offsets[0] += 1_800,
            &["terms", "acceptances"],
        ),
        (
            "clocks of no zone on earth",
            |p| p.former_terms[0].offsets[0] = i32::MAX,
            &["terms", "schedule"],
        ),
    ] {
        assert_eq!(
            noticed_in(&fixture, fixture.rescheduled(), change),
            failed,
            "{what}"
        );
    }
}

#[test]
fn notifications_are_shown_as_recorded_and_in_the_summary() {
    let fixture = Fixture::new();
    let packet = fixture.notified();
    let kinds: Vec<&str> = packet
        .entries
        .iter()
        .map(|e| e.body.kind.as_str())
        .collect();
    let settled = kinds
        .iter()
        .filter(|kind| **kind == "webhook.settled")
        .count();
    assert_eq!((settled, packet.deliveries[0].recorded.len()), (3, 2));
    let endpoint = packet.deliveries[0].endpoint_id.unwrap();
    let told: Vec<&str> = packet
        .summary
        .timeline
        .iter()
        .map(|m| m.text.as_str())
        .collect();
    let partner = "\u{201c}Stage & Co\u{201d}";
    for text in [
        format!(
            "The service gave up the notification of the recorded booking to {partner} after 2 attempts (at last: status 413): event 1, endpoint {endpoint}."
        ),
        format!(
            "The server of {partner} accepted the notification of the recorded booking (status 204, after 3 attempts): event 1, endpoint {endpoint}."
        ),
        format!(
            "The server of {partner} accepted the notification of the protection (status 204, after 1 attempt): event 2, endpoint {endpoint}."
        ),
        format!(
            "The service states that the notification of the result of the cancellation to {partner} at https://example.com was not accepted in 1 attempt."
        ),
    ] {
        let found = told.iter().filter(|told| told.starts_with(&text)).count();
        assert_eq!(found, 1, "{text} in {told:#?}");
    }
    let report = verify(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey());
    // A key can sign a packet without the last record, so the report does not claim that there is no later one.
    let said = |name| {
        let mut checks = report.checks.iter();
        checks.find(|check| check.name == name).unwrap()
    };
    let n = packet.entries.len();
    assert_eq!(
        said("chain").detail,
        format!(
            "These {n} records form an unbroken chain, from the booking's first on: nothing before the last is missing, repeated, \
             moved or another booking's. Whether there is a later one, the log shows: bookguard evidence verify --log URL|DIR."
        )
    );
    let said = said("deliveries");
    assert!(said.detail.starts_with(
        "How 2 notifications ended (2 accepted) is shown exactly as the ledger records it."
    ));

    for (what, change) in [
        (
            "an end is hidden",
            (|p: &mut Packet| drop(p.deliveries[0].recorded.pop())) as fn(&mut Packet),
        ),
        ("a delivery that ended is hidden", |p| {
            drop(p.deliveries.remove(1))
        }),
        ("one is shown twice", |p| {
            p.deliveries.push(p.deliveries[1].clone())
        }),
        ("failed, and accepted by the ledger", |p| {
            p.deliveries[1].status = DeliveryStatus::Failed
        }),
        ("under way, and accepted by the ledger", |p| {
            p.deliveries[1].status = DeliveryStatus::Pending
        }),
        ("accepted, and the ledger does not say so", |p| {
            p.deliveries[2].status = DeliveryStatus::Delivered;
            p.deliveries[2].history[0].error = None;
        }),
        ("an end of another delivery", |p| {
            p.deliveries[2].recorded = p.deliveries[1].recorded.clone()
        }),
        ("the ends in another order", |p| {
            p.deliveries[0].recorded.reverse()
        }),
        ("more attempts than until it was accepted", |p| {
            p.deliveries[1].attempts += 1
        }),
        ("fewer attempts than are recorded", |p| {
            p.deliveries[0].attempts = 1;
            p.deliveries[0].history.truncate(1);
        }),
        ("the attempt it was given up with is another", |p| {
            p.deliveries[0].history[1].status_code = Some(500)
        }),
        ("the attempt it was accepted with is another", |p| {
            p.deliveries[1].history[0].status_code = Some(200)
        }),
        ("an attempt was accepted before", |p| {
            p.deliveries[0].history[0].error = None
        }),
        ("another event of the protection", |p| {
            p.deliveries[1].event_id = EventId::new(p.deliveries[1].event_id.made_at(), [9; 10])
        }),
        ("of another type", |p| {
            p.deliveries[1].event_type = RecordedEventType::BookingCreated
        }),
        ("an event of nothing recorded", |p| {
            p.deliveries[2].event_id = EventId::new(Timestamp::EPOCH, [9; 10])
        }),
        ("no endpoint, and attempts", |p| {
            p.deliveries[2].status = DeliveryStatus::NoEndpoints
        }),
        ("to nobody", |p| p.deliveries[2].endpoint_id = None),
        ("an event more than there was cause for", |p| {
            let mut more = p.deliveries[2].clone();
            more.event_id = EventId::new(more.event_id.made_at(), [9; 10]);
            p.deliveries.push(more);
        }),
    ] {
        let failed = noticed_in(&fixture, fixture.notified(), change);
        assert!(failed.contains(&"deliveries"), "{what}: {failed:?}");
    }
    let crowd = |packet: &mut Packet, endpoints: usize| {
        let open = packet.deliveries[2].clone();
        packet.deliveries.extend((0..endpoints).map(|n| {
            let mut more = open.clone();
            let id = (n as u128 + 1).to_be_bytes();
            more.endpoint_id = Some(EndpointId::from_bytes(id));
            more
        }));
    };
    // It was created, protected and canceled, so there can be three events.
    let room = 3 * DELIVERIES_PER_EVENT - fixture.notified().deliveries.len();
    let most = noticed_in(&fixture, fixture.notified(), |p| crowd(p, room));
    assert!(!most.contains(&"deliveries"), "{most:?}");
    let too_many = noticed_in(&fixture, fixture.notified(), |p| crowd(p, room + 1));
    assert!(too_many.contains(&"deliveries"), "{too_many:?}");
    // Attempts are pruned after some time; the recorded end stays.
    let pruned = noticed_in(&fixture, fixture.notified(), |p| {
        p.deliveries[0].history.clear()
    });
    assert_eq!(pruned, [] as [&str; 0]);
}

#[test]
fn a_packet_of_a_booking_told_to_as_many_as_can_be_is_still_read() {
    let mut fixture = Fixture::new();
    let mut packet = fixture.crowded();
    assert_eq!(packet.entries.len(), 5 + 8 * DELIVERIES_PER_EVENT);
    let text = text(&packet, &fixture.signer);
    let report = verify(text.as_bytes(), &fixture.vkey());
    assert!(report.verified(), "{}", report.failures().count());
    // In the longest possible log, each proof has more hashes, and a MiB is left for items, acceptances and what they say.
    let longer = packet.entries.len() * 40 * 45;
    let size = text.len() + longer + (1 << 20);
    assert!(size < PACKET_BYTES, "{size} bytes");
    assert!(3 * jcs::weight(&text) < jcs::MAX_WEIGHT);
    let sealed = |packet: &Packet| packet.seal(&fixture.signer).unwrap();
    assert!(!sealed(&packet).is_too_long());
    packet.partner_name = "\u{1f989}".repeat(PACKET_BYTES / 4);
    let long = sealed(&packet);
    assert!(long.is_too_long());
    assert!(!verify(long.text().as_bytes(), &fixture.vkey()).verified());
}

#[test]
fn proofs_of_another_state_or_another_ledger_are_noticed() {
    let fixture = Fixture::new();
    let older = fixture.proof_under(0, fixture.size() - 1);
    assert_eq!(
        noticed(&fixture, |p| p.entries[0].proof = older.clone()),
        ["chain"]
    );
    let own = fixture.protected().entries[0].proof.clone();
    for changed in [
        own.replace("index ", "extra AAAA\nindex "),
        own.replace("index 1\n", "index 2\n"),
        format!("{own}\u{2014} someone AAAAAAAA\n"),
        own.replace("\n\n", "\n"),
    ] {
        assert_ne!(changed, own);
        let names = noticed(&fixture, |p| p.entries[0].proof = changed);
        assert!(names == ["proof"] || names == ["chain"], "{names:?}");
    }
    let stranger = Fixture::named("example.com/other");
    let foreign = text(&stranger.protected(), &stranger.signer);
    assert_eq!(
        failures(foreign.as_bytes(), &fixture.vkey()),
        ["signature", "key", "proof"]
    );
    let impostor = Signer::from_seed(fixture.signer.name(), &[9; 32]).unwrap();
    let posing = text(&fixture.protected(), &impostor);
    assert_eq!(failures(posing.as_bytes(), &fixture.vkey()), ["signature"]);
    assert_eq!(
        failures(posing.as_bytes(), &impostor.verifier().to_string()),
        ["key", "proof"]
    );
}

#[test]
fn the_signature_has_one_line_and_no_other_word_beside_it() {
    let fixture = Fixture::new();
    let document: Value = jcs::parse(&text(&fixture.protected(), &fixture.signer)).unwrap();
    let note = document["signature"].as_str().unwrap();
    let checkpoint = Checkpoint::sign(&fixture.signer, 0, crate::ledger::hash::EMPTY_ROOT);
    for other in [
        format!("{note}\u{2014} someone AAAAAAAA\n"),
        note.replace("bookguard.packet/1", "bookguard.packet/2"),
        note.trim_end().to_owned(),
        checkpoint,
        String::new(),
    ] {
        let mut changed = document.clone();
        changed["signature"] = other.into();
        let spelled = jcs::to_canonical(&changed).unwrap();
        assert_eq!(failures(spelled.as_bytes(), &fixture.vkey()), ["signature"]);
    }
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
