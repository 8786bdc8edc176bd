//! What is served besides operations: the interface document, the policies' JSON Schema, llms.txt, Swagger UI, and the
//! ledger for mirrors.
//!
//! The document is made from the table of operations once per process. Invariant: `/openapi.json`,
//! `/api/openapi.json` and `bookguard openapi` give the same bytes.

mod ledger;
mod llms;

use std::sync::{Arc, LazyLock, OnceLock};

use bookguard_core::policy;
use poem::endpoint::{BoxEndpoint, make_sync};
use poem::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
};
use poem::http::{Method, StatusCode};
use poem::{EndpointExt as _, Request, Response};
use poem_openapi::OpenApiService;
use serde_json::Value;

use crate::api;
use crate::api::endpoint::{entity_tag, is_current};
use crate::app::App;
use crate::router::Routes;

static OPENAPI: LazyLock<String> = LazyLock::new(|| api::document(&api::table()));
static PARSED: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(&OPENAPI).expect("what was written from a tree of JSON reads as JSON")
});

/// The OpenAPI 3.1 document, exactly as it is served and checked in.
pub fn openapi_json() -> &'static str {
    &OPENAPI
}

/// The same, read. Its schemas are JSON Schema 2020-12; what they refer to is under `/components/schemas`.
pub fn openapi() -> &'static Value {
    &PARSED
}

/// Swagger UI with the document in it.
fn docs() -> String {
    let empty = OpenApiService::new((), "Bookguard", "");
    empty
        .swagger_ui_html()
        .replacen(&empty.spec(), openapi_json(), 1)
}

/// A document as it leaves, with its tag.
struct Document {
    body: bytes::Bytes,
    etag: HeaderValue,
    content_type: &'static str,
}

impl Document {
    /// Serves what `make` gives. It is made when first asked for: a server nobody reads the documents of does not
    /// hold their megabytes.
    fn endpoint<T: Into<bytes::Bytes>>(
        content_type: &'static str,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> BoxEndpoint<'static> {
        let made = OnceLock::new();
        make_sync(move |request: Request| {
            let document: &Self = made.get_or_init(|| {
                let body = make().into();
                Self {
                    etag: entity_tag(&body),
                    body,
                    content_type,
                }
            });
            document.respond(request.headers())
        })
        .boxed()
    }

    fn respond(&self, asked: &HeaderMap) -> Response {
        let mut response = if is_current(&self.etag, asked) {
            Response::from(StatusCode::NOT_MODIFIED)
        } else {
            Response::from(self.body.clone())
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(ETAG, self.etag.clone());
        if self.content_type.starts_with("text/html") {
            // Swagger UI is one page with everything in it; whatever would call outside is refused by the browser.
            let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        }
        response
    }
}

/// Adds every path that is no operation.
pub(crate) fn add_routes(app: &Arc<App>, routes: &mut Routes) {
    let mut get = |path: &str, endpoint| {
        routes
            .entry(path.to_owned())
            .or_default()
            .insert(Method::GET, endpoint)
    };
    for path in ["/openapi.json", "/api/openapi.json"] {
        get(path, Document::endpoint("application/json", openapi_json));
    }
    get(
        "/policy.schema.json",
        Document::endpoint("application/schema+json", || policy::SCHEMA),
    );
    let service = Arc::clone(&app.service);
    let llms = move || llms::text(&api::table(), service.public_url(), service.registration());
    get(
        "/llms.txt",
        Document::endpoint("text/plain; charset=utf-8", llms),
    );
    get(
        "/docs",
        Document::endpoint("text/html; charset=utf-8", docs),
    );
    ledger::add_routes(app, &mut get);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn operations(document: &Value) -> Vec<(String, String, Value)> {
        let paths = document["paths"].as_object().unwrap();
        let all = paths.iter().flat_map(|(path, methods)| {
            methods
                .as_object()
                .unwrap()
                .iter()
                .map(move |(method, op)| (path.clone(), method.clone(), op.clone()))
        });
        all.collect()
    }

    #[test]
    fn the_checked_in_document_is_the_one_served() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openapi/openapi.json");
        if std::env::var_os("BOOKGUARD_UPDATE").is_some() {
            std::fs::write(&path, openapi_json()).unwrap();
        }
        let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == openapi_json(),
            "openapi/openapi.json is out of date; run this test with BOOKGUARD_UPDATE=1"
        );
    }

    #[test]
    fn the_document_names_every_operation_of_the_specification() {
        let document = openapi();
        assert_eq!(document["info"]["version"], "0.1.0");
        for (method, path) in [
            ("get", "/v1/health"),
            ("post", "/v1/partners/register"),
            ("post", "/v1/api-keys"),
            ("post", "/v1/bookings"),
            ("get", "/v1/bookings/{bookingId}"),
            ("post", "/v1/bookings/{bookingId}/protect"),
            ("get", "/v1/bookings/{bookingId}/webhook-events"),
            ("post", "/v1/webhook-events/{eventId}/retry"),
            ("get", "/v1/bookings/{bookingId}/policy-evaluation"),
        ] {
            assert!(
                document["paths"][path][method].is_object(),
                "{method} {path}"
            );
        }
    }

    #[test]
    fn every_refusal_has_its_schema_and_every_closed_route_its_security() {
        let open = [
            "getHealth",
            "registerPartner",
            "getLedgerCheckpoint",
            "getLedgerKey",
            "getLedgerTile",
        ];
        let document = openapi();
        for (path, method, operation) in operations(document) {
            let id = operation["operationId"].as_str().unwrap();
            assert_eq!(
                operation["security"].as_array().unwrap().is_empty(),
                open.contains(&id),
                "{method} {path}"
            );
            assert_eq!(
                operation["responses"]["401"].is_object(),
                !open.contains(&id),
                "{method} {path}"
            );
            for (status, response) in operation["responses"].as_object().unwrap() {
                let response = match response["$ref"].as_str() {
                    Some(name) => document.pointer(&name[1..]).unwrap(),
                    None => response,
                };
                let content = response["content"].as_object();
                assert!(
                    content.is_none_or(|types| types.keys().all(|name| !name.contains(';'))),
                    "{path} {status}"
                );
                let schema = &response["content"]["application/json"]["schema"]["$ref"];
                match status.as_str() {
                    "401" => assert_eq!(schema, "#/components/schemas/Unauthorized"),
                    refusal if refusal >= "400" => {
                        assert_eq!(schema, "#/components/schemas/Error", "{path} {status}")
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn swagger_ui_refers_to_no_outside_host() {
        let page = docs();
        assert!(page.contains(openapi_json()));
        for mark in [
            "<script src",
            "<link",
            "<img src=\"http",
            "@import",
            "url(http",
        ] {
            assert!(!page.contains(mark), "{mark}");
        }
    }
}
