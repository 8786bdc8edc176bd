//! Where in a packet something is wrong, as a JSON pointer (RFC 6901). Only failed checks ask.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The pointer to the first difference between two values; empty if there is none, or they differ as a whole.
pub(super) fn difference(one: &Value, other: &Value) -> String {
    let found = match (one, other) {
        (Value::Object(one), Value::Object(other)) => one
            .keys()
            .chain(other.keys())
            .map(|name| (name.clone(), one.get(name), other.get(name)))
            .find(differ),
        (Value::Array(one), Value::Array(other)) => (0..one.len().max(other.len()))
            .map(|at| (at.to_string(), one.get(at), other.get(at)))
            .find(differ),
        _ => None,
    };
    match found {
        Some((name, Some(one), Some(other))) => step(&name) + &difference(one, other),
        Some((name, ..)) => step(&name),
        None => String::new(),
    }
}

fn differ((_, one, other): &(String, Option<&Value>, Option<&Value>)) -> bool {
    one != other
}

/// The pointer to what keeps a canonical text from being read as a `T`; empty if nothing does.
pub(super) fn unreadable<T: DeserializeOwned>(text: &str) -> String {
    let Some(begin) = read::<T>(text) else {
        return String::new();
    };
    // The parser also takes the end of an object or array whose last value it refuses. Without that end, it stops at the value.
    let inner = begin.strip_suffix(['}', ']']).and_then(read::<T>);
    last(inner.unwrap_or(begin))
}

/// What the parser has read of a text when it refuses a value; `None` if it refuses none.
fn read<T: DeserializeOwned>(text: &str) -> Option<&str> {
    let refused = serde_json::from_str::<T>(text).err()?;
    // A canonical text is one line.
    text.get(..refused.column()).filter(|_| refused.is_data())
}

/// An object or an array that has begun.
enum Open {
    /// Its latest name.
    Object(Option<String>),
    /// The place of its latest item.
    Array(usize),
}

/// The pointer to the value or name with which the beginning of a JSON text ends.
fn last(begin: &str) -> String {
    let bytes = begin.as_bytes();
    let (mut open, mut at, mut is_name) = (Vec::new(), 0, false);
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' => {
                open.push(Open::Object(None));
                is_name = true;
            }
            b'[' => open.push(Open::Array(0)),
            b'}' | b']' => drop(open.pop()),
            b':' => is_name = false,
            b',' => match open.last_mut() {
                Some(Open::Array(item)) => *item += 1,
                _ => is_name = true,
            },
            b'"' => {
                at = after_string(bytes, at);
                if let (true, Some(Open::Object(name))) = (is_name, open.last_mut()) {
                    *name = serde_json::from_slice(&bytes[start..at]).ok();
                }
            }
            _ => {}
        }
    }
    let mut pointer = String::new();
    for open in open {
        match open {
            Open::Object(None) => {}
            Open::Object(Some(name)) => pointer += &step(&name),
            Open::Array(item) => pointer += &step(&item.to_string()),
        }
    }
    pointer
}

/// Where a string ends that has begun before `at`.
fn after_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_found_at_any_depth() {
        let one = json!({"a": [1, {"b/~": 2, "c": [3]}], "d": null});
        for (other, place) in [
            (one.clone(), ""),
            (json!([]), ""),
            (
                json!({"a": [1, {"b/~": 0, "c": [3]}], "d": null}),
                "/a/1/b~1~0",
            ),
            (
                json!({"a": [1, {"b/~": 2, "c": [3, 4]}], "d": null}),
                "/a/1/c/1",
            ),
            (
                json!({"a": [1, {"b/~": 2, "c": []}], "d": null}),
                "/a/1/c/0",
            ),
            (json!({"a": [1, {"b/~": 2, "c": {}}], "d": null}), "/a/1/c"),
            (json!({"a": [1, {"b/~": 2, "c": [3]}]}), "/d"),
            (
                json!({"a": [1, {"b/~": 2, "c": [3]}], "d": null, "e": 1}),
                "/e",
            ),
        ] {
            assert_eq!(difference(&one, &other), place, "{other}");
        }
    }

    #[test]
    fn the_end_of_a_text_is_a_place() {
        for (begin, place) in [
            ("", ""),
            ("{", ""),
            (r#"{"a""#, "/a"),
            (r#"{"a":"#, "/a"),
            (r#"{"a":"b\"}"#, "/a"),
            (r#"{"a":{"b":1},"c\"/":[{},"x""#, "/c\"~1/1"),
            (r#"{"a":{"b":1}"#, "/a"),
            (r#"{"a":{"b":1}}"#, ""),
            (r#"{"a":[[1,2],[3"#, "/a/1/0"),
            (r#"{"a":[],"b":"\\","é":"é"#, "/é"),
        ] {
            assert_eq!(last(begin), place, "{begin}");
        }
    }
}
