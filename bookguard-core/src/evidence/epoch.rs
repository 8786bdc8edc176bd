//! `log.mapped`: the entry that commits to the map of the log's first entries.
//!
//! These entries form one chain of their own, in a stream that every log has, and their salts are public: anyone who
//! reads the log can find them, make the map again and see whether they tell the truth. Nothing in them is secret or
//! personal. Invariant: an entry never covers itself, nor fewer entries than the one before it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::facts::{LeafPlace, SealedFact, exactly};
use crate::error::Error;
use crate::ledger::{Hash, LeafKind};
use crate::model::Timestamp;

/// What the stream and the salts are made from.
const MAP_TYPE: &str = "bookguard.map/1";

/// A map of the log's first entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Epoch {
    /// The root of the map.
    pub map_root: Hash,
    /// The number of entries that it covers.
    pub tree_size: u64,
    /// The time of the last of them.
    pub written_at: Timestamp,
}

/// An epoch, and where it was logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEpoch {
    /// The place of its entry.
    pub place: LeafPlace,
    /// The number of its entry in their chain.
    pub seq: u64,
    /// What the entry says.
    pub epoch: Epoch,
}

impl Epoch {
    /// The stream of all entries of this kind.
    #[must_use]
    pub fn stream() -> [u8; 16] {
        let mut stream = [0; 16];
        stream.copy_from_slice(&Self::seed()[..16]);
        stream
    }

    /// The seed of their salts.
    #[must_use]
    pub fn seed() -> [u8; 32] {
        Sha256::digest(MAP_TYPE).into()
    }

    /// Commits to it.
    ///
    /// # Errors
    /// `internal` for a value that nothing can commit to.
    pub fn seal(&self) -> Result<SealedFact, Error> {
        SealedFact::of(LeafKind::LogMapped, self, Self::seed())
    }

    /// Reads the members of an entry of this kind.
    ///
    /// # Errors
    /// Why they are not those of an epoch.
    pub(crate) fn read(members: Map<String, Value>) -> Result<Self, String> {
        exactly(LeafKind::LogMapped, members)
    }
}
