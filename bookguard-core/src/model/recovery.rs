//! Recoveries: events of a period that are delivered again, and how far that is.
//!
//! The rule in `features/recoveries` decides what to do about each event. Invariant: what was asked for never changes, and numbers only grow.

use serde::{Deserialize, Serialize};

use super::{DeliveryStatus, EndpointId, EventId, RecoveryId, Timestamp};
use crate::limits::EVENT_ORDER_MS;

/// The statuses in which an event can be recovered: what was delivered has arrived, and what is pending is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Enum))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", oai(rename_all = "snake_case"))]
pub enum Unreceived {
    /// A delivery's last attempt failed, whether or not automatic attempts remain.
    Failed,
    /// No endpoint took it when it happened.
    NoEndpoints,
}

impl Unreceived {
    /// All of them with their words.
    pub const WORDS: [(&'static str, Self); 2] = [
        (DeliveryStatus::Failed.word(), Self::Failed),
        (DeliveryStatus::NoEndpoints.word(), Self::NoEndpoints),
    ];

    /// The status, if events can be recovered in it.
    pub fn of(status: DeliveryStatus) -> Option<Self> {
        match status {
            DeliveryStatus::Failed => Some(Self::Failed),
            DeliveryStatus::NoEndpoints => Some(Self::NoEndpoints),
            DeliveryStatus::Pending | DeliveryStatus::Delivered => None,
        }
    }
}

/// Where a recovery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Enum))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", oai(rename_all = "snake_case"))]
pub enum RecoveryStatus {
    /// There are events it has not looked at.
    Running,
    /// It has looked at all; what it made due is being delivered, or was.
    Finished,
}

/// A recovery of events: what was asked for, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct Recovery {
    /// The recovery's id.
    pub recovery_id: RecoveryId,
    /// Where it stands.
    pub status: RecoveryStatus,
    /// True when it only counts what it would do.
    pub dry_run: bool,
    /// Events that happened then or later.
    pub since: Timestamp,
    /// Events that happened then or earlier.
    pub until: Timestamp,
    /// The status an event must have.
    pub statuses: Vec<Unreceived>,
    /// Only deliveries to this endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub endpoint_id: Option<EndpointId>,
    /// It examines events with a greater `seq` than this.
    pub after_seq: u64,
    /// And up to this one: the partner's latest when the recovery was requested.
    pub through_seq: u64,
    /// The `seq` of the last event it has examined.
    pub reached_seq: u64,
    /// Events of the period that it has examined, in any status.
    pub examined: u64,
    /// How many of these are delivered again.
    pub recovered: u64,
    /// Deliveries of these events, over all endpoints.
    pub deliveries: u64,
    /// Events in one of the statuses that no endpoint takes now, or that already went to as many endpoints as an event may.
    pub no_endpoints: u64,
    /// Events in one of the statuses whose payload was deleted because they are old: there is nothing left to send.
    pub expired: u64,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it had examined everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub finished_at: Option<Timestamp>,
}

impl Recovery {
    /// The same before it looked at anything.
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

    /// The same, over since `at`.
    #[must_use]
    pub fn finished(self, at: Timestamp) -> Self {
        Self {
            status: RecoveryStatus::Finished,
            finished_at: Some(at),
            ..self
        }
    }

    /// Whether the event is of the time that was asked for.
    pub fn covers(&self, event_id: &EventId) -> bool {
        (self.since..=self.until).contains(&event_id.made_at())
    }

    /// Whether neither this event nor any after it can be of that time.
    pub fn is_past(&self, event_id: &EventId) -> bool {
        event_id.made_at() > self.until.plus_ms(EVENT_ORDER_MS)
    }
}
