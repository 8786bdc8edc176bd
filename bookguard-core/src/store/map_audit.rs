//! What an audit of a log's maps keeps between two looks, in a file of its own: whoever audits a log has no Bookguard database.
//!
//! The file holds the map of all entries read so far, so its next step costs what its entries cost. Invariants: each step is one
//! transaction, so the file says of no entry that it was audited before it was, whenever a process dies; a lie stays in it. A file that
//! is lost costs time, not truth: the log is read again from its first entry.

use std::path::Path;

use super::StoreError;
use super::conn::{Conn, Statement, args, insert, select_in};
use super::epochs;
use super::sqlite;
use crate::evidence::{AuditedTo, MapAudit, MapCommits, MapFault};
use crate::ledger::hash::EMPTY_ROOT;
use crate::ledger::map::pages::{MapPage, PageId, Pages};
use crate::ledger::{Checkpoint, Hash};

/// The tables. `map_commit` holds the commitments that the next entry with a map may have, by the number of entries.
const SCRIPT: &str = "
CREATE TABLE IF NOT EXISTS audited (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    origin   TEXT NOT NULL,
    size     INTEGER NOT NULL,
    root     BLOB NOT NULL,
    covered  INTEGER NOT NULL,
    maps     INTEGER NOT NULL,
    note     TEXT NOT NULL,
    fault    TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS map_page (
    id    BLOB NOT NULL PRIMARY KEY,
    body  BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS map_commit (
    size       INTEGER NOT NULL PRIMARY KEY,
    commit_to  BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS map_commit_to ON map_commit (commit_to);
";
const AUDITED: &str =
    "SELECT origin, size, root, covered, maps, note, fault FROM audited WHERE id = 1";
const COMMITS: &str = "SELECT commit_to, size FROM map_commit WHERE commit_to IN ({})";

/// The file of an audit.
pub struct AuditFile {
    conn: Box<dyn Conn>,
    origin: String,
    to: AuditedTo,
    root: Hash,
    note: String,
    fault: Option<String>,
}

impl AuditFile {
    /// Opens the file of an audit of the log with this name, and makes it if it is not there. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]; a file of another log is [`StoreError::Corrupt`].
    pub fn open(path: &Path, origin: &str) -> Result<Self, StoreError> {
        let mut conn = sqlite::open_other(path, ["audited", "map_page"], SCRIPT)?;
        let row = conn.first(AUDITED, vec![])?;
        let mut file = Self {
            conn,
            origin: origin.to_owned(),
            to: AuditedTo::default(),
            root: EMPTY_ROOT,
            note: String::new(),
            fault: None,
        };
        let Some(row) = row else { return Ok(file) };
        if row.text(0)? != origin {
            let other = row.text(0)?;
            return Err(StoreError::Corrupt(format!(
                "it belongs to the log {other}"
            )));
        }
        file.to = AuditedTo {
            size: row.size(1)?,
            covered: row.size(3)?,
            maps: row.size(4)?,
        };
        file.root = Hash(row.bytes(2)?);
        row.text(5)?.clone_into(&mut file.note);
        file.fault = row.maybe_text(6)?.map(str::to_owned);
        Ok(file)
    }

    /// The beginning of the log that was audited.
    #[must_use]
    pub fn audited(&self) -> Checkpoint {
        Checkpoint {
            origin: self.origin.clone(),
            size: self.to.size,
            root: self.root,
        }
    }

    /// How far the audit has got.
    #[must_use]
    pub fn to(&self) -> AuditedTo {
        self.to
    }

    /// The signed checkpoint up to which the log was being read, and which covers everything audited; empty at first.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }

    /// The lie that was found. Nothing is audited after it.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Audits the next entries of the log and keeps the result. `root` is that of the log with them, and `note` the signed
    /// checkpoint under which they were read. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was kept then.
    pub fn take<E: AsRef<[u8]>>(
        &mut self,
        entries: &[E],
        (root, note): (Hash, &str),
    ) -> Result<Option<MapFault>, StoreError> {
        let corrupt = |e: &dyn std::fmt::Display| StoreError::Corrupt(e.to_string());
        let step = MapAudit::new(self.to, entries);
        let pages = self.pages(&step)?;
        let known = self.known(&step)?;
        let audited = step.audit(pages, &known).map_err(|e| corrupt(&e))?;
        let (to, kept, fault) = match &audited {
            Ok(audited) => (audited.to, Some(audited), None),
            Err(fault) => (self.to, None, Some(fault.to_string())),
        };
        let root = if fault.is_some() { self.root } else { root };
        let changed: Vec<(Vec<u8>, Vec<u8>)> = kept
            .iter()
            .flat_map(|kept| kept.pages.changed())
            .map(|(id, page)| (id.to_bytes(), page.to_bytes()))
            .collect();
        let changed: Vec<&(Vec<u8>, Vec<u8>)> = changed.iter().collect();
        let open: Vec<(&[u8; 32], &u64)> = kept.iter().flat_map(|kept| &kept.open).collect();
        let mut statements = Vec::new();
        epochs::push_pages(&mut statements, &changed);
        insert(
            &mut statements,
            "INSERT INTO map_commit (size, commit_to) VALUES {}",
            &open,
            |(commit, size), args| args.extend([(**size).into(), (*commit).into()]),
        );
        statements.push(Statement::new(
            "DELETE FROM map_commit WHERE size <= $1",
            args![to.covered],
        ));
        statements.push(Statement::new(
            "INSERT INTO audited (id, origin, size, root, covered, maps, note, fault) VALUES (1, $1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (id) DO UPDATE SET size = excluded.size, root = excluded.root, covered = excluded.covered, \
             maps = excluded.maps, note = excluded.note, fault = excluded.fault",
            args![self.origin.as_str(), to.size, root.as_bytes(), to.covered, to.maps, note, fault.as_deref()],
        ));
        self.conn.write(&statements)?;
        note.clone_into(&mut self.note);
        (self.to, self.root, self.fault) = (to, root, fault);
        Ok(audited.err())
    }

    /// The pages on the paths of the entries' streams.
    fn pages(&mut self, step: &MapAudit) -> Result<Pages, StoreError> {
        Pages::load(&step.keys(), |ids| {
            let names = epochs::names(ids);
            let found = self.conn.run(&epochs::asking(&names))?;
            // There are no pages while no entry was a leaf.
            if *ids == [PageId::ROOT] && found.iter().all(|found| found.rows.is_empty()) {
                return Ok(vec![(PageId::ROOT, MapPage::default())]);
            }
            epochs::all_of(ids, &found)
        })
    }

    /// Which of the entries' commitments are those of maps of earlier entries.
    fn known(&mut self, step: &MapAudit) -> Result<MapCommits, StoreError> {
        let commits: Vec<Vec<u8>> = step.commits().map(|commit| commit.to_vec()).collect();
        let Some(statement) = select_in(COMMITS, &commits) else {
            return Ok(MapCommits::new());
        };
        let rows = self.conn.one(statement)?.rows;
        rows.iter()
            .map(|row| Ok((row.bytes(0)?, row.size(1)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
