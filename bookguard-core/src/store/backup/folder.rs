//! A folder of backups, which are named by their time. The newest are kept.
//!
//! A backup is copied into a draft and checked there, so whatever has a backup's name was verified against its ledger. Invariants: one
//! process at a time works in the folder. Only what was made here for the same ledger is deleted, and never the backup just made.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::check::{contradictions, unreadable};
use super::{
    BackedUp, BackupCheck, BackupError, Draft, cannot_write, copied, file_of, in_name, refused,
    remove, with_end,
};
use crate::clock::Clock;
use crate::limits::CLOCK_SKEW_MS;
use crate::model::Timestamp;
use crate::private;
use crate::store::{Database, sqlite};

/// What a copy that did not verify is called: the backup's name with this end.
const FAILED: &str = ".failed";
/// What a copy is called that could not be checked against its ledger.
const UNVERIFIED: &str = ".unverified";

/// A folder of backups, in which nobody else makes or deletes any.
pub struct BackupFolder {
    path: PathBuf,
    _lock: File,
}

/// A backup that was verified and got its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBackup {
    /// Its file.
    pub file: PathBuf,
    /// What it holds.
    pub made: BackedUp,
    /// The older backups that were deleted.
    pub deleted: Vec<PathBuf>,
    /// What the operator should know of the folder.
    pub warnings: Vec<String>,
}

impl BackupFolder {
    /// Takes the folder, and removes what a killed process left in it.
    ///
    /// # Errors
    /// `backup_running`; [`BackupError::Failed`] if the folder does not exist.
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let fail = |e: &io::Error| {
            let path = path.display();
            BackupError::Failed(match e.kind() {
                io::ErrorKind::NotFound => format!(
                    "the folder {path} does not exist; make it first: `mkdir -m 700 {path}`"
                ),
                io::ErrorKind::NotADirectory => {
                    format!(
                        "{path} is not a folder; leave out --keep and --every for a single file"
                    )
                }
                _ => format!("the folder {path} cannot be used: {e}"),
            })
        };
        if !path.metadata().map_err(|e| fail(&e))?.is_dir() {
            return Err(fail(&io::ErrorKind::NotADirectory.into()));
        }
        let lock = File::open(path).map_err(|e| fail(&e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(refused(
                    "backup_running",
                    format!(
                        "another backup into {} is under way; wait until it ends",
                        path.display()
                    ),
                ));
            }
            Err(TryLockError::Error(e)) => return Err(fail(&e)),
        }
        let folder = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        folder.sweep();
        Ok(folder)
    }

    /// Removes drafts, which nobody is making.
    fn sweep(&self) {
        for name in names(&self.path).unwrap_or_default() {
            if Draft::finished(&name).and_then(time_of).is_some() {
                remove(&self.path.join(name));
            }
        }
    }

    /// Backs up the database as [`backup`](super::backup) does, verifies the copy, and deletes the oldest backups beyond the newest
    /// `keep`.
    ///
    /// # Errors
    /// As [`BackupError`] lists. The last copy that did not verify stays, and so does the last one for whose check there was no ledger
    /// key, under names that are not a backup's.
    pub fn back_up(
        &self,
        database: &Database,
        check: &BackupCheck,
        keep: usize,
        reserve: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<KeptBackup, BackupError> {
        let began = Instant::now();
        if let Some(itself) = self.holding(file_of(database)?) {
            let itself = itself.display();
            return Err(refused(
                "same_database",
                format!(
                    "{itself} is the database itself, and has a backup's name in the folder of the backups, where it would be deleted as \
                     an old one. Stop the server, restore {itself} to another place with `bookguard restore`, and serve that"
                ),
            ));
        }
        // Before the database is read: if it is sound, it has what was published until now.
        let published = check.published();
        let name = name_at(Clock::System.now());
        let file = self.path.join(&name);
        let (draft, made) = copied((database, sqlite::Use::Live), &file, reserve, progress)?;
        let head = sqlite::head_of(&draft.0).map_err(|e| unreadable(&e))?;
        let head = head.filter(|head| head.arriving_from().is_none());
        if let Some(to) = head.and_then(|head| head.moved_to) {
            return Err(refused(
                "ledger_moved",
                format!(
                    "the ledger of {database} was moved to {to} and continues there: back that up"
                ),
            ));
        }
        let contradicted = match check.run(&draft.0, progress) {
            Ok(Ok(report)) => contradictions(report.findings.iter(), report.more),
            Ok(Err(why)) => {
                let aside = self.set_aside(&draft, &name, UNVERIFIED)?;
                return Err(BackupError::Unchecked(format!(
                    "only the structure of the copy was checked, so it is not counted as a backup, and none was deleted for it: {why}. It was \
                     set aside as {}; give this command the ledger key (ledger_key), and back up again",
                    aside.display()
                )));
            }
            Err(BackupError::NotVerified(why)) => Some(why),
            Err(error) => return Err(error),
        };
        if let Some(why) = contradicted {
            let aside = self.set_aside(&draft, &name, FAILED)?;
            return Err(BackupError::NotVerified(format!(
                "the copy does not verify, so it is not counted as a backup: {why}. It was set aside as {}; check the database with `bookguard \
                 ledger verify`, and then both disks",
                aside.display()
            )));
        }
        // While it is a draft, a look that fails leaves nothing behind.
        let lost = check.lost(&draft.0, published.as_deref())?;
        draft.publish(&file)?;
        let mut warnings = private::readable_folder(&self.path).into_iter().collect();
        let deleted = match lost {
            None => self.delete_old(&file, keep, &mut warnings),
            Some(lost) => {
                warnings.push(format!(
                    "no older backup was deleted, because one may hold what the database lacks: {lost}. Once that is brought back, or \
                     its loss accepted, old backups are deleted again"
                ));
                Vec::new()
            }
        };
        Ok(KeptBackup {
            made: BackedUp {
                elapsed: began.elapsed(),
                ..made
            },
            file,
            deleted,
            warnings,
        })
    }

    /// The backup that is this database itself, if one is.
    fn holding(&self, database: &Path) -> Option<PathBuf> {
        let itself = private::identity(database)?;
        let names = names(&self.path).unwrap_or_default().into_iter();
        let mut backups = names
            .filter(|name| time_of(name).is_some())
            .map(|name| self.path.join(name));
        backups.find(|backup| private::identity(backup) == Some(itself))
    }

    /// Keeps a copy that is not a backup under its name with this end, in place of the last one.
    fn set_aside(&self, draft: &Draft, name: &str, end: &str) -> Result<PathBuf, BackupError> {
        let aside = with_end(&self.path.join(name), end);
        fs::rename(&draft.0, &aside).map_err(|error| cannot_write(&aside, &error))?;
        for older in names(&self.path).unwrap_or_default() {
            let made_here = older.strip_suffix(end).and_then(time_of).is_some();
            if made_here && self.path.join(&older) != aside {
                let _ = fs::remove_file(self.path.join(older));
            }
        }
        Ok(aside)
    }

    /// Deletes the oldest backups of the ledger in `made`, but that one. The ledger tells which those are, because the clock that gave
    /// them their names may have been wrong.
    fn delete_old(&self, made: &Path, keep: usize, warnings: &mut Vec<String>) -> Vec<PathBuf> {
        let Ok(Some(own)) = sqlite::head_of(made) else {
            return Vec::new();
        };
        let mut others = Vec::new();
        for name in names(&self.path).unwrap_or_default() {
            let file = self.path.join(&name);
            if time_of(&name).is_none() || file == made {
                continue;
            }
            match sqlite::head_of(&file) {
                Ok(Some(head)) if head.has_key_of(&own.vkey) => {
                    // Under a new name, a log continues from where it lost entries.
                    others.push((head.origin == own.origin, head.head.size, file));
                }
                // Another ledger's.
                Ok(_) => {}
                Err(error) => {
                    warnings.push(format!("{} is no longer a backup: {error}", file.display()));
                }
            }
        }
        others.sort_unstable_by(|one, other| other.cmp(one));
        let mut deleted = Vec::new();
        for (.., file) in others.into_iter().skip(keep.saturating_sub(1)) {
            match fs::remove_file(&file) {
                Ok(()) => deleted.push(file),
                Err(e) => warnings.push(format!("{} cannot be deleted: {e}", file.display())),
            }
        }
        deleted
    }
}

/// When the newest backup in a folder was made, up to `now`; `None` if there is none. One dated in the future was made while the clock
/// was ahead, and would hide that newer ones are missing.
///
/// # Errors
/// If the folder cannot be read.
pub fn newest(folder: &Path, now: Timestamp) -> io::Result<Option<Timestamp>> {
    let names = names(folder)?;
    let made = names.iter().filter_map(|name| time_of(name));
    Ok(made.filter(|at| !is_ahead(*at, now)).max())
}

/// Whether a backup of this time was made while the clock was ahead.
fn is_ahead(at: Timestamp, now: Timestamp) -> bool {
    at > now.plus_ms(CLOCK_SKEW_MS)
}

/// The newest backup in a folder, if there is one and the folder can be read.
pub(super) fn newest_file(folder: &Path) -> Option<PathBuf> {
    let newest = newest(folder, Clock::System.now()).ok().flatten()?;
    Some(folder.join(name_at(newest)))
}

/// The name of a backup made at this time. Names sort by time.
fn name_at(at: Timestamp) -> String {
    format!("bookguard-{}.db", in_name(at))
}

/// When the backup of this name was made; `None` if this is not the name of one.
fn time_of(name: &str) -> Option<Timestamp> {
    let digits = name.strip_prefix("bookguard-")?.strip_suffix(".db")?;
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        match place {
            4 | 6 => text.push('-'),
            11 | 13 => text.push(':'),
            _ => {}
        }
        text.push(digit);
    }
    Timestamp::parse(&text).filter(|at| name_at(*at) == name)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_from_the_future_hides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::parse("2026-11-05T10:00:00.000Z").unwrap();
        let made = |at: Timestamp| fs::write(folder.path().join(name_at(at)), "").unwrap();
        made(now.plus_ms(CLOCK_SKEW_MS + 1));
        assert_eq!(newest(folder.path(), now).unwrap(), None);
        for at in [now.plus_ms(-1), now.plus_ms(CLOCK_SKEW_MS)] {
            made(at);
            assert_eq!(newest(folder.path(), now).unwrap(), Some(at));
        }
    }

    #[test]
    fn a_backup_is_known_by_its_name_alone() {
        let at = Timestamp::parse("2026-11-05T10:00:00.123Z").unwrap();
        let name = "bookguard-20261105T100000.123Z.db";
        assert_eq!(name_at(at), name);
        assert_eq!(time_of(name), Some(at));
        for other in [
            "bookguard.db",
            "bookguard-.db",
            "bookguard-20261105T100000Z.db",
            "bookguard-20261105T100000.1234Z.db",
            "bookguard-20261305T100000.123Z.db",
            "bookguard-20261105t100000.123z.db",
            "bookguard-2026110\u{e9}T100000.123Z.db",
            "bookguard-20261105T100000.123Z.db.failed",
            "bookguard-20261105T100000.123Z.db.unverified",
            "my-20261105T100000.123Z.db",
        ] {
            assert_eq!(time_of(other), None, "{other}");
        }
        let draft = format!("{name}.0123456789ab.part");
        assert_eq!(Draft::finished(&draft), Some(name));
        for other in [name, "x.part", "x.0123.part", "x.0123456789xy.part"] {
            assert_eq!(Draft::finished(other), None, "{other}");
        }
    }
}
