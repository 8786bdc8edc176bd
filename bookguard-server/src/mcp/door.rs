//! Who may knock at the protocol's path, and with how much.
//!
//! Before a body is read: the Host and Origin a browser cannot forge, and the key when one is sent. What lists the tools
//! tells nothing that the interface document does not, so it needs no key; what calls one does. Invariants: without a key
//! no more is read than of any request; of larger messages [`RECEIVED`] are in memory at most and [`ANSWERED`] are worked on,
//! whoever sends them.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::error::Error;
use bookguard_core::limits::BODY_BYTES;
use bookguard_core::session::unauthorized;
use bytes::Bytes;
use poem::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN,
};
use poem::http::{self, StatusCode};
use poem::{Endpoint, Request, Response};
use rmcp::model::ErrorCode;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::{Host, Url};

use super::answers::Answers;
use super::call::Tools;
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

/// From where the path may be called: a page of another site, whose name was made to lead here, is kept out.
pub(crate) struct Callers {
    public: Option<Url>,
    /// Whether this machine's own names are good: when it can be reached by them.
    local: bool,
}

impl Callers {
    /// Callers of the service at `public_url`, listening on `address`.
    pub(crate) fn new(public_url: &str, address: IpAddr) -> Self {
        Self {
            public: Url::parse(public_url).ok(),
            local: address.to_canonical().is_loopback() || address.is_unspecified(),
        }
    }

    /// Refuses: `host_not_allowed`, `origin_not_allowed`.
    fn check(&self, headers: &HeaderMap, in_uri: Option<&str>) -> Result<(), Refusal> {
        let host = single(headers, HOST).or(in_uri.filter(|_| !headers.contains_key(HOST)));
        let named = host.and_then(|host| Url::parse(&format!("http://{host}")).ok());
        let known = named.is_some_and(|url| self.is_local(&url) || self.is_public_host(&url));
        if !known {
            return Err(forbidden(
                "host_not_allowed",
                "The Host header does not name this service. Set its public URL (public_url, --public-url or \
                 BOOKGUARD_PUBLIC_URL) to the address that clients use, and let a proxy pass the Host header on.",
            ));
        }
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = single(headers, ORIGIN).and_then(|origin| Url::parse(origin).ok());
        let same = |url: &Url| {
            let public = self.public.as_ref().map(Url::origin);
            self.is_local(url) || public.is_some_and(|public| public == url.origin())
        };
        if origin.is_some_and(|url| same(&url)) {
            return Ok(());
        }
        Err(forbidden(
            "origin_not_allowed",
            "Pages of other sites may not call this. Call it from a program, or from a page at the service's public URL \
             (public_url, --public-url or BOOKGUARD_PUBLIC_URL).",
        ))
    }

    fn is_public_host(&self, url: &Url) -> bool {
        let public = self.public.as_ref().and_then(Url::host);
        public.is_some_and(|public| url.host() == Some(public))
    }

    fn is_local(&self, url: &Url) -> bool {
        self.local
            && match url.host() {
                Some(Host::Domain(name)) => name == "localhost",
                Some(Host::Ipv4(address)) => address.is_loopback(),
                Some(Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            }
    }
}

/// The value of a header that is there once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    value.to_str().ok()
}

fn forbidden(code: &'static str, message: &str) -> Refusal {
    Refusal::http(StatusCode::FORBIDDEN, code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(public_url: &str, listen: &str, host: &[&str], origin: &[&str]) -> String {
        let callers = Callers::new(public_url, listen.parse().unwrap());
        let mut headers = HeaderMap::new();
        for (name, values) in [(HOST, host), (ORIGIN, origin)] {
            for value in values {
                headers.append(&name, value.parse().unwrap());
            }
        }
        match callers.check(&headers, None) {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => refusal.code().to_owned(),
        }
    }

    #[test]
    fn only_the_service_s_own_names_are_hosts() {
        let public = "https://bookings.example.com";
        for (listen, host, expected) in [
            ("127.0.0.1", "bookings.example.com", "ok"),
            ("127.0.0.1", "BOOKINGS.example.com:443", "ok"),
            ("127.0.0.1", "localhost:8080", "ok"),
            ("127.0.0.1", "127.0.0.1", "ok"),
            ("::1", "[::1]:8080", "ok"),
            ("0.0.0.0", "localhost", "ok"),
            ("192.0.2.1", "bookings.example.com", "ok"),
            ("192.0.2.1", "localhost:8080", "host_not_allowed"),
            ("127.0.0.1", "evil.example.com", "host_not_allowed"),
            (
                "127.0.0.1",
                "localhost.evil.example.com",
                "host_not_allowed",
            ),
            (
                "127.0.0.1",
                "evil.example.com/@localhost",
                "host_not_allowed",
            ),
            ("127.0.0.1", "bookings.example.com.", "host_not_allowed"),
            ("127.0.0.1", "", "host_not_allowed"),
        ] {
            assert_eq!(
                code(public, listen, &[host], &[]),
                expected,
                "{listen} {host}"
            );
        }
        let twice = ["bookings.example.com", "evil.example.com"];
        assert_eq!(code(public, "127.0.0.1", &twice, &[]), "host_not_allowed");
        assert_eq!(code(public, "127.0.0.1", &[], &[]), "host_not_allowed");
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        let public = "https://bookings.example.com/base";
        for (listen, origin, expected) in [
            ("127.0.0.1", "https://bookings.example.com", "ok"),
            ("127.0.0.1", "http://localhost:5173", "ok"),
            ("192.0.2.1", "http://localhost:5173", "origin_not_allowed"),
            (
                "127.0.0.1",
                "http://bookings.example.com",
                "origin_not_allowed",
            ),
            (
                "127.0.0.1",
                "https://bookings.example.com:8443",
                "origin_not_allowed",
            ),
            (
                "127.0.0.1",
                "https://evil.example.com",
                "origin_not_allowed",
            ),
            ("127.0.0.1", "null", "origin_not_allowed"),
            ("127.0.0.1", "", "origin_not_allowed"),
        ] {
            let host = ["bookings.example.com"];
            assert_eq!(code(public, listen, &host, &[origin]), expected, "{origin}");
        }
    }
}
