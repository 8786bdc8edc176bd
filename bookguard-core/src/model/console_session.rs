//! Sessions of the console, and the links that begin one.

use serde::{Deserialize, Serialize};

use super::{ApiKeyId, ConsoleSessionId, OperatorKeyId, Scopes, Timestamp};

/// A session of the console, or a link that begins one and that nobody has opened yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct ConsoleSession {
    /// The session's id, which its link has too.
    pub console_session_id: ConsoleSessionId,
    /// The API key with which it acts. It ends when that key stops working.
    pub api_key_id: ApiKeyId,
    /// Whom the link was made for. Absent if somebody signed in with the key itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// When the link was made, or the session without one.
    pub created_at: Timestamp,
    /// When the session began. Absent if the link was not opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// From then on it opens nothing: the link until it is opened, the session afterwards.
    pub expires_at: Timestamp,
    /// When it was ended before it expired, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl ConsoleSession {
    /// Whether it opens anything at `now`, if its key does.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }
}

/// A session of the operator's console, or a link that begins one and that nobody has opened yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct OperatorSession {
    /// The session's id, which its link has too.
    pub console_session_id: ConsoleSessionId,
    /// The operator key with which it acts. It ends when that key is revoked.
    pub operator_key_id: OperatorKeyId,
    /// Whom the link was made for. Absent if somebody signed in with the key itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// When the link was made, or the session without one.
    pub created_at: Timestamp,
    /// When the session began. Absent if the link was not opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// From then on it opens nothing: the link until it is opened, the session afterwards.
    pub expires_at: Timestamp,
    /// When it was ended before it expired, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl OperatorSession {
    /// Whether it opens anything at `now`, if its key does.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }
}
