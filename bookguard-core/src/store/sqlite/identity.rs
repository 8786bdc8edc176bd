//! The identity of a database file: whether it is still the one that was opened, and has no other name.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use crate::private::{self, FileIdentity};
use crate::store::conn::StoreError;

/// A file as it was opened, and where.
#[derive(Clone)]
pub(super) struct OpenedFile {
    pub(super) path: PathBuf,
    identity: Option<FileIdentity>,
    /// Whether it had other names then. Under one that it gets later, nobody else gets to write.
    has_other_names: bool,
}

impl OpenedFile {
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: private::identity(path),
            has_other_names: private::has_other_names(path),
        }
    }

    pub(super) fn is_in_place(&self) -> bool {
        private::is_still(self.identity, &self.path)
    }

    /// Fails unless the file is in its place. Writes to another file are lost with that; and SQLite would apply the log of this
    /// one to the file that has its name now.
    pub(super) fn require_in_place(&self) -> Result<(), StoreError> {
        if self.is_in_place() {
            return Ok(());
        }
        let path = self.path.display();
        Err(StoreError::Failed(format!(
            "{path} was replaced or removed while it was open, so nothing is written any more, and no new connection reads it. Put the \
             file that was there back. If it is gone, stop the server, delete {path}-wal and {path}-shm, which belong to it, and restore \
             a backup with `bookguard restore`"
        )))
    }

    /// Fails unless the file is in its place, and under its only name.
    pub(super) fn require_writable(&self) -> Result<(), StoreError> {
        self.require_in_place()?;
        match self.has_other_names {
            true => require_one_name(&self.path),
            false => Ok(()),
        }
    }
}

/// What is at this path, if anything is.
///
/// # Errors
/// [`StoreError::Failed`] for a folder, and for what this user may not even look for.
pub(super) fn found(path: &Path) -> Result<Option<Metadata>, StoreError> {
    let fail = |why: &str| Err(StoreError::Failed(format!("{} {why}", path.display())));
    match path.metadata() {
        Ok(found) if found.is_dir() => fail("is a folder; name the database file in it"),
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => fail(
            "cannot be reached: permission denied; work as the user that the server runs as, or give this one the right to its folder",
        ),
        Err(_) => Ok(None),
    }
}

/// Fails if the file has other names. SQLite keeps a write-ahead log beside each, and what is in one of them is lost to those who use
/// another.
///
/// # Errors
/// [`StoreError::HardLinked`] if it has.
pub(super) fn require_one_name(path: &Path) -> Result<(), StoreError> {
    if !private::has_other_names(path) {
        return Ok(());
    }
    let (folder, path) = (private::folder(path).display(), path.display());
    Err(StoreError::HardLinked(format!(
        "{path} has another name too (a hard link), and what is written under one name is lost under the other. Find it with \
         `find {folder} -samefile {path}`, there or elsewhere on that disk, and remove it; but leave {path}.replaced-…, which comes \
         from a killed `bookguard restore`: the next start of a server gives the database back what lies beside that name, and \
         removes it. If it is still there after a start, SQLite's files (-wal, -shm, -journal) lie beside both names: move those of \
         {path}.replaced-… to another folder, keep them, and start the server again"
    )))
}
