//! Checks a database file that nobody writes, as `ledger verify --backup` does, and writes nothing itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BackupError, no_ledger, refused};
use crate::clock::Clock;
use crate::guard::{self, Guard};
use crate::key_file::{self, LedgerKey, LedgerKeySource};
use crate::ledger::rollback::PublishedHead;
use crate::log::Log;
use crate::store::conn::StoreError;
use crate::store::fsck::{self, LedgerReport};
use crate::store::{Database, Store, head};

/// What a check needs besides the file.
#[derive(Debug, Clone)]
pub struct BackupCheck {
    /// Where the ledger key is.
    pub ledger_key: LedgerKeySource,
    /// The guard's file.
    pub guard_file: PathBuf,
}

impl BackupCheck {
    /// The check of backups of this database: with its key and its guard, where they are unless given.
    pub fn new(
        database: &Database,
        ledger_key: Option<LedgerKeySource>,
        guard_file: Option<PathBuf>,
    ) -> Self {
        let beside = || LedgerKeySource::File(key_file::default_path(database.file()));
        let ledger_key = ledger_key.unwrap_or_else(beside);
        let beside = || guard::default_path(ledger_key.path(), database.file());
        Self {
            guard_file: guard_file.unwrap_or_else(beside),
            ledger_key,
        }
    }

    /// Checks the file against its ledger. If the ledger key cannot be read, checks only the file's structure, and
    /// returns the reason in place of the report.
    ///
    /// # Errors
    /// [`BackupError::NotVerified`] if it cannot be read, or its structure is damaged; `wrong_ledger_key`; `no_ledger`.
    /// What the ledger contradicts is in the report.
    pub(super) fn run(
        &self,
        file: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Result<LedgerReport, String>, BackupError> {
        let store = Store::still(file).map_err(|e| unreadable(&e))?;
        let head = store.head().map_err(|e| unreadable(&e))?;
        let head = head.ok_or_else(|| no_ledger(file))?;
        let key = match self.key() {
            Ok(key) => key,
            Err(missing) => {
                let faults = store.faults().map_err(|e| unreadable(&e))?;
                if let Some(fault) = faults.first() {
                    return Err(BackupError::NotVerified(format!(
                        "its structure is damaged: {fault}"
                    )));
                }
                return Ok(Err(missing));
            }
        };
        let is_its_key = key.is_of(&head.origin, &head.vkey);
        if !is_its_key.map_err(BackupError::Failed)? {
            return Err(refused(
                "wrong_ledger_key",
                format!(
                    "its ledger (log {}) was signed with another key than {}; name the key that was made with it with --ledger-key",
                    head.origin, self.ledger_key
                ),
            ));
        }
        let log = self.log(key)?;
        let moment = (Clock::System.now(), true);
        fsck::verify(&store, &log.seal(), &log, moment, progress)
            .map(Ok)
            .map_err(|e| unreadable(&e))
    }

    /// The head that was last published, as far as the guard can be read.
    pub(super) fn published(&self) -> Option<Arc<PublishedHead>> {
        let guard = Guard::open(self.guard_file.clone()).ok()?;
        guard.seen()
    }

    /// What this file lacks of `published` and of what it notes itself, in words.
    pub(super) fn lost(
        &self,
        file: &Path,
        published: Option<&PublishedHead>,
    ) -> Result<Option<String>, BackupError> {
        let log = self.log(self.key().map_err(BackupError::Failed)?)?;
        let lost = || {
            let mut conn = Store::still(file)?.reader()?;
            let Some(stored) = head(&mut *conn)? else {
                return Ok(None);
            };
            let lost = log.check(&mut *conn, None, published, &stored)?;
            Ok(lost.map(|lost| lost.to_string()))
        };
        lost().map_err(|e| unreadable(&e))
    }

    /// Whether the ledger key can be read.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.key().is_ok()
    }

    /// The ledger key, or why there is none.
    pub(super) fn key(&self) -> Result<LedgerKey, String> {
        let found = LedgerKey::find(&self.ledger_key)?;
        found.ok_or_else(|| format!("{} is missing", self.ledger_key))
    }

    /// The log with this key, as this node saw it last.
    pub(super) fn log(&self, key: LedgerKey) -> Result<Log, BackupError> {
        let guard = Guard::open(self.guard_file.clone()).map_err(BackupError::Failed)?;
        Ok(Log::new(key, guard))
    }
}

/// The sentence about findings; `None` if there are none.
pub(super) fn contradictions<'a>(
    findings: impl Iterator<Item = &'a fsck::Finding>,
    more: u64,
) -> Option<String> {
    let mut findings = findings.peekable();
    let first = findings.peek()?.to_string();
    let count = findings.count() as u64 + more;
    let things = if count == 1 { "thing is" } else { "things are" };
    Some(format!(
        "{count} {things} not as its ledger says, the first: {first}"
    ))
}

pub(super) fn unreadable(error: &StoreError) -> BackupError {
    match error {
        // The database may be sound.
        StoreError::Newer { .. }
        | StoreError::Older { .. }
        | StoreError::Full
        | StoreError::ReadOnly => BackupError::Failed(error.to_string()),
        _ => BackupError::NotVerified(error.to_string()),
    }
}
