//! Forms: what was typed as an operation's body, and an operation's faults beside what was typed.
//!
//! A field is named by the JSON pointer of its member in the body, such as `/talent/name`, so the pointers of a refusal name
//! fields. How a text becomes JSON follows from the operation's own declaration; a text that is not of its member's type is
//! sent as text, so that the operation itself refuses it. Invariant: no number passes through a float.

use std::collections::HashSet;

use bookguard_core::error::{self, Error, FieldError};
use bookguard_core::input::{Json, JsonObject, quoted};
use bookguard_core::model::Timestamp;
use bookguard_core::operation::Body;
use bookguard_core::text::capital;
use maud::{Markup, html};
use poem::http::StatusCode;
use serde_json::value::RawValue;

use super::parts::{once, once_with};
use crate::refusal::status_of;

/// Named texts, in order: the fields of a form, or the pairs of a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// The field whose value makes a form count once, however often it is sent.
    pub(super) const ONCE: &str = "once";

    pub(super) fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The text of a field, without the blanks around it, if there is one.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, text) = self
            .0
            .iter()
            .find(|(known, text)| known == name && !text.trim().is_empty())?;
        Some(text.trim())
    }

    /// The text of a field as it was typed, blanks and all.
    pub(super) fn raw(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str())
    }

    /// Whether there is a field of this name, even an empty one.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// The texts of a field that has several.
    pub(super) fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named
            .map(|(_, text)| text.trim())
            .filter(|text| !text.is_empty())
    }

    /// All names and texts, as they were typed.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// The same fields, with one set to this text.
    pub(super) fn with(&self, name: &str, text: &str) -> Self {
        let mut pairs: Vec<_> = self
            .0
            .iter()
            .filter(|(known, _)| known != name)
            .cloned()
            .collect();
        if !text.is_empty() {
            pairs.push((name.to_owned(), text.to_owned()));
        }
        Self(pairs)
    }

    /// The same fields, with those of these names as instants where they hold a date and a time without an offset, as browsers
    /// send them.
    pub(super) fn in_utc(&self, names: &[&str]) -> Self {
        let instant = |(name, text): &(String, String)| {
            let whole = local(text).filter(|_| names.contains(&name.as_str()));
            (name.clone(), whole.unwrap_or_else(|| text.clone()))
        };
        Self(self.0.iter().map(instant).collect())
    }

    /// The same fields, without those of these names that still hold what [`Draft::start`] put beside them. So a form does not
    /// undo what somebody else changed after it was opened.
    pub(super) fn changed(&self, names: &[&str]) -> Self {
        let same: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| self.is_as_at_start(name))
            .collect();
        let changed = self.0.iter();
        let changed = changed.filter(|(name, _)| !same.contains(&name.as_str()));
        Self(changed.cloned().collect())
    }

    fn is_as_at_start(&self, name: &str) -> bool {
        let start = start_of(name);
        let mut before: Vec<&str> = self.all(&start).collect();
        let mut now: Vec<&str> = self.all(name).collect();
        // Boxes have an order of their own.
        before.sort_unstable();
        now.sort_unstable();
        self.has(&start) && before == now
    }

    /// The fields as a query, with a question mark; empty if there are none.
    pub(super) fn query(&self) -> String {
        let pairs = self.0.iter().filter(|(_, text)| !text.trim().is_empty());
        let pairs: Vec<_> = pairs
            .map(|(name, text)| format!("{}={}", encoded(name), encoded(text.trim())))
            .collect();
        match pairs.is_empty() {
            true => String::new(),
            false => format!("?{}", pairs.join("&")),
        }
    }

    /// The body of an operation: the fields that name its members. What was left empty is left out, or is null where the
    /// operation says what null means.
    pub(super) fn body(&self, body: Body) -> Vec<u8> {
        let Some(declaration) = body.declaration() else {
            return Vec::new();
        };
        let schemas = declaration.schemas();
        let mut members = JsonObject::default();
        let mut seen = HashSet::new();
        for (name, text) in &self.0 {
            let Some(path) = name.strip_prefix('/').filter(|_| seen.insert(name)) else {
                continue;
            };
            let Some(kinds) = member(&schemas, path)
                .map(kinds)
                .filter(|kinds| !kinds.contains(&"object"))
            else {
                continue;
            };
            let json = match (text.trim(), &*kinds) {
                (_, ["array", ..]) => {
                    let words: Vec<_> = self.all(name).map(quoted).collect();
                    match (words.is_empty(), kinds.contains(&"null")) {
                        (true, false) => None,
                        (true, true) => Some("null".to_owned()),
                        (false, _) => Some(format!("[{}]", words.join(","))),
                    }
                }
                ("", kinds) if kinds.contains(&"null") => Some("null".to_owned()),
                ("", _) => None,
                (text, ["number" | "integer", ..]) => {
                    Some(number(text).unwrap_or_else(|| quoted(text)))
                }
                (text @ ("true" | "false"), ["boolean", ..]) => Some(text.to_owned()),
                (text, _) => Some(quoted(&on_one_line(text))),
            };
            members.put(&path.replace('/', "."), json);
        }
        members.to_string().into_bytes()
    }
}

/// The form field that holds what a field held when the form was opened. The body has no such member.
fn start_of(name: &str) -> String {
    format!("start{name}")
}

/// A text with each break of a line as a space: the operations take texts of one line, and people press Enter.
fn on_one_line(text: &str) -> String {
    let lines = text.split(['\r', '\n', '\t']).map(str::trim);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// The instant in UTC that a date and a time without an offset name, if the text is one: `2027-07-04T19:00`.
fn local(text: &str) -> Option<String> {
    let text = text.trim();
    let seconds = if text.len() == 16 { ":00Z" } else { "Z" };
    let instant = format!("{text}{seconds}");
    (text.len() >= 16 && Timestamp::parse(&instant).is_some()).then_some(instant)
}

/// A number exactly as it was typed.
fn number(text: &str) -> Option<String> {
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let json = begins.then(|| RawValue::from_string(text.to_owned()).ok());
    Some(json??.get().to_owned())
}

/// The schema of the member at a path such as `talent/name`.
fn member<'s>(schemas: &'s [(String, Json)], path: &str) -> Option<&'s Json> {
    let (_, whole) = schemas.first()?;
    path.split('/').try_fold(whole, |schema, name| {
        let found = schema.get("properties")?.get(name)?;
        let named = found.get("$ref").and_then(Json::as_str);
        let named = named.and_then(|path| path.rsplit('/').next());
        let known = schemas.iter().find(|(known, _)| Some(&**known) == named);
        Some(known.map_or(found, |(_, schema)| schema))
    })
}

/// The types that a schema allows.
fn kinds(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect(),
        Some(kind) => kind.as_str().into_iter().collect(),
        None => Vec::new(),
    }
}

/// Percent-encodes a text for a query.
fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The id of the element of a field.
pub(super) fn id_of(name: &str) -> String {
    format!("f{}", name.replace('/', "-"))
}

/// Whether whoever sent a form can do something about its refusal on the same page: correct it, or send it again later. What was
/// typed stays there. If the page reads anything and is refused that too, such as for want of a scope, only the refusal is shown.
pub(super) fn is_correctable(error: &Error) -> bool {
    matches!(
        error.kind,
        error::Kind::Invalid
            | error::Kind::Conflict
            | error::Kind::KeyReused
            | error::Kind::Forbidden
            | error::Kind::RateLimited
            | error::Kind::Unavailable
    )
}

/// What a list found, or why its filter was refused.
///
/// # Errors
/// All others.
pub(super) fn filtered<T>(found: Result<T, Error>) -> Result<(Option<T>, Option<Error>), Error> {
    match found {
        Ok(found) => Ok((Some(found), None)),
        Err(error) if error.kind == error::Kind::Invalid => Ok((None, Some(in_fields(error)))),
        Err(error) => Err(error),
    }
}

/// The refusal of a query, with its parameters named as the fields are.
fn in_fields(mut error: Error) -> Error {
    for detail in &mut error.details {
        if let Some(name) = detail.pointer.strip_prefix('?') {
            detail.pointer = name.to_owned();
        }
    }
    error
}

/// The status of a page with a form that was refused.
pub(super) fn status(refused: Option<&Error>) -> StatusCode {
    refused.map_or(StatusCode::OK, |error| status_of(error.kind))
}

/// A form being filled in: what was typed, and why it was refused.
pub(super) struct Draft<'d> {
    pub(super) fields: &'d Fields,
    pub(super) refused: Option<&'d Error>,
}

/// How a field is filled in.
pub(super) enum Kind<'k> {
    Text,
    Number,
    Url,
    Search,
    /// A day, which browsers offer a calendar for.
    Day,
    /// A secret, which nobody should read over a shoulder.
    Secret,
    /// A local date and time, which browsers offer a calendar and a clock for.
    Local,
    /// A date and time in UTC, for an instant: see [`Fields::in_utc`].
    Utc,
    Long,
    /// One of these words, each with what people read.
    Choice(&'k [(&'k str, String)]),
    /// Any of these words, each with what people read.
    Choices(&'k [(&'k str, String)]),
}

/// A field of a form.
pub(super) struct Field<'f> {
    /// The pointer to its member.
    pub(super) name: &'f str,
    pub(super) label: &'f str,
    /// A sentence about it; may be empty.
    pub(super) about: &'f str,
    pub(super) kind: Kind<'f>,
    pub(super) required: bool,
    /// Whether its label leaves out "(optional)", as where no field is required.
    pub(super) plain: bool,
    /// What it holds before anybody types.
    pub(super) value: &'f str,
    /// What a choice of words shows while none is chosen.
    pub(super) none: &'f str,
    /// Whether the keyboard begins here.
    pub(super) focused: bool,
}

impl<'f> Field<'f> {
    pub(super) fn new(name: &'f str, label: &'f str, kind: Kind<'f>) -> Self {
        Self {
            name,
            label,
            about: "",
            kind,
            required: false,
            plain: false,
            value: "",
            none: "—",
            focused: false,
        }
    }

    pub(super) fn about(self, about: &'f str) -> Self {
        Self { about, ..self }
    }

    pub(super) fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    pub(super) fn plain(self) -> Self {
        Self {
            plain: true,
            ..self
        }
    }

    pub(super) fn value(self, value: &'f str) -> Self {
        Self { value, ..self }
    }

    pub(super) fn none(self, none: &'f str) -> Self {
        Self { none, ..self }
    }
}

impl Draft<'_> {
    /// The faults of a field, and of what is within it.
    fn faults(&self, name: &str) -> Vec<String> {
        let details = self.refused.iter().flat_map(|error| &error.details);
        let of_field = details.filter(|detail| {
            let rest = detail.pointer.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        of_field.map(told).collect()
    }

    /// The refusal as a whole, at the top of its form. Faults of fields that the form has are beside them.
    pub(super) fn alert(&self, names: &[&str]) -> Markup {
        self.refusal("Nothing was sent.", names)
    }

    /// [`Self::alert`] of the filter of a list.
    pub(super) fn alert_of_filter(&self, names: &[&str]) -> Markup {
        self.refusal("The filter was not applied.", names)
    }

    fn refusal(&self, nothing: &str, names: &[&str]) -> Markup {
        let Some(error) = self.refused else {
            return html! {};
        };
        // Nobody who fills in a form knows of its key. The page has a new one, so sending it again is something else.
        let message = match error.kind {
            error::Kind::KeyReused => {
                "This form was already sent with other values. Nothing was sent now; send it again if you mean it."
            }
            _ => error.message.as_str(),
        };
        let elsewhere = |pointer: &str| !names.iter().any(|name| pointer.starts_with(name));
        let others: Vec<_> = error
            .details
            .iter()
            .filter(|detail| elsewhere(&detail.pointer))
            .collect();
        html! {
            div.alert.bad role="alert" tabindex="-1" autofocus {
                @if error.details.is_empty() {
                    p { (message) }
                } @else {
                    p { (nothing) @if others.len() < error.details.len() { " Correct what is marked below." } }
                    @for detail in others {
                        p { (detail.pointer) " " (with_advice(detail)) }
                    }
                }
            }
        }
    }

    /// The hidden field that makes the form count once, with a new key unless the last one may have been received; then it says so.
    pub(super) fn once(&self) -> Markup {
        let Some(key) = self.kept_key() else {
            return once();
        };
        html! {
            p { "It may have been received all the same. Send it again: it counts only once." }
            (once_with(key))
        }
    }

    /// The key of a form of which nobody knows whether it did something.
    pub(super) fn kept_key(&self) -> Option<&str> {
        let refused = self.refused?;
        let is_open = refused.kind == error::Kind::Unavailable;
        self.fields.get(Fields::ONCE).filter(|_| is_open)
    }

    /// Hidden fields with what a field held when the form was opened: see [`Fields::changed`]. A refused form keeps them.
    pub(super) fn start(&self, field: &Field<'_>) -> Markup {
        let name = start_of(field.name);
        let pairs = self.fields.pairs();
        let kept = pairs.filter(|(known, _)| self.refused.is_some() && *known == name);
        let kept: Vec<&str> = kept.map(|(_, text)| text).collect();
        let texts = match field.kind {
            _ if !kept.is_empty() => kept,
            Kind::Choices(_) => field.value.split(' ').collect(),
            _ => vec![field.value],
        };
        html! { @for text in texts { input type="hidden" name=(name) value=(text); } }
    }

    /// A field with its label, what is in it, and its faults.
    pub(super) fn field(&self, field: &Field<'_>) -> Markup {
        let Field {
            name,
            label,
            about,
            required,
            ..
        } = field;
        let faults = self.faults(name);
        let id = id_of(name);
        let (about_id, fault_id) = (format!("{id}-about"), format!("{id}-fault"));
        let mut described = Vec::new();
        if !about.is_empty() {
            described.push(about_id.clone());
        }
        if !faults.is_empty() {
            described.push(fault_id.clone());
        }
        let described = (!described.is_empty()).then(|| described.join(" "));
        let invalid = (!faults.is_empty()).then_some("true");
        let typed = self.refused.is_some() || self.fields.get(name).is_some();
        let text = match typed {
            true => self.fields.get(name).unwrap_or_default(),
            false => field.value,
        };
        let text = match field.kind {
            Kind::Utc => text.strip_suffix('Z').unwrap_or(text),
            _ => text,
        };
        let chosen = |word: &str| match typed {
            true => self.fields.all(name).any(|known| known == word),
            false => field.value.split(' ').any(|known| known == word),
        };
        let notes = html! {
            @if !about.is_empty() { p.about id=(about_id) { (about) } }
            @if !faults.is_empty() {
                p.fault id=(fault_id) { @for fault in &faults { (fault) " " } }
            }
        };
        let optional = html! { @if !required && !field.plain { span.optional { " (optional)" } } };
        match &field.kind {
            Kind::Choices(words) => html! {
                fieldset.field aria-describedby=[described] {
                    legend { (label) (optional) }
                    (notes)
                    @for (word, text) in *words {
                        label.check {
                            input type="checkbox" name=(name) value=(word) checked[chosen(word)];
                            span { (text) }
                        }
                    }
                }
            },
            kind => html! {
                div.field {
                    label for=(id) { (label) (optional) }
                    (notes)
                    @match kind {
                        Kind::Long => textarea id=(id) name=(name) rows="4" required[*required] aria-describedby=[described]
                            aria-invalid=[invalid] { (text) },
                        Kind::Choice(words) => select id=(id) name=(name) required[*required] aria-describedby=[described]
                            aria-invalid=[invalid] {
                            @if !required { option value="" { (field.none) } }
                            @for (word, text) in *words { option value=(word) selected[chosen(word)] { (text) } }
                        },
                        _ => input id=(id) name=(name) type=(kind.input(text)) inputmode=[kind.keyboard()] value=(text)
                            required[*required] autofocus[field.focused] autocomplete=[kind.completion()] aria-describedby=[described] aria-invalid=[invalid];
                    }
                }
            },
        }
    }
}

impl Kind<'_> {
    /// Browsers bring back what was typed when somebody comes back to the page, unless completion is off.
    fn completion(&self) -> Option<&'static str> {
        matches!(self, Self::Secret).then_some("off")
    }

    /// The type of the input that holds this text. Numbers are typed as text, because a browser would round them.
    fn input(&self, text: &str) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Search => "search",
            // A browser would not show what is not a day or a time.
            Self::Local | Self::Utc if text.is_empty() || local(text).is_some() => "datetime-local",
            Self::Day
                if text.is_empty() || Timestamp::parse(&format!("{text}T00:00:00Z")).is_some() =>
            {
                "date"
            }
            Self::Secret => "password",
            _ => "text",
        }
    }

    fn keyboard(&self) -> Option<&'static str> {
        matches!(self, Self::Number).then_some("decimal")
    }
}

/// A fault of a field, for somebody who sees the field and not the body that is made of it.
fn told(fault: &FieldError) -> String {
    match &*fault.code {
        "missing_field" => "This is required.".to_owned(),
        "wrong_type" => fault.fix.clone(),
        _ => capital(&with_advice(fault)),
    }
}

/// What is wrong, and what to do about it. A message that was a refusal of its own may say both, in a sentence that begins as the
/// fix does.
fn with_advice(fault: &FieldError) -> String {
    let FieldError { message, fix, .. } = fault;
    let end = if message.ends_with(['.', '?']) {
        ""
    } else {
        "."
    };
    let verb = fix.split(' ').next().unwrap_or_default();
    match message.contains(&format!(". {verb} ")) {
        true => format!("{message}{end}"),
        false => format!("{message}{end} {fix}"),
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::features::bookings::BookingRequest;
    use bookguard_core::features::cancellations::CancelBooking;
    use bookguard_core::features::endpoints::update::UpdateEndpoint;
    use bookguard_core::operation::Operation as _;

    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let pairs = pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Fields::new(pairs.collect())
    }

    fn body(body: Body, pairs: &[(&str, &str)]) -> String {
        String::from_utf8(fields(pairs).body(body)).unwrap()
    }

    #[test]
    fn what_can_be_corrected_or_sent_later_is_refused_on_the_form() {
        for (kind, shown) in [
            (error::Kind::Invalid, Some(StatusCode::BAD_REQUEST)),
            (error::Kind::Conflict, Some(StatusCode::CONFLICT)),
            (error::Kind::Forbidden, Some(StatusCode::FORBIDDEN)),
            (
                error::Kind::RateLimited,
                Some(StatusCode::TOO_MANY_REQUESTS),
            ),
            (
                error::Kind::Unavailable,
                Some(StatusCode::SERVICE_UNAVAILABLE),
            ),
            (error::Kind::NotFound, None),
            (error::Kind::Unauthorized, None),
            (error::Kind::Internal, None),
        ] {
            let refused = Error::new(kind, "code", "No.");
            let told = is_correctable(&refused).then(|| status(Some(&refused)));
            assert_eq!(told, shown, "{kind:?}");
        }
    }

    #[test]
    fn a_fault_is_told_without_words_of_the_body() {
        let told = |code, message, fix| told(&FieldError::new("/x", code, message, fix));
        let missing = told("missing_field", "is required and missing", "Add \"x\".");
        assert_eq!(missing, "This is required.");
        let kind = told(
            "wrong_type",
            "is a string; a number is required",
            "Send a number.",
        );
        assert_eq!(kind, "Send a number.");
        for (message, fix, expected) in [
            (
                "has 3 characters",
                "Send at most 2.",
                "Has 3 characters. Send at most 2.",
            ),
            (
                "The zone \"X\" is unknown. Send a name.",
                "Send a name.",
                "The zone \"X\" is unknown. Send a name.",
            ),
            (
                "The zone \"X\" is unknown. Did you mean \"Y\"?",
                "Send a name.",
                "The zone \"X\" is unknown. Did you mean \"Y\"? Send a name.",
            ),
            (
                "That is more than 5. Send at most that; more is no refund.",
                "Send at most what was paid.",
                "That is more than 5. Send at most that; more is no refund.",
            ),
        ] {
            assert_eq!(told("other", message, fix), expected);
        }
    }

    #[test]
    fn a_refused_form_keeps_its_key_if_it_may_have_been_received() {
        let sent = fields(&[(Fields::ONCE, "0a1b")]);
        for (kind, status, keeps) in [
            (error::Kind::Invalid, 400, false),
            (error::Kind::Forbidden, 403, false),
            (error::Kind::Conflict, 409, false),
            (error::Kind::KeyReused, 422, false),
            (error::Kind::RateLimited, 429, false),
            (error::Kind::Unavailable, 503, true),
        ] {
            let refused = Error::new(kind, "code", "Why.");
            assert!(is_correctable(&refused), "{kind:?}");
            assert_eq!(super::status(Some(&refused)).as_u16(), status);
            let draft = Draft {
                fields: &sent,
                refused: Some(&refused),
            };
            let once = draft.once().into_string();
            assert_eq!(once.contains("value=\"0a1b\""), keeps, "{once}");
            assert_eq!(once.contains("it counts only once."), keeps, "{once}");
            // A form without the key, such as one that asks what would happen, says nothing of it.
            let alert = draft.alert(&[]).into_string();
            assert!(!alert.contains("counts"), "{alert}");
        }
        for kind in [
            error::Kind::Unauthorized,
            error::Kind::NotFound,
            error::Kind::Internal,
        ] {
            assert!(!is_correctable(&Error::new(kind, "code", "Why.")));
        }
    }

    #[test]
    fn a_refusal_says_that_something_is_marked_only_if_something_is() {
        let refused = Error::faults(vec![FieldError::new(
            "cursor",
            "c",
            "is wrong",
            "Begin again.",
        )]);
        let alert = |refused: &Error| {
            let (fields, refused) = (&Fields::default(), Some(refused));
            Draft { fields, refused }
                .alert_of_filter(&["search"])
                .into_string()
        };
        let elsewhere = alert(&refused);
        assert!(
            elsewhere
                .contains("<p>The filter was not applied.</p><p>cursor is wrong. Begin again.</p>"),
            "{elsewhere}"
        );
        let marked = alert(&Error::faults(vec![FieldError::new(
            "search", "c", "is wrong", "Mend it.",
        )]));
        assert!(
            marked
                .contains("<p>The filter was not applied. Correct what is marked below.</p></div>"),
            "{marked}"
        );
    }

    #[test]
    fn fields_become_the_members_that_they_name() {
        let booking = Body::Required(&BookingRequest::BODY);
        assert_eq!(
            body(
                booking,
                &[
                    ("/talent/id", " t-1 "),
                    ("/talent/name", "Ann \"A\" B"),
                    ("/bookingValue", "12345678901234567890.10"),
                    ("/amountPaid", "1e2x"),
                    ("/timeZone", "  "),
                    ("once", "x"),
                    ("bookingValue", "1"),
                    ("/talent", "an object"),
                    ("/talent/id/x", "within a text"),
                    ("/unknown", "1"),
                    ("/organizer/name", "\tBob\r\n\r\n  B.\tC\rD  E\n"),
                ]
            ),
            r#"{"talent":{"id":"t-1","name":"Ann \"A\" B"},"bookingValue":12345678901234567890.10,"amountPaid":"1e2x","organizer":{"name":"Bob B. C D  E"}}"#
        );
        let change = UpdateEndpoint::ROUTE.body;
        assert_eq!(
            body(
                change,
                &[
                    ("/events", ""),
                    ("/events", "booking.created"),
                    ("/events", "terms.accepted"),
                    ("/description", ""),
                    ("/rateLimitPerSecond", "5"),
                    ("/enabled", "true"),
                    ("/url", ""),
                ]
            ),
            r#"{"events":["booking.created","terms.accepted"],"description":null,"rateLimitPerSecond":5,"enabled":true}"#
        );
        assert_eq!(body(change, &[("/events", "")]), r#"{"events":null}"#);
        assert_eq!(
            body(
                CancelBooking::ROUTE.body,
                &[
                    ("/expected/refundMinorUnits", "5"),
                    ("/canceledBy", "talent")
                ]
            ),
            r#"{"expected":{"refundMinorUnits":5},"canceledBy":"talent"}"#
        );
    }

    #[test]
    fn a_field_that_holds_what_it_held_at_the_start_is_not_sent() {
        let names = ["/url", "/events", "/description", "/enabled"];
        let sent = |pairs: &[(&str, &str)]| {
            let changed = fields(pairs).changed(&names);
            String::from_utf8(changed.body(UpdateEndpoint::ROUTE.body)).unwrap()
        };
        let opened = [
            ("start/url", "https://a.example"),
            ("start/events", "terms.accepted"),
            ("start/events", "booking.created"),
            ("start/description", ""),
        ];
        let same = [
            ("/url", " https://a.example"),
            ("/events", ""),
            ("/events", "booking.created"),
            ("/events", "terms.accepted"),
            ("/description", ""),
        ];
        assert_eq!(sent(&[&opened[..], &same].concat()), "{}");
        let other = [
            ("/url", "https://b.example"),
            ("/events", ""),
            ("/description", "Ours"),
        ];
        let all = r#"{"url":"https://b.example","events":null,"description":"Ours"}"#;
        assert_eq!(sent(&[&opened[..], &other].concat()), all);
        // Without the opening value, every field counts as changed.
        assert_eq!(sent(&[("/enabled", "true")]), r#"{"enabled":true}"#);
    }

    #[test]
    fn a_refused_form_keeps_what_its_fields_held_at_the_start() {
        let words = [("a", "A".to_owned()), ("b", "B".to_owned())];
        let error = Error::faults(vec![]);
        let sent = fields(&[("start/x", "")]);
        let start = |kind, value, refused| {
            let fields = &sent;
            let field = Field::new("/x", "X", kind).value(value);
            Draft { fields, refused }.start(&field).into_string()
        };
        let hidden =
            |text: &str| format!("<input type=\"hidden\" name=\"start/x\" value=\"{text}\">");
        assert_eq!(start(Kind::Text, "a b", None), hidden("a b"));
        let both = hidden("a") + &hidden("b");
        assert_eq!(start(Kind::Choices(&words), "a b", None), both);
        assert_eq!(start(Kind::Choices(&words), "", None), hidden(""));
        assert_eq!(start(Kind::Text, "a", Some(&error)), hidden(""));
    }

    #[test]
    fn a_fault_stands_beside_its_field_and_what_was_typed_stays() {
        use bookguard_core::error::FieldError;
        let typed = fields(&[("/url", "<http>"), ("/events", "b")]);
        let fault = |pointer| FieldError::new(pointer, "code", "is wrong", "Do this.");
        let error = Error::faults(vec![fault("/events/0"), fault("/urls"), fault("/other")]);
        let draft = Draft {
            fields: &typed,
            refused: Some(&error),
        };
        let url = draft
            .field(&Field::new("/url", "Address", Kind::Url))
            .into_string();
        assert!(
            url.contains("value=\"&lt;http&gt;\"") && !url.contains("is wrong"),
            "{url}"
        );
        let words = [("a", "A".to_owned()), ("b", "B".to_owned())];
        let events = draft
            .field(&Field::new("/events", "Types", Kind::Choices(&words)))
            .into_string();
        assert!(events.contains("Is wrong. Do this."), "{events}");
        assert!(
            events.contains("value=\"b\" checked") && !events.contains("value=\"a\" checked"),
            "{events}"
        );
        let alert = draft.alert(&["/url/", "/events"]).into_string();
        assert!(alert.contains("/other is wrong. Do this."), "{alert}");
    }

    #[test]
    fn a_time_without_an_offset_is_an_instant_where_one_is_wanted() {
        for (typed, expected) in [
            ("2027-07-04T19:00", "2027-07-04T19:00:00Z"),
            (" 2027-07-04T19:00:30.5 ", "2027-07-04T19:00:30.5Z"),
            ("2027-07-04T19:00:00+02:00", "2027-07-04T19:00:00+02:00"),
            ("2027-07-04T19:00:00Z", "2027-07-04T19:00:00Z"),
            ("2027-02-30T19:00", "2027-02-30T19:00"),
            ("2027-07-04", "2027-07-04"),
            ("soon", "soon"),
            ("", ""),
        ] {
            let typed = fields(&[("/since", typed), ("/note", typed)]);
            let sent = typed.in_utc(&["/since"]);
            assert_eq!(sent.0[0].1, expected);
            assert_eq!(sent.0[1], typed.0[1]);
        }
        let refused = fields(&[("/since", "2027-07-04T19:00:00Z")]);
        let draft = Draft {
            fields: &refused,
            refused: None,
        };
        let field = draft.field(&Field::new("/since", "Since", Kind::Utc));
        let field = field.into_string();
        assert!(field.contains("datetime-local") && field.contains("\"2027-07-04T19:00:00\""));
    }

    #[test]
    fn a_query_is_written_and_read_alike() {
        let query = fields(&[("search", "a&b=c ü"), ("status", "")]).query();
        assert_eq!(query, "?search=a%26b%3Dc%20%C3%BC");
        let read = crate::incoming::query(Some(&query[1..])).unwrap();
        assert_eq!(read, [("search".to_owned(), "a&b=c ü".to_owned())]);
        assert_eq!(fields(&[("a", "1")]).with("a", "").query(), "");
    }
}
