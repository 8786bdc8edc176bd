//! The HTTP client for every operation: the route says where to send the request; the answer or its error is parsed here.
//!
//! The key is sent only to the address that was named: redirects are not followed. Invariant: whatever answers (a proxy's
//! page, half a body, an endless body), the command ends with a sentence that says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bookguard_core::Kind;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::model::PartnerId;
use bookguard_core::operation::{Body, Operation, Request, Route};
use bookguard_core::session::{Access, KEY_EXPIRED};
use bookguard_core::webhook::Secret;
use bookguard_server::mcp::PATH;
use bookguard_server::tls::PRODUCT;
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
    WWW_AUTHENTICATE,
};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use url::Url;

use super::{Sink, curl};
use crate::exit::kind_of;
use crate::failure::{ErrorAnswer, ErrorBody, Failure};
use crate::files::DOCUMENT_BYTES;
use crate::http;
use crate::output::{self, Answer};
use crate::profiles::Credential;
use crate::settings::{KeyPlace, KeySource};
use crate::text::plain;

/// The time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// The time for a complete answer. Ten seconds of it are for a manual retry, which waits for its receiver.
const ANSWER: Duration = Duration::from_secs(60);
/// The time for a complete archive, which holds hundreds of megabytes and may come slowly. It still has to begin within [`ANSWER`],
/// and then never to stop for as long.
const ARCHIVE: Duration = Duration::from_secs(6 * 60 * 60);
/// The longest time for which one request of many waits for its turn, or for a server that is away.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// The shortest and longest pause before a server that is away is asked again.
pub const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// A server.
#[derive(Clone)]
pub struct Remote {
    base: Url,
    key: Option<HeaderValue>,
    /// Set if the key is the operator's: the partner to act for, if any.
    operator: Option<Option<PartnerId>>,
    client: Client,
    /// Whether it waits, and asks again, when the server asks for that or is away.
    is_patient: bool,
    /// How a shell finds the key, if requests are printed instead of sent.
    printed_key: Option<String>,
}

impl Remote {
    /// The server at `address`, called with `key`.
    ///
    /// # Errors
    /// [`Failure::Usage`] for an invalid address.
    pub fn new(address: &str, key: Option<String>) -> Result<Self, Failure> {
        let base = http::base_url(address)?;
        let is_here = http::on_this_machine(&base);
        Self::at(base, key, is_here)
    }

    /// The server of this machine at `address`, called without a key.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn here(address: &str) -> Result<Self, Failure> {
        Self::at(http::base_url(address)?, None, true)
    }

    fn at(base: Url, key: Option<String>, is_here: bool) -> Result<Self, Failure> {
        let client = http::client(is_here, |client| {
            let client = client.connect_timeout(CONNECT);
            client.timeout(ANSWER).read_timeout(ANSWER)
        })?;
        let key = key
            .map(|key| {
                let mut value = HeaderValue::from_str(&key).map_err(|_| {
                    Failure::Usage("the API key holds characters that no key has".to_owned())
                })?;
                value.set_sensitive(true);
                Ok::<_, Failure>(value)
            })
            .transpose()?;
        Ok(Self {
            base,
            key,
            operator: None,
            client,
            is_patient: false,
            printed_key: None,
        })
    }

    /// The same server's operator interface, called with the same key for this partner.
    #[must_use]
    pub fn for_operator(self, partner_id: Option<PartnerId>) -> Self {
        Self {
            operator: Some(partner_id),
            ..self
        }
    }

    /// The same server, called by a command of many requests, each of which may be repeated: none of them fails only because it
    /// comes too soon, or while the server is away for a moment.
    #[must_use]
    pub fn with_patience(self) -> Self {
        Self {
            is_patient: true,
            ..self
        }
    }

    /// Whether it is called with an operator key.
    pub fn is_operators(&self) -> bool {
        self.operator.is_some()
    }

    /// Whether it is called with an operator key for no specific partner.
    pub fn is_for_all(&self) -> bool {
        self.operator == Some(None)
    }

    /// The partner's key that it is called with; `None` if requests are printed instead of sent.
    pub fn partners_key(&self) -> Option<&str> {
        let key = self.key.as_ref().filter(|_| self.operator.is_none())?;
        key.to_str().ok()
    }

    fn key_header(&self) -> &'static str {
        match self.operator {
            Some(_) => "x-operator-key",
            None => "x-api-key",
        }
    }

    /// From now on, prints requests as curl commands instead of sending them. The key is not printed, but how a shell gets it.
    /// That of a profile which holds the key itself must be put into the environment first, which is said.
    pub fn print_requests(&mut self, key: &KeySource) {
        let variable = key.kind.variable();
        let command = match &key.place {
            KeyPlace::File(file) => {
                Some(format!("cat {}", curl::quoted(&file.display().to_string())))
            }
            KeyPlace::Profile(name, profile) => {
                let command = match profile.credential() {
                    Some(Credential::Command(command)) => Some(command.to_owned()),
                    _ => None,
                };
                if command.is_none() {
                    output::say(&format!(
                        "note: the profile {name} holds the key, which is not printed: set {variable} to it before you run this"
                    ));
                }
                command
            }
            KeyPlace::Environment => None,
        };
        let from_shell = command.map(|command| format!("$({command})"));
        self.printed_key = Some(from_shell.unwrap_or_else(|| format!("${variable}")));
    }

    /// A secret derived from the key, which reveals nothing about the key.
    ///
    /// # Errors
    /// [`Failure::NoKey`].
    pub fn derived_secret(&self) -> Result<Secret, Failure> {
        let key = self.key.as_ref().and_then(|key| key.to_str().ok());
        let key = key.ok_or(Failure::NoKey)?;
        let digest = Sha256::digest([b"bookguard listen 1\n", key.as_bytes()].concat());
        Ok(Secret::from_bytes(digest.into()))
    }

    /// Calls an operation.
    ///
    /// # Errors
    /// [`Failure::NoKey`]; [`Failure::Usage`] for an Idempotency-Key that cannot be sent; [`Failure::Unreachable`],
    /// [`Failure::Refused`], [`Failure::BadAnswer`]. If requests are printed, [`Failure::Printed`] and those of
    /// [`output::print()`].
    pub async fn call<O: Operation>(&self, request: Request) -> Result<Answer<O::Output>, Failure> {
        let (url, body) = self.ask(&O::ROUTE, request).await?;
        super::read::<O>(body)
            .map_err(|why| Failure::BadAnswer(format!("{url} did not answer as Bookguard does ({why}). Check the address, and that the server runs this version.")))
    }

    /// Calls an operation whose answer is a file.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn file<O: Operation>(&self, request: Request) -> Result<Vec<u8>, Failure> {
        Ok(self.ask(&O::ROUTE, request).await?.1)
    }

    /// Writes the archive of a booking's evidence.
    ///
    /// # Errors
    /// As [`Self::call`], and those of `write`.
    pub async fn archive(&self, request: Request, write: Sink<'_>) -> Result<(), Failure> {
        if self.key.is_none() && self.printed_key.is_none() {
            return Err(Failure::NoKey);
        }
        let mut response = self.accepted(self.for_archive(&request)?).await?;
        while let Some(chunk) = response.chunk().await.map_err(|e| self.broken_off(&e))? {
            write(&chunk)?;
        }
        Ok(())
    }

    fn for_archive(&self, request: &Request) -> Result<RequestBuilder, Failure> {
        let url = self.address(GetEvidence::ROUTE.path, &request.path, &[]);
        let builder = self.client.get(url.ok_or_else(unknown)?);
        Ok(builder.header(ACCEPT, "application/zip").timeout(ARCHIVE))
    }

    /// The body of an operation's answer, and the address it came from.
    async fn ask(&self, route: &Route, request: Request) -> Result<(Url, Vec<u8>), Failure> {
        if self.key.is_none() && self.printed_key.is_none() && route.access != Access::Open {
            return Err(Failure::NoKey);
        }
        let url = self.address(route.path, &request.path, &request.query);
        let url = url.ok_or_else(unknown)?;
        let method = reqwest::Method::from_bytes(route.method.word().as_bytes());
        let method = method.expect("it is a method's name in HTTP");
        let body = Some(request.body).filter(|body| !body.is_empty());
        let key = request.idempotency_key.as_deref();
        let mut builder = self.builder((method, url.clone()), body, key)?;
        if let Body::File = route.body {
            builder = builder
                .header(CONTENT_TYPE, "application/octet-stream")
                .body(Arc::unwrap_or_clone(request.file).into_bytes());
        }
        let body = match self.is_patient {
            true => self.send_in_turn(builder).await,
            false => self.send(builder).await,
        };
        match body {
            Err(failure)
                if route.access == Access::Administrator && failure.is("path_not_found") =>
            {
                Err(Failure::Usage(format!(
                    "{} is not the address of the operator interface, and only that has what is the operator's alone: give its address \
                     with --url (operator_listen in the server's settings)",
                    self.base
                )))
            }
            body => Ok((url, body?)),
        }
    }

    /// Sends any request to the interface, and returns the answer's body. The path may hold a query.
    ///
    /// # Errors
    /// Those of every call; [`Failure::Usage`] for a path that leads elsewhere.
    pub async fn any(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<Vec<u8>>,
        idempotency_key: Option<&str>,
    ) -> Result<Vec<u8>, Failure> {
        let base = self.base.as_str().trim_end_matches('/');
        let wrong = || {
            Failure::Usage(format!(
                "\"{path}\" is not a path of the interface; write it like /v1/bookings?limit=5"
            ))
        };
        if !path.starts_with('/')
            || path.starts_with("//")
            || path.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(wrong());
        }
        let url = Url::parse(&format!("{base}{path}")).map_err(|_| wrong())?;
        self.send(self.builder((method, url), body, idempotency_key)?)
            .await
    }

    fn builder(
        &self,
        (method, url): (reqwest::Method, Url),
        json: Option<Vec<u8>>,
        idempotency_key: Option<&str>,
    ) -> Result<RequestBuilder, Failure> {
        let mut builder = self.client.request(method, url);
        if let Some(json) = json {
            builder = builder.header(CONTENT_TYPE, http::JSON).body(json);
        }
        if let Some(key) = idempotency_key {
            builder = builder.header("idempotency-key", header(key)?);
        }
        Ok(builder)
    }

    /// Gets a text that is not an operation's answer, such as the checkpoint.
    ///
    /// # Errors
    /// As [`Self::call`], but it needs no key; [`Failure::BadAnswer`] also for bytes that are not text.
    pub async fn text(&self, path: &str) -> Result<String, Failure> {
        let url = self.address(path, &[], &[]).ok_or_else(unknown)?;
        let body = self.send(self.client.get(url.clone())).await?;
        String::from_utf8(body).map_err(|_| {
            Failure::BadAnswer(format!(
                "{url} did not answer with text. Is the address right?"
            ))
        })
    }

    /// Sends a message of the Model Context Protocol. Returns the status, and a body that may be empty.
    ///
    /// # Errors
    /// [`Failure::Unreachable`], [`Failure::BadAnswer`], also if the address redirects.
    pub async fn message(
        &self,
        headers: HeaderMap,
        message: Vec<u8>,
    ) -> Result<(StatusCode, Vec<u8>), Failure> {
        let url = self.address(PATH, &[], &[]).ok_or_else(unknown)?;
        let builder = self.client.post(url).headers(headers).body(message);
        let response = self.dispatch(builder.header(CONTENT_TYPE, http::JSON));
        let response = response.await?;
        let status = response.status();
        if status.is_redirection() {
            return Err(refusal(&self.base, status, response.headers(), &[]));
        }
        Ok((status, self.body(response).await?))
    }

    /// Fills in a route's path; `None` if a parameter cannot be an id of Bookguard's, because it could name another route.
    fn address(&self, route: &str, path: &[String], query: &[(String, String)]) -> Option<Url> {
        let mut url = self.base.clone();
        let mut parameters = path.iter();
        {
            let mut segments = url.path_segments_mut().ok()?;
            segments.pop_if_empty();
            for segment in route.trim_start_matches('/').split('/') {
                if segment.starts_with('{') {
                    let id = parameters.next()?;
                    if id.is_empty()
                        || !id
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
                    {
                        return None;
                    }
                    segments.push(id);
                } else {
                    segments.push(segment);
                }
            }
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Some(url)
    }

    /// Sends a request with this program's name and the key.
    async fn dispatch(&self, mut builder: RequestBuilder) -> Result<Response, Failure> {
        if let Some(Some(partner_id)) = self.operator {
            builder = builder.header("x-partner-id", partner_id.to_string());
        }
        if let Some(key) = &self.printed_key {
            let request = builder.build().map_err(|e| self.unreachable(&e))?;
            output::print(&curl::command(&request, self.key_header(), key))?;
            return Err(Failure::Printed);
        }
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, PRODUCT);
        if let Some(key) = &self.key {
            headers.insert(self.key_header(), key.clone());
        }
        let sent = builder.headers(headers).send().await;
        sent.map_err(|e| self.unreachable(&e))
    }

    async fn send(&self, builder: RequestBuilder) -> Result<Vec<u8>, Failure> {
        self.body(self.accepted(builder).await?).await
    }

    /// Sends a request that is not refused, and returns the answer, whose body was not read yet.
    async fn accepted(&self, builder: RequestBuilder) -> Result<Response, Failure> {
        let response = self.dispatch(builder).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response).await?;
        Err(refusal(&self.base, status, &headers, &body))
    }

    /// Sends a request, again whenever the server asks to wait or is away, but not for ever. It may be repeated, so it does not
    /// matter whether a server that did not answer carried it out.
    async fn send_in_turn(&self, builder: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let (began, mut waits, mut pause) = (Instant::now(), 0_u32, ASK_AGAIN.0);
        while let Some(again) = builder.try_clone() {
            let failure = match self.send(again).await {
                Ok(body) => return Ok(body),
                Err(failure) => failure,
            };
            let wait = match failure {
                Failure::Unreachable(_) => {
                    let wait = pause;
                    pause = (pause * 2).min(ASK_AGAIN.1);
                    // The address may be wrong, so this is said at once.
                    waits = waits.max(1);
                    Some(wait)
                }
                _ => failure.asks_to_wait(),
            };
            let wait = wait.filter(|wait| began.elapsed() + *wait <= PATIENCE);
            let Some(wait) = wait else {
                return Err(failure);
            };
            // One wait for a turn is the usual price of many requests; more are a reason to look at the server.
            waits += 1;
            if waits == 2 {
                let (why, most) = (failure.passing().unwrap_or_default(), PATIENCE.as_secs());
                output::say(&plain(&format!(
                    "{why} (asking again, for {most} s at most)"
                )));
            }
            sleep(wait).await;
        }
        // A body that cannot be repeated; no request has one.
        self.send(builder).await
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.broken_off(&e))? {
            if (body.len() + chunk.len()) as u64 > DOCUMENT_BYTES {
                return Err(Failure::BadAnswer(format!(
                    "{} answers more than {DOCUMENT_BYTES} bytes, which Bookguard never does",
                    self.base
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let base = &self.base;
        Failure::Unreachable(if error.is_connect() {
            format!(
                "{base} cannot be reached: {}. Is the server running, and the address right?",
                http::cause(error)
            )
        } else if error.is_timeout() {
            format!(
                "{base} did not answer within {} s; whether the request was carried out is not known",
                ANSWER.as_secs()
            )
        } else {
            format!(
                "{base} did not answer: {}; whether the request was carried out is not known",
                http::cause(error)
            )
        })
    }

    fn broken_off(&self, error: &reqwest::Error) -> Failure {
        Failure::Unreachable(format!(
            "the answer of {} broke off: {}; whether the request was carried out is not known",
            self.base,
            http::cause(error)
        ))
    }
}

fn header(idempotency_key: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(idempotency_key).map_err(|_| {
        Failure::Usage(
            "--idempotency-key must be 1 to 255 visible ASCII characters, such as a UUID"
                .to_owned(),
        )
    })
}

/// Text that cannot be an id gets the same answer as an unknown id.
fn unknown() -> Failure {
    bookguard_core::Error::not_found("resource").into()
}

fn refusal(base: &Url, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    if status.is_redirection() {
        let to = text(LOCATION).map_or_else(String::new, |to| format!(" to {to}"));
        return Failure::BadAnswer(format!(
            "{base} redirects{to}. Give the final address; the key is not sent on"
        ));
    }
    match (
        kind_of(status.as_u16()),
        serde_json::from_slice::<ErrorBody>(body),
    ) {
        (Some(kind), Ok(mut body)) if kind == Kind::Unauthorized || !body.code.is_empty() => {
            let challenge = text(WWW_AUTHENTICATE).unwrap_or_default();
            if let Some(why) = reason(challenge) {
                body.message = why.to_owned();
            }
            // Over HTTP a 401 has no code; the challenge says whether the key has expired.
            if kind == Kind::Unauthorized && body.code.is_empty() {
                let code = match challenge.contains("error=\"invalid_token\"") {
                    true => KEY_EXPIRED,
                    false => "unauthorized",
                };
                body.code = code.to_owned();
            }
            if body.code == "path_not_found"
                && let Some(root) = base.as_str().trim_end_matches('/').strip_suffix("/v1")
            {
                return Failure::Usage(format!(
                    "{base} has nothing there: each path begins with /v1 itself, so give the address without it, {root}"
                ));
            }
            let retry_after_s = text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
            Failure::Refused(Box::new(ErrorAnswer {
                kind,
                body,
                retry_after_s,
                flags: Vec::new(),
                worded: None,
            }))
        }
        // A proxy answers in a server's place while that is away.
        _ if matches!(status.as_u16(), 502..=504) => Failure::Unreachable(format!(
            "{base} answered {status}, as a proxy does that cannot reach the server behind it; whether the request was carried out \
             is not known. Is that server running?"
        )),
        _ => Failure::BadAnswer(format!(
            "{base} answered {status}, but not as Bookguard does. Is the address right, or a proxy in between?"
        )),
    }
}

/// Why a key was refused: the body of a 401 always has the same message.
fn reason(challenge: &str) -> Option<&str> {
    let (_, described) = challenge.split_once("error_description=\"")?;
    described.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::exit::Exit;

    fn remote(base: &str) -> Remote {
        Remote::new(base, Some("bgk_x".to_owned())).unwrap()
    }

    #[test]
    fn a_route_is_filled_below_the_base_address() {
        let filled = |base: &str, id: &str| {
            remote(base)
                .address("/v1/bookings/{bookingId}/protect", &[id.to_owned()], &[])
                .map(|url| url.to_string())
        };
        assert_eq!(
            filled("http://h", "bkg_1").as_deref(),
            Some("http://h/v1/bookings/bkg_1/protect")
        );
        assert_eq!(
            filled("https://h:1/base/", "bkg_1").as_deref(),
            Some("https://h:1/base/v1/bookings/bkg_1/protect")
        );
        for id in ["", ".", "..", "a/b", "a?b", "a#b", "a%2fb", "é", "a b"] {
            assert_eq!(filled("http://h", id), None, "{id}");
        }
    }

    #[test]
    fn an_archive_has_hours_but_may_not_fall_silent() {
        let remote = remote("http://h");
        let request = crate::target::request(&["bkg_1"], &serde_json::Value::Null);
        let builder = remote.for_archive(&request).unwrap();
        assert_eq!(builder.build().unwrap().timeout(), Some(&ARCHIVE));
        // The client says its settings only here.
        let client = format!("{:?}", remote.client);
        assert!(client.contains("read_timeout: 60s"), "{client}");
    }

    #[test]
    fn query_values_are_encoded() {
        let query = [
            (
                "eventFrom".to_owned(),
                "2027-01-01T00:00:00+02:00".to_owned(),
            ),
            ("status".to_owned(), "a&b=c".to_owned()),
        ];
        let url = remote("http://h")
            .address("/v1/bookings", &[], &query)
            .unwrap();
        assert_eq!(
            url.as_str(),
            "http://h/v1/bookings?eventFrom=2027-01-01T00%3A00%3A00%2B02%3A00&status=a%26b%3Dc"
        );
    }

    #[test]
    fn what_is_no_address_of_a_server_is_refused() {
        for address in [
            "",
            "localhost:8080",
            "ftp://h",
            "http://",
            "http://h?x",
            "http://h#x",
            "http://u:p@h",
            "ftp://u:p@h",
            "http://u:p@h?x",
            "http://u:p@h:port",
            "u:p@h",
            "/path",
        ] {
            let Err(failure) = Remote::new(address, None) else {
                panic!("{address} was taken")
            };
            assert_eq!(failure.exit(), Exit::Usage, "{address}");
            assert!(!format!("{failure:?}").contains("u:p"), "{failure:?}");
        }
    }

    #[test]
    fn every_answer_that_is_no_success_has_its_end() {
        let base = Url::parse("http://h/").unwrap();
        let error = |status: u16, body: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
            headers.insert(LOCATION, HeaderValue::from_static("https://elsewhere/"));
            refusal(
                &base,
                StatusCode::from_u16(status).unwrap(),
                &headers,
                body.as_bytes(),
            )
        };
        let bookguards = r#"{"error":"x","message":"m","code":"c","details":[]}"#;
        for (status, body, exit) in [
            (400, bookguards, Exit::Refused),
            (
                401,
                r#"{"error":"Unauthorized","message":"Missing or invalid x-api-key"}"#,
                Exit::Auth,
            ),
            (403, bookguards, Exit::Auth),
            (404, bookguards, Exit::NotFound),
            (404, "<html>", Exit::Server),
            (404, r#"{"error":"x","message":"m"}"#, Exit::Server),
            (409, bookguards, Exit::Refused),
            (422, bookguards, Exit::Refused),
            (429, bookguards, Exit::RateLimited),
            (500, bookguards, Exit::Server),
            (503, bookguards, Exit::Server),
            (501, "<html>", Exit::Server),
            (502, "<html>Bad Gateway", Exit::Unreachable),
            (503, "", Exit::Unreachable),
            (504, "<html>", Exit::Unreachable),
            (505, "<html>", Exit::Server),
            (301, bookguards, Exit::Server),
            (304, "", Exit::Server),
        ] {
            assert_eq!(error(status, body).exit(), exit, "{status} {body}");
        }
        let Failure::Refused(refused) = error(429, bookguards) else {
            panic!("no refusal")
        };
        assert_eq!(refused.retry_after_s, Some(7));
        let unauthorized = error(401, r#"{"error":"x","message":"m"}"#);
        assert!(unauthorized.is("unauthorized"), "{unauthorized:?}");
        let Failure::BadAnswer(why) = error(301, "") else {
            panic!("no bad answer")
        };
        assert!(why.contains("redirects to https://elsewhere/"), "{why}");
    }

    #[tokio::test]
    async fn a_command_of_many_requests_goes_on_when_the_server_is_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = remote(&format!("http://{}", listener.local_addr().unwrap()));
        let proxy = std::thread::spawn(move || {
            for status in ["502 Bad Gateway", "200 OK"] {
                let (mut socket, _) = listener.accept().unwrap();
                assert!(socket.read(&mut [0; 4096]).unwrap() > 0);
                let rest = "connection: close\r\ncontent-length: 4\r\n\r\nback";
                write!(socket, "HTTP/1.1 {status}\r\n{rest}").unwrap();
            }
        });
        let request = remote.client.get(remote.base.clone());
        let body = remote.with_patience().send_in_turn(request).await.unwrap();
        assert_eq!(body, b"back");
        proxy.join().unwrap();
    }

    #[tokio::test]
    async fn a_server_of_plain_http_is_told_from_one_that_is_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = remote(&format!("https://{}", listener.local_addr().unwrap()));
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            assert!(socket.read(&mut [0; 4096]).unwrap() > 0);
            write!(socket, "HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            // Until the client has seen it: an end with unread bytes would take the answer back.
            while socket.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
        });
        let Err(Failure::Unreachable(why)) = remote.text("/readyz").await else {
            panic!("it is not TLS")
        };
        assert!(why.contains("begins with http://"), "{why}");
        server.join().unwrap();
    }
}
