//! The log's own entries: how it went on after losses, and which name it had when.
//!
//! Every continuation must open, and begin where the one before it left off; that the entries before it give the root it
//! says is for the walk along the log to see.

use super::entry;
use super::{Check, Findings};
use crate::evidence::Continuation;
use crate::ledger::{Hash, VerifierKey};
use crate::log::Log;
use crate::store::conn::{Row, StoreError};
use crate::store::read;
use crate::store::read::own_entries;

/// The names the log had, and what it went on from.
#[derive(Default)]
pub(super) struct Names {
    /// The name before every continuation; `None` when there was none.
    first: Option<String>,
    /// Index of the entry and the name from it on, in the order of the log.
    then: Vec<(u64, String)>,
    /// Index and root, not yet met by the walk, the next one last.
    pub roots: Vec<(u64, Hash)>,
}

impl Names {
    /// The log's name when it had `size` entries; `None` when only the head can say it.
    fn at(&self, size: u64) -> Option<&str> {
        let begun = self.then.partition_point(|(index, _)| *index < size);
        match begun.checked_sub(1).and_then(|last| self.then.get(last)) {
            Some((_, name)) => Some(name),
            None => self.first.as_deref(),
        }
    }

    /// The key that the log's checkpoints of this size verify under.
    pub fn key_at(&self, size: u64, log: &Log, head: &str) -> Result<VerifierKey, StoreError> {
        let signer = (log.signer(self.at(size).unwrap_or(head))).map_err(StoreError::Corrupt)?;
        Ok(signer.verifier().clone())
    }

    /// The name the log has now; `None` when it never went on under another.
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

/// What a row says, if it is what its leaf commits to, spelled as the program does.
fn continuation(row: &Row) -> Result<Continuation, String> {
    entry::committed(row)?;
    Continuation::read(&read::entry(row).map_err(|e| e.to_string())?)
}

/// That it follows the one before it, under the log's own key.
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
            findings.add(
                "entry",
                format!("entry {index} value {value}"),
                format!("it says {said}, the entries before it and the key say {implied}"),
            );
        }
    }
    if found.head == continuation.seen {
        findings.add(
            "entry",
            format!("entry {index}"),
            "it says that the log went on after a loss, and that nothing was lost",
        );
    }
    Ok(())
}
