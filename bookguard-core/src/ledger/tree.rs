//! The growing tree, kept in memory as its right edge.
//!
//! [`Frontier`] is the minimum that can append and has a root. [`Tree`] adds the unfinished tile of each level, so that a
//! batch yields each changed tile exactly once. The caller stores the tiles and moves the head atomically: append to a
//! clone, and keep the clone once the transaction has committed. Invariant: both depend only on the sequence of leaf
//! hashes, not on its division into batches.

use super::hash::{HASH_BYTES, Hash, node_hash};
use super::tile::{
    Nodes, ReadError, TILE_BYTES, TILE_HEIGHT, TILE_WIDTH, Tile, TileAddress, fold_right, hashes,
};

/// A tree reduced to the roots of its perfect subtrees, largest and leftmost first: one per 1-bit of its size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    parts: Vec<Hash>,
}

impl Frontier {
    /// The tree without leaves.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Loads the tree of `size` leaves from stored tiles. `read(level, index)` returns a tile's bytes as far as it has
    /// grown, which may be further than `size`. Reads at most one tile per level.
    ///
    /// # Errors
    /// [`ReadError`] if the reader fails or a tile is missing or has the wrong size. The caller must compare the root with
    /// the signed one.
    pub fn load<E>(
        size: u64,
        read: impl FnMut(u8, u64) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Self, ReadError<E>> {
        Tree::load(size, read).map(|tree| tree.frontier)
    }

    /// Leaves in the tree.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The Merkle tree hash (RFC 6962 §2.1). Costs one hash per 1-bit of the size.
    #[must_use]
    pub fn root(&self) -> Hash {
        fold_right(&self.parts)
    }

    /// Adds the next leaf by its hash. Costs one hash on average.
    pub fn append(&mut self, leaf: Hash) {
        self.grow(leaf, |_, _| ());
    }

    /// Adds the next leaf and reports every perfect subtree it completes as (height, root), lowest first, beginning with
    /// the leaf itself at height 0.
    fn grow(&mut self, leaf: Hash, mut completed: impl FnMut(u32, Hash)) {
        let merges = self.size.trailing_ones();
        let mut root = leaf;
        completed(0, root);
        for height in 1..=merges {
            let left = self
                .parts
                .pop()
                .expect("the size has a 1-bit, thus a part, for every merge");
            root = node_hash(&left, &root);
            completed(height, root);
        }
        self.parts.push(root);
        self.size += 1;
    }
}

/// A [`Frontier`] with the unfinished tile of every level: at most 8 KiB per level, three levels at 16 million leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    frontier: Frontier,
    /// The hashes of the rightmost tile of each level, fewer than 256.
    unfinished: Vec<Vec<u8>>,
}

impl Tree {
    /// The tree without leaves.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Loads the tree of `size` leaves from stored tiles; see [`Frontier::load`].
    ///
    /// # Errors
    /// Those of [`Frontier::load`].
    pub fn load<E>(
        size: u64,
        read: impl FnMut(u8, u64) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Self, ReadError<E>> {
        let mut nodes = Nodes::new(read, None);
        let mut unfinished = Vec::new();
        for (level, count) in levels(size) {
            let width = usize::try_from(count % TILE_WIDTH as u64)
                .expect("a remainder of 256 fits every usize");
            // A level that has just filled up has no unfinished tile, and none may be read for it.
            let bytes = match width {
                0 => Vec::new(),
                _ => nodes.prefix(level, count >> TILE_HEIGHT, width)?.to_vec(),
            };
            unfinished.push(bytes);
        }
        let parts = perfect_parts(&unfinished);
        Ok(Self {
            frontier: Frontier { size, parts },
            unfinished,
        })
    }

    /// Level and index of the tiles that [`Self::load`] reads: those that are not full in a tree of `size` leaves.
    #[must_use]
    pub fn unfinished_tiles(size: u64) -> Vec<TileAddress> {
        levels(size)
            .filter(|(_, count)| !count.is_multiple_of(TILE_WIDTH as u64))
            .map(|(level, count)| (level, count >> TILE_HEIGHT))
            .collect()
    }

    /// Leaves in the tree.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.frontier.size
    }

    /// The Merkle tree hash (RFC 6962 §2.1).
    #[must_use]
    pub fn root(&self) -> Hash {
        self.frontier.root()
    }

    /// The root that the tree had at an earlier size, if its unfinished tiles still show it: `None` once a tile was filled
    /// since.
    #[must_use]
    pub fn root_at(&self, size: u64) -> Option<Hash> {
        if size > self.size() {
            return None;
        }
        let mut narrowed = Vec::with_capacity(self.unfinished.len());
        let (mut count, mut own) = (size, self.size());
        for bytes in &self.unfinished {
            let width = usize::try_from(count % TILE_WIDTH as u64).ok()?;
            if width > 0 && count >> TILE_HEIGHT != own >> TILE_HEIGHT {
                return None;
            }
            narrowed.push(bytes.get(..width * HASH_BYTES)?.to_vec());
            count >>= TILE_HEIGHT;
            own >>= TILE_HEIGHT;
        }
        Some(fold_right(&perfect_parts(&narrowed)))
    }

    /// The tree's right edge, without its tiles.
    #[must_use]
    pub fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// Adds leaves by their hashes. Returns every changed tile once, in its final state, ordered by level and index: the
    /// tiles that the store upserts in the batch's transaction.
    pub fn append(&mut self, leaves: impl IntoIterator<Item = Hash>) -> Vec<Tile> {
        let mut full = Vec::new();
        let before = self.frontier.size;
        for leaf in leaves {
            let Self {
                frontier,
                unfinished,
            } = self;
            let index_of_leaf = frontier.size;
            frontier.grow(leaf, |height, root| {
                if height % TILE_HEIGHT == 0 {
                    extend(unfinished, &mut full, height, index_of_leaf, root);
                }
            });
        }
        let mut touched = full;
        for (level, bytes) in (0u8..).zip(&self.unfinished) {
            let shift = u32::from(level) * TILE_HEIGHT;
            let changed = before >> shift != self.frontier.size >> shift;
            if changed && !bytes.is_empty() {
                touched.push(Tile {
                    level,
                    index: tile_index(self.frontier.size, shift),
                    bytes: bytes.clone(),
                });
            }
        }
        touched.sort_by_key(|tile| (tile.level, tile.index));
        touched
    }
}

/// The levels of tiles of a tree with this many leaves, each with the number of its hashes.
pub(super) fn levels(size: u64) -> impl Iterator<Item = (u8, u64)> {
    let level = move |level: u8| (level, size.checked_shr(u32::from(level) * TILE_HEIGHT));
    let counts = (0..)
        .map(level)
        .map_while(|(level, count)| Some((level, count?)));
    counts.take_while(|(_, count)| *count > 0)
}

/// Adds a hash to its level's unfinished tile. Moves the tile to `full` once it is complete.
fn extend(
    unfinished: &mut Vec<Vec<u8>>,
    full: &mut Vec<Tile>,
    height: u32,
    index_of_leaf: u64,
    hash: Hash,
) {
    let level = (height / TILE_HEIGHT) as usize;
    if unfinished.len() == level {
        unfinished.push(Vec::new());
    }
    let bytes = &mut unfinished[level];
    bytes.extend_from_slice(&hash.0);
    if bytes.len() == TILE_BYTES {
        full.push(Tile {
            level: u8::try_from(level).expect("a tree of u64 leaves has 8 levels"),
            index: tile_index(index_of_leaf, height),
            bytes: std::mem::take(bytes),
        });
    }
}

/// The index of the tile above the given leaf, in the level of that height.
fn tile_index(leaf: u64, height: u32) -> u64 {
    leaf.checked_shr(height + TILE_HEIGHT).unwrap_or(0)
}

/// The roots of the perfect subtrees, largest first, from the unfinished tiles: each 1-bit of the size is in one.
fn perfect_parts(unfinished: &[Vec<u8>]) -> Vec<Hash> {
    let mut parts = Vec::new();
    for bytes in unfinished.iter().rev() {
        let mut within = Frontier::empty();
        for hash in hashes(bytes) {
            within.append(hash);
        }
        debug_assert_eq!(within.size as usize * HASH_BYTES, bytes.len());
        parts.extend(within.parts);
    }
    parts
}

#[cfg(test)]
pub(crate) mod tests;
