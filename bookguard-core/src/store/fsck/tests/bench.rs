//! A whole database beside a running service, changed behind its back and restored.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use rusqlite::types::Value;
use rusqlite::{Connection, ToSql};

use super::super::{Finding, LedgerReport};
use super::fixture::{everything, open};
use crate::service::{Closing, Service};

/// A whole database, changed in place and restored.
pub(super) struct Bench {
    folder: tempfile::TempDir,
    clock: Arc<AtomicI64>,
    pub service: (Arc<Service>, Closing),
    pub raw: Connection,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = everything(&folder.path().join("b.db"));
        Self::on(folder, clock)
    }

    /// Returns a maker of benches on copies. Copies have the same rows with the same random ids, in the same order.
    pub fn copier(&self) -> impl Fn() -> Self + Sync + use<> {
        let (whole, clock) = (self.folder.path().to_owned(), Arc::clone(&self.clock));
        move || {
            let folder = tempfile::tempdir().unwrap();
            for file in std::fs::read_dir(&whole).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                let to = match name.as_str() {
                    "whole.db" => "b.db",
                    // The key and the guard.
                    name if name.starts_with("b.db.") => name,
                    _ => continue,
                };
                std::fs::copy(whole.join(&name), folder.path().join(to)).unwrap();
            }
            Self::on(folder, Arc::clone(&clock))
        }
    }

    fn on(folder: tempfile::TempDir, clock: Arc<AtomicI64>) -> Self {
        let db = folder.path().join("b.db");
        let service = open(&db, &clock).unwrap();
        std::fs::copy(&db, folder.path().join("whole.db")).unwrap();
        let raw = Connection::open(&db).unwrap();
        raw.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF")
            .unwrap();
        raw.execute_batch(&format!(
            "ATTACH '{}' AS whole",
            folder.path().join("whole.db").display()
        ))
        .unwrap();
        Self {
            folder,
            clock,
            service,
            raw,
        }
    }

    pub fn verify(&self) -> LedgerReport {
        let (service, _) = &self.service;
        service.verify_ledger(false, |_, _| {}).unwrap()
    }

    /// The findings after `sql` changed one row of a table; `None` if the schema does not allow it.
    pub fn changed(&mut self, table: &str, sql: &str, args: &[&dyn ToSql]) -> Option<Vec<Finding>> {
        let changed = self.raw.execute(sql, args);
        if !matches!(changed, Ok(1..)) {
            return None;
        }
        let report = self.verify();
        let mut findings = report.findings;
        // Warnings about times count too.
        findings.extend(report.warnings);
        if findings.is_empty() {
            findings.extend(self.refusal());
        }
        let back = format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM whole.{table}"
        );
        self.raw.execute_batch(&back).unwrap();
        Some(findings)
    }

    /// The error from opening the database.
    fn refusal(&self) -> Option<Finding> {
        let opened = open(&self.folder.path().join("b.db"), &self.clock);
        match opened {
            Ok((service, closing)) => {
                drop(service);
                closing.wait();
                None
            }
            Err(detail) => Some(Finding {
                what: "opening",
                place: String::new(),
                detail: detail.to_string(),
            }),
        }
    }

    pub fn strings(&self, sql: &str) -> Vec<String> {
        let mut statement = self.raw.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    pub fn tables(&self) -> Vec<String> {
        self.strings(
            "SELECT name FROM whole.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
        )
    }

    pub fn columns(&self, table: &str) -> Vec<String> {
        self.strings(&format!("SELECT name FROM pragma_table_info('{table}')"))
    }

    pub fn keys(&self, table: &str) -> Vec<String> {
        self.strings(&format!(
            "SELECT name FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk"
        ))
    }

    /// The rows of a table, each as its key and its cells.
    pub fn rows(&self, table: &str) -> Vec<Vec<Value>> {
        let mut statement = self
            .raw
            .prepare(&format!("SELECT * FROM whole.{table}"))
            .unwrap();
        let width = statement.column_count();
        let rows = statement
            .query_map([], |row| (0..width).map(|column| row.get(column)).collect())
            .unwrap();
        rows.map(Result::unwrap).collect()
    }
}
