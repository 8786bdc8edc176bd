//! Packets by their bytes: the same packet formatted anew, and files that are not the text of a packet.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::super::note_text;
use super::{Bad, Noticed, World};
use crate::ledger::jcs;

/// How a value is written.
struct Style {
    /// Between any two tokens.
    gap: &'static str,
    reversed: bool,
    text: fn(&str) -> String,
    number: fn(&str) -> String,
}

fn plain(text: &str) -> String {
    Value::from(text).to_string()
}

/// Every character as an escape, beyond the BMP as two.
fn escaped(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| match unit {
        0x2f => "\\/".to_owned(),
        _ => format!("\\u{unit:04X}"),
    });
    format!("\"{}\"", units.collect::<String>())
}

/// The same double in another spelling.
fn renumbered(number: &str) -> String {
    match number.split_once('.') {
        Some((whole, fraction)) => format!("{whole}{fraction}00E-{}", fraction.len() + 2),
        None if number.ends_with('0') => format!("{number}.000"),
        None => format!("{number}e0"),
    }
}

impl Style {
    fn write(&self, value: &Value) -> String {
        let gap = self.gap;
        let list = |open, mut items: Vec<String>, close| {
            if self.reversed && open == "{" {
                items.reverse();
            }
            let items = items.join(&format!("{gap},{gap}"));
            format!("{open}{gap}{items}{gap}{close}")
        };
        match value {
            Value::String(text) => (self.text)(text),
            Value::Number(number) => (self.number)(&number.to_string()),
            Value::Array(items) => list(
                "[",
                items.iter().map(|item| self.write(item)).collect(),
                "]",
            ),
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    format!("{}{gap}:{gap}{}", (self.text)(name), self.write(value))
                };
                list("{", members.iter().map(member).collect(), "}")
            }
            other => other.to_string(),
        }
    }
}

/// Packets that were formatted anew: the same packets.
#[rustfmt::skip]
pub fn good(world: &World) -> Vec<(&'static str, &'static str, String)> {
    let style = || Style {
        gap: "",
        reversed: false,
        text: plain,
        number: str::to_owned,
    };
    let pretty = serde_json::to_string_pretty(&world.good["names"]).unwrap();
    let write = |style: Style, name| style.write(&world.good[name]);
    vec![
        ("reformatted-pretty", "indented, with CR LF, and a line end after it", pretty.replace('\n', "\r\n") + "\r\n"),
        ("reformatted-order", "members in reverse order, tabs between all tokens",
            write(Style { gap: "\t", reversed: true, ..style() }, "names")),
        ("reformatted-escapes", "every character of every string is an escape",
            write(Style { text: escaped, ..style() }, "names")),
        ("reformatted-numbers", "every number in another spelling of the same double",
            write(Style { number: renumbered, ..style() }, "moved-once")),
    ]
}

/// Files that are not the text of a packet, and ones whose text was changed.
pub fn bad(world: &World) -> Vec<Bad> {
    let genuine = world.text("created-without-policy");
    let zone = "\"eventType\":\"concert\",";
    let once = |to: &str| genuine.replacen(zone, to, 1).into_bytes();
    #[rustfmt::skip]
    let files: Vec<(&str, &str, Vec<u8>)> = vec![
        ("empty", "the file is empty", Vec::new()),
        ("truncated", "the last byte is missing", genuine.as_bytes()[..genuine.len() - 1].to_vec()),
        ("trailing-data", "a second document follows", format!("{genuine}{{}}").into_bytes()),
        ("byte-order-mark", "it begins with a byte order mark, which JSON does not allow",
            format!("\u{feff}{genuine}").into_bytes()),
        ("not-utf-8", "a byte that is not UTF-8", once("\"eventType\":\"concer\u{1}t\",")
        .into_iter()
        .map(|b| if b == 1 { 0xff } else { b })
        .collect()),
        ("control-character", "a control character in a string that is not escaped", once("\"eventType\":\"concert\u{1}\",")),
        ("lone-surrogate", "an escape of half a character", once("\"eventType\":\"concert\\ud83c\",")),
        ("duplicate-name", "a name occurs twice in one object, both times with the signed value",
            once("\"eventType\":\"concert\",\"eventType\":\"concert\",")),
        ("duplicate-name-escaped", "a name occurs twice, once written with an escape; the last is the signed value",
            once("\"event\\u0054ype\":\"gala\",\"eventType\":\"concert\",")),
        ("number-too-large", "the number 2^53, everything else being right", beyond(world)),
        ("not-json", "single quotes", genuine.replace('"', "'").into_bytes()),
        ("trailing-comma", "a comma after the last member", format!("{},}}", &genuine[..genuine.len() - 1]).into_bytes()),
        ("array", "a packet within an array", format!("[{genuine}]").into_bytes()),
    ];
    let bad = files.into_iter();
    bad.map(|(name, why, bytes)| Bad::of(name, why, Noticed::Structure, "form", bytes))
        .collect()
}

/// A packet that holds the number 2^53, with a right digest: the service cannot write it.
fn beyond(world: &World) -> Vec<u8> {
    let (small, large) = ("4503599627370496", "9007199254740992");
    let mut document = world.doc("created-without-policy");
    document["summary"]["timeline"][0]["entry"] = small.parse::<u64>().unwrap().into();
    document.as_object_mut().unwrap().remove("signature");
    let said = jcs::to_canonical(&document).unwrap().replace(small, large);
    let text = note_text(&document, Sha256::digest(&said).into());
    let note = world.fixture.signer.sign(&text).unwrap();
    document["signature"] = note.into();
    let text = jcs::to_canonical(&document).unwrap();
    assert_eq!(text.matches(small).count(), 1);
    text.replace(small, large).into_bytes()
}
