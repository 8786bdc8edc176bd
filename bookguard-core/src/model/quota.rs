//! How much a partner may store, and how much it has stored.
//!
//! Only additions are ever refused. The counts are in the partner's row, which the writer loads anyway, and can be
//! recounted from the rows they count.

use serde::{Deserialize, Serialize};

use super::{Partner, Timestamp};
use crate::limits::{
    DAY_MS, ENDPOINTS_PER_PARTNER, QUOTA_BOOKINGS, QUOTA_BYTES, QUOTA_EVENTS_PER_DAY,
    QUOTA_FILE_BYTES,
};

/// A partner's quota as an operator sets it: 0 means no limit, and an absent member is left to another quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// Bookings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bookings: Option<u64>,
    /// Bytes of its bookings: record and terms, as stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Events per day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_per_day: Option<u64>,
    /// Webhook endpoints, up to [`ENDPOINTS_PER_PARTNER`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<u64>,
    /// Bytes of stored files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
}

impl Quota {
    /// The default where an operator sets nothing.
    pub const GENEROUS: Self = Self {
        bookings: Some(QUOTA_BOOKINGS),
        bytes: Some(QUOTA_BYTES),
        events_per_day: Some(QUOTA_EVENTS_PER_DAY),
        endpoints: Some(ENDPOINTS_PER_PARTNER as u64),
        file_bytes: Some(QUOTA_FILE_BYTES),
    };

    /// This quota, with its absent members taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            bookings: self.bookings.or(other.bookings),
            bytes: self.bytes.or(other.bytes),
            events_per_day: self.events_per_day.or(other.events_per_day),
            endpoints: self.endpoints.or(other.endpoints),
            file_bytes: self.file_bytes.or(other.file_bytes),
        }
    }
}

/// Changes of a partner's own quota. Absent members stay; `Some(None)` restores the service's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaChanges {
    /// Bookings.
    pub bookings: Option<Option<u64>>,
    /// Bytes of its bookings.
    pub bytes: Option<Option<u64>>,
    /// Events per day.
    pub events_per_day: Option<Option<u64>>,
    /// Webhook endpoints.
    pub endpoints: Option<Option<u64>>,
    /// Bytes of stored files.
    pub file_bytes: Option<Option<u64>>,
}

impl QuotaChanges {
    /// The quota after these changes.
    #[must_use]
    pub fn applied_to(&self, quota: Quota) -> Quota {
        Quota {
            bookings: self.bookings.unwrap_or(quota.bookings),
            bytes: self.bytes.unwrap_or(quota.bytes),
            events_per_day: self.events_per_day.unwrap_or(quota.events_per_day),
            endpoints: self.endpoints.unwrap_or(quota.endpoints),
            file_bytes: self.file_bytes.unwrap_or(quota.file_bytes),
        }
    }
}

/// What a partner has stored so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bookings.
    pub bookings: u64,
    /// Bytes of their records and terms.
    pub bytes: u64,
    /// The day on which its events were last counted, in days since the epoch. It goes back by no single day: an event from a
    /// node whose clock is behind counts on the current day.
    pub day: u64,
    /// Events on that day.
    pub day_events: u64,
    /// Bytes of its stored files.
    pub file_bytes: u64,
}

impl Usage {
    /// Counts an event.
    pub fn count_event(&mut self, at: Timestamp) {
        let today = self.counted_on(at);
        if today != self.day {
            self.day = today;
            self.day_events = 0;
        }
        self.day_events += 1;
    }

    /// The day on which an event at `at` counts. A day further ahead than the next comes from a clock that was wrong, and must
    /// not keep what is counted until then.
    fn counted_on(&self, at: Timestamp) -> u64 {
        let day = day(at);
        if self.day == day + 1 { self.day } else { day }
    }

    /// Events on the day of `at`, and when that day ends.
    #[must_use]
    pub fn events_on_day(&self, at: Timestamp) -> (u64, Timestamp) {
        let today = self.counted_on(at);
        let events = if today == self.day {
            self.day_events
        } else {
            0
        };
        (events, day_begins(today + 1))
    }
}

/// The day of an instant, in days since the epoch.
#[must_use]
pub fn day(at: Timestamp) -> u64 {
    u64::try_from(at.ms() / DAY_MS).unwrap_or(0)
}

/// When a day begins.
#[must_use]
pub fn day_begins(day: u64) -> Timestamp {
    let day = i64::try_from(day).unwrap_or(i64::MAX);
    Timestamp::from_ms(day.saturating_mul(DAY_MS))
}

/// A partner and how much of its quota it has used, as `GET /v1/partners/me` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct PartnerAccount {
    /// The partner.
    #[serde(flatten)]
    pub partner: Partner,
    /// The partner's quota and usage.
    pub quota: QuotaReport,
}

/// A partner's quota and usage. Beyond the quota, only additions are refused: existing bookings can always be protected and
/// canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct QuotaReport {
    /// Bookings recorded.
    pub bookings: QuotaUse,
    /// Bytes of these bookings: record and terms, as stored.
    pub bytes: QuotaUse,
    /// Events since the day began, in UTC.
    pub events_per_day: QuotaUse,
    /// Webhook endpoints.
    pub endpoints: QuotaUse,
    /// Bytes of stored files.
    pub file_bytes: QuotaUse,
}

/// One part of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct QuotaUse {
    /// How much is used.
    pub used: u64,
    /// How much is allowed; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl QuotaUse {
    /// Whether this much more would exceed the limit.
    #[must_use]
    pub fn refuses(&self, more: u64) -> bool {
        self.limit
            .is_some_and(|limit| self.used.saturating_add(more) > limit)
    }
}

impl QuotaReport {
    /// A partner's limits under `quota`, and its usage at `at`.
    #[must_use]
    pub fn of(quota: Quota, usage: &Usage, endpoints: u64, at: Timestamp) -> Self {
        let part = |used, said: Option<u64>| QuotaUse {
            used,
            limit: said.filter(|limit| *limit > 0),
        };
        // The rest of the service is not built for more endpoints than that.
        let most = ENDPOINTS_PER_PARTNER as u64;
        let said = quota.endpoints.filter(|limit| (1..most).contains(limit));
        Self {
            bookings: part(usage.bookings, quota.bookings),
            bytes: part(usage.bytes, quota.bytes),
            events_per_day: part(usage.events_on_day(at).0, quota.events_per_day),
            endpoints: part(endpoints, said.or(Some(most))),
            file_bytes: part(usage.file_bytes, quota.file_bytes),
        }
    }
}
