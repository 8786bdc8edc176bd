//! C2SP tlog-proof: a text that proves an entry to be in a log, without asking the log.
//!
//! `proof` does the mathematics, `checkpoint` the signature. Invariant: [`TlogProof::parse`] accepts exactly what `Display`
//! writes. No signature covers the extra data, so nothing may be concluded from it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::checkpoint::{Checkpoint, CheckpointError, decimal};
use super::hash::{Hash, leaf_hash};
use super::note::{MAX_NOTE_BYTES, VerifierKey};
use super::proof::{MAX_PATH, ProofError, verify_inclusion};

/// The first line: format and version.
const HEADER: &str = "c2sp.org/tlog-proof@v1";
/// Maximum extra data that is read, in bytes.
pub const MAX_EXTRA_BYTES: usize = 64 * 1024;
/// The longest proof that is read, in bytes: header, index and path are under 4 kB.
const MAX_PROOF_BYTES: usize = 4096 + MAX_EXTRA_BYTES / 3 * 4 + MAX_NOTE_BYTES;

/// An inclusion proof with the signed head it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlogProof {
    /// Unauthenticated data of the application; this program's proofs have none.
    pub extra: Option<Vec<u8>>,
    /// Position of the entry in the log, from 0.
    pub index: u64,
    /// The leaf's sibling first, the root's child last.
    pub path: Vec<Hash>,
    /// The signed head, verbatim.
    pub checkpoint: String,
}

impl TlogProof {
    /// Reads the text form. This proves nothing yet: see [`TlogProof::verify`].
    ///
    /// # Errors
    /// [`TlogProofError::Form`] with the broken rule.
    pub fn parse(text: &str) -> Result<Self, TlogProofError> {
        use TlogProofError::Form;
        if text.len() > MAX_PROOF_BYTES {
            return Err(Form("it is too long"));
        }
        let (header, mut rest) = line(text)?;
        if header != HEADER {
            return Err(Form("its first line is not c2sp.org/tlog-proof@v1"));
        }
        let mut current;
        (current, rest) = line(rest)?;
        let mut extra = None;
        if let Some(data) = current.strip_prefix("extra ") {
            let data = STANDARD.decode(data).ok();
            let bounded = data.filter(|data| (1..=MAX_EXTRA_BYTES).contains(&data.len()));
            extra = Some(bounded.ok_or(Form("its extra data is not bounded, padded base64"))?);
            (current, rest) = line(rest)?;
        }
        let index = current
            .strip_prefix("index ")
            .and_then(decimal)
            .ok_or(Form(
                "its index is not a decimal number without sign and leading zeros",
            ))?;
        let mut path = Vec::new();
        loop {
            (current, rest) = line(rest)?;
            if current.is_empty() {
                break;
            }
            if path.len() == MAX_PATH {
                return Err(Form("it has more hashes than any tree is high"));
            }
            path.push(Hash::from_base64(current).map_err(|_| {
                Form("one of its hashes is not the padded base64 of exactly 32 bytes")
            })?);
        }
        if rest.is_empty() {
            return Err(Form("it has no checkpoint"));
        }
        Ok(Self {
            extra,
            index,
            path,
            checkpoint: rest.to_owned(),
        })
    }

    /// The head that the proof leads to, whoever signed it. This proves nothing.
    ///
    /// # Errors
    /// [`CheckpointError::Text`] with the rule that it breaks.
    pub fn claimed_head(&self) -> Result<Checkpoint, CheckpointError> {
        let end = self.checkpoint.rfind("\n\n").map_or(0, |end| end + 1);
        Checkpoint::parse(&self.checkpoint[..end])
    }

    /// Checks that exactly these bytes are entry [`TlogProof::index`] of the log with this key, and returns the head that
    /// proves it. Ignores the extra data.
    ///
    /// # Errors
    /// [`TlogProofError::Checkpoint`] if the head is not signed by the key, [`TlogProofError::Inclusion`] if the entry is
    /// not under it.
    pub fn verify(&self, entry: &[u8], key: &VerifierKey) -> Result<Checkpoint, TlogProofError> {
        let head = Checkpoint::open(&self.checkpoint, key).map_err(TlogProofError::Checkpoint)?;
        let leaf = leaf_hash(entry);
        verify_inclusion(&leaf, self.index, head.size, &self.path, &head.root)
            .map_err(TlogProofError::Inclusion)?;
        Ok(head)
    }
}

impl fmt::Display for TlogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        if let Some(extra) = self.extra.as_ref().filter(|extra| !extra.is_empty()) {
            writeln!(f, "extra {}", STANDARD.encode(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        for hash in &self.path {
            f.write_str(hash.write_base64(&mut [0; 44]))?;
            f.write_str("\n")?;
        }
        f.write_str("\n")?;
        f.write_str(&self.checkpoint)
    }
}

impl FromStr for TlogProof {
    type Err = TlogProofError;

    fn from_str(text: &str) -> Result<Self, TlogProofError> {
        Self::parse(text)
    }
}

/// The next line without its newline, and the rest.
fn line(text: &str) -> Result<(&str, &str), TlogProofError> {
    text.split_once('\n')
        .ok_or(TlogProofError::Form("it ends within a line"))
}

/// Why a proof is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum TlogProofError {
    /// Not the text of a proof: it breaks this rule.
    Form(&'static str),
    /// The head in it does not verify.
    Checkpoint(CheckpointError),
    /// The entry is not at that position under that head.
    Inclusion(ProofError),
}

impl fmt::Display for TlogProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(rule) => write!(f, "this is not a ledger proof: {rule}"),
            Self::Checkpoint(error) => write!(f, "the ledger proof does not verify: {error}"),
            Self::Inclusion(error) => {
                write!(f, "the ledger proof is not about this entry: {error}")
            }
        }
    }
}

impl std::error::Error for TlogProofError {}

#[cfg(test)]
mod tests;
