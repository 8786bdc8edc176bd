//! One JSON value, and the types it can be read as.

use std::fmt::Display;

use serde_json::value::RawValue;

use super::describe::Draft;
use super::form::{Fields, Form};
use super::json::Json;
use super::{Path, not_allowed, shorten, whole};
use crate::error::FieldError;
use crate::limits::FAULTS;
use crate::text::{self, MARKS_IN_A_ROW, is_blank, is_crowded, misplaced};

/// One JSON value of the body and where to report its faults.
pub struct Value<'a, 'f> {
    pub(super) raw: &'a str,
    pub(super) path: &'f Path<'f>,
    pub(super) faults: &'f mut Vec<FieldError>,
    /// The description to fill in, if there is no value to read.
    pub(super) draft: Option<&'f mut Draft>,
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
        self.faults
            .push(FieldError::new(self.path.to_string(), code, message, fix));
        None
    }

    /// The value's own JSON text.
    pub fn json(&self) -> &'a str {
        self.raw
    }

    /// The value's type, in JSON's terms.
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

    /// Reads a string exactly as sent, with no rule on its content.
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

    /// Reads text for people: 1 to `max` characters, at least one of them visible, none that is refused
    /// ([`text::misplaced`]), and no crowd of marks ([`text::is_crowded`]).
    pub fn text(&mut self, max: usize) -> Option<String> {
        let text = self.accepted_text(max)?;
        match crowd_fault(self.path, &text) {
            None => Some(text),
            Some(fault) => self.fault(&fault.code, fault.message, fault.fix),
        }
    }

    /// Does the same as [`Self::text`] for one that may have been accepted before crowds of marks were refused.
    pub fn accepted_text(&mut self, max: usize) -> Option<String> {
        if let Some(draft) = &mut self.draft {
            draft.text(max);
            return None;
        }
        let text = self.string()?;
        match accepted_text_fault(self.path, &text, max) {
            None => Some(text),
            Some(fault) => self.fault(&fault.code, fault.message, fault.fix),
        }
    }

    /// Reads one of a closed set of words.
    pub fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        self.describe(|draft| {
            draft.set("enum", Json::array(choices.iter().map(|(word, _)| *word)));
        });
        let text = self.string()?;
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let (message, fix) = not_allowed(&text, &words);
        self.fault("not_allowed", message, fix)
    }

    /// Reads `true` or `false`.
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

    /// Reads the digits of a number as they were written.
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

    /// Reads a whole number from `min` to `max`.
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

    /// Reads an object with `read`; unknown and repeated fields are faults.
    pub fn object<T>(&mut self, read: impl FnOnce(&mut Form<'a, '_>) -> Option<T>) -> Option<T> {
        if let Some(draft) = &mut self.draft {
            draft.object();
            return read(&mut Form::new(self, Fields::default()));
        }
        if !self.raw.starts_with('{') {
            return self.wrong_type("an object");
        }
        let Ok(fields) = serde_json::from_str(self.raw) else {
            return self.fault(
                "invalid_string",
                "has a field name that is not Unicode text",
                "Send surrogate pairs whole, or the characters themselves as UTF-8.",
            );
        };
        let before = self.faults.len();
        let mut form = Form::new(self, fields);
        form.refuse_duplicates();
        let read = read(&mut form);
        form.refuse_unknown();
        read.filter(|_| self.faults.len() == before)
    }

    /// Reads an array of at most `max` items, each with `read`.
    pub fn array<T>(
        &mut self,
        max: usize,
        mut read: impl FnMut(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        if let Some(draft) = &mut self.draft {
            let items = draft.part(None, read);
            draft.kind("array");
            draft.set("items", items);
            draft.set("maxItems", max);
            return None;
        }
        let items: Result<Vec<&'a RawValue>, _> = serde_json::from_str(self.raw);
        let Ok(items) = items else {
            return self.wrong_type("an array");
        };
        if items.len() > max {
            return self.fault(
                "too_many",
                format!("has {} items; at most {max} are allowed", items.len()),
                format!("Send at most {max} items."),
            );
        }
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            // Every item is read, to report its faults.
            out.push(read(&mut Value {
                raw: item.get(),
                path: &Path::Item(self.path, index),
                faults: self.faults,
                draft: None,
            }));
        }
        out.into_iter().collect()
    }

    /// Reads an object of at most `max` pairs of text, such as metadata.
    pub fn text_map(
        &mut self,
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

    /// Reads an object of at most `max` pairs with free names; `read` gets each value with its name, null included.
    pub fn pairs<T>(
        &mut self,
        max: usize,
        key_chars: usize,
        mut read: impl FnMut(&str, &mut Value<'a, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        if let Some(draft) = &mut self.draft {
            let pair = draft.part(None, |v| read("", v));
            let name = Json::object([
                ("minLength", 1.into()),
                ("maxLength", key_chars.into()),
                ("pattern", text::pattern().into()),
            ]);
            draft.kind("object");
            draft.set("maxProperties", max);
            draft.set("propertyNames", name);
            draft.set("additionalProperties", pair);
            return None;
        }
        self.object(|form| {
            let names = form.names();
            if names.len() > max {
                // One fault for all of them, instead of an unknown field each.
                form.clear();
                return form.fault_here(
                    "too_many",
                    format!("has {} pairs; at most {max} are allowed", names.len()),
                    format!("Send at most {max} pairs."),
                );
            }
            let mut pairs = Vec::with_capacity(names.len());
            for name in names {
                let value = form.take_as_it_is(&name, |v| read(&name, v));
                let is_fine = !is_blank(&name)
                    && name.chars().count() <= key_chars
                    && misplaced(&name).is_none()
                    && !is_crowded(&name);
                if !is_fine {
                    form.fault_at(
                        &name,
                        "bad_key",
                        format!("its name must have 1 to {key_chars} characters, one of them visible, no control or hidden characters, and no more than {MARKS_IN_A_ROW} combining marks in a row"),
                        "Rename the key.",
                    );
                } else {
                    pairs.extend(value);
                }
            }
            Some(pairs)
        })
    }

    /// Reads null as `Some(None)`, and anything else with `read`.
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

/// What is wrong with the text for people at this place, which may have at most `max` characters; `None` if nothing is.
#[cfg(feature = "store")]
pub(crate) fn text_fault(place: &impl Display, text: &str, max: usize) -> Option<FieldError> {
    accepted_text_fault(place, text, max).or_else(|| crowd_fault(place, text))
}

fn crowd_fault(place: &impl Display, text: &str) -> Option<FieldError> {
    let fault = || {
        let message = format!(
            "holds more than {MARKS_IN_A_ROW} combining marks in a row, which would be drawn over the text around it"
        );
        let fix = format!("Send at most {MARKS_IN_A_ROW} combining marks after a character.");
        FieldError::new(place.to_string(), "too_many_marks", message, fix)
    };
    is_crowded(text).then(fault)
}

/// The same as `text_fault`, without the limit on marks, which came later than stored texts.
fn accepted_text_fault(place: &impl Display, text: &str, max: usize) -> Option<FieldError> {
    let fault = |code: &str, message: String, fix: String| {
        Some(FieldError::new(place.to_string(), code, message, fix))
    };
    let chars = text.chars().count();
    if is_blank(text) {
        let message = match text.chars().find(|c| c.is_control()) {
            _ if text.is_empty() => "is empty".to_owned(),
            Some(c) => format!(
                "holds the control character U+{:04X}, and nothing visible",
                u32::from(c)
            ),
            None => "holds nothing visible".to_owned(),
        };
        return fault(
            "empty",
            message,
            format!("Send 1 to {max} characters, one of them visible."),
        );
    }
    if chars > max {
        return fault(
            "too_long",
            format!("has {chars} characters; at most {max} are allowed"),
            format!("Shorten it to {max} characters."),
        );
    }
    match misplaced(text)? {
        c if c.is_control() => fault(
            "control_character",
            format!("holds the control character U+{:04X}", u32::from(c)),
            "Remove control characters, line breaks and tabs included.".to_owned(),
        ),
        c => fault(
            "hidden_character",
            format!(
                "holds U+{:04X}, which is invisible there or changes how the text around it reads",
                u32::from(c)
            ),
            "Remove it: direction marks, tags, fillers, private characters, and joiners and variation selectors that change \
             nothing before them."
                .to_owned(),
        ),
    }
}
