//! A log whose holder lies: the entries of a packet written anew, with a planted fault, by the ledger's own key.
//!
//! Everything else is consistent again: digests, commitments, chain, proofs, checkpoint and signature. So a verifier must
//! notice the fault itself.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::super::signed_anew;
use crate::ledger::event::field_digest;
use crate::ledger::hash::Hash;
use crate::ledger::leaf::bytes_of;
use crate::ledger::proof::prove_inclusion;
use crate::ledger::{Checkpoint, Disclosure, EventBody, Signer, TlogProof, Tree, leaf_hash};

/// An entry to be written.
#[derive(Clone)]
pub struct Draft {
    pub kind: String,
    pub members: Vec<Disclosure>,
    /// The body's digests are those of the members, except for these.
    pub undisclosed: Vec<Disclosure>,
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
            members: serde_json::from_value(entry["disclosures"].clone()).unwrap(),
            undisclosed: Vec::new(),
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

    fn body(&self) -> EventBody {
        let digests = self.members.iter().chain(&self.undisclosed).map(|d| {
            (
                d.name.clone(),
                field_digest(&d.name, &d.value, &d.salt).unwrap(),
            )
        });
        EventBody {
            kind: self.kind.clone(),
            sd: digests.collect(),
        }
    }

    fn leaf(&self, before: Hash) -> String {
        let commit = URL_SAFE_NO_PAD.encode(self.body().commit(&self.salt));
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

/// The document with its entries written anew and signed by the ledger's key.
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
