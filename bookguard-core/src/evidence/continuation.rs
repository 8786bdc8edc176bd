//! `log.continued`: the entry with which a log continues under a new name after an accepted loss.
//!
//! The entry belongs to no booking. It records what the database held and what had been seen before, so that a reader of
//! the old log learns from the new one what became of it. Invariant: what is read is exactly what was committed to.

use serde::{Deserialize, Serialize};

use super::entry::StoredEntry;
use super::facts::{exactly, members};
use crate::ledger::rollback::PublishedHead;
use crate::ledger::{Leaf, LeafKind};
use crate::model::Timestamp;

/// The log that was found, and its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundLog {
    /// Name, size and root.
    #[serde(flatten)]
    pub head: PublishedHead,
    /// The key its checkpoints verify under, in note form.
    pub vkey: String,
}

/// A log that continues under a new name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continuation {
    /// Its new name.
    pub origin: String,
    /// The key its checkpoints verify under from now on: the same key under the new name.
    pub vkey: String,
    /// The log that the database held.
    pub found: FoundLog,
    /// The head that had been published or seen; the found one if nobody knew, because the guard was lost too. Its root is zeros if only
    /// the number of its entries was known, as from the list of erasures.
    pub seen: PublishedHead,
    /// When the loss was accepted.
    #[serde(rename = "continuedAt")]
    pub at: Timestamp,
}

impl Continuation {
    /// Reads an entry of this kind.
    ///
    /// # Errors
    /// Why it is not such an entry, or does not commit to the values stored with it.
    pub(crate) fn read(entry: &StoredEntry) -> Result<Self, String> {
        if entry.kind != LeafKind::LogContinued.as_str() {
            return Err(format!(
                "an entry of no booking must be of kind {}, not {:?}",
                LeafKind::LogContinued,
                entry.kind
            ));
        }
        if entry.booking_id.is_some() {
            return Err(format!(
                "an entry of the kind {} belongs to no booking",
                entry.kind
            ));
        }
        let leaf = Leaf::parse(&entry.leaf).map_err(|e| e.to_string())?;
        let body = entry.event_body().map_err(|e| e.to_string())?;
        body.verify(&leaf, &entry.salt).map_err(|e| e.to_string())?;
        let continuation: Self = exactly(LeafKind::LogContinued, members(&entry.disclosures))?;
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
