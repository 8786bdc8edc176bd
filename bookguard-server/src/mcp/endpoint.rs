//! Decides who may send a message to the endpoint, and how large it may be.
//!
//! Before a body is read, the Host and Origin, which a browser cannot forge, are checked, and the key if one is sent. Listing
//! the tools reveals nothing that the interface document does not, so it needs no key; calling a tool does.
//!
//! Invariants: without a key, a message counts against its network's limit, and at most [`STRANGER_BYTES`] of it are read; a
//! message up to [`BODY_BYTES`] never waits; larger messages share [`LargeMessages`], of which each caller may hold only a part,
//! and a sender that stalls loses its place; the processor time of all this is charged to the caller.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::limits::BODY_BYTES;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected};
use poem::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
};
use poem::http::{self, StatusCode};
use poem::{Endpoint, Request, Response};
use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::answers::Answers;
use super::arrival::{ARRIVAL, NotReceived, STRANGERS_ARRIVAL, receive};
use super::call::Tools;
use super::callers::Callers;
use super::large_messages::{LargeMessage, LargeMessages};
use super::message::{Ask, Message, MessageFault, read};
use super::{PATH, PROTOCOL_VERSIONS};
use crate::app::{App, RequestCost};
use crate::incoming;
use crate::media;
use crate::payer::Payer;
use crate::readers::ReadClass;
use crate::refusal::Refusal;

/// The most bytes of a message without a key: what needs no key is small.
const STRANGER_BYTES: usize = 8 * 1024;
/// The charge for a message that does not arrive in time. Too many of them, and the partner's keys are refused for a while.
const LATE: Duration = Duration::from_millis(250);
const JSON: HeaderValue = HeaderValue::from_static(media::JSON);

/// A tool's arguments, which bypass the protocol's crate, with the cost of the request and a slot for the result, which bypasses
/// it too.
#[derive(Clone)]
pub(super) struct Arguments {
    pub(super) text: Arc<str>,
    pub(super) cost: Arc<RequestCost>,
    pub(super) written: Arc<OnceLock<Written>>,
}

impl Arguments {
    /// Puts these members into the result, replacing the crate's own of the same names.
    pub(super) fn answer_with(&self, written: Written) {
        // One call has one result.
        let _ = self.written.set(written);
    }
}

/// Members of a result, already written as JSON. The crate would write them on a runtime thread and hold up other requests.
pub(super) type Written = Vec<(&'static str, Box<RawValue>)>;

/// The endpoint at [`PATH`].
pub(crate) struct McpEndpoint {
    app: Arc<App>,
    /// The callers accepted over HTTP; `None` without a listener.
    callers: Option<Callers>,
    protocol: StreamableHttpService<Answers, NeverSessionManager>,
    large_messages: LargeMessages,
}

impl McpEndpoint {
    /// Creates the endpoint over the app's operations.
    pub(crate) fn new(app: Arc<App>, callers: Option<Callers>) -> Self {
        let tools = Arc::new(Tools::new(&app));
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(BODY_BYTES)
            // This endpoint checks callers itself, before it reads anything.
            .disable_allowed_hosts();
        Self {
            app,
            callers,
            protocol: StreamableHttpService::new(
                move || Ok(Answers::new(Arc::clone(&tools))),
                Arc::default(),
                config,
            ),
            large_messages: LargeMessages::default(),
        }
    }

    /// Receives a message and answers it, or refuses it unread.
    async fn take(&self, request: &mut Request) -> Result<Response, Refusal> {
        if let Some(callers) = &self.callers {
            callers.check(request.headers(), request.uri().authority())?;
        }
        incoming::accepts(request.headers(), media::JSON)?;
        let headers = request.headers().clone();
        let from = incoming::address(request);
        let (payer, few) = match headers.contains_key("x-api-key") {
            true => {
                let caller = self.app.identify(&headers, Payer::at(from)).await?;
                (Some(Payer::of(&caller)), (BODY_BYTES, ARRIVAL))
            }
            false => {
                self.app.admit_stranger(from)?;
                (None, (STRANGER_BYTES, STRANGERS_ARRIVAL))
            }
        };
        let room = || match payer {
            Some(Payer::Partner(partner_id)) => {
                self.app.has_budget(&partner_id)?;
                self.large_messages.take(partner_id)
            }
            // On a server, a key always identifies a partner.
            Some(_) | None => Err(stranger()),
        };
        let (body, place) = match receive(request, few, room).await {
            Ok(received) => received,
            Err(not_received) => {
                if let (NotReceived::Late, Some(payer)) = (&not_received, payer) {
                    self.app.charge(payer, LATE);
                }
                return Err(not_received.into_refusal());
            }
        };
        self.answer(headers, body, payer, place).await
    }

    /// Answers a message. `payer` is the identified caller, `place` what a large message holds.
    pub(super) async fn answer(
        &self,
        headers: HeaderMap,
        body: Vec<u8>,
        payer: Option<Payer>,
        place: Option<LargeMessage<'_>>,
    ) -> Result<Response, Refusal> {
        let identified = payer.is_some();
        let payer = payer.unwrap_or(Payer::STRANGER);
        let cost = self.app.cost(payer);
        let answer = self.answer_on(&cost, headers, body, identified, place);
        cost.along(answer).await
    }

    /// Answers a message and adds up what that costs. Calls run in a task of the protocol's crate and are measured there.
    async fn answer_on(
        &self,
        cost: &Arc<RequestCost>,
        headers: HeaderMap,
        body: Vec<u8>,
        identified: bool,
        place: Option<LargeMessage<'_>>,
    ) -> Result<Response, Refusal> {
        let message = match body.len() {
            // Small enough to be read on this thread.
            0..=BODY_BYTES => read(&body),
            _ => {
                let read = move || Ok(read(&body));
                self.app.read(cost, ReadClass::Long, read).await?
            }
        };
        if !matches!(&message, Ok(Message::Request(ask)) if comes_to_operation(ask)) {
            self.app.count(cost.payer())?;
        }
        let message = match message {
            Ok(message) => message,
            Err(fault) => return Ok(faulty(&fault)),
        };
        if let Some(fault) = not_offered(&headers, &message) {
            return Ok(faulty(&fault));
        }
        let written = Arc::default();
        let (text, id, arguments) = match message {
            Message::Notification(text) => (text, None, None),
            Message::Request(ask) if !identified && needs_key(&ask) => {
                return Err(Error::unauthorized().into());
            }
            Message::Request(ask) => (
                ask.text,
                Some(ask.id),
                Some(Arguments {
                    text: ask.arguments.into(),
                    cost: Arc::clone(cost),
                    written: Arc::clone(&written),
                }),
            ),
        };
        if text.len() > BODY_BYTES {
            return Err(incoming::too_large(BODY_BYTES));
        }
        // Release the place if the message was large only around its arguments: its call may wait, and need not hold the place.
        let large = |arguments: &Arguments| arguments.text.len() > BODY_BYTES;
        let _place = place.filter(|_| arguments.as_ref().is_some_and(large));
        let mut request = http::Request::new(text);
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::from_static(PATH);
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        headers.insert(CONTENT_TYPE, JSON);
        // Answers are always JSON, so a client need not accept event streams; the crate requires both.
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if let Some(arguments) = arguments {
            request.extensions_mut().insert(arguments);
        }
        Ok(respond(id, self.protocol.handle(request).await, &written).await)
    }
}

impl Endpoint for McpEndpoint {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        let answer = self.take(&mut request).await;
        if answer.is_err() {
            let body = request.take_body();
            incoming::discard(request.headers(), body).await;
        }
        Ok(answer.unwrap_or_else(Refusal::respond))
    }
}

/// Whether the request reaches an operation, which counts it.
fn comes_to_operation(ask: &Ask) -> bool {
    needs_key(ask) || ask.method == "resources/list"
}

/// Whether the request needs a key because it reaches a partner's data.
fn needs_key(ask: &Ask) -> bool {
    matches!(ask.method.as_str(), "tools/call" | "resources/read")
}

/// The fault for a revision that the protocol's crate knows but this server does not offer (Transports, Protocol Version
/// Header). The crate itself refuses revisions it does not know; `initialize` is how to agree on another.
fn not_offered(headers: &HeaderMap, message: &Message) -> Option<MessageFault> {
    let id = match message {
        Message::Request(ask) if ask.method == "initialize" => return None,
        Message::Request(ask) => Some(ask.id.clone()),
        Message::Notification(_) => None,
    };
    let named = headers.get("mcp-protocol-version")?.to_str().ok()?;
    let mut known = ProtocolVersion::KNOWN_VERSIONS.iter();
    let known = known.any(|version| version.as_str() == named);
    (known && !PROTOCOL_VERSIONS.contains(&named)).then(|| MessageFault {
        id,
        code: ErrorCode::INVALID_REQUEST,
        message: format!("Bad Request: Unsupported MCP-Protocol-Version: {named}"),
    })
}

fn stranger() -> Refusal {
    let message = format!(
        "Without an x-api-key at most {STRANGER_BYTES} bytes of a message are read. Send your key with it."
    );
    Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

fn faulty(fault: &MessageFault) -> Response {
    json(StatusCode::BAD_REQUEST, fault.to_json())
}

fn json(status: StatusCode, body: impl Into<poem::Body>) -> Response {
    let mut response = Response::from(body.into());
    response.set_status(status);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Converts the crate's response: adds the members written outside it, and turns plain-text refusals into protocol messages.
async fn respond<B>(
    id: Option<String>,
    response: http::Response<B>,
    written: &OnceLock<Written>,
) -> Response
where
    B: http_body::Body<Data = Bytes, Error = Infallible>,
{
    let (head, body) = response.into_parts();
    let Ok(bytes) = body.collect().await.map(Collected::to_bytes);
    if head.headers.get(CONTENT_TYPE) == Some(&JSON) {
        let joined = written.get().and_then(|written| join(&bytes, written));
        return json(head.status, joined.map_or(bytes, Bytes::from));
    }
    if head.status.is_success() {
        let mut response = Response::from(bytes);
        response.set_status(head.status);
        return response;
    }
    let fault = MessageFault {
        id,
        code: code_of(head.status),
        message: String::from_utf8_lossy(&bytes).into_owned(),
    };
    let status = match head.status {
        // The crate answers 415 to any text that is not a message it knows.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => StatusCode::BAD_REQUEST,
        status => status,
    };
    json(status, fault.to_json())
}

/// The error code for a status that refuses.
pub(super) fn code_of(status: StatusCode) -> ErrorCode {
    match status.is_server_error() {
        true => ErrorCode::INTERNAL_ERROR,
        false => ErrorCode::INVALID_REQUEST,
    }
}

/// A JSON-RPC response with a result.
#[derive(Serialize, Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    jsonrpc: &'a RawValue,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    result: BTreeMap<&'a str, &'a RawValue>,
}

/// Inserts these members into a message's result; `None` if it has no result.
fn join(message: &[u8], written: &Written) -> Option<Vec<u8>> {
    let mut answer: Answer<'_> = serde_json::from_slice(message).ok()?;
    let mut length = message.len();
    for (name, value) in written {
        length += name.len() + value.get().len() + 4;
        answer.result.insert(name, value);
    }
    let mut joined = Vec::with_capacity(length);
    serde_json::to_writer(&mut joined, &answer).ok()?;
    Some(joined)
}
