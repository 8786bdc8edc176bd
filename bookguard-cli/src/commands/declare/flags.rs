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

const ONCE: &str = "idempotency-key";
const JSON: &str = "json";
const SCHEMAS: &str = "#/components/schemas/";

/// What can be typed for an operation.
#[derive(Default)]
pub struct Flags {
    fields: Vec<Field>,
    /// What stands in no field: the whole body in a file, and the key that makes repeating harmless.
    others: Vec<Arg>,
    /// The body, where it is always the same.
    body: Option<&'static str>,
    takes_body: bool,
    needs_one: bool,
}

/// One value of a request.
struct Field {
    place: Place,
    /// Its name there; of a member within a member, both.
    name: String,
    arg: Arg,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Query,
    Body,
}

/// How what is typed becomes JSON.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Number,
    Whole,
    List,
    Pairs,
    /// Keys of pairs that are taken away.
    Nulls,
    /// A flag that says this.
    Says(&'static str),
    /// JSON in a file.
    File,
    /// Whatever its reader makes of it.
    Read(Read),
}

/// Reads what was typed in a form of its own: the JSON it stands for, or why not.
type Read = fn(&str) -> Result<String, String>;

/// What a declaration of a command changes; each names a field as the request does.
impl Flags {
    /// The flag is called so.
    pub(in crate::commands) fn name(&mut self, name: &str, flag: &str) -> &mut Self {
        self.change(name, |arg| called(arg, flag));
        let mut named = self.fields.iter_mut().filter(|field| field.name == name);
        let opposite = named.nth(1);
        if let Some(opposite) = opposite {
            opposite.arg = called(opposite.arg.clone(), &format!("no-{flag}"));
        }
        self
    }

    /// It is about something else than its declaration says.
    pub(in crate::commands) fn says(&mut self, name: &str, about: &'static str) -> &mut Self {
        self.change(name, |arg| arg.help(about))
    }

    /// It is not a flag, but stands by itself.
    pub(in crate::commands) fn positional(&mut self, name: &str) -> &mut Self {
        self.change(name, |arg| arg.long(None))
    }

    /// It cannot be typed.
    pub(in crate::commands) fn without(&mut self, name: &str) -> &mut Self {
        self.fields.retain(|field| field.name != name);
        self
    }

    /// The flag that says null or false is called so.
    pub(in crate::commands) fn opposite(
        &mut self,
        name: &str,
        flag: &str,
        about: &str,
    ) -> &mut Self {
        let at = self.without_opposite(name);
        let form = match self.fields[at].form {
            Form::Says(_) => Form::Says("false"),
            _ => Form::Says("null"),
        };
        let mut field = Field::new(Place::Body, name, about, form);
        field.arg = called(field.arg, flag);
        self.fields.insert(at + 1, field);
        self
    }

    /// It is typed in a form of its own that stands for JSON.
    pub(in crate::commands) fn read(
        &mut self,
        name: &str,
        about: &'static str,
        read: Read,
    ) -> &mut Self {
        let at = self.without_opposite(name);
        self.fields[at].form = Form::Read(read);
        self.says(name, about)
    }

    /// Where a field is, once it is the only one of its name.
    fn without_opposite(&mut self, name: &str) -> usize {
        let at = self.position(name);
        let is_opposite = |field: &Field| field.name == name;
        if self.fields.get(at + 1).is_some_and(is_opposite) {
            self.fields.remove(at + 1);
        }
        at
    }

    /// Nothing need be typed of the body: then it only shows.
    pub(in crate::commands) fn may_change_nothing(&mut self) -> &mut Self {
        self.needs_one = false;
        self
    }

    /// The whole body may come from a file instead.
    pub(in crate::commands) fn or_json(&mut self) {
        let mut ids = Vec::new();
        let of_body = |field: &&mut Field| field.place == Place::Body;
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

    /// The whole body comes from a file.
    pub(in crate::commands) fn json(&mut self) {
        self.fields.retain(|field| field.place != Place::Body);
        self.others
            .push(json_file("The JSON, a file or standard input (-)").required(true));
    }

    /// The body is always this.
    pub(in crate::commands) fn sends(&mut self, body: &'static str) {
        self.fields.retain(|field| field.place != Place::Body);
        self.body = Some(body);
    }

    fn position(&self, name: &str) -> usize {
        let found = self.fields.iter().position(|field| field.name == name);
        found.expect("a test makes every command as it is declared")
    }

    fn change(&mut self, name: &str, change: impl FnOnce(Arg) -> Arg) -> &mut Self {
        let at = self.position(name);
        self.fields[at].arg = change(self.fields[at].arg.clone());
        self
    }
}

impl Flags {
    /// Those of an operation's route.
    pub(super) fn of(route: &Route) -> Self {
        let mut fields: Vec<Field> = route.parameters().map(of_path).collect();
        fields.extend(route.query.iter().map(|parameter| {
            let form = match parameter.form {
                QueryForm::Flag => Form::Says("true"),
                _ => Form::Text,
            };
            Field::new(Place::Query, parameter.name, parameter.description, form)
        }));
        fields.extend(route.body.declaration().map(of_body).unwrap_or_default());
        let about = "Make repeating safe: the same key within 24 hours changes nothing and answers the same";
        let once = Arg::new(ONCE).long(ONCE).value_name("KEY").help(about);
        let is_once = route.method == Method::Post && route.access != Access::Administrator;
        Self {
            fields,
            others: is_once.then_some(once).into_iter().collect(),
            body: None,
            takes_body: !matches!(route.body, Body::None),
            needs_one: route.method == Method::Patch,
        }
    }

    /// What can be typed, as clap knows it.
    pub(super) fn shape(&self, command: clap::Command) -> clap::Command {
        let mut command = command;
        for (at, field) in self.fields.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &self.fields[at]);
            let before = before.filter(|before| before.name == field.name);
            let exclusive = before.filter(|_| !matches!(field.form, Form::Nulls));
            command = command.arg(match exclusive {
                Some(before) => field.arg.clone().conflicts_with(before.arg.get_id()),
                None => field.arg.clone(),
            });
        }
        let changes = self
            .fields
            .iter()
            .filter(|field| field.place == Place::Body);
        let changes: Vec<_> = changes.map(|field| field.arg.get_id()).collect();
        if self.needs_one && !changes.is_empty() {
            let group = ArgGroup::new("change").args(changes);
            command = command.group(group.required(true).multiple(true));
        }
        command.args(self.others.clone())
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
        let file = matches.try_get_one::<PathBuf>(JSON).ok().flatten();
        request.body = match (self.body, file) {
            (Some(body), _) => body.as_bytes().to_vec(),
            (None, Some(file)) => files::bytes(file, REQUEST_BYTES)?,
            (None, None) if self.takes_body => self.members(matches)?.to_string().into_bytes(),
            (None, None) => Vec::new(),
        };
        let once = matches.try_get_one::<String>(ONCE).ok().flatten();
        request.idempotency_key = once.cloned();
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
            field.put(matches, &mut members)?;
        }
        Ok(members)
    }
}

impl Field {
    fn new(place: Place, name: &str, about: &str, form: Form) -> Self {
        let about = about.trim_start_matches("true: ").trim_end_matches('.');
        let arg = Arg::new("").help(capital(&in_flags(about)));
        let arg = called(arg, &kebab(name));
        let arg = match form {
            Form::Says(_) => arg.action(ArgAction::SetTrue),
            Form::List => arg.action(ArgAction::Append).value_delimiter(','),
            Form::Pairs => arg.action(ArgAction::Append).value_name("KEY=VALUE"),
            Form::Nulls => arg.action(ArgAction::Append),
            Form::File => arg.value_parser(value_parser!(PathBuf)).value_name("FILE"),
            Form::Number => arg.allow_negative_numbers(true).value_name("AMOUNT"),
            Form::Whole => arg.allow_negative_numbers(true).value_name("N"),
            Form::Text | Form::Read(_) => arg,
        };
        let name = name.to_owned();
        Self {
            place,
            name,
            arg,
            form,
        }
    }

    fn typed<'m>(&self, matches: &'m ArgMatches) -> Option<&'m str> {
        let typed = matches.get_one::<String>(self.arg.get_id().as_str());
        typed.map(String::as_str)
    }

    fn in_query(&self, matches: &ArgMatches) -> Option<String> {
        match self.form {
            Form::Says(word) => matches
                .get_flag(self.arg.get_id().as_str())
                .then(|| word.to_owned()),
            _ => self.typed(matches).map(str::to_owned),
        }
    }

    /// Puts the JSON of what was typed where it belongs, if it was.
    fn put(&self, matches: &ArgMatches, members: &mut Members) -> Result<(), Failure> {
        let id = self.arg.get_id().as_str();
        let wrong = |why: String| Failure::Usage(format!("--{id} {why}"));
        let typed = || self.typed(matches);
        let all = || matches.get_many::<String>(id).into_iter().flatten();
        let json = match self.form {
            Form::Text => typed().map(text),
            Form::Number => typed().map(digits).transpose().map_err(wrong)?,
            Form::Whole => typed().map(whole).transpose().map_err(wrong)?,
            Form::Read(read) => typed().map(read).transpose().map_err(wrong)?,
            Form::Says(word) => matches.get_flag(id).then(|| word.to_owned()),
            Form::File => matches
                .get_one::<PathBuf>(id)
                .map(|file| json(file))
                .transpose()?,
            Form::List => {
                let words: Vec<String> = all().map(|word| text(word)).collect();
                (!words.is_empty()).then(|| format!("[{}]", words.join(",")))
            }
            Form::Pairs | Form::Nulls => {
                let nulls = matches!(self.form, Form::Nulls);
                for typed in all() {
                    let pair = typed.split_once('=').map(|(key, value)| (key, text(value)));
                    let pair = if nulls {
                        Some((typed.as_str(), "null".to_owned()))
                    } else {
                        pair
                    };
                    let unlike = || wrong(format!("is \"{typed}\"; write it like KEY=VALUE"));
                    let (key, json) = pair.ok_or_else(unlike)?;
                    if !members.put_pair(&self.name, key, json) {
                        return Err(wrong(format!(
                            "names \"{key}\", which is named twice; give every key once"
                        )));
                    }
                }
                None
            }
        };
        members.put(&self.name, json);
        Ok(())
    }
}

fn of_path(name: &'static str) -> Field {
    let noun = kebab(name.trim_end_matches("Id")).replace('-', " ");
    let mut field = Field::new(Place::Path, name, &format!("The {noun}'s id"), Form::Text);
    field.arg = field.arg.required(true).long(None);
    field
}

fn of_body(body: &Declaration) -> Vec<Field> {
    let schemas = body.schemas();
    let mut fields = Vec::new();
    if let Some((_, own)) = schemas.first() {
        members(own, &schemas, ("", "", true), &mut fields);
    }
    fields
}

/// The fields of an object's members, and of those of an object within it: its name, what it is about, whether it must be there.
fn members(
    object: &Node,
    named: &[(String, Node)],
    outer: (&str, &str, bool),
    fields: &mut Vec<Field>,
) {
    let required = words(object.get("required"));
    for (name, member) in object
        .get("properties")
        .map(Node::members)
        .unwrap_or_default()
    {
        let (reference, schema) = followed(member, named);
        let about = member
            .get("description")
            .and_then(Node::as_str)
            .unwrap_or(outer.1);
        let is_required = required.contains(&name.as_str()) && outer.2;
        let path = format!("{}{name}", outer.0);
        if schema.get("properties").is_some() {
            members(
                schema,
                named,
                (&format!("{path}."), about, is_required),
                fields,
            );
            continue;
        }
        let form = match reference {
            Some(POLICY_SCHEMA) => Form::File,
            _ => form(schema),
        };
        let (about, null) = about.split_once("; null ").unwrap_or((about, ""));
        // What follows is said of the value again.
        let (null, more) = null.split_once(". ").unwrap_or((null, ""));
        let about = format!("{} {more}", about.trim_end_matches('.'))
            .trim_end()
            .to_owned();
        let mut field = Field::new(Place::Body, &path, &limited(&about, schema, named), form);
        field.arg = field.arg.required(is_required);
        fields.push(field);
        let nullable = |schema: &Node| words(schema.get("type")).contains(&"null");
        let opposite = match schema.get("additionalProperties").is_some_and(nullable) {
            true => Some(Form::Nulls),
            false => nullable(schema).then_some(Form::Says("null")),
        };
        fields.extend(opposite.map(|form| {
            let mut opposite =
                Field::new(Place::Body, &path, null.trim_start_matches("for "), form);
            opposite.arg = called(opposite.arg, &format!("no-{}", kebab(&path)));
            opposite
        }));
    }
}

/// The name that a schema refers to, and what that is if it is known.
fn followed<'n>(schema: &'n Node, named: &'n [(String, Node)]) -> (Option<&'n str>, &'n Node) {
    let reference = schema.get("$ref").and_then(Node::as_str);
    let reference = reference.map(|path| path.trim_start_matches(SCHEMAS));
    let found = named
        .iter()
        .find(|(known, _)| Some(known.as_str()) == reference);
    (reference, found.map_or(schema, |(_, found)| found))
}

/// What a field is about, with its words, limits and default.
fn limited(about: &str, schema: &Node, named: &[(String, Node)]) -> String {
    let mut about = about.trim_end_matches('.').to_owned();
    let (_, choices) = followed(schema.get("items").unwrap_or(schema), named);
    let choices = words(choices.get("enum"));
    if choices.first().is_some_and(|first| !about.contains(first)) {
        about = format!("{about}: {}", choices.join(", "));
    }
    if let (Form::Whole, Some(least), Some(most)) =
        (form(schema), schema.get("minimum"), schema.get("maximum"))
    {
        about = format!("{about}; {least} to {most}");
    }
    if matches!(form(schema), Form::List | Form::Pairs) {
        about.push_str("; may be given several times");
    }
    match schema.get("default") {
        Some(default) => format!("{about} [default: {default}]"),
        None => about,
    }
}

fn form(schema: &Node) -> Form {
    let ty = schema.get("type");
    let kind = ty.and_then(Node::as_str);
    match kind.or_else(|| words(ty).first().copied()) {
        Some("boolean") => Form::Says("true"),
        Some("integer") => Form::Whole,
        Some("number") => Form::Number,
        Some("array") => Form::List,
        Some("object") => Form::Pairs,
        _ => Form::Text,
    }
}

fn words(list: Option<&Node>) -> Vec<&str> {
    match list {
        Some(Node::Array(items)) => items.iter().filter_map(Node::as_str).collect(),
        _ => Vec::new(),
    }
}

/// An argument under another name.
fn called(arg: Arg, flag: &str) -> Arg {
    let value = flag
        .trim_start_matches("no-")
        .replace('-', "_")
        .to_ascii_uppercase();
    let named = arg
        .get_value_names()
        .is_some_and(|names| names[0].contains('='));
    let arg = arg.id(flag.to_owned()).long(flag.to_owned());
    if named { arg } else { arg.value_name(value) }
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

/// JSON in a file, exactly as it is there.
fn json(file: &Path) -> Result<String, Failure> {
    let text = files::text(file, REQUEST_BYTES)?;
    let json = RawValue::from_string(text)
        .map_err(|e| Failure::Usage(format!("{} is not JSON: {e}", file.display())))?;
    Ok(json.get().to_owned())
}

/// Names of fields between backticks, as flags.
fn in_flags(about: &str) -> String {
    let parts = about.split('`').enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => part.to_owned(),
        _ => format!("--{}", kebab(part)),
    });
    parts.collect()
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

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

#[cfg(test)]
mod tests {
    use bookguard_core::features::bookings::{CreateBooking, GetBooking, ListBookings};
    use bookguard_core::features::endpoints::update::UpdateEndpoint;
    use bookguard_core::features::partners::UpdatePartner;
    use bookguard_core::operation::Operation as _;

    use super::*;

    fn typed(route: &Route, line: &[&str]) -> Result<Request, Failure> {
        let mut flags = Flags::of(route);
        if route.id == UpdateEndpoint::ROUTE.id {
            flags.opposite("ownSecret", "partners-secret", "The partner's");
        }
        let shape = flags.shape(clap::Command::new("x"));
        let words = std::iter::once(&"x").chain(line);
        flags.request(&shape.try_get_matches_from(words).unwrap())
    }

    fn body(route: &Route, line: &[&str]) -> Result<String, Failure> {
        typed(route, line).map(|request| String::from_utf8(request.body).unwrap())
    }

    fn booking(more: &[&str]) -> Result<String, Failure> {
        let line = [
            "--talent-id=t",
            "--talent-name=T \"quoted\"",
            "--organizer-id=o",
            "--organizer-name=O",
            "--event-type=concert",
            "--event-date=2027-06-01T20:00:00Z",
        ];
        body(&CreateBooking::ROUTE, &[&line[..], more].concat())
    }

    #[test]
    fn an_amount_goes_out_as_it_was_typed() {
        for value in [
            "1200",
            "12.50",
            "1e2",
            "9999999999999.99",
            "-1",
            "0.10",
            "1e400",
        ] {
            let body = booking(&["--booking-value", value]).unwrap();
            let expected = format!(
                r#"{{"talent":{{"id":"t","name":"T \"quoted\""}},"organizer":{{"id":"o","name":"O"}},"eventType":"concert","eventDate":"2027-06-01T20:00:00Z","bookingValue":{value}}}"#
            );
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn what_is_no_number_is_refused_before_it_is_sent() {
        for value in [
            "",
            "12,50",
            ".5",
            "5.",
            "$5",
            "\"5\"",
            "{}",
            "1 2",
            "1,\"x\":2",
            "NaN",
            "+5",
            "05",
        ] {
            let failure = booking(&[&format!("--booking-value={value}")]).unwrap_err();
            assert!(
                matches!(&failure, Failure::Usage(why) if why.starts_with("--booking-value is")),
                "{value}: {failure:?}"
            );
        }
    }

    #[test]
    fn pairs_are_split_at_the_first_equals_sign_and_named_once() {
        let good = ["--booking-value=1", "--metadata=a=b=c", "--metadata=d="];
        let good = booking(&good).unwrap();
        assert!(good.contains(r#""metadata":{"a":"b=c","d":""}"#), "{good}");
        for bad in [&["a"][..], &["a=1", "a=2"]] {
            let pairs = bad.iter().map(|pair| format!("--metadata={pair}"));
            let pairs: Vec<String> = pairs.collect();
            let line: Vec<&str> = pairs.iter().map(String::as_str).collect();
            let failure = booking(&[&["--booking-value=1"][..], &line].concat());
            assert!(
                matches!(&failure, Err(Failure::Usage(why)) if why.contains("--metadata")),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn what_is_taken_away_is_null() {
        let route = &UpdatePartner::ROUTE;
        let line = [
            "--default-policies=concert=house",
            "--no-default-policies=dj",
            "--no-time-zone",
        ];
        assert_eq!(
            body(route, &line).unwrap(),
            r#"{"defaultPolicies":{"concert":"house","dj":null},"timeZone":null}"#
        );
        let both = ["--default-policies=dj=house", "--no-default-policies=dj"];
        assert!(matches!(body(route, &both), Err(Failure::Usage(_))));
        let line = [
            "end_1",
            "--events=a,b",
            "--events=c",
            "--no-description",
            "--rate-limit-per-second=5",
            "--partners-secret",
        ];
        let request = typed(&UpdateEndpoint::ROUTE, &line).unwrap();
        assert_eq!(request.path, ["end_1"]);
        assert_eq!(
            String::from_utf8(request.body).unwrap(),
            r#"{"events":["a","b","c"],"description":null,"rateLimitPerSecond":5,"ownSecret":false}"#
        );
    }

    #[test]
    fn path_and_query_are_the_route_s() {
        let request = typed(&GetBooking::ROUTE, &["bkg_1"]).unwrap();
        assert_eq!((request.path.len(), request.body.len()), (1, 0));
        let line = ["--status=a&b", "--limit", "5"];
        let request = typed(&ListBookings::ROUTE, &line).unwrap();
        let pairs = [("status", "a&b"), ("limit", "5")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(request.query, pairs);
    }
}
