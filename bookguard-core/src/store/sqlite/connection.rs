//! A connection to a database file: how it is opened, runs statements, and keeps its write-ahead log short.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::time::{Duration, Instant};

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql};

use super::identity::OpenedFile;
use super::names::with_end;
use crate::private;
use crate::store::conn::{Arg, Cell, Conn, Row, Rows, Statement, StoreError, in_transaction};

/// How long the writer waits for the write turn while another process holds it.
pub(super) const TURN_MS: u64 = 10_000;
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
/// The number of readers of one process. Reads are short, and the machine has few cores.
const READERS: u32 = 8;

/// A connection that writes or only reads.
pub(super) struct Sqlite<C> {
    pub(super) connection: C,
    begin: &'static str,
    inserts: Inserts,
    /// When a due checkpoint last left frames in the write-ahead log.
    held_up: Option<Instant>,
    /// The file that it must still be when a transaction begins, if that matters.
    pub(super) opened: Option<OpenedFile>,
}

impl<C> Sqlite<C> {
    /// A connection whose transactions read.
    pub(super) fn reading(connection: C) -> Self {
        Self::beginning(connection, "BEGIN")
    }

    /// A connection whose transactions take the write turn.
    pub(super) fn writing(connection: C) -> Self {
        Self::beginning(connection, "BEGIN IMMEDIATE")
    }

    fn beginning(connection: C, begin: &'static str) -> Self {
        Self {
            connection,
            begin,
            inserts: Inserts::default(),
            held_up: None,
            opened: None,
        }
    }
}

/// The connection that writes.
pub(super) type Writer = Sqlite<Box<Connection>>;
/// The pool of readers.
pub(super) type Pool = r2d2::Pool<SqliteConnectionManager>;

/// Runs a whole script.
pub(super) fn script(writer: &mut Writer, sql: &str) -> Result<(), StoreError> {
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
pub(in crate::store) fn open_other(
    path: &Path,
    own: [&str; 2],
    sql: &str,
) -> Result<Box<dyn Conn>, StoreError> {
    let mut writer = connect(path, true, own)?;
    // All of it or nothing: a file with some of the tables would be taken for another program's.
    in_transaction(&mut writer, |writer| script(writer, sql))?;
    Ok(Box::new(writer))
}

/// Opens a file to write it, as it is. Creates the file if `create` is set.
pub(super) fn open_to_write(path: &Path, create: bool) -> Result<Connection, StoreError> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    set_up(&connection)?;
    Ok(connection)
}

/// Opens the connection that writes. Creates the file if `create` is set.
pub(super) fn open_writer(path: &Path, create: bool) -> Result<Writer, StoreError> {
    connect(path, create, OWN)
}

fn connect(path: &Path, create: bool, own: [&str; 2]) -> Result<Writer, StoreError> {
    if create && !path.exists() {
        // Only its owner can read the file, and so its write-ahead log. If the place is unusable, SQLite reports that
        // below.
        let _ = private::options().append(true).create(true).open(path);
    }
    let connection = open_to_write(path, create)?;
    // Both come before anything else, because a new file keeps its page size for good. Larger pages hold rows of a
    // kilobyte with less waste and take fewer system calls to write. The temporary store in memory holds the journals
    // that SQLite keeps to undo a single statement.
    connection.execute_batch("PRAGMA page_size = 8192; PRAGMA temp_store = MEMORY;")?;
    // Before anything is written, so that another program's file stays as it is.
    require_tables(&connection, own)?;
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
    Ok(Sqlite::writing(Box::new(connection)))
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

/// Fails if the database contains something that is not a Bookguard database.
pub(super) fn require_own(connection: &Connection) -> Result<(), StoreError> {
    require_tables(connection, OWN)
}

/// Fails if the database contains something, but not these tables.
fn require_tables(connection: &Connection, own: [&str; 2]) -> Result<(), StoreError> {
    let (tables, own): (i64, i64) = connection.query_row(
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE name IN (?1, ?2)) \
         FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        own,
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    match tables > 0 && own < 2 {
        true => Err(StoreError::Foreign),
        false => Ok(()),
    }
}

/// How readers open a file or its [`immutable`](super::names::immutable) form.
const READING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_URI);

/// Opens the readers, whose connections can never write. Further ones are opened only while `opened`, if there is one, is in its place.
pub(super) fn open_readers(path: &Path, opened: Option<OpenedFile>) -> Result<Pool, StoreError> {
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
pub(super) fn open_checker(path: &Path) -> Result<Sqlite<Box<Connection>>, StoreError> {
    let connection = Connection::open_with_flags(path, READING)?;
    set_up(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -16000;")?;
    Ok(Sqlite::reading(Box::new(connection)))
}

/// As [`open_checker`], but fails for a database of another program.
pub(super) fn open_own(path: &Path) -> Result<Sqlite<Box<Connection>>, StoreError> {
    let checker = open_checker(path)?;
    require_own(&checker.connection)?;
    Ok(checker)
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
    pub(super) fn faults(&self) -> Result<Vec<String>, StoreError> {
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
