//! The policy's JSON Schema as components of the OpenAPI document, made from the schema's own text.
//!
//! OpenAPI 3.0 knows less than JSON Schema: `const` becomes an enumeration of one, and that no other members are allowed
//! stays unsaid, as with every body. A `$defs` entry with a title becomes a component of that name, any other is written out
//! where it is used.

use std::borrow::Cow;
use std::sync::LazyLock;

use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type};
use serde_json::Value;

use super::SCHEMA;
use crate::policy::Policy;

static PARSED: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(SCHEMA).expect("a test reads the schema as JSON"));

impl Type for Policy {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        "CancellationPolicy".into()
    }
    fn schema_ref() -> MetaSchemaRef {
        MetaSchemaRef::Reference(Self::name().into_owned())
    }
    fn register(registry: &mut Registry) {
        registry.create_schema::<Self, _>(Self::name().into_owned(), |_| whole(&PARSED));
        let parts = PARSED["$defs"].as_object().into_iter().flatten();
        for (part, title) in parts.filter_map(|(_, part)| Some((part, part["title"].as_str()?))) {
            registry.create_schema::<Self, _>(title.to_owned(), |_| whole(part));
        }
    }
    fn as_raw_value(&self) -> Option<&Self::RawValueType> {
        Some(self)
    }
    fn raw_element_iter<'a>(
        &'a self,
    ) -> Box<dyn Iterator<Item = &'a Self::RawElementValueType> + 'a> {
        Box::new(self.as_raw_value().into_iter())
    }
}

impl ToJSON for Policy {
    fn to_json(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

impl ParseFromJSON for Policy {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        serde_json::from_value(value.unwrap_or_default()).map_err(ParseError::custom)
    }
}

/// A schema where another uses it.
fn part(schema: &'static Value) -> MetaSchemaRef {
    let Some(name) = schema["$ref"].as_str() else {
        return MetaSchemaRef::Inline(Box::new(whole(schema)));
    };
    let named = &PARSED["$defs"][name.trim_start_matches("#/$defs/")];
    match named["title"].as_str() {
        Some(title) => MetaSchemaRef::Reference(title.to_owned()).merge(whole(schema)),
        None => {
            let own = whole(schema);
            let shared = whole(named);
            MetaSchemaRef::Inline(Box::new(MetaSchema {
                description: own.description.or(shared.description),
                default: own.default,
                ..shared
            }))
        }
    }
}

/// A schema but for what it refers to.
fn whole(schema: &'static Value) -> MetaSchema {
    let text = |name: &str| schema[name].as_str();
    let size = |name: &str| schema[name].as_u64().and_then(|n| usize::try_from(n).ok());
    let list = |name: &str| schema[name].as_array().into_iter().flatten();
    let words = list("enum").chain(schema.get("const")).cloned();
    let enum_items: Vec<Value> = words.collect();
    let ty = text("type").unwrap_or_else(|| match enum_items.first() {
        Some(Value::Bool(_)) => "boolean",
        Some(_) => "string",
        None => "",
    });
    let properties = schema["properties"].as_object().into_iter().flatten();
    MetaSchema {
        ty,
        title: text("title").map(str::to_owned),
        description: text("description"),
        default: schema.get("default").cloned(),
        example: list("examples").next().cloned(),
        enum_items,
        required: list("required").filter_map(Value::as_str).collect(),
        properties: properties
            .map(|(name, value)| (name.as_str(), part(value)))
            .collect(),
        items: schema.get("items").map(|items| Box::new(part(items))),
        one_of: list("oneOf").map(part).collect(),
        minimum: schema["minimum"].as_f64(),
        maximum: schema["maximum"].as_f64(),
        min_length: size("minLength"),
        max_length: size("maxLength"),
        min_items: size("minItems"),
        max_items: size("maxItems"),
        pattern: text("pattern").map(str::to_owned),
        ..MetaSchema::ANY
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every word of the schema.
    fn words(schema: &Value, found: &mut BTreeSet<String>) {
        for (word, value) in schema.as_object().into_iter().flatten() {
            found.insert(word.clone());
            match word.as_str() {
                "properties" | "$defs" => {
                    let parts = value.as_object().unwrap().values();
                    parts.for_each(|part| words(part, found));
                }
                "oneOf" => value
                    .as_array()
                    .unwrap()
                    .iter()
                    .for_each(|part| words(part, found)),
                "items" => words(value, found),
                _ => {}
            }
        }
    }

    #[test]
    fn every_word_of_the_schema_is_one_that_is_carried_over() {
        let mut found = BTreeSet::new();
        words(&PARSED, &mut found);
        let known = [
            "$defs",
            "$id",
            "$ref",
            "$schema",
            "additionalProperties",
            "const",
            "default",
            "description",
            "enum",
            "examples",
            "items",
            "maxItems",
            "maxLength",
            "maximum",
            "minItems",
            "minLength",
            "minimum",
            "oneOf",
            "pattern",
            "properties",
            "required",
            "title",
            "type",
        ];
        assert_eq!(found, known.map(str::to_owned).into());
    }

    #[test]
    fn the_components_say_what_the_schema_says() {
        let mut registry = Registry::new();
        Policy::register(&mut registry);
        let names: Vec<&String> = registry.schemas.keys().collect();
        assert_eq!(
            names,
            ["CancellationPolicy", "PolicyOutcome", "PolicySplit"]
        );
        let schema = serde_json::to_value(&registry.schemas["CancellationPolicy"]).unwrap();
        assert_eq!(
            schema["required"],
            serde_json::json!(["policyId", "organizer"])
        );
        let properties = &schema["properties"];
        assert_eq!(properties["claimWindow"]["default"], "P14D");
        assert_eq!(
            properties["claimWindow"]["pattern"],
            PARSED["$defs"]["duration"]["pattern"]
        );
        assert_eq!(
            properties["rounding"]["enum"],
            PARSED["properties"]["rounding"]["enum"]
        );
        let tier = &properties["organizer"]["properties"]["tiers"]["items"];
        assert_eq!(
            tier["properties"]["outcome"]["$ref"],
            "#/components/schemas/PolicyOutcome"
        );
        let outcome = serde_json::to_value(&registry.schemas["PolicyOutcome"]).unwrap();
        assert_eq!(
            outcome["oneOf"][0]["$ref"],
            "#/components/schemas/PolicySplit"
        );
        assert_eq!(
            outcome["oneOf"][3]["properties"]["manual"]["enum"],
            serde_json::json!([true])
        );
    }
}
