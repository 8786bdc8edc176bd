//! The table of a drill, for people and for programs.

use std::collections::BTreeMap;

use bookguard_core::store::drill::{Attacker, Mechanism};
use serde_json::{Value, json};

use super::judge::Judged;
use crate::output::table::Style;
use crate::text::plain;

/// The width of the sentences.
const SENTENCE: usize = 37;

pub(super) fn json(rows: &[Judged], seconds: f64) -> Value {
    let data = rows.iter().map(|row| {
        let why: BTreeMap<Mechanism, &str> = row
            .cells()
            .filter_map(|(mechanism, _, why)| Some((mechanism, why?)))
            .collect();
        let noticed: Vec<&Mechanism> = why.keys().collect();
        json!({
            "way": row.way.name,
            "by": row.way.by,
            "what": row.way.what,
            "noticedBy": noticed,
            "expected": row.way.noticed_by,
            "asExpected": row.as_expected(),
            "why": why,
        })
    });
    json!({
        "asExpected": rows.iter().all(Judged::as_expected),
        "seconds": seconds,
        "data": data.collect::<Vec<_>>(),
    })
}

pub(super) fn table(rows: &[Judged], seconds: f64, style: Style) -> String {
    let mut lines = Vec::new();
    let heads = Mechanism::ALL.iter().map(|it| format!("  {}", it.words()));
    let heads: String = heads.collect();
    let unnoticed = |row: &&Judged| row.way.noticed_by.is_empty();
    for (by, title) in [
        (Attacker::Disk, "With the disk"),
        (Attacker::DiskAndKey, "With the disk and the key"),
        (Attacker::Key, "With the key, elsewhere"),
        (Attacker::Messenger, "In between"),
    ] {
        let these = rows.iter();
        let these = these.filter(|row| row.way.by == by && !unnoticed(row));
        group(&mut lines, title, &heads, these, style);
    }
    let these = rows.iter().filter(unnoticed);
    group(&mut lines, "What nothing notices", &heads, these, style);
    for row in rows.iter().filter(|row| !row.as_expected()) {
        lines.push(style.bad(&format!(
            "Not as documented: {} ({})",
            row.way.what, row.way.name
        )));
        for (mechanism, expected, why) in row.cells() {
            match (expected, why) {
                (true, None) => lines.push(format!(
                    "  {} should notice it, and does not.",
                    mechanism.words()
                )),
                (false, Some(why)) => lines.push(format!(
                    "  {} is not known to notice it: {}",
                    mechanism.words(),
                    plain(why)
                )),
                _ => {}
            }
        }
    }
    let is_noticed = |row: &&Judged| row.why.iter().any(Option::is_some);
    let noticed = rows.iter().filter(is_noticed).count();
    lines.push(format!(
        "{} ways in {seconds:.1} s; {noticed} were noticed. The database was only read, and the copies are gone.",
        rows.len()
    ));
    if rows.iter().all(Judged::as_expected) {
        lines.push(style.good("Everything was noticed as documented."));
    }
    lines.join("\n")
}

fn group<'a>(
    lines: &mut Vec<String>,
    title: &str,
    heads: &str,
    rows: impl Iterator<Item = &'a Judged>,
    style: Style,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    lines.push(style.bold(&format!("{title:SENTENCE$}{heads}")));
    for row in rows {
        let mut said = wrapped(row.way.what).into_iter();
        let first = said.next().unwrap_or_default();
        let mut cells = String::new();
        for (mechanism, expected, why) in row.cells() {
            let (mark, width) = (mark(expected, why), mechanism.words().len());
            let padded = format!("{mark:width$}");
            let painted = match (expected, why.is_some()) {
                (true, false) | (false, true) => style.bad(&padded),
                (true, true) => style.good(&padded),
                (false, false) => padded,
            };
            cells.push_str("  ");
            cells.push_str(&painted);
        }
        lines.push(format!("{first:SENTENCE$}{cells}").trim_end().to_owned());
        lines.extend(said.map(|line| format!("  {line}")));
    }
    lines.push(String::new());
}

fn mark(expected: bool, why: Option<&str>) -> &'static str {
    match (expected, why) {
        (_, Some(_)) => "yes",
        (true, None) => "NO",
        (false, None) => "-",
    }
}

/// A sentence in lines that are not too wide.
fn wrapped(sentence: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        // The lines after the first are indented.
        let most = SENTENCE - 2;
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use bookguard_core::store::drill::WAYS;

    use super::*;

    #[test]
    fn what_is_not_noticed_as_documented_stands_out() {
        let way = WAYS.iter().find(|way| way.name == "bit").unwrap();
        let mut why = [const { None }; Mechanism::ALL.len()];
        for (cell, mechanism) in why.iter_mut().zip(Mechanism::ALL) {
            let noticed = way.noticed_by.contains(&mechanism);
            *cell = noticed.then(|| "it was changed".to_owned());
        }
        let right = Judged {
            way,
            why: why.clone(),
        };
        assert!(right.as_expected());
        assert!(table(&[right], 1.0, Style::default()).ends_with("as documented."));
        [why[0], why[4]] = [None, Some("a fork\u{1b}[2J".to_owned())];
        let wrong = [Judged { way, why }];
        let shown = table(&wrong, 1.0, Style::default());
        for words in [
            " NO ",
            "Not as documented: Flip one bit of an entry in the database's file (bit)",
            "verify should notice it, and does not.",
            "witness is not known to notice it: a fork\u{fffd}[2J",
        ] {
            assert!(shown.contains(words), "{words:?} in {shown}");
        }
        assert!(
            shown.lines().all(|line| line.chars().count() <= 100),
            "{shown}"
        );
        assert_eq!(json(&wrong, 1.0)["asExpected"], false);
    }

    #[test]
    fn every_way_has_a_name_of_its_own_and_fits() {
        for (at, way) in WAYS.iter().enumerate() {
            assert!(
                WAYS[..at]
                    .iter()
                    .all(|other| other.name != way.name && other.what != way.what)
            );
            assert!(way.noticed_by.is_sorted(), "{}", way.name);
            assert!(
                !way.what.ends_with('.') && !way.what.contains('|'),
                "{}",
                way.what
            );
        }
    }
}
