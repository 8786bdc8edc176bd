//! Copies the pages of a database file into another file, while others read and write it.

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{is_foreign, open_checker};
use crate::store::conn::{Conn as _, StoreError};
use crate::store::{StoredHead, head};

/// The number of pages copied and then flushed at a time, 2 MiB. If everything were flushed at once, a commit behind it
/// would wait twice as long.
const PAGES: i32 = 256;

/// Which side of a copy failed.
pub(in crate::store) enum CopyError {
    /// The database.
    From(StoreError),
    /// The copy.
    Into(StoreError),
}

/// Copies one moment of the database `from` into the empty file `into`, and returns its head. Writers are not held up:
/// the moment is a snapshot of the write-ahead log, which grows until the copy ends.
pub(in crate::store) fn copy_into(
    from: &Path,
    into: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<StoredHead>, CopyError> {
    let mut source = open_checker(from).map_err(CopyError::From)?;
    let read = (|| {
        if is_foreign(&source.connection)? {
            return Err(StoreError::Foreign);
        }
        // The first statement takes the snapshot, and the copy is made in the same transaction.
        source.begin(&[])?;
        head(&mut source)
    })();
    let head = read.map_err(CopyError::From)?;
    let written = (|| {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut target = Connection::open_with_flags(into, flags)?;
        // Nothing in the file is worth keeping until it is whole.
        target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        let file = File::options().write(true).open(into).map_err(of_file)?;
        let backup = Backup::new(&source.connection, &mut target)?;
        loop {
            let step = backup.step(PAGES)?;
            file.sync_data().map_err(of_file)?;
            let pages = backup.progress();
            let count = |pages: i32| u64::try_from(pages).unwrap_or(0);
            progress(
                count(pages.pagecount - pages.remaining),
                count(pages.pagecount),
            );
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                // Nobody else contends for either file: one is a snapshot, the other is private.
                _ => return Err(StoreError::Busy),
            }
        }
        drop(backup);
        target.close().map_err(|(_, error)| error.into())
    })();
    source.rollback();
    written.map_err(CopyError::Into).map(|()| head)
}

fn of_file(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
        _ => StoreError::Failed(error.to_string()),
    }
}
