//! The flags of an operation, from its own declaration: the parameters of its path and query, the fields of its body. The same
//! list gives clap what can be typed, and makes the request of what was typed.
//!
//! What a value may be is the operation's to say: it goes out as it was typed. Invariant: no number passes through a float.

use std::path::{Path, PathBuf};

use bookguard_core::input::{Declaration, Node};
use bookguard_core::operation::{Body, Method, QueryForm, Request, Route};
use bookguard_core::policy::POLICY_SCHEMA;
use bookguard_core::session::Access;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, value_parser};
use serde_json::value::RawValue;

use super::members::{Members, text};
use crate::failure::Failure;
use crate::files::{self, REQUEST_BYTES};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const JSON: &str = "json";
const SCHEMAS: &str = "#/components/schemas/";

/// What can be typed for an operation.
#[derive(Default)]
pub(in crate::commands) struct Flags {
    fields: Vec<Field>,
    method: Option<Method>,
    takes_body: bool,
    is_once: bool,
    whole: Whole,
}

/// The whole body at once, as JSON.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Whole {
    #[default]
    Never,
    /// From a file, instead of the flags.
    Instead,
    /// From a file, always.
    Always,
    /// The same each time.
    Fixed(&'static str),
}

/// One value of a request.
pub(in crate::commands) struct Field {
    place: Place,
    /// Its name there; of a member within a member, both.
    name: String,
    flag: String,
    about: String,
    form: Form,
    required: bool,
    positional: bool,
    /// The flag that says null or false, and what it is about.
    negative: Option<(String, String)>,
    read: Option<Read>,
}

/// Reads what was typed in a form of its own: the JSON it stands for, or why not.
type Read = fn(&str) -> Result<String, String>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Query,
    Body,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Time,
    Number,
    Whole,
    Switch,
    List,
    Pairs,
    /// JSON in a file.
    File,
}

impl Flags {
    /// Those of an operation's route.
    pub(super) fn of(route: &Route) -> Self {
        let mut fields: Vec<Field> = route.parameters().map(of_path).collect();
        fields.extend(route.query.iter().map(|parameter| {
            let form = match parameter.form {
                QueryForm::Flag => Form::Switch,
                QueryForm::Instant => Form::Time,
                QueryForm::Decimal | QueryForm::Whole(..) => Form::Number,
                _ => Form::Text,
            };
            Field::new(Place::Query, parameter.name, parameter.description, form)
        }));
        fields.extend(route.body.declaration().map(of_body).unwrap_or_default());
        let mut flags = Self {
            fields,
            method: Some(route.method),
            takes_body: !matches!(route.body, Body::None),
            is_once: route.method == Method::Post && route.access != Access::Administrator,
            whole: Whole::Never,
        };
        flags.say_flags();
        flags
    }

    /// Texts name fields as the interface does; here they are flags.
    fn say_flags(&mut self) {
        let names: Vec<_> = (self.fields.iter())
            .map(|field| (format!("`{}`", field.name), format!("--{}", field.flag)))
            .collect();
        for field in &mut self.fields {
            for (name, flag) in &names {
                field.about = field.about.replace(name, flag);
            }
            field.about = field.about.replace('`', "");
        }
    }

    /// A field by its name in the request.
    fn field(&mut self, name: &str) -> &mut Field {
        let field = self.fields.iter_mut().find(|field| field.name == name);
        field.expect("a test declares every command")
    }

    /// The flag is called so.
    pub(in crate::commands) fn name(&mut self, name: &str, flag: &str) -> &mut Self {
        let field = self.field(name);
        if let Some((negative, _)) = &mut field.negative {
            *negative = format!("no-{flag}");
        }
        flag.clone_into(&mut field.flag);
        self
    }

    /// It is about something else than its declaration says.
    pub(in crate::commands) fn says(&mut self, name: &str, about: &str) -> &mut Self {
        about.clone_into(&mut self.field(name).about);
        self
    }

    /// It is not a flag, but stands by itself.
    pub(in crate::commands) fn positional(&mut self, name: &str) -> &mut Self {
        self.field(name).positional = true;
        self
    }

    /// It cannot be typed.
    pub(in crate::commands) fn without(&mut self, name: &str) -> &mut Self {
        self.fields.retain(|field| field.name != name);
        self
    }

    /// The flag that says null or false is called so.
    pub(in crate::commands) fn negative(
        &mut self,
        name: &str,
        flag: &str,
        about: &str,
    ) -> &mut Self {
        self.field(name).negative = Some((flag.to_owned(), about.to_owned()));
        self
    }

    /// It is typed in a form of its own that stands for JSON.
    pub(in crate::commands) fn read(&mut self, name: &str, about: &str, read: Read) -> &mut Self {
        let field = self.field(name);
        (field.read, field.negative) = (Some(read), None);
        about.clone_into(&mut field.about);
        self
    }

    /// The whole body may come from a file instead.
    pub(in crate::commands) fn or_json(&mut self) {
        self.whole = Whole::Instead;
    }

    /// The whole body comes from a file.
    pub(in crate::commands) fn json(&mut self) {
        self.whole = Whole::Always;
        self.fields.retain(|field| field.place != Place::Body);
    }

    /// The body is always this.
    pub(in crate::commands) fn sends(&mut self, body: &'static str) {
        self.whole = Whole::Fixed(body);
        self.fields.retain(|field| field.place != Place::Body);
    }

    /// What can be typed, as clap knows it.
    pub(super) fn shape(&self, command: clap::Command) -> clap::Command {
        let of_body = || {
            self.fields
                .iter()
                .filter(|field| field.place == Place::Body)
        };
        let or_json = self.whole == Whole::Instead;
        let mut command = command;
        if matches!(self.whole, Whole::Instead | Whole::Always) {
            let about = match or_json {
                true => {
                    "The whole body as JSON, from a file or from standard input (-), instead of the flags"
                }
                false => "The JSON, a file or standard input (-)",
            };
            let arg = Arg::new(JSON).long(JSON).value_name("FILE|-").help(about);
            let arg = arg.value_parser(value_parser!(PathBuf)).required(!or_json);
            command =
                command.arg(arg.conflicts_with_all(of_body().map(|field| field.flag.clone())));
        }
        for field in &self.fields {
            command = command.args(field.args(or_json));
        }
        let changes = of_body().flat_map(Field::ids).collect::<Vec<_>>();
        if self.method == Some(Method::Patch) && !changes.is_empty() {
            let group = ArgGroup::new("change").args(changes);
            command = command.group(group.required(true).multiple(true));
        }
        if self.is_once {
            let about = "Make repeating safe: the same key within 24 hours changes nothing and answers the same";
            let key = Arg::new(IDEMPOTENCY_KEY).long(IDEMPOTENCY_KEY).help(about);
            command = command.arg(key.value_name("KEY"));
        }
        command
    }

    /// The request that was typed.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a file that cannot be read, and a value that cannot be sent.
    pub(super) fn request(&self, matches: &ArgMatches) -> Result<Request, Failure> {
        let mut request = Request::default();
        for field in &self.fields {
            match field.place {
                Place::Path => request.path.extend(field.typed(matches).map(str::to_owned)),
                Place::Query => add(&mut request, &field.name, field.in_query(matches)),
                Place::Body => {}
            }
        }
        let file = match self.whole {
            Whole::Never | Whole::Fixed(_) => None,
            Whole::Instead | Whole::Always => matches.get_one::<PathBuf>(JSON),
        };
        request.body = match (self.whole, file) {
            (Whole::Fixed(body), _) => body.as_bytes().to_vec(),
            (_, Some(file)) => files::bytes(file, REQUEST_BYTES)?,
            _ if self.takes_body => self.members(matches)?.to_string().into_bytes(),
            _ => Vec::new(),
        };
        if self.is_once {
            request.idempotency_key = matches.get_one::<String>(IDEMPOTENCY_KEY).cloned();
        }
        Ok(request)
    }

    /// The body that was typed.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(super) fn members(&self, matches: &ArgMatches) -> Result<Members, Failure> {
        let mut members = Members::default();
        for field in self
            .fields
            .iter()
            .filter(|field| field.place == Place::Body)
        {
            members.put(&field.name, field.in_body(matches)?);
        }
        Ok(members)
    }
}

impl Field {
    fn new(place: Place, name: &str, about: &str, form: Form) -> Self {
        let about = about.trim_start_matches("true: ").trim_end_matches('.');
        Self {
            place,
            name: name.to_owned(),
            flag: kebab(name),
            about: capital(about),
            form,
            required: false,
            positional: false,
            negative: None,
            read: None,
        }
    }

    /// The flags of which one may stand: the value's, and the one that takes it away.
    fn ids(&self) -> impl Iterator<Item = String> {
        let negative = self.negative.iter().map(|(flag, _)| flag.clone());
        std::iter::once(self.flag.clone()).chain(negative)
    }

    fn args(&self, or_json: bool) -> Vec<Arg> {
        let mut arg = Arg::new(self.flag.clone()).help(self.about.clone());
        arg = match self.positional {
            true => arg.value_name(upper(&self.flag)),
            false => arg.long(self.flag.clone()).value_name(match self.form {
                Form::Time => "TIME".to_owned(),
                Form::Number => "AMOUNT".to_owned(),
                Form::Whole => "N".to_owned(),
                Form::Pairs => "KEY=VALUE".to_owned(),
                Form::File => "FILE".to_owned(),
                Form::Text | Form::Switch | Form::List => upper(&self.flag),
            }),
        };
        arg = match self.form {
            Form::Switch => arg.action(ArgAction::SetTrue),
            Form::List => arg.action(ArgAction::Append).value_delimiter(','),
            Form::Pairs => arg.action(ArgAction::Append),
            Form::File => arg.value_parser(value_parser!(PathBuf)),
            Form::Number | Form::Whole => arg.allow_negative_numbers(true),
            Form::Text | Form::Time => arg,
        };
        arg = match (self.required, or_json && self.place == Place::Body) {
            (true, true) => arg.required_unless_present(JSON),
            (required, _) => arg.required(required),
        };
        let Some((flag, about)) = &self.negative else {
            return vec![arg];
        };
        let negative = Arg::new(flag.clone())
            .long(flag.clone())
            .help(about.clone());
        if self.form == Form::Pairs {
            let name = upper(&self.flag);
            return vec![arg, negative.action(ArgAction::Append).value_name(name)];
        }
        let negative = negative.action(ArgAction::SetTrue);
        vec![arg, negative.conflicts_with(self.flag.clone())]
    }

    fn typed<'m>(&self, matches: &'m ArgMatches) -> Option<&'m str> {
        matches.get_one::<String>(&self.flag).map(String::as_str)
    }

    fn in_query(&self, matches: &ArgMatches) -> Option<String> {
        match self.form {
            Form::Switch => matches.get_flag(&self.flag).then(|| "true".to_owned()),
            _ => self.typed(matches).map(str::to_owned),
        }
    }

    /// The JSON of what was typed, if it was.
    fn in_body(&self, matches: &ArgMatches) -> Result<Option<String>, Failure> {
        let flag = format!("--{}", self.flag);
        let all = |flag: &str| matches.get_many::<String>(flag).into_iter().flatten();
        if let Some((negative, _)) = &self.negative
            && self.form != Form::Pairs
            && matches.get_flag(negative)
        {
            let nothing = if self.form == Form::Switch {
                "false"
            } else {
                "null"
            };
            return Ok(Some(nothing.to_owned()));
        }
        let typed = match self.form {
            Form::Switch => return Ok(matches.get_flag(&self.flag).then(|| "true".to_owned())),
            Form::List => {
                let words: Vec<String> = all(&self.flag).map(|word| text(word)).collect();
                return Ok((!words.is_empty()).then(|| format!("[{}]", words.join(","))));
            }
            Form::Pairs => {
                let negative = self
                    .negative
                    .as_ref()
                    .map(|(negative, _)| negative.as_str());
                return pairs(&flag, all(&self.flag), negative, negative.map(all));
            }
            Form::File => {
                let file = matches.get_one::<PathBuf>(&self.flag);
                return file.map(|file| json(file)).transpose();
            }
            _ => self.typed(matches),
        };
        let Some(typed) = typed else { return Ok(None) };
        if let Some(read) = self.read {
            let json = read(typed).map_err(|why| Failure::Usage(format!("{flag}: {why}")));
            return json.map(Some);
        }
        match self.form {
            Form::Number => digits(&flag, typed).map(Some),
            Form::Whole => match typed.parse::<i64>() {
                Ok(number) => Ok(Some(number.to_string())),
                Err(_) => Err(Failure::Usage(format!(
                    "{flag} is \"{typed}\"; it must be a whole number"
                ))),
            },
            _ => Ok(Some(text(typed))),
        }
    }
}

fn of_path(name: &'static str) -> Field {
    let noun = kebab(name.trim_end_matches("Id")).replace('-', " ");
    let mut field = Field::new(Place::Path, name, &format!("The {noun}'s id"), Form::Text);
    (field.required, field.positional) = (true, true);
    field
}

fn of_body(body: &Declaration) -> Vec<Field> {
    let schemas = body.schemas();
    let mut fields = Vec::new();
    if let Some((_, own)) = schemas.first() {
        members(own, &schemas, None, &mut fields);
    }
    fields
}

/// The fields of an object's members; those of an object within it too.
fn members(
    object: &Node,
    named: &[(String, Node)],
    within: Option<&Field>,
    fields: &mut Vec<Field>,
) {
    let required = words(object.get("required"));
    for (name, member) in object
        .get("properties")
        .map(Node::members)
        .unwrap_or_default()
    {
        let reference = member.get("$ref").and_then(Node::as_str);
        let reference = reference.map(|path| path.trim_start_matches(SCHEMAS));
        let found = named
            .iter()
            .find(|(known, _)| Some(known.as_str()) == reference);
        let schema = found.map_or(member, |(_, schema)| schema);
        let about = member
            .get("description")
            .and_then(Node::as_str)
            .unwrap_or_default();
        let form = match reference {
            Some(POLICY_SCHEMA) => Form::File,
            _ => form(schema),
        };
        let mut field = match within {
            None => Field::new(Place::Body, name, about, form),
            Some(outer) => {
                let name = format!("{}.{name}", outer.name);
                Field::new(
                    Place::Body,
                    &name,
                    &format!(
                        "{}: {}",
                        outer.about,
                        kebab(name.rsplit('.').next().unwrap_or_default())
                    ),
                    form,
                )
            }
        };
        field.required =
            required.contains(&name.as_str()) && within.is_none_or(|outer| outer.required);
        if found.is_some() && schema.get("properties").is_some() {
            members(schema, named, Some(&field), fields);
            continue;
        }
        field.say_more(schema);
        fields.push(field);
    }
}

impl Field {
    /// Its words and limits, and what null does.
    fn say_more(&mut self, schema: &Node) {
        let choices = schema.get("items").unwrap_or(schema);
        let choices = words(choices.get("enum"));
        if choices
            .first()
            .is_some_and(|first| !self.about.contains(first))
        {
            self.about = format!("{}: {}", self.about, choices.join(", "));
        }
        if self.form == Form::Whole
            && let (Some(least), Some(most)) = (schema.get("minimum"), schema.get("maximum"))
        {
            self.about = format!("{}; {least} to {most}", self.about);
        }
        if let Some(default) = schema.get("default") {
            self.about = format!("{} [default: {default}]", self.about);
        }
        if matches!(self.form, Form::List | Form::Pairs) {
            self.about.push_str("; may be given several times");
        }
        let kinds = |schema: &Node| words(schema.get("type")).contains(&"null");
        let pairs = schema.get("additionalProperties").is_some_and(kinds);
        if kinds(schema) || pairs {
            let (about, null) = match self.about.split_once("; null ") {
                Some((about, null)) => (about.to_owned(), capital(null.trim_start_matches("for "))),
                None => (self.about.clone(), format!("No {}", self.flag)),
            };
            (self.about, self.negative) = (about, Some((format!("no-{}", self.flag), null)));
        }
    }
}

fn form(schema: &Node) -> Form {
    let is = |kind: &str| {
        let ty = schema.get("type");
        words(ty).contains(&kind) || ty.and_then(Node::as_str) == Some(kind)
    };
    let format = schema.get("format").and_then(Node::as_str);
    match () {
        () if is("boolean") => Form::Switch,
        () if is("integer") => Form::Whole,
        () if is("number") => Form::Number,
        () if is("array") => Form::List,
        () if is("object") => Form::Pairs,
        () if format == Some("date-time") => Form::Time,
        () => Form::Text,
    }
}

fn words(list: Option<&Node>) -> Vec<&str> {
    match list {
        Some(Node::Array(items)) => items.iter().filter_map(Node::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Adds a parameter to the query, if there is one.
pub(in crate::commands) fn add(request: &mut Request, name: &str, value: Option<String>) {
    let pair = value.map(|value| (name.to_owned(), value));
    request.query.extend(pair);
}

/// A number exactly as it was typed.
///
/// # Errors
/// [`Failure::Usage`] for what is not a number.
pub(in crate::commands) fn digits(flag: &str, text: &str) -> Result<String, Failure> {
    let number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let json = number.then(|| RawValue::from_string(text.to_owned()).ok());
    json.flatten()
        .map(|json| json.get().to_owned())
        .ok_or_else(|| {
            Failure::Usage(format!(
                "{flag} is \"{text}\", which is not a number; write it like 1200 or 1200.50"
            ))
        })
}

/// JSON in a file, exactly as it is there.
fn json(file: &Path) -> Result<String, Failure> {
    let text = files::text(file, REQUEST_BYTES)?;
    let json = RawValue::from_string(text)
        .map_err(|e| Failure::Usage(format!("{} is not JSON: {e}", file.display())))?;
    Ok(json.get().to_owned())
}

/// An object of `KEY=VALUE` pairs, and of the keys that are taken away.
fn pairs<'a>(
    flag: &str,
    typed: impl Iterator<Item = &'a String>,
    negative: Option<&str>,
    taken: Option<impl Iterator<Item = &'a String>>,
) -> Result<Option<String>, Failure> {
    let mut pairs = Members::default();
    let mut put = |key: &str, json: String| {
        if pairs.has(key) {
            let flags = negative.map_or_else(
                || format!("{flag} names"),
                |other| format!("{flag} or --{other} names"),
            );
            return Err(Failure::Usage(format!(
                "{flags} \"{key}\" twice; give every key once"
            )));
        }
        pairs.push(key, json);
        Ok(())
    };
    for pair in typed {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::Usage(format!("{flag} is \"{pair}\"; write it like KEY=VALUE"))
        })?;
        put(key, text(value))?;
    }
    for key in taken.into_iter().flatten() {
        put(key, "null".to_owned())?;
    }
    Ok((!pairs.is_empty()).then(|| pairs.to_string()))
}

/// `eventDate` as `event-date`.
fn kebab(name: &str) -> String {
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

/// `event-date` as `EVENT_DATE`.
fn upper(flag: &str) -> String {
    flag.replace('-', "_").to_ascii_uppercase()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
