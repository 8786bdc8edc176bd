//! A webhook endpoint: where a partner receives its events.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{EndpointId, EventType, PartnerId, Timestamp, vocabulary};
use crate::limits::MOVED_MS;

vocabulary! {
    /// The status of an endpoint.
    EndpointStatus {
        /// It receives events.
        Active = "active",
        /// It receives events, but ten or more attempts have failed in a row.
        Failing = "failing",
        /// All attempts have failed for five days: its deliveries wait, and now and then one probes whether it is back.
        Suspended = "suspended",
        /// The partner disabled it: it gets no new events, and its waiting deliveries keep waiting.
        Disabled = "disabled",
        /// Its receiver answered 410 Gone; it is treated as disabled.
        Gone = "gone",
    }
}

impl EndpointStatus {
    /// Whether new events are delivered to it.
    pub fn takes_events(self) -> bool {
        match self {
            Self::Active | Self::Failing | Self::Suspended => true,
            Self::Disabled | Self::Gone => false,
        }
    }
}

/// The health of an endpoint: the state that its deliveries change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointHealth {
    /// The endpoint's status.
    pub status: EndpointStatus,
    /// Attempts in a row that failed.
    pub failures: u32,
    /// When the first of them was made.
    pub failing_since: Option<Timestamp>,
    /// When the next single delivery may be tried, while it is suspended or unverified.
    pub probe_at: Option<Timestamp>,
    /// Since when deliveries go to its address without one having been accepted; `None` once it is verified.
    pub unverified_since: Option<Timestamp>,
}

impl EndpointHealth {
    /// The health of a verified endpoint with this status and no recent failures.
    pub fn of(status: EndpointStatus) -> Self {
        Self {
            status,
            failures: 0,
            failing_since: None,
            probe_at: None,
            unverified_since: None,
        }
    }

    /// Whether it gets one delivery at a time, each claimed from the store when it may be tried.
    pub fn is_on_probation(&self) -> bool {
        self.status == EndpointStatus::Suspended || self.unverified_since.is_some()
    }
}

/// An endpoint as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The endpoint's id.
    pub endpoint_id: EndpointId,
    /// The partner that owns it, when the operator lists the endpoints of all partners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner_id: Option<PartnerId>,
    /// The address to which events are posted.
    pub url: String,
    /// The event types it receives; empty means booking.created, booking.protected and resolution.created.
    pub events: Vec<EventType>,
    /// The partner's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Maximum deliveries begun per second, on each node; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_second: Option<u32>,
    /// Whether it has its own signing secret; otherwise, the partner's secret signs its deliveries.
    pub own_secret: bool,
    /// Whether it gets new events: false after it was disabled or its receiver answered 410 Gone.
    pub enabled: bool,
    /// The status, including why it is disabled if it is.
    pub status: EndpointStatus,
    /// Attempts that failed in a row; 0 if the last one succeeded, and while the endpoint is disabled.
    pub failures: u32,
    /// When the first of them was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// When a single delivery is tried again at a suspended endpoint, or at an unverified one that failed, was tested, or was added
    /// soon after another was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_probe_at: Option<Timestamp>,
    /// When deliveries to this address began, while none has been accepted; after a change of address, when every node
    /// knows it. Until one is accepted, the endpoint gets one delivery at a time, at most six a minute. Absent once it is
    /// verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified_since: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its address was last changed. Absent if it never was, or only by a version before this member existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_at: Option<Timestamp>,
}

impl Endpoint {
    /// Whether an event of this type goes to this endpoint.
    pub fn takes(&self, event_type: EventType) -> bool {
        self.enabled && self.subscribes(event_type)
    }

    /// Whether it subscribes to events of this type, enabled or not.
    pub fn subscribes(&self, event_type: EventType) -> bool {
        event_type.is_received_by(&self.events)
    }

    /// Whether its address changed after a delivery was leased at `leased`, and nothing has been accepted there yet.
    pub fn has_moved_since(&self, leased: Timestamp) -> bool {
        self.unverified_since
            .is_some_and(|since| leased.ms() < since.ms() - MOVED_MS)
    }

    /// Its health.
    pub fn health(&self) -> EndpointHealth {
        EndpointHealth {
            status: self.status,
            failures: self.failures,
            failing_since: self.failing_since,
            probe_at: self.next_probe_at,
            unverified_since: self.unverified_since,
        }
    }

    /// The same endpoint with another health.
    #[must_use]
    pub fn with_health(self, health: EndpointHealth) -> Self {
        Self {
            enabled: health.status.takes_events(),
            status: health.status,
            failures: health.failures,
            failing_since: health.failing_since,
            next_probe_at: health.probe_at,
            unverified_since: health.unverified_since,
            ..self
        }
    }
}
