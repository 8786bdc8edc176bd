//! The policy in the OpenAPI document: a component with its own name, which is the policy's JSON Schema itself. The code
//! that makes the document adds it.

use std::borrow::Cow;

use poem_openapi::registry::{MetaSchemaRef, Registry};
use poem_openapi::types::Type;

use crate::policy::{POLICY_SCHEMA, Policy};

impl Type for Policy {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        POLICY_SCHEMA.into()
    }
    fn schema_ref() -> MetaSchemaRef {
        MetaSchemaRef::Reference(Self::name().into_owned())
    }
    fn register(_: &mut Registry) {}
    fn as_raw_value(&self) -> Option<&Self::RawValueType> {
        Some(self)
    }
    fn raw_element_iter<'a>(
        &'a self,
    ) -> Box<dyn Iterator<Item = &'a Self::RawElementValueType> + 'a> {
        Box::new(self.as_raw_value().into_iter())
    }
}
