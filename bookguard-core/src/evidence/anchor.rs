//! `log.anchored`: the entry that commits to a time-stamp of a checkpoint.
//!
//! The entry belongs to no booking. Entries after it are younger than the stamp, and a later stamp over a checkpoint that
//! holds it renews the stamp: it shows that the stamp existed while its authority's certificate was still valid.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::facts::exactly;
use crate::ledger::LeafKind;
use crate::model::{Timestamp, digest};

/// A checkpoint was stamped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Anchor {
    /// When the stamp was recorded, by the service's clock.
    #[serde(rename = "anchoredAt")]
    pub at: Timestamp,
    /// `sha256:` and the hex digest of the authority's response.
    pub response_hash: String,
    /// The number of entries that the stamped checkpoint covers.
    pub tree_size: u64,
}

impl Anchor {
    /// The hash of a response, as an anchor names it.
    #[must_use]
    pub fn hash(response: &[u8]) -> String {
        digest::of(response)
    }

    /// Reads the members of an entry of this kind.
    ///
    /// # Errors
    /// Why they are not those of an anchor.
    pub(crate) fn read(members: Map<String, Value>) -> Result<Self, String> {
        exactly(LeafKind::LogAnchored, members)
    }
}
