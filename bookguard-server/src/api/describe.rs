//! Writes the table of operations as OpenAPI 3.1. The content comes from the operations' routes and types; what they do not
//! express is in `written`.
//!
//! What many operations share is written once, among the components. Invariant: the text depends on nothing but the path under
//! which callers reach the service, so at the root of a host the document that is checked in is the one that is served.

mod answers;
mod examples;
pub(crate) mod layout;
mod members;
mod parameters;
mod schema;
#[cfg(test)]
mod tests;
mod written;

use bookguard_core::model::{Noun as _, id_pattern, noun};
use bookguard_core::operation::{Body, Method, Route};
use bookguard_core::session::Access;
use serde_json::json;

use super::OperationEntry;
use crate::media::JSON;
use bookguard_core::input::Json;

/// The version of the interface, which is not the program's.
pub(crate) const INTERFACE_VERSION: &str = "0.1.0";
const DESCRIPTION: &str = "Evidence and protection for bookings: record a booking, lock it into a tamper-evident ledger, receive signed \
    webhooks, and know what a cancellation would mean. Amounts are exact decimals; times are UTC.";
const OPERATORS: &str = "The operator interface of Bookguard: every operation of the partners' interface, acting for the partner that \
    the header x-partner-id names, and those of the operator alone.";

/// Whose interface is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interface {
    /// The partners'.
    Partners,
    /// The operator's.
    Operator,
}

impl Interface {
    /// The name of the way in which callers identify themselves.
    fn security(self) -> &'static str {
        match self {
            Self::Partners => "ApiKey",
            Self::Operator => "OperatorKey",
        }
    }

    /// Whether anybody may call a route.
    fn opens(self, route: &Route) -> bool {
        route.access == Access::Open && (self == Self::Partners || route.method == Method::Get)
    }
}

/// The interface document of a service that callers reach under `base_path`, which is empty at the root of a host.
pub(crate) fn document(table: &[OperationEntry], interface: Interface, base_path: &str) -> String {
    let (title, description) = match interface {
        Interface::Partners => ("Bookguard", DESCRIPTION),
        Interface::Operator => ("Bookguard for its operator", OPERATORS),
    };
    let info = json!({
        "title": title,
        "version": INTERFACE_VERSION,
        "description": description,
        "contact": {"name": "The operator of the service"},
        "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
    });
    // Relative to the document's own host, so that it is the same wherever the service runs.
    let address = if base_path.is_empty() { "/" } else { base_path };
    let servers = json!([{"url": address, "description": "The service this document came from."}]);
    let mut document = Json::object([
        ("openapi", "3.1.0".into()),
        ("info", info.into()),
        ("servers", servers.into()),
        ("tags", written::part("tags").clone()),
        ("paths", paths(table, interface)),
        ("webhooks", written::part("webhooks").clone()),
        ("components", components(table)),
    ]);
    if interface == Interface::Operator {
        document.remove("webhooks");
        document.set("components", operators(components(table)));
        drop_unused(&mut document);
    }
    layout::text(&document)
}

/// The components of the operator's document, which differ in the header of the key.
fn operators(components: Json) -> Json {
    let text = components.to_string();
    let mut components = Json::parse(&text.replace("x-api-key", "x-operator-key"));
    let security = json!({Interface::Operator.security(): {
        "type": "apiKey",
        "in": "header",
        "name": "x-operator-key",
        "description": "A key of the operator, made by `bookguard operator-keys create`.",
    }});
    components.set("securitySchemes", security.into());
    let acting_for = json!({
        "name": "x-partner-id",
        "in": "header",
        "description": "The partner to act for; without it, lists show the rows of all partners.",
        "schema": {"type": "string", "pattern": id_pattern(noun::Partner::PREFIX)},
    });
    let acting_for = Json::object([(
        "parameters",
        Json::object([("ActingFor", acting_for.into())]),
    )]);
    components.patch(&acting_for);
    components
}

/// Removes components that nothing refers to, until there are none.
fn drop_unused(document: &mut Json) {
    loop {
        let text = document.to_string();
        let mut components = document
            .get("components")
            .cloned()
            .unwrap_or(Json::Object(Vec::new()));
        let mut dropped = false;
        for kind in ["parameters", "headers", "responses", "schemas"] {
            let mut all = components
                .get(kind)
                .cloned()
                .unwrap_or(Json::Object(Vec::new()));
            for (name, _) in all.clone().members() {
                if !text.contains(&format!("\"#/components/{kind}/{name}\"")) {
                    all.remove(name);
                    dropped = true;
                }
            }
            components.set(kind, all);
        }
        document.set("components", components);
        if !dropped {
            return;
        }
    }
}

fn paths(table: &[OperationEntry], interface: Interface) -> Json {
    let mut paths: Vec<(String, Json)> = Vec::new();
    for entry in table {
        let path = entry.route.path;
        let method = entry.route.method.word().to_lowercase();
        let operation = operation(entry, interface);
        match paths.iter_mut().find(|(known, _)| known == path) {
            Some((_, operations)) => operations.set(&method, operation),
            None => paths.push((path.to_owned(), Json::object([(method, operation)]))),
        }
    }
    let written = written::members("paths");
    // Links are for visitors.
    paths.extend(
        written.filter(|(path, _)| interface == Interface::Partners || !path.starts_with("/s/")),
    );
    Json::Object(paths)
}

fn components(table: &[OperationEntry]) -> Json {
    let security = json!({Interface::Partners.security(): {
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

fn operation(entry: &OperationEntry, interface: Interface) -> Json {
    let route = &entry.route;
    let mut operation = Json::object([
        ("operationId", route.id.into()),
        ("tags", Json::array([route.tag])),
        ("summary", route.summary.into()),
        ("description", description(route).as_str().into()),
    ]);
    let security = match interface.opens(route) {
        true => json!([]),
        false => json!([{interface.security(): []}]),
    };
    operation.set("security", security.into());
    let parameters = parameters::of(entry, interface);
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
        let content = answers::bytes();
        let body = [("required", true.into()), ("content", content)];
        operation.set("requestBody", Json::object(body));
    }
    operation.set("responses", answers::of(entry, interface));
    operation
}

/// The route's words and the scope it asks for.
fn description(route: &Route) -> String {
    match route.access {
        Access::Scope(scope) => format!("{}\n\nScope: `{}`.", route.description, scope.word()),
        _ => route.description.to_owned(),
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
