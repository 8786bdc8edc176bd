//! A document as it is sent: its body, its entity tag, and the headers that all documents have.
//!
//! Invariant: no document lets a browser load, frame or send anything beyond this server.

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

use crate::answers::InMemory;
use crate::negotiation::{entity_tag, is_current};

/// The Content-Security-Policy of documents: a browser may load from this server only.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";
/// The same policy for a page whose style sheet contains its pictures as data.
pub(super) const POLICY_WITH_PICTURES: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; object-src 'none'";

/// A document with all its headers.
pub(super) struct ServedDocument {
    body: Bytes,
    headers: HeaderMap,
}

impl ServedDocument {
    /// Creates a document that clients revalidate at each use, which costs a 304.
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

    /// Sets a header.
    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Adds a Link header (RFC 8288). It is left out if the public address, as set by an embedder, cannot stand in a header:
    /// the document itself contains the links too.
    #[must_use]
    pub(super) fn linking(self, links: String) -> Self {
        match HeaderValue::try_from(links) {
            Ok(links) => self.with(LINK, links),
            Err(_) => self,
        }
    }

    /// Lets pages of every site read the document, and caches it for an hour, as MCP server discovery requires (Server Card
    /// extension, discovery: "CORS Requirements", "Caching").
    #[must_use]
    pub(super) fn for_every_origin(mut self) -> Self {
        self.headers.extend(every_origin());
        self.with(
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=3600"),
        )
    }

    /// Answers a request with these headers.
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
        // All answers share the bytes.
        response.extensions_mut().insert(InMemory(0));
        *response.headers_mut() = self.headers.clone();
        response
    }

    /// The body, for tests.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the documents are text")
    }
}

/// Serves the document that `make` returns. It is made at the first request, so that a server whose documents nobody reads does
/// not hold their megabytes.
pub(super) fn on_demand(
    make: impl Fn() -> ServedDocument + Send + Sync + 'static,
) -> BoxEndpoint<'static> {
    let made = OnceLock::new();
    make_sync(move |request: Request| made.get_or_init(&make).respond(request.headers())).boxed()
}

/// Serves a text or bytes of this program.
pub(super) fn fixed(
    content_type: &'static str,
    body: impl Into<Bytes> + Copy + Send + Sync + 'static,
) -> BoxEndpoint<'static> {
    on_demand(move || ServedDocument::new(content_type, body))
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

/// Checks that a page, the first of what is served, loads the others, and holds neither scripts nor styles itself.
#[cfg(test)]
pub(super) fn loads_what_is_served(page: &str, served: &[(&str, BoxEndpoint<'static>)]) {
    for (path, _) in &served[1..] {
        let path = &path[1..];
        assert!(page.contains(&format!("=\"{path}\"")), "{path}");
    }
    for inline in [
        "<style", "style=", "<script>", "onload", "http:", "https:", "//",
    ] {
        assert!(!page.contains(inline), "{inline}");
    }
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
