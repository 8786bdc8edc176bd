//! Makes one attempt to deliver an event: one POST, one answer, one record.
//!
//! The courier decides what is sent when and what follows from the result, `address` which addresses are allowed, and `failure`
//! what an error means. Invariants: an attempt ends by its deadline whatever the receiver does; it keeps at most
//! [`RESPONSE_BYTES`] of an answer and reads little more (`meter`); it follows no redirect, uses no proxy but the configured
//! one, and connects only to addresses that were checked (`dial`). Connections are kept alive and shared by all attempts of a
//! [`Sender`].

mod dial;
mod failure;
mod meter;
mod progress;
mod resolver;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bookguard_core::limits::{
    IN_FLIGHT, RESPONSE_BYTES, RESPONSE_FIELDS_BYTES, RESPONSE_HEAD_BYTES, RETRY_AFTER_MS,
};
use bookguard_core::webhook::{Attempt, FailureClass, Phase, printable_head, retry_after_ms};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sha2::{Digest, Sha256};
use url::Url;

use crate::media;
use crate::tls;

use super::address::AddressRules;
use super::proxy::Proxy;
use dial::{Connector, Dialer};
use failure::{AttemptFailure, excess};
use meter::Places;
use progress::{PROGRESS, Progress, Watched};
use resolver::CheckedResolver;
pub(super) use resolver::{ASKER, Asker};

/// Idle connections kept for one host: as many as can be in flight, because the endpoints of many partners may be on one host.
/// With fewer, connections would be closed and opened again all the time.
const IDLE_PER_HOST: usize = IN_FLIGHT;

/// Connections kept in all, idle ones included: as many as can be in flight to healthy endpoints. Those opened beyond are closed
/// after their request, so that a burst to many hosts does not leave thousands of open files behind.
const KEPT: usize = IN_FLIGHT;

/// How long a connection is kept while it is used, so that with more hosts than places each gets one in turn. A handshake a minute
/// costs little, and whoever moves to another address is followed within that minute.
const KEPT_TIME: Duration = Duration::from_secs(60);

/// How long an idle connection is kept: less than the 60 s after which common receivers and load balancers close it, so that a
/// request rarely meets a connection that is being closed.
const IDLE_TIME: Duration = Duration::from_secs(50);

const SERVICE_SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const JSON: HeaderValue = HeaderValue::from_static(media::JSON);
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");

/// By how much a connection may take longer to open than any attempt lasts.
const CONNECT_SLACK: Duration = Duration::from_secs(1);

/// SHA-256 of an empty body, which most receivers answer with.
const SHA256_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Makes attempts. A server has one and shares it by reference.
#[derive(Debug)]
pub struct Sender {
    client: Client<Connector, Watched>,
    rules: Arc<AddressRules>,
}

/// The headers of a delivery, besides `content-type`, as ready-made values.
#[derive(Debug, Clone)]
pub struct DeliveryHeaders {
    /// `x-service-signature`.
    pub service_signature: HeaderValue,
    /// `webhook-id`.
    pub webhook_id: HeaderValue,
    /// `webhook-timestamp`.
    pub webhook_timestamp: HeaderValue,
    /// `webhook-signature`.
    pub webhook_signature: HeaderValue,
}

/// The HTTP client could not be set up.
#[derive(Debug)]
pub struct SenderError(rustls::Error);

/// The error that broke an exchange.
enum ExchangeError {
    /// Before an answer began.
    Request(legacy::Error),
    /// In the middle of the answer.
    Answer(hyper::Error),
}

impl ExchangeError {
    fn cause(&self) -> &(dyn Error + 'static) {
        match self {
            Self::Request(error) => error,
            Self::Answer(error) => error,
        }
    }

    /// Whether it broke before a connection was open.
    fn is_connect(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_connect())
    }
}

impl Sender {
    /// Creates a sender whose attempts go only where `rules` allow, through `proxy` if there is one, and last for `total_timeout`
    /// at most, answer included. What partners must not read about an attempt is logged.
    ///
    /// # Errors
    /// [`SenderError`] if TLS cannot be set up, which happens when the system has no CA certificates.
    pub fn new(
        rules: AddressRules,
        proxy: Option<Proxy>,
        total_timeout: Duration,
    ) -> Result<Self, SenderError> {
        let places = Places::new(KEPT, KEPT_TIME);
        Self::keeping(places, rules, proxy, total_timeout)
    }

    /// Does the same as [`new`](Self::new), but keeps connections in these places.
    fn keeping(
        places: Places,
        rules: AddressRules,
        proxy: Option<Proxy>,
        total_timeout: Duration,
    ) -> Result<Self, SenderError> {
        let rules = Arc::new(rules);
        let resolver = CheckedResolver::new(Arc::clone(&rules));
        let https = HttpsConnector::from((
            Dialer::new(resolver, proxy, places),
            tls::system_trust().map_err(SenderError)?,
        ));
        // Longer than any attempt, so that those tell how they ended.
        let patience = total_timeout + CONNECT_SLACK;
        let connector = Connector { https, patience };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .pool_idle_timeout(IDLE_TIME)
            .http1_max_buf_size(RESPONSE_FIELDS_BYTES)
            .build(connector);
        Ok(Sender { client, rules })
    }

    /// Posts `body` to `url` once and returns a record of the attempt; never fails itself. It gives up after `patience`.
    ///
    /// `started_at` is now, in milliseconds since the epoch. Dropping the future abandons the attempt and closes its
    /// connection; the receiver may have received it nevertheless.
    pub async fn send(
        &self,
        patience: Duration,
        url: &Url,
        headers: DeliveryHeaders,
        body: Bytes,
        started_at: i64,
    ) -> Attempt {
        let began = Instant::now();
        let progress = Progress::within(patience);
        let mut answer = None;
        let request = || request(url, headers, progress.watch(body));
        let broken = match self.rules.check_parsed(url).map(|()| request()) {
            Err(refused) => Err(AttemptFailure::blocked(&refused)),
            Ok(None) => Err(AttemptFailure::no_request()),
            Ok(Some(request)) => {
                let exchange =
                    PROGRESS.scope(progress.clone(), self.exchange(request, &mut answer));
                match tokio::time::timeout(patience, exchange).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(broken)) => Err(AttemptFailure::of(
                        &broken,
                        url.scheme() == "https",
                        progress.phase(),
                    )),
                    Err(_) if progress.is_at_proxy() => {
                        Err(AttemptFailure::proxy_timeout(patience))
                    }
                    Err(_) => Err(AttemptFailure::timeout(patience, progress.phase())),
                }
            }
        };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        record(started_at, duration_ms, answer, broken.err())
    }

    /// Sends the request and reads the answer into `answer`, which keeps what was read if this fails or is dropped.
    async fn exchange(
        &self,
        mut request: Request<Watched>,
        answer: &mut Option<Answer>,
    ) -> Result<(), ExchangeError> {
        let carrier = capture_connection(&mut request);
        request.body_mut().goes_on(carrier);
        let response = self
            .client
            .request(request)
            .await
            .map_err(ExchangeError::Request)?;
        let _ = PROGRESS.try_with(|progress| progress.reached(Phase::Body));
        let answer = answer.insert(Answer::begun(&response));
        let mut body = response.into_body();
        while answer.wants_more()
            && let Some(frame) = body.frame().await
        {
            match frame.map(Frame::into_data) {
                Ok(Ok(chunk)) => answer.take(&chunk),
                Ok(Err(_)) => {}
                // As for a body longer than what is kept: the status counts, and the rest is not read.
                Err(error) if excess(&error).is_some() => break,
                Err(error) => return Err(ExchangeError::Answer(error)),
            }
        }
        Ok(())
    }
}

/// Builds the request; `None` if the URL cannot be requested.
fn request(url: &Url, headers: DeliveryHeaders, body: Watched) -> Option<Request<Watched>> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.as_str().parse::<Uri>().ok()?;
    let mut map = HeaderMap::with_capacity(8);
    map.insert(USER_AGENT, tls::PRODUCT);
    map.insert(ACCEPT, ANYTHING);
    map.insert(CONTENT_TYPE, JSON);
    map.insert(SERVICE_SIGNATURE, headers.service_signature);
    map.insert(WEBHOOK_ID, headers.webhook_id);
    map.insert(WEBHOOK_TIMESTAMP, headers.webhook_timestamp);
    map.insert(WEBHOOK_SIGNATURE, headers.webhook_signature);
    *request.headers_mut() = map;
    Some(request)
}

/// The part of an answer read so far.
struct Answer {
    status: u16,
    retry_after: Option<HeaderValue>,
    head: Vec<u8>,
    len: usize,
    hash: Sha256,
}

impl Answer {
    fn begun(response: &Response<Incoming>) -> Self {
        let status = response.status().as_u16();
        let retry_after = match status {
            429 | 503 => response.headers().get(RETRY_AFTER).cloned(),
            _ => None,
        };
        Answer {
            status,
            retry_after,
            head: Vec::new(),
            len: 0,
            hash: Sha256::new(),
        }
    }

    fn wants_more(&self) -> bool {
        self.len < RESPONSE_BYTES
    }

    fn take(&mut self, chunk: &[u8]) {
        let chunk = &chunk[..chunk.len().min(RESPONSE_BYTES - self.len)];
        // One byte more than is kept, to show whether the head was cut.
        let room = RESPONSE_HEAD_BYTES + 1 - self.head.len();
        self.head.extend_from_slice(&chunk[..chunk.len().min(room)]);
        self.len += chunk.len();
        self.hash.update(chunk);
    }

    fn sha256(self) -> String {
        match self.len {
            0 => SHA256_OF_NOTHING.to_owned(),
            _ => hex::encode(self.hash.finalize()),
        }
    }
}

/// Builds the record. A status that refuses counts even if the answer broke off; one that accepts counts only with a complete
/// answer.
fn record(
    started_at: i64,
    duration_ms: u64,
    answer: Option<Answer>,
    broken: Option<AttemptFailure>,
) -> Attempt {
    let refused = answer
        .as_ref()
        .and_then(|answer| FailureClass::of_status(answer.status));
    let (class, detail) = match (refused, broken.as_ref()) {
        (Some(FailureClass::RedirectRefused), _) => (refused, Some(failure::REDIRECT.to_owned())),
        (Some(FailureClass::ProtocolError), _) => (refused, Some(failure::SWITCH.to_owned())),
        (Some(_), _) => (refused, None),
        (None, Some(failure)) => (Some(failure.class), Some(failure.detail.clone())),
        (None, None) => (None, None),
    };
    let mut attempt = Attempt {
        duration_ms,
        phase: if answer.is_some() {
            Phase::Body
        } else {
            broken.map_or(Phase::Body, |failure| failure.phase)
        },
        class,
        detail,
        ..Attempt::begun(started_at)
    };
    if let Some(answer) = answer {
        let now_ms = started_at.saturating_add_unsigned(duration_ms);
        if let Some(value) = &answer.retry_after {
            let text = value.to_str().ok();
            let wait = text.and_then(|text| retry_after_ms(text, now_ms));
            attempt.retry_after_ms = wait;
            attempt.detail = about_wait(wait).map(str::to_owned);
        }
        attempt.status_code = Some(answer.status);
        attempt.response_head = printable_head(&answer.head);
        attempt.response_len =
            u32::try_from(answer.len).expect("no more than RESPONSE_BYTES are read");
        attempt.response_sha256 = Some(answer.sha256());
    }
    attempt
}

/// What the record says of the wait that a `Retry-After` asked for, if it is not simply kept. `None` stands for a value that cannot be
/// read.
fn about_wait(wait: Option<u64>) -> Option<&'static str> {
    match wait {
        None => Some("Retry-After is neither whole seconds nor an HTTP date: it is ignored"),
        Some(RETRY_AFTER_MS) => {
            Some("the wait is 24 hours, the longest that Retry-After can ask for")
        }
        Some(_) => None,
    }
}

impl fmt::Display for SenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "webhooks cannot be sent: setting up TLS failed; are the system's CA certificates installed \
             (package ca-certificates), or SSL_CERT_FILE set?",
        )
    }
}

impl std::error::Error for SenderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests;
