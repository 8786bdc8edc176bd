//! Entry bundles: up to 256 entries, each behind its length as two big-endian bytes (C2SP tlog-tiles, "Log entries").
//!
//! `leaf` reads the entries. Invariant: a bundle that parses is encoded back to the same bytes.

use std::fmt;

use super::TILE_WIDTH;

/// The longest entry that a bundle can hold, in bytes: the length is written in 16 bits.
pub const MAX_ENTRY_BYTES: usize = u16::MAX as usize;

/// Concatenates entries, each behind its length.
///
/// # Errors
/// [`BundleError::Entry`] for an entry above [`MAX_ENTRY_BYTES`], [`BundleError::Count`] for none or more than 256.
pub fn encode_bundle<'a>(
    entries: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, BundleError> {
    let mut bytes = Vec::new();
    let mut count = 0;
    for entry in entries {
        let length = u16::try_from(entry.len()).map_err(|_| BundleError::Entry { at: count })?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(entry);
        count += 1;
    }
    if count == 0 || count > TILE_WIDTH {
        return Err(BundleError::Count(count));
    }
    Ok(bytes)
}

/// Splits a bundle of exactly `width` entries.
///
/// # Errors
/// [`BundleError::Cut`] if it ends within an entry, [`BundleError::Trailing`] if bytes follow the last entry,
/// [`BundleError::Count`] for a width that no bundle has.
pub fn parse_bundle(bytes: &[u8], width: usize) -> Result<Vec<&[u8]>, BundleError> {
    if width == 0 || width > TILE_WIDTH {
        return Err(BundleError::Count(width));
    }
    let mut entries = Vec::with_capacity(width);
    let mut rest = bytes;
    for at in 0..width {
        let (length, after) = rest
            .split_first_chunk::<2>()
            .ok_or(BundleError::Cut { at })?;
        let (entry, after) = after
            .split_at_checked(usize::from(u16::from_be_bytes(*length)))
            .ok_or(BundleError::Cut { at })?;
        entries.push(entry);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(BundleError::Trailing(rest.len()));
    }
    Ok(entries)
}

/// Why bytes are not an entry bundle, or entries cannot form one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum BundleError {
    /// A bundle has 1 to 256 entries, not this many.
    Count(usize),
    /// The entry at this position is longer than 65 535 bytes.
    Entry {
        /// Position in the bundle, from 0.
        at: usize,
    },
    /// The bundle ends within the entry at this position.
    Cut {
        /// Position in the bundle, from 0.
        at: usize,
    },
    /// This many bytes follow the last entry.
    Trailing(usize),
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "an entry bundle has 1 to 256 entries, not {count}"),
            Self::Entry { at } => {
                write!(
                    f,
                    "entry {at} of the bundle exceeds {MAX_ENTRY_BYTES} bytes"
                )
            }
            Self::Cut { at } => write!(f, "the entry bundle ends within entry {at}"),
            Self::Trailing(bytes) => {
                write!(f, "{bytes} bytes follow the last entry of the bundle")
            }
        }
    }
}

impl std::error::Error for BundleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_taken_apart_into_the_entries_it_was_made_of() {
        let long = vec![7; MAX_ENTRY_BYTES];
        let entries: [&[u8]; 3] = [b"one", b"", &long];
        let bundle = encode_bundle(entries).unwrap();
        assert_eq!(&bundle[..7], b"\0\x03one\0\0");
        assert_eq!(parse_bundle(&bundle, 3).unwrap(), entries);
    }

    #[test]
    fn a_bundle_cut_short_or_carrying_more_is_refused() {
        let bundle = encode_bundle([b"one".as_slice(), b"two"]).unwrap();
        for length in 0..bundle.len() {
            let at = usize::from(length >= 5);
            assert_eq!(
                parse_bundle(&bundle[..length], 2),
                Err(BundleError::Cut { at })
            );
        }
        assert_eq!(parse_bundle(&bundle, 1), Err(BundleError::Trailing(5)));
        assert_eq!(parse_bundle(&bundle, 3), Err(BundleError::Cut { at: 2 }));
        for width in [0, 257] {
            assert_eq!(parse_bundle(&bundle, width), Err(BundleError::Count(width)));
        }
    }

    #[test]
    fn entries_that_no_bundle_can_carry_are_refused() {
        let long = vec![0; MAX_ENTRY_BYTES + 1];
        assert_eq!(
            encode_bundle([b"".as_slice(), &long]),
            Err(BundleError::Entry { at: 1 })
        );
        assert_eq!(encode_bundle([]), Err(BundleError::Count(0)));
        assert_eq!(
            encode_bundle(std::iter::repeat_n(b"x".as_slice(), 257)),
            Err(BundleError::Count(257))
        );
    }
}
