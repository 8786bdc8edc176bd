//! The parameters of operations: those of the path, the query parameters that each operation declares, and the headers that
//! mean the same everywhere.

use bookguard_core::features::audit::{ACTIONS, SERVICE_ACTIONS};
use bookguard_core::limits;
use bookguard_core::model::{Noun as _, id_pattern, noun};
use bookguard_core::operation::{QueryForm, QueryParam};
use bookguard_core::policy::{EVENT_DATE_PATTERN, POLICY_ID_PATTERN};
use bookguard_core::text;
use serde_json::{Value, json};

use super::{Interface, component, written};
use crate::api::OperationEntry;
use crate::api::forms::{PARAMETER, WORDS};
use bookguard_core::input::Json;

/// The parameters of paths: name, description, and the prefix of its ids.
// One row, one line.
#[rustfmt::skip]
const IN_PATH: [(&str, &str, Option<&str>); 12] = [
    ("partnerId", "The partner.", Some(noun::Partner::PREFIX)),
    ("bookingId", "The booking.", Some(noun::Booking::PREFIX)),
    ("apiKeyId", "The API key.", Some(noun::ApiKey::PREFIX)),
    ("consoleSessionId", "The console session.", Some(noun::ConsoleSession::PREFIX)),
    ("endpointId", "The webhook endpoint.", Some(noun::Endpoint::PREFIX)),
    ("eventId", "The webhook event.", Some(noun::Event::PREFIX)),
    ("recoveryId", "The recovery.", Some(noun::Recovery::PREFIX)),
    ("itemId", "The evidence item.", Some(noun::EvidenceItem::PREFIX)),
    ("resolutionId", "The resolution.", Some(noun::Resolution::PREFIX)),
    ("shareId", "The share.", Some(noun::Share::PREFIX)),
    ("holdId", "The hold.", Some(noun::Hold::PREFIX)),
    ("policyId", "The policy.", None),
];
const ONCE: &str = "Makes repeating safe: for 24 hours the same key with the same request gets the same answer and happens once.";
const ONCE_FROM_HERE: &str = "Makes repeating safe: for 24 hours the same key with the same request from the same network gets the same \
    answer and happens once. The network is an IPv4 address or the /64 of an IPv6 address; from another one, the request happens \
    once more. The answer may hold credentials, so send a random key, such as a UUID.";

/// The parameters of an operation.
pub(super) fn of(entry: &OperationEntry, interface: Interface) -> Vec<Json> {
    let route = &entry.route;
    let mut parameters: Vec<Json> = route
        .parameters()
        .map(|name| component("parameters", name))
        .collect();
    parameters.extend(route.query.iter().map(|parameter| match parameter.name {
        "limit" => component("parameters", "limit"),
        _ => query(parameter),
    }));
    if !entry.forms.is_empty() {
        let form = json!({
            "name": PARAMETER,
            "in": "query",
            "description": "Which PDF: `bank` is for a card bank, at most ten pages; `archive` is PDF/A with the packet attached. A client that \
                accepts PDF and JSON alike, as without `Accept`, gets the PDF with `archive`, and JSON with `bank`.",
            "schema": {"type": "string", "enum": WORDS, "default": WORDS[0]},
        });
        parameters.push(form.into());
    }
    if entry.is_remembered() {
        let name = match interface.opens(route) {
            true => "LongIdempotencyKey",
            false => "IdempotencyKey",
        };
        parameters.push(component("parameters", name));
    }
    if entry.is_tagged() {
        parameters.push(component("parameters", "IfNoneMatch"));
    }
    if interface == Interface::Operator && !interface.opens(route) {
        parameters.push(component("parameters", "ActingFor"));
    }
    parameters
}

/// The parameters that several operations share.
pub(super) fn components(table: &[OperationEntry]) -> Json {
    let mut parameters: Vec<(String, Json)> = Vec::new();
    for entry in table {
        for name in entry.route.parameters() {
            if !parameters.iter().any(|(known, _)| known == name) {
                parameters.push((name.to_owned(), path_parameter(name)));
            }
        }
    }
    let limits = table.iter().flat_map(|entry| entry.route.query);
    if let Some(limit) = limits
        .into_iter()
        .find(|parameter| parameter.name == "limit")
    {
        parameters.push((limit.name.to_owned(), query(limit)));
    }
    let headers = [
        ("IdempotencyKey", once(1, ONCE)),
        (
            "LongIdempotencyKey",
            once(limits::IDEMPOTENCY_KEY_CHARS_OPEN, ONCE_FROM_HERE),
        ),
        (
            "IfNoneMatch",
            json!({
                "name": "If-None-Match",
                "in": "header",
                "description": "An earlier ETag: 304 while nothing has changed.",
                "schema": {"type": "string"},
            }),
        ),
    ];
    parameters.extend(headers.map(|(name, header)| (name.to_owned(), header.into())));
    parameters.extend(written::members("parameters"));
    Json::Object(parameters)
}

fn path_parameter(name: &str) -> Json {
    let known = IN_PATH.iter().find(|(known, ..)| *known == name);
    let (_, description, prefix) = known.expect("a test makes the document of every operation");
    let pattern = prefix.map_or_else(|| POLICY_ID_PATTERN.to_owned(), id_pattern);
    Json::from(json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
    }))
}

fn once(least: usize, description: &str) -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "description": description,
        "schema": {
            "type": "string",
            "minLength": least,
            "maxLength": limits::IDEMPOTENCY_KEY_CHARS,
            "pattern": "^[!-~]+$",
        },
    })
}

fn query(parameter: &QueryParam) -> Json {
    let required = parameter.is_required().then(|| ("required", true.into()));
    let whole = [("name", parameter.name.into()), ("in", "query".into())];
    let said = [
        ("description", parameter.description.into()),
        ("schema", values(parameter.form).into()),
    ];
    Json::object(whole.into_iter().chain(required).chain(said))
}

/// The values a query parameter takes.
fn values(form: QueryForm) -> Value {
    match form {
        QueryForm::Whole(least, most, default) => {
            let mut schema = json!({"type": "integer", "minimum": least, "maximum": most});
            if let Some(default) = default {
                schema["default"] = default.into();
            }
            schema
        }
        QueryForm::Decimal => json!({"type": "number", "minimum": 0}),
        QueryForm::Instant => json!({"type": "string", "format": "date-time"}),
        QueryForm::EventDate => json!({"type": "string", "pattern": EVENT_DATE_PATTERN}),
        QueryForm::Flag => json!({"type": "boolean"}),
        QueryForm::Words(name) | QueryForm::RequiredWord(name) => {
            json!({"$ref": format!("#/components/schemas/{name}")})
        }
        QueryForm::Text(most) => json!({
            "type": "string",
            "minLength": 1,
            "maxLength": most,
            "pattern": text::pattern(),
        }),
        QueryForm::Id(prefix) => json!({"type": "string", "pattern": id_pattern(prefix)}),
        QueryForm::Action => {
            let all = [ACTIONS, SERVICE_ACTIONS].concat();
            json!({"type": "string", "enum": all})
        }
        QueryForm::PolicyId => json!({"type": "string", "pattern": POLICY_ID_PATTERN}),
        QueryForm::Place => json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": limits::EVENT_NUMBER},
            {"type": "string", "const": "latest"},
        ]}),
    }
}
