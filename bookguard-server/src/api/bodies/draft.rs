//! Policies that are not a policy yet: one that gets its id from its address, and what is only checked.

use std::borrow::Cow;

use bookguard_core::policy::Policy;
use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::Type;

/// The body of `PUT /v1/policies/{policyId}`: the policy's schema, which whoever makes the document puts there, with an id that
/// may be left out.
pub(crate) struct NewPolicyBody;

impl Type for NewPolicyBody {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        "NewPolicy".into()
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

/// The body of `POST /v1/policies/validate`.
pub(crate) struct PolicyDraftBody;

impl Type for PolicyDraftBody {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        "PolicyDraft".into()
    }
    fn schema_ref() -> MetaSchemaRef {
        MetaSchemaRef::Reference(Self::name().into_owned())
    }
    fn register(registry: &mut Registry) {
        registry.create_schema::<Self, _>(Self::name().into_owned(), |_| {
            let anything = MetaSchema {
                title: Some("FaultyPolicy".to_owned()),
                description: Some("Anything: the answer says what is wrong with it."),
                ..MetaSchema::ANY
            };
            MetaSchema {
                description: Some("What is to be a policy, right or wrong."),
                any_of: vec![
                    Policy::schema_ref(),
                    MetaSchemaRef::Inline(Box::new(anything)),
                ],
                ..MetaSchema::ANY
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
