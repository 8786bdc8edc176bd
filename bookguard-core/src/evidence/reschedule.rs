//! `booking.rescheduled`: a booking's event was moved to another date, and its terms were compiled anew.
//!
//! The fact states what applies from then on, and what was reached before. Earlier facts state what applied until then;
//! none is revoked.

use serde::{Deserialize, Serialize};

use super::frozen::FrozenTerms;
use crate::model::{Booking, Timestamp};
use crate::policy::{Actor, PastReschedule, Policy, Terms};

/// A move of a booking's event to another date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RescheduleFact {
    /// When the change was received.
    pub rescheduled_at: Timestamp,
    /// When the event starts from now on.
    pub event_date: Timestamp,
    /// The booking's IANA zone from now on; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Who agreed, in the vocabulary's order.
    pub agreed_by: Vec<Actor>,
    /// When it was agreed on, if not at receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What had been reached under the former terms.
    pub former: PastReschedule,
    /// The terms from now on.
    pub terms: FrozenTerms,
}

impl RescheduleFact {
    /// When it was agreed on.
    pub fn agreed_at(&self) -> Timestamp {
        self.at.unwrap_or(self.rescheduled_at)
    }

    /// The version of the terms from now on.
    pub fn terms_version(&self) -> TermsVersion {
        TermsVersion {
            since: self.rescheduled_at,
            event_date: self.event_date,
            time_zone: self.time_zone.clone(),
            terms: self.terms.clone(),
        }
    }
}

/// The terms in force from the booking's recording, or from a change of date, until the next change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermsVersion {
    /// When they came into force.
    pub since: Timestamp,
    /// When the event starts.
    pub event_date: Timestamp,
    /// The booking's IANA zone, if one was given.
    pub time_zone: Option<String>,
    /// The terms, with the hash of their policy.
    pub terms: FrozenTerms,
}

impl TermsVersion {
    /// The terms in full, of a booking in any state. `policy` is the one they name by hash.
    ///
    /// # Errors
    /// Those of [`FrozenTerms::thaw`].
    pub fn thaw(&self, booking: &Booking, policy: Option<Policy>) -> Result<Terms, String> {
        let booking = Booking {
            event_date: self.event_date,
            time_zone: self.time_zone.clone(),
            ..booking.clone()
        };
        self.terms.clone().thaw(&booking, policy)
    }
}
