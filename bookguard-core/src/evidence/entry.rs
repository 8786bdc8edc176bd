//! An entry of the log as it is kept: the leaf, and what its commitment opens to.

use crate::ledger::event::{EventError, field_digest};
use crate::ledger::{Disclosure, EventBody};
use crate::model::BookingId;

/// An entry of the log with what its commitment opens to, all as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    /// Position in the log.
    pub index: u64,
    /// Whose booking; of none when the fact is the log's own.
    pub booking_id: Option<BookingId>,
    /// Position in the booking's chain.
    pub seq: u64,
    /// The exact leaf bytes.
    pub leaf: Vec<u8>,
    /// What happened, in the words of a leaf's kind.
    pub kind: String,
    /// The commitment's salt.
    pub salt: [u8; 32],
    /// The fields.
    pub disclosures: Vec<Disclosure>,
}

impl StoredEntry {
    /// The event body the leaf commits to, computed from the fields.
    ///
    /// # Errors
    /// A value canonical JSON cannot keep.
    pub fn event_body(&self) -> Result<EventBody, EventError> {
        let digests = (self.disclosures.iter())
            .map(|d| Ok((d.name.clone(), field_digest(&d.name, &d.value, &d.salt)?)));
        let sd = digests.collect::<Result<_, EventError>>()?;
        Ok(EventBody {
            kind: self.kind.clone(),
            sd,
        })
    }
}
