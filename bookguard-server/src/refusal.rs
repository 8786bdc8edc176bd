//! Every answer that is not a success: one table from the core's kinds of error to statuses, one JSON body.
//!
//! The cause of an internal fault is not shown to the client: it travels beside the response as [`Fault`] and is logged once,
//! with the request id, when the response leaves. Invariant: the body of a 401 has exactly the two keys of the specification.

use std::borrow::Cow;

use bookguard_core::error::{Error, FieldError, Kind, Obstacle};
use bookguard_core::policy::Evaluation;
use bookguard_core::schema::Schema;
use bookguard_core::session::KEY_EXPIRED;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use poem::Response;
use poem::http::StatusCode;
use poem::http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use serde::{Deserialize, Serialize};

use crate::media;
use crate::negotiation::{names, prefers_page, wish};
use crate::pages;

/// Body of every refusal except a 401, which has only `error` and `message`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename = "Error", rename_all = "camelCase")]
pub struct ErrorBody {
    /// The status in words, such as "Not Found".
    pub error: String,
    /// For people: names the thing, the rule and the way out.
    pub message: String,
    /// Stable snake_case code to branch on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required)]
    pub code: String,
    /// Every faulty field; empty when no field is at fault.
    #[serde(default)]
    pub details: Vec<FieldError>,
    /// What stands in the way.
    #[serde(flatten)]
    pub obstacle: Obstacle,
    /// With `quote_changed`: the evaluation of the cancellation as of now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
}

/// Body of a 401.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Schema)]
pub struct Unauthorized {
    /// Always "Unauthorized".
    pub error: String,
    /// Always "Missing or invalid x-api-key".
    pub message: String,
}

/// Body of a refusal for clients that ask for `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Schema)]
pub struct Problem {
    /// Always "about:blank": `code` says what it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The status.
    pub status: u16,
    /// For people: names the thing, the rule and the way out.
    pub detail: String,
    /// Names this request in the service's log: `urn:request:` and its `x-request-id`.
    pub instance: String,
    /// The members of the ordinary refusal body.
    #[serde(flatten)]
    pub refused: ErrorBody,
}

/// Characters that a request id may hold and a URN may not.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The media type of a [`Problem`].
pub(crate) const PROBLEM: &str = "application/problem+json";

/// A refusal: the error and how HTTP carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    error: Error,
    /// The allowed methods, for a 405.
    allow: Option<Box<str>>,
    /// Whether the connection ends after this response.
    last: bool,
}

/// The cause of an internal fault, kept beside its response until it is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

/// The status for a kind of error.
pub(crate) fn status_of(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::Unauthorized => StatusCode::UNAUTHORIZED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = status_of(error.kind);
        Self {
            status,
            error,
            allow: None,
            last: false,
        }
    }
}

impl Refusal {
    /// A refusal of the HTTP message itself, before the core sees it.
    pub fn http(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            error: Error::invalid(code, message),
            allow: None,
            last: false,
        }
    }

    /// A refusal of a message whose end is uncertain: the connection closes after it.
    pub fn framing(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            last: true,
            ..Self::http(status, code, message)
        }
    }

    /// The refusal of bytes that are not an HTTP request.
    pub fn unread(status: StatusCode) -> Self {
        let (code, message) = match status {
            StatusCode::URI_TOO_LONG => (
                "path_too_long",
                "The path is longer than this service reads: 8 KiB.",
            ),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
                "headers_too_large",
                "The request's head has more headers than this service reads, or is longer: 100, and 32 KiB with its first line.",
            ),
            _ => (
                "malformed_request",
                "The message is not an HTTP/1.1 request. Check its first line, its headers, and the length of its body or of its chunks.",
            ),
        };
        Self::framing(status, code, message)
    }

    /// 503 when the limit of connections is reached.
    pub fn full() -> Self {
        let message = "This server has reached its limit of connections, or of connections from one network address. Reuse \
                       connections, close those you do not need, and try again.";
        let error = Error::new(Kind::Unavailable, "too_many_connections", message);
        Self {
            last: true,
            ..Self::from(error)
        }
    }

    /// 405 with the methods that the path has.
    pub fn method(allow: String) -> Self {
        let message = format!("This path does not have that method. It has: {allow}.");
        let refusal = Self::http(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            message,
        );
        Self {
            allow: Some(allow.into()),
            ..refusal
        }
    }

    /// 404 for an unknown path. Not every listener describes its interface.
    pub fn path(is_described: bool) -> Self {
        let message = match is_described {
            true => "There is no such path. The interface is described at /openapi.json.",
            false => "There is no such path.",
        };
        Self::http(StatusCode::NOT_FOUND, "path_not_found", message)
    }

    /// Builds the response.
    pub fn respond(self) -> Response {
        let Self {
            status,
            error,
            allow,
            last,
        } = self;
        let retry_after_s = error.retry_after_s.unwrap_or(1);
        let challenge = (status == StatusCode::UNAUTHORIZED).then(|| challenge(&error));
        let (refused, fault) = tell(status, error);
        let mut response = Response::from(refused.bytes(status));
        response.set_status(status);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(challenge) = challenge {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        if let Some(allow) = allow.and_then(|allow| HeaderValue::from_str(&allow).ok()) {
            headers.insert(ALLOW, allow);
        }
        if last {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(fault) = fault {
            response.set_data(fault);
        }
        response.set_data(refused);
        response
    }

    /// The response as raw bytes, for a client whose message is not a request.
    pub(crate) fn bytes(self, id: &HeaderValue) -> Vec<u8> {
        let mut response = self.respond();
        let status = response.status();
        let body = response
            .data::<ErrorBody>()
            .map(|refused| refused.bytes(status));
        let body = body.unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REQUEST_ID, id.clone());
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
        for (name, value) in headers.iter() {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend(body);
        bytes
    }

    /// The status and body of the response, for callers that do not send a [`Response`], and the cause of an internal fault,
    /// for the log.
    pub(crate) fn say(self) -> (StatusCode, Vec<u8>, Option<Fault>) {
        let (refused, fault) = tell(self.status, self.error);
        (self.status, refused.bytes(self.status), fault)
    }

    /// The error code that clients branch on.
    #[cfg(test)]
    pub fn code(&self) -> &str {
        &self.error.code
    }
}

/// The challenge of a 401: it says why in the words of RFC 6750 if the key was right once.
fn challenge(error: &Error) -> HeaderValue {
    let reason = (error.code == KEY_EXPIRED).then(|| {
        let text = &error.message;
        format!("ApiKey error=\"invalid_token\", error_description=\"{text}\"")
    });
    let reason = reason.and_then(|text| HeaderValue::try_from(text).ok());
    reason.unwrap_or_else(|| HeaderValue::from_static("ApiKey"))
}

/// Splits an error into what the client is told and the cause that only the log gets.
fn tell(status: StatusCode, mut error: Error) -> (ErrorBody, Option<Fault>) {
    let is_ours = error.kind == Kind::Internal;
    let fault = is_ours.then(|| Fault(std::mem::take(&mut error.message)));
    if is_ours {
        error.message =
            "Internal error; it is logged under the x-request-id of this answer.".to_owned();
    }
    (ErrorBody::of(status, error), fault)
}

impl From<Error> for ErrorBody {
    fn from(error: Error) -> Self {
        Self::of(status_of(error.kind), error)
    }
}

impl ErrorBody {
    fn of(status: StatusCode, error: Error) -> Self {
        let mut obstacle = error.obstacle.map(|obstacle| *obstacle).unwrap_or_default();
        let evaluation = obstacle.evaluation.take();
        Self {
            error: status.canonical_reason().unwrap_or("Error").to_owned(),
            message: error.message,
            code: error.code.into_owned(),
            details: error.details,
            obstacle,
            evaluation: evaluation.and_then(|json| serde_json::from_str(&json).ok()),
        }
    }

    fn bytes(&self, status: StatusCode) -> Vec<u8> {
        if status == StatusCode::UNAUTHORIZED {
            // The specification has one message. The header says that a key expired.
            let message = match self.code == KEY_EXPIRED {
                true => Error::unauthorized().message,
                false => self.message.clone(),
            };
            return json(&Unauthorized {
                error: self.error.clone(),
                message,
            });
        }
        json(self)
    }
}

/// How a request changes the form of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusalForm {
    body: RefusalBody,
    /// A key was sent in `Authorization` instead of `x-api-key`.
    misplaced_key: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalBody {
    /// An [`ErrorBody`] or [`Unauthorized`].
    Json,
    /// A [`Problem`].
    Problem,
    /// A page, for people who follow a link to evidence.
    Page,
}

impl RefusalForm {
    /// The form that a request with this path and these headers asks for.
    pub(crate) fn asked(path: &str, headers: &HeaderMap) -> Self {
        let json = wish(headers, media::JSON);
        let body = match names(headers, PROBLEM) {
            _ if path.starts_with(pages::LINKS) && prefers_page(headers) => RefusalBody::Page,
            Some(weight) if weight >= json => RefusalBody::Problem,
            _ => RefusalBody::Json,
        };
        let key = |value: &HeaderValue| value.as_bytes().windows(4).any(|part| part == b"bgk_");
        Self {
            body,
            misplaced_key: !headers.contains_key("x-api-key")
                && headers.get_all(AUTHORIZATION).iter().any(key),
        }
    }

    /// Puts a refusal into this form; leaves any other response unchanged.
    pub(crate) fn give(self, mut response: Response) -> Response {
        let status = response.status();
        if self.misplaced_key && status == StatusCode::UNAUTHORIZED {
            let hint = "ApiKey error=\"invalid_request\", error_description=\"Send the key in the header x-api-key, without \
                        Authorization and Bearer\"";
            let headers = response.headers_mut();
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(hint));
        }
        let Some(refused) = response.extensions_mut().remove::<ErrorBody>() else {
            return response;
        };
        if self.body == RefusalBody::Page {
            pages::explain(&mut response);
        } else if self.body == RefusalBody::Problem {
            let id = response.headers().get(REQUEST_ID);
            let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
            let problem = Problem {
                kind: "about:blank".to_owned(),
                title: refused.error.clone(),
                status: status.as_u16(),
                detail: refused.message.clone(),
                instance: format!("urn:request:{}", utf8_percent_encode(id, UNSAFE)),
                refused,
            };
            response.set_body(json(&problem));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
        }
        response
    }
}

/// 429 from a limit that has room again in `retry_after_s`.
pub fn rate_limited(retry_after_s: u32, why: impl Into<Cow<'static, str>>) -> Error {
    let message = format!("{} Try again in {retry_after_s} s.", why.into());
    Error {
        retry_after_s: Some(retry_after_s),
        ..Error::new(Kind::RateLimited, "rate_limited", message)
    }
}

/// The name of the request id header, which every response carries.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

fn json<T: Serialize>(body: &T) -> Vec<u8> {
    serde_json::to_vec(body).expect("plain strings with string keys always serialize")
}

#[cfg(test)]
mod tests {
    use poem::http::header::ACCEPT;

    use super::*;

    fn response(refusal: impl Into<Refusal>) -> Response {
        refusal.into().respond()
    }

    async fn text(response: Response) -> String {
        response.into_body().into_string().await.unwrap()
    }

    #[test]
    fn every_kind_has_its_status() {
        for (kind, status) in [
            (Kind::Invalid, 400),
            (Kind::Unauthorized, 401),
            (Kind::Forbidden, 403),
            (Kind::NotFound, 404),
            (Kind::Conflict, 409),
            (Kind::KeyReused, 422),
            (Kind::RateLimited, 429),
            (Kind::Internal, 500),
            (Kind::Unavailable, 503),
        ] {
            let answer = response(Error::new(kind, "code", "Message."));
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.header("content-type"), Some("application/json"));
            assert_eq!(
                answer.header("retry-after").is_some(),
                matches!(status, 429 | 503),
                "{status}"
            );
        }
    }

    #[tokio::test]
    async fn the_401_is_the_specification_s() {
        let answer = response(Error::unauthorized());
        assert_eq!(answer.header("www-authenticate"), Some("ApiKey"));
        assert_eq!(
            text(answer).await,
            r#"{"error":"Unauthorized","message":"Missing or invalid x-api-key"}"#
        );
    }

    #[tokio::test]
    async fn details_name_every_field() {
        let fault = FieldError::new("/name", "empty", "is empty", "Send one.");
        let expected = r#"{"error":"Bad Request","message":"/name: is empty","code":"empty","details":[{"pointer":"/name","code":"empty","message":"is empty","fix":"Send one."}]}"#;
        assert_eq!(text(response(Error::faults(vec![fault]))).await, expected);
    }

    #[tokio::test]
    async fn a_fault_of_ours_is_for_the_log_and_not_for_the_client() {
        let answer = response(Error::internal("the secret cause"));
        assert_eq!(
            answer.data::<Fault>(),
            Some(&Fault("the secret cause".to_owned()))
        );
        assert!(!text(answer).await.contains("secret"));
    }

    #[tokio::test]
    async fn a_wrong_method_is_told_the_right_ones() {
        let answer = response(Refusal::method("GET, HEAD, POST".to_owned()));
        assert_eq!(
            (answer.status().as_u16(), answer.header("allow")),
            (405, Some("GET, HEAD, POST"))
        );
        assert!(text(answer).await.contains("method_not_allowed"));
    }

    #[tokio::test]
    async fn people_who_follow_a_link_are_refused_in_words() {
        const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
        let given = |path, accept, refusal: Refusal| {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            RefusalForm::asked(path, &headers).give(refusal.respond())
        };
        for (path, accept, media_type) in [
            ("/s/x", BROWSER, pages::HTML),
            ("/s/x", "text/html, application/problem+json", pages::HTML),
            ("/s/x", "*/*", "application/json"),
            ("/s/x", "application/json", "application/json"),
            ("/s/x", "application/problem+json", PROBLEM),
            ("/v1/x", BROWSER, "application/json"),
        ] {
            let answer = given(path, accept, Refusal::full());
            assert_eq!(
                answer.header("content-type"),
                Some(media_type),
                "{path} {accept}"
            );
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(answer.header("retry-after"), Some("1"));
            assert_eq!(answer.header("connection"), Some("close"));
        }
        for (refusal, words) in [
            (Refusal::path(true), "This link shows nothing"),
            (Refusal::method("GET".to_owned()), "exactly as it was given"),
            (rate_limited(1, "Slow.").into(), "Try again in a minute."),
            (rate_limited(61, "Slow.").into(), "Try again in 2 minutes."),
            (Refusal::full(), "cannot answer at present"),
            (Error::internal("the secret cause").into(), "on our side"),
        ] {
            let answer = given("/s/x", BROWSER, refusal);
            for name in ["content-security-policy", "x-robots-tag", "referrer-policy"] {
                assert!(answer.header(name).is_some(), "{name}");
            }
            let page = text(answer).await;
            assert!(
                page.contains("<title>Evidence</title>") && page.contains(words),
                "{page}"
            );
            assert!(
                !page.contains(['{', '}']) && !page.contains("secret"),
                "{page}"
            );
        }
    }

    #[test]
    fn retry_after_is_what_the_limit_said() {
        assert_eq!(
            response(rate_limited(7, "Too many.")).header("retry-after"),
            Some("7")
        );
    }
}
