//! What was typed, by name, and the body or the query that it becomes.
//!
//! How a text becomes JSON follows from the operation's own declaration; a text that is not of its member's type is sent as
//! text, so that the operation itself refuses it. Invariant: no number passes through a float.

use std::collections::HashSet;

use bookguard_core::input::{Json, JsonObject, quoted};
use bookguard_core::model::Timestamp;
use bookguard_core::operation::Body;
use serde_json::value::RawValue;

/// Named texts, in order: the fields of a form, or the pairs of a query.
#[derive(Debug, Clone, Default)]
pub(in crate::console) struct Fields(Vec<(String, String)>);

impl Fields {
    /// The field whose value makes a form count once, however often it is sent.
    pub(in crate::console) const ONCE: &str = "once";

    pub(in crate::console) fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    #[cfg(test)]
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Self::new(pairs.collect())
    }

    /// The text of a field, without the blanks around it, if there is one.
    pub(in crate::console) fn get(&self, name: &str) -> Option<&str> {
        let (_, text) = self
            .0
            .iter()
            .find(|(known, text)| known == name && !text.trim().is_empty())?;
        Some(text.trim())
    }

    /// The text of a field as it was typed, blanks and all.
    pub(in crate::console) fn raw(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str())
    }

    /// Whether there is a field of this name, even an empty one.
    pub(in crate::console) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// The texts of a field that has several.
    pub(in crate::console) fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named
            .map(|(_, text)| text.trim())
            .filter(|text| !text.is_empty())
    }

    /// All names and texts, as they were typed.
    pub(in crate::console) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Those of the fields whose names are wanted.
    pub(in crate::console) fn only(&self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let wanted = self.0.iter().filter(|(name, _)| is_wanted(name));
        Self(wanted.cloned().collect())
    }

    /// These fields, and others after them.
    pub(in crate::console) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The same fields, with one set to this text.
    pub(in crate::console) fn with(&self, name: &str, text: &str) -> Self {
        let Self(mut pairs) = self.only(|known| known != name);
        if !text.is_empty() {
            pairs.push((name.to_owned(), text.to_owned()));
        }
        Self(pairs)
    }

    /// The same fields, with those of these names as instants where they hold a date and a time without an offset, as browsers
    /// send them.
    pub(in crate::console) fn in_utc(&self, names: &[&str]) -> Self {
        let instant = |(name, text): &(String, String)| {
            let whole = local(text).filter(|_| names.contains(&name.as_str()));
            (name.clone(), whole.unwrap_or_else(|| text.clone()))
        };
        Self(self.0.iter().map(instant).collect())
    }

    /// The same fields, without those of these names that still hold what [`Draft::start`](super::Draft::start) put beside
    /// them. So a form does not undo what somebody else changed after it was opened.
    pub(in crate::console) fn changed(&self, names: &[&str]) -> Self {
        self.only(|name| !names.contains(&name) || !self.is_as_at_start(name))
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
    pub(in crate::console) fn query(&self) -> String {
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
    /// operation says what null means; of a list that a form names but of which nothing was ticked, it is empty.
    pub(in crate::console) fn body(&self, body: Body) -> Vec<u8> {
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
                    match words.is_empty() && kinds.contains(&"null") {
                        true => Some("null".to_owned()),
                        false => Some(format!("[{}]", words.join(","))),
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
pub(super) fn start_of(name: &str) -> String {
    format!("start{name}")
}

/// A text with each break of a line as a space: the operations take texts of one line, and people press Enter.
fn on_one_line(text: &str) -> String {
    let lines = text.split(['\r', '\n', '\t']).map(str::trim);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// The instant in UTC that a date and a time without an offset name, if the text is one: `2027-07-04T19:00`.
pub(super) fn local(text: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use bookguard_core::features::bookings::BookingRequest;
    use bookguard_core::features::cancellations::CancelBooking;
    use bookguard_core::features::endpoints::update::UpdateEndpoint;
    use bookguard_core::operation::Operation as _;

    use super::*;
    use crate::console::form::{Draft, Field, Kind};

    fn body(body: Body, pairs: &[(&str, &str)]) -> String {
        String::from_utf8(Fields::of(pairs).body(body)).unwrap()
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
            let changed = Fields::of(pairs).changed(&names);
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
            let typed = Fields::of(&[("/since", typed), ("/note", typed)]);
            let sent = typed.in_utc(&["/since"]);
            assert_eq!(sent.0[0].1, expected);
            assert_eq!(sent.0[1], typed.0[1]);
        }
        let refused = Fields::of(&[("/since", "2027-07-04T19:00:00Z")]);
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
        let query = Fields::of(&[("search", "a&b=c ü"), ("status", "")]).query();
        assert_eq!(query, "?search=a%26b%3Dc%20%C3%BC");
        let read = crate::incoming::query(Some(&query[1..])).unwrap();
        assert_eq!(read, [("search".to_owned(), "a&b=c ü".to_owned())]);
        assert_eq!(Fields::of(&[("a", "1")]).with("a", "").query(), "");
    }
}
