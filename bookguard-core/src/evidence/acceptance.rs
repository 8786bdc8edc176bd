//! An acceptance of a booking's terms as the ledger records it: the members of `terms.accepted`.
//!
//! It identifies the text by its hash; the text itself is recomputed from the terms in force. The network address and the
//! program may be personal data.

use serde::{Deserialize, Serialize};

use crate::model::{BookingId, Timestamp};
use crate::policy::Actor;

/// A party's acceptance of the terms exactly as they were disclosed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct Acceptance {
    /// The booking.
    pub booking_id: BookingId,
    /// When the acceptance was received.
    pub accepted_at: Timestamp,
    /// Who accepted: organizer, talent or partner.
    pub party: Actor,
    /// How, in the partner's words, such as `checkbox`.
    pub method: String,
    /// When the party accepted, according to the partner.
    pub at: Timestamp,
    /// The network address it came from; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub ip: Option<String>,
    /// The program used; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub user_agent: Option<String>,
    /// The hash of the text that was accepted.
    pub disclosure_hash: String,
    /// The version of that text's wording.
    pub disclosure_version: String,
}
