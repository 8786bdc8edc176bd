//! The flags of an operation, from its own declaration: the parameters of its path and query, and the fields of its body.
//! The same list tells clap what can be typed and builds the request from it.
//!
//! The operation judges the values: they are sent as they were typed.

mod declared;
mod field;

use std::path::{Path, PathBuf};

use bookguard_core::input::JsonObject;
use bookguard_core::operation::{Method, Request, Route};
use bookguard_core::session::Access;
use clap::{Arg, ArgGroup, ArgMatches, value_parser};
use serde_json::Value;

use self::field::{Field, FlagForm, ReadFlag, RequestPart};
use crate::failure::Failure;
use crate::files;

const ONCE: &str = "idempotency-key";
const JSON: &str = "json";

/// The arguments of an operation.
#[derive(Default)]
pub struct Flags {
    fields: Vec<Field>,
    /// Arguments that are not fields: the whole body as a file, and the idempotency key.
    others: Vec<Arg>,
    /// The body, if it is always the same.
    body: Option<&'static str>,
    takes_body: bool,
    needs_one: bool,
}

/// Changes that a command makes to its flags. Each method names a field as the request does.
impl Flags {
    /// Renames the field's flag.
    pub(in crate::commands) fn name(&mut self, name: &str, flag: &str) -> &mut Self {
        let at = self.position(name);
        self.change(at, |field| field.called(flag));
        if self.has_opposite(at) {
            self.change(at + 1, |field| field.called(&format!("no-{flag}")));
        }
        self
    }

    /// Replaces the field's help text.
    pub(in crate::commands) fn says(&mut self, name: &str, about: &'static str) -> &mut Self {
        self.change(self.position(name), |field| {
            field.map(|arg| arg.help(about))
        })
    }

    /// Sets the name of the field's value in the help.
    pub(in crate::commands) fn takes(&mut self, name: &str, value: &'static str) -> &mut Self {
        self.change(self.position(name), |field| {
            field.map(|arg| arg.value_name(value))
        })
    }

    /// Makes the field a positional argument.
    pub(in crate::commands) fn positional(&mut self, name: &str) -> &mut Self {
        self.change(self.position(name), |field| field.map(|arg| arg.long(None)))
    }

    /// Remove the field.
    pub(in crate::commands) fn without(&mut self, name: &str) -> &mut Self {
        self.fields.retain(|field| field.name != name);
        self
    }

    /// Takes no idempotency key, because repeating changes nothing.
    pub(in crate::commands) fn without_once(&mut self) -> &mut Self {
        self.others.retain(|arg| arg.get_id() != ONCE);
        self
    }

    /// Names the flag that sets the field, or one of its pairs, to null or false.
    pub(in crate::commands) fn opposite(
        &mut self,
        name: &str,
        flag: &str,
        about: &str,
    ) -> &mut Self {
        let at = self.without_opposite(name);
        let form = match self.fields[at].form {
            FlagForm::Says(_) => FlagForm::Says("false"),
            FlagForm::Pairs => FlagForm::Nulls,
            _ => FlagForm::Says("null"),
        };
        let field = Field::new(RequestPart::Body, name, about, form).called(flag);
        self.fields.insert(at + 1, field);
        self
    }

    /// Lets the field be typed in its own form, which `read` turns into JSON.
    pub(in crate::commands) fn read(
        &mut self,
        name: &str,
        about: &'static str,
        read: ReadFlag,
    ) -> &mut Self {
        let at = self.without_opposite(name);
        self.fields[at].form = FlagForm::Read(read);
        self.says(name, about)
    }

    /// The position of a field, after removing its opposite.
    fn without_opposite(&mut self, name: &str) -> usize {
        let at = self.position(name);
        if self.has_opposite(at) {
            self.fields.remove(at + 1);
        }
        at
    }

    fn has_opposite(&self, at: usize) -> bool {
        let next = self.fields.get(at + 1);
        next.is_some_and(|next| next.name == self.fields[at].name)
    }

    /// Allows the command without any field of the body; it then only shows.
    pub(in crate::commands) fn may_change_nothing(&mut self) -> &mut Self {
        self.needs_one = false;
        self
    }

    /// Allows the whole body to come from a file instead.
    pub(in crate::commands) fn or_json(&mut self) {
        let mut ids = Vec::new();
        let of_body = |field: &&mut Field| field.place == RequestPart::Body;
        for Field { arg, .. } in self.fields.iter_mut().filter(of_body) {
            ids.push(arg.get_id().clone());
            if arg.is_required_set() {
                *arg = arg.clone().required(false).required_unless_present(JSON);
            }
        }
        let about =
            "The whole body as JSON, from a file or from standard input (-), instead of the flags";
        self.others.push(json_file(about).conflicts_with_all(ids));
    }

    /// Takes the whole body from a file.
    pub(in crate::commands) fn json(&mut self) {
        self.fields.retain(|field| field.place != RequestPart::Body);
        self.others
            .push(json_file("The JSON, a file or standard input (-)").required(true));
    }

    /// Always sends this body.
    pub(in crate::commands) fn sends(&mut self, body: &'static str) {
        self.fields.retain(|field| field.place != RequestPart::Body);
        self.body = Some(body);
    }

    fn position(&self, name: &str) -> usize {
        let found = self.fields.iter().position(|field| field.name == name);
        found.expect("a test makes every command as it is declared")
    }

    fn change(&mut self, at: usize, change: impl FnOnce(Field) -> Field) -> &mut Self {
        let field = self.fields.remove(at);
        self.fields.insert(at, change(field));
        self
    }

    fn of_body(&self) -> impl Iterator<Item = &Field> {
        let fields = self.fields.iter();
        fields.filter(|field| field.place == RequestPart::Body)
    }
}

impl Flags {
    /// The flags of an operation's route.
    pub(super) fn of(route: &Route) -> Self {
        let about = "Make repeating safe: the same key within 24 hours changes nothing and answers the same";
        let once = Arg::new(ONCE).long(ONCE).value_name("KEY").help(about);
        let is_once = route.method == Method::Post && route.access != Access::Database;
        Self {
            fields: declared::fields(route),
            others: is_once.then_some(once).into_iter().collect(),
            body: None,
            takes_body: route.body.declaration().is_some(),
            needs_one: route.method == Method::Patch,
        }
    }

    /// The arguments, as clap knows them.
    pub(super) fn shape(&self, command: clap::Command) -> clap::Command {
        let mut command = command;
        for (at, field) in self.fields.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &self.fields[at]);
            let before = before.filter(|before| before.name == field.name);
            let exclusive = before.filter(|_| !matches!(field.form, FlagForm::Nulls));
            let arg = self.helped(&field.arg);
            command = command.arg(match exclusive {
                Some(before) => arg.conflicts_with(before.arg.get_id()),
                None => arg,
            });
        }
        let changes: Vec<_> = self.of_body().map(|field| field.arg.get_id()).collect();
        if self.needs_one && !changes.is_empty() {
            let group = ArgGroup::new("change").args(changes);
            command = command.group(group.required(true).multiple(true));
        }
        command.args(self.others.clone())
    }

    /// The argument, whose help names flags instead of the request's fields. Other names, such as those of answers, stay.
    fn helped(&self, arg: &Arg) -> Arg {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let parts = help.split('`').enumerate();
        let parts = parts.map(|(index, part)| {
            let field = self.fields.iter().find(|field| field.name == part);
            match field.filter(|_| index % 2 == 1) {
                Some(field) => field.shown(),
                None => part.to_owned(),
            }
        });
        arg.clone().help(parts.collect::<String>())
    }

    /// Builds the request from what was typed.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a file that cannot be read, and a value that cannot be sent.
    pub(super) fn request(&self, matches: &ArgMatches) -> Result<Request, Failure> {
        let mut request = Request::default();
        for field in &self.fields {
            match field.place {
                RequestPart::Path => request.path.extend(field.typed(matches).map(str::to_owned)),
                RequestPart::Query => add(&mut request, &field.name, field.in_query(matches)?),
                RequestPart::Body => {}
            }
        }
        let file = matches.try_get_one::<PathBuf>(JSON).ok().flatten();
        request.body = match (self.body, file) {
            (Some(body), _) => body.as_bytes().to_vec(),
            (None, Some(file)) => files::json(file)?,
            (None, None) if self.takes_body => self.members(matches)?.to_string().into_bytes(),
            (None, None) => Vec::new(),
        };
        let once = matches.try_get_one::<String>(ONCE).ok().flatten();
        request.idempotency_key = once.cloned();
        Ok(request)
    }

    /// The flag of what a pointer names in the request; `None` if no flag stands for it, or the body came from a file.
    pub(super) fn typed_at(&self, pointer: &str, matches: &ArgMatches) -> Option<String> {
        if pointer.eq_ignore_ascii_case(ONCE) {
            return Some(format!("--{ONCE}"));
        }
        let file = matches.try_get_one::<PathBuf>(JSON).ok().flatten();
        if let Some(name) = pointer.strip_prefix('?') {
            // A preview asks with parameters that are called as the members of the body are.
            let query = self.fields.iter().filter(|f| f.place == RequestPart::Query);
            let body = self.of_body().filter(|_| file.is_none());
            let mut fields = query.chain(body);
            return fields.find(|field| field.name == name).map(Field::shown);
        }
        let path = pointer.strip_prefix('/').filter(|_| file.is_none())?;
        let path = path.replace('/', ".");
        self.of_body().find_map(|field| {
            let within = path.strip_prefix(&field.name)?;
            match within.strip_prefix('.') {
                None => within.is_empty().then(|| field.shown()),
                Some(within) => Some(format!("{} {}", field.shown(), field.part(within))),
            }
        })
    }

    /// The file whose name was typed in the place of an id, and the name of that id.
    pub(super) fn file_as_id<'m>(&self, matches: &'m ArgMatches) -> Option<(&'m str, &str)> {
        let fields = self.fields.iter();
        let mut places = fields.filter(|field| field.place == RequestPart::Path);
        places.find_map(|field| {
            let typed = field.typed(matches)?;
            Path::new(typed).is_file().then_some((typed, &*field.name))
        })
    }

    /// Whether the command takes an idempotency key.
    pub(super) fn takes_once(&self) -> bool {
        self.others.iter().any(|arg| arg.get_id() == ONCE)
    }

    /// What to type for these ids of the path, which may be placeholders, and this body. `None` if it cannot be typed.
    pub(super) fn typed_for(&self, ids: &[&str], body: Option<&Value>) -> Option<Vec<String>> {
        let fields = self.fields.iter();
        let places = fields.filter(|field| field.place == RequestPart::Path);
        let mut typed: Vec<String> = ids
            .iter()
            .zip(places)
            .map(|(id, place)| match id.starts_with('{') {
                true => place.shown(),
                false => (*id).to_owned(),
            })
            .collect();
        let always: Option<Value> = self.body.and_then(|body| serde_json::from_str(body).ok());
        match (body, &always) {
            (None, None) => {}
            (Some(body), Some(always)) if body == always => {}
            (Some(body), None) => {
                for (name, value) in body.as_object()? {
                    let value = value.to_string();
                    let mut fields = self.of_body().filter(|field| field.name == *name);
                    let says = |field: &&Field| matches!(field.form, FlagForm::Says(word) if word == value);
                    typed.push(fields.find(says)?.shown());
                }
            }
            _ => return None,
        }
        Some(typed)
    }

    /// Builds the body from what was typed.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(super) fn members(&self, matches: &ArgMatches) -> Result<JsonObject, Failure> {
        let mut members = JsonObject::default();
        for field in self.of_body() {
            field.put(matches, &mut members)?;
        }
        Ok(members)
    }
}

fn json_file(about: &'static str) -> Arg {
    let arg = Arg::new(JSON).long(JSON).value_name("FILE|-").help(about);
    arg.value_parser(value_parser!(PathBuf))
}

/// Adds a parameter to the query, if there is one.
pub(in crate::commands) fn add(request: &mut Request, name: &str, value: Option<String>) {
    let pair = value.map(|value| (name.to_owned(), value));
    request.query.extend(pair);
}

#[cfg(test)]
mod tests;
