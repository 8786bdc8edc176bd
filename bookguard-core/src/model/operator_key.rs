//! Keys of the operator, for the operator interface.

use serde::{Deserialize, Serialize};

use super::{OperatorKeyId, Timestamp};

/// An operator key as lists show it: never its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorKey {
    /// The key's id.
    pub operator_key_id: OperatorKeyId,
    /// The name it was given.
    pub name: String,
    /// The last four characters of the secret, to tell keys apart.
    pub hint: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}
