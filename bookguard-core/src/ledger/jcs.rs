//! RFC 8785 canonical JSON, the bytes that are hashed, and a strict JSON reader.
//!
//! Strings, integers, arrays and objects are written directly, because each created booking writes dozens. Floating point
//! numbers go through `serde_json_canonicalizer`, and tests compare everything else with its output. Invariant: two
//! different values never have the same canonical bytes. RFC 8785 alone does not guarantee that: it writes every number as
//! a double, so integers beyond 2^53 would collapse into each other. They are refused instead.

use std::cmp::Ordering;
use std::fmt;
use std::io::Write as _;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

mod text;

pub use text::CanonicalText;

/// The largest magnitude a number may have: integers up to here are exact in a double (RFC 7493 §2.2).
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// A number whose canonical form could also be another number's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberError;

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "numbers that are committed to lie between -{MAX_NUMBER} and {MAX_NUMBER}; larger ones are written as strings"
        )
    }
}

impl std::error::Error for NumberError {}

/// The canonical form of a value.
///
/// # Errors
/// [`NumberError`] if it contains a number beyond [`MAX_NUMBER`].
pub fn to_canonical(value: &Value) -> Result<String, NumberError> {
    let mut out = Vec::with_capacity(128);
    write_value(&mut out, value)?;
    Ok(String::from_utf8(out).expect("only ASCII is added to what strings contain"))
}

/// Appends the canonical form of a value.
///
/// # Errors
/// [`NumberError`] as in [`to_canonical`]; `out` then ends in an unfinished value.
pub fn write_value(out: &mut Vec<u8>, value: &Value) -> Result<(), NumberError> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(out, number)?,
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(out, item)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| compare_names(a, b));
            out.push(b'{');
            for (at, (name, member)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_string(out, name);
                out.push(b':');
                write_value(out, member)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// Appends a string in quotes, escaping what RFC 8785 §3.2.2.2 escapes and nothing else.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[written..at]);
        written = at + 1;
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            _ => {
                let digit = b"0123456789abcdef"[usize::from(byte & 0xf)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

/// The order of property names in canonical JSON: by UTF-16 code units (RFC 8785 §3.2.3).
#[must_use]
pub fn compare_names(a: &str, b: &str) -> Ordering {
    // For ASCII the orders agree, and nearly all names are ASCII.
    if a.is_ascii() && b.is_ascii() {
        return a.cmp(b);
    }
    a.encode_utf16().cmp(b.encode_utf16())
}

fn write_number(out: &mut Vec<u8>, number: &Number) -> Result<(), NumberError> {
    if let Some(integer) = number.as_i64() {
        if integer.unsigned_abs() > MAX_NUMBER {
            return Err(NumberError);
        }
        write!(out, "{integer}").expect("a Vec takes every byte");
        return Ok(());
    }
    #[expect(clippy::cast_precision_loss, reason = "2^53 - 1 is exact in a double")]
    match number.as_f64() {
        Some(float) if float.abs() <= MAX_NUMBER as f64 => {
            serde_json_canonicalizer::to_writer(&float, out).map_err(|_| NumberError)
        }
        _ => Err(NumberError),
    }
}

/// Maximum [`weight`] of a text. The largest possible packet, with all ends of deliveries to the most endpoints that an
/// event can go to, has a third of it.
pub(crate) const MAX_WEIGHT: usize = 500_000;
/// The weight of an object: it reserves room for eleven members even if it holds one.
const OBJECT_WEIGHT: usize = 16;

/// Reads a JSON value. Refuses two things that `serde_json` tolerates: a name that occurs twice in one object, and a text
/// of a few megabytes that would take gigabytes of memory.
///
/// # Errors
/// The parser's error, with line and column, or that the text holds too many values.
pub fn parse(text: &str) -> serde_json::Result<Value> {
    if weight(text) > MAX_WEIGHT {
        return Err(serde_json::Error::custom(
            "too many objects and values for a text of this kind",
        ));
    }
    serde_json::from_str::<Strict>(text).map(|strict| strict.0)
}

/// An upper bound of the memory that a parsed JSON text takes, without its strings, in units of about 40 bytes.
pub(crate) fn weight(text: &str) -> usize {
    let (mut weight, mut quoted, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => weight += OBJECT_WEIGHT,
            b'[' | b',' if !quoted => weight += 1,
            _ => {}
        }
    }
    weight
}

/// For `#[serde(deserialize_with)]` on a [`Value`]; as strict as [`parse`].
///
/// # Errors
/// The deserializer's.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Strict::deserialize(deserializer).map(|strict| strict.0)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate name {name:?}")));
            }
            let Strict(member) = members.next_value()?;
            object.insert(name, member);
        }
        Ok(Value::Object(object))
    }
}

/// Every member in which `shown` differs from `said`: its name and both values, null for an absent one.
pub(crate) fn differences(
    said: Map<String, Value>,
    mut shown: Map<String, Value>,
) -> Vec<(String, Value, Value)> {
    let mut found = Vec::new();
    for (name, said) in said {
        let shown = shown.remove(&name).unwrap_or_default();
        if shown != said {
            found.push((name, shown, said));
        }
    }
    let rest = shown.into_iter();
    found.extend(rest.map(|(name, shown)| (name, shown, Value::Null)));
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_weighed_before_it_is_read() {
        for (text, expected) in [
            ("7", 1),
            (r#""a,[{\"\\""#, 1),
            (
                r#"["a\",[", {}, {"b": [1, 2]}]"#,
                1 + 1 + 2 + 2 * OBJECT_WEIGHT + 2,
            ),
        ] {
            assert!(parse(text).is_ok(), "{text}");
            assert_eq!(weight(text), expected, "{text}");
        }
        let many = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        assert!(parse(&many("0", MAX_WEIGHT - 1)).is_ok());
        for heavy in [many("0", MAX_WEIGHT), many(r#"{"":0}"#, 100_000)] {
            let refused = parse(&heavy).unwrap_err();
            assert!(
                refused.to_string().starts_with("too many objects"),
                "{refused}"
            );
        }
    }

    /// Any value whose numbers are within bounds, with strings that need escapes and names that sort differently in UTF-8
    /// and UTF-16.
    pub(crate) fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[ -~]{0,12}",
            "[\\x00-\\x1f\"\\\\/\\x7f\u{e000}\u{ffff}\u{10000}\u{1f600}]{0,8}",
        ];
        let limit = i64::try_from(MAX_NUMBER).unwrap();
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-limit..=limit).prop_map(Value::from),
            (-1000..1000i64).prop_map(Value::from),
            // A number that is too large is replaced by its reciprocal, which is small and as long.
            prop::num::f64::NORMAL.prop_map(move |f| match f.abs() <= limit as f64 {
                true => Value::from(f),
                false => Value::from(f.recip()),
            }),
            (-10_000_000..10_000_000i64).prop_map(|cents| Value::from(cents as f64 / 100.0)),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn names_are_ordered_by_utf_16_code_units() {
        let value = json!({"\u{1f600}": 1, "\u{fb33}": 2, "a": 3, "B": 4, "": 5});
        assert_eq!(
            to_canonical(&value).unwrap(),
            "{\"\":5,\"B\":4,\"a\":3,\"\u{1f600}\":1,\"\u{fb33}\":2}"
        );
    }

    #[test]
    fn numbers_that_would_collapse_into_others_are_refused() {
        let limit = i64::try_from(MAX_NUMBER).unwrap();
        for good in [
            json!(limit),
            json!(-limit),
            json!(limit as f64),
            json!(-0.0),
        ] {
            let ours = to_canonical(&good).unwrap();
            assert_eq!(ours, serde_json_canonicalizer::to_string(&good).unwrap());
        }
        for bad in [
            json!(limit + 1),
            json!(-limit - 1),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(9_007_199_254_740_992.0),
            json!([{"deep": 1e300}]),
        ] {
            assert_eq!(to_canonical(&bad), Err(NumberError), "{bad}");
        }
    }

    #[test]
    fn a_name_given_twice_at_any_depth_is_refused() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"b":{"a":1,"c":2,"a":3}}]"#,
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("duplicate name"), "{error}");
        }
        for text in [
            "{\"a\":1} x",
            "01",
            "-",
            "+1",
            "1.",
            "{\"a\":1,}",
            "NaN",
            "1e999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn canonical_bytes_are_those_of_the_general_implementation(value in any_value()) {
            let ours = to_canonical(&value).unwrap();
            prop_assert_eq!(&ours, &serde_json_canonicalizer::to_string(&value).unwrap());
            let read = parse(&ours).unwrap();
            prop_assert_eq!(to_canonical(&read).unwrap(), ours);
        }

        #[test]
        fn strict_reading_agrees_with_serde_json_where_it_accepts(value in any_value()) {
            let text = value.to_string();
            prop_assert_eq!(parse(&text).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
