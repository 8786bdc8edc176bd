//! What a partner decides. Written out, because null is a value here and the derive knows no such members.

use std::borrow::Cow;

use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::Type;

/// The body of `PATCH /v1/partners/me`.
pub(crate) struct PartnerChangesBody;

impl Type for PartnerChangesBody {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = Self;
    fn name() -> Cow<'static, str> {
        "PartnerChanges".into()
    }
    fn schema_ref() -> MetaSchemaRef {
        MetaSchemaRef::Reference(Self::name().into_owned())
    }
    fn register(registry: &mut Registry) {
        registry.create_schema::<Self, _>(Self::name().into_owned(), |_| {
            let text_or_null = |description| MetaSchema {
                nullable: true,
                description,
                ..MetaSchema::new("string")
            };
            let inline = |schema| MetaSchemaRef::Inline(Box::new(schema));
            let defaults = MetaSchema {
                description: Some(
                    "The policy of a booking that chooses none: event type → id of one of your policies or of the library's; null \
                     removes. Case, spaces and hyphens of event types do not matter; `*` is for all others.",
                ),
                additional_properties: Some(Box::new(inline(text_or_null(None)))),
                example: Some(serde_json::json!({"concert": "house", "*": "firm", "dj": null})),
                ..MetaSchema::new("object")
            };
            let time_zone = text_or_null(Some(
                "The IANA time zone of events where neither the booking nor its policy names one; null removes.",
            ));
            MetaSchema {
                title: Some(Self::name().into_owned()),
                description: Some("What changes for bookings recorded from now on; what is left out stays."),
                properties: vec![
                    ("defaultPolicies", inline(defaults)),
                    ("timeZone", inline(time_zone)),
                ],
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
