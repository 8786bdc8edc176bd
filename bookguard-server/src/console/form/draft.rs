//! A form being filled in: its fields with what was typed, and its refusal beside them.

use bookguard_core::error::{self, Error, FieldError};
use bookguard_core::model::Timestamp;
use bookguard_core::text::capital;
use maud::{Markup, html};

use super::field::{Field, Kind, id_of};
use super::fields::{Fields, local, start_of};
use crate::console::parts::{date_and_time, fact, hidden, once};

/// A form being filled in: what was typed, and why it was refused.
pub(in crate::console) struct Draft<'d> {
    pub(in crate::console) fields: &'d Fields,
    pub(in crate::console) refused: Option<&'d Error>,
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
    pub(in crate::console) fn alert(&self, names: &[&str]) -> Markup {
        self.refusal("Nothing was sent.", names)
    }

    /// [`Self::alert`] of the filter of a list.
    pub(in crate::console) fn alert_of_filter(&self, names: &[&str]) -> Markup {
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
        let first = self.first_marked(names);
        html! {
            div.alert.bad role="alert" tabindex="-1" autofocus {
                @if error.details.is_empty() {
                    p { (message) }
                } @else {
                    p {
                        (nothing)
                        @if others.len() < error.details.len() { " Correct what is marked below." }
                        @if let Some(first) = first { " " a href={ "#" (id_of(first)) } { "Go to a marked field" } }
                    }
                    @for detail in others {
                        @if detail.code == "cursor_invalid" || detail.pointer == "before" {
                            p { "The address names no page of this list. " a href=(self.first_page(names)) { "Show the newest" } }
                        } @else {
                            p { (detail.pointer) " " (with_advice(detail)) }
                        }
                    }
                }
            }
        }
    }

    /// A field of the form that has a fault, the first by these names. A name that ends with a slash stands for all fields below it, and
    /// an empty one for a text that has its faults beside it.
    fn first_marked<'n>(&'n self, names: &[&'n str]) -> Option<&'n str> {
        let details = self.refused.map_or(&[][..], |error| &error.details);
        let marked = |name: &'n str| {
            let fault = details
                .iter()
                .find(|detail| !name.is_empty() && detail.pointer.starts_with(name))?;
            Some(match name.ends_with('/') {
                true => fault.pointer.as_str(),
                false => name,
            })
        };
        names.iter().copied().find_map(marked)
    }

    /// The address, from the page itself, of the first page of a list with this filter.
    fn first_page(&self, filter: &[&str]) -> String {
        let query = self.fields.only(|name| filter.contains(&name)).query();
        match query.is_empty() {
            true => "?".to_owned(),
            false => query,
        }
    }

    /// The hidden field that makes the form count once, with a new key unless the last one may have been received; then it says so.
    pub(in crate::console) fn once(&self) -> Markup {
        let Some(key) = self.kept_key() else {
            return once();
        };
        html! {
            p { "It may have been received all the same. Send it again: it counts only once." }
            (hidden(Fields::ONCE, key))
        }
    }

    /// The key of a form of which nobody knows whether it did something.
    pub(in crate::console) fn kept_key(&self) -> Option<&str> {
        let refused = self.refused?;
        let is_open = refused.kind == error::Kind::Unavailable;
        self.fields.get(Fields::ONCE).filter(|_| is_open)
    }

    /// Hidden fields with what a field held when the form was opened: see [`Fields::changed`]. A refused form keeps them.
    pub(in crate::console) fn start(&self, field: &Field<'_>) -> Markup {
        let name = start_of(field.name);
        let pairs = self.fields.pairs();
        let kept = pairs.filter(|(known, _)| self.refused.is_some() && *known == name);
        let kept: Vec<&str> = kept.map(|(_, text)| text).collect();
        let texts = match field.kind {
            _ if !kept.is_empty() => kept,
            Kind::Choices(_) => field.value.split(' ').collect(),
            _ => vec![field.value],
        };
        html! { @for text in texts { (hidden(&name, text)) } }
    }

    /// What these fields hold, in hidden ones.
    pub(in crate::console) fn hidden(&self, names: &[&str]) -> Markup {
        html! {
            @for name in names { @for text in self.fields.all(name) { (hidden(name, text)) } }
        }
    }

    /// Whether any of these fields holds something.
    pub(in crate::console) fn is_filled_in(&self, fields: &[Field<'_>]) -> bool {
        let mut fields = fields.iter();
        fields.any(|field| self.fields.get(field.name).is_some())
    }

    /// What these fields hold, for somebody to read. Those that hold nothing are left out.
    pub(in crate::console) fn facts(&self, fields: &[Field<'_>]) -> Markup {
        html! {
            dl {
                @for field in fields {
                    @if let Some(text) = self.in_words(field) { (fact(field.label, text)) }
                }
            }
        }
    }

    fn in_words(&self, field: &Field<'_>) -> Option<String> {
        let text = self.fields.get(field.name)?;
        let text = match &field.kind {
            Kind::Choice(words) | Kind::Choices(words) => {
                let is_chosen = |word: &str| self.fields.all(field.name).any(|text| text == word);
                let chosen = words.iter().filter(|(word, _)| is_chosen(word));
                let chosen: Vec<&str> = chosen.map(|(_, label)| label.as_str()).collect();
                chosen.join(", ")
            }
            Kind::Local => local(text).map_or_else(|| text.to_owned(), |at| instant_in_words(&at)),
            Kind::Utc => instant_in_words(&local(text).unwrap_or_else(|| text.to_owned())),
            _ => text.to_owned(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// A field with its label, what is in it, and its faults.
    pub(in crate::console) fn field(&self, field: &Field<'_>) -> Markup {
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
                fieldset.field id=(id) aria-describedby=[described] {
                    legend { (label) (optional) }
                    (notes)
                    @for (word, text) in words {
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
                            @if !required || field.unanswered { option value="" { (field.none) } }
                            @for (word, text) in words { option value=(word) selected[chosen(word)] { (text) } }
                        },
                        _ => input id=(id) name=(name) type=(kind.input(text)) inputmode=[kind.keyboard()] value=(text)
                            required[*required] autofocus[field.focused] autocomplete=[kind.completion()] aria-describedby=[described] aria-invalid=[invalid];
                    }
                }
            },
        }
    }
}

/// An instant as people read it, or what else was typed.
fn instant_in_words(text: &str) -> String {
    Timestamp::parse(text).map_or_else(|| text.to_owned(), date_and_time)
}

/// A fault of a field, for somebody who sees the field and not the body that is made of it.
fn told(fault: &FieldError) -> String {
    match &*fault.code {
        "missing_field" => "This is required.".to_owned(),
        "wrong_type" => fault.fix.clone(),
        _ => capital(&with_advice(fault)),
    }
}

/// What is wrong, and what to do about it.
fn with_advice(fault: &FieldError) -> String {
    let FieldError { message, fix, .. } = fault;
    let end = if message.ends_with(['.', '?']) {
        ""
    } else {
        "."
    };
    format!("{message}{end} {fix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::form::{is_correctable, labelled};

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
        #[rustfmt::skip]
        let cases = [
            ("has 3 characters", "Send at most 2.", "Has 3 characters. Send at most 2."),
            (
                "The zone \"X\" is unknown. Did you mean \"Y\"?",
                "Send a name.",
                "The zone \"X\" is unknown. Did you mean \"Y\"? Send a name.",
            ),
            ("That is more than 5.", "Send at most 5.", "That is more than 5. Send at most 5."),
        ];
        for (message, fix, expected) in cases {
            assert_eq!(told("other", message, fix), expected);
        }
    }

    #[test]
    fn a_refused_form_keeps_its_key_if_it_may_have_been_received() {
        let sent = Fields::of(&[(Fields::ONCE, "0a1b")]);
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
            assert_eq!(super::super::status(Some(&refused)).as_u16(), status);
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
            let fields = &Fields::of(&[("search", "a"), ("cursor", "x")]);
            let refused = Some(refused);
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
        let page = alert(&Error::faults(vec![FieldError::new(
            "cursor",
            "cursor_invalid",
            "is not a cursor of this list",
            "Enter the nextCursor.",
        )]));
        let first = "no page of this list. <a href=\"?search=a\">Show the newest</a>";
        assert!(
            page.contains(first) && !page.contains("nextCursor"),
            "{page}"
        );
        let marked = alert(&Error::faults(vec![FieldError::new(
            "search", "c", "is wrong", "Mend it.",
        )]));
        assert!(
            marked.contains(
                "Correct what is marked below. <a href=\"#fsearch\">Go to a marked field</a></p></div>"
            ),
            "{marked}"
        );
    }

    #[test]
    fn a_refused_form_keeps_what_its_fields_held_at_the_start() {
        let words = || labelled(&[("a", "A"), ("b", "B")]);
        let error = Error::faults(vec![]);
        let sent = Fields::of(&[("start/x", "")]);
        let start = |kind, value, refused| {
            let fields = &sent;
            let field = Field::new("/x", "X", kind).value(value);
            Draft { fields, refused }.start(&field).into_string()
        };
        let hidden =
            |text: &str| format!("<input type=\"hidden\" name=\"start/x\" value=\"{text}\">");
        assert_eq!(start(Kind::Text, "a b", None), hidden("a b"));
        let both = hidden("a") + &hidden("b");
        assert_eq!(start(Kind::Choices(words()), "a b", None), both);
        assert_eq!(start(Kind::Choices(words()), "", None), hidden(""));
        assert_eq!(start(Kind::Text, "a", Some(&error)), hidden(""));
    }

    #[test]
    fn a_fault_stands_beside_its_field_and_what_was_typed_stays() {
        use bookguard_core::error::FieldError;
        let typed = Fields::of(&[("/url", "<http>"), ("/events", "b")]);
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
        let words = || labelled(&[("a", "A"), ("b", "B")]);
        let events = draft
            .field(&Field::new("/events", "Types", Kind::Choices(words())))
            .into_string();
        assert!(events.contains("Is wrong. Do this."), "{events}");
        assert!(
            events.contains("value=\"b\" checked") && !events.contains("value=\"a\" checked"),
            "{events}"
        );
        let alert = draft.alert(&["/url/", "/events"]).into_string();
        assert!(alert.contains("/other is wrong. Do this."), "{alert}");
    }
}
