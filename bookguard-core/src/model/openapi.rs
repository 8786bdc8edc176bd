//! OpenAPI schemas of the nouns that the derive `Schema` cannot describe, because they write themselves.

use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::Type;
use serde_json::Value;

use super::id::{Noun, id_pattern};
use super::{Amount, Currency, Decimal, Id, Page, Scopes, Timestamp};
use crate::limits;

/// Implements the parts of [`Type`] that are the same for every such noun. The schema is inline, or with `component` one of
/// the components; with `@`, how it is referred to and registered is said in full.
macro_rules! noun_type {
    ($noun:ty, component $name:literal, $schema:expr) => {
        noun_type!(@ $noun, $name, poem_openapi::registry::MetaSchemaRef::Reference($name.to_owned()), |registry: &mut poem_openapi::registry::Registry| {
            registry.create_schema::<Self, _>($name.to_owned(), $schema);
        });
    };
    ($noun:ty, $name:expr, $schema:expr $(, for $generics:ident: $bound:ident)?) => {
        noun_type!(@ $noun, $name, poem_openapi::registry::MetaSchemaRef::Inline(Box::new($schema)), |_: &mut poem_openapi::registry::Registry| {} $(, for $generics: $bound)?);
    };
    (@ $noun:ty, $name:expr, $reference:expr, $register:expr $(, for $generics:ident: $bound:ident)?) => {
        impl$(<$generics: $bound>)? poem_openapi::types::Type for $noun {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn schema_ref() -> poem_openapi::registry::MetaSchemaRef {
                $reference
            }
            fn register(registry: &mut poem_openapi::registry::Registry) {
                let register: fn(&mut poem_openapi::registry::Registry) = $register;
                register(registry);
            }
            fn as_raw_value(&self) -> Option<&Self::RawValueType> {
                Some(self)
            }
            fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self::RawElementValueType> + 'a> {
                Box::new(self.as_raw_value().into_iter())
            }
        }
    };
}
pub(crate) use noun_type;

noun_type!(Id<N>, format!("{}_id", N::PREFIX), MetaSchema {
    pattern: Some(id_pattern(N::PREFIX)),
    ..MetaSchema::new("string")
}, for N: Noun);
noun_type!(
    Decimal,
    "decimal",
    MetaSchema {
        minimum: Some(0.0),
        maximum: Some(limits::AMOUNT_MINOR_UNITS as f64),
        example: Some(1200.5.into()),
        ..MetaSchema::new("number")
    }
);
noun_type!(
    Timestamp,
    "timestamp",
    MetaSchema {
        example: Some("2026-11-05T10:00:00.000Z".into()),
        ..MetaSchema::new_with_format("string", "date-time")
    }
);
noun_type!(Currency, component "Currency", |_| MetaSchema {
    description: Some("ISO 4217 code of a currency that has minor units, or none because it needs none."),
    enum_items: currencies(),
    example: Some("USD".into()),
    ..MetaSchema::new("string")
});
// Documented as the list it serializes to.
noun_type!(@ Scopes, "scopes", inline(MetaSchema {
    items: Some(Box::new(MetaSchemaRef::Reference("Scope".to_owned()))),
    ..MetaSchema::new("array")
}), |registry: &mut Registry| {
    registry.create_schema::<Self, _>("Scope".to_owned(), |_| MetaSchema {
        description: Some("What a key may do: an action on one kind of thing, every action on it, or everything."),
        enum_items: Scopes::vocabulary().into_iter().map(Value::from).collect(),
        ..MetaSchema::new("string")
    });
});

noun_type!(Amount, component "Amount", |registry| {
    Currency::register(registry);
    MetaSchema {
        description: Some("An exact amount of money, twice: as a decimal and as a count of the currency's smallest unit."),
        properties: vec![
            (
                "amount",
                inline(MetaSchema {
                    pattern: Some(r"^(0|[1-9][0-9]{0,14})(\.[0-9]{1,4})?$".to_owned()),
                    ..MetaSchema::new("string")
                }),
            ),
            (
                "minorUnits",
                inline(MetaSchema {
                    minimum: Some(0.0),
                    maximum: Some(limits::AMOUNT_MINOR_UNITS as f64),
                    ..MetaSchema::new_with_format("integer", "int64")
                }),
            ),
            ("currency", Currency::schema_ref()),
        ],
        required: vec!["amount", "minorUnits", "currency"],
        example: Some(serde_json::json!({"amount": "617.25", "minorUnits": 61725, "currency": "USD"})),
        ..MetaSchema::new("object")
    }
});
/// Every code that the reader accepts.
fn currencies() -> Vec<Value> {
    let letters = || (b'A'..=b'Z').map(char::from);
    let codes = letters().flat_map(move |a| {
        letters().flat_map(move |b| letters().map(move |c| String::from_iter([a, b, c])))
    });
    codes
        .filter(|code| Currency::parse(code).is_ok())
        .map(Value::from)
        .collect()
}

noun_type!(@ Page<T>, format!("{}Page", T::name()), MetaSchemaRef::Reference(Self::name().into_owned()), |registry: &mut Registry| {
    registry.create_schema::<Self, _>(Self::name().into_owned(), |registry| {
        T::register(registry);
        let cursor = MetaSchema {
            nullable: true,
            description: Some("Pass as `cursor` for the next page; null on the last page."),
            ..MetaSchema::new("string")
        };
        MetaSchema {
            description: Some("One page of a list."),
            properties: vec![
                ("data", Vec::<T>::schema_ref()),
                ("hasMore", bool::schema_ref()),
                ("nextCursor", inline(cursor)),
            ],
            required: vec!["data", "hasMore", "nextCursor"],
            ..MetaSchema::new("object")
        }
    });
}, for T: Type);

pub(crate) fn inline(schema: MetaSchema) -> MetaSchemaRef {
    MetaSchemaRef::Inline(Box::new(schema))
}
