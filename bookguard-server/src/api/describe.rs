//! How the table of operations reads as OpenAPI. Everything said here comes from the operations' own routes and
//! types; the ledger's paths, which answer text and bytes, are added by hand.

mod ledger;

use bookguard_core::limits;
use bookguard_core::ops::{Body, Method, QueryParam, Route};
use bookguard_core::session::Access;
use poem_openapi::registry::{
    MetaApi, MetaHeader, MetaMediaType, MetaOperation, MetaOperationParam, MetaParamIn, MetaPath,
    MetaRequest, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, MetaSecurityScheme,
    MetaTag, Registry,
};
use poem_openapi::types::Type;

use super::{Entry, Schema};
use crate::refusal::{Refused, Unauthorized};

const SECURITY: &str = "ApiKey";
const LEDGER: &str = "Ledger";
const JSON: &str = "application/json";

/// What the groups of operations are about.
const TAGS: [(&str, &str); 8] = [
    ("Service", "Whether the service can do its work."),
    ("Partners", "Registration and the partner's own record."),
    (
        "API keys",
        "Keys are shown once, hold scopes, and are sent in the header x-api-key.",
    ),
    ("Bookings", "Record, read, protect and evaluate bookings."),
    (
        "Policies",
        "What a cancellation means: your own policies and their versions, the library's, and checking one.",
    ),
    (
        "Cancellation",
        "Cancel bookings, read what that came to, and decide what was left to a person.",
    ),
    (
        "Webhooks",
        "Where events are sent, what was sent, and sending it once more.",
    ),
    (
        LEDGER,
        "The tamper-evident log, as any C2SP tlog-tiles client mirrors and monitors it. Open to everybody.",
    ),
];

pub(super) fn api(table: &[Entry]) -> MetaApi {
    let mut paths: Vec<MetaPath> = Vec::new();
    for entry in table {
        let path = entry.route.path;
        let operation = operation(entry);
        match paths.iter_mut().find(|known| known.path == path) {
            Some(known) => known.operations.push(operation),
            None => paths.push(MetaPath {
                path: path.to_owned(),
                operations: vec![operation],
            }),
        }
    }
    paths.extend(ledger::paths());
    MetaApi { paths }
}

pub(super) fn register(table: &[Entry], registry: &mut Registry) {
    for (name, description) in TAGS {
        registry.create_tag(MetaTag {
            name,
            description: Some(description),
            external_docs: None,
        });
    }
    registry.create_security_scheme(
        SECURITY,
        MetaSecurityScheme {
            ty: "apiKey",
            description: Some("A key of the partner, for server-side use only."),
            name: Some("x-api-key"),
            key_in: Some("header"),
            scheme: None,
            bearer_format: None,
            flows: None,
            openid_connect_url: None,
        },
    );
    Refused::register(registry);
    Unauthorized::register(registry);
    for entry in table {
        (entry.output.register)(registry);
        if let Some(body) = entry.body {
            (body.register)(registry);
        }
    }
}

fn operation(entry: &Entry) -> MetaOperation {
    let route = &entry.route;
    MetaOperation {
        method: entry.method(),
        tags: vec![route.tag],
        summary: Some(route.summary),
        description: Some(description(route)),
        external_docs: None,
        params: parameters(entry),
        request: entry.body.map(|body| MetaRequest {
            description: None,
            content: vec![MetaMediaType {
                content_type: JSON,
                schema: (body.reference)(),
            }],
            required: route.body == Body::Required,
        }),
        responses: MetaResponses {
            responses: responses(entry),
        },
        deprecated: false,
        security: if route.access == Access::Open {
            Vec::new()
        } else {
            vec![[(SECURITY, Vec::new())].into()]
        },
        operation_id: Some(route.id),
        code_samples: Vec::new(),
    }
}

/// The route's words and the scope it asks for.
fn description(route: &Route) -> &'static str {
    match route.access {
        Access::Scope(scope) => {
            // The document is made once per process, and its types want text that lives as long.
            let text = format!("{}\n\nScope: `{}`.", route.description, scope.word());
            Box::leak(text.into_boxed_str())
        }
        Access::Open | Access::AnyKey | Access::Administrator => route.description,
    }
}

fn parameters(entry: &Entry) -> Vec<MetaOperationParam> {
    let route = &entry.route;
    let in_path = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<MetaOperationParam> = in_path
        .map(|name| {
            parameter(
                name,
                MetaParamIn::Path,
                "The id.",
                MetaSchema::new("string"),
            )
        })
        .collect();
    parameters.extend(route.query.iter().map(query_parameter));
    if entry.is_remembered() {
        let description = "Makes repeating safe: for 24 hours the same key with the same request gets the same answer and happens once.";
        let schema = MetaSchema {
            min_length: Some(match route.access {
                Access::Open => limits::IDEMPOTENCY_KEY_CHARS_OPEN,
                _ => 1,
            }),
            max_length: Some(limits::IDEMPOTENCY_KEY_CHARS),
            ..MetaSchema::new("string")
        };
        parameters.push(parameter(
            "Idempotency-Key",
            MetaParamIn::Header,
            description,
            schema,
        ));
    }
    if entry.is_tagged() {
        let description = "An ETag from before: 304 while nothing changed.";
        parameters.push(parameter(
            "If-None-Match",
            MetaParamIn::Header,
            description,
            MetaSchema::new("string"),
        ));
    }
    parameters
}

fn query_parameter(known: &QueryParam) -> MetaOperationParam {
    let schema = match known.name {
        "limit" => MetaSchema {
            minimum: Some(1.0),
            maximum: Some(100.0),
            ..MetaSchema::new("integer")
        },
        "matrix" => MetaSchema::new("boolean"),
        "agreedRefund" => MetaSchema::new("number"),
        "evidence" => MetaSchema {
            minimum: Some(0.0),
            maximum: Some(20.0),
            ..MetaSchema::new("integer")
        },
        "asOf" | "eventFrom" | "eventTo" => MetaSchema::new_with_format("string", "date-time"),
        _ => MetaSchema::new("string"),
    };
    parameter(known.name, MetaParamIn::Query, known.description, schema)
}

fn parameter(
    name: &str,
    in_type: MetaParamIn,
    description: &str,
    schema: MetaSchema,
) -> MetaOperationParam {
    MetaOperationParam {
        name: name.to_owned(),
        schema: MetaSchemaRef::Inline(Box::new(schema)),
        in_type,
        description: Some(description.to_owned()),
        required: in_type == MetaParamIn::Path,
        deprecated: false,
        explode: true,
        style: None,
    }
}

fn responses(entry: &Entry) -> Vec<MetaResponse> {
    let route = &entry.route;
    let mut success = answer(
        route.status,
        success_text(route.status),
        Some(&entry.output),
        route,
    );
    if entry.is_remembered() {
        success.headers.push(header(
            "Idempotent-Replayed",
            "true when this is the answer of an earlier request with the same Idempotency-Key.",
        ));
    }
    let mut responses = vec![success];
    if entry.is_tagged() {
        responses[0]
            .headers
            .push(header("ETag", "Names this state of the answer."));
        responses.push(answer(
            304,
            "Nothing changed since the ETag that was sent.",
            None,
            route,
        ));
    }
    responses.extend(refusals(entry).into_iter().map(|status| {
        let schema = if status == 401 {
            Schema::of::<Unauthorized>()
        } else {
            Schema::of::<Refused>()
        };
        answer(status, refusal_text(status), Some(&schema), route)
    }));
    responses
}

fn answer(
    status: u16,
    description: &'static str,
    schema: Option<&Schema>,
    route: &Route,
) -> MetaResponse {
    let mut headers = vec![header(
        "x-request-id",
        "Names this request in the service's log; a sane one that was sent is kept.",
    )];
    match status {
        401 => headers.push(header("WWW-Authenticate", "Always ApiKey.")),
        429 | 503 => headers.push(header(
            "Retry-After",
            "Seconds to wait before trying again.",
        )),
        _ => {}
    }
    let limited = route.access != Access::Open || route.method != Method::Get;
    if limited && !matches!(status, 401 | 500 | 503) {
        headers.push(header(
            "RateLimit",
            "What is left of the limit and when it is whole again; absent where no limit is set.",
        ));
        headers.push(header(
            "RateLimit-Policy",
            "The limit; absent where none is set.",
        ));
    }
    let content = schema.map(|schema| MetaMediaType {
        content_type: JSON,
        schema: (schema.reference)(),
    });
    MetaResponse {
        description,
        status: Some(status),
        status_range: None,
        content: content.into_iter().collect(),
        headers,
    }
}

fn header(name: &str, description: &str) -> MetaHeader {
    MetaHeader {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        required: false,
        deprecated: false,
        schema: MetaSchemaRef::Inline(Box::new(MetaSchema::new("string"))),
    }
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
    if route.access != Access::Open || route.method != Method::Get {
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
        201 => "Done; the answer is what was made.",
        202 => "Accepted; the answer is how far it has come, and it goes on by itself.",
        _ => "Done.",
    }
}

fn refusal_text(status: u16) -> &'static str {
    match status {
        400 => "The request is not as it must be; `details` names every fault.",
        401 => "x-api-key is missing or invalid.",
        403 => "The key is valid but may not do this.",
        404 => "Unknown to this key; another partner's answers the same.",
        406 => "The Accept header excludes application/json.",
        409 => "The state of things does not allow it.",
        413 => "The body is larger than 64 KiB.",
        415 => "The body is not plain application/json.",
        422 => "The Idempotency-Key was used before with another request.",
        429 => "Too many requests.",
        503 => "Not now; nothing is known to be lost. Repeat with the same Idempotency-Key.",
        _ => "A fault of the service.",
    }
}
