//! How the nouns that poem-openapi derives nothing for appear in the OpenAPI document.

use std::borrow::Cow;

use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type};
use serde_json::Value;

use super::id::{Noun, id_pattern};
use super::{Amount, Currency, Decimal, Id, Page, Scopes, Timestamp};
use crate::evidence::{FrozenTerms, Packet, SealedPacket};
use crate::ledger::{Disclosure, EventBody};
use crate::limits;
use crate::policy::{Assumption, PolicySource, Rule};

fn from_serde<T: serde::de::DeserializeOwned + Type>(value: Option<Value>) -> ParseResult<T> {
    serde_json::from_value(value.unwrap_or_default()).map_err(ParseError::custom)
}

/// Spells out the parts of [`Type`] that are the same for every such noun: one whose schema stands where it is used, or
/// (`component`) once among the components.
macro_rules! noun_type {
    ($noun:ty, component $name:literal, $schema:expr) => {
        noun_type!(@ $noun, $name, MetaSchemaRef::Reference($name.to_owned()), |registry: &mut Registry| {
            registry.create_schema::<Self, _>($name.to_owned(), $schema);
        });
    };
    ($noun:ty, $name:expr, $schema:expr $(, for $generics:ident)?) => {
        noun_type!(@ $noun, $name, MetaSchemaRef::Inline(Box::new($schema)), |_: &mut Registry| {} $(, for $generics)?);
    };
    (@ $noun:ty, $name:expr, $reference:expr, $register:expr $(, for $generics:ident)?) => {
        impl$(<$generics: Noun>)? Type for $noun {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;
            fn name() -> Cow<'static, str> {
                $name.into()
            }
            fn schema_ref() -> MetaSchemaRef {
                $reference
            }
            fn register(registry: &mut Registry) {
                let register: fn(&mut Registry) = $register;
                register(registry);
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

noun_type!(Id<N>, format!("{}_id", N::PREFIX), MetaSchema {
    pattern: Some(id_pattern(N::PREFIX)),
    ..MetaSchema::new("string")
}, for N);
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
/// Documented as what it is made of.
impl Type for Scopes {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        "scopes".into()
    }
    fn schema_ref() -> MetaSchemaRef {
        inline(MetaSchema {
            items: Some(Box::new(MetaSchemaRef::Reference("Scope".to_owned()))),
            ..MetaSchema::new("array")
        })
    }
    fn register(registry: &mut Registry) {
        registry.create_schema::<Self, _>("Scope".to_owned(), |_| MetaSchema {
            description: Some("What a key may do: an action on one kind of thing, every action on it, or everything."),
            enum_items: Scopes::vocabulary().into_iter().map(Value::from).collect(),
            ..MetaSchema::new("string")
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

impl ToJSON for Scopes {
    fn to_json(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

impl ParseFromJSON for Scopes {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        from_serde(value)
    }
}

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
noun_type!(
    Rule,
    "policy_rule",
    MetaSchema {
        example: Some("organizer.tiers[0]".into()),
        ..MetaSchema::new("string")
    }
);

/// Every code the reader takes.
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

noun_type!(FrozenTerms, component "FrozenTerms", |registry| {
    Assumption::register(registry);
    PolicySource::register(registry);
    let integer = || inline(MetaSchema::new_with_format("integer", "int64"));
    let array = |description, items| MetaSchema {
        description: Some(description),
        items: Some(Box::new(items)),
        ..MetaSchema::new("array")
    };
    let text = |description| MetaSchema {
        description: Some(description),
        ..MetaSchema::new("string")
    };
    let source = MetaSchema {
        nullable: true,
        description: Some("Where the policy came from; null without one."),
        ..MetaSchema::ANY
    };
    let until = MetaSchema {
        description: Some("The last second in which a cancellation may be claimed, seconds since 1970."),
        ..MetaSchema::new_with_format("integer", "int64")
    };
    let spans = "The organizer's schedule: rule, first second, last second, and refund and penalty in minor units, null where a person decides.";
    MetaSchema {
        description: Some("The terms a booking is under, as the ledger commits to them; the policy is elsewhere, by its hash."),
        properties: vec![
            ("adopted", inline(text("Hash of the policy; absent without one."))),
            ("assumed", inline(array("What was taken for granted.", Assumption::schema_ref()))),
            ("date", inline(text("The event's date as it was said."))),
            ("offsets", inline(array("Seconds the wall clock was ahead of UTC at the deadlines.", integer()))),
            ("schedule", inline(array(spans, inline(MetaSchema {
                min_items: Some(5),
                max_items: Some(5),
                items: Some(Box::new(inline(MetaSchema::ANY))),
                ..MetaSchema::new("array")
            })))),
            ("source", PolicySource::schema_ref().merge(source)),
            ("until", inline(until)),
            ("zone", inline(text("The wall clock that counts: an IANA name, or an offset from UTC."))),
        ],
        required: vec!["assumed", "date", "offsets", "schedule", "source", "until", "zone"],
        ..MetaSchema::new("object")
    }
});
noun_type!(EventBody, component "LedgerEvent", |_| MetaSchema {
    description: Some("`bookguard.event/1`: the kind of fact, and a digest of each of its values."),
    properties: vec![
        ("kind", inline(MetaSchema::new("string"))),
        (
            "sd",
            inline(MetaSchema {
                description: Some("By name: HMAC-SHA256 under the value's salt, unpadded base64url."),
                additional_properties: Some(Box::new(inline(MetaSchema::new("string")))),
                ..MetaSchema::new("object")
            }),
        ),
        ("v", inline(MetaSchema::new("string"))),
    ],
    required: vec!["kind", "sd", "v"],
    ..MetaSchema::new("object")
});
noun_type!(Disclosure, component "DisclosedValue", |_| MetaSchema {
    description: Some("A value of a ledger entry, with the salt of its digest."),
    properties: vec![
        ("name", inline(MetaSchema::new("string"))),
        ("salt", inline(MetaSchema::new("string"))),
        ("value", inline(MetaSchema::ANY)),
    ],
    required: vec!["name", "salt", "value"],
    ..MetaSchema::new("object")
});

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
