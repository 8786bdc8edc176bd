//! One question to a time-stamp authority over HTTP (RFC 3161 section 3.4).
//!
//! A question ends after [`PATIENCE`], and its answer at [`MAX_RESPONSE`] bytes. An answer proves itself, so http will do.

use std::time::Duration;

use bookguard_time::MAX_RESPONSE;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{StatusCode, Uri};

use crate::causes::in_words;
use crate::tls::questions::{AnswerUnread, QuestionClient, read};

/// How long a question may take altogether.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

const QUERY: HeaderValue = HeaderValue::from_static("application/timestamp-query");
const REPLY_TYPE: &str = "application/timestamp-reply";
const REPLY: HeaderValue = HeaderValue::from_static(REPLY_TYPE);

/// Posts a request, and returns what the authority answers.
///
/// # Errors
/// Why there is no answer, in words.
pub(super) async fn ask(
    client: &QuestionClient,
    authority: &Uri,
    request: Vec<u8>,
) -> Result<Vec<u8>, String> {
    let answered = tokio::time::timeout(PATIENCE, exchange(client, authority, request)).await;
    answered.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
}

async fn exchange(
    client: &QuestionClient,
    authority: &Uri,
    query: Vec<u8>,
) -> Result<Vec<u8>, String> {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, QUERY), (ACCEPT, REPLY)]);
    let response = client.post(authority.clone(), headers, query).await;
    let response = response.map_err(|e| format!("it cannot be reached: {}", in_words(&e)))?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(format!("it answered with status {}", status.as_u16()));
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()?.split(';').next());
    if !kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(REPLY_TYPE)) {
        return Err("its answer is not application/timestamp-reply".to_owned());
    }
    let answer = read(response.into_body(), MAX_RESPONSE).await;
    answer.map_err(|why| match why {
        AnswerUnread::BrokeOff(error) => format!("its answer broke off: {}", in_words(&error)),
        AnswerUnread::TooLong => format!("its answer is longer than {MAX_RESPONSE} bytes"),
    })
}
