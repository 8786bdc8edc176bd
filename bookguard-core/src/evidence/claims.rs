//! What parties other than the service say about a packet: the authorities that stamped the ledger, and the witnesses
//! that cosigned it.
//!
//! It is read as the packet holds it, for people. Nothing here is checked: [`verify`](super::verify()) does that, and is
//! told whom to trust.

use sha2::{Digest as _, Sha256};

use super::packet::Packet;
use super::verify::decode;
use crate::input::cut;
use crate::ledger::{Checkpoint, TlogProof, cosignature};
use crate::model::Timestamp;
use crate::text;

/// Characters of a name in a certificate.
const NAME_CHARS: usize = 100;

/// A time-stamp over the ledger, as it states itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StampClaim {
    /// The name in the certificate that it is signed with; empty if there is none.
    pub authority: String,
    /// The time that it states.
    pub at: Timestamp,
    /// Entries of the ledger that it covers.
    pub size: u64,
    /// How many of those entries are records of the packet.
    pub records: usize,
}

/// A witness's cosignature of the state of the ledger that proves the records, as it states itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosignatureClaim {
    /// The witness's name.
    pub witness: String,
    /// The id of its key: 8 hex digits.
    pub key_id: String,
    /// When it cosigned.
    pub at: Timestamp,
}

impl Packet {
    /// The packet's time-stamps, the first and its renewals, without those that cannot be read or do not stamp the
    /// checkpoint beside them.
    #[must_use]
    pub fn stamp_claims(&self) -> Vec<StampClaim> {
        let indexes: Vec<u64> = (self.entries.iter())
            .filter_map(|entry| TlogProof::parse(&entry.proof).ok())
            .map(|proof| proof.index)
            .collect();
        let read = self.timestamps.iter().filter_map(|stamp| {
            let claim = bookguard_time::read(&decode(&stamp.response)?).ok()?;
            let text = &stamp.checkpoint[..=stamp.checkpoint.rfind("\n\n")?];
            let head = Checkpoint::parse(text).ok()?;
            let imprint: [u8; 32] = Sha256::digest(text).into();
            (claim.imprint == imprint).then(|| StampClaim {
                authority: legible(&claim.authority),
                at: Timestamp::from_ms(claim.time),
                size: head.size,
                records: indexes.iter().filter(|&&index| index < head.size).count(),
            })
        });
        read.collect()
    }

    /// The cosignatures of the state of the ledger that proves the records.
    #[must_use]
    pub fn cosignature_claims(&self) -> Vec<CosignatureClaim> {
        let proof = (self.entries.first()).and_then(|entry| TlogProof::parse(&entry.proof).ok());
        let lines = proof.map_or_else(Vec::new, |proof| cosignature::lines(&proof.checkpoint));
        let claim = |(witness, id, seconds): (String, [u8; 4], u64)| CosignatureClaim {
            witness: legible(&witness),
            key_id: hex::encode(id),
            at: Timestamp::from_seconds(seconds.try_into().unwrap_or(i64::MAX)),
        };
        lines.into_iter().map(claim).collect()
    }

    /// Entries of the ledger in the state that proves the records.
    #[must_use]
    pub fn ledger_size(&self) -> Option<u64> {
        let proof = TlogProof::parse(&self.entries.first()?.proof).ok()?;
        Some(proof.claimed_head().ok()?.size)
    }
}

/// A name that somebody else chose, without characters that show nothing or turn around what stands beside them.
fn legible(name: &str) -> String {
    let shown = |c| if text::is_invisible(c) { '\u{fffd}' } else { c };
    cut(&name.chars().map(shown).collect::<String>(), NAME_CHARS)
}
