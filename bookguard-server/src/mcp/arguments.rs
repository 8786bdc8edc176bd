//! Maps a tool's arguments to its operation's input: the path, the query, a header, or the body.
//!
//! Argument values are read as the text the caller wrote. Invariants: this module knows no specific tool; it reports no more
//! faults than for any body.

use std::collections::BTreeSet;

use bookguard_core::error::{Error, FieldError};
use bookguard_core::input::{shorten, whole};
use bookguard_core::limits::FAULTS;
use bookguard_core::operation::{QueryForm, QueryParam, Request, Route};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::incoming;

/// The argument that holds the Idempotency-Key.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotencyKey";

/// Reads the arguments. Those not declared for the path, the query or the key go into the body, or into the query if the
/// operation has no body: the operation itself refuses what it does not know.
///
/// # Errors
/// `missing_field`, `duplicate_key`, `null`, `wrong_type`, `invalid_string`, for arguments outside the body; `invalid_json`;
/// `query_too_long`.
pub(super) fn read(route: &Route, remembered: bool, arguments: &str) -> Result<Request, Error> {
    let mut path: Vec<(&str, Option<String>)> =
        route.parameters().map(|name| (name, None)).collect();
    let mut query = Vec::new();
    let mut idempotency_key = None;
    let mut body = Vec::new();
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, value) in members(arguments)? {
        if faults.len() >= FAULTS {
            return Err(Error::faults(faults));
        }
        let place = path.iter_mut().find(|(parameter, _)| *parameter == name);
        let is_key = remembered && name == IDEMPOTENCY_KEY;
        let parameter = route.query.iter().find(|known| known.name == name);
        if place.is_none() && !is_key && parameter.is_none() && route.body.declaration().is_some() {
            body.push((name, value));
            continue;
        }
        let kind = match (&place, parameter.map(|known| known.form)) {
            (Some(_), _) => Kind::Id,
            (None, _) if is_key => Kind::Key,
            (None, Some(QueryForm::Whole(..))) => Kind::Whole,
            (None, _) => Kind::Any,
        };
        let is_required = place.is_some() || parameter.is_some_and(QueryParam::is_required);
        let value = match scalar(&name, value, kind, is_required) {
            Ok(_) if !seen.insert(name.clone()) => {
                faults.push(fault(
                    &name,
                    "duplicate_key",
                    "appears more than once",
                    "Send it once.",
                ));
                continue;
            }
            Ok(value) => value,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        match place {
            Some((_, place)) => *place = Some(value),
            None if is_key => idempotency_key = Some(value),
            None => query.push((name, value)),
        }
    }
    for (name, value) in &path {
        if value.is_none()
            && !faults
                .iter()
                .any(|fault| fault.pointer == format!("/{name}"))
        {
            faults.push(fault(name, "missing_field", "is missing", "Send it."));
        }
    }
    if !faults.is_empty() {
        return Err(Error::faults(faults));
    }
    let outside = query
        .iter()
        .map(|(name, value): &(String, String)| name.len() + value.len());
    incoming::check_query_bytes(outside.sum())?;
    Ok(Request {
        path: path.into_iter().filter_map(|(_, value)| value).collect(),
        query,
        body: match route.body.declaration() {
            None => Vec::new(),
            Some(_) => object(&body).into_bytes(),
        },
        idempotency_key,
        ..Request::default()
    })
}

/// The members of a JSON object, in order.
fn members(object: &str) -> Result<Vec<(String, &RawValue)>, Error> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    let read = serde_json::Deserializer::from_str(object).deserialize_map(Members);
    read.map_err(|e| {
        Error::invalid(
            "invalid_json",
            format!("The arguments are not JSON: {e}. Send one JSON object."),
        )
    })
}

/// The kind of an argument for the path, the query or a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Part of the path, which is text.
    Id,
    /// The Idempotency-Key.
    Key,
    /// A whole number.
    Whole,
    Any,
}

/// The text of an argument for the path, the query or a header.
fn scalar(
    name: &str,
    value: &RawValue,
    kind: Kind,
    is_required: bool,
) -> Result<String, FieldError> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).map_err(|_| {
            let fix = "Send surrogate pairs whole, or the characters themselves as UTF-8.";
            fault(
                name,
                "invalid_string",
                "holds an escape that is not a Unicode character",
                fix,
            )
        }),
        Some(b'n') => {
            let fix = match is_required {
                true => "Send a value.",
                false => "Send a value, or leave it out.",
            };
            Err(fault(name, "null", "is null", fix))
        }
        _ if matches!(kind, Kind::Id | Kind::Key) => {
            let fix = match kind {
                Kind::Key => "Send a string, such as a UUID.",
                _ => "Send it as a string, exactly as it was given.",
            };
            Err(fault(name, "wrong_type", "is not a string", fix))
        }
        Some(b'{' | b'[') => {
            let fix = "Send a string, a number, true or false.";
            Err(fault(
                name,
                "wrong_type",
                "is neither text nor a number",
                fix,
            ))
        }
        // 2.0 is a whole number in JSON Schema, and written with digits alone in a query.
        _ if kind == Kind::Whole => Ok(match whole(text) {
            Some(number) => number.to_string(),
            None => text.to_owned(),
        }),
        _ => Ok(text.to_owned()),
    }
}

fn fault(name: &str, code: &str, message: &str, fix: &str) -> FieldError {
    FieldError::new(format!("/{}", shorten(name)), code, message, fix)
}

/// Writes an object of these members, each value as the caller wrote it.
fn object(members: &[(String, &RawValue)]) -> String {
    let mut text = "{".to_owned();
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&serde_json::Value::from(name.as_str()).to_string());
        text.push(':');
        text.push_str(value.get());
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use bookguard_core::features::bookings::{CreateBooking, GetBooking, ListBookings};
    use bookguard_core::features::cancellations::CancelBooking;
    use bookguard_core::operation::Operation as _;

    use super::*;

    fn split(route: &Route, arguments: &str) -> Request {
        read(route, route.body.declaration().is_some(), arguments).expect(arguments)
    }

    fn codes_of(route: &Route, arguments: &str) -> String {
        read(route, true, arguments)
            .expect_err(arguments)
            .code
            .into_owned()
    }

    fn codes(route: &Route, arguments: &str) -> Vec<(String, String)> {
        let error = read(route, true, arguments).expect_err(arguments);
        let details = error.details.into_iter();
        details
            .map(|detail| (detail.pointer, detail.code))
            .collect()
    }

    #[test]
    fn each_argument_goes_where_the_route_has_it() {
        let input = split(
            &CancelBooking::ROUTE,
            r#"{"expected":{"refundMinorUnits":1e2},"bookingId":"bkg_1","idempotencyKey":"k","canceledBy":"talent"}"#,
        );
        assert_eq!(input.path, ["bkg_1"]);
        assert_eq!(input.idempotency_key.as_deref(), Some("k"));
        assert_eq!(
            input.body,
            br#"{"expected":{"refundMinorUnits":1e2},"canceledBy":"talent"}"#
        );
        let input = split(
            &ListBookings::ROUTE,
            r#"{"status":"a&b=c","limit":5,"other":true}"#,
        );
        let expected = [("status", "a&b=c"), ("limit", "5"), ("other", "true")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(input.query, expected);
        assert_eq!(input.body, b"");
    }

    #[test]
    fn a_whole_number_may_have_a_point() {
        for (sent, text) in [
            ("2.0", "2"),
            ("2e0", "2"),
            ("-0", "0"),
            ("2.5", "2.5"),
            ("true", "true"),
            (r#""2.0""#, "2.0"),
        ] {
            let arguments = format!(r#"{{"limit":{sent}}}"#);
            let input = split(&ListBookings::ROUTE, &arguments);
            assert_eq!(input.query[0].1, text, "{sent}");
        }
    }

    #[test]
    fn a_body_is_what_the_caller_wrote_faults_included() {
        for sent in [
            r#"{"bookingValue":1.10,"bookingValue":0.1000000000000000000001,"x":null}"#,
            "{}",
        ] {
            assert_eq!(split(&CreateBooking::ROUTE, sent).body, sent.as_bytes());
        }
    }

    #[test]
    fn what_is_outside_of_the_body_is_as_short_as_a_query() {
        let sent = |bytes: usize| format!(r#"{{"status":"{}"}}"#, "x".repeat(bytes));
        assert_eq!(
            split(&ListBookings::ROUTE, &sent(4000)).query[0].1.len(),
            4000
        );
        assert_eq!(
            codes_of(&ListBookings::ROUTE, &sent(5000)),
            "query_too_long"
        );
    }

    #[test]
    fn faults_of_arguments_that_are_not_the_body_s_are_told_all_at_once() {
        #[rustfmt::skip]
        let cases = [
            ("{}", "/bookingId", "missing_field"),
            (r#"{"bookingId":null}"#, "/bookingId", "null"),
            (r#"{"bookingId":{}}"#, "/bookingId", "wrong_type"),
            (r#"{"bookingId":5}"#, "/bookingId", "wrong_type"),
            (r#"{"bookingId":true}"#, "/bookingId", "wrong_type"),
            (r#"{"bookingId":"\ud800"}"#, "/bookingId", "invalid_string"),
            (r#"{"bookingId":"a","bookingId":"b"}"#, "/bookingId", "duplicate_key"),
            (r#"{"bookingId":"a","idempotencyKey":null}"#, "/idempotencyKey", "null"),
            (r#"{"bookingId":"a","idempotencyKey":7}"#, "/idempotencyKey", "wrong_type"),
        ];
        for (arguments, pointer, code) in cases {
            let expected = vec![(pointer.to_owned(), code.to_owned())];
            assert_eq!(
                codes(&CancelBooking::ROUTE, arguments),
                expected,
                "{arguments}"
            );
        }
    }

    #[test]
    fn who_sends_null_is_told_to_leave_out_only_what_may_be() {
        let arguments = r#"{"bookingId":null,"idempotencyKey":null}"#;
        let refused = read(&CancelBooking::ROUTE, true, arguments).expect_err(arguments);
        let fixes: Vec<&str> = refused.details.iter().map(|fault| &*fault.fix).collect();
        assert_eq!(fixes, ["Send a value.", "Send a value, or leave it out."]);
    }

    #[test]
    fn faults_are_as_few_and_as_short_as_a_body_s() {
        let members = |value: &str| {
            let members = (0..10_000).map(|n| format!(r#""{n}{}":{value}"#, "x".repeat(100)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        };
        let repeated = format!("{{{}}}", vec![r#""bookingId":0"#; 10_000].join(","));
        for arguments in [members("[]"), members("null"), repeated] {
            let found = codes(&GetBooking::ROUTE, &arguments);
            assert_eq!(found.len(), FAULTS);
            assert!(found.iter().all(|(pointer, _)| pointer.len() < 50));
        }
    }

    #[test]
    fn what_to_send_as_an_idempotency_key_is_a_string() {
        for value in ["{}", "[]", "7", "true"] {
            let arguments = format!(r#"{{"bookingId":"a","idempotencyKey":{value}}}"#);
            let error = read(&CancelBooking::ROUTE, true, &arguments).expect_err(value);
            assert_eq!(error.details[0].fix, "Send a string, such as a UUID.");
        }
    }
}
