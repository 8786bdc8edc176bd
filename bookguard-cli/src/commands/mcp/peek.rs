//! The parts of a message that `mcp` itself needs. Anything malformed is left to the server.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members of a message that this bridge needs, each read on its own. The server reads the rest.
#[derive(Default)]
pub(super) struct MessagePeek {
    /// Its id, null included.
    pub(super) id: Option<Box<RawValue>>,
    pub(super) method: Option<String>,
    pub(super) params: Params,
    /// Whether it is an answer; no request was made, so it is ignored.
    pub(super) is_answer: bool,
}

/// The members of a message, not yet read.
#[derive(Default, Deserialize)]
struct Members {
    #[serde(default, deserialize_with = "given")]
    id: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    method: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    result: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    error: Option<Box<RawValue>>,
}

/// Reads a member that is present, whatever its value.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    <Box<RawValue>>::deserialize(deserializer).map(Some)
}

impl MessagePeek {
    pub(super) fn at(line: &[u8]) -> Self {
        let members: Members = serde_json::from_slice(line).unwrap_or_default();
        let answered = members.result.or(members.error).is_some();
        Self {
            is_answer: answered && members.method.is_none(),
            method: read(members.method),
            params: read(members.params).unwrap_or_default(),
            id: members.id,
        }
    }

    /// Whether it must not be answered: a notification (JSON-RPC 2.0, section 4.1) or an answer.
    pub(super) fn wants_nothing(&self) -> bool {
        self.is_answer || self.id.is_none() && self.method.is_some()
    }

    /// Its id; null if it has none.
    pub(super) fn id_value(&self) -> Value {
        let id = self.id.as_deref();
        id.and_then(|id| serde_json::from_str(id.get()).ok())
            .unwrap_or_default()
    }

    /// The id of the request that it cancels.
    pub(super) fn canceled(&self) -> Option<&Value> {
        let is_notification = self.method.as_deref() == Some("notifications/cancelled");
        let id = self.params.request_id.as_ref();
        id.filter(|_| is_notification && self.id.is_none())
    }

    pub(super) fn waits(&self) -> bool {
        let arguments = self.params.arguments.as_ref();
        self.method.as_deref() == Some("tools/call")
            && arguments.is_some_and(|arguments| arguments.wait.is_some())
    }
}

/// Reads a member; `None` if it is missing or has another type.
fn read<T: DeserializeOwned>(member: Option<Box<RawValue>>) -> Option<T> {
    serde_json::from_str(member?.get()).ok()
}

#[derive(Default, Deserialize)]
pub(super) struct Params {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) uri: Option<String>,
    #[serde(default, rename = "_meta")]
    pub(super) meta: Option<Meta>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
    #[serde(default, rename = "requestId")]
    request_id: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Arguments {
    #[serde(default)]
    pub(super) wait: Option<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct Meta {
    #[serde(default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) revision: Option<String>,
}
