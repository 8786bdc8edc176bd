//! The map of a log: for every stream, how many entries it has and the leaf hash of the last.
//!
//! It is a log-backed map: a compressed binary trie over the first entries of a log, whose root an entry of the log commits to.
//! A key is the SHA-256 of a stream. A node with two children stands at the bit where the keys below it first differ; nodes with
//! one child do not exist. A node's hash covers the bits that all keys below it begin with. Invariant: a root determines one path
//! for each key, whoever made it. So under one root a stream cannot have two values, nor one value and none.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::hash::{HASH_BYTES, Hash};

#[doc(hidden)]
pub mod pages;

/// The first of the bytes that are hashed for a leaf. The log's own tree uses 0 and 1.
const LEAF: u8 = 2;
/// The first of the bytes that are hashed for a node with two children.
const NODE: u8 = 3;
/// The only byte that is hashed for a map without streams.
const EMPTY: u8 = 4;

/// What the map says of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapValue {
    /// The number of its entries; at least 1.
    pub count: u64,
    /// The leaf hash of the last of them.
    pub head: Hash,
}

/// One node on a path: the bit at which it stands, and the hash of its other child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapStep {
    /// The first bit in which the keys below it differ, counted from 0, the highest bit of the first byte.
    pub bit: u8,
    /// The hash of the child that is not on the path.
    pub hash: Hash,
}

/// What is at the end of a key's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MapEnd {
    /// Nothing: the map has no streams.
    Empty,
    /// A leaf. If its key is another one, the map does not have the key.
    Leaf {
        /// The key.
        key: Hash,
        /// Its value.
        value: MapValue,
    },
    /// A node whose keys all begin otherwise than the key.
    Node {
        /// The bit at which it stands.
        bit: u8,
        /// The bits before it, then zeros.
        prefix: Hash,
        /// The hash of the child with the bit 0.
        left: Hash,
        /// The hash of the child with the bit 1.
        right: Hash,
    },
}

/// The path of a key: a proof of its value, or that it has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapProof {
    /// The nodes from its end to the root. Their bits descend.
    pub path: Vec<MapStep>,
    /// What is at its end.
    pub end: MapEnd,
}

/// The key of a stream.
#[must_use]
pub fn key_of(stream: &[u8; 16]) -> Hash {
    Hash::of(stream)
}

/// The root of a map without streams.
#[must_use]
pub fn empty_root() -> Hash {
    Hash::of(&[EMPTY])
}

/// The hash of a leaf: SHA-256(0x02 ‖ key ‖ count as eight bytes, big-endian ‖ head).
#[must_use]
pub fn map_leaf(key: &Hash, value: &MapValue) -> Hash {
    let mut bytes = [0; 1 + HASH_BYTES + 8 + HASH_BYTES];
    bytes[0] = LEAF;
    bytes[1..33].copy_from_slice(&key.0);
    bytes[33..41].copy_from_slice(&value.count.to_be_bytes());
    bytes[41..].copy_from_slice(&value.head.0);
    Hash::of(&bytes)
}

/// The hash of a node with two children: SHA-256(0x03 ‖ bit ‖ prefix ‖ left ‖ right). The prefix has 32 bytes: the first `bit`
/// bits of `key`, which all keys below the node have, then zeros.
#[must_use]
pub fn map_node(bit: u8, key: &Hash, left: &Hash, right: &Hash) -> Hash {
    let mut bytes = [0; 2 + 3 * HASH_BYTES];
    bytes[..2].copy_from_slice(&[NODE, bit]);
    bytes[2..34].copy_from_slice(&prefix(key, bit).0);
    bytes[34..66].copy_from_slice(&left.0);
    bytes[66..].copy_from_slice(&right.0);
    Hash::of(&bytes)
}

/// The first `bits` bits of a key, then zeros.
#[must_use]
pub fn prefix(key: &Hash, bits: u8) -> Hash {
    let mut out = [0; HASH_BYTES];
    let (whole, rest) = (usize::from(bits / 8), bits % 8);
    out[..whole].copy_from_slice(&key.0[..whole]);
    if rest > 0 {
        out[whole] = key.0[whole] & !(0xff >> rest);
    }
    Hash(out)
}

/// Whether this bit of a key is 1.
#[must_use]
pub fn bit_of(key: &Hash, bit: u8) -> bool {
    key.0[usize::from(bit / 8)] & (0x80 >> (bit % 8)) != 0
}

impl MapProof {
    /// What the map with this root says of a key; `None` if it does not have the key.
    ///
    /// # Errors
    /// [`MapError`] if this is not the key's path under that root.
    pub fn verify(&self, root: &Hash, key: &Hash) -> Result<Option<MapValue>, MapError> {
        let lowest = self.path.first();
        // All keys below the lowest node begin as the key does, up to and including the bit at which it stands.
        let is_below = |other: &Hash| {
            lowest.is_none_or(|step| {
                prefix(other, step.bit) == prefix(key, step.bit)
                    && bit_of(other, step.bit) == bit_of(key, step.bit)
            })
        };
        let (hash, value) = match &self.end {
            MapEnd::Empty if self.path.is_empty() => (empty_root(), None),
            MapEnd::Empty => return Err(MapError::End),
            MapEnd::Leaf { key: found, value } => {
                if !is_below(found) {
                    return Err(MapError::End);
                }
                let own = (found == key).then_some(*value);
                (map_leaf(found, value), own)
            }
            MapEnd::Node {
                bit,
                prefix: begins,
                left,
                right,
            } => {
                let is_lower = lowest.is_none_or(|step| step.bit < *bit);
                let differs = prefix(key, *bit) != *begins;
                if !is_lower || !differs || prefix(begins, *bit) != *begins || !is_below(begins) {
                    return Err(MapError::End);
                }
                (map_node(*bit, begins, left, right), None)
            }
        };
        if climb(key, hash, &self.path)? != *root {
            return Err(MapError::Root);
        }
        Ok(value)
    }
}

/// Checks that the map with this root has exactly this value for a key.
///
/// # Errors
/// [`MapError`] if the path does not show that.
pub fn verify_value(
    root: &Hash,
    key: &Hash,
    value: &MapValue,
    path: &[MapStep],
) -> Result<(), MapError> {
    match climb(key, map_leaf(key, value), path)? == *root {
        true => Ok(()),
        false => Err(MapError::Root),
    }
}

/// The root above the node with this hash at the end of a key's path.
fn climb(key: &Hash, end: Hash, path: &[MapStep]) -> Result<Hash, MapError> {
    if !path.is_sorted_by(|lower, upper| lower.bit > upper.bit) {
        return Err(MapError::Order);
    }
    Ok(path.iter().fold(end, |hash, step| {
        let (left, right) = match bit_of(key, step.bit) {
            false => (&hash, &step.hash),
            true => (&step.hash, &hash),
        };
        map_node(step.bit, key, left, right)
    }))
}

/// Why a path proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum MapError {
    /// The bits of its nodes do not descend.
    Order,
    /// Its end does not fit its nodes or the key.
    End,
    /// It leads to another root.
    Root,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Order => "the path's nodes are not in order, from the leaf to the root",
            Self::End => "the end of the path does not fit its nodes or the key",
            Self::Root => "the path does not lead to the map's root",
        })
    }
}

impl std::error::Error for MapError {}

#[cfg(test)]
mod tests;
