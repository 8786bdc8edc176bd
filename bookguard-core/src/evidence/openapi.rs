//! How frozen terms and packets appear in the OpenAPI document.

use poem_openapi::registry::MetaSchema;
use poem_openapi::types::Type;

use super::dispute::{CardFields, FIELDS, StripeEvidence};
use super::{FrozenTerms, Packet, SealedPacket};
use crate::model::openapi::{inline, noun_type};
use crate::policy::{Assumption, PolicySource};

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
            ("date", inline(text("The event's date as it was given."))),
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

noun_type!(StripeEvidence, component "StripeEvidence", |_| {
    let about = "Texts by the names of Stripe's fields; one that is empty is absent.";
    texts(about, FIELDS.map(|(stripe, _)| stripe))
});
noun_type!(CardFields, component "CardFields", |_| {
    let about = "Texts by neutral names; one that is empty is absent.";
    texts(about, FIELDS.map(|(_, neutral)| neutral))
});

/// An object of texts, all of them optional.
fn texts<const N: usize>(about: &'static str, names: [&'static str; N]) -> MetaSchema {
    let text = |name| (name, String::schema_ref());
    MetaSchema {
        description: Some(about),
        properties: names.map(text).into(),
        ..MetaSchema::new("object")
    }
}

// Documented as a packet, because it holds the text of one.
noun_type!(@ SealedPacket, <Packet as Type>::name(), Packet::schema_ref(), Packet::register);
