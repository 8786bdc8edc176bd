//! Who may knock at the protocol's path, and with how much.
//!
//! Before a body is read: the Host and Origin a browser cannot forge, and the key when one is sent. What lists the tools
//! tells nothing that the interface document does not, so it needs no key; what calls one does. Invariants: without a key
//! no more is read than of any request; of larger messages [`RECEIVED`] are in memory at most and [`ANSWERED`] are worked on,
//! whoever sends them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::limits::BODY_BYTES;
use bookguard_core::session::unauthorized;
use bytes::Bytes;
use poem::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
};
use poem::http::{self, StatusCode};
use poem::{Endpoint, Request, Response};
use rmcp::model::ErrorCode;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answers::Answers;
use super::call::Tools;
use super::callers::Callers;
use super::message::{Ask, Fault, Message, read};
use super::{MESSAGE_BYTES, PATH};
use crate::api::incoming;
use crate::app::App;
use crate::refusal::Refusal;

/// Messages larger than other requests that are received or wait for their turn.
const RECEIVED: usize = 8;
/// Those among them that are being answered: verifying a packet takes several times its size.
const ANSWERED: usize = 2;
/// How long such a message may take to arrive: 4 MiB at 2 Mbit/s. A place is not for whoever trickles.
const ARRIVAL: Duration = Duration::from_secs(20);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A tool's arguments on their way past the protocol's crate.
#[derive(Clone)]
pub(super) struct Arguments(pub(super) Arc<str>);

/// The endpoint at the path.
pub(crate) struct Door {
    app: Arc<App>,
    /// Who may call over HTTP; `None` where there is no listener.
    callers: Option<Callers>,
    protocol: StreamableHttpService<Answers, NeverSessionManager>,
    /// Places of large messages, and turns of those that have come.
    places: Semaphore,
    turns: Semaphore,
}

impl Door {
    /// The endpoint over the app's own operations.
    pub(crate) fn new(app: Arc<App>, callers: Option<Callers>) -> Self {
        let tools = Arc::new(Tools::new(&app));
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(BODY_BYTES)
            // Callers are checked here, before anything is read.
            .disable_allowed_hosts();
        Self {
            app,
            callers,
            protocol: StreamableHttpService::new(
                move || Ok(Answers::new(Arc::clone(&tools))),
                Arc::default(),
                config,
            ),
            places: Semaphore::new(RECEIVED),
            turns: Semaphore::new(ANSWERED),
        }
    }

    /// The answer to a request, or why its message is not even read.
    async fn take(&self, request: &mut Request) -> Result<Response, Refusal> {
        incoming::accepts(request.headers(), "application/json")?;
        let headers = request.headers().clone();
        let identified = headers.contains_key("x-api-key");
        if identified {
            self.app.identify(&headers).await?;
            let length = incoming::declared_length(&headers);
            if length.is_none_or(|length| length > BODY_BYTES as u64) {
                return self.take_large(headers, request).await;
            }
        }
        let body = incoming::body(request, BODY_BYTES).await?;
        self.answer(headers, body, identified).await
    }

    /// The same for a message that is larger than other requests, or may be.
    async fn take_large(
        &self,
        headers: HeaderMap,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        let _place = self.places.try_acquire().map_err(|_| busy())?;
        let arriving = timeout(ARRIVAL, incoming::body(request, MESSAGE_BYTES));
        let body = arriving.await.map_err(|_| late())??;
        // Never closed, so there is always a turn.
        let _turn = self.turns.acquire().await;
        self.answer(headers, body, true).await
    }

    /// The answer to a message. `identified`: the caller has shown who it is.
    pub(super) async fn answer(
        &self,
        headers: HeaderMap,
        body: Vec<u8>,
        identified: bool,
    ) -> Result<Response, Refusal> {
        let message = match read(&body) {
            Ok(message) => message,
            Err(fault) => return Ok(faulty(&fault)),
        };
        drop(body);
        let (text, id, arguments) = match message {
            Message::Notification(text) => (text, None, None),
            Message::Request(ask) if !identified && needs_key(&ask) => {
                return Err(unauthorized().into());
            }
            Message::Request(ask) => (
                ask.text,
                Some(ask.id),
                Some(Arguments(ask.arguments.into())),
            ),
        };
        if text.len() > BODY_BYTES {
            return Err(incoming::too_large(BODY_BYTES));
        }
        let mut request = http::Request::new(text);
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::from_static(PATH);
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        headers.insert(CONTENT_TYPE, JSON);
        // What is answered is always JSON; a client need not say that it could also read a stream.
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if let Some(arguments) = arguments {
            request.extensions_mut().insert(arguments);
        }
        Ok(respond(id, self.protocol.handle(request).await).await)
    }
}

impl Endpoint for Door {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        let allowed = match &self.callers {
            Some(callers) => callers.check(request.headers(), request.uri().host()),
            None => Ok(()),
        };
        let answer = match allowed {
            Ok(()) => self.take(&mut request).await,
            Err(refusal) => Err(refusal),
        };
        if answer.is_err() {
            let body = request.take_body();
            incoming::discard(request.headers(), body).await;
        }
        Ok(answer.unwrap_or_else(Refusal::respond))
    }
}

/// What reaches a partner's data.
fn needs_key(ask: &Ask) -> bool {
    matches!(ask.method.as_str(), "tools/call" | "resources/read")
}

fn busy() -> Refusal {
    Error::unavailable("Too many large messages are being read. Try again in a moment.").into()
}

fn late() -> Refusal {
    let message = format!(
        "The message did not arrive within {} s. Send it faster, or verify a booking of yours by its bookingId.",
        ARRIVAL.as_secs()
    );
    Refusal::http(StatusCode::REQUEST_TIMEOUT, "body_too_slow", message)
}

fn faulty(fault: &Fault) -> Response {
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

/// The crate's answer as it leaves; what it refuses in plain text becomes a message of the protocol.
async fn respond<B>(id: Option<String>, response: http::Response<B>) -> Response
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Unpin,
{
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    if head.headers.get(CONTENT_TYPE) == Some(&JSON) {
        return json(head.status, bytes);
    }
    if head.status.is_success() {
        let mut response = Response::from(bytes);
        response.set_status(head.status);
        return response;
    }
    let fault = Fault {
        id,
        code: if head.status.is_server_error() {
            ErrorCode::INTERNAL_ERROR
        } else {
            ErrorCode::INVALID_REQUEST
        },
        message: String::from_utf8_lossy(&bytes).into_owned(),
    };
    let status = match head.status {
        // It says so of every text that is not the message it knows.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => StatusCode::BAD_REQUEST,
        status => status,
    };
    json(status, fault.to_json())
}
