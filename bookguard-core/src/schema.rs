//! How answers appear in the OpenAPI document. `#[derive(Schema)]` lists a type's members; what is made of the list is here
//! once, not in every type again.

pub use bookguard_derive::Schema;

use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::Type;
use serde::Serialize;
use serde_json::Value;

/// A member of an object.
pub struct Member {
    name: &'static str,
    about: Option<&'static str>,
    schema: fn() -> MetaSchemaRef,
    register: fn(&mut Registry),
    /// Whether its type always has a value.
    has_value: bool,
    flattened: bool,
    /// The value that is not written.
    left_out: Option<fn() -> Value>,
    pattern: Option<&'static str>,
}

impl Member {
    /// A member of type `T`, which is always written.
    pub const fn new<T: Type>(name: &'static str, about: Option<&'static str>) -> Self {
        Self {
            name,
            about,
            schema: T::schema_ref,
            register: T::register,
            has_value: T::IS_REQUIRED,
            flattened: false,
            left_out: None,
            pattern: None,
        }
    }

    /// The members of its type stand in its place.
    pub const fn flattened(self) -> Self {
        Self {
            flattened: true,
            ..self
        }
    }

    /// Not written when it is the default of its type `T`.
    pub const fn left_out<T: Default + Serialize>(self) -> Self {
        let default = || serde_json::to_value(T::default()).expect("an answer can be written");
        Self {
            left_out: Some(default),
            ..self
        }
    }

    /// The pattern of its text.
    pub const fn pattern(self, pattern: &'static str) -> Self {
        Self {
            pattern: Some(pattern),
            ..self
        }
    }

    fn described(&self) -> MetaSchemaRef {
        (self.schema)().merge(MetaSchema {
            description: self.about,
            nullable: !self.has_value && self.left_out.is_none(),
            default: self
                .left_out
                .filter(|_| self.has_value)
                .map(|default| default()),
            pattern: self.pattern.map(str::to_owned),
            ..MetaSchema::ANY
        })
    }
}

/// Adds the object `name`, made of `members`, to the components. Recursive types are allowed, unless they are flattened.
///
/// # Panics
///
/// If another type than `rust_type` has the name, or what is flattened is not a component.
pub fn object(
    registry: &mut Registry,
    name: &str,
    rust_type: &'static str,
    about: Option<&'static str>,
    members: &[Member],
) {
    component(registry, name, rust_type, |registry| {
        let mut schema = MetaSchema {
            description: about,
            ..MetaSchema::new("object")
        };
        for member in members {
            (member.register)(registry);
            if member.flattened {
                let inner = finished(registry, &(member.schema)());
                schema.properties.extend(inner.properties.iter().cloned());
                schema.required.extend(&inner.required);
                continue;
            }
            schema.properties.push((member.name, member.described()));
            if member.left_out.is_none() {
                schema.required.push(member.name);
            }
        }
        schema
    });
}

/// The component that a flattened member refers to.
fn finished<'a>(registry: &'a Registry, reference: &MetaSchemaRef) -> &'a MetaSchema {
    let component = match reference {
        MetaSchemaRef::Reference(name) => registry.schemas.get(name),
        MetaSchemaRef::Inline(_) => None,
    };
    component
        .filter(|schema| schema.rust_typename.is_some())
        .expect("what is flattened is a component, and does not contain itself")
}

/// Adds the texts `name` can be to the components.
///
/// # Panics
///
/// If another type than `rust_type` has the name.
pub fn words(
    registry: &mut Registry,
    name: &str,
    rust_type: &'static str,
    about: Option<&'static str>,
    words: &[&'static str],
) {
    component(registry, name, rust_type, |_| MetaSchema {
        description: about,
        enum_items: words.iter().map(|&word| word.into()).collect(),
        ..MetaSchema::new("string")
    });
}

/// The component `name`.
pub fn reference(name: &str) -> MetaSchemaRef {
    MetaSchemaRef::Reference(name.to_owned())
}

/// Adds a component, unless it is there. Like `Registry::create_schema`, which would be compiled for every type again.
fn component(
    registry: &mut Registry,
    name: &str,
    rust_type: &'static str,
    describe: impl FnOnce(&mut Registry) -> MetaSchema,
) {
    if let Some(known) = registry.schemas.get(name) {
        // A component that is still being made has no Rust type yet.
        let known = known.rust_typename.unwrap_or(rust_type);
        assert_eq!(
            known, rust_type,
            "two types have the name `{name}` in the OpenAPI document"
        );
        return;
    }
    // Inserted first, so that a type that contains itself is described once.
    registry
        .schemas
        .insert(name.to_owned(), MetaSchema::new("unfinished"));
    let schema = describe(registry);
    let rust_typename = Some(rust_type);
    registry.schemas.insert(
        name.to_owned(),
        MetaSchema {
            rust_typename,
            ..schema
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// One of everything.
    #[derive(Default, Serialize, Schema)]
    #[serde(rename = "Everything", rename_all = "camelCase")]
    struct All {
        /// Always written,
        /// in two lines.
        is_written: bool,
        always_an_option: Option<u16>,
        /// Of its own.
        another: Option<Inner>,
        #[serde(skip_serializing_if = "Option::is_none")]
        option: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        list: Vec<String>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        flag: bool,
        #[schema(required)]
        #[serde(skip_serializing_if = "String::is_empty")]
        nearly_always: String,
        #[serde(rename = "type")]
        #[schema(pattern = "^[a-z]+$")]
        kind: String,
        #[serde(skip)]
        _nowhere: u8,
        #[serde(flatten)]
        inner: Inner,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        itself: Vec<All>,
    }

    #[derive(Default, Serialize, Schema)]
    struct Inner {
        snake_case: Vec<OneWord>,
        #[serde(skip_serializing_if = "Option::is_none")]
        r#in: Option<u8>,
    }

    /// A word.
    #[derive(Serialize, Schema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only described")]
    enum OneWord {
        InSnakeCase,
        #[serde(rename = "v2")]
        Second,
    }

    #[derive(Default, Serialize, Schema)]
    struct Endless {
        #[serde(flatten)]
        more: Option<Box<Self>>,
    }

    mod other {
        use super::*;

        #[derive(Serialize, Schema)]
        pub struct Inner {
            pub another: u8,
        }
    }

    fn described<T: Type>() -> Value {
        let mut registry = Registry::new();
        T::register(&mut registry);
        T::register(&mut registry);
        serde_json::to_value(&registry.schemas).unwrap()
    }

    #[test]
    fn a_type_is_described_as_serde_writes_it() {
        let schemas = described::<All>();
        let text = json!({"type": "string"});
        let words = json!({"type": "array", "items": {"$ref": "#/components/schemas/OneWord"}});
        let itself = json!({"type": "array", "items": {"$ref": "#/components/schemas/Everything"}, "default": []});
        let here = json!({"description": "Of its own.", "nullable": true});
        let mut another = here.clone();
        another["allOf"] = json!([{"$ref": "#/components/schemas/Inner"}, here]);
        let properties = json!({
            "isWritten": {"type": "boolean", "description": "Always written,\nin two lines."},
            "alwaysAnOption": {"type": "integer", "format": "uint16", "nullable": true},
            "another": another,
            "option": text,
            "list": {"type": "array", "items": text, "default": []},
            "flag": {"type": "boolean", "default": false},
            "nearlyAlways": text,
            "type": {"type": "string", "pattern": "^[a-z]+$"},
            "snake_case": words,
            "in": {"type": "integer", "format": "uint8"},
            "itself": itself,
        });
        let all = &schemas["Everything"];
        assert_eq!(all["properties"], properties);
        assert_eq!(all["description"], "One of everything.");
        let word =
            json!({"type": "string", "description": "A word.", "enum": ["in_snake_case", "v2"]});
        assert_eq!(schemas["OneWord"], word);

        // serde agrees: even a default value has every required member but the one that is only nearly always there.
        let written = serde_json::to_value(All::default()).unwrap();
        let written: Vec<_> = written.as_object().unwrap().keys().collect();
        let required = all["required"].as_array().unwrap().iter();
        let mut required: Vec<_> = required
            .filter_map(Value::as_str)
            .filter(|name| *name != "nearlyAlways")
            .collect();
        required.sort_unstable();
        assert_eq!(written, required);
    }

    #[test]
    #[should_panic(expected = "two types have the name `Inner`")]
    fn two_types_of_one_name_are_noticed() {
        let mut registry = Registry::new();
        Inner::register(&mut registry);
        other::Inner::register(&mut registry);
    }

    #[test]
    #[should_panic(expected = "does not contain itself")]
    fn what_contains_itself_is_not_flattened() {
        described::<Endless>();
    }
}
