//! The text of a SHA-256: `sha256:` and 64 hex digits in lower case.

use serde::de::{Deserialize as _, Deserializer, Error as _};
use sha2::{Digest as _, Sha256};

/// The text of the SHA-256 of these bytes.
pub(crate) fn of(bytes: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Whether the text is that of a SHA-256.
pub(crate) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(is_hex)
}

/// Whether the text is 32 bytes as hex digits in lower case.
pub(crate) fn is_hex(digits: &str) -> bool {
    digits.len() == 64
        && digits
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a member that is such a text.
pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    match is_digest(&text) {
        true => Ok(text),
        false => Err(D::Error::custom("a digest is not a SHA-256")),
    }
}

/// As [`read`], of a member that may be absent.
pub(crate) fn read_given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    read(from).map(Some)
}
