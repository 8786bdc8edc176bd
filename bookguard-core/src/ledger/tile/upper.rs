//! A cache of the upper nodes of tiles, so that a proof hashes the group around its leaf instead of the whole tile.
//!
//! The caller names a full tile by its root and an unfinished one by its bytes. Either determines the content, so nothing here is
//! ever out of date, even if the database is replaced. Invariant: dropping any of it at any time changes only how long a proof
//! takes.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use super::{GROUP_WIDTH, Rows, rows_above_groups};
use crate::ledger::hash::{HASH_BYTES, Hash};

/// Tiles of a generation, at about 2.3 kB each: two are kept.
const GENERATION: usize = 2048;

/// The upper nodes of the tiles that were used last.
#[derive(Default)]
pub struct UpperNodes {
    full: Mutex<Generations>,
    /// By level, the unfinished tile that was used last.
    unfinished: Mutex<HashMap<u8, Unfinished>>,
}

/// An unfinished tile, and its upper nodes.
struct Unfinished {
    bytes: Vec<u8>,
    rows: Arc<Rows>,
}

impl Unfinished {
    /// The roots of the full groups that it shares with these bytes, if one of both has only grown from the other.
    fn groups_of(&self, bytes: &[u8]) -> Vec<Hash> {
        let shared = self.bytes.len().min(bytes.len());
        match self.bytes[..shared] == bytes[..shared] {
            true => self.rows[0][..shared / (GROUP_WIDTH * HASH_BYTES)].to_vec(),
            false => Vec::new(),
        }
    }
}

/// The upper nodes of full tiles, by their roots. Tiles enter the younger generation, and return to it when they are used. When
/// it is full, it becomes the older one, and the tiles of the former older one are dropped.
#[derive(Default)]
struct Generations {
    younger: HashMap<Hash, Arc<Rows>>,
    older: HashMap<Hash, Arc<Rows>>,
}

impl UpperNodes {
    /// The upper nodes of an unfinished tile. If the one used before it at its level has only grown, most of them are known.
    pub(super) fn unfinished(&self, level: u8, bytes: &[u8]) -> Arc<Rows> {
        let lock = || {
            let kept = self.unfinished.lock();
            kept.unwrap_or_else(PoisonError::into_inner)
        };
        let known = match lock().get(&level) {
            Some(kept) if kept.bytes == bytes => return Arc::clone(&kept.rows),
            Some(kept) => kept.groups_of(bytes),
            None => Vec::new(),
        };
        let rows = Arc::new(rows_above_groups(bytes, &known));
        let mut kept = lock();
        // A reader of an older snapshot takes nothing from those of the newest.
        let is_newer = (kept.get(&level)).is_none_or(|kept| !kept.bytes.starts_with(bytes));
        if is_newer {
            let one = Unfinished {
                bytes: bytes.to_vec(),
                rows: Arc::clone(&rows),
            };
            kept.insert(level, one);
        }
        rows
    }

    /// The upper nodes of the full tile with this root; `make` makes them if they are not known. They are kept unless they have
    /// another root: then the tile is not what its log says.
    pub(super) fn full(&self, root: Hash, make: impl FnOnce() -> Rows) -> Arc<Rows> {
        if let Some(found) = self.lock_and(|kept| kept.find(&root)) {
            return found;
        }
        let made: Arc<Rows> = make().into();
        if made.last().is_some_and(|top| *top == [root]) {
            self.lock_and(|kept| kept.insert(root, Arc::clone(&made)));
        }
        made
    }

    fn lock_and<T>(&self, work: impl FnOnce(&mut Generations) -> T) -> T {
        work(&mut self.full.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Generations {
    fn find(&mut self, root: &Hash) -> Option<Arc<Rows>> {
        if let Some(found) = self.younger.get(root) {
            return Some(Arc::clone(found));
        }
        let found = self.older.remove(root)?;
        self.insert(*root, Arc::clone(&found));
        Some(found)
    }

    fn insert(&mut self, root: Hash, rows: Arc<Rows>) {
        if self.younger.len() == GENERATION {
            self.older = mem::take(&mut self.younger);
        }
        self.younger.insert(root, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of which only the topmost matters.
    fn rows(n: usize) -> (Hash, Rows) {
        let root = Hash::of(&n.to_be_bytes());
        (root, vec![vec![root]])
    }

    #[test]
    fn what_was_used_last_is_kept_and_the_rest_goes() {
        let kept = UpperNodes::default();
        let is_known = |n| {
            let (root, rows) = rows(n);
            let mut is_known = true;
            kept.full(root, || {
                is_known = false;
                rows
            });
            is_known
        };
        assert!((0..GENERATION).all(|n| !is_known(n)));
        assert!((0..GENERATION).all(is_known));
        assert!((GENERATION..2 * GENERATION - 1).all(|n| !is_known(n)));
        assert!(
            is_known(0),
            "it moves to the younger generation and fills it"
        );
        assert!(!is_known(2 * GENERATION), "the next begins");
        assert!(is_known(0) && !is_known(1));
        let held = kept.lock_and(|kept| kept.younger.len() + kept.older.len());
        assert!(held <= 2 * GENERATION);
    }

    #[test]
    fn an_unfinished_tile_has_its_own_nodes_however_it_came_about() {
        let kept = UpperNodes::default();
        let bytes = |from: u32, width: u32| -> Vec<u8> {
            let hashes = (from..from + width).map(|n| Hash::of(&n.to_be_bytes()).0);
            hashes.flatten().collect()
        };
        // It grows, stays, is read as it was before, is another after a rollback, and grows.
        for (from, width, is_newest) in [
            (0, 5, true),
            (0, 8, true),
            (0, 100, true),
            (0, 100, true),
            (0, 250, true),
            (0, 91, false),
            (0, 251, true),
            (9, 90, true),
            (9, 97, true),
        ] {
            for level in [0, 1] {
                let bytes = bytes(from + u32::from(level), width);
                let rows = kept.unfinished(level, &bytes);
                assert_eq!(*rows, rows_above_groups(&bytes, &[]), "{from} {width}");
                let again = kept.unfinished(level, &bytes);
                assert_eq!(Arc::ptr_eq(&rows, &again), is_newest, "{from} {width}");
            }
        }
    }

    #[test]
    fn a_tile_with_another_root_is_used_but_not_kept() {
        let kept = UpperNodes::default();
        let (root, right) = rows(1);
        let (_, wrong) = rows(2);
        assert_eq!(*kept.full(root, || wrong.clone()), wrong);
        assert_eq!(*kept.full(root, || right.clone()), right);
        assert_eq!(*kept.full(root, || wrong), right);
    }
}
