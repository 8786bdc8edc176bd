//! Checks the epochs, and makes the map anew: its pages must be those of the newest epoch, and their leaves must be what the
//! entries say.
//!
//! The walk along the log keeps no stream in memory. Each entry names the hash of the one before it, so the leaf that it replaces
//! in the map is known. Leaves that were replaced cancel out, so the XOR of all that came and went is that of those that remain.

use super::Check;
use super::entry::{self, Committed};
use crate::evidence::facts::LeafPlace;
use crate::evidence::{Epoch, LoggedEpoch};
use crate::ledger::map::pages::{MapPage, PageError, PageId, Pages, WAITING_DIGITS};
use crate::ledger::map::{MapValue, empty_root, key_of, map_leaf};
use crate::ledger::{Hash, Leaf, LeafKind, leaf_hash};
use crate::model::Timestamp;
use crate::store::conn::{Row, StoreError};
use crate::store::epochs;

/// A page with this many digits is checked in memory in one go with all pages below it: a 256th of the map.
const MAP_PART: u8 = 2;
// No value waits in the pages above.
const _: () = assert!(MAP_PART <= WAITING_DIGITS);

/// What the entries that the newest epoch covers make of the map.
#[derive(Default)]
pub(super) struct MapWalk {
    covered: u64,
    /// The exclusive or of the hashes of all leaves.
    leaves: [u8; 32],
    /// The time of the last entry covered.
    written: i64,
}

impl MapWalk {
    /// Takes the next entry of the log, whose leaf hash is `head`.
    pub fn leaf(&mut self, index: u64, bytes: &[u8], head: Hash) {
        let covered = index < self.covered;
        let Some(leaf) = covered.then(|| Leaf::parse(bytes).ok()).flatten() else {
            return;
        };
        let key = key_of(&leaf.stream);
        let count = leaf.seq + 1;
        self.toggle(map_leaf(&key, &MapValue { count, head }));
        if leaf.seq > 0 {
            let (count, head) = (leaf.seq, leaf.prev);
            self.toggle(map_leaf(&key, &MapValue { count, head }));
        }
        self.written = leaf.t;
    }

    fn toggle(&mut self, leaf: Hash) {
        for (all, one) in self.leaves.iter_mut().zip(leaf.0) {
            *all ^= one;
        }
    }
}

impl Check<'_> {
    /// Visits every epoch, and prepares the walk along the log.
    pub(super) fn epochs(&mut self) -> Result<(Option<LoggedEpoch>, MapWalk), StoreError> {
        let mut latest: Option<LoggedEpoch> = None;
        self.each_entry(epochs::ALL, |check, row| {
            match follows(row, latest.as_ref()) {
                Ok(epoch) => latest = Some(epoch),
                Err(why) => {
                    let place = format!("entry {}", row.int(0)?);
                    check.findings.add("entry", place, why);
                }
            }
            Ok(())
        })?;
        let walk = MapWalk {
            covered: latest.as_ref().map_or(0, |latest| latest.epoch.tree_size),
            ..MapWalk::default()
        };
        Ok((latest, walk))
    }

    /// Compares the pages of the map with the newest epoch and with the entries that it covers.
    pub(super) fn map(
        &mut self,
        latest: Option<&LoggedEpoch>,
        walk: &MapWalk,
    ) -> Result<(), StoreError> {
        let mut found = MapWalk::default();
        let mut met = 0;
        let root = latest.map_or_else(empty_root, |latest| latest.epoch.map_root);
        let mut open: Vec<(PageId, Hash)> = Vec::new();
        if latest.is_some() {
            open.push((PageId::ROOT, root));
        }
        while let Some((id, hash)) = open.pop() {
            let mut take = |key: Hash, value: MapValue| found.toggle(map_leaf(&key, &value));
            // Further down, values may wait for the pages below. So those are looked at together.
            let checked = if id.digits() < MAP_PART {
                let page = self.map_pages(&[id], &mut met)?.pop();
                page.ok_or(PageError::Missing).and_then(|(_, page)| {
                    open.extend(page.below(id));
                    page.leaves().for_each(|(key, value)| take(key, value));
                    match page.hash(id) == hash {
                        true => Ok(()),
                        false => Err(PageError::Differs),
                    }
                })
            } else {
                let pages = Pages::load_below(id, |ids| self.map_pages(ids, &mut met));
                pages?.check(id, hash, &mut take)
            };
            if let Err(why) = checked {
                self.map_is_wrong(why.to_string());
            }
        }
        let rows = self.count("SELECT COUNT(*) FROM map_page")?;
        if rows != met {
            self.map_is_wrong(format!(
                "it holds {rows} pages, of which {met} belong to the map"
            ));
        }
        if found.leaves != walk.leaves {
            let why =
                "its leaves do not give the number of entries and the last entry of each stream";
            self.map_is_wrong(why.to_owned());
        }
        if let Some(latest) = latest
            && latest.epoch.written_at.ms() != walk.written
        {
            let place = format!("entry {} value writtenAt", latest.place.index);
            let said = format!(
                "it says {}, the last entry that the map covers was written at {}",
                latest.epoch.written_at.ms(),
                walk.written
            );
            self.findings.add("entry", place, said);
        }
        Ok(())
    }

    /// The pages with these names that are there and can be read; the others are a finding. Counts them.
    fn map_pages(
        &mut self,
        ids: &[PageId],
        met: &mut u64,
    ) -> Result<Vec<(PageId, MapPage)>, StoreError> {
        let mut pages = Vec::with_capacity(ids.len());
        for statement in epochs::asking(&epochs::names(ids)) {
            for row in self.conn.one(statement)?.rows {
                *met += 1;
                match epochs::page(&row) {
                    Ok(page) => pages.push(page),
                    Err(why) => self.map_is_wrong(why.to_string()),
                }
            }
        }
        Ok(pages)
    }

    fn map_is_wrong(&mut self, why: String) {
        self.findings.add("map", "table map_page", why);
    }
}

/// The epoch that an entry records, if it may follow the one before.
fn follows(row: &Row, before: Option<&LoggedEpoch>) -> Result<LoggedEpoch, String> {
    let Committed {
        leaf,
        kind,
        members,
        ..
    } = entry::committed(row)?;
    let unreadable = |e: StoreError| e.to_string();
    let index = row.size(0).map_err(unreadable)?;
    let epoch = Epoch::read(members)?;
    let (seq, prev) = before.map_or((0, Hash::ZERO), |before| {
        (before.seq + 1, before.place.hash)
    });
    let seed: [u8; 32] = row.bytes(5).map_err(unreadable)?;
    for (holds, why) in [
        (
            kind == LeafKind::LogMapped && row.is_null(1),
            "it does not commit to a map",
        ),
        (
            leaf.stream == Epoch::stream() && seed == Epoch::seed(),
            "its stream or salts are not those of maps",
        ),
        (
            (leaf.seq, leaf.prev) == (seq, prev),
            "it does not follow the entry of the map before",
        ),
        (
            row.size(2) == Ok(seq),
            "its row has another number than its leaf",
        ),
        (epoch.tree_size <= index, "its map covers entries after it"),
        (
            before.is_none_or(|before| before.epoch.tree_size < epoch.tree_size),
            "its map covers no more than the one before",
        ),
        (
            epoch.written_at.ms() <= leaf.t,
            "its map covers an entry that was written later",
        ),
    ] {
        if !holds {
            return Err(why.to_owned());
        }
    }
    Ok(LoggedEpoch {
        place: LeafPlace {
            index,
            hash: leaf_hash(row.blob(3).map_err(unreadable)?),
            at: Timestamp::from_ms(leaf.t),
        },
        seq,
        epoch,
    })
}
