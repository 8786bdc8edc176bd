//! C2SP tlog-tiles: how the tree and its entries are divided into tiles, how tiles are named, and how one is read.
//!
//! A tile holds up to 256 consecutive hashes of one height (0, 8, 16, …). Tiles are stored under (level, index) and only
//! ever grow, so every narrower partial tile is a prefix of the stored one. The caller decides where they are stored.
//! Invariant: a path has one spelling, and a read never looks past the hashes it needs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::iter;
use std::sync::Arc;

use super::hash::{HASH_BYTES, Hash, node_hash};

mod bundle;
mod path;
mod upper;

pub use bundle::{BundleError, MAX_ENTRY_BYTES, encode_bundle, parse_bundle};
pub use path::{TileKind, TilePath, TilePathError};
#[doc(hidden)]
pub use upper::UpperNodes;

/// Hashes in a full tile.
pub const TILE_WIDTH: usize = 256;
/// Bytes in a full tile.
pub const TILE_BYTES: usize = TILE_WIDTH * HASH_BYTES;
/// Tree levels one tile spans: 2^8 = 256 hashes.
pub(super) const TILE_HEIGHT: u32 = 8;
/// Tree levels of a group: the hashes of a tile under one node that [`UpperNodes`] can keep.
const GROUP_HEIGHT: u32 = 3;
/// Hashes in a group.
const GROUP_WIDTH: usize = 1 << GROUP_HEIGHT;

/// The level of a tile, and its position within the level.
pub type TileAddress = (u8, u64);

/// One tile as far as it has grown: what the store keeps under (level, index).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// 0 holds leaf hashes; each hash of level n+1 is the root of a full tile of level n.
    pub level: u8,
    /// Position within the level, from 0.
    pub index: u64,
    /// 1 to 256 hashes, 32 bytes each.
    pub bytes: Vec<u8>,
}

impl Tile {
    /// Hashes in the tile, 1 to 256.
    #[must_use]
    pub fn width(&self) -> usize {
        self.bytes.len() / HASH_BYTES
    }
}

/// Why stored tiles cannot be used. `E` is the reader's error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum ReadError<E> {
    /// The reader itself failed; the tiles may be fine.
    Read(E),
    /// A tile that the tree of this size must have is not stored.
    Missing {
        /// Level of the tile.
        level: u8,
        /// Index of the tile in its level.
        index: u64,
    },
    /// A stored tile is shorter than the tree needs, longer than a tile can be, or ends within a hash.
    Size {
        /// Level of the tile.
        level: u8,
        /// Index of the tile in its level.
        index: u64,
        /// Bytes stored.
        found: usize,
        /// Minimum bytes that the tree needs.
        needed: usize,
    },
    /// The requested proof does not exist in a tree of this size.
    OutOfRange {
        /// The requested leaf index or older size.
        asked: u64,
        /// Size of the tree.
        size: u64,
    },
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "ledger tiles could not be read: {error}"),
            Self::Missing { level, index } => {
                write!(f, "ledger tile {index} of level {level} is not stored")
            }
            Self::Size {
                level,
                index,
                found,
                needed,
            } => write!(
                f,
                "ledger tile {index} of level {level} has {found} bytes; it needs whole hashes of 32 bytes, \
                 {needed} to {TILE_BYTES} bytes"
            ),
            Self::OutOfRange { asked, size } => {
                write!(f, "position {asked} is not in a ledger of {size} entries")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for ReadError<E> {}

/// Looks up tree nodes in stored tiles. Reads each tile once, and hashes of it what is needed and not kept.
pub(super) struct Nodes<'a, R> {
    read: R,
    tiles: BTreeMap<TileAddress, KnownTile>,
    kept: Option<&'a UpperNodes>,
}

/// Nodes, and above them the roots of 2, 4, 8, … of them.
type Rows = Vec<Vec<Hash>>;

struct KnownTile {
    bytes: Vec<u8>,
    /// The roots of the tile's full groups and the nodes above; `None` until one is needed.
    upper: Option<Arc<Rows>>,
}

/// The roots of a tile's full groups, of which these first ones are known, and the nodes above.
fn rows_above_groups(bytes: &[u8], known: &[Hash]) -> Rows {
    let groups = bytes.chunks_exact(GROUP_WIDTH * HASH_BYTES);
    let more = groups.skip(known.len()).map(fold_perfect);
    let row = Some(known.iter().copied().chain(more).collect());
    iter::successors(row, |row: &Vec<Hash>| (row.len() > 1).then(|| pairs(row))).collect()
}

impl<'a, R, E> Nodes<'a, R>
where
    R: FnMut(u8, u64) -> Result<Option<Vec<u8>>, E>,
{
    pub(super) fn new(read: R, kept: Option<&'a UpperNodes>) -> Self {
        Self {
            read,
            tiles: BTreeMap::new(),
            kept,
        }
    }

    /// The root of the perfect subtree of 2^height leaves with this `index` among those of its height.
    pub(super) fn subtree(&mut self, height: u32, index: u64) -> Result<Hash, ReadError<E>> {
        let level = u8::try_from(height / TILE_HEIGHT).expect("a tree of u64 leaves has height 63");
        let inner = height % TILE_HEIGHT;
        let tile = index >> (TILE_HEIGHT - inner);
        let first = usize::try_from((index << inner) % TILE_WIDTH as u64)
            .expect("a remainder of 256 fits every usize");
        let end = first + (1 << inner);
        let known = self.known(level, tile, end)?;
        if inner < GROUP_HEIGHT {
            let bytes = &known.bytes[first * HASH_BYTES..end * HASH_BYTES];
            return Ok(fold_perfect(bytes));
        }
        let upper = match &known.upper {
            Some(upper) => Arc::clone(upper),
            None => self.above_groups(level, tile)?,
        };
        Ok(upper[(inner - GROUP_HEIGHT) as usize][first >> inner])
    }

    /// The nodes above the groups of a tile of which none was needed before.
    fn above_groups(&mut self, level: u8, tile: u64) -> Result<Arc<Rows>, ReadError<E>> {
        let kept = self.kept;
        let root = self.root_of_full(level, tile);
        let known = self.known(level, tile, 0)?;
        let bytes = known.bytes.as_slice();
        // Without a root, nothing says what a full tile holds, so nothing is kept of it.
        let upper = match (kept, root) {
            (Some(kept), _) if bytes.len() < TILE_BYTES => kept.unfinished(level, bytes),
            (Some(kept), Some(root)) => kept.full(root, || rows_above_groups(bytes, &[])),
            _ => rows_above_groups(bytes, &[]).into(),
        };
        known.upper = Some(Arc::clone(&upper));
        Ok(upper)
    }

    /// The root of a full tile, if the tile above it was needed before: a proof begins at the top.
    fn root_of_full(&self, level: u8, tile: u64) -> Option<Hash> {
        let above = self.tiles.get(&(level + 1, tile >> TILE_HEIGHT))?;
        let place = usize::try_from(tile % TILE_WIDTH as u64).ok()?;
        hashes(&above.bytes).nth(place)
    }

    /// The root of the leaves `low..high`. `low` must be a multiple of the largest power of two within the range, as in all
    /// ranges that RFC 6962's splitting produces.
    pub(super) fn range(&mut self, mut low: u64, high: u64) -> Result<Hash, ReadError<E>> {
        let mut parts = Vec::with_capacity(1); // most ranges are perfect subtrees
        while low < high {
            let height = (high - low).ilog2();
            parts.push(self.subtree(height, low >> height)?);
            low += 1 << height;
        }
        Ok(fold_right(&parts))
    }

    /// The first `width` hashes of a tile, as bytes.
    pub(super) fn prefix(
        &mut self,
        level: u8,
        index: u64,
        width: usize,
    ) -> Result<&[u8], ReadError<E>> {
        let known = self.known(level, index, width)?;
        Ok(&known.bytes[..width * HASH_BYTES])
    }

    /// A tile that has at least `width` hashes.
    fn known(
        &mut self,
        level: u8,
        index: u64,
        width: usize,
    ) -> Result<&mut KnownTile, ReadError<E>> {
        let known = match self.tiles.entry((level, index)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let read = (self.read)(level, index).map_err(ReadError::Read)?;
                place.insert(KnownTile {
                    bytes: read.ok_or(ReadError::Missing { level, index })?,
                    upper: None,
                })
            }
        };
        let bytes = &known.bytes;
        let needed = width * HASH_BYTES;
        if bytes.len() < needed
            || bytes.len() > TILE_BYTES
            || !bytes.len().is_multiple_of(HASH_BYTES)
        {
            return Err(ReadError::Size {
                level,
                index,
                found: bytes.len(),
                needed,
            });
        }
        Ok(known)
    }
}

/// Hashes perfect subtrees, largest and leftmost first, into their common root; the empty root for none.
pub(super) fn fold_right(parts: &[Hash]) -> Hash {
    let mut from_right = parts.iter().rev();
    let Some(last) = from_right.next() else {
        return super::hash::EMPTY_ROOT;
    };
    from_right.fold(*last, |right, left| node_hash(left, &right))
}

/// The root of concatenated hashes whose number is a power of two.
pub(super) fn fold_perfect(bytes: &[u8]) -> Hash {
    if bytes.len() <= HASH_BYTES {
        return Hash::try_from(bytes).expect("halves of a power of two of hashes are whole hashes");
    }
    let (left, right) = bytes.split_at(bytes.len() / 2);
    node_hash(&fold_perfect(left), &fold_perfect(right))
}

/// The parents of these nodes, without one for an odd last.
fn pairs(nodes: &[Hash]) -> Vec<Hash> {
    let pairs = nodes.chunks_exact(2);
    pairs.map(|pair| node_hash(&pair[0], &pair[1])).collect()
}

/// The concatenated hashes of a tile.
pub(super) fn hashes(bytes: &[u8]) -> impl Iterator<Item = Hash> + '_ {
    bytes
        .chunks_exact(HASH_BYTES)
        .map(|chunk| Hash::try_from(chunk).expect("chunks have the length of a hash"))
}
