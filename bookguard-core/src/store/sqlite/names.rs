//! The names of a database file, and the files that SQLite keeps beside it.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::connection::open_to_write;
use crate::private;
use crate::store::conn::StoreError;

/// What SQLite adds to a database's name for the files that it keeps beside it. The last is the journal with which a file
/// changes that has no write-ahead log, such as a new one.
pub(in crate::store) const BESIDE: [&str; 3] = ["-wal", "-shm", ROLLBACK_JOURNAL];
pub(super) const ROLLBACK_JOURNAL: &str = "-journal";

/// Whether this process cannot write the file and no other process has it open for writing. If one had, SQLite's files
/// would be beside it.
///
/// It only asks: closing the file would give up every lock that this process has on it.
pub(super) fn is_sealed(path: &Path) -> bool {
    may_not_write(path) && is_at_rest(path)
}

/// Whether there is such a file or folder, and this process may not write it.
pub fn may_not_write(path: &Path) -> bool {
    let denied = |e: Errno| matches!(e, Errno::ACCESS | Errno::ROFS | Errno::PERM);
    access(path, Access::WRITE_OK).is_err_and(denied)
}

/// Whether no process has the file open for writing, nor did one leave anything behind that belongs to it.
pub(in crate::store) fn is_at_rest(path: &Path) -> bool {
    !BESIDE.iter().any(|end| beside(path, end).exists())
}

/// The name under which a file is read as it is: its [`immutable`] form if it is at rest.
pub(super) fn as_it_is(path: &Path) -> PathBuf {
    match is_at_rest(path) {
        true => immutable(path),
        false => path.to_owned(),
    }
}

/// Undoes a change that a process was killed in, as the journal that it left says. Only a connection that may write does
/// this by itself, and one that only reads fails.
pub(super) fn undo_unfinished(path: &Path) -> Result<(), StoreError> {
    if beside(path, ROLLBACK_JOURNAL).exists() {
        let connection = open_to_write(path, false)?;
        connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
    }
    Ok(())
}

/// The file of this end that belongs to a database. It is beside the database itself, not beside a link to that.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    with_end(&private::resolved(path), end)
}

/// A path with more characters at its end, as those of the files that SQLite keeps beside a database.
pub(in crate::store) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// The URI under which SQLite opens a file as one that nobody changes.
pub(super) fn immutable(path: &Path) -> PathBuf {
    // Without an empty authority before it, a path that begins with two slashes would be taken for one.
    let mut name = String::from(if path.starts_with("/") {
        "file://"
    } else {
        "file:"
    });
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => name.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(*byte)),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name.push_str("?immutable=1");
    PathBuf::from(name)
}
