//! A partner's HTTP client.
//!
//! Invariant: every answer must carry `x-request-id` and match the interface document, or the test that made the request
//! fails.

use std::sync::LazyLock;
use std::time::Duration;

use bookguard_server::tls::system_trust;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use rustls::ClientConfig;
use serde_json::Value;

use crate::codes;
use crate::interface::{self, Interface};
use crate::json::Members as _;

/// Far more than the ten seconds that a manual retry may wait.
const PATIENCE: Duration = Duration::from_secs(40);

/// Read once: the machine trusts a hundred authorities and more, and tests make callers by the thousand.
static TRUST: LazyLock<ClientConfig> =
    LazyLock::new(|| system_trust().expect("the machine trusts somebody"));

/// An HTTP client of one server, with or without a key.
#[derive(Debug, Clone)]
pub struct Caller {
    client: Client,
    base: String,
    key: Option<String>,
    interface: Interface,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The request: its method, path and query, and the beginning of its body.
    pub asked: String,
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body's bytes.
    pub body: Vec<u8>,
}

impl Caller {
    /// A caller without a key.
    pub fn new(base: impl Into<String>) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "it is given TLS on the next line"
        )]
        let client = Client::builder()
            .tls_backend_preconfigured(TRUST.clone())
            .no_proxy()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client without a proxy can be made");
        Self {
            client,
            base: base.into(),
            key: None,
            interface: Interface::Partners,
        }
    }

    /// The same caller with a key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..self.clone()
        }
    }

    /// A caller of an operator interface, without a key.
    pub fn of_operator(base: impl Into<String>) -> Self {
        Self {
            interface: Interface::Operator,
            ..Self::new(base)
        }
    }

    /// The same caller on another server, such as the same server after a restart.
    #[must_use]
    pub fn at(&self, base: &str) -> Self {
        Self {
            base: base.to_owned(),
            ..self.clone()
        }
    }

    /// The address of the server.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Begins a request.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("tests name methods");
        let request = self.client.request(method, format!("{}{path}", self.base));
        let header = match self.interface {
            Interface::Partners => "x-api-key",
            Interface::Operator => "x-operator-key",
        };
        match &self.key {
            Some(key) => request.header(header, key),
            None => request,
        }
    }

    /// Sends a request.
    pub async fn send(&self, request: RequestBuilder) -> Reply {
        let reply = self.try_send(request).await.expect("the server answers");
        assert!(
            reply.header("x-request-id").is_some(),
            "no x-request-id on {reply:?}"
        );
        reply
    }

    /// Like [`Self::send`], but returns an error if the server is gone.
    pub async fn try_send(&self, request: RequestBuilder) -> Result<Reply, reqwest::Error> {
        let (client, request) = request.build_split();
        let request = request?;
        let (method, url) = (request.method().clone(), request.url().clone());
        let body = request.body().and_then(|body| body.as_bytes());
        let body = String::from_utf8_lossy(body.unwrap_or_default()).into_owned();
        let path = url.as_str().strip_prefix(&self.base).unwrap_or_default();
        let response = client.execute(request).await?;
        let reply = Reply {
            asked: format!("{method} {path} {body:.200}"),
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await?.to_vec(),
        };
        // A page, a PDF or an archive has no schema.
        let content_type = reply.header("content-type").unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default();
        if !["text/html", "application/pdf", "application/zip"].contains(&media_type) {
            let (method, path) = (method.as_str(), url.path());
            interface::assert_answer(self.interface, method, path, reply.status, &reply.body);
        }
        if reply.status >= 400 {
            codes::assert_explained(reply.status, &reply.body);
        }
        Ok(reply)
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(self.request("GET", path)).await
    }

    /// Reads every row of a list, page by page; `path` must end where a further parameter can follow.
    pub async fn rows(&self, path: &str) -> Vec<Value> {
        let (mut rows, mut next) = (Vec::new(), path.to_owned());
        loop {
            let page = self.get(&next).await.ok(200);
            rows.extend(page.list("data").iter().cloned());
            match page["nextCursor"].as_str() {
                Some(cursor) => next = format!("{path}&cursor={cursor}"),
                None => return rows,
            }
        }
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Reply {
        self.send(self.request("DELETE", path)).await
    }

    /// POST without a body.
    pub async fn post_nothing(&self, path: &str) -> Reply {
        self.send(self.request("POST", path)).await
    }

    /// POST with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, body.to_string()).await
    }

    /// Makes an API key.
    pub async fn new_key(&self, body: &Value) -> Value {
        self.post("/v1/api-keys", body).await.ok(201)
    }

    /// PUT with a JSON body.
    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send_json("PUT", path, body.to_string()).await
    }

    /// PATCH with a JSON body.
    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send_json("PATCH", path, body.to_string()).await
    }

    /// A request with these bytes as its body, declared as JSON.
    pub async fn send_json(
        &self,
        method: &str,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> Reply {
        let request = self
            .request(method, path)
            .header("content-type", "application/json");
        self.send(request.body(body)).await
    }

    /// POST with these bytes as its body, declared as JSON.
    pub async fn post_text(&self, path: &str, body: impl Into<reqwest::Body>) -> Reply {
        self.send_json("POST", path, body).await
    }

    /// POST with a JSON body and an Idempotency-Key.
    pub async fn post_once(&self, path: &str, key: &str, body: &Value) -> Reply {
        let request = self
            .request("POST", path)
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        self.send(request.body(body.to_string())).await
    }
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The request and the answer, for whoever reads a failure.
    fn told(&self) -> String {
        format!("{}: {}", self.asked, self.text())
    }

    /// The body, if the answer has the expected status.
    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.told());
        self.json()
    }

    /// Asserts that the answer has this status, and this value of a header.
    #[track_caller]
    pub fn headed(&self, status: u16, name: &str, value: &str) -> &Self {
        let said = (self.status, self.header(name));
        assert_eq!(said, (status, Some(value)), "{name} of {}", self.told());
        self
    }

    /// Asserts that the answer is a refusal with this status and code.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> &Self {
        let said = (self.status, self.code());
        assert_eq!(said, (status, code.to_owned()), "{}", self.told());
        self
    }

    /// Asserts that exactly these places of the request are faulty, each given by pointer and code, and that each fault has
    /// a message and a fix.
    #[track_caller]
    pub fn faulty(&self, faults: &[(&str, &str)]) -> &Self {
        let details = self.details();
        let said = details.iter().map(|(at, code)| (&**at, &**code));
        let said: Vec<_> = said.collect();
        assert_eq!(
            (self.status, said.as_slice()),
            (400, faults),
            "{}",
            self.told()
        );
        for detail in self.json()["details"].as_array().into_iter().flatten() {
            for name in ["message", "fix"] {
                let length = detail[name].as_str().unwrap_or_default().len();
                assert!(length > 5, "{name} of {detail}: {}", self.asked);
            }
        }
        self
    }

    /// Asserts that the body contains these words.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        let text = self.text();
        for word in words {
            assert!(text.contains(word), "{word:?} in {}: {text}", self.asked);
        }
        self
    }

    /// Asserts that the answer is the remembered answer, byte for byte.
    #[track_caller]
    pub fn replays(&self, first: &Self) {
        let (own, other) = ((self.status, self.text()), (first.status, first.text()));
        assert_eq!(own, other, "{}", self.asked);
        let replayed = self.header("idempotent-replayed");
        assert_eq!(replayed, Some("true"), "{}", self.asked);
    }

    /// A string member of the body.
    #[track_caller]
    pub fn string(&self, name: &str) -> String {
        let value = self.json();
        let text = value[name].as_str();
        let text = text.unwrap_or_else(|| panic!("{}: no string {name} in {value}", self.asked));
        text.to_owned()
    }

    /// An error's code; empty if the body has none.
    pub fn code(&self) -> String {
        let code = &self.json()["code"];
        code.as_str().unwrap_or_default().to_owned()
    }

    /// Pointer and code of every detail of an error.
    pub fn details(&self) -> Vec<(String, String)> {
        let value = self.json();
        let details = value["details"].as_array().cloned().unwrap_or_default();
        let text = |detail: &Value, name: &str| detail[name].as_str().unwrap_or("?").to_owned();
        details
            .iter()
            .map(|detail| (text(detail, "pointer"), text(detail, "code")))
            .collect()
    }
}
