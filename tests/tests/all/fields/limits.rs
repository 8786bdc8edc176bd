//! Probes the members of each declaration: every type, word and limit, just within and just beyond.

use bookguard_core::input::Declaration;
use bookguard_core::text;
use serde_json::{Map, Value, json};

use crate::fields::{bodies, faults, judged_later, schema_agrees};

/// The result that a reader must give for a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Says {
    Nothing,
    /// One fault, with this code.
    Fault(&'static str),
    /// Some fault; the tables test which.
    Something,
}
use Says::{Fault, Nothing, Something};

/// Vocabularies whose unknown words have a code of their own.
const UNKNOWN_WORD: [(&str, &str); 2] =
    [("Scope", "unknown_scope"), ("Currency", "currency_unknown")];

/// Bodies with members that the declaration's example leaves out.
const OTHER_EXAMPLES: [(&str, &str); 3] = [
    (
        "NewDate",
        r#"{"eventDate": "2027-07-04", "timeZone": "America/New_York", "agreedBy": ["organizer", "talent"]}"#,
    ),
    (
        "NewCancellation",
        r#"{"canceledBy": "mutual", "agreedRefund": 1}"#,
    ),
    (
        "NewErasure",
        r#"{"fields": ["eventType"], "legalBasis": "objection", "expected": "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#,
    ),
];

/// Stand-ins for values that can be written only in JSON text.
const LONE_SURROGATE: &str = "lone surrogate";
const HUGE: i64 = 1_234_567_890_123;

fn text_of(body: &Value) -> String {
    let text = body.to_string();
    text.replace(LONE_SURROGATE, "\\ud83c")
        .replace(&HUGE.to_string(), "1e400")
}

/// Resolves a schema's reference, and returns the schema with its name.
fn followed(schema: &Value) -> (Value, &str) {
    let Some(place) = schema["$ref"].as_str() else {
        return (schema.clone(), "");
    };
    let found = bookguard_server::openapi().pointer(&place[1..]);
    let name = place.rsplit('/').next().unwrap();
    (found.unwrap_or_else(|| panic!("{place}")).clone(), name)
}

fn number(schema: &Value, word: &str) -> Option<usize> {
    schema[word].as_u64().map(|n| usize::try_from(n).unwrap())
}

/// Returns values for a member of this schema, each with the expected result. `sample` is a valid one.
fn probes(schema: &Value, name: &str, sample: &Value) -> Vec<(Value, Says)> {
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    let mut probes = vec![(sample.clone(), Nothing)];
    for (kind, value) in [
        ("string", json!("a")),
        ("number", json!(7)),
        ("boolean", json!(true)),
        ("array", json!([])),
        ("object", json!({})),
    ] {
        let is_right = |right: &Value| right == kind || (right == "integer" && kind == "number");
        if !kinds.iter().any(is_right) {
            probes.push((value, Fault("wrong_type")));
        }
    }
    match kinds[0].as_str().unwrap() {
        "string" => probes.extend(strings(schema, name)),
        "integer" => {
            let [min, max] = ["minimum", "maximum"].map(|word| schema[word].as_i64().unwrap());
            probes.extend([min, max].map(|n| (json!(n), Nothing)));
            let beyond = [json!(min - 1), json!(max + 1), json!(1.5), json!(HUGE)];
            probes.extend(beyond.map(|n| (n, Fault("out_of_range"))));
        }
        "boolean" => probes.extend([true, false].map(|said| (json!(said), Nothing))),
        "array" => {
            let item = &sample[0];
            let max = number(schema, "maxItems").unwrap();
            if schema["allOf"].is_null() {
                probes.push((json!(vec![item; max]), Nothing));
            }
            probes.push((json!(vec![item; max + 1]), Fault("too_many")));
            if number(schema, "minItems").is_some() {
                probes.push((json!([]), Something));
            }
        }
        "object" if schema["properties"].is_null() => probes.extend(pairs(schema)),
        _ => {}
    }
    probes
}

fn strings(schema: &Value, name: &str) -> Vec<(Value, Says)> {
    if let Some(words) = schema["enum"].as_array() {
        let code = UNKNOWN_WORD.iter().find(|(of, _)| *of == name);
        let wrong = (
            json!("no such word"),
            Fault(code.map_or("not_allowed", |(_, code)| code)),
        );
        // Whether a currency is valid depends on the amounts in the same body.
        let words = words.iter().filter(|_| name != "Currency");
        let right = words.map(|word| (word.clone(), Nothing));
        return right.chain([wrong]).collect();
    }
    let surrogate = (json!(format!("a{LONE_SURROGATE}")), Fault("invalid_string"));
    let max = number(schema, "maxLength");
    if number(schema, "minLength").is_none() {
        let mut probes = vec![
            surrogate,
            (json!(" "), Something),
            (json!("a\u{202e}b"), Something),
        ];
        probes.extend(max.map(|max| (json!("x".repeat(max + 1)), Something)));
        return probes;
    }
    let max = max.unwrap();
    let texts = [
        ("é".repeat(max), Nothing),
        ("é".repeat(max + 1), Fault("too_long")),
        (String::new(), Fault("empty")),
        (" \u{2003}".to_owned(), Fault("empty")),
        ("\u{200b}\u{2060}".to_owned(), Fault("empty")),
        ("a\u{0}b".to_owned(), Fault("control_character")),
        ("a\n".to_owned(), Fault("control_character")),
        ("a\u{85}b".to_owned(), Fault("control_character")),
        ("a\u{1b}[31mb".to_owned(), Fault("control_character")),
        ("a\u{202e}moc.live".to_owned(), Fault("hidden_character")),
        ("a\u{200b}".to_owned(), Fault("hidden_character")),
        ("a\u{e0041}\u{e0042}".to_owned(), Fault("hidden_character")),
        ("Ac\u{200d}me".to_owned(), Fault("hidden_character")),
        (format!("A{}", "\u{301}".repeat(9)), Fault("too_many_marks")),
    ];
    let texts = texts.into_iter().map(|(text, says)| (json!(text), says));
    texts.chain([surrogate]).collect()
}

/// Returns probes for objects with free names.
fn pairs(schema: &Value) -> Vec<(Value, Says)> {
    let names = &schema["propertyNames"];
    let max = number(schema, "maxProperties").unwrap();
    let chars = number(names, "maxLength").unwrap();
    let many = |count: usize| {
        let pairs = (0..count).map(|n| (format!("k{n}"), json!("firm")));
        Value::Object(pairs.collect())
    };
    let named = |name: &str| json!({ name: "firm" });
    vec![
        (json!({}), Nothing),
        (many(max), Nothing),
        (many(max + 1), Fault("too_many")),
        (named(&"k".repeat(chars)), Nothing),
        (named(&"k".repeat(chars + 1)), Something),
        (named(""), Something),
        (named("k\u{200b}"), Something),
        (named("k\n"), Something),
    ]
}

/// A body whose members are replaced one at a time, and the number of probes so far.
struct Probing<'b> {
    body: &'static Declaration,
    whole: &'b Value,
    asked: usize,
}

impl Probing<'_> {
    /// Puts `value` at `pointer`, or removes what is there, and asserts the result.
    fn ask(&mut self, pointer: &str, value: Option<Value>, at: &str, says: Says) {
        let mut whole = self.whole.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match (whole.pointer_mut(parent).unwrap(), value) {
            (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value)),
            (Value::Object(members), None) => drop(members.remove(name)),
            (list, value) => list[name.parse::<usize>().unwrap()] = value.unwrap(),
        }
        let text = text_of(&whole);
        let found = faults(|text| self.body.check(text), &text);
        let expected = match says {
            Nothing => Vec::new(),
            Fault(code) => vec![(at.to_owned(), code.to_owned())],
            Something => {
                let said = !found.is_empty() || judged_later(at);
                assert!(said, "{}: {text:.300}", self.body.name);
                found.clone()
            }
        };
        assert_eq!(found, expected, "{}: {text:.300}", self.body.name);
        schema_agrees(self.body, &text, &found);
        self.asked += 1;
    }

    fn member(&mut self, pointer: &str, schema: &Value) {
        let (schema, name) = followed(schema);
        // Policies have a reader of their own.
        if name == "CancellationPolicy" {
            return;
        }
        let right = sample(self.whole.pointer(pointer), &schema);
        for (value, says) in probes(&schema, name, &right) {
            self.ask(pointer, Some(value), pointer, says);
        }
        if schema["properties"].is_object() {
            self.object(pointer, &schema);
        }
        let inside = match schema["type"].as_str() {
            Some("array") if schema["allOf"].is_null() => Some(("0", &schema["items"])),
            Some("object") if schema["additionalProperties"].is_object() => {
                Some(("k", &schema["additionalProperties"]))
            }
            _ => None,
        };
        if let Some((place, inside)) = inside {
            let mut whole = self.whole.clone();
            let (inner, name) = followed(inside);
            let right = sample(None, &inner);
            *whole.pointer_mut(pointer).unwrap() = match place {
                "0" => json!([right]),
                _ => json!({ place: right }),
            };
            let mut within = Probing {
                body: self.body,
                whole: &whole,
                asked: 0,
            };
            let pointer = format!("{pointer}/{place}");
            let null = match (place, inner["type"].is_array()) {
                ("0", _) => Fault("wrong_type"),
                (_, true) => Nothing,
                (_, false) => Fault("null"),
            };
            within.ask(&pointer, Some(Value::Null), &pointer, null);
            for (value, says) in probes(&inner, name, &right) {
                within.ask(&pointer, Some(value), &pointer, says);
            }
            if inner["properties"].is_object() {
                within.object(&pointer, &inner);
            }
            self.asked += within.asked;
        }
    }

    /// Probes the required, optional and unknown members of an object.
    fn object(&mut self, pointer: &str, schema: &Value) {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let surplus = format!("{pointer}/qqqqqqqqqqqqqqqq");
        self.ask(&surplus, Some(json!(1)), &surplus, Fault("unknown_field"));
        for (name, member) in schema["properties"].as_object().unwrap() {
            let place = format!("{pointer}/{name}");
            let whole = self.example_with(&place);
            let mut probing = Probing {
                body: self.body,
                whole: &whole,
                asked: 0,
            };
            let is_required = required.iter().any(|required| required == name);
            let missing = if is_required {
                Fault("missing_field")
            } else {
                Nothing
            };
            let others = schema["dependentRequired"].as_object();
            let mut others = others.into_iter().flatten();
            let dependent =
                others.find(|(_, needs)| needs.as_array().unwrap().contains(&json!(name)));
            match dependent {
                Some((other, _)) => {
                    probing.ask(&place, None, &format!("{pointer}/{other}"), Something);
                }
                None if place == "/agreedRefund" => {}
                // One of the two must be there.
                None if self.body.name == "NewErasure"
                    && ["/fields", "/party"].contains(&&*place) =>
                {
                    probing.ask(&place, None, "/fields", Fault("fields_or_party"));
                }
                None => probing.ask(&place, None, &place, missing),
            }
            let is_nullable = member["type"]
                .as_array()
                .is_some_and(|kinds| kinds.contains(&json!("null")));
            let null = if is_nullable { Nothing } else { Fault("null") };
            probing.ask(&place, Some(Value::Null), &place, null);
            probing.member(&place, member);
            self.asked += probing.asked;
        }
    }

    /// Returns the whole example, or another one that has the member.
    fn example_with(&self, pointer: &str) -> Value {
        let mut others = OTHER_EXAMPLES
            .iter()
            .filter(|(body, _)| *body == self.body.name);
        let other = others
            .next()
            .map(|(_, text)| serde_json::from_str::<Value>(text).unwrap());
        match other {
            Some(other)
                if self.whole.pointer(pointer).is_none() && other.pointer(pointer).is_some() =>
            {
                other
            }
            _ => self.whole.clone(),
        }
    }
}

/// Returns a value of this schema: the existing one, or the smallest valid one.
fn sample(there: Option<&Value>, schema: &Value) -> Value {
    if let Some(there) = there.filter(|there| !there.is_null()) {
        return there.clone();
    }
    let (schema, _) = followed(schema);
    if let Some(word) = schema["enum"].get(0).or(schema["examples"].get(0)) {
        return word.clone();
    }
    let kind = schema["type"].get(0).unwrap_or(&schema["type"]);
    match kind.as_str().unwrap() {
        "string" => match schema["pattern"].as_str().unwrap_or_default() {
            pattern if pattern.starts_with("^ptn_") => json!(format!("ptn_{}", "0a".repeat(16))),
            pattern if pattern.starts_with("^end_") => json!(format!("end_{}", "0a".repeat(16))),
            pattern if pattern.starts_with("^sha256:") => {
                json!(format!("sha256:{}", "0a".repeat(32)))
            }
            pattern if pattern.starts_with("^http") || schema["format"] == "uri" => {
                json!("https://example.com/")
            }
            _ if schema["format"] == "date-time" => json!("2030-01-01T00:00:00Z"),
            _ => json!("firm"),
        },
        "number" | "integer" => schema["minimum"].clone(),
        "boolean" => json!(true),
        "array" => json!([sample(None, &schema["items"])]),
        _ => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let required = required.iter().map(|name| name.as_str().unwrap());
            let members =
                required.map(|name| (name.to_owned(), sample(None, &schema["properties"][name])));
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}

#[test]
fn what_a_declaration_says_of_its_members_is_what_its_reader_takes() {
    let mut asked = 0;
    for body in bodies() {
        let whole: Value = serde_json::from_str(body.example).unwrap();
        let (_, schema) = body.schemas().remove(0);
        let schema: Value = serde_json::from_str(&schema.to_string()).unwrap();
        let mut probing = Probing {
            body,
            whole: &whole,
            asked: 0,
        };
        let found = faults(|text| body.check(text), body.example);
        assert_eq!(found, [], "{}", body.name);
        probing.object("", &schema);
        asked += probing.asked;
    }
    assert!(asked > 1_000, "{asked}");
}

/// Returns a matcher for the interface document's pattern of a text for people.
fn pattern_of_text() -> impl Fn(&str) -> bool {
    let document = bookguard_server::openapi();
    let name = &document["components"]["schemas"]["Party"]["properties"]["name"];
    let mut compiler = boon::Compiler::new();
    let schema = json!({"pattern": name["pattern"]});
    compiler.add_resource("urn:text", schema).unwrap();
    let mut schemas = boon::Schemas::new();
    let index = compiler.compile("urn:text", &mut schemas).unwrap();
    move |text| schemas.validate(&json!(text), index).is_ok()
}

#[test]
fn the_pattern_of_a_text_is_what_the_reader_asks_as_far_as_it_goes() {
    let matches = pattern_of_text();
    for c in (0..0x1_0000).filter_map(char::from_u32) {
        // Generators copy a pattern into JavaScript literals, which must not contain a line end.
        if matches!(c, '\u{2028}' | '\u{2029}') {
            assert!(text::is_hidden(c));
            continue;
        }
        let among = format!("a{c}b");
        let (fits, number) = (matches(&among), u32::from(c));
        assert_eq!(fits, !text::is_hidden(c), "U+{number:04X}");
        let alone = c.to_string();
        let reads = !text::is_blank(&alone) && text::misplaced(&alone).is_none();
        assert!(!reads || matches(&alone), "U+{number:04X} alone");
    }
    for blank in ["", " ", "\u{200d}\u{fe0f}", "\u{2800}", "\u{a0}"] {
        assert!(!matches(blank), "{blank:?}");
    }
}
