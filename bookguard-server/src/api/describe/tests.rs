//! What the document promises of itself, judged by a validator of others.

use std::collections::BTreeSet;

use bookguard_core::error::FieldError;
use bookguard_core::input::Declaration;
use bookguard_core::operation::to_json;
use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::{Value, json};

use super::*;
use crate::api::openapi;

/// A validator of others, with the document's schemas.
struct Judge {
    schemas: Schemas,
    compiler: Compiler,
}

impl Judge {
    fn new() -> Self {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler
            .add_resource("urn:openapi", openapi().clone())
            .unwrap();
        Self {
            schemas: Schemas::new(),
            compiler,
        }
    }

    fn schema(&mut self, pointer: &str) -> SchemaIndex {
        let place = format!(
            "urn:openapi#{}",
            pointer.replace('{', "%7B").replace('}', "%7D")
        );
        let compiled = self.compiler.compile(&place, &mut self.schemas);
        compiled.unwrap_or_else(|e| panic!("{pointer}: {e:#}"))
    }

    fn judge(&mut self, pointer: &str, value: &Value) -> Result<(), String> {
        let schema = self.schema(pointer);
        let judged = self.schemas.validate(value, schema);
        judged.map_err(|e| format!("{pointer}: {e:#}"))
    }
}

/// Every object of the document, with its pointer.
fn objects<'d>(value: &'d Value, pointer: String, found: &mut Vec<(String, &'d Value)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                objects(member, format!("{pointer}/{name}"), found);
            }
            found.push((pointer, value));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn everything() -> Vec<(String, &'static Value)> {
    let mut found = Vec::new();
    objects(openapi(), String::new(), &mut found);
    // What an example holds is nobody's schema.
    found.retain(|(pointer, _)| !pointer.contains("/example"));
    found
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_referred_to() {
    let mut referred = BTreeSet::new();
    for (pointer, object) in everything() {
        if let Some(target) = object["$ref"].as_str() {
            let found = openapi().pointer(target.strip_prefix('#').unwrap());
            assert!(found.is_some(), "{pointer}: {target}");
            referred.insert(target.to_owned());
        }
    }
    for kind in ["parameters", "headers", "responses", "schemas"] {
        for name in openapi()["components"][kind].as_object().unwrap().keys() {
            let target = format!("#/components/{kind}/{name}");
            assert!(referred.contains(&target), "{target} is not used");
        }
    }
}

#[test]
fn every_schema_is_one_and_every_example_is_as_its_schema_says() {
    let mut judge = Judge::new();
    let mut examples = 0;
    for name in openapi()["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        judge.schema(&format!("/components/schemas/{name}"));
    }
    for (pointer, object) in everything() {
        let schema = format!("{pointer}/schema");
        if object["schema"].is_object()
            && let Some(example) = object.get("example")
        {
            examples += 1;
            judge.judge(&schema, example).unwrap();
        }
        for example in object["examples"].as_array().into_iter().flatten() {
            judge.judge(&pointer, example).unwrap();
        }
    }
    assert!(examples > 70, "{examples}");
}

#[test]
fn every_json_body_has_an_example() {
    for (pointer, object) in everything() {
        if let Some(body) = object.get(JSON).filter(|_| pointer.ends_with("/content")) {
            assert!(body["example"].is_object(), "{pointer}");
        }
    }
}

#[test]
fn every_example_of_an_answer_is_one_that_its_type_writes() {
    for entry in crate::api::table() {
        let id = entry.route.id;
        let body = schema::reference(&(entry.output.reference)());
        let example = examples::of(id, schema::name(&body)).unwrap().to_string();
        let written = (entry.rewrite)(example.as_bytes()).unwrap_or_else(|e| panic!("{id}: {e}"));
        let written: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(
            written,
            serde_json::from_str::<Value>(&example).unwrap(),
            "{id}"
        );
    }
}

#[test]
fn every_name_that_says_what_a_member_holds_is_some_member_s() {
    let schemas = openapi()["components"]["schemas"].as_object().unwrap();
    let has = |name: &str| {
        let mut schemas = schemas.values();
        schemas.any(|schema| schema["properties"][name].is_object())
    };
    let patterns = members::PATTERNS.map(|(name, _)| name);
    let numbers = members::NUMBERS.map(|(name, ..)| name);
    for name in patterns.into_iter().chain(numbers) {
        assert!(has(name), "{name}");
    }
    for (component, member, value) in members::constants() {
        let constant = &schemas[component]["properties"][member]["const"];
        assert_eq!(constant, &value, "{component}.{member}");
    }
}

/// The bodies that operations read field by field.
fn bodies() -> impl Iterator<Item = &'static Declaration> {
    let table = crate::api::table().into_iter();
    let bodies = table.filter_map(|entry| entry.route.body.declaration());
    // The policies' own schema has its own test.
    bodies.filter(|body| !["NewPolicy", "PolicyDraft"].contains(&body.name))
}

fn faults(body: &Declaration, text: &str) -> Vec<FieldError> {
    let read = body.check(text.as_bytes());
    read.err().map(|error| error.details).unwrap_or_default()
}

#[test]
fn what_is_described_of_a_body_is_what_is_read() {
    for body in bodies() {
        let schema = &openapi()["components"]["schemas"][body.name];
        let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let missing = faults(body, "{}").into_iter();
        let missing = missing.filter(|fault| fault.code == "missing_field");
        let missing: BTreeSet<String> =
            missing.map(|fault| fault.pointer[1..].to_owned()).collect();
        let required = schema["required"].as_array().into_iter().flatten();
        let required: BTreeSet<String> = required
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(missing, required, "{}", body.name);
        let unknown = faults(body, r#"{"qqqqqqqqqqqqqqqqqqqqqqqq": 1}"#);
        let fix = &unknown
            .iter()
            .find(|fault| fault.code == "unknown_field")
            .unwrap()
            .fix;
        let known: BTreeSet<&str> = fix
            .split_once("fields: ")
            .unwrap()
            .1
            .trim_end_matches('.')
            .split(", ")
            .collect();
        assert_eq!(
            known,
            properties.iter().map(|name| name.as_str()).collect(),
            "{}",
            body.name
        );
        assert_eq!(faults(body, body.example), [], "{}", body.name);
    }
}

/// What no schema can know, by the code of the fault: what there is, what a calendar has, what a currency takes.
const BEYOND_SCHEMAS: [&str; 12] = [
    "policy_unknown",
    "time_zone_unknown",
    "currency_unknown",
    "currency_has_no_minor_unit",
    "amount_precision",
    "amount_too_large",
    "invalid_date",
    "invalid_uri",
    "hidden_character",
    "bad_key",
    "duplicate_key",
    "invalid_range",
];

/// Fields that a reader leaves to others: to the policies' own reader, to who is asking, to the booking's currency, to where the
/// operator lets webhooks go.
const JUDGED_LATER: [&str; 6] = [
    "policy",
    "partnerId",
    "endpointId",
    "refund",
    "agreedRefund",
    "url",
];

/// Values of all kinds, right for some field and wrong for most.
fn values() -> Vec<Value> {
    let long = |chars: usize| json!("x".repeat(chars));
    let mut values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(0.0001),
        json!(1001),
        json!(604_801),
        json!(1e15),
        json!(1e16),
        json!(""),
        json!(" "),
        json!("a"),
        json!("A b"),
        json!("a\u{0}"),
        json!("\u{200b}"),
        json!("a\u{202e}b"),
        json!("Zo\u{eb}"),
        json!("organizer"),
        json!("mutual"),
        json!("changed_plans"),
        json!("failed"),
        json!("USD"),
        json!("usd"),
        json!("XXX"),
        json!("Europe/Berlin"),
        json!("Europe/Berlln"),
        json!("2027-06-20"),
        json!("2027-02-30"),
        json!("2027-06-20T19:00"),
        json!("2027-06-20T19:00:00Z"),
        json!("2027-06-20T25:00:00Z"),
        json!("20270620"),
        json!("203.0.113.7"),
        json!("2001:db8::7"),
        json!("203.0.113.7:80"),
        json!("ops@example.com"),
        json!("ops@@example.com"),
        json!("o ps@example.com"),
        json!("ops@example"),
        json!("ops@-a.b"),
        json!("https://example.com/a?b#c"),
        json!("https://example.com"),
        json!("ftp://example.com"),
        json!("https://"),
        json!("https://b\u{fc}cher.example"),
        json!("https://example.com/\u{e4}"),
        json!("house"),
        json!("House"),
        json!(format!("sha256:{}", "9f".repeat(32))),
        json!(format!("sha256:{}", "9F".repeat(32))),
        json!("9f".repeat(32)),
        json!(format!("ptn_{}", "0a".repeat(16))),
        json!(format!("end_{}", "0a".repeat(16))),
        json!([]),
        json!([1]),
        json!(["organizer", "talent"]),
        json!(["talent"]),
        json!(["talent", "organizer", "partner", "talent"]),
        json!(["booking.created"]),
        json!(["booking.lost"]),
        json!(["bookings:read"]),
        json!(["*"]),
        json!(["failed"]),
        json!({}),
        json!({"id": "a", "name": "b"}),
        json!({"id": "a"}),
        json!({"id": "a", "name": "b", "c": 1}),
        json!({"refundMinorUnits": 1, "resolutionPath": "full_refund"}),
        json!({"refundMinorUnits": -1}),
        json!([{"kind": "a", "sha256": "b"}]),
        json!([{"kind": "a"}]),
        json!({"concert": "house"}),
        json!({"concert": null}),
        json!({"concert": 1}),
        json!({"concert": "House"}),
        json!({"": "a"}),
        json!({"!": "a"}),
        json!({"a\u{200b}": "b"}),
    ];
    values.extend(
        [
            64, 65, 128, 129, 200, 201, 254, 255, 256, 500, 501, 1000, 1001, 2000, 2001,
        ]
        .map(long),
    );
    values.extend([20, 21, 100, 101].map(|pairs| {
        let pairs = (0..pairs).map(|n| (format!("k{n}"), json!("v")));
        Value::Object(pairs.collect())
    }));
    values
        .extend([65, 501].map(|chars| json!({"x".repeat(chars): "v", "k": "x".repeat(chars - 1)})));
    values
}

#[test]
fn the_schema_of_a_body_refuses_what_its_reader_refuses() {
    let (mut judge, mut judged) = (Judge::new(), 0);
    for body in bodies() {
        let pointer = format!("/components/schemas/{}", body.name);
        let example: Value = serde_json::from_str(body.example).unwrap();
        let schema = &openapi()["components"]["schemas"][body.name];
        let fields = schema["properties"].as_object().unwrap().keys();
        for field in fields.filter(|field| !JUDGED_LATER.contains(&field.as_str())) {
            for value in values() {
                let mut spoiled = example.clone();
                spoiled[field] = value;
                let passes = judge.judge(&pointer, &spoiled);
                let faults = faults(body, &spoiled.to_string());
                let beyond = |fault: &FieldError| BEYOND_SCHEMAS.contains(&&*fault.code);
                match passes {
                    Ok(()) => assert!(
                        faults.iter().all(beyond),
                        "{}: {spoiled}: {faults:?}",
                        body.name
                    ),
                    // What is to be agreed on is missed when the cancellation is judged.
                    Err(_) if spoiled["canceledBy"] == "mutual" => {}
                    Err(why) => assert!(!faults.is_empty(), "{}: {spoiled}: {why}", body.name),
                }
                judged += 1;
            }
        }
    }
    assert!(judged > 4_000, "{judged}");
}

#[test]
fn every_link_leads_from_an_id_of_the_answer_to_an_operation_that_takes_it() {
    let mut operations: Vec<(&str, &Value)> = Vec::new();
    for methods in openapi()["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            operations.push((operation["operationId"].as_str().unwrap(), operation));
        }
    }
    let mut links = 0;
    for (id, operation) in &operations {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let example = &answer["content"][JSON]["example"];
            for (name, link) in answer["links"].as_object().into_iter().flatten() {
                links += 1;
                let target = link["operationId"].as_str().unwrap();
                assert_eq!(name, target);
                let target = operations.iter().find(|(id, _)| *id == target).unwrap().1;
                let parameters = target["parameters"].as_array().unwrap().iter();
                let names: Vec<&Value> = parameters
                    .map(|parameter| match parameter["$ref"].as_str() {
                        Some(shared) => &openapi().pointer(&shared[1..]).unwrap()["name"],
                        None => &parameter["name"],
                    })
                    .collect();
                for (parameter, value) in link["parameters"].as_object().unwrap() {
                    assert!(
                        names.contains(&&json!(parameter)),
                        "{id} {status} {name} {parameter}"
                    );
                    let pointer = value.as_str().unwrap().strip_prefix("$response.body#");
                    let held = example.pointer(pointer.unwrap());
                    assert!(held.is_some(), "{id} {status} {name}: {value}");
                }
            }
        }
    }
    assert!(links > 60, "{links}");
}

#[test]
fn the_document_is_short_enough_to_be_read_at_once() {
    assert!(to_json(openapi()).len() < 300 * 1024);
}
