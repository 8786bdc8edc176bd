//! From a tool's arguments to its operation's request, and from the response back.
//!
//! The request goes through a router of its own, over the very endpoints of the HTTP interface: who is calling, what they
//! may, how often, what was asked before under the same key, and what is written into the log are theirs. Invariants:
//! nothing here knows any tool; a call that comes to no operation counts against its key's rate all the same.

use std::sync::{Arc, OnceLock};

use bookguard_core::error::Error;
use bookguard_core::limits::BODY_BYTES;
use bookguard_core::operation::Route;
use poem::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use poem::http::{StatusCode, Uri};
use poem::{EndpointExt as _, Request};
use rmcp::model::Tool as Definition;
use serde_json::Value;

use super::MESSAGE_BYTES;
use super::arguments::Parts;
use super::tools::{IDEMPOTENCY_KEY, TABLE};
use super::verification::VerifyEvidence;
use crate::api::{self, Entry, endpoint::Served};
use crate::app::{App, Tab, Turned};
use crate::incoming;
use crate::readers::ReadClass;
use crate::refusal::{REQUEST_ID, Refusal};
use crate::router::{Router, Routes};

/// The tools, ready to be called.
pub(super) struct Tools {
    app: Arc<App>,
    bound: Vec<Bound>,
    definitions: OnceLock<Vec<Definition>>,
    router: Router,
}

/// A tool and its operation.
struct Bound {
    name: &'static str,
    route: Route,
    /// Whether it takes an idempotency key.
    remembered: bool,
    /// The most bytes of its arguments.
    most: usize,
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
            let (route, endpoint, remembered, most) = match entry(tool.operation) {
                Some(entry) => (
                    entry.route,
                    entry.endpoint(app),
                    entry.is_remembered(),
                    BODY_BYTES,
                ),
                None => {
                    let served = Served::<VerifyEvidence>::new(Arc::clone(app), false, false);
                    let endpoint = served.reading(MESSAGE_BYTES).boxed();
                    (VERIFICATION, endpoint, false, MESSAGE_BYTES)
                }
            };
            let methods = routes.entry(Entry::pattern(&route)).or_default();
            methods.insert(Entry::method_of(&route), endpoint);
            bound.push(Bound {
                name: tool.name,
                route,
                remembered,
                most,
            });
        }
        let clock = app.service.clock().clone();
        Self {
            app: Arc::clone(app),
            bound,
            definitions: OnceLock::new(),
            router: Router::new(routes, clock, app.report),
        }
    }

    /// As they are listed. Made when first asked for: a server that no model uses does not hold their schemas.
    pub(super) fn definitions(&self) -> Vec<Definition> {
        let made = self.definitions.get_or_init(|| {
            let document = api::read_openapi();
            TABLE.iter().map(|tool| tool.define(&document)).collect()
        });
        made.clone()
    }

    /// Calls a tool for the caller of these headers; `None` when there is no such tool.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: &Arc<str>,
        headers: &HeaderMap,
        tab: &Arc<Tab>,
    ) -> Option<Outcome> {
        let mut bound = self.bound.iter();
        let bound = bound.find(|bound| bound.name == name);
        let route = bound.map_or(VERIFICATION, |bound| bound.route);
        let made = match bound {
            Some(bound) => self.split(bound, arguments, tab).await.map(Some),
            None => Ok(None),
        };
        let made = made.and_then(|parts| {
            Ok(parts
                .map(|parts| request(&route, parts, headers))
                .transpose()?)
        });
        let response = match made {
            Ok(Some(mut request)) => {
                request.extensions_mut().insert(Arc::clone(tab));
                self.router.respond(request).await
            }
            Ok(None) => self.admit(&route, headers).await.err()?.respond(),
            Err(refusal) => self
                .admit(&route, headers)
                .await
                .err()
                .unwrap_or(refusal)
                .respond(),
        };
        let status = response.status();
        let mut body = response.into_body().into_string().await.unwrap_or_default();
        if status == StatusCode::BAD_REQUEST {
            body = in_arguments(body);
        }
        Some(Outcome { status, body })
    }

    /// An answer's body and what it says, or a refusal's body. A large one is read where it may take its time.
    pub(super) async fn structured(
        &self,
        tab: &Arc<Tab>,
        body: String,
    ) -> Result<(String, Value), String> {
        let large = body.len() > BODY_BYTES;
        let read = move || match serde_json::from_str(&body) {
            Ok(said) => Ok((body, said)),
            Err(e) => Err(Error::internal(format!("our own answer is not JSON: {e}"))),
        };
        let read = match large {
            true => self.app.read(tab, ReadClass::Long, read).await,
            false => tab.at_once(read),
        };
        match read {
            Ok(read) => Ok(read),
            Err(error) => {
                let refused = Refusal::from(error).respond().into_body();
                Err(refused.into_string().await.unwrap_or_default())
            }
        }
    }

    /// Where the arguments go. Large ones are read where it may take its time.
    async fn split(
        &self,
        bound: &Bound,
        arguments: &Arc<str>,
        tab: &Arc<Tab>,
    ) -> Result<Parts, Refusal> {
        if arguments.len() > bound.most {
            return Err(incoming::too_large(bound.most));
        }
        let (route, remembered, text) = (bound.route, bound.remembered, Arc::clone(arguments));
        let split = move || Parts::split(&route, remembered, &text);
        let parts = match arguments.len() {
            0..=BODY_BYTES => split(),
            _ => self.app.read(tab, ReadClass::Long, split).await,
        };
        Ok(parts?)
    }

    /// Counts what comes to no operation, which would have counted it.
    ///
    /// # Errors
    /// As an operation refuses whoever calls it.
    async fn admit(&self, route: &Route, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut request = Request::default();
        request.headers_mut().clone_from(headers);
        match self.app.admit(route, &request).await {
            Ok(_) => Ok(()),
            Err(Turned { error, .. }) => Err(error.into()),
        }
    }
}

/// The operation's request.
fn request(route: &Route, parts: Parts, headers: &HeaderMap) -> Result<Request, Error> {
    let uri = Uri::try_from(parts.uri).map_err(|_| {
        Error::invalid(
            "query_too_long",
            "The arguments are longer than any valid arguments.",
        )
    })?;
    let mut request = Request::builder()
        .method(Entry::method_of(route))
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
        // One that cannot be a header is one the core refuses.
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

/// A refusal whose pointers are those of arguments, where it named a parameter of the query or a header.
fn in_arguments(mut body: String) -> String {
    // Within a string each quotation mark would have a backslash before it, so these are where a string begins.
    for member in ["message", "pointer"] {
        for (sign, argument) in [("?", ""), ("Idempotency-Key", IDEMPOTENCY_KEY)] {
            let (from, to) = (
                format!(r#""{member}":"{sign}"#),
                format!(r#""{member}":"/{argument}"#),
            );
            body = body.replace(&from, &to);
        }
    }
    body
}

/// The place of the tool that is in no table.
const VERIFICATION: Route = <VerifyEvidence as bookguard_core::operation::Operation>::ROUTE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_arguments_and_nothing_that_was_sent_is_touched() {
        for (told, expected) in [
            (
                r#"{"message":"?limit: is x","details":[{"pointer":"?limit"}]}"#,
                r#"{"message":"/limit: is x","details":[{"pointer":"/limit"}]}"#,
            ),
            (
                r#"{"message":"Idempotency-Key: must","details":[{"pointer":"Idempotency-Key"}]}"#,
                r#"{"message":"/idempotencyKey: must","details":[{"pointer":"/idempotencyKey"}]}"#,
            ),
            (
                r#"{"message":"/a: is \"message\":\"?b","details":[{"pointer":"/\"pointer\":\"?c"}]}"#,
                r#"{"message":"/a: is \"message\":\"?b","details":[{"pointer":"/\"pointer\":\"?c"}]}"#,
            ),
        ] {
            assert_eq!(in_arguments(told.to_owned()), expected);
        }
    }
}
