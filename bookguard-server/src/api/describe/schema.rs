//! Request bodies and answer types as JSON Schema 2020-12, which OpenAPI 3.1 uses.
//!
//! The types describe themselves to poem-openapi's registry in OpenAPI 3.0; this module converts that to 3.1. Request bodies
//! describe themselves (`input::Declaration`).

use std::collections::{BTreeMap, BTreeSet};

use bookguard_core::input::{Declaration, Json};
use bookguard_core::policy;
use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::Type as _;
use serde_json::{Value, json};

use super::{members, written};
use crate::api::OperationEntry;
use crate::refusal::{ErrorBody, Problem, Unauthorized};

const COMPONENTS: &str = "#/components/schemas/";
/// The schema for `PUT` of a policy, whose id is in the path.
const PUT_POLICY: &str = "NewPolicy";

/// Every named schema: the answers' types as they describe themselves, the written ones, and the request readers' declarations,
/// which know the limits and override both.
pub(super) fn components(table: &[OperationEntry]) -> Vec<(String, Json)> {
    let mut registry = Registry::new();
    ErrorBody::register(&mut registry);
    Problem::register(&mut registry);
    Unauthorized::register(&mut registry);
    for entry in table {
        (entry.output.register)(&mut registry);
    }
    let declared = table
        .iter()
        .filter_map(|entry| entry.route.body.declaration());
    let declared: Vec<(String, Json)> = declared.flat_map(Declaration::schemas).collect();
    let answers = table.iter().map(|entry| (entry.output.reference)());
    let refusals = [
        ErrorBody::schema_ref(),
        Unauthorized::schema_ref(),
        Problem::schema_ref(),
    ];
    let answered = reached(answers.chain(refusals), &registry);
    let named = registry.schemas.iter();
    // A type that is only ever inlined in others is not a component.
    let named = named.filter(|(name, _)| answered.contains(*name));
    let types = named.map(|(name, schema)| (name.clone(), whole(schema)));
    let written = types
        .chain(policy_schemas())
        .chain(written::members("schemas"));
    let mut components: BTreeMap<String, Json> = written.collect();
    for (name, member, value) in members::constants() {
        let constant = Json::object([(member, Json::object([("const", value.into())]))]);
        let component = components.get_mut(name).expect("a test finds them all");
        component.patch(&Json::object([("properties", constant)]));
    }
    for (name, schema) in declared {
        let component = components.entry(name);
        component.or_insert(Json::Object(Vec::new())).patch(&schema);
    }
    components.into_iter().collect()
}

/// A schema at the place where it is used.
pub(super) fn reference(schema: &MetaSchemaRef) -> Json {
    part(schema)
}

/// The name of the schema that a reference points to.
pub(super) fn name(reference: &Json) -> &str {
    let target = reference.get("$ref").and_then(Json::as_str);
    target.unwrap_or_default().trim_start_matches(COMPONENTS)
}

/// The names of these schemas and of all schemas they can contain.
fn reached(from: impl Iterator<Item = MetaSchemaRef>, registry: &Registry) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<String> = Vec::new();
    from.for_each(|schema| names_in(&schema, &mut next));
    while let Some(name) = next.pop() {
        let schema = registry.schemas.get(&name);
        if reached.insert(name)
            && let Some(schema) = schema
        {
            names_within(schema, &mut next);
        }
    }
    reached
}

fn names_in(schema: &MetaSchemaRef, names: &mut Vec<String>) {
    match schema {
        MetaSchemaRef::Reference(name) => names.push(name.clone()),
        MetaSchemaRef::Inline(schema) => names_within(schema, names),
    }
}

fn names_within(schema: &MetaSchema, names: &mut Vec<String>) {
    let properties = schema.properties.iter().map(|(_, schema)| schema);
    let single = [&schema.items, &schema.additional_properties];
    let single = single.into_iter().flatten().map(AsRef::as_ref);
    let several = [&schema.all_of, &schema.any_of, &schema.one_of];
    let several = several.into_iter().flatten();
    for part in properties.chain(single).chain(several) {
        names_in(part, names);
    }
}

fn part(schema: &MetaSchemaRef) -> Json {
    match schema {
        MetaSchemaRef::Inline(schema) => whole(schema),
        MetaSchemaRef::Reference(name) => {
            Json::object([("$ref", format!("{COMPONENTS}{name}").as_str().into())])
        }
    }
}

fn whole(schema: &MetaSchema) -> Json {
    // The registry's form for a named schema with another description where it is used; in 3.1 that may stand beside `$ref`.
    if let [
        named @ MetaSchemaRef::Reference(_),
        MetaSchemaRef::Inline(_),
    ] = &schema.all_of[..]
    {
        return named_anew(part(named), schema);
    }
    let what = [
        ("type", types(schema)),
        ("format", format(schema)),
        ("description", schema.description.map(one_line)),
        ("default", schema.default.clone().map(Into::into)),
        (
            "examples",
            schema.example.clone().map(|one| Json::array([one])),
        ),
    ];
    let deprecated = schema.deprecated.then(|| true.into());
    let words = what.into_iter().chain(limits(schema)).chain(parts(schema));
    let words = words.chain([("deprecated", deprecated)]);
    Json::object(words.filter_map(|(word, value)| Some((word, value?))))
}

type Words<const N: usize> = [(&'static str, Option<Json>); N];

/// The constraints on its values.
fn limits(schema: &MetaSchema) -> Words<12> {
    let (minimum, maximum) = bounds(schema);
    let null = schema.nullable.then_some(Value::Null);
    let choices = (!schema.enum_items.is_empty()).then_some(&schema.enum_items);
    let exclusive = |is: Option<bool>, word, other| if is == Some(true) { word } else { other };
    let least = exclusive(schema.exclusive_minimum, "exclusiveMinimum", "minimum");
    let most = exclusive(schema.exclusive_maximum, "exclusiveMaximum", "maximum");
    [
        (least, minimum.map(number)),
        (most, maximum.map(number)),
        ("multipleOf", schema.multiple_of.map(number)),
        ("minLength", schema.min_length.map(Into::into)),
        ("maxLength", schema.max_length.map(Into::into)),
        ("pattern", schema.pattern.as_deref().map(Into::into)),
        ("minItems", schema.min_items.map(Into::into)),
        ("maxItems", schema.max_items.map(Into::into)),
        ("uniqueItems", schema.unique_items.map(Into::into)),
        ("minProperties", schema.min_properties.map(Into::into)),
        ("maxProperties", schema.max_properties.map(Into::into)),
        (
            "enum",
            choices.map(|items| Json::array(items.iter().cloned().chain(null))),
        ),
    ]
}

/// The schemas it contains.
fn parts(schema: &MetaSchema) -> Words<7> {
    let properties = schema.properties.iter().map(|(name, schema)| {
        let mut member = part(schema);
        members::say(name, &mut member);
        ((*name).to_owned(), member)
    });
    let properties: Vec<(String, Json)> = properties.collect();
    let required = schema.required.iter().copied();
    let required = (required.len() > 0).then(|| Json::array(required));
    let properties = Some(properties).filter(|all| !all.is_empty());
    let several = |schemas: &[MetaSchemaRef]| {
        (!schemas.is_empty()).then(|| Json::array(schemas.iter().map(part)))
    };
    [
        ("items", schema.items.as_deref().map(part)),
        ("required", required),
        ("properties", properties.map(Json::object)),
        (
            "additionalProperties",
            schema.additional_properties.as_deref().map(part),
        ),
        ("allOf", several(&schema.all_of)),
        ("anyOf", several(&schema.any_of)),
        ("oneOf", several(&schema.one_of)),
    ]
}

/// A reference to a named schema with the description given here, or null if it is nullable.
fn named_anew(mut named: Json, schema: &MetaSchema) -> Json {
    if schema.nullable {
        let null = Json::object([("type", "null".into())]);
        named = Json::object([("anyOf", Json::array([named, null]))]);
    }
    if let Some(description) = schema.description {
        named.set("description", one_line(description));
    }
    if let Some(default) = schema.default.clone() {
        named.set("default", default.into());
    }
    named
}

fn types(schema: &MetaSchema) -> Option<Json> {
    match schema.ty {
        "" => None,
        ty if schema.nullable => Some(Json::array([ty, "null"])),
        ty => Some(ty.into()),
    }
}

/// The format, converted to one that OpenAPI defines.
fn format(schema: &MetaSchema) -> Option<Json> {
    match schema.format? {
        "uint16" => Some("int32".into()),
        "uint32" | "uint64" => Some("int64".into()),
        other => Some(other.into()),
    }
}

/// The least and the greatest value, from the schema or otherwise from the width of its type.
fn bounds(schema: &MetaSchema) -> (Option<f64>, Option<f64>) {
    let (least, most) = match schema.format {
        Some("uint16") => (Some(0.0), Some(f64::from(u16::MAX))),
        Some("uint32") => (Some(0.0), Some(f64::from(u32::MAX))),
        Some("uint64") => (Some(0.0), None),
        _ => (None, None),
    };
    (schema.minimum.or(least), schema.maximum.or(most))
}

/// A number as people write it: whole numbers without a decimal point.
fn number(value: f64) -> Json {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole, and far below 2^53"
    )]
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => Json::Leaf((value as i64).into()),
        false => Json::Leaf(value.into()),
    }
}

/// Joins the lines of each paragraph: documentation comments are wrapped in the source.
fn one_line(text: &str) -> Json {
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "));
    let paragraphs: Vec<String> = paragraphs.collect();
    paragraphs.join("\n\n").as_str().into()
}

/// The schemas of policies, which are JSON Schema already. Parts with a title become components; all others are written out
/// where they are used.
fn policy_schemas() -> Vec<(String, Json)> {
    let schema = Json::parse(policy::SCHEMA);
    let parts = schema.get("$defs").map(Json::members).unwrap_or_default();
    let titled = parts
        .iter()
        .filter_map(|(_, part)| Some((title(part)?, part)));
    // For `PUT`, the policy's id comes from the path.
    let mut put = schema.clone();
    put.set("required", Json::array(["organizer"]));
    put.patch(&put_version());
    [(policy::POLICY_SCHEMA, &schema), (PUT_POLICY, &put)]
        .into_iter()
        .chain(titled)
        .map(|(title, part)| {
            let mut node = policy_part(part, parts);
            for word in ["$schema", "$id", "$defs", "title"] {
                node.remove(word);
            }
            (title.to_owned(), node)
        })
        .collect()
}

/// Describes the version of a policy that is put.
fn put_version() -> Json {
    let about = "The latest version, which this changes, or the next one; 0 if there is none yet. Without it, this is the next version \
                 whatever the latest is.";
    let version = json!({"description": about, "minimum": 0, "default": null});
    json!({"properties": {"version": version}}).into()
}

fn policy_part(schema: &Json, parts: &[(String, Json)]) -> Json {
    let members = match schema {
        Json::Object(members) => members,
        Json::Array(items) => {
            return Json::Array(items.iter().map(|item| policy_part(item, parts)).collect());
        }
        Json::Leaf(_) => return schema.clone(),
    };
    let mut node = Json::object(Vec::<(String, Json)>::new());
    for (word, value) in members {
        match word.as_str() {
            "$ref" => {
                let name = value
                    .as_str()
                    .unwrap_or_default()
                    .trim_start_matches("#/$defs/");
                let found = parts
                    .iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, part)| part);
                match found.and_then(title) {
                    Some(title) => node.set(word, format!("{COMPONENTS}{title}").as_str().into()),
                    None => found
                        .map(Json::members)
                        .unwrap_or_default()
                        .iter()
                        .for_each(|(word, value)| {
                            node.set(word, value.clone());
                        }),
                }
            }
            _ => node.set(word, policy_part(value, parts)),
        }
    }
    node
}

fn title(schema: &Json) -> Option<&str> {
    schema.get("title")?.as_str()
}
