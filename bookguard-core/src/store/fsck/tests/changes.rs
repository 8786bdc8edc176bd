//! Other values for stored data, each as close to the old one as possible.

use crate::limits::DAY_MS;
use crate::tests::is_long;
use rusqlite::types::Value;

use super::fixture::START_MS;

/// Other values for a cell, each with the part that changes (a JSON pointer in a document), or how; nothing for bytes, of which each
/// may be read in its own way.
pub(super) fn others(value: &Value) -> Vec<(String, Value)> {
    let whole = |values: Vec<Value>| {
        values
            .into_iter()
            .map(|value| (String::new(), value))
            .collect()
    };
    match value {
        Value::Null => whole(vec![
            Value::Integer(START_MS),
            Value::Text("x".to_owned()),
            Value::Blob(vec![1; 16]),
        ]),
        Value::Real(_) => unreachable!("no column holds reals"),
        Value::Integer(n) => vec![
            ("by one".to_owned(), Value::Integer(n + 1)),
            ("by a day less".to_owned(), Value::Integer(n - DAY_MS)),
            ("by a day more".to_owned(), Value::Integer(n + DAY_MS)),
            ("to nothing".to_owned(), Value::Null),
        ],
        Value::Blob(bytes) => match std::str::from_utf8(bytes).ok().and_then(documents) {
            Some(changed) => changed
                .into_iter()
                .map(|(at, text)| (at, Value::Blob(text.into_bytes())))
                .collect(),
            None if bytes.is_empty() => vec![("to something".to_owned(), Value::Blob(vec![1]))],
            None => {
                // The first byte twice, so that an id becomes both earlier and later whatever its random part is.
                let (middle, last) = (bytes.len() / 2, bytes.len() - 1);
                let mut flipped: Vec<Value> = [(0, 1), (0, 2), (middle, 1), (last, 1)]
                    .into_iter()
                    .map(|(at, bit)| {
                        let mut bytes = bytes.clone();
                        bytes[at] ^= bit;
                        Value::Blob(bytes)
                    })
                    .collect();
                flipped.extend([Value::Blob(bytes[1..].to_vec()), Value::Blob(Vec::new())]);
                whole(flipped)
            }
        },
        Value::Text(text) => match documents(text) {
            Some(changed) => changed
                .into_iter()
                .map(|(at, text)| (at, Value::Text(text)))
                .collect(),
            None => [
                ("longer", format!("{text}x")),
                ("shorter", text[1..].to_owned()),
                ("empty", String::new()),
                ("in capitals", text.to_ascii_uppercase()),
            ]
            .map(|(name, text)| (name.to_owned(), Value::Text(text)))
            .into(),
        },
    }
}

/// Whether a value has no bytes.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Blob(bytes) => bytes.is_empty(),
        Value::Text(text) => text.is_empty(),
        _ => false,
    }
}

/// What a cell has in common with those that the check reads in the same way: a word or a small number itself, otherwise its kind,
/// and of a document the places in it.
pub(super) fn shape(value: &Value) -> String {
    let document = match value {
        Value::Text(text) => serde_json::from_str(text).ok(),
        Value::Blob(bytes) => serde_json::from_slice(bytes).ok(),
        _ => None,
    };
    let document: Option<serde_json::Value> = document;
    match (value, document.filter(|d| d.is_object() || d.is_array())) {
        (_, Some(document)) => {
            let mut found = Vec::new();
            places(&document, "", &mut found);
            found.sort();
            found.join(" ")
        }
        (Value::Integer(n @ 0..10), _) => n.to_string(),
        (Value::Text(word), _) if word.len() < 30 => word.clone(),
        (Value::Blob(bytes), _) => format!("{} bytes", bytes.len()),
        (value, _) => value.data_type().to_string(),
    }
}

/// The places of a document that hold no others, as JSON pointers.
fn places(value: &serde_json::Value, at: &str, out: &mut Vec<String>) {
    use serde_json::Value as Json;
    match value {
        Json::Object(members) => members
            .iter()
            .for_each(|(name, value)| places(value, &format!("{at}/{}", escaped(name)), out)),
        Json::Array(items) if !items.is_empty() => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, value)| places(value, &format!("{at}/{i}"), out));
        }
        _ => out.push(at.to_owned()),
    }
}

/// A member's name as a step of a JSON pointer (RFC 6901 §3).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The document with every value changed or removed in turn, and with other spelling; `None` if it is not a document.
fn documents(text: &str) -> Option<Vec<(String, String)>> {
    use serde_json::Value as Json;
    let document: Json = serde_json::from_str(text)
        .ok()
        .filter(|d: &Json| d.is_object() || d.is_array())?;
    let mut found = Vec::new();
    places(&document, "", &mut found);
    let mut changed = vec![("spelling".to_owned(), format!("{text} "))];
    for (nth, at) in found.into_iter().enumerate() {
        let old = document.pointer(&at).unwrap();
        // The check compares what a member says and whether it is there in one way, so one of the two stands for the other.
        if is_long() || nth % 2 == 0 {
            changed.push((at.clone(), other_value(text, &document, &at, old)));
        }
        if is_long() || nth % 2 == 1 {
            let less = without(text, &document, &at, old);
            changed.push((at, less));
        }
    }
    assert!(
        changed
            .iter()
            .all(|(at, text)| !text.is_empty() || panic!("{at} could not be changed"))
    );
    Some(changed)
}

/// The text of a document with another value at a place.
fn other_value(
    text: &str,
    document: &serde_json::Value,
    at: &str,
    old: &serde_json::Value,
) -> String {
    use serde_json::Value as Json;
    let new = match old {
        Json::String(text) => Json::from(format!("{text}x")),
        Json::Number(n) if n.is_f64() => Json::from(n.as_f64().unwrap() + 1.0),
        Json::Number(n) => Json::from(n.as_i64().unwrap() + 1),
        Json::Bool(b) => Json::from(!b),
        _ => Json::from("x"),
    };
    let mut other = document.clone();
    *other.pointer_mut(at).unwrap() = new.clone();
    rewritten(text, &old.to_string(), &new.to_string(), &other)
}

/// The text of a document without what is at a place.
fn without(text: &str, document: &serde_json::Value, at: &str, old: &serde_json::Value) -> String {
    use serde_json::Value as Json;
    let mut less = document.clone();
    let (parent, name) = at.rsplit_once('/').unwrap();
    let member = match less.pointer_mut(parent).unwrap() {
        Json::Object(members) => {
            let name = members
                .keys()
                .find(|one| escaped(one) == name)
                .unwrap()
                .clone();
            members.remove(&name);
            format!("{}:{old}", Json::from(name))
        }
        Json::Array(items) => {
            items.remove(name.parse().unwrap());
            old.to_string()
        }
        _ => unreachable!("a place has a parent"),
    };
    let patterns = [format!("{member},"), format!(",{member}"), member];
    let texts = patterns
        .iter()
        .map(|pattern| rewritten(text, pattern, "", &less));
    texts
        .reduce(|best, next| if best.is_empty() { next } else { best })
        .unwrap()
}

/// The text with `from` replaced where that makes it mean `wanted`, everything else spelled as before. Empty if there
/// is no such place.
fn rewritten(text: &str, from: &str, to: &str, wanted: &serde_json::Value) -> String {
    let texts = text
        .match_indices(from)
        .map(|(at, _)| [&text[..at], to, &text[at + from.len()..]].concat());
    let mut fitting = texts.filter(|text| {
        serde_json::from_str::<serde_json::Value>(text)
            .ok()
            .as_ref()
            == Some(wanted)
    });
    fitting.next().unwrap_or_default()
}
