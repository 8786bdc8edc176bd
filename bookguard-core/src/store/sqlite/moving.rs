//! Keeps backups of a database file from beginning while its ledger moves.
//!
//! The move has its last entry recorded over another connection than the one that copies, so the write turn alone leaves a moment
//! between the two. A lock of its own file covers that: every move of the ledger shares it, and a backup looks for it under the
//! write turn. A move takes the lock before that entry, which needs the turn. So a backup that finds no lock lacks the entry.
//! The lock of a killed process ends with it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::private;
use crate::store::conn::StoreError;

/// A move of the ledger in a file, which ends when this is dropped.
pub(super) struct Moving {
    lock: File,
    path: PathBuf,
}

impl Moving {
    /// Waits for a backup that looks for it at this moment.
    pub(super) fn begin(file: &Path) -> Result<Self, StoreError> {
        let path = beside(file);
        loop {
            let opened = private::open_or_make(private::options().append(true), &path);
            let lock = opened.map_err(|e| failed(&path, &e))?;
            lock.lock_shared().map_err(|e| failed(&path, &e))?;
            // Another move may have ended meanwhile and taken the file away.
            if private::is_at(&lock, &path) {
                return Ok(Self { lock, path });
            }
        }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        let _ = self.lock.unlock();
        // Another move may share it.
        if self.lock.try_lock().is_ok() && private::is_at(&self.lock, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the ledger in a file is being moved.
pub(super) fn is_moving(file: &Path) -> Result<bool, StoreError> {
    let path = beside(file);
    let lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(failed(&path, &e)),
    };
    match lock.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(e)) => Err(failed(&path, &e)),
    }
}

/// The file of the lock.
fn beside(file: &Path) -> PathBuf {
    super::names::beside(file, ".moving")
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    let path = path.display();
    StoreError::Failed(format!(
        "{path}, the lock of a move of its ledger, cannot be used: {error}; work as the user that the server runs as, or remove \
         that file if no `bookguard transfer` runs"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_seen_until_the_last_one_ends_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.db");
        fs::write(&file, "").unwrap();
        let is_moving = || is_moving(&file).unwrap();
        assert!(!is_moving());
        let first = Moving::begin(&file).unwrap();
        let second = Moving::begin(&file).unwrap();
        assert!(is_moving());
        drop(first);
        assert!(is_moving(), "the second goes on");
        drop(second);
        assert!(!is_moving());
        assert!(!beside(&file).exists());
        // A process that was killed leaves the file, but not its lock.
        fs::write(beside(&file), "").unwrap();
        assert!(!is_moving());
        drop(Moving::begin(&file).unwrap());
        assert!(!beside(&file).exists());
    }
}
