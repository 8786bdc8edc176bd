//! The policy in the OpenAPI document: a component with its own name, which is the policy's JSON Schema itself. The code
//! that makes the document adds it.

use poem_openapi::registry::{MetaSchemaRef, Registry};

use crate::model::openapi::noun_type;
use crate::policy::{POLICY_SCHEMA, Policy};

noun_type!(@ Policy, POLICY_SCHEMA, MetaSchemaRef::Reference(POLICY_SCHEMA.to_owned()), |_: &mut Registry| {});
