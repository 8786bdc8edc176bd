//! One entry: that its leaf commits to exactly the values stored beside it.
//!
//! The usual case costs no more than the hashing: stored values are hashed as they are spelled, since the program spells
//! them canonically. Only when that fails are they read and spelled anew.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::value::RawValue;

use crate::ledger::event::{commitment, pair_digest};
use crate::ledger::{Hash, Leaf, LeafKind, leaf_hash};
use crate::store::conn::{Row, StoreError};
use crate::store::read;

/// An entry whose leaf commits to these values.
pub(super) struct Opened<'a> {
    pub index: u64,
    pub seq: u64,
    pub leaf: Leaf,
    pub hash: Hash,
    pub kind: LeafKind,
    /// Names and values, the values as the JSON they are stored in.
    pub facts: Facts<'a>,
}

/// Names and the JSON of values.
type Facts<'a> = Vec<(Cow<'a, str>, &'a str)>;

impl Opened<'_> {
    /// The JSON of a value.
    pub fn raw(&self, name: &str) -> Option<&str> {
        let fact = self.facts.iter().find(|(found, _)| found == name)?;
        Some(fact.1)
    }

    /// A text value that needs no escapes, as ids, dates and codes are.
    pub fn plain(&self, name: &str) -> Option<&str> {
        let text = self.raw(name)?.strip_prefix('"')?.strip_suffix('"')?;
        (!text.contains('\\')).then_some(text)
    }
}

/// Opens a row of idx, booking_id, seq, leaf, kind, salt, facts, salts.
///
/// # Errors
/// Why the entry does not hold.
pub(super) fn open(row: &Row) -> Result<Opened<'_>, String> {
    let unreadable = |error: StoreError| error.to_string();
    let bytes = row.blob(3).map_err(unreadable)?;
    let leaf = Leaf::parse(bytes).map_err(|error| error.to_string())?;
    let kind = row.text(4).map_err(unreadable)?;
    let salt: [u8; 32] = row.bytes(5).map_err(unreadable)?;
    let text = row.text(6).map_err(unreadable)?;
    let salts = row.blob(7).map_err(unreadable)?;
    let facts = pairs(text)?;
    if committed(kind, &salt, text, &facts, salts) != Some(leaf.commit) {
        spelled_anew(row, &leaf)?;
    }
    Ok(Opened {
        index: row.size(0).map_err(unreadable)?,
        seq: row.size(2).map_err(unreadable)?,
        hash: leaf_hash(bytes),
        leaf,
        kind: kind
            .parse()
            .map_err(|_| format!("\"{kind}\" is not a kind of entry"))?,
        facts,
    })
}

/// Borrowed unless it has escapes, as no name of ours has.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let plain = raw
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        match plain.filter(|name| !name.contains('\\')) {
            Some(name) => Ok(Self(Cow::Borrowed(name))),
            None => serde_json::from_str(raw)
                .map(|name: String| Self(Cow::Owned(name)))
                .map_err(D::Error::custom),
        }
    }
}

fn pairs(text: &str) -> Result<Facts<'_>, String> {
    let pairs: Vec<(Name<'_>, &RawValue)> =
        serde_json::from_str(text).map_err(|_| "its values cannot be read".to_owned())?;
    let mut facts: Facts<'_> = Vec::with_capacity(pairs.len());
    for (Name(name), value) in pairs {
        if facts.iter().any(|(earlier, _)| *earlier == name) {
            return Err(format!("its value {name} appears twice"));
        }
        facts.push((name, value.get()));
    }
    Ok(facts)
}

/// What the stored text commits to as it is spelled; `None` when it is not spelled as the program does.
fn committed(
    kind: &str,
    salt: &[u8; 32],
    text: &str,
    facts: &Facts<'_>,
    salts: &[u8],
) -> Option<[u8; 32]> {
    let (salts, rest) = salts.as_chunks::<32>();
    if !rest.is_empty() || salts.len() != facts.len() {
        return None;
    }
    let mut digests: Vec<(&str, [u8; 32])> = Vec::with_capacity(facts.len());
    let mut left = text.as_bytes().strip_prefix(b"[")?;
    for ((name, value), salt) in facts.iter().zip(salts) {
        let length = name.len() + value.len() + r#"["",]"#.len();
        let pair = left.get(..length)?;
        if !spells(pair, name, value) {
            return None;
        }
        left = &left[length..];
        left = left.strip_prefix(b",").unwrap_or(left);
        digests.push((name, pair_digest(pair, salt)));
    }
    (left == b"]").then(|| commitment(kind, &mut digests, salt))
}

/// Whether `pair` is exactly `["name",value]`. Names need no escapes.
fn spells(pair: &[u8], name: &str, value: &str) -> bool {
    let parts: [&[u8]; 5] = [b"[\"", name.as_bytes(), b"\",", value.as_bytes(), b"]"];
    let mut rest = pair;
    parts.iter().all(|part| match rest.strip_prefix(*part) {
        Some(after) => {
            rest = after;
            true
        }
        None => false,
    }) && rest.is_empty()
}

/// The slow way: reads the values and spells them canonically. The stored spelling must be the program's all the same.
fn spelled_anew(row: &Row, leaf: &Leaf) -> Result<(), String> {
    let stored = read::entry(row).map_err(|error| error.to_string())?;
    let body = stored.event_body().map_err(|error| error.to_string())?;
    body.verify(leaf, &stored.salt).map_err(|_| {
        "the ledger does not commit to what is stored for it; kind, salt, facts or salts were changed".to_owned()
    })?;
    let pairs: Option<Vec<Vec<serde_json::Value>>> = row
        .text(6)
        .ok()
        .and_then(|text| serde_json::from_str(text).ok());
    let spelled = pairs.and_then(|pairs| serde_json::to_string(&pairs).ok());
    if spelled.as_deref() != row.text(6).ok() {
        return Err("Bookguard does not spell its values this way".to_owned());
    }
    Ok(())
}
