//! Writes the table of operations as OpenAPI 3.1. The content comes from the operations' routes and types; what they do not
//! express is in `written`.
//!
//! What many operations share is written once, among the components. Invariant: the text is the same on every machine and for
//! every configuration, so the document that is checked in is the one that is served.

mod answers;
mod examples;
mod layout;
mod members;
mod parameters;
mod schema;
#[cfg(test)]
mod tests;
mod written;

use bookguard_core::operation::{Body, Method, Route};
use bookguard_core::session::Access;
use serde_json::json;

use super::OperationEntry;
use bookguard_core::input::Json;

/// The version of the interface, which is not the program's.
pub(crate) const INTERFACE_VERSION: &str = "0.1.0";
const DESCRIPTION: &str = "Evidence and protection for bookings: record a booking, lock it into a tamper-evident ledger, receive signed \
    webhooks, and know what a cancellation would mean. Amounts are exact decimals; times are UTC.";
const SECURITY: &str = "ApiKey";
const JSON: &str = "application/json";

/// The interface document.
pub(crate) fn document(table: &[OperationEntry]) -> String {
    let info = json!({
        "title": "Bookguard",
        "version": INTERFACE_VERSION,
        "description": DESCRIPTION,
        "contact": {"name": "The operator of the service"},
        "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
    });
    // Relative to the document's own address, so that it is the same wherever the service runs.
    let servers = json!([{"url": "/", "description": "The service this document came from."}]);
    let document = Json::object([
        ("openapi", "3.1.0".into()),
        ("info", info.into()),
        ("servers", servers.into()),
        ("tags", written::part("tags").clone()),
        ("paths", paths(table)),
        ("webhooks", written::part("webhooks").clone()),
        ("components", components(table)),
    ]);
    layout::text(&document)
}

fn paths(table: &[OperationEntry]) -> Json {
    let mut paths: Vec<(String, Json)> = Vec::new();
    for entry in table {
        let path = entry.route.path;
        let method = entry.route.method.word().to_lowercase();
        let operation = operation(entry);
        match paths.iter_mut().find(|(known, _)| known == path) {
            Some((_, operations)) => operations.set(&method, operation),
            None => paths.push((path.to_owned(), Json::object([(method, operation)]))),
        }
    }
    paths.extend(written::members("paths"));
    Json::Object(paths)
}

fn components(table: &[OperationEntry]) -> Json {
    let security = json!({SECURITY: {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "A key of the partner, for server-side use only.",
    }});
    Json::object([
        ("securitySchemes", security.into()),
        ("parameters", parameters::components(table)),
        ("headers", written::part("headers").clone()),
        ("responses", written::part("responses").clone()),
        ("schemas", Json::Object(schema::components(table))),
    ])
}

fn operation(entry: &OperationEntry) -> Json {
    let route = &entry.route;
    let mut operation = Json::object([
        ("operationId", route.id.into()),
        ("tags", Json::array([route.tag])),
        ("summary", route.summary.into()),
        ("description", description(route).as_str().into()),
    ]);
    let security = match route.access {
        Access::Open => json!([]),
        _ => json!([{SECURITY: []}]),
    };
    operation.set("security", security.into());
    let parameters = parameters::of(entry);
    if !parameters.is_empty() {
        operation.set("parameters", Json::Array(parameters));
    }
    if let Some(body) = route.body.declaration() {
        let schema = component("schemas", body.name);
        let content = answers::content(schema, Some(Json::parse(body.example)));
        let required = matches!(route.body, Body::Required(_));
        let body = [("required", required.into()), ("content", content)];
        operation.set("requestBody", Json::object(body));
    }
    if let Body::File = route.body {
        let body = [("required", true.into()), ("content", answers::bytes())];
        operation.set("requestBody", Json::object(body));
    }
    operation.set("responses", answers::of(entry));
    operation
}

/// The route's words and the scope it asks for.
fn description(route: &Route) -> String {
    match route.access {
        Access::Scope(scope) => format!("{}\n\nScope: `{}`.", route.description, scope.word()),
        Access::Open | Access::AnyKey | Access::Administrator => route.description.to_owned(),
    }
}

/// Whether a rate limit counts the route's requests.
fn is_limited(route: &Route) -> bool {
    route.access != Access::Open || route.method != Method::Get
}

/// `{"$ref": …}` to a component.
fn component(kind: &str, name: &str) -> Json {
    Json::object([(
        "$ref",
        format!("#/components/{kind}/{name}").as_str().into(),
    )])
}
