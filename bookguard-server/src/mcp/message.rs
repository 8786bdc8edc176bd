//! Parses one JSON-RPC 2.0 message and checks it before it is passed on.
//!
//! The protocol's crate tries one type after another to read a message, and converts numbers to doubles. So it gets only a
//! small message that is known to be complete, and a tool's arguments bypass it as the text the caller wrote. Invariant: no
//! input makes this module recurse or copy more than once.

use rmcp::model::ErrorCode;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A message from a client.
#[derive(Debug)]
pub(super) enum Message {
    /// A request, which needs an answer.
    Request(Ask),
    /// A notification, which needs none; its text.
    Notification(String),
}

/// A request.
#[derive(Debug)]
pub(super) struct Ask {
    /// Its id, as JSON.
    pub(super) id: String,
    /// The method.
    pub(super) method: String,
    /// The message without a tool's arguments.
    pub(super) text: String,
    /// A tool's arguments, as the text of a JSON object.
    pub(super) arguments: String,
}

/// Why a message cannot be answered.
#[derive(Debug)]
pub(super) struct MessageFault {
    /// The request's id, as JSON, if it could be read.
    pub(super) id: Option<String>,
    /// The JSON-RPC error code.
    pub(super) code: ErrorCode,
    /// A message for people.
    pub(super) message: String,
}

impl MessageFault {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            id: None,
            code,
            message: message.into(),
        }
    }

    /// The JSON-RPC error response.
    pub(super) fn to_json(&self) -> String {
        let id = self.id.as_deref().unwrap_or("null");
        let message = serde_json::Value::from(self.message.as_str());
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{},"message":{message}}}}}"#,
            self.code.0
        )
    }
}

/// The members of a message, each as raw text; a `null` counts as present.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    error: Option<&'a RawValue>,
}

/// The parameters of `tools/call`.
#[derive(Deserialize)]
struct ToolCall<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Deserializes a member that is present, `null` included.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Parses a message.
///
/// # Errors
/// -32700 if the body is not JSON, -32600 if it is not a single JSON-RPC 2.0 message, -32602 if the parameters are not an
/// object, or not those of a tool call.
pub(super) fn read(body: &[u8]) -> Result<Message, MessageFault> {
    let invalid = |message: &str| MessageFault::new(ErrorCode::INVALID_REQUEST, message);
    let text = std::str::from_utf8(body)
        .map_err(|_| MessageFault::new(ErrorCode::PARSE_ERROR, "The message is not UTF-8."))?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|e| {
        MessageFault::new(
            ErrorCode::PARSE_ERROR,
            format!("The message is not JSON: {e}."),
        )
    })?;
    match whole.get().as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') => {
            return Err(invalid(
                "Batches are no longer part of the protocol. Send each message by itself.",
            ));
        }
        _ => return Err(invalid("A message is a JSON object.")),
    }
    let envelope: Envelope<'_> = serde_json::from_str(whole.get())
        .map_err(|e| invalid(&format!("The message cannot be read: {e}.")))?;
    let id = envelope.id.map(RawValue::get);
    if id.is_some_and(|id| !is_id(id)) {
        return Err(invalid(
            "\"id\" is neither a string nor a whole number of 64 bits.",
        ));
    }
    // This server sends no requests, so a response's id is not echoed: the sender may have a request of its own with that id.
    let answers = envelope.method.is_none() && envelope.result.or(envelope.error).is_some();
    let read = read_envelope(whole.get(), &envelope, id);
    read.map_err(|fault| MessageFault {
        id: id.filter(|_| !answers).map(str::to_owned),
        ..fault
    })
}

fn is_id(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(text).is_ok(),
        _ => serde_json::from_str::<i64>(text).is_ok(),
    }
}

fn read_envelope(
    text: &str,
    envelope: &Envelope<'_>,
    id: Option<&str>,
) -> Result<Message, MessageFault> {
    let invalid = |message: &str| MessageFault::new(ErrorCode::INVALID_REQUEST, message);
    let words =
        |raw: Option<&RawValue>| -> Option<String> { serde_json::from_str(raw?.get()).ok() };
    if words(envelope.jsonrpc).as_deref() != Some("2.0") {
        return Err(invalid("\"jsonrpc\" is not \"2.0\"."));
    }
    let method = words(envelope.method).ok_or_else(|| {
        invalid("\"method\" is missing or not a string. This server sends no requests, so it expects no answers.")
    })?;
    let params = envelope.params.map(RawValue::get);
    if params.is_some_and(|params| !params.starts_with('{')) {
        return Err(MessageFault::new(
            ErrorCode::INVALID_PARAMS,
            "\"params\" is not an object.",
        ));
    }
    let Some(id) = id else {
        return Ok(Message::Notification(text.to_owned()));
    };
    let mut ask = Ask {
        id: id.to_owned(),
        method,
        text: text.to_owned(),
        arguments: "{}".to_owned(),
    };
    if ask.method == "tools/call" {
        (ask.text, ask.arguments) = read_call(id, params.unwrap_or("{}"))?;
    }
    Ok(Message::Request(ask))
}

/// Splits a tool call into the message without its arguments, and the arguments.
fn read_call(id: &str, params: &str) -> Result<(String, String), MessageFault> {
    let invalid = |message: String| MessageFault::new(ErrorCode::INVALID_PARAMS, message);
    let call: ToolCall<'_> = serde_json::from_str(params)
        .map_err(|e| invalid(format!("The parameters of tools/call cannot be read: {e}.")))?;
    let arguments = call.arguments.map_or("{}", RawValue::get);
    if !arguments.starts_with('{') {
        return Err(invalid("\"arguments\" is not an object.".to_owned()));
    }
    let name = serde_json::Value::from(call.name);
    let meta = call
        .meta
        .map_or_else(String::new, |meta| format!(r#","_meta":{meta}"#));
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{name}{meta}}}}}"#
    );
    Ok((text, arguments.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> (Option<String>, i32) {
        let fault = read(text.as_bytes()).expect_err(text);
        (fault.id, fault.code.0)
    }

    #[test]
    fn malformed_messages_get_the_protocols_error_code_and_the_id_if_there_is_one() {
        let one = Some("1".to_owned());
        #[rustfmt::skip]
        let cases = [
            ("", None, -32700),
            ("{", None, -32700),
            ("nonsense", None, -32700),
            ("{} {}", None, -32700),
            ("[]", None, -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None, -32600),
            ("7", None, -32600),
            ("null", None, -32600),
            ("{}", None, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None, -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, None, -32600),
            (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, None, -32600),
            (r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#, None, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, one.clone(), -32600),
            (r#"{"id":1,"method":"ping"}"#, one.clone(), -32600),
            (r#"{"jsonrpc":"2.0","id":1}"#, one.clone(), -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, one.clone(), -32600),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, one.clone(), -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#, one.clone(), -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, one.clone(), -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, one.clone(), -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":[]}}"#, one, -32602),
        ];
        for (text, id, code) in cases {
            assert_eq!(fault(text), (id, code), "{text}");
        }
        assert_eq!(read(b"\xff{}").unwrap_err().code.0, -32700);
    }

    #[test]
    fn a_tool_s_arguments_are_the_text_that_was_sent() {
        let sent = r#" {"method":"tools/call","params":{"arguments":{"b":1.10,"a":{"x":1e400}},"name":"t","_meta":{"k":1}},"id":"i","jsonrpc":"2.0"} "#;
        let Message::Request(ask) = read(sent.as_bytes()).unwrap() else {
            panic!("no request")
        };
        assert_eq!(ask.arguments, r#"{"b":1.10,"a":{"x":1e400}}"#);
        assert_eq!(
            (ask.id.as_str(), ask.method.as_str()),
            (r#""i""#, "tools/call")
        );
        assert_eq!(
            ask.text,
            r#"{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":"t","_meta":{"k":1}}}"#
        );
    }

    #[test]
    fn what_is_nested_without_end_is_read_without_a_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"a":{deep}}}}}}}"#
        );
        assert!(matches!(read(text.as_bytes()), Ok(Message::Request(_))));
        assert_eq!(fault(&deep), (None, -32600));
    }

    #[test]
    fn a_notification_is_what_has_no_id() {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(matches!(read(text.as_bytes()), Ok(Message::Notification(sent)) if sent == text));
    }

    #[test]
    fn a_fault_is_itself_a_message() {
        let fault = read(br#"{"jsonrpc":"2.0","id":"\"","method":"x","params":1}"#).unwrap_err();
        let value: serde_json::Value = serde_json::from_str(&fault.to_json()).unwrap();
        assert_eq!(
            (&value["id"], &value["error"]["code"]),
            (&"\"".into(), &(-32602).into())
        );
    }
}
