//! The schema in PostgreSQL's dialect, and the references that it leaves out.
//!
//! A reference that the server enforces costs a query and a lock per written row: a quarter of what a booking costs the
//! server. The rules and the writer ensure that referenced rows exist, and nothing that is referred to is deleted. So
//! the server does not enforce references; `fsck` looks for missing rows.

use std::sync::LazyLock;

use crate::store::conn::{Conn, StoreError};
use crate::store::schema::STEPS;

/// A column that holds the key of another table's row, or null.
struct Reference {
    table: &'static str,
    column: &'static str,
    parent: &'static str,
    /// Counts the rows whose parent is missing.
    question: String,
}

/// Every reference of the schema.
static REFERENCES: LazyLock<Vec<Reference>> =
    LazyLock::new(|| STEPS.iter().flat_map(|step| references(step.sql)).collect());

/// Translates a step of the schema to PostgreSQL's dialect. Text sorts by its bytes, as in SQLite.
pub(super) fn in_own_words(script: &str) -> String {
    let mut own = String::with_capacity(script.len() + script.len() / 8);
    for line in script.lines() {
        // Only SQLite can keep a table's rows in the order of their keys.
        let line = &line.replace(", WITHOUT ROWID", "");
        match line.split_once(" REFERENCES ") {
            Some((before, clause)) => {
                push_words(&mut own, before);
                own.push_str(if clause.ends_with(',') { "," } else { "" });
            }
            None => push_words(&mut own, line),
        }
        own.push('\n');
    }
    own
}

fn push_words(own: &mut String, line: &str) {
    let mut rest = line;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_ascii_alphabetic() || c == '_';
        let (word, later) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let (between, later) = later.split_at(later.find(is_word).unwrap_or(later.len()));
        own.push_str(match word {
            "INTEGER" => "BIGINT",
            "BLOB" => "BYTEA",
            "TEXT" => "TEXT COLLATE \"C\"",
            "STRICT" => "",
            other => other,
        });
        own.push_str(between);
        rest = later;
    }
}

/// The references of a step, each on the line of its column.
fn references(script: &'static str) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut table = "";
    for line in script.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
            table = rest.split_whitespace().next().unwrap_or_default();
        }
        let Some((_, clause)) = line.split_once(" REFERENCES ") else {
            continue;
        };
        let mut clause = clause
            .split([' ', '(', ')'])
            .filter(|word| !word.is_empty());
        let (parent, key) = (
            clause.next().unwrap_or_default(),
            clause.next().unwrap_or_default(),
        );
        found.push(Reference {
            table,
            column: first,
            parent,
            question: format!(
                "SELECT COUNT(*) FROM {table} r WHERE r.{first} IS NOT NULL \
                 AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE p.{key} = r.{first})"
            ),
        });
    }
    found
}

/// References to missing rows, one sentence per reference, as of one moment.
pub(super) fn missing(conn: &mut dyn Conn) -> Result<Vec<String>, StoreError> {
    conn.begin(&[])?;
    let mut faults = Vec::new();
    for reference in REFERENCES.iter() {
        let count = conn.count(&reference.question, vec![])?;
        let Reference {
            table,
            column,
            parent,
            ..
        } = reference;
        if count > 0 {
            let (rows, refer) = if count == 1 {
                ("row", "refers")
            } else {
                ("rows", "refer")
            };
            faults.push(format!(
                "{count} {rows} of table {table} {refer} by {column} to a row of table {parent} that is not there"
            ));
        }
    }
    conn.rollback();
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_spoken_in_its_own_words() {
        let script = "CREATE TABLE t (n INTEGER NOT NULL, b BLOB, t TEXT NOT NULL PRIMARY KEY, TEXTUAL INTEGER) STRICT;\n\
            CREATE TABLE u (\n  t TEXT REFERENCES t (t) DEFERRABLE INITIALLY DEFERRED,\n  n INTEGER NOT NULL REFERENCES t (n)\n) STRICT, WITHOUT ROWID;";
        assert_eq!(
            in_own_words(script),
            "CREATE TABLE t (n BIGINT NOT NULL, b BYTEA, t TEXT COLLATE \"C\" NOT NULL PRIMARY KEY, TEXTUAL BIGINT) ;\n\
             CREATE TABLE u (\n  t TEXT COLLATE \"C\",\n  n BIGINT NOT NULL\n) ;\n"
        );
    }

    #[test]
    fn every_reference_that_is_left_out_is_looked_for() {
        let written: usize = STEPS
            .iter()
            .map(|step| step.sql.matches(" REFERENCES ").count())
            .sum();
        assert_eq!(REFERENCES.len(), written);
        let own: String = STEPS.iter().map(|step| in_own_words(step.sql)).collect();
        assert!(
            !own.contains("REFERENCES") && !own.contains("DEFERRABLE"),
            "{own}"
        );
        let first = &REFERENCES[0];
        assert_eq!(
            (first.table, first.column, first.parent),
            ("api_key", "partner_id", "partner")
        );
    }
}
