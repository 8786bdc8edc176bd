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
    /// When it ended before it expired, if it did: by request, or with its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl ConsoleSession {
    /// Whether it opens anything at `now`, if its key does.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }

    /// Ends it with its key, which stopped working then, unless it was over before.
    pub fn end_with(&mut self, key_stopped_at: Option<Timestamp>) {
        self.ended_at = ended(self.ended_at, key_stopped_at, self.expires_at);
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
    /// When it ended before it expired, if it did: by request, or with its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl OperatorSession {
    /// Whether it opens anything at `now`, if its key does.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.expires_at
    }

    /// Ends it with its key, which stopped working then, unless it was over before.
    pub fn end_with(&mut self, key_stopped_at: Option<Timestamp>) {
        self.ended_at = ended(self.ended_at, key_stopped_at, self.expires_at);
    }
}

fn ended(
    ended_at: Option<Timestamp>,
    key_stopped_at: Option<Timestamp>,
    expires_at: Timestamp,
) -> Option<Timestamp> {
    ended_at.or(key_stopped_at.filter(|at| *at < expires_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ApiKey;

    #[test]
    fn a_session_ends_with_its_key_unless_it_was_over_before() {
        let at = |ms: Option<i64>| ms.map(Timestamp::from_ms);
        for (ended_at, revoked_at, key_expires_at, expected) in [
            (None, None, None, None),
            (None, Some(10), None, Some(10)),
            (None, None, Some(20), Some(20)),
            (None, Some(30), Some(20), Some(20)),
            (Some(5), Some(10), None, Some(5)),
            // Not yet, and too late.
            (None, None, Some(61), None),
            (None, Some(50), None, None),
        ] {
            let key = ApiKey {
                api_key_id: ApiKeyId::from_bytes([1; 16]),
                name: "key".to_owned(),
                scopes: Scopes::all(),
                hint: "abcd".to_owned(),
                created_at: Timestamp::from_ms(0),
                expires_at: at(key_expires_at),
                last_used_at: None,
                revoked_at: at(revoked_at),
            };
            let stopped_at = key.stopped_at(Timestamp::from_ms(60));
            assert_eq!(
                ended(at(ended_at), stopped_at, Timestamp::from_ms(50)),
                at(expected),
                "{key:?}"
            );
        }
    }
}
