//! A log whose holder lies: the entries of a packet written anew, with a planted fault, by the ledger's own key.
//!
//! Everything else is consistent again: digests, commitments, chain, proofs, checkpoint and signature. So a verifier must
//! notice the fault itself.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::super::signed_anew;
use crate::ledger::event::field_digest;
use crate::ledger::hash::Hash;
use crate::ledger::leaf::bytes_of;
use crate::ledger::proof::prove_inclusion;
use crate::ledger::{Checkpoint, Disclosure, Signer, TlogProof, Tree, jcs, leaf_hash};

/// An entry to be written.
#[derive(Clone)]
pub struct Draft {
    pub kind: String,
    /// The version of the body.
    pub version: &'static str,
    pub members: Vec<Disclosure>,
    /// The body's digests are those of the members, except for these.
    pub undisclosed: Vec<Disclosure>,
    /// Further digests, which are of no value.
    pub digests: Map<String, Value>,
    pub salt: [u8; 32],
    pub seq: u64,
    pub stream: String,
    pub at: String,
    /// The hash that the leaf names instead of its predecessor's.
    pub prev: Option<String>,
    /// What is done to the leaf's text before it is logged.
    pub spell: fn(String) -> String,
}

impl Draft {
    fn of(entry: &Value) -> Self {
        let leaf = STANDARD.decode(entry["leaf"].as_str().unwrap()).unwrap();
        let leaf: Value = serde_json::from_slice(&leaf).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            kind: text(&entry["body"]["kind"]),
            version: "bookguard.event/1",
            members: serde_json::from_value(entry["disclosures"].clone()).unwrap(),
            undisclosed: Vec::new(),
            digests: Map::new(),
            salt: bytes_of(&text(&entry["salt"])).unwrap(),
            seq: leaf["seq"].as_u64().unwrap(),
            stream: text(&leaf["stream"]),
            at: text(&leaf["t"]),
            prev: None,
            spell: |text| text,
        }
    }

    pub fn member(&mut self, name: &str) -> &mut Value {
        let mut members = self.members.iter_mut();
        &mut members.find(|d| d.name == name).unwrap().value
    }

    fn body(&self) -> Value {
        let digests = self.members.iter().chain(&self.undisclosed).map(|d| {
            let digest = field_digest(&d.name, &d.value, &d.salt).unwrap();
            (d.name.clone(), Value::from(URL_SAFE_NO_PAD.encode(digest)))
        });
        let digests: Map<String, Value> = digests.chain(self.digests.clone()).collect();
        json!({ "kind": self.kind, "sd": digests, "v": self.version })
    }

    fn leaf(&self, before: Hash) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(&self.salt).unwrap();
        let body = jcs::to_canonical(&self.body()).unwrap();
        let commit = URL_SAFE_NO_PAD.encode(mac.chain_update(body).finalize().into_bytes());
        let prev = self.prev.clone().unwrap_or_else(|| before.to_string());
        let Self {
            seq, stream, at, ..
        } = self;
        (self.spell)(format!(
            "{{\"commit\":\"{commit}\",\"prev\":\"{prev}\",\"seq\":{seq},\"stream\":\"{stream}\",\"t\":\"{at}\",\
             \"v\":\"bookguard.leaf/1\"}}"
        ))
    }
}

/// The document's entries, to be changed and written anew.
pub fn drafts_of(document: &Value) -> Vec<Draft> {
    let entries = document["entries"].as_array().unwrap();
    entries.iter().map(Draft::of).collect()
}

/// The document with its entries written anew and signed by the ledger key.
pub fn relogged(document: &Value, signer: &Signer, change: impl Fn(&mut Vec<Draft>)) -> Vec<u8> {
    let mut document = document.clone();
    let mut drafts = drafts_of(&document);
    change(&mut drafts);
    let (mut tree, mut tiles) = (Tree::empty(), BTreeMap::new());
    let mut append = |hash: Hash| {
        for tile in tree.append([hash]) {
            tiles.insert((tile.level, tile.index), tile.bytes);
        }
        tree.size() - 1
    };
    let (mut before, mut logged) = (Hash::ZERO, Vec::new());
    for draft in &drafts {
        // Another booking's entry stands between any two.
        append(leaf_hash(draft.salt.as_slice()));
        let leaf = draft.leaf(before);
        before = leaf_hash(leaf.as_bytes());
        logged.push((append(before), leaf));
    }
    let (size, root) = (tree.size(), tree.root());
    let entries = drafts.iter().zip(logged).map(|(draft, (index, leaf))| {
        let read = |level, index| Ok::<_, ()>(tiles.get(&(level, index)).cloned());
        let proof = TlogProof {
            extra: None,
            index,
            path: prove_inclusion(index, size, read).unwrap(),
            checkpoint: Checkpoint::sign(signer, size, root),
        };
        json!({
            "leaf": STANDARD.encode(leaf), "body": draft.body(), "salt": URL_SAFE_NO_PAD.encode(draft.salt),
            "disclosures": draft.members, "proof": proof.to_string(),
        })
    });
    document["entries"] = entries.collect();
    signed_anew(&document, signer)
}

/// Shows booking, acceptances, items, resolution and evaluation as the drafts say, so that nothing but the planted fault
/// refuses the packet.
pub fn show(document: &mut Value, drafts: &[Draft]) {
    let mut booking = document["booking"].clone();
    let mut listed: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for name in ["protectedAt", "rescheduledAt", "canceledAt", "resolutionId"] {
        booking.as_object_mut().unwrap().remove(name);
    }
    (booking["status"], booking["protected"]) = (json!("created"), json!(false));
    document["resolution"] = Value::Null;
    for draft in drafts {
        let fact: Value = (draft.members.iter())
            .map(|d| (d.name.clone(), d.value.clone()))
            .collect();
        let mut told = |names: &[&str]| {
            for name in names {
                booking[*name] = fact[*name].clone();
            }
        };
        match draft.kind.as_str() {
            "booking.created" => {
                let names = draft.members.iter().map(|d| d.name.as_str());
                told(
                    &names
                        .filter(|name| *name != "termsHash")
                        .collect::<Vec<_>>(),
                );
            }
            "booking.protected" => {
                told(&["protectedAt"]);
                (booking["status"], booking["protected"]) = (json!("protected"), json!(true));
            }
            "booking.rescheduled" => {
                told(&["rescheduledAt", "eventDate"]);
                match fact.get("timeZone") {
                    Some(zone) => booking["timeZone"] = zone.clone(),
                    None => drop(booking.as_object_mut().unwrap().remove("timeZone")),
                }
            }
            "booking.canceled" => {
                told(&["canceledAt"]);
                booking["status"] = json!("canceled");
            }
            "resolution.created" => {
                let mut resolution = fact["resolution"].clone();
                for name in ["decidedBy", "rationale"] {
                    if let Some(word) = fact.get(name) {
                        resolution["decision"][name] = word.clone();
                    }
                }
                booking["resolutionId"] = resolution["resolutionId"].clone();
                document["evaluation"] = resolution["evaluation"].clone();
                document["resolution"] = resolution;
            }
            "terms.accepted" | "evidence.added" => {
                listed.entry(draft.kind.clone()).or_default().push(fact);
            }
            _ => {}
        }
    }
    document["booking"] = booking;
    for (name, kind) in [
        ("acceptances", "terms.accepted"),
        ("items", "evidence.added"),
    ] {
        document[name] = listed.remove(kind).unwrap_or_default().into();
    }
}
