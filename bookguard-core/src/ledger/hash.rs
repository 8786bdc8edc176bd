//! RFC 6962 hashing and the text forms of a hash.
//!
//! Other modules define which bytes form a leaf and how hashes form a tree. Invariant: a [`struct@Hash`] has 32 bytes and
//! one spelling in each text form; every parser here refuses all others.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// Bytes in a SHA-256 hash.
pub const HASH_BYTES: usize = 32;

/// Root of the tree without leaves: SHA-256 of nothing (RFC 6962 §2.1).
pub const EMPTY_ROOT: Hash = Hash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// A SHA-256 hash of a leaf, a node or a tree. Displayed and parsed as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; HASH_BYTES]);

impl Hash {
    /// Thirty-two zero bytes: the predecessor of a first leaf.
    pub const ZERO: Self = Self([0; HASH_BYTES]);

    /// SHA-256 of these bytes as they are. Leaves and nodes are hashed otherwise: [`leaf_hash`], [`node_hash`].
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; HASH_BYTES] {
        &self.0
    }

    /// Standard base64 with padding, 44 characters: the form in checkpoints and proofs.
    #[must_use]
    pub fn to_base64(&self) -> String {
        self.write_base64(&mut [0; 44]).to_owned()
    }

    /// As [`Hash::to_base64`], into `room`.
    pub(super) fn write_base64<'a>(&self, room: &'a mut [u8; 44]) -> &'a str {
        let written = STANDARD.encode_slice(self.0, room.as_mut_slice());
        written.expect("44 characters hold 32 bytes in base64");
        std::str::from_utf8(room).expect("base64 is ASCII")
    }

    /// As it is displayed, into `room`.
    fn write_hex<'a>(&self, room: &'a mut [u8; 2 * HASH_BYTES]) -> &'a str {
        hex::encode_to_slice(self.0, room).expect("64 characters hold 32 bytes in hex");
        std::str::from_utf8(room).expect("hex digits are ASCII")
    }

    /// Reads the form that [`Hash::to_base64`] writes, and only that.
    ///
    /// # Errors
    /// [`HashError::Base64`] for anything else: other alphabets, missing padding, stray bits, another length.
    pub fn from_base64(text: &str) -> Result<Self, HashError> {
        // A longer text cannot be 32 bytes; refusing it first avoids decoding a hostile megabyte.
        if text.len() != 44 {
            return Err(HashError::Base64);
        }
        let mut bytes = [0; HASH_BYTES];
        match STANDARD.decode_slice(text, &mut bytes) {
            Ok(HASH_BYTES) => Ok(Self(bytes)),
            _ => Err(HashError::Base64),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.write_hex(&mut [0; 2 * HASH_BYTES]))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        let mut bytes = [0; HASH_BYTES];
        // Without a branch per digit: which digits follow cannot be predicted, and a packet has a hash in every entry.
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let [high, low] = [pair[0], pair[1]].map(|digit| (digit & 0xf) + 9 * (digit >> 6));
            *byte = (high << 4) | low;
        }
        // Anything but the one spelling is read as a hash with another.
        let read = Self(bytes);
        (read.write_hex(&mut [0; 2 * HASH_BYTES]) == text)
            .then_some(read)
            .ok_or(HashError::Hex)
    }
}

impl serde::Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl TryFrom<&[u8]> for Hash {
    type Error = HashError;

    fn try_from(bytes: &[u8]) -> Result<Self, HashError> {
        <[u8; HASH_BYTES]>::try_from(bytes)
            .map(Self)
            .map_err(|_| HashError::Length(bytes.len()))
    }
}

/// Why a value is not a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum HashError {
    /// Not exactly 64 lower-case hex digits.
    Hex,
    /// Not the padded standard base64 of exactly 32 bytes.
    Base64,
    /// Not 32 bytes but this number.
    Length(usize),
}

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hex => f.write_str("a hash is written as exactly 64 lower-case hex digits"),
            Self::Base64 => {
                f.write_str("a hash is written as the padded standard base64 of exactly 32 bytes")
            }
            Self::Length(found) => write!(f, "a hash has exactly 32 bytes, not {found}"),
        }
    }
}

impl std::error::Error for HashError {}

/// The hash of an entry in the tree: SHA-256(0x00 ‖ entry), RFC 6962 §2.1.
#[must_use]
pub fn leaf_hash(entry: &[u8]) -> Hash {
    let digest = Sha256::new().chain_update([0x00]).chain_update(entry);
    Hash(digest.finalize().into())
}

/// The hash of an inner node: SHA-256(0x01 ‖ left ‖ right), RFC 6962 §2.1.
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut block = [0x01; 1 + 2 * HASH_BYTES];
    block[1..=HASH_BYTES].copy_from_slice(&left.0);
    block[1 + HASH_BYTES..].copy_from_slice(&right.0);
    Hash(Sha256::digest(block).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_root_is_the_hash_of_nothing() {
        assert_eq!(EMPTY_ROOT, Hash(Sha256::digest([]).into()));
    }

    #[test]
    fn both_text_forms_come_back_as_the_same_hash() {
        let hash = leaf_hash(b"entry");
        assert_eq!(hash.to_string().parse::<Hash>(), Ok(hash));
        assert_eq!(Hash::from_base64(&hash.to_base64()), Ok(hash));
        assert_eq!(Hash::try_from(hash.as_bytes().as_slice()), Ok(hash));
    }

    #[test]
    fn a_hash_of_another_length_or_spelling_is_refused() {
        let hex = EMPTY_ROOT.to_string();
        for bad in [
            "",
            &hex[1..],
            &format!("{hex}0"),
            &format!("{hex} "),
            &hex.to_uppercase(),
        ] {
            assert_eq!(bad.parse::<Hash>(), Err(HashError::Hex), "{bad:?}");
        }
        for last in (0..=0x7f).map(char::from) {
            let text = format!("{}{last}", &hex[1..]);
            let spelled = text.parse::<Hash>().map(|hash| hash.to_string());
            let expected = match last {
                '0'..='9' | 'a'..='f' => Ok(text),
                _ => Err(HashError::Hex),
            };
            assert_eq!(spelled, expected, "{last:?}");
        }
        let text = EMPTY_ROOT.to_base64();
        let stray_bits = text.replace("U=", "V=");
        assert_ne!(stray_bits, text);
        for bad in [
            "",
            text.trim_end_matches('='),
            &format!("{text}\n"),
            &text.replace('+', "-").replace('/', "_"),
            &stray_bits,
            &STANDARD.encode([7; 31]),
            &STANDARD.encode([7; 33]),
        ] {
            assert_eq!(Hash::from_base64(bad), Err(HashError::Base64), "{bad:?}");
        }
        for length in [0, 31, 33] {
            let bytes = vec![1; length];
            assert_eq!(
                Hash::try_from(bytes.as_slice()),
                Err(HashError::Length(length))
            );
        }
    }
}
