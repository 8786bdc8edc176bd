//! A field of a form, and how it is filled in.

use bookguard_core::model::Timestamp;

use super::fields::local;
use crate::console::parts::words;

/// How a field is filled in.
pub(in crate::console) enum Kind<'k> {
    Text,
    Number,
    Url,
    Search,
    /// A day, which browsers offer a calendar for.
    Day,
    /// A secret, which nobody should read over a shoulder.
    Secret,
    /// A local date and time, which browsers offer a calendar and a clock for.
    Local,
    /// A date and time in UTC, for an instant: see [`Fields::in_utc`](super::Fields::in_utc).
    Utc,
    Long,
    /// One of these words, each with what people read.
    Choice(Vec<(&'k str, String)>),
    /// Any of these words, each with what people read.
    Choices(Vec<(&'k str, String)>),
}

/// These words of the interface as choices.
pub(in crate::console) fn choices<'k, T>(known: &[(&'k str, T)]) -> Vec<(&'k str, String)> {
    let known = known.iter();
    known.map(|(word, _)| (*word, words(word))).collect()
}

/// Choices with what people read of each.
pub(in crate::console) fn labelled<'k>(known: &[(&'k str, &str)]) -> Vec<(&'k str, String)> {
    let known = known.iter();
    known
        .map(|(word, label)| (*word, (*label).to_owned()))
        .collect()
}

/// A field of a form.
pub(in crate::console) struct Field<'f> {
    /// The pointer to its member.
    pub(in crate::console) name: &'f str,
    pub(in crate::console) label: &'f str,
    /// A sentence about it; may be empty.
    pub(in crate::console) about: &'f str,
    pub(in crate::console) kind: Kind<'f>,
    pub(in crate::console) required: bool,
    /// Whether it is required and shows no word of a choice at first, so that nobody answers by leaving it as it is.
    pub(in crate::console) unanswered: bool,
    /// Whether its label leaves out "(optional)", as where no field is required.
    pub(in crate::console) plain: bool,
    /// What it holds before anybody types.
    pub(in crate::console) value: &'f str,
    /// What a choice of words shows while none is chosen.
    pub(in crate::console) none: &'f str,
    /// Whether the keyboard begins here.
    pub(in crate::console) focused: bool,
}

impl<'f> Field<'f> {
    pub(in crate::console) fn new(name: &'f str, label: &'f str, kind: Kind<'f>) -> Self {
        Self {
            name,
            label,
            about: "",
            kind,
            required: false,
            unanswered: false,
            plain: false,
            value: "",
            none: "—",
            focused: false,
        }
    }

    pub(in crate::console) fn about(self, about: &'f str) -> Self {
        Self { about, ..self }
    }

    pub(in crate::console) fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    /// Like [`Self::required`], for a choice that somebody must make.
    pub(in crate::console) fn unanswered(self) -> Self {
        Self {
            unanswered: true,
            ..self.required()
        }
    }

    pub(in crate::console) fn plain(self) -> Self {
        Self {
            plain: true,
            ..self
        }
    }

    pub(in crate::console) fn value(self, value: &'f str) -> Self {
        Self { value, ..self }
    }

    pub(in crate::console) fn none(self, none: &'f str) -> Self {
        Self { none, ..self }
    }
}

impl Kind<'_> {
    /// Browsers bring back what was typed when somebody comes back to the page, unless completion is off.
    pub(super) fn completion(&self) -> Option<&'static str> {
        matches!(self, Self::Secret).then_some("off")
    }

    /// The type of the input that holds this text. Numbers are typed as text, because a browser would round them.
    pub(super) fn input(&self, text: &str) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Search => "search",
            // A browser would not show what is not a day or a time.
            Self::Local | Self::Utc if text.is_empty() || local(text).is_some() => "datetime-local",
            Self::Day
                if text.is_empty() || Timestamp::parse(&format!("{text}T00:00:00Z")).is_some() =>
            {
                "date"
            }
            Self::Secret => "password",
            _ => "text",
        }
    }

    pub(super) fn keyboard(&self) -> Option<&'static str> {
        matches!(self, Self::Number).then_some("decimal")
    }
}

/// The id of the element of a field.
pub(in crate::console) fn id_of(name: &str) -> String {
    format!("f{}", name.replace('/', "-"))
}
