//! C2SP tlog-checkpoint: the signed head of a log.
//!
//! `note` signs and checks the envelope. Invariant: an opened checkpoint is a statement of the pinned key about the log
//! with that key's name, and nothing else.

use std::fmt;

use super::hash::{EMPTY_ROOT, Hash};
use super::note::{NoteError, Signer, VerifierKey};

/// A log's statement about itself: its number of entries and its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's name, which is also its key's name.
    pub origin: String,
    /// Entries in the log.
    pub size: u64,
    /// Root of the tree over them.
    pub root: Hash,
}

impl Checkpoint {
    /// The head of the log with this name before its first entry: what is known of a log that was never seen.
    #[must_use]
    pub fn empty(origin: impl Into<String>) -> Self {
        Self {
            origin: origin.into(),
            size: 0,
            root: EMPTY_ROOT,
        }
    }

    /// The text that is signed: origin, size and root, a line each.
    #[must_use]
    pub fn text(&self) -> String {
        let (origin, size, root) = (&self.origin, self.size, self.root.to_base64());
        format!("{origin}\n{size}\n{root}\n")
    }

    /// The signed head of the signer's own log.
    #[must_use]
    pub fn sign(signer: &Signer, size: u64, root: Hash) -> String {
        let origin = signer.name().to_owned();
        signer
            .sign(&Self { origin, size, root }.text())
            .expect("a key name has no control characters, and the text ends in a newline")
    }

    /// Checks a signed head against the pinned key and reads it. Extension lines and signatures of other keys are allowed
    /// and ignored.
    ///
    /// # Errors
    /// [`CheckpointError::Note`] if the signature fails; otherwise the rule that the signed text breaks.
    pub fn open(note: &str, key: &VerifierKey) -> Result<Self, CheckpointError> {
        let checkpoint = Self::parse(key.open(note).map_err(CheckpointError::Note)?)?;
        if checkpoint.origin != key.name() {
            return Err(CheckpointError::Origin {
                found: checkpoint.origin,
                expected: key.name().to_owned(),
            });
        }
        Ok(checkpoint)
    }

    /// Reads the text of a checkpoint. It does not check who signed it: use [`Checkpoint::open`] for that.
    ///
    /// # Errors
    /// [`CheckpointError::Text`] with the broken rule, [`CheckpointError::EmptyRoot`].
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        let lines = text.strip_suffix('\n').map(|text| text.split('\n'));
        let mut lines = lines.ok_or(CheckpointError::Text("its last line is cut"))?;
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(CheckpointError::Text(
                "it has fewer lines than origin, size and root",
            ));
        };
        if origin.is_empty() || lines.any(str::is_empty) {
            return Err(CheckpointError::Text("it has an empty line"));
        }
        let size = decimal(size).ok_or(CheckpointError::Text(
            "its size is not a decimal number without sign and leading zeros",
        ))?;
        let root = Hash::from_base64(root).map_err(|_| {
            CheckpointError::Text("its root is not the padded base64 of exactly 32 bytes")
        })?;
        if size == 0 && root != EMPTY_ROOT {
            return Err(CheckpointError::EmptyRoot);
        }
        Ok(Self {
            origin: origin.to_owned(),
            size,
            root,
        })
    }
}

/// Reads a decimal without sign and leading zeros.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    text.parse().ok().filter(|_| plain && canonical)
}

/// Why a checkpoint is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum CheckpointError {
    /// It is not a note signed by the pinned key.
    Note(NoteError),
    /// It is about a log other than the pinned key's.
    Origin {
        /// The origin in it.
        found: String,
        /// The name of the pinned key.
        expected: String,
    },
    /// Its text breaks this rule of checkpoints.
    Text(&'static str),
    /// It claims no entries, but its root is not SHA-256 of nothing.
    EmptyRoot,
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(error) => write!(f, "the checkpoint does not verify: {error}"),
            Self::Origin { found, expected } => {
                write!(f, "the checkpoint is of the log {found}, not of {expected}")
            }
            Self::Text(rule) => write!(f, "this is not a checkpoint: {rule}"),
            Self::EmptyRoot => f.write_str(
                "this is not a checkpoint: it claims no entries, but its root is not SHA-256 of nothing",
            ),
        }
    }
}

impl std::error::Error for CheckpointError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Frontier, leaf_hash};

    fn vectors() -> serde_json::Value {
        let all: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/vectors/ledger.json")).unwrap();
        all["checkpoint"].clone()
    }

    fn signer() -> Signer {
        Signer::from_seed("example.com/log", &[7; 32]).unwrap()
    }

    #[test]
    fn the_published_checkpoint_is_reproduced_byte_for_byte() {
        let vectors = vectors();
        let note = vectors["note"].as_str().unwrap();
        let key: VerifierKey = vectors["vkey"].as_str().unwrap().parse().unwrap();
        let mut seed = [0; 32];
        hex::decode_to_slice(vectors["seedHex"].as_str().unwrap(), &mut seed).unwrap();
        let signer = Signer::from_seed(key.name(), &seed).unwrap();
        assert_eq!(
            signer.verifier().to_string(),
            vectors["vkey"].as_str().unwrap()
        );

        let mut tree = Frontier::empty();
        for leaf in vectors["leaves"].as_array().unwrap() {
            tree.append(leaf_hash(leaf.as_str().unwrap().as_bytes()));
        }
        assert_eq!(Checkpoint::sign(&signer, tree.size(), tree.root()), note);
        let opened = Checkpoint::open(note, &key).unwrap();
        assert_eq!((opened.size, opened.root), (tree.size(), tree.root()));

        let oracle = tlog_tiles::Checkpoint::from_bytes(opened.text().as_bytes()).unwrap();
        assert_eq!(oracle.origin(), opened.origin);
        assert_eq!(oracle.size(), opened.size);
        assert_eq!(oracle.hash().0, opened.root.0);
    }

    #[test]
    fn a_checkpoint_with_any_bit_flipped_never_verifies() {
        let note = Checkpoint::sign(&signer(), 15, leaf_hash(b"root"));
        for at in 0..note.len() {
            for bit in 0..8 {
                let mut bytes = note.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let Ok(flipped) = String::from_utf8(bytes) else {
                    continue;
                };
                let opened = Checkpoint::open(&flipped, signer().verifier());
                assert!(opened.is_err(), "byte {at} bit {bit}: {flipped:?}");
            }
        }
    }

    #[test]
    fn extension_lines_are_allowed_and_ignored() {
        let root = leaf_hash(b"root").to_base64();
        let note = signer()
            .sign(&format!("example.com/log\n3\n{root}\nmore\neven more\n"))
            .unwrap();
        let opened = Checkpoint::open(&note, signer().verifier()).unwrap();
        assert_eq!((opened.size, opened.root), (3, leaf_hash(b"root")));
    }

    #[test]
    fn a_signed_text_that_is_no_checkpoint_is_refused() {
        let root = leaf_hash(b"root").to_base64();
        for text in [
            "\n".to_owned(),
            "example.com/log\n3\n".to_owned(),
            format!("\n3\n{root}\n"),
            format!("example.com/log\n03\n{root}\n"),
            format!("example.com/log\n+3\n{root}\n"),
            format!("example.com/log\n-3\n{root}\n"),
            format!("example.com/log\n3 \n{root}\n"),
            format!("example.com/log\n\n{root}\n"),
            format!("example.com/log\n18446744073709551616\n{root}\n"),
            format!("example.com/log\n0\n{root}\n"),
            format!("example.com/log\n3\n{}\n", &root[..43]),
            format!("example.com/log\n3\n{root}=\n"),
            format!("example.com/log\n3\n{root}\n\n"),
            format!("example.com/log\n3\n{root}\n\nextension\n"),
        ] {
            let note = signer().sign(&text).unwrap();
            let refused = Checkpoint::open(&note, signer().verifier());
            assert!(
                matches!(
                    refused,
                    Err(CheckpointError::Text(_)
                        | CheckpointError::EmptyRoot
                        | CheckpointError::Note(_))
                ),
                "{text:?}"
            );
        }
    }

    #[test]
    fn the_head_of_a_log_signed_by_another_logs_key_is_refused() {
        let other = Signer::from_seed("example.com/other", &[7; 32]).unwrap();
        let text = Checkpoint::empty("example.com/log").text();
        let refused = Checkpoint::open(&other.sign(&text).unwrap(), other.verifier());
        assert!(matches!(refused, Err(CheckpointError::Origin { .. })));
        let renamed = Checkpoint::open(&signer().sign(&text).unwrap(), other.verifier());
        assert!(matches!(
            renamed,
            Err(CheckpointError::Note(NoteError::Unsigned { .. }))
        ));
    }
}
