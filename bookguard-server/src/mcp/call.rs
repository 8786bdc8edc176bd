//! Calls a tool: its arguments become the operation's input, and the operation's answer is the tool's output.
//!
//! The operation is the one that HTTP calls. Authentication, permissions, rate limits and idempotency are handled in the same
//! place as for every other request. Invariants: this module knows no specific tool; a call that reaches no operation still
//! counts against its key's rate.

use std::sync::{Arc, OnceLock};

use bookguard_core::error::Error;
use bookguard_core::limits::BODY_BYTES;
use bookguard_core::operation::{IN_URL, Operation, Request, Route, StepFn, step};
use poem::http::StatusCode;
use poem::http::header::HeaderMap;
use rmcp::model::Tool as Definition;
use serde_json::value::{RawValue, to_raw_value};

use super::MESSAGE_BYTES;
use super::arguments::{self, IDEMPOTENCY_KEY};
use super::endpoint::Written;
use super::tools::{TABLE, Tool};
use super::verification::VerifyEvidence;
use crate::api;
use crate::api::call::{Caller, call};
use crate::app::{Admitted, App, RequestCost};
use crate::incoming;
use crate::readers::ReadClass;
use crate::refusal::{Fault, Refusal};
use crate::router::unwound;

/// The tools, bound to their operations.
pub(super) struct Tools {
    app: Arc<App>,
    bound: Vec<Bound>,
    /// The list of their definitions.
    definitions: OnceLock<Box<RawValue>>,
}

/// A tool and its operation.
struct Bound {
    name: &'static str,
    route: Route,
    step: StepFn,
    /// Whether to try the operation without the store first.
    from_memory: bool,
    /// Whether it takes an idempotency key.
    remembered: bool,
    /// The most bytes of its arguments.
    most: usize,
}

/// Why a tool's operation was not performed.
pub(super) struct ToolRefusal {
    /// The same status as over HTTP.
    pub(super) status: StatusCode,
    /// The same JSON body as over HTTP, except for where an argument stands.
    pub(super) body: String,
}

impl Tools {
    /// Binds the tools to the app's operations.
    pub(super) fn new(app: &Arc<App>) -> Self {
        let table = api::table();
        let entry = |id: &str| table.iter().find(|entry| entry.route.id == id);
        let bind = |tool: &Tool| match entry(tool.operation) {
            Some(entry) => Bound {
                name: tool.name,
                route: entry.route,
                step: entry.step,
                from_memory: entry.is_from_memory(app),
                remembered: entry.is_remembered(),
                most: BODY_BYTES,
            },
            None => Bound {
                name: tool.name,
                route: VERIFICATION,
                step: step::<VerifyEvidence>,
                from_memory: false,
                remembered: false,
                most: MESSAGE_BYTES,
            },
        };
        Self {
            app: Arc::clone(app),
            bound: TABLE.iter().map(bind).collect(),
            definitions: OnceLock::new(),
        }
    }

    /// The definitions for `tools/list`, written once. Made at the first request, so that a server that no model uses does not
    /// hold their schemas.
    pub(super) fn definitions(&self) -> Box<RawValue> {
        let made = self.definitions.get_or_init(|| {
            let document = api::read_openapi();
            let tools = TABLE.iter().map(|tool| tool.define(&document));
            let tools: Vec<Definition> = tools.collect();
            to_raw_value(&tools).expect("the definitions come from JSON")
        });
        made.clone()
    }

    /// Calls a tool for the caller identified by these headers, and returns its output as JSON; `None` if there is no such
    /// tool.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: &Arc<str>,
        headers: &HeaderMap,
        cost: &Arc<RequestCost>,
    ) -> Option<Result<String, ToolRefusal>> {
        let bound = self.bound.iter().find(|bound| bound.name == name);
        let route = bound.map_or(&VERIFICATION, |bound| &bound.route);
        let answer = async {
            let admitted = self.app.admit(route, headers, None, cost.payer()).await;
            let Admitted { session, .. } = admitted.map_err(|turned| turned.error)?;
            let Some(bound) = bound else {
                return Ok(None);
            };
            let input = self.input(bound, arguments, cost).await?;
            let caller = Caller {
                app: &self.app,
                session,
                cost,
                headers: Some(headers),
            };
            let finished = call(caller, bound.route.id, bound.step, input).await;
            let finished = finished.map_err(in_arguments)?;
            let body = String::from_utf8(finished.body.into())
                .map_err(|_| Error::internal("an answer of ours is not UTF-8"))?;
            Ok(Some(body))
        };
        let answer = cost.elsewhere(unwound(answer)).await;
        let answer = answer.unwrap_or_else(|panic| Err(Refusal::from(panic)));
        let answer = answer.map_err(|refusal| Self::refuse(refusal, cost));
        answer.transpose()
    }

    /// Writes an answer's body into the members of a result. A large body is written on a thread for long work.
    pub(super) async fn write(
        &self,
        body: String,
        members: impl FnOnce(String) -> serde_json::Result<Written> + Send + 'static,
        cost: &Arc<RequestCost>,
    ) -> Result<Written, ToolRefusal> {
        let large = body.len() > BODY_BYTES;
        let write = move || {
            let fault = |e| Error::internal(format!("our own answer is not JSON: {e}"));
            members(body).map_err(fault)
        };
        let written = match large {
            true => self.app.read(cost, ReadClass::Long, write).await,
            false => cost.at_once(write),
        };
        written.map_err(|error| Self::refuse(error.into(), cost))
    }

    /// Reads the operation's input. Large arguments are read on a thread for long work.
    async fn input(
        &self,
        bound: &Bound,
        arguments: &Arc<str>,
        cost: &Arc<RequestCost>,
    ) -> Result<Request, Refusal> {
        if arguments.len() > bound.most {
            return Err(incoming::too_large(bound.most));
        }
        let (route, remembered, text) = (bound.route, bound.remembered, Arc::clone(arguments));
        let read = move || arguments::read(&route, remembered, &text);
        let input = match arguments.len() {
            0..=BODY_BYTES => read(),
            _ => self.app.read(cost, ReadClass::Long, read).await,
        };
        Ok(Request {
            from_memory: bound.from_memory,
            ..input?
        })
    }

    /// Converts a refusal for the caller. The cause of an internal fault is logged.
    fn refuse(refusal: Refusal, cost: &RequestCost) -> ToolRefusal {
        let (status, body, fault) = refusal.say();
        if let Some(Fault(why)) = fault {
            cost.at_once(|| tracing::error!("a tool's call failed: {why}"));
        }
        ToolRefusal {
            status,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

/// Rewrites pointers to query parameters and the Idempotency-Key header as pointers to arguments.
fn in_arguments(mut error: Error) -> Error {
    for detail in &mut error.details {
        // A tool's caller writes no URL.
        detail.fix = detail.fix.replace(IN_URL, "");
    }
    let pointers = error.details.iter_mut().map(|detail| &mut detail.pointer);
    for text in pointers.chain([&mut error.message]) {
        for (sign, argument) in [("?", ""), ("Idempotency-Key", IDEMPOTENCY_KEY)] {
            if let Some(rest) = text.strip_prefix(sign) {
                *text = format!("/{argument}{rest}");
            }
        }
    }
    error
}

/// The route of the only tool that is not in the table of operations.
const VERIFICATION: Route = VerifyEvidence::ROUTE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_arguments_where_http_has_parameters_and_headers() {
        use bookguard_core::error::FieldError;
        for (pointer, expected) in [
            ("?limit", "/limit"),
            ("Idempotency-Key", "/idempotencyKey"),
            ("/talent/name", "/talent/name"),
            ("/a?b", "/a?b"),
        ] {
            let fix = format!("?{IN_URL}");
            let fault = FieldError::new(pointer, "code", "is ?x", fix);
            let told = in_arguments(Error::faults(vec![fault]));
            let detail = &told.details[0];
            assert_eq!(told.message, format!("{expected}: is ?x"));
            assert_eq!(
                (detail.pointer.as_str(), detail.fix.as_str()),
                (expected, "?")
            );
        }
    }
}
