//! Evidence items: what a partner adds to a booking's evidence, such as a contract, a message or a payment.
//!
//! The ledger records the partner's statement and, if there is a file, its digest. Whether the service stores the file is
//! not part of the fact: the file can be sent later, or kept elsewhere, and still has this digest.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{Amount, BookingId, ItemId, Timestamp, digest, vocabulary};
use crate::policy::Actor;

vocabulary! {
    /// What an evidence item is.
    ItemKind {
        /// An agreement that a party signed or accepted.
        Contract = "contract",
        /// A message between the parties.
        Message = "message",
        /// A photo or a recording.
        Photo = "photo",
        /// Someone arrived, or the service was rendered.
        CheckIn = "check_in",
        /// A payment by the organizer.
        Payment = "payment",
        /// A refund that was paid to the organizer.
        Refund = "refund",
        /// Anything else.
        Other = "other",
    }
}

/// An evidence item as the ledger records it: the members of `evidence.added`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct EvidenceItem {
    /// The item's id.
    pub item_id: ItemId,
    /// The booking.
    pub booking_id: BookingId,
    /// When it was received.
    pub added_at: Timestamp,
    /// What it is.
    pub kind: ItemKind,
    /// Its title, in the partner's words.
    pub title: String,
    /// When it was made or happened, according to the partner; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Whom it comes from, according to the partner; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<Actor>,
    /// The amount paid or returned; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// What others know it by, such as the number of a payment; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// A note by the partner; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// `sha256:` and the hex digest of its file; absent without a file.
    #[serde(
        default,
        deserialize_with = "digest::read_given",
        skip_serializing_if = "Option::is_none"
    )]
    pub sha256: Option<String>,
}
