//! Inclusion and consistency proofs (RFC 6962 §2.1.1 and §2.1.2): made from stored tiles, checked against roots.
//!
//! `tlog_proof` has the text form of an inclusion proof; `checkpoint` decides whether a root can be trusted. Invariant:
//! given the positions, exactly one number of hashes is right, and any other is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::hash::{EMPTY_ROOT, Hash, node_hash};
use super::tile::{Nodes, ReadError, TILE_HEIGHT, TileAddress, UpperNodes};
use super::tree::Tree;

/// The longest inclusion proof, in hashes: the height of a tree of 2^64 leaves.
pub const MAX_PATH: usize = 64;

/// The hashes from leaf `index` to the root of the tree of `size` leaves, the leaf's sibling first.
///
/// `read(level, index)` returns a stored tile as far as it has grown, which may be further than `size`.
///
/// # Errors
/// [`ReadError::OutOfRange`] if the tree has no such leaf, otherwise the errors of reading tiles.
pub fn prove_inclusion<E>(
    index: u64,
    size: u64,
    read: impl FnMut(u8, u64) -> Result<Option<Vec<u8>>, E>,
) -> Result<Vec<Hash>, ReadError<E>> {
    Prover::new(size, read, None).inclusion(index)
}

/// Makes inclusion proofs in one tree. Each tile is read and hashed once for all of them.
#[doc(hidden)]
pub struct Prover<'a, R> {
    size: u64,
    nodes: Nodes<'a, R>,
    /// By leaf: the root of all leaves from that one to the end of the tree. Most paths share them.
    ends: BTreeMap<u64, Hash>,
}

impl<'a, R, E> Prover<'a, R>
where
    R: FnMut(u8, u64) -> Result<Option<Vec<u8>>, E>,
{
    /// Proofs in the tree of `size` leaves; `read` is as in [`prove_inclusion`]. What `kept` knows is not hashed again.
    pub fn new(size: u64, read: R, kept: Option<&'a UpperNodes>) -> Self {
        Self {
            size,
            nodes: Nodes::new(read, kept),
            ends: BTreeMap::new(),
        }
    }

    /// The proof of a leaf, as [`prove_inclusion`] makes it.
    ///
    /// # Errors
    /// Those of [`prove_inclusion`].
    pub fn inclusion(&mut self, index: u64) -> Result<Vec<Hash>, ReadError<E>> {
        let size = self.size;
        if index >= size {
            return Err(ReadError::OutOfRange { asked: index, size });
        }
        let mut path = Vec::new();
        let (mut low, mut high) = (0, size);
        // RFC 6962 PATH, walked from the root down; the proof lists it from the leaf up.
        while high - low > 1 {
            let middle = low + split(high - low);
            if index < middle {
                path.push(match high == size {
                    true => self.end(middle)?,
                    false => self.nodes.range(middle, high)?,
                });
                high = middle;
            } else {
                path.push(self.nodes.range(low, middle)?);
                low = middle;
            }
        }
        path.reverse();
        Ok(path)
    }

    /// The root of all leaves from this one on.
    fn end(&mut self, from: u64) -> Result<Hash, ReadError<E>> {
        if let Some(known) = self.ends.get(&from) {
            return Ok(*known);
        }
        let root = self.nodes.range(from, self.size)?;
        self.ends.insert(from, root);
        Ok(root)
    }
}

/// The tiles from which the proofs of these leaves in the tree of `size` leaves are made.
pub fn tiles_of(leaves: impl IntoIterator<Item = u64>, size: u64) -> Vec<TileAddress> {
    let mut tiles = BTreeSet::from_iter(Tree::unfinished_tiles(size));
    for leaf in leaves {
        // Its ancestors lie in full tiles up to some level, and above it in unfinished ones.
        let full = (0..).map(|level| (level, TILE_HEIGHT * (u32::from(level) + 1)));
        let full = full.take_while(|(_, height)| {
            size.checked_shr(*height).unwrap_or(0) > leaf.checked_shr(*height).unwrap_or(0)
        });
        tiles.extend(full.map(|(level, height)| (level, leaf >> height)));
    }
    tiles.into_iter().collect()
}

/// The hashes that prove the tree of `from` leaves to be the beginning of the tree of `to` leaves. Empty for `from` = 0 and
/// `from` = `to`. `read` is as in [`prove_inclusion`].
///
/// # Errors
/// [`ReadError::OutOfRange`] if `from` exceeds `to`, otherwise the errors of reading tiles.
pub fn prove_consistency<E>(
    from: u64,
    to: u64,
    read: impl FnMut(u8, u64) -> Result<Option<Vec<u8>>, E>,
) -> Result<Vec<Hash>, ReadError<E>> {
    if from > to {
        return Err(ReadError::OutOfRange {
            asked: from,
            size: to,
        });
    }
    if from == 0 || from == to {
        return Ok(Vec::new());
    }
    let mut nodes = Nodes::new(read, None);
    let mut path = Vec::new();
    let (mut low, mut high) = (0, to);
    // RFC 6962 SUBPROOF, walked from the root down to where the old tree ends.
    while high != from {
        let middle = low + split(high - low);
        if from <= middle {
            path.push(nodes.range(middle, high)?);
            high = middle;
        } else {
            path.push(nodes.range(low, middle)?);
            low = middle;
        }
    }
    // If the walk never turned right, the subtree at its end is the old tree itself, which verifiers know.
    if low > 0 {
        path.push(nodes.range(low, high)?);
    }
    path.reverse();
    Ok(path)
}

/// Checks that `leaf` is the hash of entry `index` in the tree of `size` leaves with this root (RFC 9162 §2.1.3.2).
///
/// # Errors
/// [`ProofError::OutOfRange`], [`ProofError::Length`], [`ProofError::Root`].
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    path: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::OutOfRange { asked: index, size });
    }
    let mut climb = Climb::new(index, size);
    let mut hash = *leaf;
    for sibling in path {
        hash = match climb.step().ok_or(ProofError::Length)? {
            Side::Left => node_hash(sibling, &hash),
            Side::Right => node_hash(&hash, sibling),
        };
    }
    climb.finish()?;
    if hash != *root {
        return Err(ProofError::Root);
    }
    Ok(())
}

/// Checks that the tree of `from` leaves with root `old` is the beginning of the tree of `to` leaves with root `new`
/// (RFC 9162 §2.1.4.2). The empty tree is the beginning of every tree.
///
/// # Errors
/// [`ProofError::OutOfRange`], [`ProofError::Length`], [`ProofError::OldRoot`], [`ProofError::Root`].
pub fn verify_consistency(
    from: u64,
    old: &Hash,
    to: u64,
    new: &Hash,
    path: &[Hash],
) -> Result<(), ProofError> {
    if from > to {
        return Err(ProofError::OutOfRange {
            asked: from,
            size: to,
        });
    }
    if from == 0 && *old != EMPTY_ROOT {
        return Err(ProofError::OldRoot);
    }
    if from == 0 || from == to {
        return match path {
            [] if from == to && old != new => Err(ProofError::Root),
            [] => Ok(()),
            _ => Err(ProofError::Length),
        };
    }
    let mut climb = Climb::new(from - 1, to);
    climb.skip_right_turns();
    // A perfect old tree is itself the node the proof starts from and is not repeated in it.
    let (start, rest) = if from.is_power_of_two() {
        (old, path)
    } else {
        path.split_first().ok_or(ProofError::Length)?
    };
    let (mut old_hash, mut new_hash) = (*start, *start);
    for sibling in rest {
        match climb.step().ok_or(ProofError::Length)? {
            Side::Left => {
                old_hash = node_hash(sibling, &old_hash);
                new_hash = node_hash(sibling, &new_hash);
            }
            Side::Right => new_hash = node_hash(&new_hash, sibling),
        }
    }
    climb.finish()?;
    // In this order: hashes that lead to the new root are those of its tree, so another older root is that tree's own.
    if new_hash != *new {
        return Err(ProofError::Root);
    }
    if old_hash != *old {
        return Err(ProofError::OldRoot);
    }
    Ok(())
}

/// The side of the current node on which its sibling is.
enum Side {
    Left,
    Right,
}

/// The path from a node to the root: its index and the index of the last node, both at the current height.
struct Climb {
    node: u64,
    last: u64,
}

impl Climb {
    fn new(index: u64, size: u64) -> Self {
        Self {
            node: index,
            last: size - 1,
        }
    }

    /// Climbs while the node is a right child: the old tree's own perfect right edge.
    fn skip_right_turns(&mut self) {
        let turns = self.node.trailing_ones();
        self.node = self.node.checked_shr(turns).unwrap_or(0);
        self.last = self.last.checked_shr(turns).unwrap_or(0);
    }

    /// The side of the next sibling, and one step up; `None` at the root.
    fn step(&mut self) -> Option<Side> {
        if self.last == 0 {
            return None;
        }
        let side = if self.node & 1 == 1 || self.node == self.last {
            // Without a right neighbour, the node rises unchanged until it is itself a right child.
            let rises = self.node.trailing_zeros();
            self.node >>= rises;
            self.last >>= rises;
            Side::Left
        } else {
            Side::Right
        };
        self.node >>= 1;
        self.last >>= 1;
        Some(side)
    }

    fn finish(self) -> Result<(), ProofError> {
        (self.last == 0).then_some(()).ok_or(ProofError::Length)
    }
}

/// The largest power of two smaller than `count`, at which RFC 6962 splits a range of at least 2.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

/// Why a proof is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum ProofError {
    /// The claimed position or older size is not within the tree.
    OutOfRange {
        /// Leaf index or older size claimed.
        asked: u64,
        /// Size of the tree.
        size: u64,
    },
    /// The proof has too few or too many hashes for its positions.
    Length,
    /// The proof leads to the tree's root, and to a root other than the older tree's: the tree begins with another one.
    OldRoot,
    /// The proof leads to a root other than the tree's.
    Root,
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { asked, size } => {
                write!(f, "position {asked} is not in a ledger of {size} entries")
            }
            Self::Length => f.write_str(
                "the proof has too few or too many hashes for its position and tree size",
            ),
            Self::OldRoot => f.write_str("the proof does not lead to the older tree's root"),
            Self::Root => f.write_str("the proof does not lead to the tree's root"),
        }
    }
}

impl std::error::Error for ProofError {}

#[cfg(test)]
mod tests;
