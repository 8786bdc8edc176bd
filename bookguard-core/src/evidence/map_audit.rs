//! Whether the maps that a log commits to are true: every entry is read, in order, and each map is made anew.
//!
//! An entry of kind `log.mapped` hides what it says, but its salts are public. So for each number of entries the only commitment
//! that tells the truth is known, and an entry must have one of those after the last. The caller fetches the entries, has checked
//! that they are the log's, and keeps pages and commitments between two steps. Invariants: a step costs what its entries cost,
//! however long the log is; the same entries give the same result, however many a step has. It cannot show what was never logged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Epoch;
use crate::ledger::map::pages::{PageError, Pages};
use crate::ledger::map::{MapValue, key_of};
use crate::ledger::{Hash, Leaf, leaf_hash};
use crate::model::Timestamp;

/// How far an audit has got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditedTo {
    /// The number of entries that were read.
    pub size: u64,
    /// The number that the last map covers.
    pub covered: u64,
    /// The number of maps.
    pub maps: u64,
}

/// The commitments of the maps of some numbers of entries.
pub type MapCommits = BTreeMap<[u8; 32], u64>;

/// The next entries of a log.
pub struct MapAudit {
    from: AuditedTo,
    /// Each entry that is one, with its leaf hash.
    leaves: Vec<Option<(Leaf, Hash)>>,
}

/// What became of them.
pub struct AuditedEntries {
    /// How far the audit has got.
    pub to: AuditedTo,
    /// The map of all entries: the pages that changed.
    pub pages: Pages,
    /// The commitments of the new maps that no entry has had yet. Those of numbers up to `covered` are over.
    pub open: MapCommits,
}

impl MapAudit {
    /// Reads the next entries. An entry that is not a leaf of this version belongs to no stream, and so to no map.
    #[must_use]
    pub fn new<E: AsRef<[u8]>>(from: AuditedTo, entries: &[E]) -> Self {
        let leaf = |bytes: &E| {
            let leaf = Leaf::parse(bytes.as_ref()).ok()?;
            Some((leaf, leaf_hash(bytes.as_ref())))
        };
        Self {
            from,
            leaves: entries.iter().map(leaf).collect(),
        }
    }

    /// The keys whose pages are needed.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<Hash> {
        let leaves = self.leaves.iter().flatten();
        leaves.map(|(leaf, _)| key_of(&leaf.stream)).collect()
    }

    /// The commitments that may be those of maps of earlier entries.
    pub fn commits(&self) -> impl Iterator<Item = &[u8; 32]> {
        let epochs = self.leaves.iter().flatten();
        epochs
            .filter(|(leaf, _)| leaf.stream == Epoch::stream())
            .map(|(leaf, _)| &leaf.commit)
    }

    /// Audits the entries. `pages` are those on the paths of [`Self::keys`]; `known` holds which of [`Self::commits`] are those of
    /// earlier numbers of entries, beyond the last that is covered.
    ///
    /// # Errors
    /// The first lie that is found. [`PageError::Missing`] for a page that was not loaded.
    pub fn audit(
        self,
        mut pages: Pages,
        known: &MapCommits,
    ) -> Result<Result<AuditedEntries, MapFault>, PageError> {
        let (mut to, mut open) = (self.from, MapCommits::new());
        for leaf in self.leaves {
            let index = to.size;
            to.size += 1;
            let Some((leaf, hash)) = leaf else { continue };
            if leaf.stream == Epoch::stream() {
                let found = open.get(&leaf.commit).or_else(|| known.get(&leaf.commit));
                match found.filter(|size| **size > to.covered && **size <= index) {
                    Some(size) => to.covered = *size,
                    None => {
                        let covered = to.covered;
                        return Ok(Err(MapFault::Map { index, covered }));
                    }
                }
                to.maps += 1;
            }
            let key = key_of(&leaf.stream);
            let (count, head) = pages
                .value(&key)?
                .map_or((0, Hash::ZERO), |value| (value.count, value.head));
            if (leaf.seq, leaf.prev) != (count, head) {
                return Ok(Err(MapFault::Chain { index }));
            }
            let count = count + 1;
            let value = MapValue { count, head: hash };
            let map_root = pages.set(&BTreeMap::from([(key, value)]))?;
            let epoch = Epoch {
                map_root,
                tree_size: to.size,
                written_at: Timestamp::from_ms(leaf.t),
            };
            // No entry can state an epoch that cannot be committed to.
            if let Ok(sealed) = epoch.seal() {
                open.insert(sealed.commit, to.size);
            }
        }
        open.retain(|_, size| *size > to.covered);
        Ok(Ok(AuditedEntries { to, pages, open }))
    }
}

/// What a log says that is not true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapFault {
    /// An entry commits to no map of the entries before it that covers more than the one before.
    Map {
        /// Its place in the log, from 0.
        index: u64,
        /// The number of entries that the map before covers.
        covered: u64,
    },
    /// An entry does not follow the last one of its stream, so a map could hide one of the two.
    Chain {
        /// Its place in the log, from 0.
        index: u64,
    },
}

impl fmt::Display for MapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map { index, covered } => write!(
                f,
                "the log's map in entry {index} is not true: it is not the map of any number of entries from {} to {index}",
                covered + 1
            ),
            Self::Chain { index } => write!(
                f,
                "entry {index} of the log does not follow the last entry of its stream, so one could be hidden"
            ),
        }
    }
}

impl std::error::Error for MapFault {}

#[cfg(test)]
pub(super) mod tests;
