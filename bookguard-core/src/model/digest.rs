//! The text of a SHA-256: `sha256:` and 64 hex digits in lower case.

use serde::de::{Deserialize as _, Deserializer, Error as _};

/// Whether the text is that of a SHA-256.
pub(crate) fn is_digest(text: &str) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = text.strip_prefix("sha256:");
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_digit))
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
