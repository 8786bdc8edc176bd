//! The SQLite engine: WAL, every commit flushed, one connection that writes and a pool that reads.

mod connection;
mod copy;
mod faults;
mod identity;
mod moving;
mod names;
mod upgrade;

use std::any::Any;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::conn::{Conn, StoreError, in_transaction};
use super::{Engine, schema};
use crate::private;
pub(super) use connection::open_other;
use connection::{Pool, Sqlite, open_checker, open_own, open_readers, open_writer, script};
pub(super) use copy::{CopyError, Use, copy_into, head_of, look_into, settle};
use identity::{OpenedFile, found, require_one_name};
pub use names::may_not_write;
pub(super) use names::{BESIDE, is_at_rest, with_end};
use names::{as_it_is, beside, immutable, is_sealed, undo_unfinished};
pub(super) use upgrade::{change_copy, change_placed, schema, upgrade, upgrade_copy};

/// A database file.
pub(super) struct File {
    path: PathBuf,
    /// The name readers open: the file's path, or its immutable form.
    reading: PathBuf,
    readers: Pool,
    /// The file that is written.
    opened: Option<OpenedFile>,
}

impl File {
    /// Opens the database file. Creates it first if `create` is set.
    pub(super) fn open(path: &Path, create: bool) -> Result<Self, StoreError> {
        let found = found(path)?;
        if !create && found.is_none() {
            return Err(StoreError::Failed(format!(
                "there is no database at {}. If there was one, or a ledger was moved there, bring that back; for a new ledger, \
                 `bookguard serve --db {}` makes one",
                path.display(),
                path.display()
            )));
        }
        // SQLite would begin a database in it.
        if !create && found.is_some_and(|file| file.len() == 0) {
            return Err(StoreError::Failed(format!(
                "{} is empty: it holds no database. Put back a backup, or delete it and let `bookguard serve --db {}` begin \
                 another ledger",
                path.display(),
                path.display()
            )));
        }
        if !create && is_sealed(path) {
            return Self::sealed(path);
        }
        // A link may lead elsewhere later, when further connections are opened.
        let path = &private::resolved(path);
        // A file that is only read may have many names, such as a backup that `rsync --link-dest` has linked.
        if create {
            require_one_name(path)?;
        }
        let mut writer = open_writer(path, create)?;
        // A caller that will write learns this now rather than at its first write. A caller that only looks may
        // continue.
        if create && writer.connection.is_readonly(rusqlite::MAIN_DB)? {
            return Err(StoreError::ReadOnly);
        }
        in_transaction(&mut writer, |writer| schema::make(writer, script))?;
        let opened = Some(OpenedFile::at(path));
        Ok(Self {
            path: path.to_owned(),
            reading: path.to_owned(),
            readers: open_readers(path, opened.clone())?,
            opened,
        })
    }

    /// Opens a file that nobody can write, such as a backup on a read-only disk, without the files that SQLite would
    /// keep beside it.
    pub(super) fn sealed(path: &Path) -> Result<Self, StoreError> {
        Self::read_only(path, immutable(path))
    }

    fn read_only(path: &Path, reading: PathBuf) -> Result<Self, StoreError> {
        schema::found(&mut open_own(&reading)?)?.require(schema::known())?;
        Ok(Self {
            path: path.to_owned(),
            readers: open_readers(&reading, None)?,
            reading,
            opened: None,
        })
    }

    /// Opens a file as it is, to read it.
    pub(super) fn look(path: &Path) -> Result<Self, StoreError> {
        if found(path)?.is_none() {
            return Err(StoreError::Failed(format!(
                "there is no database at {}",
                path.display()
            )));
        }
        let reading = as_it_is(path);
        undo_unfinished(path)?;
        Self::read_only(path, reading)
    }

    fn is_sealed(&self) -> bool {
        self.reading != self.path
    }

    /// As [`OpenedFile::require_in_place`], if it is a file that is written.
    fn require_in_place(&self) -> Result<(), StoreError> {
        (self.opened.as_ref()).map_or(Ok(()), OpenedFile::require_in_place)
    }

    fn open_checker(&self) -> Result<Sqlite<Box<Connection>>, StoreError> {
        self.require_in_place()?;
        open_checker(&self.reading)
    }
}

impl Engine for File {
    fn writer(&self) -> Result<Box<dyn Conn>, StoreError> {
        if self.is_sealed() {
            // It reads, and refuses writes.
            return self.checker();
        }
        self.require_in_place()?;
        let mut writer = open_writer(&self.path, false)?;
        writer.opened = self.opened.clone();
        Ok(Box::new(writer))
    }

    /// A file has one writer at a time, so this waits for its turn too, and a batch for the end of this.
    fn aside(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.writer()
    }

    fn mover(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.writer()
    }

    fn hold_backups(&self) -> Result<Option<Box<dyn Any>>, StoreError> {
        Ok(Some(Box::new(moving::Moving::begin(&self.path)?)))
    }

    fn reader(&self) -> Result<Box<dyn Conn>, StoreError> {
        let connection = self.readers.get().map_err(|e| {
            let replaced = self.require_in_place().err();
            replaced.unwrap_or_else(|| StoreError::Failed(format!("no reader became free: {e}")))
        })?;
        Ok(Box::new(Sqlite::reading(connection)))
    }

    fn checker(&self) -> Result<Box<dyn Conn>, StoreError> {
        Ok(Box::new(self.open_checker()?))
    }

    fn faults(&self) -> Result<Vec<String>, StoreError> {
        self.open_checker()?.faults()
    }

    #[cfg(unix)]
    fn reads_here(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.path)
    }

    fn is_in_place(&self) -> bool {
        self.opened.as_ref().is_none_or(OpenedFile::is_in_place)
    }
}

/// The bytes of a database file and its write-ahead log.
pub(super) fn size(path: &Path) -> u64 {
    let size = |file: &Path| file.metadata().map_or(0, |file| file.len());
    size(path) + size(&beside(path, "-wal"))
}

/// Free bytes on the disk of a file, if known.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::names::ROLLBACK_JOURNAL;
    use super::*;
    use crate::store::conn::Statement;

    /// Makes a file that looks as if a process had been killed while it made a database there: half of the change is in the
    /// file, and the journal says how to undo it.
    fn half_made(path: &Path) {
        let making = path.with_extension("making");
        let connection = Connection::open(&making).unwrap();
        connection
            .execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE half (made);")
            .unwrap();
        for _ in 0..100 {
            let insert = "INSERT INTO half VALUES (zeroblob(10000))";
            connection.execute(insert, []).unwrap();
        }
        for end in ["", ROLLBACK_JOURNAL] {
            std::fs::copy(with_end(&making, end), with_end(path, end)).unwrap();
        }
    }

    #[test]
    fn a_file_in_whose_making_a_process_was_killed_is_made_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        half_made(&path);
        assert!(path.metadata().unwrap().len() > 100_000);
        assert!(schema(&path).unwrap().is_none());
        drop(File::open(&path, true).unwrap());
        assert_eq!(schema(&path).unwrap().unwrap().version, schema::known());
    }

    #[test]
    fn what_looks_at_a_half_made_file_does_not_take_its_halves_for_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.db");
        half_made(&path);
        let Err(found) = File::look(&path) else {
            panic!("there is no database yet")
        };
        assert!(!found.to_string().contains("permissions"), "{found}");
        assert_eq!(path.metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_file_at_rest_is_opened_by_whatever_path_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b?c%20#.db");
        drop(File::open(&path, true).unwrap());
        drop(settle(&path).unwrap());
        for slashes in ["", "/", "//"] {
            let path = PathBuf::from(format!("{slashes}{}", path.display()));
            drop(File::sealed(&path).unwrap());
        }
    }

    #[test]
    fn a_link_to_a_database_in_use_leads_to_what_is_in_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let [real, link] = ["real.db", "link.db"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut writer = File::open(&real, true).unwrap().writer().unwrap();
        writer.begin(&[]).unwrap();
        let policy = "INSERT INTO policy (hash, body) VALUES (x'00', '{}')";
        writer.commit(&[Statement::new(policy, vec![])]).unwrap();
        let count = Statement::new("SELECT COUNT(*) FROM policy", vec![]);
        let mut reader = File::look(&link).unwrap().reader().unwrap();
        let counted = reader.one(count).unwrap();
        assert_eq!(counted.rows[0].int(0).unwrap(), 1);
    }

    #[test]
    fn a_file_that_was_replaced_is_opened_by_no_further_reader() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other, aside] =
            ["b.db", "other.db", "aside.db"].map(|name| folder.path().join(name));
        drop(File::open(&other, true).unwrap());
        let file = File::open(&path, true).unwrap();
        let look = || file.readers.get_timeout(Duration::from_millis(200));
        std::fs::rename(&path, &aside).unwrap();
        std::fs::rename(&other, &path).unwrap();
        // What was open before reads what it read.
        let before = look().unwrap();
        assert!(look().is_err());
        for refused in [file.checker().map(drop), file.faults().map(drop)] {
            let why = refused.unwrap_err().to_string();
            assert!(why.contains("was replaced or removed"), "{why}");
        }
        std::fs::rename(&path, &other).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        assert!(file.checker().is_ok());
        drop(before);
    }

    #[test]
    fn a_file_with_another_name_is_read_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["b.db", "other.db"].map(|name| folder.path().join(name));
        drop(File::open(&path, true).unwrap());
        drop(settle(&path).unwrap());
        std::fs::hard_link(&path, &other).unwrap();
        let file = File::open(&other, false).unwrap();
        assert!(file.reader().is_ok());
        let mut writer = file.writer().unwrap();
        let why = writer.begin(&[]).map(drop).unwrap_err().to_string();
        assert!(why.contains("has another name"), "{why}");
        std::fs::remove_file(&path).unwrap();
        assert!(writer.begin(&[]).is_ok());
    }
}
