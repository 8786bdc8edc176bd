//! A cancellation request: what the ledger records of it and what its evaluation is computed from.

use serde::{Deserialize, Serialize};

use super::question::{Mode, Question};
use super::words::{Actor, Reason};
use crate::model::{Amount, BookingId, Timestamp, digest};

/// A booking's cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancellation {
    /// The booking.
    pub booking_id: BookingId,
    /// When the cancellation was received.
    pub canceled_at: Timestamp,
    /// Who cancels.
    pub canceled_by: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// A free-text note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The instant from which the cancellation counts, if not its receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_at: Option<Timestamp>,
    /// The refund both sides agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed_refund: Option<Amount>,
    /// The documents named for it, unless they were erased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<NamedDocument>,
    /// How many documents were named, if any. Cancellations recorded before documents could be erased do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_count: Option<u32>,
}

/// A document offered as evidence. The service keeps its digest, never the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedDocument {
    /// What it is, in the partner's words, such as `notice`.
    pub kind: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// `sha256:` and the hex digest of its bytes.
    #[serde(deserialize_with = "digest::read")]
    pub sha256: String,
}

impl NamedDocument {
    /// Makes the item of a document with these bytes.
    pub fn of(kind: &str, name: Option<&str>, bytes: &[u8]) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.map(str::to_owned),
            media_type: None,
            sha256: digest::of(bytes),
        }
    }
}

impl Cancellation {
    /// How many documents were named for it.
    pub fn documents(&self) -> usize {
        let counted = self.evidence_count.map(|count| count as usize);
        counted.unwrap_or(self.evidence.len())
    }

    /// Whether the documents that it still names are as many as it counts.
    pub fn is_counted(&self) -> bool {
        self.evidence_count != Some(0)
            && (self.evidence.is_empty() || self.evidence.len() == self.documents())
    }

    /// The question to the policy.
    pub fn question(&self) -> Question {
        Question {
            mode: Mode::Cancel,
            actor: self.canceled_by,
            reason: self.reason,
            at: self.effective_at,
            received_at: self.canceled_at,
            evidence: self.documents(),
            agreed_refund: self.agreed_refund,
        }
    }
}
