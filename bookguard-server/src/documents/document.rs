//! One document as it leaves: its body, its tag, and the headers that all documents have.
//!
//! What is in a document is its own module's; who may ask for it is the router's. Invariant: nothing that is served here
//! lets a browser load, frame or send anything beyond this server.

use std::sync::OnceLock;

use bytes::Bytes;
use poem::endpoint::{BoxEndpoint, make_sync};
use poem::http::StatusCode;
use poem::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LINK, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use poem::{EndpointExt as _, Request, Response};

use crate::api::endpoint::{entity_tag, is_current};

/// What a browser may do on behalf of a document: read from this server, and nothing else.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";
/// The same for a page whose style sheet draws with pictures that it holds itself.
pub(super) const POLICY_WITH_PICTURES: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; object-src 'none'";

/// A document with all its headers.
pub(super) struct ServedDocument {
    body: Bytes,
    headers: HeaderMap,
}

impl ServedDocument {
    /// A document that is asked about each time it is used: an answer 304 is all that costs.
    pub(super) fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (ETAG, entity_tag(&body)),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        ]);
        Self { body, headers }
    }

    /// The same with a header more, or another value of one.
    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The same with a Link header (RFC 8288). Where the public address was set by an embedder to what no header can hold,
    /// it is left out: the document says the same in its text.
    #[must_use]
    pub(super) fn linking(self, links: String) -> Self {
        match HeaderValue::try_from(links) {
            Ok(links) => self.with(LINK, links),
            Err(_) => self,
        }
    }

    /// The same for the pages of every site to read, and kept for an hour: what the discovery of MCP servers asks for
    /// (Server Card extension, discovery: "CORS Requirements", "Caching").
    #[must_use]
    pub(super) fn for_every_origin(mut self) -> Self {
        self.headers.extend(every_origin());
        self.with(
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=3600"),
        )
    }

    /// The answer to a request with these headers.
    pub(super) fn respond(&self, asked: &HeaderMap) -> Response {
        let current = self
            .headers
            .get(ETAG)
            .is_some_and(|etag| is_current(etag, asked));
        let mut response = if current {
            Response::from(StatusCode::NOT_MODIFIED)
        } else {
            Response::from(self.body.clone())
        };
        *response.headers_mut() = self.headers.clone();
        response
    }

    /// The body, for tests of what is in it.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the documents are text")
    }
}

/// Serves what `make` gives. It is made when first asked for: a server nobody reads the documents of does not hold
/// their megabytes.
pub(super) fn on_demand(
    make: impl Fn() -> ServedDocument + Send + Sync + 'static,
) -> BoxEndpoint<'static> {
    let made = OnceLock::new();
    make_sync(move |request: Request| made.get_or_init(&make).respond(request.headers())).boxed()
}

/// Answers a browser that asks whether a page of another site may read the document (Fetch, "CORS-preflight request").
pub(super) fn preflight() -> BoxEndpoint<'static> {
    make_sync(|_| {
        let mut response = Response::from(StatusCode::NO_CONTENT);
        response.headers_mut().extend(every_origin());
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
        response
    })
    .boxed()
}

fn every_origin() -> [(HeaderName, HeaderValue); 3] {
    [
        (ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
        (
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET"),
        ),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("Content-Type"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use poem::http::header::IF_NONE_MATCH;

    use super::*;

    #[test]
    fn a_document_that_is_known_is_not_sent_again_and_keeps_its_headers() {
        let document = ServedDocument::new("text/plain", "a").for_every_origin();
        let first = document.respond(&HeaderMap::new());
        let etag = first.headers()[ETAG].clone();
        let again = document.respond(&HeaderMap::from_iter([(IF_NONE_MATCH, etag)]));
        assert_eq!(
            (first.status(), again.status()),
            (StatusCode::OK, StatusCode::NOT_MODIFIED)
        );
        assert_eq!(first.headers(), again.headers());
        let other = ServedDocument::new("text/plain", "b");
        let other = other.respond(&HeaderMap::from_iter([(
            IF_NONE_MATCH,
            first.headers()[ETAG].clone(),
        )]));
        assert_eq!(other.status(), StatusCode::OK);
    }

    #[test]
    fn neither_policy_lets_anything_in_from_elsewhere_or_inline() {
        for policy in [POLICY, POLICY_WITH_PICTURES] {
            assert!(policy.starts_with("default-src 'self';"), "{policy}");
            for word in ["unsafe", "http", "*", "blob:"] {
                assert!(!policy.contains(word), "{policy}");
            }
        }
    }
}
