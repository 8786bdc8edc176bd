//! `booking.rescheduled`: a booking's event was moved to another date, and its terms were compiled anew.
//!
//! The fact says what applies from then on, and what was reached before. Former facts say what applied until then; none is
//! taken back.

use serde::{Deserialize, Serialize};

use super::facts::Tell;
use super::frozen::FrozenTerms;
use crate::model::{Booking, Timestamp};
use crate::policy::{Actor, PastReschedule, Policy, Terms};

/// A booking's event was moved to another date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RescheduleFact {
    /// When the change was received.
    pub rescheduled_at: Timestamp,
    /// When the event starts from now on.
    pub event_date: Timestamp,
    /// The booking's IANA zone from now on; absent while nobody named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Who agreed, in the order of the vocabulary.
    pub agreed_by: Vec<Actor>,
    /// The instant it was agreed on, when that is not its receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What had been reached under the terms until now.
    pub former: PastReschedule,
    /// The terms from now on.
    pub terms: FrozenTerms,
}

impl RescheduleFact {
    /// When it was agreed on.
    pub fn agreed_at(&self) -> Timestamp {
        self.at.unwrap_or(self.rescheduled_at)
    }

    /// What the booking is under from now on.
    pub fn terms_version(&self) -> TermsVersion {
        TermsVersion {
            since: self.rescheduled_at,
            event_date: self.event_date,
            time_zone: self.time_zone.clone(),
            terms: self.terms.clone(),
        }
    }
}

impl Tell for RescheduleFact {
    fn happened_at(&self) -> Timestamp {
        self.rescheduled_at
    }

    fn told(&self) -> String {
        "The event was moved to another date, as both sides agreed: the terms were fixed anew."
            .to_owned()
    }
}

/// What a booking is under from its recording, or from a change of date, until the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermsVersion {
    /// Since when.
    pub since: Timestamp,
    /// When the event starts.
    pub event_date: Timestamp,
    /// The booking's IANA zone, when it was named.
    pub time_zone: Option<String>,
    /// The terms, with the hash of their policy.
    pub terms: FrozenTerms,
}

impl TermsVersion {
    /// The terms in full, of a booking at any stage. `policy` is the one they name by hash.
    ///
    /// # Errors
    /// As [`FrozenTerms::thaw`].
    pub fn thaw(&self, booking: &Booking, policy: Option<Policy>) -> Result<Terms, String> {
        let booking = Booking {
            event_date: self.event_date,
            time_zone: self.time_zone.clone(),
            ..booking.clone()
        };
        self.terms.clone().thaw(&booking, policy)
    }
}
