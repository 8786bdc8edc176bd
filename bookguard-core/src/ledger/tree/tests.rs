//! The tree against the published vectors and an independent implementation.

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::ledger::hash::{EMPTY_ROOT, leaf_hash};
use crate::ledger::tile::ReadError;

/// Tiles as a store keeps them.
#[derive(Default, Clone, PartialEq, Debug)]
pub(crate) struct Stored(BTreeMap<(u8, u64), Vec<u8>>);

impl Stored {
    /// Upserts tiles, and checks that each only grows.
    pub(crate) fn put(&mut self, tiles: Vec<Tile>) {
        for tile in tiles {
            let old = self.0.entry((tile.level, tile.index)).or_default();
            assert!(tile.bytes.starts_with(old) && tile.bytes.len() > old.len());
            *old = tile.bytes;
        }
    }

    pub(crate) fn read(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.0.get(&(level, index)).cloned())
    }
}

pub(crate) fn leaf(number: u64) -> Hash {
    leaf_hash(&number.to_be_bytes())
}

/// A tree of this many numbered leaves, appended in the given batches, and its tiles.
pub(crate) fn grown(batches: impl IntoIterator<Item = u64>) -> (Tree, Stored) {
    let (mut tree, mut stored) = (Tree::empty(), Stored::default());
    for batch in batches {
        let size = tree.size();
        stored.put(tree.append((size..size + batch).map(leaf)));
    }
    (tree, stored)
}

/// The tree of the same leaves in the reference implementation: every node in the order of its storage index.
pub(crate) struct Oracle(pub(crate) Vec<tlog_tiles::Hash>);

impl tlog_tiles::HashReader for Oracle {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<tlog_tiles::Hash>, tlog_tiles::Error> {
        let at = |index: &u64| self.0[usize::try_from(*index).unwrap()];
        Ok(indexes.iter().map(at).collect())
    }
}

impl Oracle {
    pub(crate) fn of(size: u64) -> Self {
        let mut oracle = Self(Vec::new());
        for number in 0..size {
            let leaf = tlog_tiles::Hash(leaf(number).0);
            let new = tlog_tiles::tlog::stored_hashes_for_record_hash(number, leaf, &oracle);
            oracle.0.extend(new.unwrap());
        }
        oracle
    }

    pub(crate) fn root(&self, size: u64) -> Hash {
        Hash(tlog_tiles::tree_hash(size, self).unwrap().0)
    }
}

#[test]
fn leaf_hashes_and_roots_are_those_of_the_published_vectors() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../tests/vectors/ledger.json")).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut tree = Frontier::empty();
    assert_eq!(tree.root(), EMPTY_ROOT);
    assert_eq!(EMPTY_ROOT.to_string(), text(&vectors["emptyRoot"]));
    let leaves = vectors["leaves"].as_array().unwrap();
    assert_eq!(leaves.len(), 8);
    for (at, entry) in leaves.iter().enumerate() {
        let hash = leaf_hash(&hex::decode(text(entry)).unwrap());
        assert_eq!(hash.to_string(), text(&vectors["leafHashes"][at]));
        tree.append(hash);
        assert_eq!(tree.size(), vectors["roots"][at]["size"].as_u64().unwrap());
        assert_eq!(tree.root().to_string(), text(&vectors["roots"][at]["root"]));
    }
}

#[test]
fn a_batch_touches_each_tile_once_and_nothing_else() {
    let mut tree = Tree::empty();
    assert!(tree.append([]).is_empty());
    let names = |tiles: &[Tile]| -> Vec<(u8, u64, usize)> {
        let name = |tile: &Tile| (tile.level, tile.index, tile.width());
        tiles.iter().map(name).collect()
    };
    assert_eq!(names(&tree.append((0..255).map(leaf))), [(0, 0, 255)]);
    assert_eq!(names(&tree.append([leaf(255)])), [(0, 0, 256), (1, 0, 1)]);
    assert_eq!(names(&tree.append([leaf(256)])), [(0, 1, 1)]);
    assert!(tree.append([]).is_empty());
    let all = names(&tree.append((257..65_537).map(leaf)));
    assert_eq!(all.len(), 255 + 1 + 1 + 1);
    assert_eq!(all[0], (0, 1, 256));
    assert_eq!(all[255..], [(0, 256, 1), (1, 0, 256), (2, 0, 1)]);
    assert_eq!(tree.root(), Oracle::of(65_537).root(65_537));
}

#[test]
fn a_tree_is_loaded_from_its_tiles_at_every_size() {
    let (_, stored) = grown([700]);
    let mut expected = Tree::empty();
    for size in 0..=700 {
        // The stored tiles have grown past most of these sizes.
        let loaded = Tree::load(size, |level, index| stored.read(level, index)).unwrap();
        assert_eq!(loaded, expected);
        let edge = Frontier::load(size, |level, index| stored.read(level, index)).unwrap();
        assert_eq!(&edge, expected.frontier());
        expected.append([leaf(size)]);
    }
}

#[test]
fn loading_names_the_tile_that_is_missing_or_misshapen() {
    let (_, stored) = grown([600]);
    let without = |level, index| {
        let mut stored = stored.clone();
        stored.0.remove(&(level, index));
        Tree::load(600, |level, index| stored.read(level, index)).map(|tree| tree.size())
    };
    assert_eq!(
        without(0, 2),
        Err(ReadError::Missing { level: 0, index: 2 })
    );
    assert_eq!(
        without(1, 0),
        Err(ReadError::Missing { level: 1, index: 0 })
    );
    // The right edge does not need the tiles that only proofs need.
    assert_eq!(without(0, 1), Ok(600));
    for found in [0, 31, 63, 88 * 32 - 1, 88 * 32 + 1, 8192 + 32] {
        let mut stored = stored.clone();
        stored.0.insert((0, 2), vec![1; found]);
        let error = Tree::load(600, |level, index| stored.read(level, index)).unwrap_err();
        let needed = 88 * 32;
        assert_eq!(
            error,
            ReadError::Size {
                level: 0,
                index: 2,
                found,
                needed
            }
        );
    }
    let failed = Tree::load(1, |_, _| Err(std::fmt::Error)).unwrap_err();
    assert_eq!(failed, ReadError::Read(std::fmt::Error));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tiles_and_roots_agree_with_an_independent_implementation(
        batches in prop::collection::vec(prop_oneof![0u64..10, 0u64..900], 1..10),
    ) {
        let size = batches.iter().sum();
        let (mut tree, mut stored) = (Tree::empty(), Stored::default());
        let oracle = Oracle::of(size);
        for batch in batches {
            let old = tree.size();
            let tiles = tree.append((old..old + batch).map(leaf));
            let theirs = tlog_tiles::Tile::new_tiles(8, old, tree.size());
            let mut theirs: Vec<_> = theirs
                .iter()
                .map(|tile| Tile {
                    level: tile.level(),
                    index: tile.level_index(),
                    bytes: tile.read_data(&oracle).unwrap(),
                })
                .collect();
            theirs.sort_by_key(|tile| (tile.level, tile.index));
            prop_assert_eq!(&tiles, &theirs);
            stored.put(tiles);
            prop_assert_eq!(tree.root(), oracle.root(tree.size()));
        }
        let (at_once, tiles) = grown([size]);
        prop_assert_eq!(&tree, &at_once);
        prop_assert_eq!(stored, tiles);
    }
}

#[test]
fn an_earlier_root_is_told_from_the_unfinished_tiles_while_they_hold_it() {
    let sizes = [0, 1, 2, 255, 256, 257, 600, 65_535, 65_536, 65_537, 66_000];
    let mut tree = Tree::empty();
    let mut roots = vec![tree.root()];
    for size in sizes {
        while tree.size() < size {
            tree.append([leaf(tree.size())]);
            roots.push(tree.root());
        }
        assert_eq!(tree.root_at(size), Some(tree.root()));
        assert_eq!(tree.root_at(size + 1), None);
        // Sizes that end in the same tile of every level; of the others, those that end with a full one.
        for earlier in (0..=size).filter(|n| n % 1009 == 0 || size - n < 20 || n % 65_536 == 0) {
            let same_tile = earlier >> 8 == size >> 8;
            match tree.root_at(earlier) {
                Some(root) => assert_eq!(root, roots[earlier as usize], "{earlier} of {size}"),
                None => assert!(!same_tile, "{earlier} of {size}"),
            }
        }
    }
}
