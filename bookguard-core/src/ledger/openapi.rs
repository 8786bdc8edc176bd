//! How an entry's facts appear in the OpenAPI document.

use poem_openapi::registry::MetaSchema;

use super::{Disclosure, EventBody};
use crate::model::openapi::{inline, noun_type};

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
