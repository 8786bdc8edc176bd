//! The fields of one object, each bound by name.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::describe::Draft;
use super::value::Value;
use super::{Path, nearest};
use crate::error::FieldError;
use crate::limits::FAULTS;

/// The fields of one object while they are read.
pub struct Form<'a, 'f> {
    path: &'f Path<'f>,
    fields: Fields<'a>,
    known: Vec<&'static str>,
    faults: &'f mut Vec<FieldError>,
    /// See [`Value`].
    pub(super) draft: Option<&'f mut Draft>,
}

impl<'a, 'f> Form<'a, 'f> {
    pub(super) fn new(value: &'f mut Value<'a, '_>, fields: Fields<'a>) -> Self {
        Self {
            path: value.path,
            fields,
            known: Vec::with_capacity(12),
            faults: value.faults,
            draft: value.draft.as_deref_mut(),
        }
    }

    /// The value at a path within the object, or at the object's own path.
    fn value<'s>(&'s mut self, path: &'s Path<'s>, raw: &'a str) -> Value<'a, 's> {
        Value {
            raw,
            path,
            faults: self.faults,
            draft: self.draft.as_deref_mut(),
        }
    }

    /// Reads a required field. `None` means that a fault was recorded.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        if let Some(draft) = &mut self.draft {
            return draft.field(name, true, read);
        }
        self.known.push(name);
        if !self.has(name) {
            self.fault_at(
                name,
                "missing_field",
                "is required and missing",
                format!("Add \"{name}\"."),
            );
            return None;
        }
        self.take(name, true, read)
    }

    /// Reads an optional field. `None` means that it was absent, or a fault was recorded. `null` is a fault.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        if let Some(draft) = &mut self.draft {
            return draft.field(name, false, read);
        }
        self.known.push(name);
        self.take(name, false, read)
    }

    /// Reads an optional field that may also be null, which gives `Some(None)`.
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

    /// Reads a field of any name, without adding the name to the known ones.
    fn take<T>(
        &mut self,
        name: &str,
        is_required: bool,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.take_as_it_is(name, |value| match value.raw {
            "null" => {
                let fix = match is_required {
                    true => "Send a value.".to_owned(),
                    false => format!("Send a value, or leave \"{name}\" out."),
                };
                value.fault("null", "is null", fix)
            }
            _ => read(value),
        })
    }

    /// Does the same as [`Self::take`], null included.
    pub(super) fn take_as_it_is<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        let mut first = None;
        // A name that occurs twice is a fault of its own; its first value is read.
        for field in self.fields.0.iter_mut().filter(|field| field.name == name) {
            field.taken = true;
            first = first.or(Some(field.raw));
        }
        let raw = first?.get();
        read(&mut self.value(&Path::Field(self.path, name), raw))
    }

    /// Reads a required field that is an object.
    pub fn required_object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Form<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.required(name, |v| v.object(read))
    }

    /// Reads an optional field that is an object.
    pub fn optional_object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Form<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.optional(name, |v| v.object(read))
    }

    /// Whether the object has this field.
    pub fn has(&self, name: &str) -> bool {
        self.fields.0.iter().any(|field| field.name == name)
    }

    /// Whether the object has no field at all, not even an unknown one.
    pub fn is_empty(&self) -> bool {
        self.fields.0.is_empty()
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
        self.value(&path, "").fault::<()>(code, message, fix);
    }

    /// Records a fault at the object itself. Always `None`.
    pub fn fault_here<T>(
        &mut self,
        code: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Option<T> {
        self.value(self.path, "").fault(code, message, fix)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let names = self.fields.0.iter().map(|field| field.name.to_string());
        names.collect()
    }

    /// Drops all fields unread.
    pub(super) fn clear(&mut self) {
        self.fields.0.clear();
    }

    pub(super) fn refuse_duplicates(&mut self) {
        let mut names: Vec<&str> = self.fields.0.iter().map(|field| &*field.name).collect();
        names.sort_unstable();
        let twice = names.windows(2).filter(|pair| pair[0] == pair[1]);
        let twice: BTreeSet<String> = twice.map(|pair| pair[0].to_owned()).collect();
        for name in twice {
            self.fault_at(
                &name,
                "duplicate_key",
                "appears more than once",
                "Send each field once.",
            );
        }
    }

    pub(super) fn refuse_unknown(&mut self) {
        // A repeated name is already a fault; its first field stands for all.
        let unknown: BTreeSet<String> = self
            .fields
            .0
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

/// One field of an object, and whether it has been read.
struct Field<'a> {
    name: Cow<'a, str>,
    raw: &'a RawValue,
    taken: bool,
}

/// The fields of an object in order, including repeated names.
#[derive(Default)]
pub(super) struct Fields<'a>(Vec<Field<'a>>);

/// A field name, borrowed from the body unless it contains escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

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
                while let Some((Name(name), raw)) = map.next_entry()? {
                    fields.push(Field {
                        name,
                        raw,
                        taken: false,
                    });
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(All)
    }
}
