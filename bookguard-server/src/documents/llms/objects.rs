//! Describes every object of the interface in words, from the schemas of the interface document.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// How deep nested objects are described; deeper ones are only in the interface document.
const DEPTH: usize = 3;

/// Writes the section.
pub(super) fn write(text: &mut String, document: &Value) {
    text.push_str("\n## Objects\n");
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flat_map(Map::iter) {
        let _ = write!(text, "\n### {name}\n\n");
        let about = one_line(&schema["description"]);
        let about = if about.is_empty() {
            format!("A {}.", kind(schema))
        } else {
            about
        };
        let _ = writeln!(text, "{about}");
        let mut body = String::new();
        describe(&mut body, schema, 0);
        if !body.is_empty() {
            let _ = write!(text, "\n{body}");
        }
    }
}

/// Describes the fields of an object, or the values a type can have.
fn describe(text: &mut String, schema: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    if let Some(words) = schema["enum"].as_array() {
        let _ = writeln!(text, "{indent}- one of {}", list(words));
    }
    for members in ["oneOf", "anyOf"] {
        // A member that only lists required fields says nothing more than the fields below.
        let members = schema[members].as_array().into_iter().flatten();
        for member in members.filter(|member| kind(member) != ANY) {
            let _ = writeln!(text, "{indent}- either {}", kind(member));
            within(text, member, depth + 1);
        }
    }
    for member in schema["allOf"].as_array().into_iter().flatten() {
        within(text, member, depth);
    }
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(Map::iter)
    {
        let required = required.is_some_and(|names| names.iter().any(|known| known == name));
        let required = if required { ", required" } else { "" };
        let line = format!(
            "{indent}- `{name}` ({}{required}): {}",
            kind(field),
            about(field)
        );
        let _ = writeln!(text, "{}", line.trim_end_matches(": "));
        within(text, field, depth + 1);
    }
}

/// Describes an inline object, or an array's inline items.
fn within(text: &mut String, schema: &Value, depth: usize) {
    if depth <= DEPTH && schema["properties"].is_object() {
        describe(text, schema, depth);
    }
    let items = &schema["items"];
    if depth <= DEPTH && items["properties"].is_object() {
        describe(text, items, depth);
    }
}

/// A field's description, allowed values, default and limits.
fn about(field: &Value) -> String {
    let mut about = one_line(&field["description"]);
    if let Some(words) = field["enum"].as_array() {
        let _ = write!(about, " One of {}.", list(words));
    }
    if !field["default"].is_null() {
        let _ = write!(about, " Default {}.", field["default"]);
    }
    for (least, most, of) in [
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " pairs"),
        ("minimum", "maximum", ""),
    ] {
        match (field[least].as_u64(), field[most].as_u64()) {
            // The range of an integer type is not a limit.
            (_, None) => {}
            (_, Some(most)) if [u64::from(u16::MAX), u64::from(u32::MAX)].contains(&most) => {}
            (Some(least), Some(most)) => drop(write!(about, " {least} to {most}{of}.")),
            (None, Some(most)) => drop(write!(about, " At most {most}{of}.")),
        }
    }
    about.trim().to_owned()
}

fn list(words: &[Value]) -> String {
    words
        .iter()
        .map(|word| format!("`{}`", plain(word)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A schema's type in a word or two; a named object is called by its name.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|path| path.rsplit('/').next())
    {
        return name.to_owned();
    }
    let members = ["allOf", "oneOf", "anyOf"]
        .into_iter()
        .find_map(|key| schema[key].as_array());
    if let Some(members) = members {
        let mut kinds: Vec<String> = members.iter().map(kind).collect();
        kinds.retain(|kind| kind != ANY);
        kinds.dedup();
        if !kinds.is_empty() {
            return kinds.join(" or ");
        }
    }
    if !schema["const"].is_null() {
        return schema["const"].to_string();
    }
    let types = match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => several.iter().map(plain).collect::<Vec<_>>().join(" or "),
        _ if schema["properties"].is_object() => "object".to_owned(),
        _ if schema["enum"][0].is_string() => "string".to_owned(),
        _ => return ANY.to_owned(),
    };
    let types = match schema["format"].as_str() {
        Some(format) if types.starts_with("string") => format!("{types}, {format}"),
        _ => types,
    };
    match &schema["items"] {
        Value::Null => types,
        items => format!("{types} of {}", kind(items)),
    }
}

/// The kind of a value whose schema has no type.
const ANY: &str = "any value";

/// A text of the document on one line, for use in a list.
pub(super) fn one_line(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_has_a_kind_in_either_version_of_openapi() {
        #[rustfmt::skip]
        let cases = [
            (json!({"type": "string"}), "string"),
            (json!({"type": "string", "format": "date-time"}), "string, date-time"),
            (json!({"type": ["string", "null"]}), "string or null"),
            (json!({"$ref": "#/components/schemas/Party"}), "Party"),
            (json!({"allOf": [{"$ref": "#/components/schemas/Party"}, {"description": "Who."}]}), "Party"),
            (json!({"oneOf": [{"$ref": "#/components/schemas/A"}, {"type": "null"}]}), "A or null"),
            (json!({"type": "array", "items": {"$ref": "#/components/schemas/A"}}), "array of A"),
            (json!({"properties": {}}), "object"),
            (json!({"type": "object", "oneOf": [{"required": ["a"]}]}), "object"),
            (json!({"enum": ["a", "b"]}), "string"),
            (json!({"const": true}), "true"),
            (json!({}), "any value"),
        ];
        for (schema, expected) in cases {
            assert_eq!(kind(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn fields_are_described_with_what_stands_within_them() {
        let mut text = String::new();
        let schema = json!({"required": ["a"], "properties": {
            "a": {"type": "object", "description": "First\nline.", "properties": {"b": {"enum": ["x", "y"], "type": "string"}, "c": {"type": "integer"}}},
        }});
        describe(&mut text, &schema, 0);
        assert_eq!(
            text,
            "- `a` (object, required): First line.\n  - `b` (string): One of `x`, `y`.\n  - `c` (integer)\n"
        );
    }
}
