//! Legal holds: while one is active, nothing of its booking is erased or pruned.
//!
//! A hold is in no ledger entry and in no packet: whoever is given evidence of a booking must not learn that its partner expects a
//! dispute. Who placed and released it, and when, is in its own document and in the audit.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{BookingId, HoldId, PartnerId, Timestamp, vocabulary};

/// A legal hold on a booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The hold's id.
    pub hold_id: HoldId,
    /// The booking that it keeps from erasure.
    pub booking_id: BookingId,
    /// When it was placed.
    pub placed_at: Timestamp,
    /// Who placed it. Only the operator releases what the operator placed.
    pub placed_by: HeldBy,
    /// Why.
    pub reason: String,
    /// What others know the matter by, such as the number of a case; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// When it was released; absent while it is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Timestamp>,
}

vocabulary! {
    /// Who placed a hold.
    HeldBy {
        /// The booking's partner.
        Partner = "partner",
        /// The service's operator.
        Operator = "operator",
    }
}

/// A hold as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHold {
    /// The booking's owner.
    pub partner_id: PartnerId,
    /// The hold.
    pub hold: Hold,
}

impl Hold {
    /// Whether it keeps its booking from being erased.
    pub fn is_active(&self) -> bool {
        self.released_at.is_none()
    }
}
