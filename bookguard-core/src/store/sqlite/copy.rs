//! Copies the pages of a database file into another file, while others read and write it, and brings a database that nobody
//! uses into its one file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::connection::{Sqlite, TURN_MS, open_own, open_to_write, require_own};
use super::names::{as_it_is, immutable};
use super::{free_bytes, moving};
use crate::store::conn::{Conn, StoreError};
use crate::store::{StoredHead, head_of_any_schema};

/// The number of pages copied and then flushed at a time, 2 MiB. If everything were flushed at once, a commit behind it
/// would wait twice as long.
const PAGES: i32 = 256;

/// How long a copy waits for the write turn: as long as a move of a large ledger may take.
const MOVE_TIME: Duration = Duration::from_secs(600);
/// The pause before it looks again whether a move that has the file's lock, and not its write turn, has ended.
const MOVE_POLL: Duration = Duration::from_millis(50);

/// Which side of a copy failed.
pub(in crate::store) enum CopyError {
    /// The database.
    From(StoreError),
    /// The copy.
    Into(StoreError),
    /// Less of the copy's disk is free than must be.
    NoRoom,
}

/// Whether a file to copy may be in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Use {
    /// Others may read and write it.
    Live,
    /// Others may read it, and the caller has its write turn.
    Held,
    /// Nobody does, as with a backup, which then stays without the files that SQLite would keep beside it.
    Still,
}

/// Copies one moment of the database `from` into the empty file `into`, and returns its head. Writers are not held up:
/// the moment is a snapshot of the write-ahead log, which grows until the copy ends. The copy ends early rather than leave less than
/// `reserve` bytes of its disk free.
pub(in crate::store) fn copy_into(
    (from, used): (&Path, Use),
    into: &Path,
    reserve: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<StoredHead>, CopyError> {
    let reading = match used {
        Use::Still => as_it_is(from),
        Use::Live | Use::Held => from.to_owned(),
    };
    let mut source = open_own(&reading).map_err(CopyError::From)?;
    let read = (|| {
        let turn = match used {
            Use::Live => Some(turn(from)?),
            Use::Held | Use::Still => None,
        };
        // The first statement takes the snapshot, and the copy is made in the same transaction.
        source.begin(&[])?;
        let head = head_of_any_schema(&mut source);
        drop(turn);
        head
    })();
    let head = read.map_err(CopyError::From)?;
    let written = (|| {
        let mut target = open_to_write(into, false)?;
        // Nothing in the file is worth keeping until it is whole.
        target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        let file = File::options().write(true).open(into).map_err(of_file)?;
        let backup = Backup::new(&source.connection, &mut target)?;
        loop {
            let step = backup.step(PAGES)?;
            file.sync_data().map_err(of_file)?;
            if free_bytes(into).is_some_and(|free| free < reserve) {
                return Ok(false);
            }
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
        target.close().map_err(|(_, error)| error)?;
        Ok(true)
    })();
    source.rollback();
    match written {
        Ok(true) => Ok(head),
        Ok(false) => Err(CopyError::NoRoom),
        Err(error) => Err(CopyError::Into(error)),
    }
}

/// The write turn of a database whose ledger is not being moved. It ends when this is dropped. From before its last entry until the
/// database is marked, a move keeps copies from beginning: a snapshot of that time would have all entries and no mark, and pass for
/// the ledger in its old place. A process that may not write the file gets no turn.
fn turn(file: &Path) -> Result<Connection, StoreError> {
    let connection = open_to_write(file, false)?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Ok(connection);
    }
    let until = Instant::now() + MOVE_TIME;
    loop {
        match connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(StoreError::from)
        {
            Ok(()) if !moving::is_moving(file)? => return Ok(connection),
            // The move needs the turn.
            Ok(()) => {
                connection.execute_batch("ROLLBACK")?;
                if Instant::now() >= until {
                    return Err(StoreError::Busy);
                }
                thread::sleep(MOVE_POLL);
            }
            // Each try waits for a while itself.
            Err(StoreError::Busy) if Instant::now() < until => {}
            Err(error) => return Err(error),
        }
    }
}

/// The head in a file that nobody writes; `None` if it has no ledger.
pub(in crate::store) fn head_of(file: &Path) -> Result<Option<StoredHead>, StoreError> {
    head_of_any_schema(&mut open_own(&immutable(file))?)
}

/// Opens a file as it is, to read it.
pub(in crate::store) fn look_into(file: &Path) -> Result<Box<dyn Conn>, StoreError> {
    Ok(Box::new(open_own(&as_it_is(file))?))
}

/// Brings everything that was committed into the database file itself, so that nothing beside it belongs to it. Nobody
/// else can use the database until the returned connection, which reads it, is dropped.
pub(in crate::store) fn settle(file: &Path) -> Result<Box<dyn Conn>, StoreError> {
    let connection = open_to_write(file, false)?;
    require_own(&connection)?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(StoreError::ReadOnly);
    }
    let until = Instant::now() + Duration::from_millis(TURN_MS);
    loop {
        match keep_others_out(&connection) {
            Ok(true) => break,
            Ok(false) | Err(StoreError::Busy) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(5));
            }
            Ok(false) => return Err(StoreError::Busy),
            Err(error) => return Err(error),
        }
    }
    Ok(Box::new(Sqlite::reading(Box::new(connection))))
}

/// Ends the write-ahead log and begins a transaction beside which nobody reads or writes. Returns whether that succeeded.
fn keep_others_out(connection: &Connection) -> Result<bool, StoreError> {
    let mode = |pragma: &str| -> rusqlite::Result<bool> {
        let mode: String = connection.query_row(pragma, [], |row| row.get(0))?;
        Ok(mode == "delete")
    };
    if !mode("PRAGMA journal_mode = DELETE")? {
        return Ok(false);
    }
    connection.execute_batch("PRAGMA synchronous = FULL; BEGIN EXCLUSIVE")?;
    // A process that came in between has begun a new log, and would write into it later.
    let is_alone = mode("PRAGMA journal_mode")?;
    if !is_alone {
        connection.execute_batch("ROLLBACK")?;
    }
    Ok(is_alone)
}

fn of_file(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
        _ => StoreError::Failed(error.to_string()),
    }
}
