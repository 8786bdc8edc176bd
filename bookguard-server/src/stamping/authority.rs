//! One question to a time-stamp authority over HTTP (RFC 3161 section 3.4).
//!
//! An authority is the operator's choice, so its address is not checked as a receiver's is. Its answer is a stranger's: it
//! ends after [`PATIENCE`] and at [`MAX_RESPONSE`] bytes, and no redirect is followed. An answer proves itself, so http will do.

use std::convert::Infallible;
use std::error::Error as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bookguard_core::limits::RESPONSE_FIELDS_BYTES;
use bookguard_time::MAX_RESPONSE;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::tls;

/// How long a question may take altogether.
const PATIENCE: Duration = Duration::from_secs(10);

const QUERY: HeaderValue = HeaderValue::from_static("application/timestamp-query");
const REPLY_TYPE: &str = "application/timestamp-reply";
const REPLY: HeaderValue = HeaderValue::from_static(REPLY_TYPE);

/// Asks authorities.
#[derive(Debug)]
pub(super) struct Asker {
    client: Client<HttpsConnector<HttpConnector>, Sent>,
}

impl Asker {
    /// # Errors
    /// If the system has no certificates of authorities for TLS.
    pub(super) fn new() -> Result<Self, rustls::Error> {
        let mut connector = HttpConnector::new();
        // TLS is handled by the next layer.
        connector.enforce_http(false);
        let connector = HttpsConnector::from((connector, tls::system_trust()?));
        let client = Client::builder(TokioExecutor::new())
            // Questions are minutes apart.
            .pool_max_idle_per_host(0)
            .http1_max_buf_size(RESPONSE_FIELDS_BYTES)
            .build(connector);
        Ok(Self { client })
    }

    /// Posts a request, and returns what the authority answers.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    pub(super) async fn ask(&self, authority: &Uri, request: Vec<u8>) -> Result<Vec<u8>, String> {
        let answered = tokio::time::timeout(PATIENCE, self.exchange(authority, request)).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
    }

    async fn exchange(&self, authority: &Uri, query: Vec<u8>) -> Result<Vec<u8>, String> {
        let mut request = Request::new(Sent(query.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = authority.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, QUERY);
        headers.insert(ACCEPT, REPLY);
        headers.insert(USER_AGENT, tls::PRODUCT);
        let response = self.client.request(request).await.map_err(|error| {
            let cause = error.source().map(ToString::to_string);
            cause.unwrap_or_else(|| error.to_string())
        })?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(format!("it answered with status {}", status.as_u16()));
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let is_reply = kind
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| {
                let kind = kind.split(';').next().unwrap_or_default().trim();
                kind.eq_ignore_ascii_case(REPLY_TYPE)
            });
        if !is_reply {
            return Err("its answer is not application/timestamp-reply".to_owned());
        }
        let mut body = response.into_body();
        let mut answer = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let chunk: Result<Bytes, _> = match frame.map(Frame::into_data) {
                Ok(data) => data,
                Err(error) => return Err(format!("its answer broke off: {error}")),
            };
            let chunk = chunk.unwrap_or_default();
            if answer.len() + chunk.len() > MAX_RESPONSE {
                return Err(format!("its answer is longer than {MAX_RESPONSE} bytes"));
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}

/// The body of a question.
#[derive(Debug)]
struct Sent(Bytes);

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
