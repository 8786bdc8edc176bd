//! `log.continued`: the entry by which a log goes on under a new name after a loss was accepted.
//!
//! It belongs to no booking. It says what was found in the database and what had been seen before, so that whoever knew
//! the old log learns from the new one itself what became of it. Invariant: what is read is exactly what was committed to.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::entry::StoredEntry;
use super::facts::Field;
use crate::ledger::rollback::PublishedHead;
use crate::ledger::{Hash, Leaf, LeafKind};
use crate::model::Timestamp;

/// The log that was found, and the key it was signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLog {
    /// Name, size and root.
    pub head: PublishedHead,
    /// The key its checkpoints verify under, in note form.
    pub vkey: String,
}

/// A log that goes on under a new name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// Its new name.
    pub origin: String,
    /// The key its checkpoints verify under from now on: the same key under the new name.
    pub vkey: String,
    /// What the database held.
    pub found: FoundLog,
    /// What had been published or seen.
    pub seen: PublishedHead,
    /// When the loss was accepted.
    pub at: Timestamp,
}

/// The entry's values.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Values {
    origin: String,
    vkey: String,
    continued_at: Timestamp,
    found_origin: String,
    found_vkey: String,
    found_size: u64,
    found_root: String,
    seen_origin: String,
    seen_size: u64,
    seen_root: String,
}

impl Continuation {
    /// The values the entry commits to.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let (found, seen) = (&self.found.head, &self.seen);
        vec![
            ("origin", json!(self.origin)),
            ("vkey", json!(self.vkey)),
            ("continuedAt", json!(self.at)),
            ("foundOrigin", json!(found.origin)),
            ("foundVkey", json!(self.found.vkey)),
            ("foundSize", json!(found.size)),
            ("foundRoot", json!(found.root.to_string())),
            ("seenOrigin", json!(seen.origin)),
            ("seenSize", json!(seen.size)),
            ("seenRoot", json!(seen.root.to_string())),
        ]
    }

    /// What an entry of this kind says.
    ///
    /// # Errors
    /// Why it is none, or does not commit to the values stored with it.
    pub(crate) fn read(entry: &StoredEntry) -> Result<Self, String> {
        if entry.kind != LeafKind::LogContinued.as_str() {
            return Err(format!(
                "an entry of no booking must be of kind {}, not {:?}",
                LeafKind::LogContinued,
                entry.kind
            ));
        }
        let leaf = Leaf::parse(&entry.leaf).map_err(|e| e.to_string())?;
        let body = entry.event_body().map_err(|e| e.to_string())?;
        body.verify(&leaf, &entry.salt).map_err(|e| e.to_string())?;
        let values: Map<String, Value> = entry
            .disclosures
            .iter()
            .map(|shown| (shown.name.clone(), shown.value.clone()))
            .collect();
        let values: Values = serde_json::from_value(Value::Object(values))
            .map_err(|e| format!("its values are not those of a log that goes on: {e}"))?;
        let root = |hex: &str| hex.parse::<Hash>().map_err(|e| e.to_string());
        let continuation = Self {
            found: FoundLog {
                head: PublishedHead {
                    root: root(&values.found_root)?,
                    origin: values.found_origin,
                    size: values.found_size,
                },
                vkey: values.found_vkey,
            },
            seen: PublishedHead {
                root: root(&values.seen_root)?,
                origin: values.seen_origin,
                size: values.seen_size,
            },
            origin: values.origin,
            vkey: values.vkey,
            at: values.continued_at,
        };
        if (leaf.seq, entry.seq) != (0, 0) || leaf.t < continuation.at.ms() {
            return Err("its leaf or its row has another time or place than it says".to_owned());
        }
        if entry.index != continuation.found.head.size {
            return Err(format!(
                "it says that {} entries were found, and stands at {}",
                continuation.found.head.size, entry.index
            ));
        }
        Ok(continuation)
    }
}
