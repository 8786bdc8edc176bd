//! `mcp`: the Model Context Protocol on standard input and output, for clients that start a program instead of calling an
//! address.
//!
//! Each line is a message for the same endpoint that a server has: in this process on a database, over HTTP on a server. So
//! there is only one set of tools. Invariants: standard output holds nothing but answers, one per line, each to its own
//! request. No line ends the command: it ends only when the input ends or nobody reads the answers. Calls with `wait` hold
//! up no other message, and end when they are canceled. Nothing else is canceled: a write that was begun is carried out, and
//! its answer says what it did.

mod peek;

use std::io::{self, BufRead, Read as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_server::mcp::local::LocalMcp;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinError, JoinSet, block_in_place};

use self::peek::MessagePeek;
use super::declare::{Call, CliCommand, special};
use crate::failure::Failure;
use crate::output::{print, say};
use crate::target::remote::Remote;
use crate::target::{Purpose, Target};
use crate::text::plain;

/// The longest line in bytes. It is longer than any message a server takes, so that the server itself refuses messages that
/// are too long.
const LINE_BYTES: usize = 8 * 1024 * 1024;
/// Messages being answered at the same time; further lines wait to be read.
const AT_ONCE: usize = 16;
/// How many of them may be calls with `wait`, which can take half a minute each; further ones are refused.
const WAITING: usize = 8;
/// The longest header value in bytes. Longer text is not a tool's name, and the message itself has it.
const HEADER_BYTES: usize = 1024;
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// JSON-RPC 2.0: the message is not a valid request.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC 2.0: the request was valid and could not be answered.
const INTERNAL_ERROR: i32 = -32603;

pub(super) fn command() -> CliCommand {
    let about = "Speak the Model Context Protocol on standard input and output, for programs that let a model call tools";
    special("mcp", about, run).purpose(Purpose::Wait)
}

/// Answers until the input ends.
///
/// # Errors
/// [`Failure::Usage`] on the operator interface or with `--curl`; [`Failure::Unexpected`] if threads cannot be started; [`Failure::Closed`] if nobody reads the answers any more.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    if call.prints() {
        let why = "mcp answers messages, and --curl prints a single request: use it with a command such as \"bookings get\"";
        return Err(Failure::Usage(why.to_owned()));
    }
    let target = call.target();
    let peer = match target {
        Target::Local(local) => {
            target.say_if_unserved()?;
            Peer::Here(Box::new(local.mcp()?))
        }
        Target::Remote(remote) if remote.is_operators() => {
            let why = "mcp works with a partner's API key: the operator interface does not speak the protocol";
            return Err(Failure::Usage(why.to_owned()));
        }
        Target::Remote(remote) => Peer::There(remote.clone()),
    };
    let bridge = Arc::new(Bridge {
        peer,
        revision: Mutex::default(),
        waiting: Mutex::default(),
    });
    let (to, mut lines) = mpsc::channel(1);
    // On its own thread, because a read from a terminal or a pipe cannot be canceled and must not delay the end.
    std::thread::spawn(move || read_lines(io::stdin().lock(), &to));
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut answering = JoinSet::new();
    loop {
        tokio::select! {
            Some(answered) = answering.join_next() => ended(answered)?,
            line = lines.recv() => {
                let Some(line) = line else { break };
                // A line that cannot be parsed is passed on all the same: the server says what is wrong with it.
                let peek = line.as_deref().map(MessagePeek::at).unwrap_or_default();
                if let Some(id) = peek.canceled() {
                    bridge.cancel(id);
                    continue;
                }
                let place = Arc::clone(&room).acquire_owned().await;
                let waits = peek.waits().then(|| bridge.begin_waiting(peek.id_value()));
                let bridge = Arc::clone(&bridge);
                answering.spawn(async move {
                    let _place = place;
                    let answer = match waits {
                        None => bridge.answer(line, &peek).await,
                        Some(None) => Some(too_many_wait(&peek)),
                        Some(Some(canceled)) => tokio::select! {
                            answer = bridge.answer(line, &peek) => answer,
                            _ = canceled => None,
                        },
                    };
                    match answer {
                        Some(answer) => block_in_place(|| print(&answer)),
                        None => Ok(()),
                    }
                });
            }
        }
    }
    while let Some(answered) = answering.join_next().await {
        ended(answered)?;
    }
    Ok(())
}

fn ended(answered: Result<Result<(), Failure>, JoinError>) -> Result<(), Failure> {
    answered.unwrap_or_else(|e| {
        Err(Failure::Unexpected(format!(
            "a message was not answered: {e}"
        )))
    })
}

/// A line, or `None` if it was too long to be kept.
type Line = Option<Vec<u8>>;

/// Reads lines until the input ends or the receiver is gone.
fn read_lines(mut input: impl BufRead, to: &mpsc::Sender<Line>) {
    loop {
        let mut line = Vec::new();
        let most = LINE_BYTES as u64 + 1;
        match input.by_ref().take(most).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            Ok(0) => return,
            Err(e) => return say(&format!("bookguard: standard input cannot be read: {e}")),
        }
        let whole = line.ends_with(b"\n") || (line.len() as u64) < most;
        let end = line.iter().rposition(|byte| !b"\r\n".contains(byte));
        line.truncate(end.map_or(0, |at| at + 1));
        if !whole && input.skip_until(b'\n').is_err() {
            return;
        }
        if to.blocking_send(whole.then_some(line)).is_err() {
            return;
        }
    }
}

/// The side that answers messages.
enum Peer {
    Here(Box<LocalMcp>),
    There(Box<Remote>),
}

struct Bridge {
    peer: Peer,
    /// The negotiated protocol revision, which a server wants to see in each request.
    revision: Mutex<Option<HeaderValue>>,
    waiting: Mutex<Waiting>,
}

/// The calls with `wait`: the id of each request, and what cancels it once it is dropped. One that was answered is closed.
type Waiting = Vec<(Value, oneshot::Sender<()>)>;

fn too_many_wait(peek: &MessagePeek) -> String {
    let message = format!(
        "{WAITING} calls are already waiting. Call again when one of them is answered, or call without wait."
    );
    fault(peek.id.as_deref(), INTERNAL_ERROR, &message, None)
}

impl Bridge {
    /// The answer to a line; `None` if the line needs no answer.
    async fn answer(&self, line: Line, peek: &MessagePeek) -> Option<String> {
        let Some(line) = line else {
            let message = format!("The line is longer than {LINE_BYTES} bytes.");
            return Some(fault(None, INVALID_REQUEST, &message, None));
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        if peek.is_answer {
            return None;
        }
        let id = peek.id.as_deref();
        let headers = self.headers(peek);
        let answered = match &self.peer {
            Peer::Here(mcp) => Ok(mcp.answer(headers, line).await),
            Peer::There(remote) => remote.message(headers, line).await,
        };
        let text = match answered {
            Ok((status, body)) if body.is_empty() && status.is_success() && id.is_none() => {
                return None;
            }
            Ok((status, body)) => match message(&body) {
                Some((text, to)) if answers(&to, id) => {
                    self.note(peek, &text);
                    text
                }
                Some(_) => {
                    let why = "The answer belongs to another request. Is there a proxy in between?";
                    fault(id, INTERNAL_ERROR, why, None)
                }
                None => foreign(id, status, &body),
            },
            Err(failure) => fault(id, INTERNAL_ERROR, &failure.reason(), None),
        };
        if !peek.wants_nothing() {
            return Some(text);
        }
        // A notification is never answered, whatever its outcome.
        say(&format!(
            "bookguard: a notification was not taken: {}",
            plain(&text)
        ));
        None
    }

    /// The protocol's headers for a message over HTTP.
    fn headers(&self, peek: &MessagePeek) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name: HeaderName, value: Option<HeaderValue>| {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        };
        let method = peek.method.as_deref();
        let params = &peek.params;
        let meta = params.meta.as_ref();
        let own = meta.and_then(|meta| meta.revision.as_deref());
        if method != Some("initialize") {
            let agreed = || self.agreed().clone();
            add(VERSION, own.and_then(header).or_else(agreed));
        }
        add(METHOD, method.and_then(header));
        let name = params.name.as_deref().or(params.uri.as_deref());
        add(NAME, name.and_then(header));
        headers
    }

    /// Remembers the revision that an answer to `initialize` agrees on.
    fn note(&self, peek: &MessagePeek, answer: &str) {
        if peek.method.as_deref() == Some("initialize") {
            let answer: Value = serde_json::from_str(answer).unwrap_or_default();
            *self.agreed() = answer["result"]["protocolVersion"]
                .as_str()
                .and_then(header);
        }
    }

    /// Takes a place for a call with `wait`, which is its own until what this returns is dropped; `None` if all are taken.
    fn begin_waiting(&self, id: Value) -> Option<oneshot::Receiver<()>> {
        let mut waiting = self.waiting();
        waiting.retain(|(_, cancel)| !cancel.is_closed());
        if waiting.len() >= WAITING {
            return None;
        }
        let (cancel, canceled) = oneshot::channel();
        waiting.push((id, cancel));
        Some(canceled)
    }

    /// Ends the calls with `wait` of this request. Canceling what was answered meanwhile does nothing.
    fn cancel(&self, id: &Value) {
        self.waiting().retain(|(other, _)| other != id);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn agreed(&self) -> MutexGuard<'_, Option<HeaderValue>> {
        self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text as a header value, encoded as the protocol says if it is not plain (revision 2026-07-28, Value Encoding).
fn header(text: &str) -> Option<HeaderValue> {
    if text.len() > HEADER_BYTES {
        return None;
    }
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let kept = text.trim_matches([' ', '\t']) == text && !text.starts_with("=?base64?");
    if plain && kept {
        HeaderValue::from_str(text).ok()
    } else {
        HeaderValue::try_from(format!("=?base64?{}?=", STANDARD.encode(text))).ok()
    }
}

/// The body as one line and the id it answers, if it is an answer of the protocol.
fn message(body: &[u8]) -> Option<(String, Value)> {
    #[derive(Deserialize)]
    struct Message {
        jsonrpc: String,
        #[serde(default)]
        id: Value,
        #[serde(default)]
        method: Option<IgnoredAny>,
    }
    let message: Message = serde_json::from_slice(body).ok()?;
    let text = std::str::from_utf8(body).ok()?;
    // A line break outside of strings is white space, and a string cannot hold one.
    let is_answer = message.jsonrpc == "2.0" && message.method.is_none();
    is_answer.then(|| (text.replace(['\n', '\r'], " "), message.id))
}

/// Whether an answer with the id `to` belongs to the request `id`: it has the same id, or null if the request's id is
/// invalid.
fn answers(to: &Value, id: Option<&RawValue>) -> bool {
    let id = id.and_then(|id| serde_json::from_str::<Value>(id.get()).ok());
    match id.filter(|id| id.is_string() || id.is_i64()) {
        Some(id) => id == *to,
        None => to.is_null(),
    }
}

/// The error for an answer that does not follow the protocol, or that was given before the protocol began.
fn foreign(id: Option<&RawValue>, status: StatusCode, body: &[u8]) -> String {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let said = body.as_ref().and_then(|body| body["message"].as_str());
    let message = match said {
        Some(said) => said.to_owned(),
        None => format!(
            "The server answered {status}, but not as Bookguard does. Is the address right, or a proxy in between?"
        ),
    };
    let code = match status.is_client_error() {
        true => INVALID_REQUEST,
        false => INTERNAL_ERROR,
    };
    let known = said.is_some();
    fault(id, code, &message, body.filter(|_| known))
}

fn fault(id: Option<&RawValue>, code: i32, message: &str, data: Option<Value>) -> String {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    let id = id.map_or("null", RawValue::get);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Line> {
        let (to, mut lines) = mpsc::channel(100);
        read_lines(input, &to);
        std::iter::from_fn(|| lines.try_recv().ok()).collect()
    }

    #[test]
    fn lines_are_read_to_the_end_of_the_input_and_long_ones_passed_over() {
        let long = vec![b'x'; LINE_BYTES + 1];
        let input = [b"a\n\nb\r\n".as_slice(), &long, b"\nc"].concat();
        let read = lines(&input);
        let expected = [Some("a"), Some(""), Some("b"), None, Some("c")];
        let expected = expected.map(|line| line.map(|line| line.as_bytes().to_vec()));
        assert_eq!(read, expected);
        assert_eq!(lines(&long[..LINE_BYTES]).len(), 1);
        assert_eq!(lines(&long), [None]);
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn a_message_stays_one_line_and_anything_else_is_told_apart() {
        let pretty = "{\n \"jsonrpc\": \"2.0\",\r\n \"id\": 1, \"result\": \"a\\nb\"}";
        let (line, to) = message(pretty.as_bytes()).unwrap();
        assert_eq!(to, 1);
        assert!(
            !line.contains(['\n', '\r']) && line.contains("a\\nb"),
            "{line}"
        );
        for other in ["", "<html>", "{}", "[]", r#"{"error":"Unauthorized"}"#] {
            assert_eq!(message(other.as_bytes()), None, "{other}");
        }
        let notification = br#"{"jsonrpc":"2.0","method":"x"}"#;
        assert_eq!(message(notification), None);
    }

    #[test]
    fn an_answer_is_to_its_own_request() {
        for (to, id, fits) in [
            (json!(1), Some("1"), true),
            (json!("a"), Some(r#""\u0061""#), true),
            (json!(1), Some("2"), false),
            (json!(1), Some(r#""1""#), false),
            (json!(1), None, false),
            (json!(null), Some("1"), false),
            (json!(null), Some("1.5"), true),
            (json!(null), None, true),
        ] {
            let id: Option<Box<RawValue>> = id.map(|id| serde_json::from_str(id).unwrap());
            assert_eq!(answers(&to, id.as_deref()), fits, "{to} {id:?}");
        }
    }

    #[test]
    fn a_message_s_parts_are_read_each_by_itself() {
        #[rustfmt::skip]
        let cases = [
            (r#"{"id":4,"method":"tools/call","params":{"name":7}}"#, Some("4"), false, false),
            (r#"{"id":4,"method":7}"#, Some("4"), false, false),
            (r#"{"id":null,"method":"x"}"#, Some("null"), false, false),
            (r#"{"method":"x","params":5}"#, None, true, false),
            (r#"{"id":1,"result":{}}"#, Some("1"), true, false),
            (r#"{"id":1,"error":null}"#, Some("1"), true, false),
            ("nonsense", None, false, false),
            (r#"{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"wait":5}}}"#, Some("1"), false, true),
            (r#"{"id":1,"method":"ping","params":{"arguments":{"wait":5}}}"#, Some("1"), false, false),
        ];
        for (line, id, nothing, waits) in cases {
            let peek = MessagePeek::at(line.as_bytes());
            let read = peek.id.as_deref().map(RawValue::get);
            assert_eq!(
                (read, peek.wants_nothing(), peek.waits()),
                (id, nothing, waits),
                "{line}"
            );
        }
    }

    #[test]
    fn answers_that_are_not_of_the_protocol_become_errors_with_the_requests_id() {
        let id: Box<RawValue> = serde_json::from_str(r#""a""#).unwrap();
        let refused = br#"{"error":"Unauthorized","message":"Missing or invalid x-api-key"}"#;
        for (status, body, code, message) in [
            (
                401,
                refused.as_slice(),
                INVALID_REQUEST,
                "Missing or invalid x-api-key",
            ),
            (502, b"<html>", INTERNAL_ERROR, "The server answered 502"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let answer: Value = serde_json::from_str(&foreign(Some(&id), status, body)).unwrap();
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&json!("a"), &json!(code))
            );
            assert!(
                answer["error"]["message"]
                    .as_str()
                    .unwrap()
                    .starts_with(message),
                "{answer}"
            );
        }
    }

    #[test]
    fn headers_hold_any_text() {
        for (text, value) in [
            ("tools/call", "tools/call"),
            ("é", "=?base64?w6k=?="),
            (" a", "=?base64?IGE=?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
            ("a\nb", "=?base64?YQpi?="),
        ] {
            assert_eq!(header(text).unwrap(), value, "{text}");
        }
        assert_eq!(header(&"x".repeat(HEADER_BYTES + 1)), None);
    }
}
