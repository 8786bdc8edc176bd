//! Turns an operation's declaration into fields that can be typed: their names, help texts and forms.

use bookguard_core::evidence::{DisputeForm, DisputeReason};
use bookguard_core::input::Json;
use bookguard_core::model::{
    BookingStatus, DeliveryStatus, EndpointStatus, EventType, PartnerStatus,
};
use bookguard_core::operation::{QueryForm, Route};
use bookguard_core::policy::{Actor, POLICY_SCHEMA, Reason, ResolutionStatus};

use super::field::{Field, FlagForm, RequestPart, kebab};

const SCHEMAS: &str = "#/components/schemas/";

/// All fields of a route.
pub(super) fn fields(route: &Route) -> Vec<Field> {
    let path = route.parameters().map(of_path);
    let query = route.query.iter().map(|parameter| {
        let form = match parameter.form {
            QueryForm::Flag => FlagForm::Says("true"),
            _ => FlagForm::Text,
        };
        let field = Field::new(
            RequestPart::Query,
            parameter.name,
            parameter.description,
            form,
        );
        let offered = match parameter.form {
            QueryForm::Words(name) | QueryForm::RequiredWord(name) => vocabulary(name),
            _ => Vec::new(),
        };
        field.offers(&offered).map(|arg| match parameter.form {
            QueryForm::Whole(..) => arg.value_name("N"),
            QueryForm::Decimal => arg.value_name("AMOUNT"),
            QueryForm::Text(_) => arg.value_name("TEXT"),
            _ => arg.required(parameter.is_required()),
        })
    });
    let mut fields: Vec<Field> = path.chain(query).collect();
    if let Some(body) = route.body.declaration() {
        let schemas = body.schemas();
        members(&schemas[0].1, &schemas, ("", "", true), &mut fields);
    }
    fields
}

/// The words of the vocabulary that has this name in the interface document; none if they are too many to offer.
fn vocabulary(name: &str) -> Vec<&'static str> {
    macro_rules! vocabularies {
        ($($known:ident)*) => {
            match name {
                $(stringify!($known) => $known::WORDS.iter().map(|(word, _)| *word).collect(),)*
                _ => Vec::new(),
            }
        };
    }
    vocabularies!(Actor BookingStatus DeliveryStatus DisputeForm DisputeReason EndpointStatus EventType PartnerStatus Reason ResolutionStatus)
}

fn of_path(name: &'static str) -> Field {
    let noun = words_of(name.trim_end_matches("Id"));
    let field = Field::new(
        RequestPart::Path,
        name,
        &format!("The {noun}'s id"),
        FlagForm::Text,
    );
    field.map(|arg| arg.required(true).long(None))
}

/// Collects the fields of an object's members, and of objects within it. `outer` describes the enclosing object: its path,
/// its help text, and whether it is required.
fn members(
    object: &Json,
    named: &[(String, Json)],
    outer: (&str, &str, bool),
    fields: &mut Vec<Field>,
) {
    let required = words(object.get("required"));
    let properties = object.get("properties").map(Json::members);
    for (name, member) in properties.unwrap_or_default() {
        let (reference, schema) = followed(member, named);
        let about = member.get("description").and_then(Json::as_str);
        let about = about.unwrap_or(outer.1);
        let is_required = required.contains(&name.as_str()) && outer.2;
        let path = format!("{}{name}", outer.0);
        if schema.get("properties").is_some() {
            let within = (&*format!("{path}."), about, is_required);
            members(schema, named, within, fields);
            continue;
        }
        let form = match reference {
            Some(POLICY_SCHEMA) => FlagForm::File,
            _ => form(schema),
        };
        let (about, null) = about.split_once("; null ").unwrap_or((about, ""));
        // The text after the part about null describes the value again.
        let (null, more) = null.split_once(". ").unwrap_or((null, ""));
        let about = format!("{} {more}", about.trim_end_matches('.'));
        let about = limited(about.trim_end(), schema, named);
        let field = Field::new(RequestPart::Body, &path, &about, form);
        let field = field.offers(&choices(schema, named));
        fields.push(field.map(|arg| arg.required(is_required)));
        fields.extend(opposite(schema).map(|form| {
            let about = match null.strip_prefix("for ") {
                Some(value) => value.to_owned(),
                None => format!("Remove the {}", words_of(&path)),
            };
            let field = Field::new(RequestPart::Body, &path, &about, form);
            field.called(&format!("no-{}", kebab(&path)))
        }));
    }
}

/// A member's name in words: `apiKey` is `API key`.
fn words_of(name: &str) -> String {
    let words = kebab(name).replace('-', " ");
    match words.strip_prefix("api ") {
        Some(rest) => format!("API {rest}"),
        None => words,
    }
}

/// How null is typed, if the value or the values of its pairs may be null.
fn opposite(schema: &Json) -> Option<FlagForm> {
    let nullable = |schema: &Json| words(schema.get("type")).contains(&"null");
    match schema.get("additionalProperties").is_some_and(nullable) {
        true => Some(FlagForm::Nulls),
        false => nullable(schema).then_some(FlagForm::Says("null")),
    }
}

/// The name that a schema refers to, and the schema itself if it is known.
fn followed<'n>(schema: &'n Json, named: &'n [(String, Json)]) -> (Option<&'n str>, &'n Json) {
    let reference = schema.get("$ref").and_then(Json::as_str);
    let reference = reference.map(|path| path.trim_start_matches(SCHEMAS));
    let found = named.iter().find(|(known, _)| Some(&**known) == reference);
    (reference, found.map_or(schema, |(_, found)| found))
}

/// The words that a value, or each value of a list, is one of; none if it may be another.
fn choices<'n>(schema: &'n Json, named: &'n [(String, Json)]) -> Vec<&'n str> {
    let (_, choices) = followed(schema.get("items").unwrap_or(schema), named);
    words(choices.get("enum"))
}

/// A field's help text, with its allowed words, limits and default.
fn limited(about: &str, schema: &Json, named: &[(String, Json)]) -> String {
    let mut about = about.trim_end_matches('.').to_owned();
    let choices = choices(schema, named);
    if choices.first().is_some_and(|first| !about.contains(first)) {
        about = format!("{about}: {}", choices.join(", "));
    }
    if let (FlagForm::Whole, Some(least), Some(most)) =
        (form(schema), schema.get("minimum"), schema.get("maximum"))
    {
        about = format!("{about}; {least} to {most}");
    }
    if matches!(form(schema), FlagForm::List | FlagForm::Pairs) {
        about.push_str("; may be given several times");
    }
    match schema.get("default") {
        Some(default) => {
            let typed = default
                .as_str()
                .map_or_else(|| default.to_string(), str::to_owned);
            format!("{about} [default: {typed}]")
        }
        None => about,
    }
}

fn form(schema: &Json) -> FlagForm {
    let ty = schema.get("type");
    let kind = ty.and_then(Json::as_str);
    match kind.or_else(|| words(ty).first().copied()) {
        Some("boolean") => FlagForm::Says("true"),
        Some("integer") => FlagForm::Whole,
        Some("number") => FlagForm::Number,
        Some("array") => FlagForm::List,
        Some("object") => FlagForm::Pairs,
        _ => FlagForm::Text,
    }
}

fn words(list: Option<&Json>) -> Vec<&str> {
    match list {
        Some(Json::Array(items)) => items.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}
