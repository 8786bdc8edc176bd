//! Backs up a database file into one file while others read and write it, for `bookguard backup`.
//!
//! The engine knows what to copy and how; this module handles the file. Invariants: under its name, the file appears
//! whole, durable and readable only by its owner, or not at all. Nothing that exists is overwritten.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::conn::StoreError;
use super::{Database, sqlite};
use crate::entropy;
use crate::error::Error;
use crate::ledger::Hash;
use crate::private;

/// A finished backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    /// Bytes of the file.
    pub bytes: u64,
    /// The log's name.
    pub origin: String,
    /// Entries of the log.
    pub size: u64,
    /// The log's root.
    pub root: Hash,
    /// How long the backup took.
    pub elapsed: Duration,
}

/// Why there is no backup. Nothing of it is left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupError {
    /// The request makes no sense: `file_exists`, `not_a_file`, `no_ledger`.
    Refused(Error),
    /// Something failed; the sentence names it.
    Failed(String),
}

/// Copies the database into `to`, which must not exist. The copy holds one moment: everything committed before it and
/// nothing that came later. It does not contain the ledger's key. `progress` receives the pages copied and the total.
///
/// # Errors
/// As [`BackupError`] lists.
pub fn backup(
    database: &Database,
    to: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackedUp, BackupError> {
    let began = Instant::now();
    let Some(from) = database.file() else {
        return Err(refused(
            "not_a_file",
            format!(
                "{database} is a PostgreSQL server, which makes its own backups: use pg_dump for a copy of one moment, or \
                 continuous archiving for point-in-time recovery; the ledger's key is in neither"
            ),
        ));
    };
    if to.symlink_metadata().is_ok() {
        return Err(exists(to));
    }
    let cannot = |e: io::Error| cannot_write(to, &e);
    from.metadata().map_err(|e| {
        BackupError::Failed(match e.kind() {
            io::ErrorKind::NotFound => format!("there is no database at {}", from.display()),
            _ => format!("{} cannot be read: {e}", from.display()),
        })
    })?;
    let draft = Draft::new(to).map_err(cannot)?;
    let head = sqlite::copy_into(from, &draft.0, progress).map_err(|e| match e {
        sqlite::CopyError::From(e) => BackupError::Failed(format!("{}: {e}", from.display())),
        sqlite::CopyError::Into(e) => cannot_keep(to, &e),
    })?;
    let head = head.ok_or_else(|| {
        refused(
            "no_ledger",
            format!(
                "{} has no ledger yet; there is nothing to back up",
                from.display()
            ),
        )
    })?;
    let file = File::open(&draft.0).map_err(cannot)?;
    file.sync_all().map_err(cannot)?;
    let bytes = file.metadata().map_err(cannot)?.len();
    draft.publish(to).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => exists(to),
        _ => cannot(e),
    })?;
    Ok(BackedUp {
        bytes,
        origin: head.origin,
        size: head.head.size,
        root: head.head.root,
        elapsed: began.elapsed(),
    })
}

fn refused(code: &'static str, message: String) -> BackupError {
    BackupError::Refused(Error::conflict(code, message))
}

fn exists(to: &Path) -> BackupError {
    refused(
        "file_exists",
        format!(
            "{} already exists and was not touched; name a new file",
            to.display()
        ),
    )
}

fn cannot_write(to: &Path, error: &io::Error) -> BackupError {
    BackupError::Failed(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the folder of {} does not exist; make it first",
            to.display()
        ),
        io::ErrorKind::PermissionDenied => format!(
            "this user may not write {} or its folder; name another file",
            to.display()
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(to),
        _ => format!("{} cannot be written: {error}", to.display()),
    })
}

fn cannot_keep(to: &Path, error: &StoreError) -> BackupError {
    BackupError::Failed(match error {
        StoreError::Full => full(to),
        error => format!("{} cannot be written: {error}", to.display()),
    })
}

fn full(to: &Path) -> String {
    format!(
        "there is no room for {}: the disk is full; free some space or name a file on another disk. The partial file was \
         removed",
        to.display()
    )
}

/// The file while it is being made, beside its final place. It is removed unless it is published.
struct Draft(PathBuf);

impl Draft {
    fn new(to: &Path) -> io::Result<Self> {
        let mut path = to.as_os_str().to_owned();
        path.push(format!(".{}.part", hex::encode(entropy::bytes::<6>())));
        let path = PathBuf::from(path);
        private::options()
            .write(true)
            .create_new(true)
            .open(&path)?;
        Ok(Self(path))
    }

    /// Gives the file its name, without replacing another file, and makes the name durable.
    fn publish(self, to: &Path) -> io::Result<()> {
        match fs::hard_link(&self.0, to) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // Some file systems have no hard links.
            Err(_) if to.symlink_metadata().is_err() => fs::rename(&self.0, to)?,
            Err(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        File::open(private::folder(to))?.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone already if it was renamed.
        let _ = fs::remove_file(&self.0);
    }
}
