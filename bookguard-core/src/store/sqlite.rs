//! The SQLite engine: WAL, every commit flushed, one connection that writes and a pool that reads.

mod copy;

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};

use super::conn::{Arg, Cell, Conn, Row, Rows, Statement, StoreError};
use super::{Engine, MIGRATIONS, migrate, schema_version};
use crate::private;
pub(super) use copy::{CopyError, copy_into};

/// How long a writer waits for the write turn while another process on the file holds it.
const TURN_MS: u64 = 10_000;
/// Frames of the write-ahead log, a page each, from which they are brought into the database file.
const CHECKPOINT: i64 = 1_000;
/// How long to wait before that is tried again after it failed, or a reader held it back.
const CHECKPOINT_AGAIN: Duration = Duration::from_secs(1);
/// Bytes to which the write-ahead log's file is cut once it is in the database: twice what it grows to while all is well.
const LOG_BYTES: u64 = 16 * 1024 * 1024;
/// Statement texts kept prepared on each connection; the store has fewer.
const PREPARED: usize = 128;
/// Faults of a file that are told one by one.
const FAULTS: usize = 200;
/// Readers of one process: reads are short and the machine has few cores.
const READERS: u32 = 8;

/// A connection of either kind.
struct Sqlite<C> {
    connection: C,
    begin: &'static str,
    inserts: Inserts,
    /// When the write-ahead log was last not brought into the database, though it was time.
    held_up: Option<Instant>,
}

/// The connection that writes.
type Writer = Sqlite<Box<Connection>>;
/// The readers.
type Pool = r2d2::Pool<SqliteConnectionManager>;

/// A database file.
pub(super) struct File {
    path: PathBuf,
    /// What those who only read open: the file, or the file as one that nobody writes.
    reading: PathBuf,
    readers: Pool,
}

impl File {
    /// Opens the database file, brings its schema up to date and makes it when `create` says so.
    pub(super) fn open(path: &Path, create: bool) -> Result<Self, StoreError> {
        if !create && !path.exists() {
            return Err(StoreError::Failed(format!(
                "there is no database at {}; `bookguard serve --db {}` makes one",
                path.display(),
                path.display()
            )));
        }
        if !create && is_sealed(path) {
            return Self::sealed(path);
        }
        let mut writer = open_writer(path, create)?;
        // Who comes to write is told now, not by the first write; who comes to look may.
        if create && writer.connection.is_readonly(rusqlite::MAIN_DB)? {
            return Err(StoreError::ReadOnly);
        }
        writer.begin(&[])?;
        let script = |writer: &mut Writer, sql: &str| Ok(writer.connection.execute_batch(sql)?);
        if let Err(error) = migrate(&mut writer, script) {
            writer.rollback();
            return Err(error);
        }
        writer.commit(&[])?;
        Ok(Self {
            path: path.to_owned(),
            reading: path.to_owned(),
            readers: open_readers(path)?,
        })
    }

    /// Opens a file that nobody can write, such as a backup on a disk that is read-only, without the files that SQLite would
    /// keep beside it.
    fn sealed(path: &Path) -> Result<Self, StoreError> {
        let reading = immutable(path);
        let mut reader = open_checker(&reading)?;
        if is_foreign(&reader.connection)? {
            return Err(StoreError::Foreign);
        }
        if schema_version(&mut reader)? < MIGRATIONS.len() as i64 {
            return Err(StoreError::ReadOnly);
        }
        Ok(Self {
            path: path.to_owned(),
            readers: open_readers(&reading)?,
            reading,
        })
    }

    fn is_sealed(&self) -> bool {
        self.reading != self.path
    }
}

/// Whether this process cannot write the file, and nobody has it open who does: then there would be files beside it.
fn is_sealed(path: &Path) -> bool {
    let denied = |e: io::Error| {
        matches!(
            e.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        )
    };
    let opened = std::fs::File::options().write(true).open(path);
    opened.is_err_and(denied)
        && !["-wal", "-shm"]
            .iter()
            .any(|end| beside(path, end).exists())
}

/// The file that SQLite keeps beside a database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// The name under which SQLite takes a file for one that nobody changes.
fn immutable(path: &Path) -> PathBuf {
    let mut name = String::from("file:");
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
            // It reads, and its writes are refused.
            return self.checker();
        }
        Ok(Box::new(open_writer(&self.path, false)?))
    }

    fn mover(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.writer()
    }

    fn reader(&self) -> Result<Box<dyn Conn>, StoreError> {
        let connection = self
            .readers
            .get()
            .map_err(|e| StoreError::Failed(format!("no reader became free: {e}")))?;
        Ok(Box::new(Sqlite {
            connection,
            begin: "BEGIN",
            inserts: Inserts::default(),
            held_up: None,
        }))
    }

    fn checker(&self) -> Result<Box<dyn Conn>, StoreError> {
        Ok(Box::new(open_checker(&self.reading)?))
    }

    fn faults(&self) -> Result<Vec<String>, StoreError> {
        open_checker(&self.reading)?.faults()
    }

    #[cfg(unix)]
    fn reads_here(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.path).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

/// Opens the connection that writes; makes the file when `create` says so.
fn open_writer(path: &Path, create: bool) -> Result<Writer, StoreError> {
    if create && !path.exists() {
        // Its owner's alone, and so its write-ahead log. What is wrong with the place SQLite says below.
        let _ = private::options().create(true).append(true).open(path);
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_millis(TURN_MS))?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    // Both before anything else: the size is a new file's, for good. Larger pages hold rows of a kilobyte with less
    // waste and take fewer system calls to write. In memory: the journals SQLite keeps to undo a single statement.
    connection.execute_batch("PRAGMA page_size = 8192; PRAGMA temp_store = MEMORY;")?;
    // Before anything is written: another program's file stays as it is.
    if is_foreign(&connection)? {
        return Err(StoreError::Foreign);
    }
    let mode = write_ahead(&connection)?;
    if mode != "wal" {
        return Err(StoreError::Failed(format!(
            "the file system cannot keep SQLite's write-ahead log (journal mode stays {mode}); use a local disk"
        )));
    }
    // The writer brings its log into the database itself (`keep_up`); commits do that for who has no time for it.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -16000; \
         PRAGMA wal_autocheckpoint = {}; PRAGMA journal_size_limit = {LOG_BYTES}",
        4 * CHECKPOINT
    ))?;
    Ok(Sqlite {
        connection: Box::new(connection),
        begin: "BEGIN IMMEDIATE",
        inserts: Inserts::default(),
        held_up: None,
    })
}

/// Turns the write-ahead log on; the mode that came of it.
///
/// While a new file goes over to it, SQLite tells others that come in that moment to come back, instead of having them
/// wait as for any other turn.
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

/// Whether there is something in the database, and it is not a database of Bookguard.
fn is_foreign(connection: &Connection) -> Result<bool, StoreError> {
    let (tables, own): (i64, i64) = connection.query_row(
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE name IN ('schema_version', 'entry')) \
         FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(tables > 0 && own < 2)
}

/// How those who only read open a file, or what [`immutable`] calls it.
const READING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_URI);

/// Opens the readers. They cannot write whatever they are asked.
fn open_readers(path: &Path) -> Result<Pool, StoreError> {
    let manager = SqliteConnectionManager::file(path)
        .with_flags(READING)
        .with_init(|connection| {
            connection.busy_timeout(Duration::from_millis(TURN_MS))?;
            connection.set_prepared_statement_cache_capacity(PREPARED);
            connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -2000;")
        });
    r2d2::Pool::builder()
        .max_size(READERS)
        .min_idle(Some(1))
        // A connection to a file does not go stale, and asking it each time is 4 % of a read.
        .test_on_check_out(false)
        .connection_timeout(Duration::from_secs(5))
        .build(manager)
        .map_err(|e| StoreError::Failed(e.to_string()))
}

/// A reader of its own for what takes minutes, so that the pool's stay free. It meets every page, most of them in order.
fn open_checker(path: &Path) -> Result<Sqlite<Box<Connection>>, StoreError> {
    let connection = Connection::open_with_flags(path, READING)?;
    connection.busy_timeout(Duration::from_millis(TURN_MS))?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -16000;")?;
    Ok(Sqlite {
        connection: Box::new(connection),
        begin: "BEGIN",
        inserts: Inserts::default(),
        held_up: None,
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
        self.execute(self.begin)?;
        let results = self.run(statements);
        if results.is_err() {
            self.rollback();
        }
        results
    }

    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        // Outside of a transaction, and after one that the engine ended, every statement would be kept alone.
        if self.connection.is_autocommit() {
            return Err(StoreError::not_begun());
        }
        let results = self.run(statements)?;
        self.execute("COMMIT")?;
        Ok(results)
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // A failed rollback leaves the transaction to the connection's end, which its owner brings about.
            let _ = self.execute("ROLLBACK");
        }
    }

    /// Brings the write-ahead log into the database file. A commit would do that by itself, and keep to itself that it failed.
    fn keep_up(&mut self) -> Result<bool, StoreError> {
        match self.held_up {
            Some(at) if at.elapsed() < CHECKPOINT_AGAIN => return Ok(false),
            // Tried to its end, however little is left: what was written beside a reader is not synced yet.
            Some(_) => {}
            None if self.behind("PRAGMA wal_checkpoint(NOOP)")? < CHECKPOINT => return Ok(true),
            None => {}
        }
        self.held_up = Some(Instant::now());
        if self.behind("PRAGMA wal_checkpoint(PASSIVE)")? > 0 {
            // Somebody still reads of it, such as a backup.
            return Ok(false);
        }
        self.held_up = None;
        self.shorten()?;
        Ok(true)
    }
}

impl<C: Deref<Target = Connection>> Sqlite<C> {
    /// How many frames of the write-ahead log are not in the database after a checkpoint of this kind.
    fn behind(&self, checkpoint: &'static str) -> Result<i64, StoreError> {
        let mut prepared = self.connection.prepare_cached(checkpoint)?;
        let behind = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?);
        Ok(prepared.query_row([], behind)?)
    }

    /// Gives back the room that a write-ahead log took which had to grow. Who reads of it is not waited for: then the next
    /// commit but one cuts it.
    fn shorten(&self) -> Result<(), StoreError> {
        let Some(file) = self.connection.path() else {
            return Ok(());
        };
        let log = beside(Path::new(file), "-wal").metadata();
        if log.is_ok_and(|log| log.len() > LOG_BYTES) {
            self.connection.busy_timeout(Duration::ZERO)?;
            let cut = self.behind("PRAGMA wal_checkpoint(TRUNCATE)");
            self.connection
                .busy_timeout(Duration::from_millis(TURN_MS))?;
            cut?;
        }
        Ok(())
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

    /// What SQLite finds wrong: pages, indexes, constraints, and references to rows that are not there.
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

/// The store's INSERTs in SQLite's own words, by place and length of their text, which lives as long as the program:
/// hashing a thousand characters again and again would cost more than it saves.
///
/// A failed statement ends its batch, so it need not be undone alone. Said so, SQLite spares itself a copy of every
/// page that a statement of many rows touches.
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
        // STRICT tables hold no reals; one that appears is shown as what it is, and read as damage.
        ValueRef::Real(x) => Cell::Text(x.to_string()),
        // Checking first is many times quicker than looking for what to replace.
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
            // Also what it makes of a read that the disk failed.
            ErrorCode::DatabaseCorrupt => Self::Unreadable(message.clone().unwrap_or_default()),
            ErrorCode::NotADatabase => {
                Self::Corrupt("the file is not a SQLite database".to_owned())
            }
            // The head's size becomes null when it is moved from where it does not stand.
            ErrorCode::ConstraintViolation
                if message.as_deref() == Some("NOT NULL constraint failed: head.size") =>
            {
                Self::HeadMoved
            }
            ErrorCode::CannotOpen => Self::Failed(
                "the file cannot be opened; check that its folder exists and may be read"
                    .to_owned(),
            ),
            _ => Self::Failed(error.to_string()),
        }
    }
}
