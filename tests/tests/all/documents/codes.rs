//! Compares docs/reference/errors.md with the sources: each code literal that makes an error has a row, and each row is a
//! literal in the sources. Other codes are checked by the tests that provoke them ([`bookguard_tests::codes`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use bookguard_core::model::{DeliveryProgress, DeliveryStatus, EventType};
use bookguard_core::webhook::FailureClass;
use bookguard_tests::codes::EXPLAINED;

use super::repository;

/// Returns the source files of the three crates, without tests and without the check of a database, whose findings are not
/// errors.
fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let crates = ["bookguard-core", "bookguard-server", "bookguard-cli"];
    let mut folders: Vec<PathBuf> = crates
        .map(|name| repository().join(name).join("src"))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("tests") && !path.ends_with("fsck") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !path.ends_with("tests.rs")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                files.push((path, product.to_owned()));
            }
        }
    }
    files
}

/// Returns whether a string literal that follows this text is the code of an error.
fn makes_an_error(before: &str) -> bool {
    // The innermost open call, and its arguments before the literal: in `a(b(c), "d")` that is `a`, not `b`.
    let before: String = before.chars().filter(|c| !c.is_whitespace()).collect();
    let Some((head, arguments)) = before.rsplit_once('(') else {
        return false;
    };
    if head.ends_with("conflict!") {
        return arguments.is_empty();
    }
    let name = head
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .next();
    let name = name.unwrap_or_default();
    let last = name.rsplit("::").next().unwrap_or_default();
    match last {
        "invalid" | "conflict" => name.contains("Error::") && arguments.is_empty(),
        "new" if name == "FieldError::new" => arguments.matches(',').count() == 1,
        "new" => arguments.starts_with("Kind::") && arguments.ends_with(','),
        "fault" if name == "Error::fault" => arguments.matches(',').count() == 1,
        "http" | "framing" => arguments.starts_with("StatusCode::") && arguments.ends_with(','),
        "fault" | "refused" | "fault_here" => arguments.is_empty(),
        "fault_at" | "query_fault" | "warning" => {
            arguments.ends_with(',') && arguments.matches(',').count() == 1
        }
        _ => false,
    }
}

/// Returns the codes that the sources make errors with, each with one file that does.
fn made() -> BTreeMap<String, PathBuf> {
    let mut made = BTreeMap::new();
    for (path, text) in sources() {
        // Every second piece between quotes is a literal. Escaped quotes only produce pieces that are not codes.
        let mut end = 0;
        for piece in text.split('"') {
            let begin = end;
            end += piece.len() + 1;
            let is_word = piece.len() > 1
                && piece
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
            if is_word && begin > 0 {
                let from = text[..begin - 1]
                    .char_indices()
                    .rev()
                    .nth(120)
                    .map_or(0, |(at, _)| at);
                if makes_an_error(&text[from..begin - 1]) {
                    made.insert(piece.to_owned(), path.clone());
                }
            }
        }
    }
    made
}

#[test]
fn every_code_is_explained() {
    let made = made();
    let count = made.len();
    assert!(count > 100, "only {count} codes were found: {made:?}");
    let missing: Vec<_> = made
        .iter()
        .filter(|(code, _)| !EXPLAINED.contains_key(*code))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/reference/errors.md does not explain {missing:#?}"
    );
}

#[test]
fn every_explained_code_is_one_of_the_product() {
    let sources = sources();
    let quoted = sources.iter().flat_map(|(_, text)| text.split('"'));
    let quoted: BTreeSet<&str> = quoted.collect();
    for code in EXPLAINED.keys() {
        assert!(
            quoted.contains(&**code),
            "no source knows {code}, which docs/reference/errors.md explains"
        );
    }
}

#[test]
fn a_literal_is_a_code_where_an_error_is_made_of_it() {
    for (before, expected) in [
        ("Err(Error::conflict(\n    ", true),
        ("Err(conflict!(\n    ", true),
        ("conflict!(\"a\", ", false),
        ("Error::new(Kind::Forbidden, ", true),
        ("Refusal::http(StatusCode::NOT_FOUND, ", true),
        ("Error::fault(\"/at\", ", true),
        ("Error::fault(", false),
        ("return v.fault(", true),
        ("form.fault_at(\"since\", ", true),
        ("form.fault_at(", false),
        ("form.optional(", false),
        ("Error::not_found(", false),
    ] {
        assert_eq!(makes_an_error(before), expected, "{before}");
    }
}

#[test]
fn every_event_and_every_failure_of_a_delivery_is_explained() {
    let page = std::fs::read_to_string(repository().join("docs/reference/events.md")).unwrap();
    let types: Vec<&str> = EventType::WORDS.iter().map(|(word, _)| *word).collect();
    let statuses = DeliveryStatus::WORDS.iter().map(|(word, _)| *word);
    let statuses: Vec<&str> = statuses.collect();
    let progress = DeliveryProgress::WORDS.iter().map(|(word, _)| *word);
    let progress: Vec<&str> = progress.collect();
    let failures: Vec<&str> = (FailureClass::WORDS.iter())
        .map(|(word, _)| *word)
        .collect();
    for word in types
        .iter()
        .chain(&statuses)
        .chain(&progress)
        .chain(&failures)
    {
        let row = format!("\n| `{word}` | ");
        let has_row = page.contains(&row);
        assert!(has_row, "docs/reference/events.md has no row for {word}");
    }
    // A verifier is written from this page alone.
    let page = std::fs::read_to_string(repository().join("docs/evidence-format.md")).unwrap();
    for word in failures {
        let named = page.contains(&format!("`{word}`"));
        assert!(named, "docs/evidence-format.md does not name {word}");
    }
}
