//! The answers of operations: each its own success, and the refusals they share.

use bookguard_core::session::Access;
use poem_openapi::types::Type as _;
use serde_json::{Value, json};

use super::{JSON, component, examples, is_limited, links, schema, webhooks};
use crate::api::Entry;
use crate::refusal::{PROBLEM, Problem, Refused, Unauthorized};
use bookguard_core::input::Node;

/// Every refusal, and 304: its status, its name among the components, and what it means.
const SHARED: [(u16, &str, &str); 13] = [
    (
        304,
        "NotModified",
        "Nothing changed since the ETag that was sent.",
    ),
    (
        400,
        "BadRequest",
        "The request is not valid; `details` names every fault. So is a message without exactly one Host, or with more than \
         one Content-Type.",
    ),
    (401, "Unauthorized", "x-api-key is missing or invalid."),
    (403, "Forbidden", "The key is valid but may not do this."),
    (
        404,
        "NotFound",
        "Unknown to this key; another partner's answers the same.",
    ),
    (
        406,
        "NotAcceptable",
        "The Accept header excludes the media type of the answer.",
    ),
    (409, "Conflict", "The current state does not allow it."),
    (413, "ContentTooLarge", "The body is larger than 64 KiB."),
    (
        415,
        "UnsupportedMediaType",
        "The body is not plain application/json.",
    ),
    (
        422,
        "IdempotencyKeyReused",
        "The Idempotency-Key was used before with another request.",
    ),
    (429, "TooManyRequests", "Too many requests."),
    (
        500,
        "InternalServerError",
        "An internal error of the service.",
    ),
    (
        503,
        "ServiceUnavailable",
        "Not available now; nothing acknowledged is lost. Repeat with the same Idempotency-Key.",
    ),
];

/// Headers of answers: component, name, what it says, and its schema.
fn known_headers() -> [(&'static str, &'static str, &'static str, Value); 8] {
    let text = || json!({"type": "string"});
    [
        (
            "RequestId",
            "x-request-id",
            "Names this request in the service's log; a sane one that was sent is kept.",
            json!({"type": "string", "pattern": "^[!-~]{1,128}$"}),
        ),
        (
            "RateLimit",
            "RateLimit",
            "What is left of the limit and when it is whole again; absent where no limit is set.",
            text(),
        ),
        (
            "RateLimitPolicy",
            "RateLimit-Policy",
            "The limit; absent where none is set.",
            text(),
        ),
        (
            "RetryAfter",
            "Retry-After",
            "Seconds to wait before trying again.",
            json!({"type": "integer", "minimum": 0}),
        ),
        (
            "WwwAuthenticate",
            "WWW-Authenticate",
            "ApiKey, and why when a key was sent in another header than x-api-key.",
            json!({"type": "string", "pattern": "^ApiKey( |$)"}),
        ),
        ("ETag", "ETag", "Names this state of the answer.", text()),
        (
            "Location",
            "Location",
            "The address of what was made.",
            json!({"type": "string", "format": "uri-reference"}),
        ),
        (
            "IdempotentReplayed",
            "Idempotent-Replayed",
            "true when this is the answer of an earlier request with the same Idempotency-Key.",
            json!({"type": "string", "const": "true"}),
        ),
    ]
}

/// The headers, as components.
pub(super) fn headers() -> Node {
    Node::object(known_headers().map(|(component, _, description, schema)| {
        (
            component,
            Node::from(json!({"description": description, "schema": schema})),
        )
    }))
}

/// The refusals, as components.
pub(super) fn components() -> Node {
    let refusals = SHARED.map(|(status, name, description)| {
        let mut headers = vec!["RequestId"];
        match status {
            304 => headers.push("ETag"),
            401 => headers.push("WwwAuthenticate"),
            429 | 503 => headers.push("RetryAfter"),
            _ => {}
        }
        if !matches!(status, 401 | 500 | 503) {
            headers.extend(["RateLimit", "RateLimitPolicy"]);
        }
        let body = match status {
            304 => None,
            401 => Some(schema::reference(&Unauthorized::schema_ref())),
            _ => Some(schema::reference(&Refused::schema_ref())),
        };
        let body = body.map(|schema| refused(schema, examples::refusal(status)));
        (name.to_owned(), answer(description, &headers, body))
    });
    Node::object(refusals.into_iter().chain(webhooks::responses()))
}

/// The answers of an operation.
pub(super) fn of(entry: &Entry) -> Node {
    let route = &entry.route;
    let mut headers = vec!["RequestId"];
    if is_limited(route) {
        headers.extend(["RateLimit", "RateLimitPolicy"]);
    }
    if entry.is_remembered() {
        headers.push("IdempotentReplayed");
    }
    if entry.is_tagged() {
        headers.push("ETag");
    }
    if entry.located {
        headers.push("Location");
    }
    let body = schema::reference(&(entry.output.reference)());
    let example = examples::of(route.id, schema::name(&body));
    let mut success = answer(
        success_text(route.status),
        &headers,
        Some(content(body, example)),
    );
    let links = links::of(route.id);
    if !links.members().is_empty() {
        success.set("links", links);
    }
    let mut answers = vec![(route.status.to_string(), success)];
    if entry.is_tagged() {
        answers.push(shared(304));
    }
    answers.extend(refusals(entry).into_iter().map(shared));
    Node::object(answers)
}

/// An answer that stands among the components.
pub(super) fn shared(status: u16) -> (String, Node) {
    let name = SHARED
        .iter()
        .find(|(known, ..)| *known == status)
        .map(|(_, name, _)| *name);
    let name = name.expect("a test makes the document of every operation");
    (status.to_string(), component("responses", name))
}

/// An answer with these headers, named as the components are.
pub(super) fn answer(description: &str, headers: &[&str], content: Option<Node>) -> Node {
    let known = known_headers();
    let headers = headers.iter().map(|name| {
        let found = known.iter().find(|(known, ..)| known == name);
        let (_, header, ..) = found.expect("a test makes every answer");
        (*header, component("headers", name))
    });
    let mut answer = Node::object([
        ("description", description.into()),
        ("headers", Node::object(headers)),
    ]);
    if let Some(content) = content {
        answer.set("content", content);
    }
    answer
}

/// A JSON body.
pub(super) fn content(schema: Node, example: Option<Node>) -> Node {
    let mut body = Node::object([("schema", schema)]);
    if let Some(example) = example {
        body.set("example", example);
    }
    Node::object([(JSON, body)])
}

/// A refusal's body in both its forms.
fn refused(schema: Node, example: Option<Node>) -> Node {
    let mut content = content(schema, example);
    let problem = schema::reference(&Problem::schema_ref());
    content.set(PROBLEM, Node::object([("schema", problem)]));
    content
}

/// Every status a route may refuse with.
fn refusals(entry: &Entry) -> Vec<u16> {
    let route = &entry.route;
    let mut statuses = vec![400, 406, 413, 415, 500, 503];
    statuses.extend(route.refusals);
    match route.access {
        Access::Open => {}
        Access::AnyKey => statuses.push(401),
        Access::Scope(_) | Access::Administrator => statuses.extend([401, 403]),
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
