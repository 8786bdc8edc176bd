//! Describes every operation in words, from the interface document, and who may call it, from the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::access;
use super::objects::{kind, one_line};
use crate::api::OperationEntry;
use crate::api::{followed, operations};
use crate::media;

/// Writes the section.
pub(super) fn write(text: &mut String, table: &[OperationEntry], document: &Value) {
    text.push_str("\n## Operations\n\nWhat a status means where nothing else is said:\n\n");
    let usual = usual(document);
    for (status, meaning) in &usual {
        let _ = writeln!(text, "- {status}: {meaning}");
    }
    for (tag, about) in groups(document) {
        let _ = write!(text, "\n### {tag}\n\n{about}");
        text.push_str(if about.is_empty() { "" } else { "\n" });
        for (path, method, operation) in operations(document) {
            if operation["tags"][0] == tag {
                let _ = write!(text, "\n#### {} {path}\n\n", method.to_uppercase());
                describe(text, table, document, operation, &usual);
            }
        }
    }
}

/// The groups of operations with their descriptions, in the document's order.
fn groups(document: &Value) -> Vec<(&str, String)> {
    let named = document["tags"].as_array().into_iter().flatten();
    let mut groups: Vec<(&str, String)> = named
        .map(|tag| (word(&tag["name"]), one_line(&tag["description"])))
        .collect();
    for (_, _, operation) in operations(document) {
        let tag = word(&operation["tags"][0]);
        if groups.iter().all(|(known, _)| *known != tag) {
            groups.push((tag, String::new()));
        }
    }
    groups
}

/// The most common description of each status from 300 up.
fn usual(document: &Value) -> BTreeMap<String, String> {
    let mut counted: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for (_, _, operation) in operations(document) {
        for (status, response) in answers(document, operation).filter(|(status, _)| *status >= "3")
        {
            let meanings = counted.entry(status.to_owned()).or_default();
            *meanings
                .entry(one_line(&response["description"]))
                .or_default() += 1;
        }
    }
    counted
        .into_iter()
        .filter_map(|(status, meanings)| {
            let (meaning, _) = meanings.into_iter().max_by_key(|(_, count)| *count)?;
            Some((status, meaning))
        })
        .collect()
}

fn answers<'d>(
    document: &'d Value,
    operation: &'d Value,
) -> impl Iterator<Item = (&'d str, &'d Value)> {
    let answers = operation["responses"]
        .as_object()
        .into_iter()
        .flat_map(Map::iter);
    answers.map(|(status, answer)| (status.as_str(), followed(document, answer)))
}

fn describe(
    text: &mut String,
    table: &[OperationEntry],
    document: &Value,
    operation: &Value,
    usual: &BTreeMap<String, String>,
) {
    let id = word(&operation["operationId"]);
    let entry = table.iter().find(|entry| entry.route.id == id);
    // Operations in the document but not in the table are probes, the ledger's and those of links, which are open.
    let access = entry.map_or_else(|| "open".to_owned(), |entry| access(entry.route.access));
    let _ = write!(
        text,
        "`{id}` ({access}). {}.",
        word(&operation["summary"]).trim_end_matches('.')
    );
    let described = word(&operation["description"]);
    // The scope is stated above.
    let described = described.split("\n\nScope: ").next().unwrap_or_default();
    let _ = writeln!(text, " {}\n", one_line(&described.into()));
    parameters(text, document, operation);
    results(text, document, operation, usual);
}

fn parameters(text: &mut String, document: &Value, operation: &Value) {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    for parameter in parameters.map(|parameter| followed(document, parameter)) {
        let _ = writeln!(
            text,
            "- {} `{}` ({}{}): {}",
            word(&parameter["in"]),
            word(&parameter["name"]),
            kind(&parameter["schema"]),
            required(parameter),
            one_line(&parameter["description"])
        );
    }
    let body = followed(document, &operation["requestBody"]);
    if let Some(content) = body["content"]
        .as_object()
        .and_then(|content| content.values().next())
    {
        let kind = kind(&content["schema"]);
        let _ = writeln!(text, "- body ({kind}{})", required(body));
    }
}

fn required(asked: &Value) -> &'static str {
    match asked["required"] == true {
        true => ", required",
        false => "",
    }
}

fn results(
    text: &mut String,
    document: &Value,
    operation: &Value,
    usual: &BTreeMap<String, String>,
) {
    let mut refusals = Vec::new();
    for (status, response) in answers(document, operation) {
        let meaning = one_line(&response["description"]);
        if status < "3" {
            let content = response["content"]
                .as_object()
                .and_then(|content| content.iter().next());
            let what = content.map_or_else(String::new, |(media_type, content)| {
                match media_type.as_str() {
                    media::JSON => format!(" {}", kind(&content["schema"])),
                    other => format!(" {other}"),
                }
            });
            let _ = writeln!(text, "- answers {status}{what}: {meaning}");
        } else if usual.get(status) == Some(&meaning) {
            refusals.push(status.to_owned());
        } else {
            refusals.push(format!("{status} ({})", meaning.trim_end_matches('.')));
        }
    }
    let _ = writeln!(text, "- or {}", refusals.join(", "));
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
