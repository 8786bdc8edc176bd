use super::*;
use crate::limits::FAULTS;

fn codes(body: &str) -> Vec<(String, String)> {
    let error = read(body.as_bytes(), |form| {
        let name = form.required("name", |v| v.text(10));
        let size = form.optional("size", |v| v.integer(0, 9));
        let tags = form.optional("tags", |v| v.array(2, |item| item.boolean()));
        let inner = form.optional_object("inner", |form| {
            form.required("x", |v| v.number().map(str::to_owned))
        });
        let map = form.optional("map", |v| v.text_map(2, 3, 3));
        Some((name?, size, tags, inner, map))
    });
    error
        .unwrap_err()
        .details
        .into_iter()
        .map(|d| (d.pointer, d.code))
        .collect()
}

#[test]
fn a_suggestion_keeps_more_than_half_of_what_was_typed_and_is_no_wildcard() {
    let words = ["*", "bookings:*", "bookings:read", "id", "name"];
    for (typed, near) in [
        ("booking:read", Some("bookings:read")),
        ("bookings:", Some("bookings:read")),
        ("bookings", None),
        ("nmae", Some("name")),
        ("ID", Some("id")),
        ("iid", Some("id")),
        ("di", None),
        ("r", None),
        ("", None),
    ] {
        assert_eq!(nearest(typed, &words), near, "{typed}");
    }
}

#[test]
fn an_unknown_name_is_repeated_only_in_part() {
    let long = "x".repeat(60_000);
    for body in [
        format!(r#"{{"name":"a","{long}":1}}"#),
        format!(r#"{{"name":"a","{long}":1,"{long}":2}}"#),
        format!(r#"{{"name":"{long}"}}"#),
    ] {
        let error = read(body.as_bytes(), |form| {
            form.required("name", |v| v.choice(&[("a", ())]))
        });
        let error = error.unwrap_err();
        let shown: usize = error
            .details
            .iter()
            .map(|fault| fault.pointer.len() + fault.message.len() + fault.fix.len())
            .sum();
        assert!(
            shown < 700 && error.message.len() < 700,
            "{shown}: {error:?}"
        );
    }
}

#[test]
fn every_fault_has_its_pointer_and_code() {
    #[rustfmt::skip]
    let cases = [
        (r#"{"name":null}"#, &[("/name", "null")][..]),
        (r#"{"name":""}"#, &[("/name", "empty")]),
        (r#"{"name":"12345678901"}"#, &[("/name", "too_long")]),
        (r#"{"name":"a\u0000"}"#, &[("/name", "control_character")]),
        (r#"{"name":"\ud800"}"#, &[("/name", "invalid_string")]),
        (r#"{"name":"a\u202e"}"#, &[("/name", "hidden_character")]),
        (r#"{"name":"A\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301"}"#, &[("/name", "too_many_marks")]),
        (r#"{"name":"\u200b"}"#, &[("/name", "empty")]),
        (r#"{"name":"a","map":{"a\u200b":"1"}}"#, &[("/map/a\u{200b}", "bad_key")]),
        (r#"{"name":"a","map":{" ":"1"}}"#, &[("/map/ ", "bad_key")]),
        (r#"{"name":"a","map":{"\u3000":"1","\u2800":"1"}}"#, &[("/map/\u{3000}", "bad_key"), ("/map/\u{2800}", "bad_key")]),
        (r#"{"name":"a","size":10}"#, &[("/size", "out_of_range")]),
        (r#"{"name":"a","size":1.5}"#, &[("/size", "out_of_range")]),
        (r#"{"name":"a","size":1e400}"#, &[("/size", "out_of_range")]),
        (r#"{"name":"a","tags":[true,3]}"#, &[("/tags/1", "wrong_type")]),
        (r#"{"name":"a","tags":[true,true,true]}"#, &[("/tags", "too_many")]),
        (r#"{"name":"a","inner":{"x":"1","y/~":2}}"#, &[("/inner/x", "wrong_type"), ("/inner/y~1~0", "unknown_field")]),
        (r#"{"name":"a","map":{"a":"1","long":"1"}}"#, &[("/map/long", "bad_key")]),
        (r#"{"name":"a","map":{"a":"1","b":"1","c":"1"}}"#, &[("/map", "too_many")]),
        (r#"{"name":"a","name":"b","zz":1}"#, &[("/name", "duplicate_key"), ("/zz", "unknown_field")]),
    ];
    for (body, faults) in cases {
        let expected: Vec<_> = faults
            .iter()
            .map(|(p, c)| ((*p).to_owned(), (*c).to_owned()))
            .collect();
        assert_eq!(codes(body), expected, "{body}");
    }
}

#[test]
fn who_sends_null_is_told_to_leave_out_only_what_may_be() {
    let error = read(br#"{"name":null,"size":null}"#, |form| {
        let name = form.required("name", |v| v.text(10));
        let size = form.optional("size", |v| v.integer(0, 9));
        Some((name?, size))
    });
    let details = error.unwrap_err().details;
    let fixes: Vec<&str> = details.iter().map(|fault| &*fault.fix).collect();
    let expected = ["Send a value.", "Send a value, or leave \"size\" out."];
    assert_eq!(fixes, expected);
}

#[test]
fn a_text_that_shows_nothing_is_not_called_empty() {
    for (name, message) in [
        ("", "is empty"),
        (" ", "holds nothing visible"),
        ("\\u3000", "holds nothing visible"),
        (
            "\\u0000",
            "holds the control character U+0000, and nothing visible",
        ),
    ] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        let error = read(body.as_bytes(), |form| {
            form.required("name", |v| v.text(10))
        });
        let fault = error.unwrap_err().details.remove(0);
        assert_eq!(
            (&*fault.code, &*fault.message),
            ("empty", message),
            "{body}"
        );
    }
}

#[test]
fn what_is_no_object_is_said_to_be_none() {
    for (body, code) in [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("[]", "wrong_type"),
        ("7", "wrong_type"),
        ("{} {}", "invalid_json"),
        ("[", "invalid_json"),
        ("\"", "invalid_json"),
        ("{\"a\":[}", "invalid_json"),
        ("{\"a\":1,\"a\":01}", "invalid_json"),
        ("\u{c}{}", "invalid_json"),
        ("\u{feff}{}", "invalid_json"),
    ] {
        let error = read(body.as_bytes(), |_| Some(())).unwrap_err();
        assert_eq!(error.code, code, "{body}");
    }
    assert_eq!(
        read(b"\xff{}", |_| Some(())).unwrap_err().code,
        "invalid_json"
    );
    assert_eq!(read(b" \t\r\n{} \t\r\n", |_| Some(7)), Ok(7));
}

#[test]
fn a_body_of_nothing_but_faults_is_answered_briefly() {
    let many: Vec<String> = (0..8_000).map(|n| format!("\"f{n}\":1")).collect();
    let many = many.join(",");
    let error = read(format!("{{{many}}}").as_bytes(), |_| Some(())).unwrap_err();
    assert_eq!(error.details.len(), FAULTS);
    let message = "At least 50 fields are not valid; details has the first 50.";
    assert_eq!(error.message, message);
    let deep = format!("{{\"name\":{}1{}}}", "[".repeat(30_000), "]".repeat(30_000));
    assert!(read(deep.as_bytes(), |form| form.required("name", |v| v.text(5))).is_err());
}

#[cfg(feature = "store")]
#[test]
fn what_is_no_amount_is_quoted_and_told_how_many_decimals_there_are() {
    for (digits, currency, message, fix) in [
        (
            "",
            "USD",
            "\"\" is not a decimal number",
            "Send a number from 0 with at most 2 decimals (USD).",
        ),
        (
            "ten",
            "JPY",
            "\"ten\" is not a decimal number",
            "Send a number from 0 with no decimals (JPY).",
        ),
        (
            "-1",
            "KWD",
            "-1 is negative; amounts are zero or more",
            "Send a number from 0 with at most 3 decimals (KWD).",
        ),
    ] {
        let currency = Currency::parse(currency).unwrap();
        let why = Amount::parse(digits, currency).unwrap_err();
        let fault = amount_fault("?amount", digits, why, currency);
        assert_eq!((&*fault.message, &*fault.fix), (message, fix));
    }
}
