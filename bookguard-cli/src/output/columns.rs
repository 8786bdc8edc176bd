//! An answer as rows and columns: those that the user chose, or all of them.
//!
//! A row is an answer's JSON object, or one of a list's. A column is a member's path, such as `talent.name`. Invariant: what
//! a cell shows is what the answer holds; numbers stay the text that was sent.

use std::{fmt, mem};

use bookguard_core::input::quoted;
use bookguard_server::{openapi_json, operator_openapi_json};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::failure::Failure;

/// A JSON object's members, in their order.
#[derive(Debug, Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Read)
    }
}

impl Members {
    fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// The member at a path. A name may itself hold dots, as those of metadata may.
    fn at(&self, path: &str) -> Option<Box<RawValue>> {
        if let Some(value) = self.get(path) {
            return Some(value.to_owned());
        }
        path.match_indices('.').find_map(|(dot, _)| {
            let inner: Self = serde_json::from_str(self.get(&path[..dot])?.get()).ok()?;
            inner.at(&path[dot + 1..])
        })
    }

    /// The flag that asks for the page after this one. Most lists go on with a cursor, the log of events with a number.
    fn next_page(&self) -> Option<String> {
        let text = |name| self.get(name).map(shown).filter(|text| !text.is_empty());
        let numbered = || {
            text("hasMore").filter(|has_more| has_more == "true")?;
            let before = text("nextBefore").map(|number| format!("--before {number}"));
            before.or_else(|| Some(format!("--after {}", text("nextAfter")?)))
        };
        let cursor = text("nextCursor").map(|cursor| format!("--cursor {cursor}"));
        cursor.or_else(numbered)
    }

    /// Adds the path of every member that is not an object itself.
    fn paths(&self, before: &str, found: &mut Vec<String>) {
        for (name, value) in &self.0 {
            let path = format!("{before}{name}");
            match serde_json::from_str::<Self>(value.get()) {
                Ok(inner) => inner.paths(&format!("{path}."), found),
                Err(_) if !found.contains(&path) => found.push(path),
                Err(_) => {}
            }
        }
    }
}

/// The rows of an answer.
pub struct AnswerRows {
    rows: Vec<Members>,
    /// The whole answer, if it is a list: its rows have members beside them.
    list: Option<Members>,
    /// The member of a list that holds its rows.
    member: &'static str,
    /// The flag that asks for the next page of a list. `None` for an answer that is not a list.
    pub next: Option<Option<String>>,
    columns: Vec<String>,
    /// Chosen columns that no row has.
    pub missing: Vec<String>,
}

impl AnswerRows {
    /// Reads an answer, which is a list if this `member` is one, and takes the columns that were chosen, or all if none was.
    ///
    /// # Errors
    /// [`Failure::Usage`] for an answer that is not an object, and if no chosen column is known.
    pub fn of(json: &str, member: &'static str, chosen: &[String]) -> Result<Self, Failure> {
        let answer: Members = serde_json::from_str(json).map_err(|_| {
            let why = "this answer has no fields: it is not a JSON object; leave out --fields and --output csv";
            Failure::Usage(why.to_owned())
        })?;
        let listed = answer.get(member);
        let listed = listed.and_then(|rows| serde_json::from_str(rows.get()).ok());
        let (rows, next, list): (Vec<Members>, _, _) = match listed {
            Some(rows) => (rows, Some(answer.next_page()), Some(answer)),
            None => (vec![answer], None, None),
        };
        let mut all = Vec::new();
        rows.iter().for_each(|row| row.paths("", &mut all));
        let is_missing = |path: &&String| rows.iter().all(|row| row.at(path).is_none());
        let missing: Vec<String> = chosen
            .iter()
            .filter(is_missing)
            .filter(|_| !rows.is_empty())
            .cloned()
            .collect();
        let is_nothing = !missing.is_empty() && missing.len() == chosen.len();
        if is_nothing && !missing.iter().any(|path| is_member(path)) {
            return Err(Failure::Usage(format!(
                "--fields names nothing that the answer has: {}. It has {}. The command was carried out, and its whole answer stands on standard output",
                missing.join(", "),
                all.join(", ")
            )));
        }
        Ok(Self {
            missing,
            columns: if chosen.is_empty() {
                all
            } else {
                chosen.to_vec()
            },
            rows,
            list,
            member,
            next,
        })
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The text of every cell; empty for a member that is missing or null.
    pub fn cells(&self) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(|row| {
            let cells = self.columns.iter().map(|path| row.at(path));
            cells
                .map(|value| value.map_or_else(String::new, |it| shown(&it)))
                .collect()
        })
    }

    /// The answer with nothing in a row but the chosen columns, in the shape that it had.
    pub fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let members = self.columns.iter();
            let members = members.filter_map(|path| Some((path, row.at(path)?)));
            object(members.map(|(path, value)| (path.as_str(), value.get().to_owned())))
        });
        match &self.list {
            None => rows.collect(),
            Some(list) => {
                let mut rows = format!("[{}]", rows.collect::<Vec<_>>().join(","));
                object(list.0.iter().map(|(name, value)| {
                    let text = match name == self.member {
                        true => mem::take(&mut rows),
                        false => value.get().to_owned(),
                    };
                    (name.as_str(), text)
                }))
            }
        }
    }

    /// The rows as CSV (RFC 4180, with a line feed at each line's end). A cell that a spreadsheet would take for a formula
    /// begins with an apostrophe. Without columns, as of an empty list, there is nothing to write.
    pub fn csv(&self, with_header: bool) -> String {
        if self.columns.is_empty() {
            return String::new();
        }
        let mut out = csv::Writer::from_writer(Vec::new());
        let header = with_header.then(|| self.columns.clone());
        for line in header.into_iter().chain(self.cells()) {
            out.write_record(line.iter().map(|cell| inert(cell)))
                .expect("memory takes every line, and all have as many cells");
        }
        let bytes = out.into_inner().expect("memory takes every line");
        String::from_utf8(bytes).expect("it was made of text")
    }
}

/// Whether answers may have this member: many leave out what they have no value for.
fn is_member(path: &str) -> bool {
    let name = path.split('.').next().unwrap_or_default();
    let declared = format!("{}:", quoted(name));
    [openapi_json(), operator_openapi_json()]
        .iter()
        .any(|document| document.contains(&declared))
}

fn shown(value: &RawValue) -> String {
    match value.get() {
        "null" => String::new(),
        text if text.starts_with('"') => {
            serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())
        }
        text => text.to_owned(),
    }
}

fn object<'a>(members: impl Iterator<Item = (&'a str, String)>) -> String {
    let members = members.map(|(name, value)| format!("{}:{value}", quoted(name)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// The cell's text, so that no spreadsheet runs it.
fn inert(cell: &str) -> String {
    let is_number = cell.parse::<f64>().is_ok();
    match cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number {
        true => format!("'{cell}"),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"{"total":2,"data":[
        {"id":"b1","talent":{"name":"=HYPERLINK(\"x\")","id":"t"},"value":12.50,"paid":null},
        {"id":"b2","talent":{"name":"a, \"b\"\nc","id":"-5"},"tags":["x"],"metadata":{"a.b":"+1","c":{}}}
    ],"nextCursor":"n\"1","hasMore":true,"nextBefore":null}"#;

    fn rows(json: &str, chosen: &[&str]) -> AnswerRows {
        let chosen: Vec<String> = chosen.iter().map(|&name| name.to_owned()).collect();
        AnswerRows::of(json, "data", &chosen).unwrap()
    }

    #[test]
    fn without_a_choice_every_member_is_a_column_in_the_answers_order() {
        let all = rows(PAGE, &[]);
        assert_eq!(
            all.columns(),
            [
                "id",
                "talent.name",
                "talent.id",
                "value",
                "paid",
                "tags",
                "metadata.a.b"
            ]
        );
        assert_eq!(
            all.csv(true),
            "id,talent.name,talent.id,value,paid,tags,metadata.a.b\n\
             b1,\"'=HYPERLINK(\"\"x\"\")\",t,12.50,,,\n\
             b2,\"a, \"\"b\"\"\nc\",-5,,,\"[\"\"x\"\"]\",+1\n"
        );
    }

    #[test]
    fn the_next_page_is_asked_for_as_the_list_counts() {
        #[rustfmt::skip]
        let cases = [
            (PAGE, Some("--cursor n\"1")),
            (r#"{"data":[],"nextCursor":null,"hasMore":false}"#, None),
            (r#"{"data":[],"hasMore":true,"nextAfter":7}"#, Some("--after 7")),
            (r#"{"data":[],"hasMore":true,"nextAfter":9,"nextBefore":3}"#, Some("--before 3")),
            (r#"{"data":[],"hasMore":false,"nextAfter":9,"nextBefore":3}"#, None),
        ];
        for (list, flag) in cases {
            assert_eq!(
                rows(list, &[]).next,
                Some(flag.map(str::to_owned)),
                "{list}"
            );
        }
        assert_eq!(rows(r#"{"hasMore":true,"nextAfter":7}"#, &[]).next, None);
    }

    #[test]
    fn chosen_columns_come_in_the_chosen_order_and_the_answer_keeps_its_shape() {
        let some = rows(PAGE, &["metadata.a.b", "value", "id", "no", "talent"]);
        assert_eq!(some.missing, ["no"]);
        assert_eq!(
            some.json(),
            r#"{"total":2,"data":[{"value":12.50,"id":"b1","talent":{"name":"=HYPERLINK(\"x\")","id":"t"}},{"metadata.a.b":"+1","id":"b2","talent":{"name":"a, \"b\"\nc","id":"-5"}}],"nextCursor":"n\"1","hasMore":true,"nextBefore":null}"#
        );
        assert_eq!(
            rows(r#"{"id":"b1","paid":null,"n":1}"#, &["paid", "id"]).json(),
            r#"{"paid":null,"id":"b1"}"#
        );
        let empty = rows(r#"{"data":[]}"#, &["id"]);
        assert_eq!(
            (empty.json(), empty.csv(true)),
            (r#"{"data":[]}"#.to_owned(), "id\n".to_owned())
        );
        assert!(empty.missing.is_empty());
        assert_eq!(rows(r#"{"data":[]}"#, &[]).csv(true), "");
    }

    #[test]
    fn a_choice_of_nothing_that_is_known_is_refused() {
        let of = |json: &str, chosen: &[&str]| {
            let chosen: Vec<String> = chosen.iter().map(|&name| name.to_owned()).collect();
            AnswerRows::of(json, "data", &chosen)
        };
        let booking = r#"{"bookingId":"b","talent":{"id":"t"}}"#;
        for json in [booking, &format!(r#"{{"data":[{booking}]}}"#)] {
            let Err(Failure::Usage(why)) = of(json, &["bookingID", "talant.id"]) else {
                panic!("it was taken: {json}")
            };
            let words = "has: bookingID, talant.id. It has bookingId, talent.id.";
            assert!(why.contains(words), "{why}");
            // A field that only this booking lacks is not a mistake. Neither is a wrong name beside a right one.
            for (chosen, missing) in [
                (&["canceledAt"][..], "canceledAt"),
                (&["bookingID", "bookingId"], "bookingID"),
            ] {
                assert_eq!(of(json, chosen).unwrap().missing, [missing]);
            }
        }
        assert!(of(r#"{"data":[]}"#, &["bookingID"]).is_ok());
    }

    #[test]
    fn a_list_is_the_member_that_the_command_names() {
        let answer = r#"{"bookingId":"b","items":[{"title":"a","kind":"note"},{"kind":"contract"}],"data":[]}"#;
        let chosen = ["title".to_owned()];
        let some = AnswerRows::of(answer, "items", &chosen).unwrap();
        assert_eq!(
            (some.json(), some.csv(true)),
            (
                r#"{"bookingId":"b","items":[{"title":"a"},{}],"data":[]}"#.to_owned(),
                "title\na\n\"\"\n".to_owned()
            )
        );
        assert_eq!(some.next, Some(None));
    }

    #[test]
    fn an_answer_that_is_not_an_object_is_refused() {
        for json in ["[1]", "\"text\"", "1", "not JSON"] {
            assert!(AnswerRows::of(json, "data", &[]).is_err(), "{json}");
        }
    }

    #[test]
    fn no_cell_is_a_formula() {
        for (cell, shown) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-2+3", "'-2+3"),
            ("\tx", "'\tx"),
            ("-5", "-5"),
            ("-12.50", "-12.50"),
            ("a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(inert(cell), shown);
        }
    }
}
