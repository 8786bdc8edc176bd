//! What the document promises about itself, checked by an independent validator.

use std::collections::BTreeSet;

use bookguard_core::model::EndpointStatus;
use bookguard_core::operation::to_json;
use bookguard_core::policy::EventDate;
use boon::{Compiler, Draft, SchemaIndex, Schemas};
use poem::http::StatusCode;
use serde_json::{Value, json};

use super::*;
use crate::api::openapi;

/// Where the document describes the start of an event.
const EVENT_DATE: &str = "/components/schemas/NewBooking/properties/eventDate";

/// An independent validator, loaded with the document's schemas.
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
    // The contents of examples are not schemas.
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
    // One of a packet is long enough.
    let shown = openapi().pointer(
        "/paths/~1v1~1bookings~1{bookingId}~1evidence/get/responses/200/content/application~1json",
    );
    let shown = shown.unwrap();
    assert!(shown["example"].is_object());
    for (pointer, object) in everything() {
        if let Some(body) = object.get(JSON).filter(|_| pointer.ends_with("/content")) {
            let is_packet = body["schema"] == shown["schema"];
            assert!(body["example"].is_object() || is_packet, "{pointer}");
        }
    }
}

#[test]
fn every_example_of_an_answer_is_one_that_its_type_writes() {
    for entry in crate::api::table() {
        if entry.sends_file {
            continue;
        }
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
fn the_example_of_a_refusal_has_the_status_in_the_words_of_the_server() {
    let mut found = BTreeSet::new();
    for methods in openapi()["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let shared = answer["$ref"].as_str();
                let answer = shared.map_or(answer, |at| openapi().pointer(&at[1..]).unwrap());
                let words = &answer["content"][JSON]["example"]["error"];
                let status = StatusCode::from_bytes(status.as_bytes()).unwrap();
                if status.as_u16() >= 400 && words.is_string() {
                    found.insert(status.as_u16());
                    assert_eq!(words, status.canonical_reason().unwrap(), "{status}");
                }
            }
        }
    }
    assert!(found.contains(&413) && found.len() > 12, "{found:?}");
}

#[test]
fn an_endpoint_s_example_is_enabled_if_its_status_takes_events() {
    fn endpoints<'d>(value: &'d Value, found: &mut Vec<&'d Value>) {
        match value {
            Value::Object(members) => {
                for member in members.values() {
                    endpoints(member, found);
                }
                if members.contains_key("enabled") && members.contains_key("failures") {
                    found.push(value);
                }
            }
            Value::Array(items) => {
                for item in items {
                    endpoints(item, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for path in openapi()["paths"].as_object().unwrap().values() {
        endpoints(path, &mut found);
    }
    for endpoint in &found {
        let status: EndpointStatus = serde_json::from_value(endpoint["status"].clone()).unwrap();
        assert_eq!(endpoint["enabled"], status.takes_events(), "{endpoint}");
    }
    assert!(found.len() > 4, "{found:?}");
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
fn what_is_not_text_is_described_as_bytes() {
    let mut found = 0;
    for (pointer, object) in everything() {
        for media_type in ["application/pdf", "application/zip"] {
            if let Some(body) = object.get(media_type) {
                found += 1;
                let bytes = json!({"type": "string", "format": "binary"});
                assert_eq!(body["schema"], bytes, "{pointer} {media_type}");
            }
        }
    }
    assert_eq!(found, 5);
}

#[test]
fn an_item_s_file_has_each_media_type_that_files_are_served_with() {
    let get = "/paths/~1v1~1bookings~1{bookingId}~1evidence~1items~1{itemId}~1file/get";
    let answer = &openapi().pointer(get).unwrap()["responses"]["200"];
    let types: BTreeSet<&str> = answer["content"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let served = [
        "application/octet-stream",
        "application/pdf",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/plain",
    ];
    assert_eq!(types, BTreeSet::from(served));
}

#[test]
fn what_is_saved_names_itself() {
    for operation in [
        "/paths/~1v1~1bookings~1{bookingId}~1evidence~1items~1{itemId}~1file/get",
        "/paths/~1v1~1bookings~1{bookingId}~1evidence/get",
        "/paths/~1s~1{token}/get",
        "/paths/~1s~1{token}/post",
    ] {
        let answer = &openapi().pointer(operation).unwrap()["responses"]["200"];
        let named = &answer["headers"]["Content-Disposition"];
        assert!(named.is_object(), "{operation}");
    }
}

#[test]
fn a_file_is_refused_for_what_is_wrong_with_files() {
    let put = "/paths/~1v1~1bookings~1{bookingId}~1evidence~1items~1{itemId}~1file/put";
    let answers = &openapi().pointer(put).unwrap()["responses"];
    let most = bookguard_core::limits::FILE_BYTES;
    for (status, code, words) in [
        ("413", "body_too_large", format!(" {most} bytes")),
        ("415", "unsupported_encoding", "Content-Encoding".to_owned()),
    ] {
        let answer = answers[status]["$ref"].as_str().unwrap();
        let answer = openapi().pointer(&answer[1..]).unwrap();
        let example = &answer["content"][JSON]["example"];
        assert_eq!(example["code"], code);
        let message = example["message"].as_str().unwrap();
        assert!(message.contains(&words), "{message}");
    }
}

#[test]
fn a_body_may_be_too_slow_and_nothing_else() {
    for path in openapi()["paths"].as_object().unwrap().values() {
        for operation in path.as_object().unwrap().values() {
            let late = operation["responses"]["408"].is_object();
            let has_body = operation["requestBody"].is_object();
            assert_eq!(late, has_body, "{}", operation["operationId"]);
        }
    }
}

#[test]
fn the_start_of_an_event_is_described_as_it_is_read() {
    let mut judge = Judge::new();
    for text in [
        "2026-06-20",
        "2026-06-20T19:00",
        "2026-06-20T19:00:00.123456789",
        "2026-06-20T19:00:60",
        "2026-06-20t19:00:00",
        "2026-06-20t19:00:00z",
        "2026-06-20T19:00-04:00",
        "2026-06-20T19:00:00.123456789-04:00",
        "2026-06-20T19:00:00.1234567890-04:00",
        "2026-06-30T23:59:60Z",
    ] {
        let described = judge.judge(EVENT_DATE, &json!(text));
        let read = EventDate::parse(text);
        assert_eq!(described.is_ok(), read.is_some(), "{text}");
    }
}

/// An item may come from both sides together, and answers say so.
#[test]
fn an_item_s_answer_names_whomever_its_request_may_name() {
    let document = openapi();
    let party = |schema: &str| &document["components"]["schemas"][schema]["properties"]["party"];
    let asked = party("NewEvidenceItem")["$ref"].as_str();
    assert!(asked.is_some());
    for answered in [
        "AddedItem",
        "EvidenceItem",
        "ItemWithFile",
        "ItemWithoutFile",
    ] {
        assert_eq!(party(answered)["$ref"].as_str(), asked, "{answered}");
    }
}

#[test]
fn the_document_is_short_enough_to_be_read_at_once() {
    assert!(to_json(openapi()).len() < 400 * 1024);
}
