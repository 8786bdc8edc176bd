//! The SQLite engine: WAL, every commit flushed, one connection that writes and a pool that reads.

mod copy;
mod moving;
mod upgrade;

use std::any::Any;
use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::conn::{Arg, Cell, Conn, Row, Rows, Statement, StoreError};
use super::{Engine, schema};
use crate::private::{self, FileIdentity};
pub(super) use copy::{CopyError, Use, copy_into, head_of, look_into, settle};
pub(super) use upgrade::{change_copy, change_placed, schema, upgrade, upgrade_copy};

/// How long the writer waits for the write turn while another process holds it.
const TURN_MS: u64 = 10_000;
/// The number of frames (one page each) in the write-ahead log from which they are copied into the database file. Pages that
/// changed often are copied once, so more frames cost less in all, but the next commit waits for them.
const CHECKPOINT: i64 = 1_000;
/// The same while no commit waits. The one that arrives meanwhile waits for a third of the time.
const CHECKPOINT_AT_REST: i64 = CHECKPOINT / 4;
/// The wait before the next checkpoint after one that failed or that a reader held back.
const CHECKPOINT_AGAIN: Duration = Duration::from_secs(1);
/// The size in bytes to which the write-ahead log's file is cut after a checkpoint: twice what it normally grows to.
const LOG_BYTES: u64 = 16 * 1024 * 1024;
/// The number of statements kept prepared on each connection. The store has fewer texts.
const PREPARED: usize = 128;
/// The maximum number of a file's faults that are listed one by one.
const FAULTS: usize = 200;
/// What SQLite adds to a database's name for the files that it keeps beside it. The last is the journal with which a file
/// changes that has no write-ahead log, such as a new one.
pub(super) const BESIDE: [&str; 3] = ["-wal", "-shm", ROLLBACK_JOURNAL];
const ROLLBACK_JOURNAL: &str = "-journal";
/// The number of readers of one process. Reads are short, and the machine has few cores.
const READERS: u32 = 8;

/// A connection that writes or only reads.
struct Sqlite<C> {
    connection: C,
    begin: &'static str,
    inserts: Inserts,
    /// When a due checkpoint last left frames in the write-ahead log.
    held_up: Option<Instant>,
    /// The file that it must still be when a transaction begins, if that matters.
    opened: Option<OpenedFile>,
}

/// The connection that writes.
type Writer = Sqlite<Box<Connection>>;
/// The pool of readers.
type Pool = r2d2::Pool<SqliteConnectionManager>;

/// A database file.
pub(super) struct File {
    path: PathBuf,
    /// The name readers open: the file's path, or its immutable form.
    reading: PathBuf,
    readers: Pool,
    /// The file that is written.
    opened: Option<OpenedFile>,
}

/// A file as it was opened, and where.
#[derive(Clone)]
struct OpenedFile {
    path: PathBuf,
    identity: Option<FileIdentity>,
    /// Whether it had other names then. Under one that it gets later, nobody else gets to write.
    has_other_names: bool,
}

impl OpenedFile {
    fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: private::identity(path),
            has_other_names: private::has_other_names(path),
        }
    }

    fn is_in_place(&self) -> bool {
        private::is_still(self.identity, &self.path)
    }

    /// Fails unless the file is in its place. What is written to another is lost with it; and SQLite would apply the log of this
    /// one to whatever has its name now.
    fn require_in_place(&self) -> Result<(), StoreError> {
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
    fn require_writable(&self) -> Result<(), StoreError> {
        self.require_in_place()?;
        match self.has_other_names {
            true => require_one_name(&self.path),
            false => Ok(()),
        }
    }
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
        // What is only looked at may have many names, such as a backup of which `rsync --link-dest` makes others.
        if create {
            require_one_name(path)?;
        }
        let mut writer = open_writer(path, create)?;
        // A caller that will write learns this now rather than at its first write. A caller that only looks may
        // continue.
        if create && writer.connection.is_readonly(rusqlite::MAIN_DB)? {
            return Err(StoreError::ReadOnly);
        }
        writer.begin(&[])?;
        if let Err(error) = schema::make(&mut writer, script) {
            writer.rollback();
            return Err(error);
        }
        writer.commit(&[])?;
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
        let mut reader = open_checker(&reading)?;
        if is_foreign(&reader.connection)? {
            return Err(StoreError::Foreign);
        }
        schema::found(&mut reader)?.require(schema::known())?;
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
        if is_at_rest(path) {
            return Self::read_only(path, immutable(path));
        }
        undo_unfinished(path)?;
        Self::read_only(path, path.to_owned())
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

/// What is at this path, if anything is.
///
/// # Errors
/// [`StoreError::Failed`] for a folder, and for what this user may not even look for.
fn found(path: &Path) -> Result<Option<Metadata>, StoreError> {
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
fn require_one_name(path: &Path) -> Result<(), StoreError> {
    if !private::has_other_names(path) {
        return Ok(());
    }
    let (folder, path) = (private::folder(path).display(), path.display());
    Err(StoreError::Failed(format!(
        "{path} has another name too (a hard link), and what is written under one name is lost under the other. Find it with \
         `find {folder} -samefile {path}`, there or elsewhere on that disk, and remove it. One that a killed `bookguard restore` left, \
         {path}.replaced-…, goes at the next start of a server"
    )))
}

/// Whether this process cannot write the file and no other process has it open for writing. If one had, SQLite's files
/// would be beside it.
///
/// It only asks: closing the file would give up every lock that this process has on it.
fn is_sealed(path: &Path) -> bool {
    let denied = |e: Errno| matches!(e, Errno::ACCESS | Errno::ROFS | Errno::PERM);
    access(path, Access::WRITE_OK).is_err_and(denied) && is_at_rest(path)
}

/// Whether no process has the file open for writing, nor did one leave anything behind that belongs to it.
pub(super) fn is_at_rest(path: &Path) -> bool {
    !BESIDE.iter().any(|end| beside(path, end).exists())
}

/// Undoes a change that a process was killed in, as the journal that it left says. Only a connection that may write does
/// this by itself, and one that only reads fails.
fn undo_unfinished(path: &Path) -> Result<(), StoreError> {
    if beside(path, ROLLBACK_JOURNAL).exists() {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        set_up(&connection)?;
        connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
    }
    Ok(())
}

/// The file of this end that belongs to a database. It is beside the database itself, not beside a link to that.
fn beside(path: &Path, end: &str) -> PathBuf {
    with_end(&private::resolved(path), end)
}

/// A path with more characters at its end, as those of the files that SQLite keeps beside a database.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// The URI under which SQLite opens a file as one that nobody changes.
fn immutable(path: &Path) -> PathBuf {
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

impl Engine for File {
    fn writer(&self) -> Result<Box<dyn Conn>, StoreError> {
        if self.is_sealed() {
            // It reads, and refuses writes.
            return self.checker();
        }
        self.require_in_place()?;
        Ok(Box::new(Sqlite {
            opened: self.opened.clone(),
            ..open_writer(&self.path, false)?
        }))
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
        Ok(Box::new(Sqlite {
            connection,
            begin: "BEGIN",
            inserts: Inserts::default(),
            held_up: None,
            opened: None,
        }))
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

/// Runs a whole script.
fn script(writer: &mut Writer, sql: &str) -> Result<(), StoreError> {
    Ok(writer.connection.execute_batch(sql)?)
}

/// What holds for every connection.
fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(TURN_MS))?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    // Otherwise SQLite plans with the values that are bound, a LIMIT for example, and so prepares each such statement anew
    // for each execution.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// The tables by which a Bookguard database is known.
const OWN: [&str; 2] = ["schema_version", "entry"];

/// Opens a small file with other tables than a Bookguard database's, and makes it with this script; it is known by the tables `own`.
pub(super) fn open_other(
    path: &Path,
    own: [&str; 2],
    script: &str,
) -> Result<Box<dyn Conn>, StoreError> {
    let mut writer = connect(path, true, own)?;
    // All of it or nothing: a file with some of the tables would be taken for another program's.
    writer.begin(&[])?;
    if let Err(error) = writer.connection.execute_batch(script) {
        writer.rollback();
        return Err(error.into());
    }
    writer.commit(&[])?;
    Ok(Box::new(writer))
}

/// Opens the connection that writes. Creates the file if `create` is set.
fn open_writer(path: &Path, create: bool) -> Result<Writer, StoreError> {
    connect(path, create, OWN)
}

fn connect(path: &Path, create: bool, own: [&str; 2]) -> Result<Writer, StoreError> {
    if create && !path.exists() {
        // Only its owner can read the file, and so its write-ahead log. If the place is unusable, SQLite reports that
        // below.
        let _ = private::options().append(true).create(true).open(path);
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    set_up(&connection)?;
    // Both come before anything else, because a new file keeps its page size for good. Larger pages hold rows of a
    // kilobyte with less waste and take fewer system calls to write. The temporary store in memory holds the journals
    // that SQLite keeps to undo a single statement.
    connection.execute_batch("PRAGMA page_size = 8192; PRAGMA temp_store = MEMORY;")?;
    // Before anything is written, so that another program's file stays as it is.
    if is_other(&connection, own)? {
        return Err(StoreError::Foreign);
    }
    let mode = write_ahead(&connection)?;
    if mode != "wal" {
        return Err(StoreError::Failed(format!(
            "the file system cannot keep SQLite's write-ahead log (journal mode stays {mode}); use a local disk"
        )));
    }
    // The writer checkpoints by itself (`keep_up`). Commits do it only for a writer that has no time for that.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA cache_size = -16000; \
         PRAGMA wal_autocheckpoint = {}; PRAGMA journal_size_limit = {LOG_BYTES}",
        4 * CHECKPOINT
    ))?;
    Ok(Sqlite {
        connection: Box::new(connection),
        begin: "BEGIN IMMEDIATE",
        inserts: Inserts::default(),
        held_up: None,
        opened: None,
    })
}

/// Turns the write-ahead log on and returns the resulting mode.
///
/// While a new file is switched over, SQLite answers other connections with an error instead of making them wait as for
/// any other turn.
fn write_ahead(connection: &Connection) -> Result<String, StoreError> {
    let until = Instant::now() + Duration::from_millis(TURN_MS);
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode.map_err(StoreError::from) {
            Err(StoreError::Busy) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            mode => return mode,
        }
    }
}

/// Whether the database contains something that is not a Bookguard database.
fn is_foreign(connection: &Connection) -> Result<bool, StoreError> {
    is_other(connection, OWN)
}

/// Whether the database contains something, but not these tables.
fn is_other(connection: &Connection, own: [&str; 2]) -> Result<bool, StoreError> {
    let (tables, own): (i64, i64) = connection.query_row(
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE name IN (?1, ?2)) \
         FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        own,
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(tables > 0 && own < 2)
}

/// How readers open a file or its [`immutable`] form.
const READING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_URI);

/// Opens the readers, whose connections can never write. Further ones are opened only while `opened`, if there is one, is in its place.
fn open_readers(path: &Path, opened: Option<OpenedFile>) -> Result<Pool, StoreError> {
    let manager = SqliteConnectionManager::file(path)
        .with_flags(READING)
        .with_init(move |connection| {
            set_up(connection)?;
            // Before anything is read: what has the name now would be read with the log of what had it.
            if let Some(file) = opened.as_ref().filter(|file| !file.is_in_place()) {
                return Err(rusqlite::Error::InvalidPath(file.path.clone()));
            }
            connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -2000;")
        });
    r2d2::Pool::builder()
        .max_size(READERS)
        .min_idle(Some(1))
        // A connection to a file does not go stale, and testing it each time is 4 % of a read.
        .test_on_check_out(false)
        .connection_timeout(Duration::from_secs(5))
        .build(manager)
        .map_err(|e| StoreError::Failed(e.to_string()))
}

/// Opens a dedicated reader for long work, so that the pool's readers stay free. It visits every page, most of them in
/// order.
fn open_checker(path: &Path) -> Result<Sqlite<Box<Connection>>, StoreError> {
    let connection = Connection::open_with_flags(path, READING)?;
    set_up(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -16000;")?;
    Ok(Sqlite {
        connection: Box::new(connection),
        begin: "BEGIN",
        inserts: Inserts::default(),
        held_up: None,
        opened: None,
    })
}

impl<C: Deref<Target = Connection> + Send> Conn for Sqlite<C> {
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        statements
            .iter()
            .map(|statement| self.run_one(statement))
            .collect()
    }

    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        if let Some(file) = &self.opened {
            file.require_writable()?;
        }
        self.execute(self.begin)?;
        let results = self.run(statements);
        if results.is_err() {
            self.rollback();
        }
        results
    }

    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        // Without a transaction, or after one that the engine ended, every statement would be kept on its own.
        if self.connection.is_autocommit() {
            return Err(StoreError::not_begun());
        }
        let results = self.run(statements)?;
        self.execute("COMMIT")?;
        Ok(results)
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // If the rollback fails, the transaction ends with the connection, which its owner closes.
            let _ = self.execute("ROLLBACK");
        }
    }

    /// Cuts the write-ahead log. It does not wait for readers of it.
    fn scrub(&mut self) -> Result<bool, StoreError> {
        self.truncate()
    }

    /// Copies the write-ahead log into the database file. A commit would do that by itself, but would not report a
    /// failure.
    fn keep_up(&mut self, more: bool) -> Result<bool, StoreError> {
        let due = if more { CHECKPOINT } else { CHECKPOINT_AT_REST };
        match self.held_up {
            Some(at) if at.elapsed() < CHECKPOINT_AGAIN => return Ok(false),
            // Tried to its end, however little is left: what was written beside a reader is not synced yet.
            Some(_) => {}
            None if self.behind("PRAGMA wal_checkpoint(NOOP)")? < due => return Ok(true),
            None => {}
        }
        self.held_up = Some(Instant::now());
        if self.behind("PRAGMA wal_checkpoint(PASSIVE)")? > 0 {
            // A reader still uses it, such as a backup.
            return Ok(false);
        }
        self.held_up = None;
        self.shorten()?;
        Ok(true)
    }
}

impl<C: Deref<Target = Connection>> Sqlite<C> {
    /// Runs a checkpoint of this kind and returns the number of frames that it left in the write-ahead log.
    fn behind(&self, checkpoint: &'static str) -> Result<i64, StoreError> {
        let mut prepared = self.connection.prepare_cached(checkpoint)?;
        let behind = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?);
        Ok(prepared.query_row([], behind)?)
    }

    /// Shrinks a write-ahead log that had to grow. It does not wait for readers of the log: if there are any, the next
    /// commit but one cuts it.
    fn shorten(&self) -> Result<(), StoreError> {
        let Some(file) = self.connection.path() else {
            return Ok(());
        };
        let log = with_end(Path::new(file), "-wal").metadata();
        if log.is_ok_and(|log| log.len() > LOG_BYTES) {
            self.truncate()?;
        }
        Ok(())
    }

    /// Copies the whole write-ahead log and cuts it. Returns whether no reader kept it from that.
    fn truncate(&self) -> Result<bool, StoreError> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let mut prepared = (self.connection).prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?;
        let cut = prepared.query_row([], |row| Ok(row.get::<_, i64>(0)? == 0));
        self.connection
            .busy_timeout(Duration::from_millis(TURN_MS))?;
        Ok(cut?)
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn run_one(&mut self, statement: &Statement<'_>) -> Result<Rows, StoreError> {
        let sql = self.inserts.in_own_words(statement.sql);
        let mut prepared = self.connection.prepare_cached(sql)?;
        for (index, arg) in statement.args.iter().enumerate() {
            prepared.raw_bind_parameter(index + 1, arg)?;
        }
        let columns = prepared.column_count();
        if columns == 0 {
            prepared.raw_execute()?;
            return Ok(Rows::default());
        }
        let mut rows = Vec::new();
        let mut cursor = prepared.raw_query();
        while let Some(row) = cursor.next()? {
            let cells = (0..columns)
                .map(|column| row.get_ref(column).map(cell))
                .collect::<Result<_, _>>()?;
            rows.push(Row(cells));
        }
        Ok(Rows { rows })
    }

    /// The faults that SQLite finds: pages, indexes, constraints, and references to missing rows.
    fn faults(&self) -> Result<Vec<String>, StoreError> {
        let mut faults = Vec::new();
        let mut integrity = self.connection.prepare("PRAGMA integrity_check(100)")?;
        let mut rows = integrity.query([])?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            if line != "ok" {
                faults.push(line);
            }
        }
        let mut references = self.connection.prepare("PRAGMA foreign_key_check")?;
        let mut rows = references.query([])?;
        while let Some(row) = rows.next()?
            && faults.len() < FAULTS
        {
            let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
            let id: Option<i64> = row.get(1)?;
            let id = id.map_or_else(String::new, |id| format!(" (row {id})"));
            faults.push(format!(
                "a row of table {table}{id} refers to a row of table {parent} that is not there"
            ));
        }
        Ok(faults)
    }
}

/// The store's INSERTs in SQLite's own dialect, by address and length of their text, which lives as long as the
/// program. Hashing a thousand characters again and again would cost more than it saves.
///
/// A failed statement ends its batch, so it need not be undone alone. Told so, SQLite does not copy every page that a
/// multi-row statement touches.
#[derive(Default)]
struct Inserts(HashMap<(usize, usize), String>);

impl Inserts {
    fn in_own_words(&mut self, sql: &'static str) -> &str {
        match sql.strip_prefix("INSERT INTO ") {
            Some(rest) => self
                .0
                .entry((sql.as_ptr().addr(), sql.len()))
                .or_insert_with(|| format!("INSERT OR ROLLBACK INTO {rest}")),
            None => sql,
        }
    }
}

impl ToSql for Arg<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Int(n) => ToSqlOutput::Owned(Value::Integer(*n)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(n) => Cell::Int(n),
        // STRICT tables hold no reals. One that appears is shown as it is and read as damage.
        ValueRef::Real(x) => Cell::Text(x.to_string()),
        // Validating first is many times faster than searching for bytes to replace.
        ValueRef::Text(text) => Cell::Text(match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(text).into_owned(),
        }),
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(failure, message) = &error else {
            return Self::Failed(error.to_string());
        };
        match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::ReadOnly => Self::ReadOnly,
            // SQLite also reports this if the disk failed a read.
            ErrorCode::DatabaseCorrupt => Self::Unreadable(message.clone().unwrap_or_default()),
            ErrorCode::NotADatabase => {
                Self::Corrupt("the file is not a SQLite database".to_owned())
            }
            // Moving the head from where it does not stand makes its size null.
            ErrorCode::ConstraintViolation
                if message.as_deref() == Some("NOT NULL constraint failed: head.size") =>
            {
                Self::HeadMoved
            }
            ErrorCode::SystemIoFailure => Self::Failed(format!(
                "the disk failed ({error}): look at the system's log and at that disk. Once it works, start again: nothing has to \
                 be repaired. If it does not, restore a backup on another disk"
            )),
            ErrorCode::CannotOpen => Self::Failed(
                "the file cannot be opened; check that its folder exists, and that this user may read and write it"
                    .to_owned(),
            ),
            _ => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_that_cannot_be_opened_both_rights_are_named() {
        let fault = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let error = StoreError::from(rusqlite::Error::SqliteFailure(fault, None));
        let StoreError::Failed(why) = error else {
            panic!("{error:?}");
        };
        assert!(why.contains("this user may read and write it"), "{why}");
    }

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

    #[test]
    fn a_disk_that_fails_is_named_with_a_way_out() {
        let failed = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
        let said = "disk I/O error".to_owned();
        let why = StoreError::from(rusqlite::Error::SqliteFailure(failed, Some(said))).to_string();
        for part in ["disk I/O error", "the system's log", "restore a backup"] {
            assert!(why.contains(part), "{why}");
        }
    }
}
