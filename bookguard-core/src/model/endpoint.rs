//! A webhook endpoint: where a partner receives its events.

use serde::{Deserialize, Serialize};

use super::{EndpointId, EventType, Timestamp};

/// An endpoint as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub struct Endpoint {
    /// The endpoint's id.
    pub endpoint_id: EndpointId,
    /// Where events are posted.
    pub url: String,
    /// The types it receives; all of them when empty.
    pub events: Vec<EventType>,
    /// The partner's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", oai(skip_serializing_if_is_none))]
    pub description: Option<String>,
    /// False after a receiver answered 410 Gone.
    pub enabled: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Endpoint {
    /// Whether an event of this type goes to this endpoint.
    pub fn takes(&self, event_type: EventType) -> bool {
        self.enabled && (self.events.is_empty() || self.events.contains(&event_type))
    }
}
