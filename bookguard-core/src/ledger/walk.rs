//! A verified pass over every entry of a log, in order, one tile at a time.
//!
//! The caller fetches the tiles that [`Walk::paths`] names, in that order, and passes each to [`Walk::take`]. Nothing is
//! taken on trust: the tiles at the log's edge must have the checkpoint's root, every other tile and every entry bundle must
//! be the child of one that was checked, and the beginning of the log must be the one that was known before. So a changed
//! byte stops the walk at the tile that holds it. Invariant: memory holds one tile per level, however long the log is.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use bookguard_core::ledger::tile::encode_bundle;
//! use bookguard_core::ledger::walk::Walk;
//! use bookguard_core::ledger::{Checkpoint, Tree, leaf_hash};
//!
//! // What a log of two entries serves under its paths.
//! let entries: [&[u8]; 2] = [b"one", b"two"];
//! let mut tree = Tree::empty();
//! let tiles = tree.append(entries.map(leaf_hash));
//! let served = BTreeMap::from([
//!     ("tile/0/000.p/2", tiles[0].bytes.clone()),
//!     ("tile/entries/000.p/2", encode_bundle(entries)?),
//! ]);
//! let origin = "example.com/log".to_owned();
//! let log = Checkpoint { origin, size: tree.size(), root: tree.root() };
//!
//! let mut walk = Walk::new(Checkpoint::empty("example.com/log"), log)?;
//! for path in walk.paths() {
//!     if let Some((first, found)) = walk.take(&served[path.to_string().as_str()])? {
//!         assert_eq!((first, found), (0, entries.to_vec()));
//!     }
//! }
//! // Keep it: the next walk begins there, with `Walk::since`.
//! assert_eq!(walk.finish()?.size, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::convert::Infallible;
use std::fmt;

use super::checkpoint::Checkpoint;
use super::hash::{HASH_BYTES, Hash, leaf_hash};
use super::leaf::MAX_LEAF_BYTES;
use super::tile::{
    BundleError, TILE_HEIGHT, TILE_WIDTH, TileKind, TilePath, fold_perfect, hashes, parse_bundle,
};
use super::tree::{self, Frontier, Tree};

/// Entries, the first of them at this place in the log.
pub type Entries<'b> = (u64, Vec<&'b [u8]>);

/// A walk in progress.
pub struct Walk {
    log: Checkpoint,
    known: Checkpoint,
    paths: Paths,
    /// The first bundle of the walk.
    bundle: u64,
    /// Tiles left of those at the log's edge, and of those at the edge of the known beginning.
    edges_left: (usize, usize),
    /// The tile of each level that is not full.
    edge: Vec<Vec<u8>>,
    /// The full tile of each level that was read last, with its index.
    full: Vec<(u64, Vec<u8>)>,
    walked: u64,
}

/// The tiles of a walk, in order.
type Paths = Box<dyn Iterator<Item = TilePath> + Send>;

impl Walk {
    /// A walk over the whole log with the checkpoint `log`, which must continue the `known` one: [`Checkpoint::empty`] if nothing was
    /// known. The caller has checked that both are signed by the log's key.
    ///
    /// # Errors
    /// [`WalkError::Origin`]; [`WalkError::Smaller`]; [`WalkError::Forked`] if both are of one size and have different roots.
    pub fn new(known: Checkpoint, log: Checkpoint) -> Result<Self, WalkError> {
        Self::from(0, known, log)
    }

    /// A walk over what was added since the `known` checkpoint: it begins with the bundle in which that one ends.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn since(known: Checkpoint, log: Checkpoint) -> Result<Self, WalkError> {
        Self::from(known.size / TILE_WIDTH as u64, known, log)
    }

    /// A walk that begins with this bundle, in which the known beginning ends or before which it does not end.
    fn from(bundle: u64, known: Checkpoint, log: Checkpoint) -> Result<Self, WalkError> {
        if log.origin != known.origin {
            return Err(WalkError::Origin {
                found: log.origin,
                known: known.origin,
            });
        }
        if log.size < known.size {
            return Err(WalkError::Smaller {
                found: log.size,
                known: known.size,
            });
        }
        // The two checkpoints are the proof. A log that is forked need not serve the tiles that would show it too.
        if log.size == known.size && log.root != known.root {
            return Err(WalkError::Forked { known: known.size });
        }
        let levels = usize::from(levels(log.size));
        Ok(Self {
            edges_left: (
                edge(log.size).count(),
                beginning(log.size, known.size).count(),
            ),
            paths: paths(bundle, log.size, known.size),
            bundle,
            edge: vec![Vec::new(); levels],
            full: vec![(u64::MAX, Vec::new()); levels],
            walked: bundle * TILE_WIDTH as u64,
            log,
            known,
        })
    }

    /// The log that is walked.
    #[must_use]
    pub fn log(&self) -> &Checkpoint {
        &self.log
    }

    /// The beginning of the log that was known.
    #[must_use]
    pub fn known(&self) -> &Checkpoint {
        &self.known
    }

    /// The tiles to fetch, in the order in which [`Self::take`] takes them.
    pub fn paths(&self) -> impl Iterator<Item = TilePath> + Send + use<> {
        paths(self.bundle, self.log.size, self.known.size)
    }

    /// Entries walked so far, those before the beginning of the walk included.
    #[must_use]
    pub fn walked(&self) -> u64 {
        self.walked
    }

    /// The root of the entries walked so far, which may become the known beginning of a later walk. `None` before the first of
    /// them.
    #[must_use]
    pub fn root_so_far(&self) -> Option<Hash> {
        self.root(self.walked)
    }

    /// Checks the next tile. Returns the entries of a bundle; none for a tile of hashes.
    ///
    /// # Errors
    /// What is wrong with the tile, or with the log.
    pub fn take<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<Entries<'b>>, WalkError> {
        let Some(path) = self.paths.next() else {
            return Err(WalkError::Over);
        };
        let taken = match path.kind() {
            TileKind::Hashes(level) => self.hashes(&path, level, bytes).map(|()| None),
            TileKind::Entries => self.bundle(&path, bytes).map(Some),
        };
        if taken.is_err() {
            // Nothing can be checked against a tile that is wrong.
            self.paths = Box::new(std::iter::empty());
        }
        taken
    }

    fn hashes(&mut self, path: &TilePath, level: u8, bytes: &[u8]) -> Result<(), WalkError> {
        if bytes.len() != path.width() * HASH_BYTES {
            return Err(WalkError::Size {
                path: *path,
                found: bytes.len(),
            });
        }
        if path.is_partial() {
            self.edge[usize::from(level)] = bytes.to_vec();
            self.edges_left.0 -= 1;
            if self.edges_left.0 > 0 {
                return Ok(());
            }
            if self.root(self.log.size) != Some(self.log.root) {
                return Err(WalkError::Edge);
            }
        } else {
            if self.edges_left.0 > 0
                || self.parent(level, path.index()) != Some(fold_perfect(bytes))
            {
                return Err(WalkError::Changed(*path));
            }
            self.full[usize::from(level)] = (path.index(), bytes.to_vec());
            if self.edges_left.1 == 0 {
                return Ok(());
            }
            self.edges_left.1 -= 1;
        }
        if self.edges_left.1 == 0 && self.root(self.known.size) != Some(self.known.root) {
            return Err(WalkError::Forked {
                known: self.known.size,
            });
        }
        Ok(())
    }

    fn bundle<'b>(&mut self, path: &TilePath, bytes: &'b [u8]) -> Result<Entries<'b>, WalkError> {
        let entries =
            parse_bundle(bytes, path.width()).map_err(|why| WalkError::Bundle(*path, why))?;
        let row: Vec<u8> = entries
            .iter()
            .flat_map(|entry| leaf_hash(entry).0)
            .collect();
        let genuine = if path.is_partial() {
            self.edge.first() == Some(&row)
        } else {
            self.parent(0, path.index()) == Some(fold_perfect(&row))
        };
        if !genuine {
            return Err(WalkError::Changed(*path));
        }
        self.walked += entries.len() as u64;
        Ok((path.index() * TILE_WIDTH as u64, entries))
    }

    /// The root that the tile above states for a full tile; `None` if the tile above was not read.
    fn parent(&self, level: u8, index: u64) -> Option<Hash> {
        let above = self.tile(level + 1, index >> TILE_HEIGHT)?;
        let at = usize::try_from(index % TILE_WIDTH as u64).ok()?;
        hashes(above).nth(at)
    }

    /// A tile that was checked.
    fn tile(&self, level: u8, index: u64) -> Option<&[u8]> {
        let (full, bytes) = self.full.get(usize::from(level))?;
        if *full == index {
            return Some(bytes);
        }
        let unfinished = hashes_of(self.log.size, level) >> TILE_HEIGHT;
        (unfinished == index).then(|| self.edge[usize::from(level)].as_slice())
    }

    /// The root of the first `size` entries, if the tiles at hand show it.
    fn root(&self, size: u64) -> Option<Hash> {
        let read = |level, index| Ok::<_, Infallible>(self.tile(level, index).map(<[u8]>::to_vec));
        Frontier::load(size, read).ok().map(|tree| tree.root())
    }

    /// Ends the walk. Returns the log that was walked.
    ///
    /// # Errors
    /// [`WalkError::Unfinished`] unless every entry was walked.
    pub fn finish(self) -> Result<Checkpoint, WalkError> {
        if self.walked == self.log.size {
            Ok(self.log)
        } else {
            Err(WalkError::Unfinished {
                walked: self.walked,
                size: self.log.size,
            })
        }
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk")
            .field("known", &self.known)
            .field("log", &self.log)
            .field("walked", &self.walked)
            .finish_non_exhaustive()
    }
}

/// The most bytes that the tile at this path can have: what to read of a server's answer before giving up.
#[must_use]
pub fn most_bytes(path: &TilePath) -> usize {
    let each = match path.kind() {
        TileKind::Hashes(_) => HASH_BYTES,
        TileKind::Entries => 2 + MAX_LEAF_BYTES,
    };
    path.width() * each
}

/// Hashes of a level in a log of `size` entries.
fn hashes_of(size: u64, level: u8) -> u64 {
    size.checked_shr(u32::from(level) * TILE_HEIGHT)
        .unwrap_or(0)
}

/// Levels that have hashes.
fn levels(size: u64) -> u8 {
    tree::levels(size).count() as u8
}

/// The tiles at the log's edge, which are not full.
fn edge(size: u64) -> impl Iterator<Item = TilePath> + Send + use<> {
    let unfinished = Tree::unfinished_tiles(size).into_iter();
    unfinished.filter_map(move |(level, index)| {
        let width = hashes_of(size, level) % TILE_WIDTH as u64;
        TilePath::new(TileKind::Hashes(level), index, width as usize).ok()
    })
}

/// The full tiles at the edge of the first `known` entries, each below the one before it.
fn beginning(size: u64, known: u64) -> impl Iterator<Item = TilePath> + Send + use<> {
    let levels = (0..levels(size)).rev();
    levels.filter_map(move |level| full(size, level, hashes_of(known, level) >> TILE_HEIGHT))
}

/// The path of a tile, if it is full.
fn full(size: u64, level: u8, index: u64) -> Option<TilePath> {
    let path = TilePath::new(TileKind::Hashes(level), index, TILE_WIDTH).ok()?;
    (hashes_of(size, level) >> TILE_HEIGHT > index).then_some(path)
}

fn paths(first: u64, size: u64, known: u64) -> Paths {
    let bundles = first..size.div_ceil(TILE_WIDTH as u64);
    let bundles = bundles.flat_map(move |index| {
        // Before the first of its bundles, each full tile above them, the highest first.
        let above = (1..levels(size)).rev().filter_map(move |level| {
            let bundles = u32::from(level) * TILE_HEIGHT;
            let first = index.is_multiple_of(1 << bundles);
            first.then(|| full(size, level, index >> bundles))?
        });
        let width = (size - index * TILE_WIDTH as u64).min(TILE_WIDTH as u64);
        above.chain(TilePath::new(TileKind::Entries, index, width as usize).ok())
    });
    Box::new(edge(size).chain(beginning(size, known)).chain(bundles))
}

/// Why a log cannot be relied on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum WalkError {
    /// The two checkpoints are of different logs.
    Origin {
        /// The log's name.
        found: String,
        /// The name of the log that was known.
        known: String,
    },
    /// The log has fewer entries than were known.
    Smaller {
        /// Entries of the log.
        found: u64,
        /// Entries that were known.
        known: u64,
    },
    /// The log does not begin with the entries that were known.
    Forked {
        /// Entries that were known.
        known: u64,
    },
    /// The tiles at the log's edge do not have the checkpoint's root.
    Edge,
    /// A tile or an entry bundle is not the one that the checkpoint covers.
    Changed(TilePath),
    /// A tile of hashes has another length.
    Size {
        /// The tile.
        path: TilePath,
        /// Its bytes.
        found: usize,
    },
    /// The bytes are not an entry bundle of this width.
    Bundle(TilePath, BundleError),
    /// A tile more than the log has.
    Over,
    /// The walk ended before the log did.
    Unfinished {
        /// Entries walked.
        walked: u64,
        /// Entries of the log.
        size: u64,
    },
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin { found, known } => write!(
                f,
                "the checkpoint is of the log {found}, but the one known before is of {known}"
            ),
            Self::Smaller { found, known } => write!(
                f,
                "the log has {found} entries, but {known} were signed before: entries were taken out of it, or this is an \
                 older copy"
            ),
            Self::Forked { known } => write!(
                f,
                "the log is forked: its first {known} entries are not the {known} that the same key signed before"
            ),
            Self::Edge => f.write_str(
                "the newest tiles of the log do not have the root that its checkpoint states: one was changed, or the copy \
                 is not complete",
            ),
            Self::Changed(path) => write!(
                f,
                "{path} is not what the log's checkpoint covers: it was changed"
            ),
            Self::Size { path, found } => write!(
                f,
                "{path} has {found} bytes instead of {}: it was changed or cut",
                path.width() * HASH_BYTES
            ),
            Self::Bundle(path, why) => write!(f, "{path} cannot be read: {why}"),
            Self::Over => f.write_str("the log has no further tiles"),
            Self::Unfinished { walked, size } => {
                write!(f, "{walked} of {size} entries of the log were read")
            }
        }
    }
}

impl std::error::Error for WalkError {}

#[cfg(test)]
mod tests;
