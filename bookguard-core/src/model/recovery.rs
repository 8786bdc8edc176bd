//! Recoveries: events of a period that are delivered again, and the progress of that.
//!
//! The rule in `features/recoveries` decides what to do about each event. Invariant: the request never changes, and counts
//! only grow.

use serde::{Deserialize, Serialize};

use super::{DeliveryStatus, EndpointId, EventId, RecoveryId, Timestamp};
use crate::limits::EVENT_ORDER_MS;

/// The statuses in which an event can be recovered. A delivered event has arrived, and a pending one is still being delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "snake_case")]
pub enum Unreceived {
    /// A delivery's last attempt failed, whether or not automatic attempts remain.
    Failed,
    /// No endpoint took the event when it happened.
    NoEndpoints,
}

impl Unreceived {
    /// All statuses with their names.
    pub const WORDS: [(&'static str, Self); 2] = [
        (DeliveryStatus::Failed.word(), Self::Failed),
        (DeliveryStatus::NoEndpoints.word(), Self::NoEndpoints),
    ];

    /// The status, if events with it can be recovered.
    pub fn of(status: DeliveryStatus) -> Option<Self> {
        match status {
            DeliveryStatus::Failed => Some(Self::Failed),
            DeliveryStatus::NoEndpoints => Some(Self::NoEndpoints),
            DeliveryStatus::Pending | DeliveryStatus::Delivered => None,
        }
    }
}

/// The status of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "snake_case")]
pub enum RecoveryStatus {
    /// Some events are not examined yet.
    Running,
    /// All events are examined; their deliveries are made or still in progress.
    Finished,
}

/// A recovery of events: the request, and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// The recovery's id.
    pub recovery_id: RecoveryId,
    /// The recovery's status.
    pub status: RecoveryStatus,
    /// True if it only counts and delivers nothing.
    pub dry_run: bool,
    /// Only events that happened at this time or later.
    pub since: Timestamp,
    /// Only events that happened at this time or earlier.
    pub until: Timestamp,
    /// The status an event must have.
    pub statuses: Vec<Unreceived>,
    /// Only deliveries to this endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_id: Option<EndpointId>,
    /// Only events with a greater `seq` are examined.
    pub after_seq: u64,
    /// The last `seq` to examine: the partner's latest when the recovery was requested.
    pub through_seq: u64,
    /// The `seq` of the last event examined.
    pub reached_seq: u64,
    /// Events of the period that were examined, in any status.
    pub examined: u64,
    /// How many of these are delivered again.
    pub recovered: u64,
    /// Deliveries of these events, over all endpoints.
    pub deliveries: u64,
    /// Events in one of the statuses that no endpoint takes now, that already went to the maximum number of endpoints, or whose deliveries were
    /// attempted 500 times, the most allowed.
    pub no_endpoints: u64,
    /// Events in one of the statuses whose payload is deleted, because it was too old or the booking's data were erased: there is nothing left to send.
    pub expired: u64,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When everything was examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

impl Recovery {
    /// The same recovery before it examined anything.
    #[must_use]
    pub fn unbegun(self) -> Self {
        Self {
            status: RecoveryStatus::Running,
            reached_seq: self.after_seq,
            examined: 0,
            recovered: 0,
            deliveries: 0,
            no_endpoints: 0,
            expired: 0,
            finished_at: None,
            ..self
        }
    }

    /// The same recovery, finished at `at`.
    #[must_use]
    pub fn finished(self, at: Timestamp) -> Self {
        Self {
            status: RecoveryStatus::Finished,
            finished_at: Some(at),
            ..self
        }
    }

    /// Whether the event happened in the requested period.
    pub fn covers(&self, event_id: &EventId) -> bool {
        (self.since..=self.until).contains(&event_id.made_at())
    }

    /// Whether neither this event nor any later one can be in the period.
    pub fn is_past(&self, event_id: &EventId) -> bool {
        event_id.made_at() > self.until.plus_ms(EVENT_ORDER_MS)
    }
}
