//! Reads a JSON request body and reports every fault in it at once, each by JSON pointer with a fix.
//!
//! serde stops at the first fault, does not notice duplicates and turns numbers into floats; a partner who integrates
//! deserves the whole list, and money needs the digits as they were written. The grammar itself is
//! serde_json's: a [`Value`] is a slice it has already accepted.
//!
//! Reading a form: bind every field first, then build, so that one fault does not hide the next. The same reader describes what
//! it reads, as JSON Schema (`describe`): it is run without a value then, and has each field say what it is. So a reader must not
//! leave early, and not look for a field before it binds it.

mod describe;
mod node;
mod whole;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

#[cfg(feature = "internals")]
pub use self::describe::Declaration;
pub use self::describe::Draft;
pub use self::node::Node;
use crate::error::{Error, FieldError};
use crate::limits::FAULTS;
use crate::text::{self, is_blank, misplaced};

/// Reads the body as one JSON object with `read`. Fails with every fault found.
///
/// # Errors
/// `invalid_json` (with line and column), `not_an_object`, or the faults `read` recorded.
pub fn read<T>(body: &[u8], read: impl FnOnce(&mut Form<'_, '_>) -> Option<T>) -> Result<T, Error> {
    read_value(body, |value| value.object(read))
}

fn read_value<T>(body: &[u8], read: impl FnOnce(Value<'_, '_>) -> Option<T>) -> Result<T, Error> {
    let text = std::str::from_utf8(body).map_err(|e| {
        Error::invalid(
            "invalid_json",
            format!("The body is not UTF-8 (byte {}).", e.valid_up_to()),
        )
    })?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|e| {
        Error::invalid(
            "invalid_json",
            format!("The body is not JSON: {e}. Send one JSON object."),
        )
    })?;
    let mut faults = Vec::new();
    let value = read(Value {
        raw: raw.get(),
        path: &Path::Root,
        faults: &mut faults,
        draft: None,
    });
    match value {
        Some(value) if faults.is_empty() => Ok(value),
        _ if faults.is_empty() => Err(Error::internal(
            "a reader gave up on a body without recording a fault",
        )),
        _ => Err(Error::faults(faults)),
    }
}

/// A body that may be left out: none says what an empty object does.
pub fn or_empty(body: &[u8]) -> &[u8] {
    match body.iter().all(u8::is_ascii_whitespace) {
        true => b"{}",
        false => body,
    }
}

/// Where a value stands in the body; written out as a JSON pointer only when there is a fault to report.
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(parent, name) => {
                // A name of the client's own may be as long as the body.
                let name = cut(name, POINTER_CHARS)
                    .replace('~', "~0")
                    .replace('/', "~1");
                write!(f, "{parent}/{name}")
            }
            Path::Item(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

/// One JSON value of the body and where to report its faults.
pub struct Value<'a, 'f> {
    raw: &'a str,
    path: &'f Path<'f>,
    faults: &'f mut Vec<FieldError>,
    /// Where to say what would be read, when there is nothing to read.
    draft: Option<&'f mut Draft>,
}

impl<'a> Value<'a, '_> {
    /// Records a fault at this value. Always `None`, so that a reader can end with it.
    pub fn fault<T>(
        &mut self,
        code: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Option<T> {
        if self.faults.len() >= FAULTS || self.draft.is_some() {
            return None;
        }
        self.faults.push(FieldError {
            pointer: self.path.to_string(),
            code: code.to_owned(),
            message: message.into(),
            fix: fix.into(),
        });
        None
    }

    /// The value's own JSON text.
    pub fn json(&self) -> &'a str {
        self.raw
    }

    /// What the value is, in the words of JSON.
    pub fn type_name(&self) -> &'static str {
        match self.raw.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        }
    }

    fn wrong_type<T>(&mut self, wanted: &str) -> Option<T> {
        let got = self.type_name();
        self.fault(
            "wrong_type",
            format!("is {got}; {wanted} is required"),
            format!("Send {wanted}."),
        )
    }

    /// A string, exactly as sent, with no rule on its content.
    pub fn string(&mut self) -> Option<String> {
        if let Some(draft) = &mut self.draft {
            draft.kind("string");
            return None;
        }
        if !self.raw.starts_with('"') {
            return self.wrong_type("a string");
        }
        match serde_json::from_str(self.raw) {
            Ok(text) => Some(text),
            Err(_) => self.fault(
                "invalid_string",
                "holds an escape that is not a Unicode character",
                "Send surrogate pairs whole, or the characters themselves as UTF-8.",
            ),
        }
    }

    /// Text for people: 1 to `max` characters, something to see among them, and none without a place in it
    /// ([`text::misplaced`](crate::text::misplaced)).
    pub fn text(&mut self, max: usize) -> Option<String> {
        if let Some(draft) = &mut self.draft {
            draft.text(max);
            return None;
        }
        let text = self.string()?;
        let chars = text.chars().count();
        if is_blank(&text) {
            return self.fault(
                "empty",
                "is empty",
                format!("Send 1 to {max} characters, one of them visible."),
            );
        }
        if chars > max {
            return self.fault(
                "too_long",
                format!("has {chars} characters; at most {max} are allowed"),
                format!("Shorten it to {max} characters."),
            );
        }
        match misplaced(&text) {
            None => Some(text),
            Some(c) if c.is_control() => self.fault(
                "control_character",
                format!("holds the control character U+{:04X}", u32::from(c)),
                "Remove control characters, line breaks and tabs included.",
            ),
            Some(c) => self.fault(
                "hidden_character",
                format!(
                    "holds U+{:04X}, which is invisible there or changes how the text around it reads",
                    u32::from(c)
                ),
                "Remove it: direction marks, tags, fillers, private characters, and joiners and variation selectors that change \
                 nothing before them.",
            ),
        }
    }

    /// One of a closed set of words.
    pub fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        self.describe(|draft| {
            draft.set("enum", Node::array(choices.iter().map(|(word, _)| *word)));
        });
        let text = self.string()?;
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let fix = match nearest(&text, &words) {
            Some(word) => format!("Did you mean \"{word}\"? Allowed: {}.", words.join(", ")),
            None => format!("Send one of: {}.", words.join(", ")),
        };
        self.fault(
            "not_allowed",
            format!("\"{}\" is not an allowed value", shorten(&text)),
            fix,
        )
    }

    /// `true` or `false`.
    pub fn boolean(&mut self) -> Option<bool> {
        if let Some(draft) = &mut self.draft {
            draft.kind("boolean");
            return None;
        }
        match self.raw {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.wrong_type("true or false"),
        }
    }

    /// The digits of a number as they were written.
    pub fn number(&mut self) -> Option<&'a str> {
        if let Some(draft) = &mut self.draft {
            draft.kind("number");
            return None;
        }
        if self.type_name() == "a number" {
            Some(self.raw)
        } else {
            self.wrong_type("a number")
        }
    }

    /// A whole number from `min` to `max`.
    pub fn integer(&mut self, min: i64, max: i64) -> Option<i64> {
        if let Some(draft) = &mut self.draft {
            draft.kind("integer");
            draft.set("format", "int64");
            draft.set("minimum", min);
            draft.set("maximum", max);
            return None;
        }
        let digits = self.number()?;
        match whole::whole(digits) {
            Some(n) if (min..=max).contains(&n) => Some(n),
            _ => self.fault(
                "out_of_range",
                format!(
                    "{} is not a whole number from {min} to {max}",
                    shorten(digits)
                ),
                format!("Send a whole number from {min} to {max}."),
            ),
        }
    }

    /// An object, read by `read`; unknown and repeated fields are faults.
    pub fn object<T>(self, read: impl FnOnce(&mut Form<'a, '_>) -> Option<T>) -> Option<T> {
        let Value {
            raw,
            path,
            faults,
            draft,
        } = self;
        if let Some(draft) = draft {
            draft.object();
            return read(&mut Form {
                path,
                fields: Vec::new(),
                known: Vec::new(),
                faults,
                draft: Some(draft),
            });
        }
        let mut value = Value {
            raw,
            path,
            faults,
            draft: None,
        };
        if !raw.starts_with('{') {
            return value.wrong_type("an object");
        }
        let fields: Fields<'a> = match serde_json::from_str(raw) {
            Ok(fields) => fields,
            Err(_) => {
                return value.fault(
                    "invalid_string",
                    "has a field name that is not Unicode text",
                    "Send surrogate pairs whole, or the characters themselves as UTF-8.",
                );
            }
        };
        let before = value.faults.len();
        let mut form = Form {
            path,
            fields: fields.0,
            known: Vec::with_capacity(12),
            faults: value.faults,
            draft: None,
        };
        form.refuse_duplicates();
        let read = read(&mut form);
        form.refuse_unknown();
        if form.faults.len() > before {
            None
        } else {
            read
        }
    }

    /// An array of at most `max` items, each read by `read`.
    pub fn array<T>(
        self,
        max: usize,
        mut read: impl FnMut(Value<'a, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value {
            raw,
            path,
            faults,
            draft,
        } = self;
        if let Some(draft) = draft {
            let items = draft.part(None, |v| read(v.reborrow()));
            draft.kind("array");
            draft.set("items", items);
            draft.set("maxItems", max);
            return None;
        }
        let mut value = Value {
            raw,
            path,
            faults,
            draft: None,
        };
        if !raw.starts_with('[') {
            return value.wrong_type("an array");
        }
        let items: Vec<&'a RawValue> = match serde_json::from_str(raw) {
            Ok(items) => items,
            Err(_) => return value.wrong_type("an array"),
        };
        if items.len() > max {
            return value.fault(
                "too_many",
                format!("has {} items; at most {max} are allowed", items.len()),
                format!("Send at most {max} items."),
            );
        }
        let mut out = Vec::with_capacity(items.len());
        let mut whole = true;
        for (index, item) in items.iter().enumerate() {
            let at = Path::Item(path, index);
            match read(Value {
                raw: item.get(),
                path: &at,
                faults: value.faults,
                draft: None,
            }) {
                Some(item) => out.push(item),
                None => whole = false,
            }
        }
        whole.then_some(out)
    }

    /// An object of at most `max` pairs of text, as metadata is.
    pub fn text_map(
        self,
        max: usize,
        key_chars: usize,
        value_chars: usize,
    ) -> Option<Vec<(String, String)>> {
        self.pairs(max, key_chars, |name, v| {
            if v.raw == "null" {
                return v.fault("null", "is null", "Send text, or leave the pair out.");
            }
            Some((name.to_owned(), v.text(value_chars)?))
        })
    }

    /// An object of at most `max` pairs whose names are free, each read by `read` with its name, null included.
    pub fn pairs<T>(
        self,
        max: usize,
        key_chars: usize,
        mut read: impl FnMut(&str, &mut Value<'a, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        if let Some(draft) = self.draft {
            let pair = draft.part(None, |v| read("", v));
            let name = Node::object([
                ("minLength", 1.into()),
                ("maxLength", key_chars.into()),
                ("pattern", text::key_pattern().into()),
            ]);
            draft.kind("object");
            draft.set("maxProperties", max);
            draft.set("propertyNames", name);
            draft.set("additionalProperties", pair);
            return None;
        }
        self.object(|form| {
            let names: Vec<String> = form.fields.iter().map(|field| field.name.to_string()).collect();
            if names.len() > max {
                // Said once for all of them, not again for each as a field nobody knows.
                form.fields.clear();
                return form.fault_here(
                    "too_many",
                    format!("has {} pairs; at most {max} are allowed", names.len()),
                    format!("Send at most {max} pairs."),
                );
            }
            let mut pairs = Vec::with_capacity(names.len());
            for name in names {
                let value = form.take_as_it_is(&name, |v| read(&name, v));
                if name.is_empty() || name.chars().count() > key_chars || misplaced(&name).is_some() {
                    form.fault_at(
                        &name,
                        "bad_key",
                        format!("its name must have 1 to {key_chars} characters, and no control or hidden characters"),
                        "Rename the key.",
                    );
                } else {
                    pairs.extend(value);
                }
            }
            Some(pairs)
        })
    }

    /// What `read` gives, or `Some(None)` for null.
    pub fn or_null<T>(
        &mut self,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.draft.is_some() {
            read(self);
            self.describe(Draft::allow_null);
            return None;
        }
        match self.raw {
            "null" => Some(None),
            _ => read(self).map(Some),
        }
    }
}

/// The fields of one object while they are read.
pub struct Form<'a, 'f> {
    path: &'f Path<'f>,
    fields: Vec<Field<'a>>,
    known: Vec<&'static str>,
    faults: &'f mut Vec<FieldError>,
    /// As a value's.
    draft: Option<&'f mut Draft>,
}

impl<'a> Form<'a, '_> {
    /// A field that must be there. `None` means a fault was recorded.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        if let Some(draft) = &mut self.draft {
            return draft.field(name, true, read);
        }
        if !self.has(name) {
            self.known.push(name);
            self.fault_at(
                name,
                "missing_field",
                "is required and missing",
                format!("Add \"{name}\"."),
            );
            return None;
        }
        self.optional(name, read)
    }

    /// A field that may be left out. `None` means it was, or a fault was recorded. `null` is a fault.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        if let Some(draft) = &mut self.draft {
            return draft.field(name, false, read);
        }
        self.known.push(name);
        self.take(name, read)
    }

    /// A field that may be left out, and that may be null: then `Some(None)`.
    pub fn nullable<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<Option<T>> {
        if let Some(draft) = &mut self.draft {
            return draft.field(name, false, |v| v.or_null(read));
        }
        self.known.push(name);
        self.take_as_it_is(name, |v| v.or_null(read))
    }

    /// Reads a field by any name, without offering the name as one that is known.
    fn take<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.take_as_it_is(name, |value| {
            if value.raw == "null" {
                return value.fault(
                    "null",
                    "is null",
                    format!("Send a value, or leave \"{name}\" out."),
                );
            }
            read(value)
        })
    }

    /// As [`Self::take`], null included.
    fn take_as_it_is<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        let mut first = None;
        // A name that is there twice is a fault of its own; its first value is the one read.
        for field in self.fields.iter_mut().filter(|field| field.name == name) {
            field.taken = true;
            first = first.or(Some(field.raw));
        }
        let raw = first?;
        let path = Path::Field(self.path, name);
        let mut value = Value {
            raw: raw.get(),
            path: &path,
            faults: self.faults,
            draft: None,
        };
        read(&mut value)
    }

    /// A field that must be there and is an object.
    pub fn required_object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Form<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.required(name, |v| v.reborrow().object(read))
    }

    /// A field that may be left out and is an object.
    pub fn optional_object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Form<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.optional(name, |v| v.reborrow().object(read))
    }

    /// Whether the object has this field.
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// Records a fault at one field of this object, for rules that span several.
    pub fn fault_at(
        &mut self,
        name: &str,
        code: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let path = Path::Field(self.path, name);
        Value {
            raw: "",
            path: &path,
            faults: self.faults,
            draft: self.draft.as_deref_mut(),
        }
        .fault::<()>(code, message, fix);
    }

    /// Records a fault at the object itself. Always `None`.
    pub fn fault_here<T>(
        &mut self,
        code: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Option<T> {
        Value {
            raw: "",
            path: self.path,
            faults: self.faults,
            draft: self.draft.as_deref_mut(),
        }
        .fault(code, message, fix)
    }

    fn refuse_duplicates(&mut self) {
        let mut names: Vec<&str> = self
            .fields
            .iter()
            .map(|field| field.name.as_ref())
            .collect();
        names.sort_unstable();
        let mut twice: Vec<String> = names
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0].to_owned())
            .collect();
        twice.dedup();
        for name in twice {
            self.fault_at(
                &name,
                "duplicate_key",
                "appears more than once",
                "Send each field once.",
            );
        }
    }

    fn refuse_unknown(&mut self) {
        // A repeated name is a fault already; its first field stands for all.
        let unknown: BTreeSet<String> = self
            .fields
            .iter()
            .filter(|field| !field.taken && !self.known.contains(&field.name.as_ref()))
            .map(|field| field.name.to_string())
            .collect();
        let known = self.known.clone();
        for name in unknown.iter().take(FAULTS) {
            let fix = match nearest(name, &known) {
                Some(word) => format!("Did you mean \"{word}\"?"),
                None => format!("Remove it. Known fields: {}.", known.join(", ")),
            };
            self.fault_at(name, "unknown_field", "is not a field of this object", fix);
        }
    }
}

impl<'a> Value<'a, '_> {
    /// The same value for a reader that consumes it.
    pub fn reborrow(&mut self) -> Value<'a, '_> {
        Value {
            raw: self.raw,
            path: self.path,
            faults: self.faults,
            draft: self.draft.as_deref_mut(),
        }
    }
}

/// The word a person most likely meant, if any is near enough.
pub fn nearest<'w>(typed: &str, words: &[&'w str]) -> Option<&'w str> {
    if typed.len() > 64 {
        return None;
    }
    let lower = typed.to_lowercase();
    words
        .iter()
        .map(|word| {
            (
                strsim::damerau_levenshtein(&lower, &word.to_lowercase()),
                *word,
            )
        })
        .min()
        .filter(|(distance, word)| *distance <= 1 + word.len() / 4)
        .map(|(_, word)| word)
}

/// Characters of the client's own input that are shown back.
const ECHO_CHARS: usize = 40;
/// Characters of a name in a pointer: no name that is allowed is longer.
const POINTER_CHARS: usize = 64;

/// A piece of the client's own input short enough to show back.
pub fn shorten(text: &str) -> String {
    cut(text, ECHO_CHARS)
}

/// The first `chars` characters of a text that may hold anything.
pub fn cut(text: &str, chars: usize) -> String {
    let cleaned = text
        .chars()
        .take(chars)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut out: String = cleaned.collect();
    if text.chars().nth(chars).is_some() {
        out.push('…');
    }
    out
}

/// One field of an object, and whether it has been read.
struct Field<'a> {
    name: Cow<'a, str>,
    raw: &'a RawValue,
    taken: bool,
}

/// The fields of an object in order, repeated names and all.
struct Fields<'a>(Vec<Field<'a>>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((Name(name), value)) =
                    map.next_entry::<Name<'de>, &'de RawValue>()?
                {
                    fields.push(Field {
                        name,
                        raw: value,
                        taken: false,
                    });
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// A field name, borrowed from the body unless it holds escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(body: &str) -> Vec<(String, String)> {
        let error = read(body.as_bytes(), |form| {
            let name = form.required("name", |v| v.text(5));
            let size = form.optional("size", |v| v.integer(0, 9));
            let tags = form.optional("tags", |v| v.reborrow().array(2, |mut item| item.boolean()));
            let inner = form.optional_object("inner", |form| {
                form.required("x", |v| v.number().map(str::to_owned))
            });
            let map = form.optional("map", |v| v.reborrow().text_map(2, 3, 3));
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
        for (body, faults) in [
            (r#"{"name":null}"#, &[("/name", "null")][..]),
            (r#"{"name":""}"#, &[("/name", "empty")]),
            (r#"{"name":"123456"}"#, &[("/name", "too_long")]),
            (r#"{"name":"a\u0000"}"#, &[("/name", "control_character")]),
            (r#"{"name":"\ud800"}"#, &[("/name", "invalid_string")]),
            (r#"{"name":"a\u202e"}"#, &[("/name", "hidden_character")]),
            (r#"{"name":"\u200b"}"#, &[("/name", "empty")]),
            (
                r#"{"name":"a","map":{"a\u200b":"1"}}"#,
                &[("/map/a\u{200b}", "bad_key")],
            ),
            (r#"{"name":"a","size":10}"#, &[("/size", "out_of_range")]),
            (r#"{"name":"a","size":1.5}"#, &[("/size", "out_of_range")]),
            (r#"{"name":"a","size":1e400}"#, &[("/size", "out_of_range")]),
            (
                r#"{"name":"a","tags":[true,3]}"#,
                &[("/tags/1", "wrong_type")],
            ),
            (
                r#"{"name":"a","tags":[true,true,true]}"#,
                &[("/tags", "too_many")],
            ),
            (
                r#"{"name":"a","inner":{"x":"1","y/~":2}}"#,
                &[
                    ("/inner/x", "wrong_type"),
                    ("/inner/y~1~0", "unknown_field"),
                ],
            ),
            (
                r#"{"name":"a","map":{"a":"1","long":"1"}}"#,
                &[("/map/long", "bad_key")],
            ),
            (
                r#"{"name":"a","map":{"a":"1","b":"1","c":"1"}}"#,
                &[("/map", "too_many")],
            ),
            (
                r#"{"name":"a","name":"b","zz":1}"#,
                &[("/name", "duplicate_key"), ("/zz", "unknown_field")],
            ),
        ] {
            let expected: Vec<_> = faults
                .iter()
                .map(|(p, c)| ((*p).to_owned(), (*c).to_owned()))
                .collect();
            assert_eq!(codes(body), expected, "{body}");
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
        ] {
            let error = read(body.as_bytes(), |_| Some(())).unwrap_err();
            assert_eq!(error.code, code, "{body}");
        }
        assert_eq!(
            read(b"\xff{}", |_| Some(())).unwrap_err().code,
            "invalid_json"
        );
    }

    #[test]
    fn a_body_of_nothing_but_faults_is_answered_briefly() {
        let many: String = (0..8_000).map(|n| format!("\"f{n}\":1,")).collect();
        assert_eq!(codes(&format!("{{{many}\"name\":\"a\"}}")).len(), FAULTS);
        let deep = format!("{{\"name\":{}1{}}}", "[".repeat(30_000), "]".repeat(30_000));
        assert!(read(deep.as_bytes(), |form| form.required("name", |v| v.text(5))).is_err());
    }
}
