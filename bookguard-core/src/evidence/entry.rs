//! An entry of the log as stored: the leaf, and the values that open its commitment.

use serde_json::{Map, Value};

use super::facts::{Fact, LeafPlace, Logged};
use crate::ledger::event::{EventError, field_digest};
use crate::ledger::{Disclosure, EventBody, Leaf, LeafKind, leaf_hash};
use crate::model::{BookingId, Timestamp};

/// An entry of the log and the values that open its commitment, all as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    /// Position in the log.
    pub index: u64,
    /// The entry's booking; absent if the fact is about the log itself.
    pub booking_id: Option<BookingId>,
    /// Position in the booking's chain.
    pub seq: u64,
    /// The exact leaf bytes.
    pub leaf: Vec<u8>,
    /// What happened: the name of the leaf's kind.
    pub kind: String,
    /// The commitment's salt.
    pub salt: [u8; 32],
    /// The fact's members, sorted by name.
    pub disclosures: Vec<Disclosure>,
}

impl StoredEntry {
    /// The event body that the leaf commits to, computed from the fact's members.
    ///
    /// # Errors
    /// A value that canonical JSON cannot represent.
    pub fn event_body(&self) -> Result<EventBody, EventError> {
        let digests = (self.disclosures.iter())
            .map(|d| Ok((d.name.clone(), field_digest(&d.name, &d.value, &d.salt)?)));
        let sd = digests.collect::<Result<_, EventError>>()?;
        Ok(EventBody {
            kind: self.kind.clone(),
            sd,
        })
    }

    /// The stored fact, whether or not the leaf commits to it.
    ///
    /// # Errors
    /// Why the fact cannot be read, in a sentence.
    pub fn fact(&self) -> Result<Logged<Fact>, String> {
        let leaf = Leaf::parse(&self.leaf).map_err(|e| e.to_string())?;
        let place = LeafPlace {
            index: self.index,
            hash: leaf_hash(&self.leaf),
            at: Timestamp::from_ms(leaf.t),
        };
        let kind: LeafKind = self.kind.parse().map_err(|e: EventError| e.to_string())?;
        Ok(Logged {
            place,
            fact: Fact::read(kind, members(&self.disclosures))?,
        })
    }
}

/// The members of a fact by name.
pub fn members(disclosures: &[Disclosure]) -> Map<String, Value> {
    let members = disclosures.iter();
    members.map(|d| (d.name.clone(), d.value.clone())).collect()
}
