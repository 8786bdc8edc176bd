//! The store: all SQL of the product, written once, over any engine behind the private trait `Conn`.
//!
//! `load` fetches the rows a batch can touch, `commit` writes its changes, `read` answers queries, and `fsck` checks
//! everything against the ledger. The rules are in `features`; the writer decides when a batch runs. Only this module's
//! engine files name a database driver.

pub mod audit;
#[cfg(feature = "sqlite")]
pub mod backup;
pub(crate) mod commit;
pub(crate) mod conn;
mod continuity;
pub mod database;
mod endpoints;
pub mod events;
pub mod files;
pub mod fsck;
pub(crate) mod keys;
pub(crate) mod load;
pub mod operator_keys;
pub mod overview;
mod policies;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod projection;
pub mod read;
pub mod recoveries;
pub mod retention;
pub(crate) mod shares;
pub(crate) mod slow;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod terms;
pub mod transfer;
pub(crate) mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use conn::StoreError;
use conn::{Conn, Rows, Statement};
pub use database::Database;

use crate::engine::command::Head;
use crate::engine::lease::Node;
use crate::ledger::Hash;
use crate::ledger::hash::EMPTY_ROOT;
use crate::ledger::rollback::PublishedHead;
use crate::model::Timestamp;

/// The migrations, oldest first. Their count is the schema version.
const MIGRATIONS: [&str; 2] = [
    include_str!("store/schema/001.sql"),
    include_str!("store/schema/002.sql"),
];

/// A Bookguard database.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
}

/// An open database, which hands out connections.
trait Engine: Send + Sync {
    /// A connection that takes the write turn when it begins.
    fn writer(&self) -> Result<Box<dyn Conn>, StoreError>;
    /// A connection that takes the write turn and keeps it for minutes, with long silences.
    fn mover(&self) -> Result<Box<dyn Conn>, StoreError>;
    /// A connection that only reads.
    fn reader(&self) -> Result<Box<dyn Conn>, StoreError>;
    /// A dedicated connection that reads for minutes. A transaction on it sees one snapshot.
    fn checker(&self) -> Result<Box<dyn Conn>, StoreError>;
    /// The registry of live nodes, if the engine's server notices when a node ends.
    fn registry(&self) -> Option<Box<dyn NodeRegistry>> {
        None
    }
    /// Free bytes on the database's disk, if known.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Whether this thread itself does the work of a read, rather than waiting for another process.
    fn reads_here(&self) -> bool {
        false
    }
    /// The faults that the engine itself finds in its data.
    fn faults(&self) -> Result<Vec<String>, StoreError>;
    /// The clock of the machine that keeps the database, in milliseconds since the epoch; `None` if that is this
    /// machine.
    fn now_ms(&self) -> Result<Option<i64>, StoreError> {
        Ok(None)
    }
}

/// The registry of the nodes that have the database open.
pub(crate) trait NodeRegistry: Send {
    /// Registers `own`, if it is not registered yet, until this process ends. Returns all registered nodes.
    fn call(&mut self, own: Node) -> Result<BTreeSet<Node>, StoreError>;
    /// Returns the registered nodes.
    fn present(&mut self) -> Result<BTreeSet<Node>, StoreError>;
}

/// The stored head, with the log's name and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHead {
    /// The log's name.
    pub origin: String,
    /// The key that verifies the log's checkpoints, in note form.
    pub vkey: String,
    /// Size and root.
    pub head: Head,
    /// The signed checkpoint of that head.
    pub checkpoint: String,
    /// The time of the last entry; zero if there is none.
    pub written: Timestamp,
    /// The database that the log was moved to, if it was. This database then takes no more writes.
    pub moved_to: Option<String>,
}

impl StoredHead {
    /// The head as the guard remembers it.
    pub(crate) fn seen(&self) -> PublishedHead {
        PublishedHead {
            origin: self.origin.clone(),
            size: self.head.size,
            root: self.head.root,
        }
    }
}

impl Database {
    /// Checks the form of the address without contacting the server.
    ///
    /// # Errors
    /// A sentence that says what is wrong and leaves out anything that may be a password.
    pub fn check(&self) -> Result<(), String> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => postgres::check(url).map_err(|e| e.to_string()),
            _ => Ok(()),
        }
    }
}

impl Store {
    /// Opens the database and brings its schema up to date. Creates it first if `create` is set.
    ///
    /// # Errors
    /// As listed by [`StoreError`]; each reads as a sentence that names the way out.
    pub fn open(database: &Database, create: bool) -> Result<Self, StoreError> {
        let engine: Arc<dyn Engine> = match database {
            #[cfg(feature = "sqlite")]
            Database::File(path) => Arc::new(sqlite::File::open(path, create)?),
            #[cfg(feature = "postgres")]
            Database::Postgres(url) => Arc::new(postgres::Server::open(url, create)?),
            #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
            other => {
                return Err(StoreError::Failed(format!(
                    "this program was built without the engine for {other}"
                )));
            }
        };
        Ok(Self { engine })
    }

    /// A connection that takes the write turn when it begins.
    pub(crate) fn writer(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.engine.writer()
    }

    /// A connection that takes the write turn and keeps it for minutes.
    pub(crate) fn mover(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.engine.mover()
    }

    /// A connection that only reads.
    pub(crate) fn reader(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.engine.reader()
    }

    /// A dedicated connection that reads for minutes.
    pub(crate) fn checker(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.engine.checker()
    }

    /// Whether the calling thread itself does the work of a short read, which takes microseconds if the disk is not needed.
    pub fn reads_here(&self) -> bool {
        self.engine.reads_here()
    }

    /// The registry of nodes, if the engine has one.
    pub(crate) fn registry(&self) -> Option<Box<dyn NodeRegistry>> {
        self.engine.registry()
    }

    /// The faults that the engine itself finds: structure, indexes, references. Empty if there are none.
    pub(crate) fn faults(&self) -> Result<Vec<String>, StoreError> {
        self.engine.faults()
    }

    /// Free bytes on the database's disk; `None` if unknown, as for a server.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.engine.free_bytes()
    }

    /// The clock of the machine that keeps the database; `None` if that is this machine.
    pub(crate) fn now_ms(&self) -> Result<Option<i64>, StoreError> {
        self.engine.now_ms()
    }

    /// The head, if the log has begun.
    pub fn head(&self) -> Result<Option<StoredHead>, StoreError> {
        head(&mut *self.reader()?)
    }

    /// Begins the log: an empty tree under this name and key.
    pub(crate) fn begin_log(
        &self,
        origin: &str,
        vkey: &str,
        checkpoint: &str,
    ) -> Result<(), StoreError> {
        let mut conn = self.writer()?;
        conn.begin(&[])?;
        let root = EMPTY_ROOT;
        let begun = conn.commit(&[Statement::new(
            "INSERT INTO head (id, origin, vkey, size, root, checkpoint) VALUES (1, $1, $2, 0, $3, $4) \
             ON CONFLICT (id) DO NOTHING",
            vec![origin.into(), vkey.into(), root.as_bytes().into(), checkpoint.into()],
        )]);
        if begun.is_err() {
            conn.rollback();
        }
        begun.map(drop)
    }
}

pub(crate) fn head(conn: &mut dyn Conn) -> Result<Option<StoredHead>, StoreError> {
    read_head(&conn.one(head_statement())?)
}

/// The query whose answer [`read_head`] reads.
fn head_statement() -> Statement<'static> {
    Statement::new(
        "SELECT origin, vkey, size, root, checkpoint, moved_to, written_ms FROM head WHERE id = 1",
        vec![],
    )
}

fn read_head(rows: &Rows) -> Result<Option<StoredHead>, StoreError> {
    let Some(row) = rows.rows.first() else {
        return Ok(None);
    };
    Ok(Some(StoredHead {
        origin: row.text(0)?.to_owned(),
        vkey: row.text(1)?.to_owned(),
        head: Head {
            size: row.size(2)?,
            root: Hash(row.bytes(3)?),
        },
        checkpoint: row.text(4)?.to_owned(),
        moved_to: row.maybe_text(5)?.map(str::to_owned),
        written: Timestamp::from_ms(row.int(6)?),
    }))
}

/// Brings the schema up to date in the open transaction. `script` runs a whole script written in SQLite's dialect.
fn migrate<C: Conn>(
    conn: &mut C,
    script: impl Fn(&mut C, &str) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    script(
        conn,
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL PRIMARY KEY) STRICT",
    )?;
    let found = schema_version(conn)?;
    for (version, text) in (1_i64..)
        .zip(MIGRATIONS)
        .filter(|(version, _)| *version > found)
    {
        script(conn, text)?;
        conn.one(Statement::new(
            "INSERT INTO schema_version (version) VALUES ($1)",
            vec![version.into()],
        ))?;
    }
    let known = MIGRATIONS.len() as i64;
    if (1..known).contains(&found) {
        tracing::info!(
            from = found,
            to = known,
            "the database's schema was brought from version {found} to {known}"
        );
    }
    Ok(())
}

/// Returns the schema version. Fails with `Newer` if this program does not know it.
fn schema_version(conn: &mut dyn Conn) -> Result<i64, StoreError> {
    let rows = conn.one(Statement::new(
        "SELECT COALESCE(MAX(version), 0) FROM schema_version",
        vec![],
    ))?;
    let found = rows.rows.first().map_or(Ok(0), |row| row.int(0))?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
