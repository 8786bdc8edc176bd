//! From a tool's arguments to its operation's request, and from the response back.
//!
//! The request goes through a router of its own, over the very endpoints of the HTTP interface: who is calling, what they
//! may, how often, what was asked before under the same key, and what is written into the log are theirs. Invariant:
//! nothing here knows any tool.

use std::sync::Arc;

use bookguard_core::error::Error;
use bookguard_core::ops::Route;
use poem::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use poem::http::{StatusCode, Uri};
use poem::{EndpointExt as _, Request};
use rmcp::model::Tool as Definition;

use super::MESSAGE_BYTES;
use super::arguments::Parts;
use super::tools::TABLE;
use super::verification::VerifyEvidence;
use crate::api::{self, Entry, endpoint::Served};
use crate::app::App;
use crate::documents;
use crate::refusal::{REQUEST_ID, Refusal};
use crate::router::{Router, Routes};

/// The tools, ready to be called.
pub(super) struct Tools {
    bound: Vec<Bound>,
    router: Router,
}

/// A tool and its operation.
struct Bound {
    definition: Definition,
    route: Route,
    /// Whether it takes an idempotency key.
    remembered: bool,
}

/// What an operation answered.
pub(super) struct Outcome {
    /// As over HTTP.
    pub(super) status: StatusCode,
    /// The JSON body, to the byte.
    pub(super) body: String,
}

impl Tools {
    /// The tools over the app's operations.
    pub(super) fn new(app: &Arc<App>) -> Self {
        let mut routes = Routes::new();
        let table = api::table();
        let entry = |id: &str| table.iter().find(|entry| entry.route.id == id);
        let mut bound = Vec::new();
        for tool in &TABLE {
            let (route, endpoint, remembered) = match entry(tool.operation) {
                Some(entry) => (entry.route, entry.endpoint(app), entry.is_remembered()),
                None => {
                    let served = Served::<VerifyEvidence>::new(Arc::clone(app), false, false);
                    let endpoint = served.reading(MESSAGE_BYTES).boxed();
                    (VERIFICATION, endpoint, false)
                }
            };
            let methods = routes.entry(Entry::pattern(&route)).or_default();
            methods.insert(Entry::method_of(&route), endpoint);
            bound.push(Bound {
                definition: tool.define(documents::openapi()),
                route,
                remembered,
            });
        }
        let clock = app.service.clock().clone();
        Self {
            bound,
            router: Router::new(routes, clock, app.report),
        }
    }

    /// As they are listed.
    pub(super) fn definitions(&self) -> Vec<Definition> {
        self.bound
            .iter()
            .map(|bound| bound.definition.clone())
            .collect()
    }

    /// Calls a tool for the caller of these headers; `None` when there is no such tool.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: &str,
        headers: &HeaderMap,
    ) -> Option<Outcome> {
        let bound = self
            .bound
            .iter()
            .find(|bound| bound.definition.name == name)?;
        let response = match bound.request(arguments, headers) {
            Ok(request) => self.router.respond(request).await,
            Err(error) => Refusal::from(error).respond(),
        };
        let status = response.status();
        let body = response.into_body().into_string().await.unwrap_or_default();
        Some(Outcome { status, body })
    }
}

impl Bound {
    /// The operation's request.
    fn request(&self, arguments: &str, headers: &HeaderMap) -> Result<Request, Error> {
        let parts = Parts::split(&self.route, self.remembered, arguments)?;
        let uri = Uri::try_from(parts.uri).map_err(|_| {
            Error::invalid(
                "query_too_long",
                "The arguments are longer than any of them can be.",
            )
        })?;
        let mut request = Request::builder()
            .method(Entry::method_of(&self.route))
            .uri(uri)
            .finish();
        let to = request.headers_mut();
        for name in [REQUEST_ID.as_str(), "x-api-key"] {
            for value in headers.get_all(name) {
                to.append(
                    poem::http::HeaderName::from_bytes(name.as_bytes())
                        .expect("both are lower-case names"),
                    value.clone(),
                );
            }
        }
        if let Some(key) = parts.idempotency_key {
            // One that can be no header is one the core refuses.
            let value = HeaderValue::try_from(key).unwrap_or(HeaderValue::from_static(""));
            to.insert("idempotency-key", value);
        }
        if let Some(body) = parts.body {
            to.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            to.insert(
                poem::http::header::CONTENT_LENGTH,
                HeaderValue::from(body.len()),
            );
            request.set_body(body);
        }
        Ok(request)
    }
}

/// The place of the tool that is in no table.
const VERIFICATION: Route = <VerifyEvidence as bookguard_core::ops::Operation>::ROUTE;
