//! An entry of the log as stored: the leaf, and the values that open its commitment.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::erasure::stand_in;
use super::facts::{Fact, LeafPlace, Logged, members};
use crate::ledger::event::{EventError, Opening};
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
    /// The digests of members that were erased.
    pub erased: BTreeMap<String, [u8; 32]>,
    /// What opens it, as its row holds it.
    pub opening: Opening,
}

impl StoredEntry {
    /// What the entry stores once these values are erased: what opens it, and its fact. Values erased earlier stay erased.
    ///
    /// # Errors
    /// A value that canonical JSON cannot represent.
    pub fn without(&self, names: &[&str]) -> Result<(Opening, String), EventError> {
        let mut members = members(&self.disclosures);
        let left = self.opening.without(names, &members)?;
        let gone = self.erased.keys().map(String::as_str);
        stand_in(gone.chain(names.iter().copied()), &mut members);
        let facts = Value::Object(members).to_string();
        Ok((left, facts))
    }

    /// The event body that the leaf commits to, computed from the fact's members.
    ///
    /// # Errors
    /// A value that canonical JSON cannot represent.
    pub fn event_body(&self) -> Result<EventBody, EventError> {
        let mut body = EventBody::of(&self.kind, &self.disclosures)?;
        body.sd.extend(self.erased.clone());
        Ok(body)
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
            fact: Fact::read(kind, self.shown())?,
        })
    }

    /// The members of the fact, with what stands in for erased ones.
    pub fn shown(&self) -> Map<String, Value> {
        let mut members = members(&self.disclosures);
        stand_in(self.erased.keys().map(String::as_str), &mut members);
        members
    }
}
