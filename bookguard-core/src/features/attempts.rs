//! A delivery attempt as it is shown.

use serde::{Deserialize, Serialize};

use crate::model::{EndpointId, Timestamp};
use crate::webhook::{Attempt, FailureClass, Phase};

/// One attempt to deliver an event to an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct AttemptRecord {
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The address it went to; absent in a test, and in attempts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its number, from 1.
    pub number: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// Whether the receiver accepted the event.
    pub delivered: bool,
    /// How far it got.
    pub phase: Phase,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureClass>,
    /// The failure in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The response's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// The first 1,024 bytes of the response's body, made printable.
    pub response_head: String,
    /// Bytes of the response's body that were read.
    pub response_len: u32,
    /// SHA-256 of those bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_sha256: Option<String>,
}

impl AttemptRecord {
    /// Attempt `number` to deliver something to an endpoint.
    pub fn of(endpoint_id: EndpointId, number: u32, attempt: &Attempt) -> Self {
        Self {
            endpoint_id,
            url: attempt.url.clone(),
            number,
            started_at: Timestamp::from_ms(attempt.started_at),
            duration_ms: attempt.duration_ms,
            delivered: attempt.delivered(),
            phase: attempt.phase,
            error: attempt.class,
            detail: attempt.detail.clone(),
            status_code: attempt.status_code,
            response_head: attempt.response_head.clone(),
            response_len: attempt.response_len,
            response_sha256: attempt.response_sha256.clone(),
        }
    }
}
