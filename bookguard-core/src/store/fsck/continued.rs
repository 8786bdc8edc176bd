//! Checks the log's own entries: how it continued after losses, and which name it had when.
//!
//! Every continuation must open and begin where the previous one left off. The walk along the log checks that the
//! entries before a continuation give the root that it records.

use super::entry;
use super::{Check, Findings};
use crate::evidence::Continuation;
use crate::ledger::{Hash, VerifierKey};
use crate::log::Log;
use crate::store::conn::{Row, StoreError};
use crate::store::read;
use crate::store::read::own_entries;

/// The names the log had, and the heads at which it continued.
#[derive(Default)]
pub(super) struct Names {
    /// The name before the first continuation; `None` if there is none.
    first: Option<String>,
    /// The index of each continuation and the name from it on, in the order of the log.
    then: Vec<(u64, String)>,
    /// The index of each continuation and the root it records, if the walk has not reached it yet; the next one last.
    pub roots: Vec<(u64, Hash)>,
}

impl Names {
    /// The log's name when it had `size` entries; `None` if only the head can say it.
    fn at(&self, size: u64) -> Option<&str> {
        let begun = self.then.partition_point(|(index, _)| *index < size);
        match begun.checked_sub(1).and_then(|last| self.then.get(last)) {
            Some((_, name)) => Some(name),
            None => self.first.as_deref(),
        }
    }

    /// The key that verifies the log's checkpoints of this size.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a name that no log can have.
    pub fn key_at(&self, size: u64, log: &Log, head: &str) -> Result<VerifierKey, StoreError> {
        let signer = (log.signer(self.at(size).unwrap_or(head))).map_err(StoreError::Corrupt)?;
        Ok(signer.verifier().clone())
    }

    /// The name that the log's own entries give it now; `None` if it never continued under another name.
    pub fn last(&self) -> Option<&str> {
        self.then.last().map(|(_, name)| name.as_str())
    }
}

impl Check<'_> {
    /// Opens the log's own entries.
    pub(super) fn names(&mut self) -> Result<Names, StoreError> {
        let mut names = Names::default();
        let rows = own_entries(self.conn)?;
        for row in &rows {
            let index = row.size(0)?;
            match continuation(row) {
                Ok(continuation) => {
                    belongs(&mut self.findings, index, &continuation, &names, self.log)?;
                    names.roots.push((index, continuation.found.head.root));
                    names.first.get_or_insert(continuation.found.head.origin);
                    names.then.push((index, continuation.origin));
                }
                Err(why) => self.findings.add("entry", format!("entry {index}"), why),
            }
        }
        names.roots.reverse();
        self.counts.entries += rows.len() as u64;
        self.progress.step(rows.len() as u64);
        Ok(names)
    }
}

/// Reads a continuation whose leaf commits to the row, and whose values are spelled as the program spells them.
fn continuation(row: &Row) -> Result<Continuation, String> {
    entry::committed(row)?;
    Continuation::read(&read::entry(row).map_err(|e| e.to_string())?)
}

/// Checks that a continuation follows the previous one, under the log's own key.
fn belongs(
    findings: &mut Findings,
    index: u64,
    continuation: &Continuation,
    names: &Names,
    log: &Log,
) -> Result<(), StoreError> {
    let found = &continuation.found;
    let before = names.last().unwrap_or(&found.head.origin).to_owned();
    let under = |name: &str| {
        let signer = log.signer(name).map_err(StoreError::Corrupt)?;
        Ok::<_, StoreError>(signer.verifier().to_string())
    };
    for (value, said, implied) in [
        ("foundOrigin", &found.head.origin, before),
        ("foundVkey", &found.vkey, under(&found.head.origin)?),
        ("vkey", &continuation.vkey, under(&continuation.origin)?),
    ] {
        if *said != implied {
            let detail = format!("it says {said}, the entries before it and the key say {implied}");
            findings.add("entry", format!("entry {index} value {value}"), detail);
        }
    }
    Ok(())
}
