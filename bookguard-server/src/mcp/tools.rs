//! The table of tools: the operation behind each, and how it is described to a model.
//!
//! A tool's schemas come from the interface document: the operation's parameters and body become one flat object, its answer
//! the output. A model's host reads the whole list before the first call, so what a model has no use for is left out: it sees
//! the answer itself, and the server says what is wrong with an argument. Invariants: a schema refers to nothing outside itself,
//! and whatever the interface document allows fits it.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool as Definition, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::arguments::IDEMPOTENCY_KEY;
use super::verification;
use crate::api::{followed, forms, operations};
use crate::media;

/// A tool.
#[derive(Deserialize)]
pub(super) struct Tool {
    /// Its name.
    pub(super) name: &'static str,
    /// The id of its operation in the interface document.
    pub(super) operation: &'static str,
    /// What it changes.
    effect: Effect,
    /// The title for people.
    title: &'static str,
    /// The description for a model: when to use the tool, and what to do next.
    pub(super) description: &'static str,
    /// Whether a model passes the answer on as it is, and only its first level is described.
    #[serde(default)]
    is_passed_on: bool,
}

/// The longest pattern that tells a model something. Longer ones list forbidden characters, or every form of a date.
const PATTERN_CHARS: usize = 60;
/// What the schema of an answer leaves out.
const DETAILS: [&str; 11] = [
    "pattern",
    "format",
    "examples",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minProperties",
    "maxProperties",
];
/// The level of what describes the members of an answer, and the schemas that it refers to. Members within are not described.
const DESCRIBED: usize = 2;

/// What calling a tool changes.
#[derive(Deserialize)]
enum Effect {
    /// Nothing.
    Reads,
    /// Adds something at each call, and notifies the partner's webhook endpoints.
    Adds,
    /// Adds something once, however often it is called, and notifies the endpoints.
    AddsOnce,
    /// Ends something for good, once, and notifies the endpoints.
    Ends,
}

impl Effect {
    fn annotations(&self) -> ToolAnnotations {
        let reads = matches!(self, Self::Reads);
        ToolAnnotations::new()
            .read_only(reads)
            .destructive(matches!(self, Self::Ends))
            .idempotent(!matches!(self, Self::Adds))
            // Events go to addresses on the internet.
            .open_world(!reads)
    }
}

/// Every tool, by name.
pub(super) static TABLE: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("tools.json")).expect("a test reads every embedded text")
});

impl Tool {
    /// The tool's definition for `tools/list`. `document` is the interface document.
    pub(super) fn define(&self, document: &Value) -> Definition {
        let mut operations = operations(document).map(|(.., operation)| operation);
        let (input, output) =
            match operations.find(|operation| operation["operationId"] == self.operation) {
                Some(operation) => {
                    let input = input_schema(operation, document);
                    let output = followed(document, success(operation)).clone();
                    (input, output)
                }
                // The only tool that is not in the document.
                None => (verification::input_schema(), verification::output_schema()),
            };
        let output = match self.is_passed_on {
            true => first_level(output),
            false => output,
        };
        let mut input = whole(input, document);
        let mut output = whole(output, document);
        input.values_mut().for_each(brief);
        outline(&mut output, 0);
        Definition::new(self.name, self.description, Arc::new(input))
            .with_title(self.title)
            .with_raw_output_schema(Arc::new(output))
            .with_annotations(self.effect.annotations())
    }
}

/// The schema of an operation's first success response.
fn success(operation: &Value) -> &Value {
    let responses = operation["responses"].as_object();
    let found = responses.and_then(|all| all.iter().find(|(status, _)| status.starts_with('2')));
    found.map_or(&Value::Null, |(_, response)| {
        &response["content"][media::JSON]["schema"]
    })
}

/// Merges an operation's parameters and body into one object schema.
fn input_schema(operation: &Value, document: &Value) -> Value {
    let body = &operation["requestBody"]["content"][media::JSON]["schema"];
    let body = followed(document, body);
    let mut properties = body["properties"].as_object().cloned().unwrap_or_default();
    let mut required: BTreeSet<&str> = BTreeSet::new();
    required.extend(words(&body["required"]));
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let parameter = followed(document, parameter);
        let name = match (parameter["in"].as_str(), parameter["name"].as_str()) {
            // A tool answers in JSON, never in another form.
            (Some("query"), Some(forms::PARAMETER)) => continue,
            (Some("path" | "query"), Some(name)) => name,
            (Some("header"), Some("Idempotency-Key")) => IDEMPOTENCY_KEY,
            _ => continue,
        };
        let mut schema = parameter["schema"].clone();
        schema["description"] = parameter["description"].clone();
        properties.insert(name.to_owned(), schema);
        if parameter["required"] == true {
            required.insert(name);
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn words(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Completes a schema with everything it refers to in its own `$defs`.
fn whole(mut schema: Value, document: &Value) -> JsonObject {
    let mut wanted = Vec::new();
    inward(&mut schema, &mut wanted);
    let mut definitions = Map::new();
    while let Some(name) = wanted.pop() {
        if definitions.contains_key(&name) {
            continue;
        }
        let mut definition = document["components"]["schemas"][&name].clone();
        inward(&mut definition, &mut wanted);
        definitions.insert(name, definition);
    }
    if !definitions.is_empty() {
        schema["$defs"] = definitions.into();
    }
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}

/// Reduces the members of an object's schema to what they mean.
fn first_level(mut schema: Value) -> Value {
    let members = schema["properties"].as_object_mut();
    for member in members.into_iter().flat_map(Map::values_mut) {
        let about = member["description"].take();
        *member = match about {
            Value::Null => json!({}),
            about => json!({"description": about}),
        };
    }
    schema
}

/// Removes long patterns.
fn brief(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let pattern = members.get("pattern").and_then(Value::as_str);
            if pattern.is_some_and(|pattern| pattern.len() > PATTERN_CHARS) {
                members.remove("pattern");
            }
            members.values_mut().for_each(brief);
        }
        Value::Array(items) => items.iter_mut().for_each(brief),
        _ => {}
    }
}

/// Leaves of an answer's schema the names and types of its members, and what the first ones mean.
fn outline(members: &mut JsonObject, level: usize) {
    // A member of an answer may have the name of a keyword, and its schema is an object.
    members.retain(|key, value| {
        let is_left_out =
            DETAILS.contains(&key.as_str()) || key == "description" && level > DESCRIBED;
        value.is_object() || !is_left_out
    });
    for value in members.values_mut() {
        match value {
            Value::Object(within) => outline(within, level + 1),
            Value::Array(items) => {
                let within = items.iter_mut().filter_map(Value::as_object_mut);
                within.for_each(|within| outline(within, level + 1));
            }
            _ => {}
        }
    }
}

/// Rewrites references to the document's schemas as references to `$defs`, and collects their names.
fn inward(schema: &mut Value, wanted: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                let name = match (key.as_str(), &*value) {
                    ("$ref", Value::String(target)) => target
                        .strip_prefix("#/components/schemas/")
                        .map(str::to_owned),
                    _ => None,
                };
                match name {
                    Some(name) => {
                        *value = format!("#/$defs/{name}").into();
                        wanted.push(name);
                    }
                    None => inward(value, wanted),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| inward(item, wanted)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::openapi;

    fn defined() -> Vec<Definition> {
        TABLE.iter().map(|tool| tool.define(openapi())).collect()
    }

    #[test]
    fn the_table_is_sorted_and_has_no_name_twice() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn the_list_is_short_enough_for_a_model_to_read() {
        let list = serde_json::to_string(&defined()).unwrap();
        assert!(list.len() < 80_000, "{} bytes", list.len());
        assert!(!list.contains("\\u200b"), "lists forbidden characters");
    }

    #[test]
    fn a_schema_keeps_members_that_have_the_names_of_keywords() {
        let member = |about: &str| json!({"type": "string", "maxLength": 3, "description": about});
        let schema = json!({
            "type": "object", "description": "An answer.",
            "properties": {"format": member("How."), "in": {"properties": {"description": member("What.")}}},
            "$defs": {"Deep": {"description": "A thing.", "properties": {"x": member("Gone.")}}},
        });
        let Value::Object(mut outlined) = schema else {
            unreachable!("it is an object");
        };
        outline(&mut outlined, 0);
        let expected = json!({
            "type": "object", "description": "An answer.",
            "properties": {
                "format": {"type": "string", "description": "How."},
                "in": {"properties": {"description": {"type": "string"}}},
            },
            "$defs": {"Deep": {"description": "A thing.", "properties": {"x": {"type": "string"}}}},
        });
        assert_eq!(Value::Object(outlined), expected);
    }

    #[test]
    fn every_schema_is_an_object_s_and_refers_to_nothing_outside_itself() {
        for tool in defined() {
            let output = tool.output_schema.clone().unwrap();
            for schema in [tool.input_schema.clone(), output] {
                let schema = Value::Object((*schema).clone());
                assert_eq!(schema["type"], "object", "{}", tool.name);
                let properties = schema["properties"].as_object().unwrap();
                assert!(!properties.is_empty(), "{}", tool.name);
                let mut references = Vec::new();
                collect(&schema, &mut references);
                for reference in references {
                    let pointer = reference.strip_prefix('#').unwrap();
                    let found = schema.pointer(pointer);
                    assert!(
                        found.is_some_and(Value::is_object),
                        "{}: {reference}",
                        tool.name
                    );
                }
            }
        }
    }

    fn collect(schema: &Value, references: &mut Vec<String>) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    references.push(reference.clone());
                }
                members
                    .values()
                    .for_each(|value| collect(value, references));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
            _ => {}
        }
    }

    #[test]
    fn an_operation_s_parameters_and_body_are_one_closed_object() {
        let tool = defined()
            .into_iter()
            .find(|tool| tool.name == "cancel_booking");
        let input = Value::Object((*tool.unwrap().input_schema).clone());
        assert_eq!(input["additionalProperties"], false);
        let required: BTreeSet<&str> = words(&input["required"]).collect();
        assert_eq!(required, ["bookingId", "canceledBy"].into());
        for name in ["expected", "note", IDEMPOTENCY_KEY] {
            assert!(input["properties"][name].is_object(), "{name}");
        }
    }

    #[test]
    fn what_a_tool_takes_is_what_its_operation_takes() {
        let document = openapi();
        let table = crate::api::table();
        for tool in TABLE.iter() {
            let Some(entry) = table.iter().find(|entry| entry.route.id == tool.operation) else {
                continue;
            };
            let route = &entry.route;
            let body = route.body.declaration().map_or(&Value::Null, |body| {
                &document["components"]["schemas"][body.name]["properties"]
            });
            let input = Value::Object((*tool.define(document).input_schema).clone());
            for name in input["properties"].as_object().unwrap().keys() {
                let is_known = route.parameters().any(|known| known == name)
                    || route.query.iter().any(|known| known.name == name)
                    || (entry.is_remembered() && name == IDEMPOTENCY_KEY)
                    || body[name].is_object();
                assert!(is_known, "{}: {name}", tool.name);
            }
        }
    }

    #[test]
    fn what_a_tool_does_is_what_its_operation_s_method_says() {
        use bookguard_core::operation::Method;
        let table = crate::api::table();
        for tool in TABLE.iter() {
            let reads = matches!(tool.effect, Effect::Reads);
            match table.iter().find(|entry| entry.route.id == tool.operation) {
                Some(entry) => {
                    assert_eq!(reads, entry.route.method == Method::Get, "{}", tool.name)
                }
                None => assert_eq!(tool.name, "verify_evidence"),
            }
        }
    }
}
