//! How the name of a rule appears in the OpenAPI document.

use poem_openapi::registry::MetaSchema;

use super::Rule;
use crate::model::openapi::noun_type;

noun_type!(
    Rule,
    "policy_rule",
    MetaSchema {
        example: Some("organizer.tiers[0]".into()),
        ..MetaSchema::new("string")
    }
);
