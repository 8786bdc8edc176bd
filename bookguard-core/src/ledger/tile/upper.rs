//! A cache of the upper nodes of full tiles, so that a proof hashes the group around its leaf instead of the whole tile.
//!
//! The caller names a tile by its root, which stands for one content: so nothing here is ever out of date, whatever a database
//! was replaced by. Invariant: dropping any of it at any time changes only how long a proof takes.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use super::Rows;
use crate::ledger::hash::Hash;

/// Tiles of a generation, at about 2.3 kB each: two are kept.
const GENERATION: usize = 2048;

/// The upper nodes of the full tiles that were used last, by their roots.
#[derive(Default)]
pub struct UpperNodes(Mutex<Generations>);

/// Tiles enter the younger generation, and again when they are used. When it is full, it becomes the older one, whose tiles go.
#[derive(Default)]
struct Generations {
    younger: HashMap<Hash, Arc<Rows>>,
    older: HashMap<Hash, Arc<Rows>>,
}

impl UpperNodes {
    /// The upper nodes of the full tile with this root; `make` makes them if they are not known. They are kept unless they have
    /// another root: then the tile is not what its log says.
    pub(super) fn find(&self, root: Hash, make: impl FnOnce() -> Rows) -> Arc<Rows> {
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
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
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
            kept.find(root, || {
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
    fn a_tile_with_another_root_is_used_but_not_kept() {
        let kept = UpperNodes::default();
        let (root, right) = rows(1);
        let (_, wrong) = rows(2);
        assert_eq!(*kept.find(root, || wrong.clone()), wrong);
        assert_eq!(*kept.find(root, || right.clone()), right);
        assert_eq!(*kept.find(root, || wrong), right);
    }
}
