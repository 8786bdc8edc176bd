//! The second use of a reader: run without a value, it describes what it would read, as JSON Schema 2020-12.
//!
//! A reader that binds every field before it builds then visits all of them, because each field gives `None`. So the
//! declaration that reads a body also describes it, and no limit, pattern or name is repeated elsewhere. Reading does not
//! become slower: data for the description alone is passed as constants, or made in closures that only a description calls.

use super::json::Json;
use super::{Form, Path, Value};
use crate::error::Error;
use crate::text;

/// The place of named schemas in the interface document.
const COMPONENTS: &str = "#/components/schemas/";

/// A request's body, declared once.
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// Its name in the interface document.
    pub name: &'static str,
    /// The description of the body.
    pub about: &'static str,
    /// An example body, as JSON.
    pub example: &'static str,
    /// Its reader.
    pub reader: fn(&mut Value<'_, '_>) -> Option<()>,
}

impl Declaration {
    /// Reads a body as an operation would that knows nothing about its caller.
    ///
    /// # Errors
    /// Those of [`input::read`](super::read); none for a policy, which another reader reads.
    pub fn check(&self, body: &[u8]) -> Result<(), Error> {
        super::read_value(body, self.reader)
    }

    /// The body's schema with its name, followed by the named schemas within it.
    pub fn schemas(&self) -> Vec<(String, Json)> {
        let mut draft = Draft::default();
        draft.run(self.reader);
        let mut schemas = std::mem::take(&mut draft.named);
        schemas.insert(0, (self.name.to_owned(), draft.node(Some(self.about))));
        schemas
    }
}

/// A schema under construction.
#[derive(Default)]
pub struct Draft {
    words: Vec<(String, Json)>,
    /// The fields of an object.
    fields: Option<Fields>,
    /// The description of the next field, or of the schema about to be named.
    about: Option<&'static str>,
    /// The name of the schema among the named ones, and its description there.
    name: Option<(&'static str, Option<&'static str>)>,
    named: Vec<(String, Json)>,
}

#[derive(Default)]
struct Fields {
    properties: Vec<(String, Json)>,
    required: Vec<&'static str>,
}

impl Draft {
    /// Sets a keyword of JSON Schema, replacing an earlier value.
    pub fn set(&mut self, word: &str, value: impl Into<Json>) {
        let value = value.into();
        match self.words.iter_mut().find(|(known, _)| known == word) {
            Some((_, place)) => *place = value,
            None => self.words.push((word.to_owned(), value)),
        }
    }

    /// Sets the type of the value.
    pub(super) fn kind(&mut self, kind: &str) {
        self.set("type", kind);
    }

    /// Describes text for people, or text of the pattern set before.
    pub(super) fn text(&mut self, max: usize) {
        self.kind("string");
        self.set("maxLength", max);
        if !self.words.iter().any(|(word, _)| word == "pattern") {
            self.set("minLength", 1);
            self.set("pattern", text::pattern());
        }
    }

    /// Refers to the schema of this name in the interface document.
    fn refer(&mut self, name: &str) {
        self.set("$ref", format!("{COMPONENTS}{name}"));
    }

    pub(super) fn allow_null(&mut self) {
        for (word, value) in &mut self.words {
            match (word.as_str(), value) {
                ("type", kind) => *kind = Json::array([kind.clone(), "null".into()]),
                ("enum", Json::Array(words)) => words.push(Json::Leaf(serde_json::Value::Null)),
                _ => {}
            }
        }
    }

    /// Begins an object.
    pub(super) fn object(&mut self) {
        self.fields = Some(Fields::default());
        self.kind("object");
    }

    /// Describes a field of the object. Always `None`, because there is no value.
    pub(super) fn field<'a, T>(
        &mut self,
        name: &'static str,
        required: bool,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        let about = self.about.take();
        let part = self.part(about, read);
        let fields = self.fields.get_or_insert_default();
        fields.properties.push((name.to_owned(), part));
        fields.required.extend(required.then_some(name));
        None
    }

    /// The schema of a value within this one.
    pub(crate) fn part<'a, T>(
        &mut self,
        about: Option<&'static str>,
        read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>,
    ) -> Json {
        let mut part = Self::default();
        part.run(read);
        self.named.append(&mut part.named);
        let Some((name, about_all)) = part.name.take() else {
            return part.node(about);
        };
        self.named.push((name.to_owned(), part.node(about_all)));
        let mut reference = Self::default();
        reference.refer(name);
        reference.node(about)
    }

    /// Runs a reader without a value.
    fn run<'a, T>(&mut self, read: impl FnOnce(&mut Value<'a, '_>) -> Option<T>) {
        read(&mut Value {
            raw: "",
            path: &Path::Root,
            faults: &mut Vec::new(),
            draft: Some(self),
        });
    }

    /// The finished schema, with its keywords in a readable order.
    fn node(mut self, about: Option<&str>) -> Json {
        let is_first = |(word, _): &(String, Json)| word == "type" || word == "$ref";
        let (mut words, rest): (Vec<_>, Vec<_>) = self.words.drain(..).partition(is_first);
        let mut say = |word: &str, value: Json| words.push((word.to_owned(), value));
        if let Some(about) = about {
            say("description", about.into());
        }
        if let Some(fields) = self.fields {
            if !fields.required.is_empty() {
                say("required", Json::array(fields.required));
            }
            say("properties", Json::Object(fields.properties));
            say("additionalProperties", false.into());
        }
        words.extend(rest);
        Json::Object(words)
    }
}

impl Value<'_, '_> {
    /// Adds to the description of the value, when it is being described.
    pub fn describe(&mut self, describe: impl FnOnce(&mut Draft)) -> &mut Self {
        if let Some(draft) = &mut self.draft {
            describe(draft);
        }
        self
    }

    /// Describes text of this pattern (ECMA 262). The reader must check it.
    pub fn pattern(&mut self, pattern: &'static str) -> &mut Self {
        self.describe(|draft| draft.set("pattern", pattern))
    }

    /// Describes text in one of JSON Schema's formats. The reader must check it.
    pub fn format(&mut self, format: &'static str) -> &mut Self {
        self.describe(|draft| draft.set("format", format))
    }

    /// Adds an example.
    pub fn example(&mut self, example: impl Into<Json>) -> &mut Self {
        self.describe(|draft| draft.set("examples", Json::array([example])))
    }

    /// Describes a list of at least this many items. The reader must check it.
    pub fn at_least(&mut self, items: usize) -> &mut Self {
        self.describe(|draft| draft.set("minItems", items))
    }

    /// Refers to a schema of this name that is defined elsewhere in the interface document. Returns `None` while describing.
    pub fn known_as(&mut self, name: &str) -> Option<&mut Self> {
        self.describe(|draft| draft.refer(name));
        match self.draft {
            Some(_) => None,
            None => Some(self),
        }
    }

    /// Names this schema in the interface document.
    pub fn named(&mut self, name: &'static str) -> &mut Self {
        self.describe(|draft| draft.name = Some((name, None)))
    }
}

impl Form<'_, '_> {
    /// Describes the next field; before [`Form::named`], the object itself.
    pub fn about(&mut self, about: &'static str) -> &mut Self {
        if let Some(draft) = &mut self.draft {
            draft.about = Some(about);
        }
        self
    }

    /// Names the object in the interface document, with the last description as its own. If there was none, a response type
    /// of the same name provides it.
    pub fn named(&mut self, name: &'static str) {
        if let Some(draft) = &mut self.draft {
            draft.name = Some((name, draft.about.take()));
        }
    }

    /// Adds to the description of the object, when it is being described: the relations between its fields.
    pub fn describe(&mut self, describe: impl FnOnce(&mut Draft)) {
        if let Some(draft) = &mut self.draft {
            describe(draft);
        }
    }

    /// Allows at most one of two fields; the fault `code` is reported at the second.
    pub fn not_both(&mut self, one: &'static str, other: &'static str, code: &str) {
        if self.has(one) && self.has(other) {
            let message = format!("stands beside \"{one}\"");
            self.fault_at(other, code, message, "Send one of the two.");
        }
        self.describe(|draft| {
            let any = || Json::Object(Vec::new());
            let both = Json::object([
                ("required", Json::array([one, other])),
                ("properties", Json::object([(one, any()), (other, any())])),
            ]);
            draft.set("not", both);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner(form: &mut Form<'_, '_>) -> Option<bool> {
        form.about("Something inside.").named("Inner");
        form.required("sure", |v| v.boolean())
    }

    const ALL: Declaration = Declaration {
        name: "All",
        about: "Everything a reader can say.",
        example: r#"{"word": "a", "inner": {"sure": true}}"#,
        reader: |v| {
            v.object(|form| {
                let word = form
                    .about("A word.")
                    .required("word", |v| v.choice(&[("a", 1), ("b", 2)]));
                let digest = form.optional("digest", |v| v.pattern("^[0-9a-f]+$").text(64));
                let count = form.nullable("count", |v| v.integer(1, 9));
                let list = form.optional("list", |v| v.at_least(1).array(2, |v| v.object(inner)));
                let inner = form.about("One.").required_object("inner", inner);
                let kind = form.optional("kind", |v| v.known_as("Kind")?.string());
                let pairs =
                    form.optional("pairs", |v| v.pairs(3, 8, |_, v| v.or_null(|v| v.number())));
                form.not_both("digest", "kind", "one_of");
                Some((word?, digest, count, list, inner?, kind, pairs))
            })
            .map(drop)
        },
    };

    #[test]
    fn what_is_read_is_what_is_described() {
        let described = ALL.schemas().into_iter();
        let described: Vec<String> = described
            .map(|(name, schema)| format!("{name}: {schema}"))
            .collect();
        let inner = r#"Inner: { "type": "object", "description": "Something inside.", "required": ["sure"], "properties": { "sure": { "type": "boolean" } }, "additionalProperties": false }"#;
        let pairs = format!(
            r#"{{ "type": "object", "maxProperties": 3, "propertyNames": {{ "minLength": 1, "maxLength": 8, "pattern": {} }}, "additionalProperties": {{ "type": ["number", "null"] }} }}"#,
            serde_json::Value::from(text::pattern())
        );
        let all = [
            r#"All: { "type": "object", "description": "Everything a reader can say.", "required": ["word", "inner"], "properties": "#,
            r#"{ "word": { "type": "string", "description": "A word.", "enum": ["a", "b"] }, "#,
            r#""digest": { "type": "string", "pattern": "^[0-9a-f]+$", "maxLength": 64 }, "#,
            r#""count": { "type": ["integer", "null"], "format": "int64", "minimum": 1, "maximum": 9 }, "#,
            r##""list": { "type": "array", "minItems": 1, "items": { "$ref": "#/components/schemas/Inner" }, "maxItems": 2 }, "##,
            r##""inner": { "$ref": "#/components/schemas/Inner", "description": "One." }, "##,
            r##""kind": { "$ref": "#/components/schemas/Kind" }, "##,
            &format!(r#""pairs": {pairs} }}, "#),
            r#""additionalProperties": false, "not": { "required": ["digest", "kind"], "properties": { "digest": {}, "kind": {} } } }"#,
        ]
        .concat();
        assert_eq!(described, [all.as_str(), inner, inner]);
    }

    #[test]
    fn the_same_reader_still_reads() {
        assert!(ALL.check(ALL.example.as_bytes()).is_ok());
        let error = ALL.check(br#"{"word": "c", "digest": "", "kind": "k", "list": [{}]}"#);
        let faults = error.unwrap_err().details;
        let faults: Vec<_> = faults.iter().map(|d| (&*d.pointer, &*d.code)).collect();
        let expected = [
            ("/word", "not_allowed"),
            ("/digest", "empty"),
            ("/list/0/sure", "missing_field"),
            ("/inner", "missing_field"),
            ("/kind", "one_of"),
        ];
        assert_eq!(faults, expected);
    }
}
