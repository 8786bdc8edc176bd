//! One value of a request: its flag, and how the text typed for it becomes JSON.
//!
//! Invariant: no number passes through a float.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use bookguard_core::input::{JsonObject, quoted};
use bookguard_core::text::capital;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::files;
use crate::text::plain;

/// One value of a request.
pub(super) struct Field {
    pub(super) place: RequestPart,
    /// Its name in the request; for a nested member, the whole path.
    pub(super) name: String,
    /// Names between backticks in its help are those of the interface.
    pub(super) arg: Arg,
    pub(super) form: FlagForm,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestPart {
    Path,
    Query,
    Body,
}

/// How the typed text becomes JSON.
#[derive(Clone, Copy)]
pub(super) enum FlagForm {
    Text,
    Number,
    Whole,
    List,
    Pairs,
    /// Keys of pairs to remove, typed as a list.
    Nulls,
    /// A flag without a value that stands for this JSON.
    Says(&'static str),
    /// JSON in a file.
    File,
    /// A form of its own, read by this function.
    Read(ReadFlag),
}

/// Reads text in a form of its own into JSON, or says why it cannot.
pub(super) type ReadFlag = fn(&str) -> Result<String, String>;

impl Field {
    pub(super) fn new(place: RequestPart, name: &str, about: &str, form: FlagForm) -> Self {
        let about = about.trim_start_matches("true: ").trim_end_matches('.');
        let field = Self {
            place,
            name: name.to_owned(),
            arg: Arg::new("").help(capital(about)),
            form,
        };
        field.called(&kebab(name)).map(|arg| match form {
            FlagForm::Says(_) => arg.action(ArgAction::SetTrue),
            FlagForm::List => arg.action(ArgAction::Append).value_delimiter(','),
            FlagForm::Pairs | FlagForm::Nulls => arg.action(ArgAction::Append),
            FlagForm::File => arg.value_parser(value_parser!(PathBuf)),
            FlagForm::Number | FlagForm::Whole => arg.allow_negative_numbers(true),
            FlagForm::Text | FlagForm::Read(_) => arg,
        })
    }

    /// Lets shells offer these words, if any, where one is typed. Help has them already.
    pub(super) fn offers(self, words: &[&str]) -> Self {
        if words.is_empty() || !matches!(self.form, FlagForm::Text | FlagForm::List) {
            return self;
        }
        let offered = Offered(words.iter().map(|word| (*word).to_owned()).collect());
        self.map(|arg| arg.value_parser(offered).hide_possible_values(true))
    }

    /// Changes its argument.
    pub(super) fn map(self, change: impl FnOnce(Arg) -> Arg) -> Self {
        Self {
            arg: change(self.arg),
            ..self
        }
    }

    /// Renames its flag.
    pub(super) fn called(self, flag: &str) -> Self {
        let value = match self.form {
            FlagForm::Pairs => "KEY=VALUE".to_owned(),
            FlagForm::Nulls => "KEY".to_owned(),
            FlagForm::File => "FILE".to_owned(),
            FlagForm::Number => "AMOUNT".to_owned(),
            FlagForm::Whole => "N".to_owned(),
            _ => {
                let of_what = flag.trim_start_matches("no-");
                of_what.replace('-', "_").to_ascii_uppercase()
            }
        };
        self.map(|arg| {
            let arg = arg.id(flag.to_owned()).long(flag.to_owned());
            arg.value_name(value)
        })
    }

    /// The field as it is typed.
    pub(super) fn shown(&self) -> String {
        match self.arg.get_long() {
            Some(flag) => format!("--{flag}"),
            None => {
                let name = self.arg.get_value_names().and_then(<[_]>::first);
                format!("<{}>", name.map_or(self.id(), |name| name.as_str()))
            }
        }
    }

    /// What a pointer names within the field: one of several values counts from 1.
    pub(super) fn part(&self, within: &str) -> String {
        match (self.form, within.parse::<usize>()) {
            (FlagForm::List, Ok(place)) => format!("(value {})", place + 1),
            (FlagForm::File, _) => format!("/{}", within.replace('.', "/")),
            _ => within.to_owned(),
        }
    }

    fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    pub(super) fn typed<'m>(&self, matches: &'m ArgMatches) -> Option<&'m str> {
        matches.get_one::<String>(self.id()).map(String::as_str)
    }

    fn all<'m>(&self, matches: &'m ArgMatches) -> impl Iterator<Item = &'m String> {
        matches.get_many(self.id()).into_iter().flatten()
    }

    /// The text of a parameter of the query, if anything was typed.
    ///
    /// # Errors
    /// [`Failure::Usage`] for what is not in its own form.
    pub(super) fn in_query(&self, matches: &ArgMatches) -> Result<Option<String>, Failure> {
        match self.form {
            FlagForm::Says(word) => Ok(matches.get_flag(self.id()).then(|| word.to_owned())),
            FlagForm::Read(read) => {
                let json = self.typed(matches).map(read).transpose();
                let json = json.map_err(|why| self.misread(&why))?;
                // A query has text where a body has a string.
                Ok(json.map(|json| serde_json::from_str(&json).unwrap_or(json)))
            }
            _ => Ok(self.typed(matches).map(str::to_owned)),
        }
    }

    fn misread(&self, why: &str) -> Failure {
        Failure::Usage(format!("--{} {}", self.id(), plain(why)))
    }

    /// Puts the JSON of the typed text where it belongs, if anything was typed.
    pub(super) fn put(
        &self,
        matches: &ArgMatches,
        members: &mut JsonObject,
    ) -> Result<(), Failure> {
        let read = |read: ReadFlag| self.typed(matches).map(read).transpose();
        let json = match self.form {
            FlagForm::Text => Ok(self.typed(matches).map(quoted)),
            FlagForm::Number => read(digits),
            FlagForm::Whole => read(whole),
            FlagForm::Read(reader) => read(reader),
            FlagForm::Says(word) => Ok(matches.get_flag(self.id()).then(|| word.to_owned())),
            FlagForm::File => {
                let file = matches.get_one::<PathBuf>(self.id());
                Ok(file.map(|file| json(file)).transpose()?)
            }
            FlagForm::List => {
                let words: Vec<String> = self.all(matches).map(|word| quoted(word)).collect();
                Ok((!words.is_empty()).then(|| format!("[{}]", words.join(","))))
            }
            FlagForm::Pairs | FlagForm::Nulls => self.put_pairs(matches, members).map(|()| None),
        };
        let json = json.map_err(|why: String| self.misread(&why))?;
        members.put(&self.name, json);
        Ok(())
    }

    fn put_pairs(&self, matches: &ArgMatches, members: &mut JsonObject) -> Result<(), String> {
        for typed in self.all(matches) {
            let pair = match self.form {
                FlagForm::Nulls => Some((typed.as_str(), "null".to_owned())),
                _ => typed
                    .split_once('=')
                    .map(|(key, value)| (key, quoted(value))),
            };
            let (key, json) =
                pair.ok_or_else(|| format!("is \"{typed}\"; write it like KEY=VALUE"))?;
            if !members.put_pair(&self.name, key, json) {
                return Err(format!(
                    "names \"{key}\", which is named twice; give every key once"
                ));
            }
        }
        Ok(())
    }
}

/// Takes any text, because the operation judges it, and tells shells these words.
#[derive(Clone)]
struct Offered(Vec<String>);

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned().map(PossibleValue::new)))
    }
}

/// A number exactly as it was typed.
fn digits(typed: &str) -> Result<String, String> {
    let number = typed.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let json = number.then(|| RawValue::from_string(typed.to_owned()).ok());
    let json = json.flatten().map(|json| json.get().to_owned());
    json.ok_or_else(|| {
        format!("is \"{typed}\", which is not a number; write it like 1200 or 1200.50")
    })
}

fn whole(typed: &str) -> Result<String, String> {
    let number = typed.parse::<i64>().map(|number| number.to_string());
    number.map_err(|_| format!("is \"{typed}\"; it must be a whole number"))
}

/// JSON from a file, unchanged.
fn json(file: &Path) -> Result<String, Failure> {
    let json = serde_json::from_slice::<Box<RawValue>>(&files::json(file)?)
        .map_err(|e| Failure::Usage(format!("{} is not JSON: {e}", files::name(file))))?;
    Ok(json.get().to_owned())
}

/// Turns `eventDate` into `event-date`.
pub(super) fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        match c {
            '.' => out.push('-'),
            c if c.is_ascii_uppercase() => out.extend(['-', c.to_ascii_lowercase()]),
            c => out.push(c),
        }
    }
    out
}
