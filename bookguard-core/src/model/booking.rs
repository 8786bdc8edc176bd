//! A booking and its states.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Amount, AmountError, BookingId, Currency, Decimal, PartnerId, ResolutionId, Timestamp,
    vocabulary,
};

vocabulary! {
    /// The status of a booking: `created → protected → canceled` or `created → canceled`.
    BookingStatus {
        /// Recorded.
        Created = "created",
        /// Locked into the ledger with its frozen terms.
        Protected = "protected",
        /// Canceled, with a resolution.
        Canceled = "canceled",
    }
}

/// The talent or the organizer, identified by the partner's own id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Party {
    /// The partner's own id for them.
    pub id: String,
    /// Their name.
    pub name: String,
}

/// The policy that applies to a booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct PolicySummary {
    /// The policy's id.
    pub policy_id: String,
    /// Its version.
    pub version: u32,
    /// `sha256:` + hex of its canonical text.
    pub policy_hash: String,
    /// Where it came from: `booking` (written on it), `named` (by its `policyId`), `partner_default_for_event_type`, `partner_default` or
    /// `library`.
    pub policy_source: String,
}

/// A booking as `GET /v1/bookings/{bookingId}` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Booking {
    /// The booking's id.
    pub booking_id: BookingId,
    /// The partner that owns it.
    pub partner_id: PartnerId,
    /// The performer, or whatever else is booked.
    pub talent: Party,
    /// Who books.
    pub organizer: Party,
    /// Free text, such as "concert".
    pub event_type: String,
    /// When the event starts.
    pub event_date: Timestamp,
    /// The event's IANA time zone, if the partner gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The total value, a decimal number of `currency`.
    pub booking_value: Decimal,
    /// The amount paid so far, if the partner gave it; otherwise the whole value counts as paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_paid: Option<Decimal>,
    /// ISO 4217 code.
    pub currency: Currency,
    /// The booking's status.
    pub status: BookingStatus,
    /// True once the booking was protected, also after a cancellation.
    pub protected: bool,
    /// When it was protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_at: Option<Timestamp>,
    /// When its event was last moved to another date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescheduled_at: Option<Timestamp>,
    /// When it was canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canceled_at: Option<Timestamp>,
    /// The latest resolution, once the booking is canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_id: Option<ResolutionId>,
    /// The policy that applies to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySummary>,
    /// The partner's own key-value pairs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// When it was recorded.
    pub created_at: Timestamp,
}

impl Booking {
    /// The value as an amount.
    pub fn value(&self) -> Option<Amount> {
        self.amount(&self.booking_value).ok()
    }

    /// The value, and what counts as paid of it.
    ///
    /// # Errors
    /// Which of the two is not an amount of the currency, and why: the end of a sentence that says what the booking has.
    pub(crate) fn sums(&self) -> Result<(Amount, Amount), String> {
        let sum = |name: &str, number: &Decimal| {
            let amount = self.amount(number);
            amount.map_err(|why| format!("{name} ({}) that {}", self.currency, why.rule()))
        };
        let value = sum("bookingValue", &self.booking_value)?;
        let paid = (self.amount_paid.as_ref()).map_or(Ok(value), |paid| sum("amountPaid", paid))?;
        Ok((value, paid))
    }

    fn amount(&self, number: &Decimal) -> Result<Amount, AmountError> {
        Amount::parse(&number.to_string(), self.currency)
    }
}
