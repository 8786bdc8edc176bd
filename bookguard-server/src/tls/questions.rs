//! Posts questions to servers that the operator chose: witnesses and time-stamp authorities.
//!
//! Their addresses are not checked as a receiver's is, and no proxy is used; their answers are a stranger's. Invariants: no more of an
//! answer is held than its reader says; no redirect is followed.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use super::PRODUCT;

/// The most bytes of an answer's head.
const HEAD_BYTES: usize = 16 * 1024;

/// Asks servers that the operator chose.
#[derive(Debug)]
pub(crate) struct QuestionClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// Why an answer was not read to its end.
#[derive(Debug)]
pub(crate) enum AnswerUnread {
    BrokeOff(hyper::Error),
    TooLong,
}

impl QuestionClient {
    /// Tries all addresses of a server within `patience`, and keeps this many connections to it for further questions.
    pub(crate) fn new(trust: ClientConfig, patience: Duration, kept: usize) -> Self {
        let mut connector = HttpConnector::new();
        // TLS is handled by the next layer.
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(patience));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(kept)
            .http1_max_buf_size(HEAD_BYTES)
            .build(HttpsConnector::from((connector, trust)));
        Self(client)
    }

    /// Posts a question. Returns the answer, whose body is to be [`read`].
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn post(
        &self,
        to: Uri,
        headers: HeaderMap,
        question: Vec<u8>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        let mut request = Request::new(Full::from(question));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = to;
        *request.headers_mut() = headers;
        request.headers_mut().insert(USER_AGENT, PRODUCT);
        self.0.request(request).await
    }
}

/// Reads the body of an answer, of at most `most` bytes.
///
/// # Errors
/// [`AnswerUnread`].
pub(crate) async fn read(mut body: Incoming, most: usize) -> Result<Vec<u8>, AnswerUnread> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.map_err(AnswerUnread::BrokeOff)?.into_data();
        let data = data.unwrap_or_default();
        if bytes.len() + data.len() > most {
            return Err(AnswerUnread::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
