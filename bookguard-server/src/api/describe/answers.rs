//! The responses of operations: the success of each, and the refusals they share.

use bookguard_core::input::Json;
use bookguard_core::model::MediaType;
use bookguard_core::operation::Body;
use bookguard_core::session::Access;

use super::{Interface, JSON, component, examples, is_limited, schema, written};
use crate::api::OperationEntry;
use crate::media::{self, HTML};

/// The responses of an operation.
pub(super) fn of(entry: &OperationEntry, interface: Interface) -> Json {
    let route = &entry.route;
    let mut headers = vec![("x-request-id", "RequestId")];
    if is_limited(route) {
        headers.extend([
            ("RateLimit", "RateLimit"),
            ("RateLimit-Policy", "RateLimitPolicy"),
        ]);
    }
    if entry.is_remembered() {
        headers.push(("Idempotent-Replayed", "IdempotentReplayed"));
    }
    if entry.is_tagged() {
        headers.push(("ETag", "ETag"));
    }
    if entry.located {
        headers.push(("Location", "Location"));
    }
    if entry.sends_file || !entry.forms.is_empty() {
        headers.push(("Content-Disposition", "ContentDisposition"));
    }
    let headers = headers
        .into_iter()
        .map(|(header, name)| (header, component("headers", name)));
    let content = match entry.sends_file {
        true => stored_file(),
        false => {
            let body = schema::reference(&(entry.output.reference)());
            let example = examples::of(route.id, schema::name(&body));
            forms(entry, content(body, example))
        }
    };
    let mut success = Json::object([
        ("description", success_text(route.status).into()),
        ("headers", Json::object(headers)),
        ("content", content),
    ]);
    let links = written::links(route.id);
    if !links.members().is_empty() {
        success.set("links", links);
    }
    let mut answers = vec![(route.status.to_string(), success)];
    let unchanged = entry.is_tagged().then_some(304);
    let refusals = refusals(entry, interface);
    let takes_file = matches!(entry.route.body, Body::File);
    let shared = |status| shared(status, takes_file);
    answers.extend(unchanged.into_iter().chain(refusals).map(shared));
    Json::object(answers)
}

/// A reference to a response among the components. A file is refused for other reasons than JSON is.
fn shared(status: u16, takes_file: bool) -> (String, Json) {
    let status = status.to_string();
    let named = |part| written::part(part).get(&status);
    let of_file = takes_file.then(|| named("fileStatuses")).flatten();
    let name = of_file.or_else(|| named("statuses"));
    let name = name.and_then(Json::as_str);
    let name = name.expect("a test makes the document of every operation");
    let shared = component("responses", name);
    (status, shared)
}

/// A JSON body.
pub(super) fn content(schema: Json, example: Option<Json>) -> Json {
    let mut body = Json::object([("schema", schema)]);
    if let Some(example) = example {
        body.set("example", example);
    }
    Json::object([(JSON, body)])
}

/// The bytes of a file.
pub(super) fn bytes() -> Json {
    Json::object([(media::BYTES, Json::object([("schema", binary())]))])
}

/// A stored file, under each media type that may be told from its bytes. Generators of clients take the first one that they
/// know, and leave out an answer that is only `*/*`.
fn stored_file() -> Json {
    Json::object(MediaType::ALL.map(|kind| {
        // The document names no character sets.
        let name = kind.name().split(';').next().unwrap_or_default();
        (name, Json::object([("schema", binary())]))
    }))
}

/// The schema of what is not text.
fn binary() -> Json {
    Json::object([("type", "string".into()), ("format", "binary".into())])
}

/// The contents of an answer: its JSON, and the forms it also has.
fn forms(entry: &OperationEntry, mut content: Json) -> Json {
    for form in entry.forms {
        let schema = match form.media_type {
            HTML => Json::object([("type", "string".into())]),
            _ => binary(),
        };
        content.set(form.media_type, Json::object([("schema", schema)]));
    }
    content
}

/// Every status a route may refuse with.
fn refusals(entry: &OperationEntry, interface: Interface) -> Vec<u16> {
    let route = &entry.route;
    let mut statuses = vec![400, 413, 415, 500, 503];
    // A file has the media type that it has.
    if !entry.sends_file {
        statuses.push(406);
    }
    if !matches!(route.body, Body::None) {
        statuses.push(408);
    }
    statuses.extend(route.refusals);
    match route.access {
        Access::Open if interface.opens(route) => {}
        Access::Open => statuses.extend([401, 429]),
        Access::AnyKey => statuses.push(401),
        Access::Scope(_) | Access::Administrator | Access::Database => {
            statuses.extend([401, 403]);
        }
    }
    if is_limited(route) {
        statuses.push(429);
    }
    if entry.is_remembered() {
        statuses.push(422);
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

fn success_text(status: u16) -> &'static str {
    match status {
        201 => "Created; the answer is the new object.",
        202 => "Accepted; the answer says how far it is, and the work continues by itself.",
        _ => "Done.",
    }
}
