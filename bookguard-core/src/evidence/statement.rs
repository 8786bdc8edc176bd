//! What the ledger key signs of a packet: its digest, and how far the booking's chain reached in the log.
//!
//! The statement stands in a C2SP signed note, so it can be kept and compared without the packet: two statements about one
//! booking that cannot both be true prove that one packet left something out. Invariant: the same packet has the same
//! statement, however its JSON is formatted.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::packet::{Packet, SIGNATURE};
use crate::ledger::hash::Hash;
use crate::ledger::jcs::CanonicalText;
use crate::ledger::leaf::bytes_of;
use crate::ledger::{TlogProof, VerifierKey, leaf_hash};

/// First line of every statement.
const STATEMENT_TYPE: &str = "bookguard.packet/1";

/// The signed statement of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct SignedStatement {
    /// SHA-256 of the packet's RFC 8785 text without the member `signature`.
    pub digest: [u8; 32],
    /// The booking's random stream id in the ledger.
    pub stream: [u8; 16],
    /// The number of the booking's entries.
    pub count: u64,
    /// The leaf hash of the last of them.
    pub head: Hash,
    /// The number of entries in the whole log.
    pub log_size: u64,
}

/// Writes the text of the note.
impl fmt::Display for SignedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{STATEMENT_TYPE}")?;
        writeln!(f, "{}", STANDARD.encode(self.digest))?;
        writeln!(f, "{}", URL_SAFE_NO_PAD.encode(self.stream))?;
        writeln!(f, "{}\n{}\n{}", self.count, self.head, self.log_size)
    }
}

impl SignedStatement {
    /// The statement of a packet with this digest. Whether the log's head is signed is another check.
    ///
    /// # Errors
    /// What cannot be read or is not signed, in a sentence.
    pub(super) fn of(packet: &Packet, digest: [u8; 32]) -> Result<Self, String> {
        let last = packet.entries.last().ok_or("The packet has no entries.")?;
        let leaf = STANDARD
            .decode(&last.leaf)
            .map_err(|_| "The last entry's leaf is not valid base64.")?;
        let proof = TlogProof::parse(&last.proof)
            .map_err(|e| format!("The last entry's proof cannot be read: {e}."))?;
        let log = proof
            .claimed_head()
            .map_err(|e| format!("The last entry's proof leads to no state of the log: {e}."))?;
        Ok(Self {
            digest,
            stream: bytes_of(&packet.stream).ok_or("The packet's stream is not 16 bytes.")?,
            count: packet.entries.len() as u64,
            head: leaf_hash(&leaf),
            log_size: log.size,
        })
    }

    /// Reads the statement of a note that `key` signed.
    ///
    /// # Errors
    /// Why it is not such a note, in a sentence.
    pub fn open(note: &str, key: &VerifierKey) -> Result<Self, String> {
        let text = key.open(note).map_err(|e| e.to_string())?;
        let statement = Self::parse(text).ok_or("the note is not the statement of a packet")?;
        // Signatures of other keys prove nothing here, so there must be none: text, empty line, one signature.
        let signatures = note.get(text.len() + 1..).unwrap_or_default();
        match signatures.lines().count() {
            1 => Ok(statement),
            _ => Err("the note carries more than one signature".to_owned()),
        }
    }

    /// Reads the text of a note, in the only spelling there is.
    fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let [STATEMENT_TYPE, digest, own, count, head, log_size] = lines[..] else {
            return None;
        };
        let statement = Self {
            digest: STANDARD.decode(digest).ok()?.try_into().ok()?,
            stream: bytes_of(own)?,
            count: count.parse().ok()?,
            head: head.parse().ok()?,
            log_size: log_size.parse().ok()?,
        };
        (statement.to_string() == text).then_some(statement)
    }
}

/// The digest of a packet's content: of all but the member `signature`.
pub(super) fn digest(packet: &CanonicalText) -> [u8; 32] {
    let text = packet.text.as_bytes();
    // Neither the first member nor the last: a comma before it goes with it.
    let (before, after) = match packet.member(SIGNATURE) {
        Some(whole) => (&text[..whole.start - 1], &text[whole.end..]),
        None => (text, &[][..]),
    };
    let digest = Sha256::new().chain_update(before).chain_update(after);
    digest.finalize().into()
}
