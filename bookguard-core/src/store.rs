//! The store: all SQL of the product, written once, over any engine behind the private trait `Conn`.
//!
//! `load` fetches the rows a batch can touch, `commit` writes its changes, `read` answers queries, and `fsck` checks
//! everything against the ledger. The rules are in `features`; the writer decides when a batch runs. Only this module's
//! engine files name a database driver.

pub mod activity;
pub mod audit;
#[cfg(feature = "sqlite")]
pub mod backup;
pub(crate) mod commit;
pub(crate) mod conn;
mod console_sessions;
mod continuity;
pub(crate) mod cosignatures;
pub mod database;
#[cfg(feature = "sqlite")]
pub mod drill;
mod endpoints;
pub mod epochs;
pub mod events;
pub mod files;
pub mod fsck;
mod holds;
pub(crate) mod keys;
pub(crate) mod load;
#[cfg(feature = "sqlite")]
pub mod map_audit;
pub mod operator_keys;
pub mod overview;
mod policies;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod projection;
pub mod read;
pub mod recoveries;
pub mod retention;
pub mod schema;
pub(crate) mod shares;
pub(crate) mod slow;
#[cfg(feature = "sqlite")]
mod sqlite;
pub mod stamps;
pub(crate) mod terms;
pub mod transfer;
pub(crate) mod tree;

use std::any::Any;
use std::collections::BTreeSet;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::sync::Arc;

pub use conn::StoreError;
use conn::{Arg, Conn, Rows, Statement, args};
pub use database::Database;
#[cfg(feature = "sqlite")]
pub use sqlite::may_not_write;

use crate::engine::command::Head;
use crate::engine::lease::Node;
use crate::ledger::Hash;
use crate::ledger::hash::EMPTY_ROOT;
use crate::ledger::rollback::PublishedHead;
use crate::model::{ApiKeyId, Timestamp};

/// A Bookguard database.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
}

/// An open database, which hands out connections.
trait Engine: Send + Sync {
    /// A connection that takes the write turn when it begins.
    fn writer(&self) -> Result<Box<dyn Conn>, StoreError>;
    /// A connection for small writes beside the writer's, of what no batch writes. It gives way to a batch.
    fn aside(&self) -> Result<Box<dyn Conn>, StoreError>;
    /// A connection that takes the write turn and keeps it for minutes, with long silences.
    fn mover(&self) -> Result<Box<dyn Conn>, StoreError>;
    /// Keeps backups from beginning until what this returns is dropped, if the engine makes any.
    fn hold_backups(&self) -> Result<Option<Box<dyn Any>>, StoreError> {
        Ok(None)
    }
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
    /// Whether the database is still what was opened, and not replaced or removed, if that can be told.
    fn is_in_place(&self) -> bool {
        true
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
    /// Returns the registered nodes with what the database's server knows of each, longest there first.
    fn nodes(&mut self) -> Result<Vec<LiveNode>, StoreError>;
}

/// A registered node, as the database's server sees its connection. A server that does not let this node look at the connection
/// says only that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveNode {
    /// The node.
    pub node: Node,
    /// When its connection began.
    pub since: Option<Timestamp>,
    /// When it last asked something on it.
    pub seen_at: Option<Timestamp>,
    /// The program, as the connection names it.
    pub program: Option<String>,
    /// The network address that the connection comes from; none if from the server's own machine without a network.
    pub address: Option<String>,
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
    /// What nodes saw published and this database lacks, according to them.
    pub lacking: Vec<PublishedHead>,
}

impl StoredHead {
    /// The database whose log is being moved here, if that has not ended. This one then holds nothing but this mark, which has
    /// the place of the head, no checkpoint, and the log's name and key.
    #[must_use]
    pub fn arriving_from(&self) -> Option<&str> {
        let from = self.moved_to.as_deref();
        from.filter(|_| self.checkpoint.is_empty())
    }

    /// Whether `vkey` has this log's key. A log that continues under another name keeps its key, so names are not compared.
    pub(crate) fn has_key_of(&self, vkey: &str) -> bool {
        let [own, other] = [&self.vkey, vkey].map(|vkey| vkey.splitn(3, '+').nth(2));
        own == other
    }

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
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Ok(()),
            Self::File(path) => Self::check_name(path),
        }
    }
}

impl Store {
    /// Opens the database. Creates it first if `create` is set. A schema of another version stays as it is.
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
            other => return Err(no_engine(other)),
        };
        Ok(Self { engine })
    }

    /// Opens the database as it is, to read it: nothing is created or brought up to date.
    ///
    /// # Errors
    /// As [`Self::open`]; also if its schema is an older one.
    pub fn look(database: &Database) -> Result<Self, StoreError> {
        let engine: Arc<dyn Engine> = match database {
            #[cfg(feature = "sqlite")]
            Database::File(path) => Arc::new(sqlite::File::look(path)?),
            #[cfg(feature = "postgres")]
            Database::Postgres(url) => Arc::new(postgres::Server::open(url, false)?),
            #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
            other => return Err(no_engine(other)),
        };
        Ok(Self { engine })
    }

    /// Opens a file that nobody writes, and leaves it and its folder as they are.
    #[cfg(feature = "sqlite")]
    pub(crate) fn still(file: &Path) -> Result<Self, StoreError> {
        let engine = Arc::new(sqlite::File::sealed(file)?);
        Ok(Self { engine })
    }

    /// A connection that takes the write turn when it begins.
    pub(crate) fn writer(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.engine.writer()
    }

    /// Stores when keys were used. Takes no write turn: it writes a column that no command reads.
    pub(crate) fn note_key_uses(&self, uses: &[(ApiKeyId, Timestamp)]) -> Result<(), StoreError> {
        keys::used(&mut *self.engine.aside()?, uses)
    }

    /// A connection that takes the write turn and keeps it for minutes.
    pub(crate) fn mover(&self) -> Result<Box<dyn Conn>, StoreError> {
        self.engine.mover()
    }

    /// Keeps backups from beginning until what this returns is dropped.
    pub(crate) fn hold_backups(&self) -> Result<Option<Box<dyn Any>>, StoreError> {
        self.engine.hold_backups()
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
    pub fn free_bytes(&self) -> Option<u64> {
        self.engine.free_bytes()
    }

    /// Whether the database is still what was opened. If it was replaced or removed, every write fails.
    pub(crate) fn is_in_place(&self) -> bool {
        self.engine.is_in_place()
    }

    /// The clock of the machine that keeps the database; `None` if that is this machine.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn now_ms(&self) -> Result<Option<i64>, StoreError> {
        self.engine.now_ms()
    }

    /// The head, if the log has begun.
    ///
    /// # Errors
    /// If the database cannot be read, or its head is damaged.
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
        let root = EMPTY_ROOT;
        self.writer()?.write(&[Statement::new(
            "INSERT INTO head (id, origin, vkey, size, root, checkpoint) VALUES (1, $1, $2, 0, $3, $4) \
             ON CONFLICT (id) DO NOTHING",
            args![origin, vkey, root.as_bytes(), checkpoint],
        )])
    }
}

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
fn no_engine(database: &Database) -> StoreError {
    StoreError::Failed(format!(
        "this program was built without the engine for {database}"
    ))
}

pub(crate) fn head(conn: &mut dyn Conn) -> Result<Option<StoredHead>, StoreError> {
    read_head(&conn.one(head_statement())?)
}

/// As [`head`], also in a database of an older schema, which cannot say that it lacks something: the name `lacking` then means the outer
/// one, which is null.
#[cfg(feature = "sqlite")]
pub(crate) fn head_of_any_schema(conn: &mut dyn Conn) -> Result<Option<StoredHead>, StoreError> {
    read_head(&conn.one(Statement::new(
        "SELECT origin, vkey, size, root, checkpoint, moved_to, written_ms, (SELECT lacking FROM head WHERE id = 1) \
         FROM head, (SELECT CAST(NULL AS TEXT) AS lacking) WHERE id = 1",
        vec![],
    ))?)
}

/// The query whose answer [`read_head`] reads.
fn head_statement() -> Statement<'static> {
    Statement::new(
        "SELECT origin, vkey, size, root, checkpoint, moved_to, written_ms, lacking FROM head WHERE id = 1",
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
        written: row.time(6)?,
        lacking: row.maybe_text(7)?.map_or(Ok(Vec::new()), read_lacking)?,
    }))
}

/// Notes what the database lacks, for [`StoredHead::lacking`].
fn losses_noted(lacking: &[PublishedHead]) -> Statement<'static> {
    let lacking = match lacking {
        [] => Arg::Null,
        heads => commit::json(&heads).into(),
    };
    Statement::new("UPDATE head SET lacking = $1 WHERE id = 1", vec![lacking])
}

fn read_lacking(json: &str) -> Result<Vec<PublishedHead>, StoreError> {
    serde_json::from_str(json).map_err(|_| {
        StoreError::Corrupt("what the database is said to lack cannot be read".to_owned())
    })
}

#[cfg(test)]
mod tests;
