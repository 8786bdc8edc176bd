//! How the nouns that poem-openapi derives nothing for appear in the OpenAPI document.

use std::borrow::Cow;

use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type};
use serde_json::Value;

use super::id::Noun;
use super::{Amount, Currency, Decimal, Id, Page, Scopes, Timestamp};
use crate::evidence::{FrozenTerms, Packet, SealedPacket};
use crate::ledger::{Disclosure, EventBody};
use crate::policy::Rule;

fn from_serde<T: serde::de::DeserializeOwned + Type>(value: Option<Value>) -> ParseResult<T> {
    serde_json::from_value(value.unwrap_or_default()).map_err(ParseError::custom)
}

/// Spells out the parts of [`Type`] that are the same for every such noun.
macro_rules! scalar_type {
    ($noun:ty, $name:expr, $schema:expr $(, for $generics:ident)?) => {
        impl$(<$generics: Noun>)? Type for $noun {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;
            fn name() -> Cow<'static, str> {
                $name.into()
            }
            fn schema_ref() -> MetaSchemaRef {
                MetaSchemaRef::Inline(Box::new($schema))
            }
            fn as_raw_value(&self) -> Option<&Self::RawValueType> {
                Some(self)
            }
            fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self::RawElementValueType> + 'a> {
                Box::new(self.as_raw_value().into_iter())
            }
        }
        impl$(<$generics: Noun>)? ToJSON for $noun {
            fn to_json(&self) -> Option<Value> {
                serde_json::to_value(self).ok()
            }
        }
        impl$(<$generics: Noun>)? ParseFromJSON for $noun {
            fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
                from_serde(value)
            }
        }
    };
}

scalar_type!(Id<N>, format!("{}_id", N::PREFIX), MetaSchema {
    pattern: Some(format!("^{}_[0-9a-f]{{32}}$", N::PREFIX)),
    ..MetaSchema::new("string")
}, for N);
scalar_type!(
    Decimal,
    "decimal",
    MetaSchema {
        minimum: Some(0.0),
        example: Some(1200.5.into()),
        ..MetaSchema::new("number")
    }
);
scalar_type!(
    Timestamp,
    "timestamp",
    MetaSchema {
        example: Some("2026-11-05T10:00:00.000Z".into()),
        ..MetaSchema::new_with_format("string", "date-time")
    }
);
scalar_type!(
    Currency,
    "currency",
    MetaSchema {
        pattern: Some("^[A-Z]{3}$".to_owned()),
        example: Some("USD".into()),
        ..MetaSchema::new("string")
    }
);
scalar_type!(
    Scopes,
    "scopes",
    MetaSchema {
        items: Some(Box::new(MetaSchemaRef::Inline(Box::new(MetaSchema {
            enum_items: Scopes::vocabulary().into_iter().map(Value::from).collect(),
            ..MetaSchema::new("string")
        })))),
        ..MetaSchema::new("array")
    }
);
scalar_type!(
    Amount,
    "amount",
    MetaSchema {
        properties: vec![
            ("amount", inline(MetaSchema::new("string"))),
            (
                "minorUnits",
                inline(MetaSchema::new_with_format("integer", "int64"))
            ),
            ("currency", Currency::schema_ref()),
        ],
        required: vec!["amount", "minorUnits", "currency"],
        example: Some(
            serde_json::json!({"amount": "617.25", "minorUnits": 61725, "currency": "USD"})
        ),
        ..MetaSchema::new("object")
    }
);
scalar_type!(
    Rule,
    "policy_rule",
    MetaSchema {
        example: Some("organizer.tiers[0]".into()),
        ..MetaSchema::new("string")
    }
);

impl<T: Type> Type for Page<T> {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        format!("{}Page", T::name()).into()
    }
    fn schema_ref() -> MetaSchemaRef {
        MetaSchemaRef::Reference(Self::name().into_owned())
    }
    fn register(registry: &mut Registry) {
        registry.create_schema::<Self, _>(Self::name().into_owned(), |registry| {
            T::register(registry);
            let cursor = MetaSchema {
                nullable: true,
                description: Some("Pass as `cursor` to go on; null on the last page."),
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

scalar_type!(FrozenTerms, "frozen_terms", MetaSchema::new("object"));
scalar_type!(
    EventBody,
    "event_body",
    MetaSchema {
        description: Some(
            "`bookguard.event/1`: the kind of fact, and a digest of each of its values"
        ),
        properties: vec![
            ("kind", inline(MetaSchema::new("string"))),
            ("sd", inline(MetaSchema::new("object"))),
            ("v", inline(MetaSchema::new("string"))),
        ],
        required: vec!["kind", "sd", "v"],
        ..MetaSchema::new("object")
    }
);
scalar_type!(
    Disclosure,
    "disclosure",
    MetaSchema {
        properties: vec![
            ("name", inline(MetaSchema::new("string"))),
            ("salt", inline(MetaSchema::new("string"))),
            ("value", inline(MetaSchema::ANY)),
        ],
        required: vec!["name", "salt", "value"],
        ..MetaSchema::new("object")
    }
);

/// Documented as the packet whose text it is.
impl Type for SealedPacket {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        <Packet as Type>::name()
    }
    fn schema_ref() -> MetaSchemaRef {
        Packet::schema_ref()
    }
    fn register(registry: &mut Registry) {
        Packet::register(registry);
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

fn inline(schema: MetaSchema) -> MetaSchemaRef {
    MetaSchemaRef::Inline(Box::new(schema))
}
