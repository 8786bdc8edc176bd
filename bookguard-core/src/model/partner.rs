//! A partner: a booking platform that uses the service.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PartnerId, Timestamp, vocabulary};

vocabulary! {
    /// Whether a partner may use the service. It is `pending` until the operator approves it, and then `active`. It is `suspended` while
    /// the operator suspends it, and for good once its contract has ended. `approved` is reserved: no partner has it.
    PartnerStatus {
        /// Registered; waits for the administrator.
        Pending = "pending",
        /// Approved; has no key yet.
        Approved = "approved",
        /// Has had a key.
        Active = "active",
        /// Suspended by the operator: its keys only read.
        Suspended = "suspended",
    }
}

vocabulary! {
    /// Whether a partner that registered has its key already.
    RegistrationStatus {
        /// Waits for the operator's approval.
        Pending = "pending",
        /// Has its first key.
        Active = "active",
    }
}

/// A partner as `GET /v1/partners/me` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Partner {
    /// The partner's id.
    pub partner_id: PartnerId,
    /// Company or platform name.
    pub name: String,
    /// Free text, such as "marketplace".
    pub business_type: String,
    /// Primary contact.
    pub contact_email: String,
    /// The partner's site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website: Option<String>,
    /// The partner's status.
    pub status: PartnerStatus,
    /// When it registered.
    pub created_at: Timestamp,
    /// When the end of its contract began: since then, nothing more is recorded for it. Absent while the contract goes on, and if
    /// version 0.1.0 ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_ended_at: Option<Timestamp>,
    /// The partner's settings for its bookings.
    #[serde(flatten)]
    pub settings: PartnerSettings,
}

impl Partner {
    /// What is left of the record when all personal data is erased. No other record has such a contact, because it is not an address.
    #[must_use]
    pub fn erased(&self) -> Self {
        Self {
            name: "erased".to_owned(),
            business_type: "erased".to_owned(),
            contact_email: "erased".to_owned(),
            website: None,
            ..self.clone()
        }
    }

    /// Whether its record is erased, which is the last step of the end of its contract.
    pub fn is_erased(&self) -> bool {
        *self == self.erased()
    }

    /// Whether its contract has ended. Its personal data may still be there.
    pub fn is_ended(&self) -> bool {
        self.contract_ended_at.is_some() || self.is_erased()
    }
}

/// A partner's settings for bookings that do not specify them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct PartnerSettings {
    /// The policy of a booking that chooses none: event type → policy id. Event types are in lower case, with words joined
    /// by `_`; `*` stands for all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_policies: BTreeMap<String, String>,
    /// The IANA time zone of events if neither the booking nor its policy names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}
