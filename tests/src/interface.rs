//! Checks what a server answers and sends against the interface document, with a third-party validator.
//!
//! Every answer that a [`Caller`](crate::caller::Caller) gets is checked here, so every end-to-end test also tests the
//! document.

use std::collections::HashMap;
use std::sync::LazyLock;

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::Value;

const PLACE: &str = "urn:openapi";

static JUDGE: LazyLock<Judge> = LazyLock::new(|| Judge::new(bookguard_server::openapi()));
static OPERATOR_JUDGE: LazyLock<Judge> =
    LazyLock::new(|| Judge::new(bookguard_server::operator_openapi()));

/// Whose interface an answer is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// The partners'.
    Partners,
    /// The operator's.
    Operator,
}

impl Interface {
    fn judge(self) -> &'static Judge {
        match self {
            Self::Partners => &JUDGE,
            Self::Operator => &OPERATOR_JUDGE,
        }
    }
}

/// Every schema of requests, answers and headers, by its pointer.
struct Judge {
    document: &'static Value,
    schemas: Schemas,
    places: HashMap<String, SchemaIndex>,
}

impl Judge {
    fn new(document: &'static Value) -> Self {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler
            .add_resource(PLACE, document.clone())
            .expect("the document is JSON");
        let mut pointers = Vec::new();
        for part in ["paths", "webhooks", "components"] {
            find_schemas(&document[part], format!("/{part}"), &mut pointers);
        }
        let named = document["components"]["schemas"].as_object();
        let named = named.into_iter().flat_map(|schemas| schemas.keys());
        pointers.extend(named.map(|name| format!("/components/schemas/{name}")));
        let mut schemas = Schemas::new();
        let places = pointers.into_iter().map(|pointer| {
            let place = pointer.replace('{', "%7B").replace('}', "%7D");
            let compiled = compiler.compile(&format!("{PLACE}#{place}"), &mut schemas);
            let schema = compiled.unwrap_or_else(|e| panic!("{pointer}: {e:#}"));
            (pointer, schema)
        });
        let places = places.collect();
        Self {
            document,
            schemas,
            places,
        }
    }

    fn judge(&self, pointer: &str, value: &Value) -> Result<(), String> {
        let schema = self.places.get(pointer);
        let schema = schema.unwrap_or_else(|| panic!("there is no schema at {pointer}"));
        let judged = self.schemas.validate(value, *schema);
        judged.map_err(|why| format!("{why:#}"))
    }
}

/// The pointers of all members called `schema`.
fn find_schemas(value: &Value, pointer: String, found: &mut Vec<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        let name = name.replace('~', "~0").replace('/', "~1");
        let pointer = format!("{pointer}/{name}");
        match name.as_str() {
            "schema" => found.push(pointer),
            "example" | "examples" | "schemas" => {}
            _ => find_schemas(member, pointer, found),
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        find_schemas(item, format!("{pointer}/{index}"), found);
    }
}

/// The errors of a value against the schema at this pointer into the document.
pub fn judge_schema(pointer: &str, value: &Value) -> Result<(), String> {
    JUDGE.judge(pointer, value)
}

/// Asserts that a value matches the schema at this pointer into the document.
pub fn assert_schema(pointer: &str, value: &Value) {
    if let Err(why) = judge_schema(pointer, value) {
        panic!("{pointer}: {why}\n{value:#}");
    }
}

/// Asserts that an answer with a JSON body matches the document, if its path and method are in it.
pub fn assert_answer(interface: Interface, method: &str, path: &str, status: u16, body: &[u8]) {
    let judge = interface.judge();
    let document = judge.document;
    let Some(template) = template(document, path) else {
        return;
    };
    let method = match method {
        "HEAD" => return,
        other => other.to_lowercase(),
    };
    let template = template.replace('~', "~0").replace('/', "~1");
    let mut pointer = format!("/paths/{template}/{method}/responses/{status}");
    if let Some(shared) = document
        .pointer(&pointer)
        .and_then(|answer| answer["$ref"].as_str())
    {
        pointer = shared.trim_start_matches('#').to_owned();
    }
    pointer.push_str("/content/application~1json/schema");
    if document.pointer(&pointer).is_some() {
        let value = serde_json::from_slice(body);
        let value = value.unwrap_or_else(|e| panic!("{method} {path} {status}: {e}"));
        if let Err(why) = judge.judge(&pointer, &value) {
            panic!("{pointer}: {why}\n{value:#}");
        }
    }
}

/// The document's path that matches this one; a fixed path wins over one with parameters.
fn template<'d>(document: &'d Value, path: &str) -> Option<&'d str> {
    let paths = document["paths"].as_object().into_iter();
    let mut paths: Vec<&str> = paths
        .flat_map(|paths| paths.keys().map(String::as_str))
        .collect();
    paths.sort_by_key(|path| path.matches('{').count());
    let is = |template: &&str| {
        let (mut known, mut asked) = (template.split('/'), path.split('/'));
        loop {
            match (known.next(), asked.next()) {
                (None, None) => return true,
                (Some(known), Some(asked)) if known == asked => {}
                (Some(known), Some(asked)) if known.starts_with('{') && !asked.is_empty() => {}
                _ => return false,
            }
        }
    };
    paths.into_iter().find(is)
}
