//! The PostgreSQL engine: any number of nodes on one server, each writing in its turn.
//!
//! The write turn is a lock on the head's row. The transaction's first statement takes it, and the end of the
//! transaction releases it, whether that is a commit, a lost connection or a killed server. A list of statements goes
//! out in one flight. The client is the asynchronous one, on a small runtime for each connection. The blocking client
//! wraps the same client and the same kind of runtime, but asks one thing at a time.
//!
//! `address` parses where the server is, `session` opens a connection and checks whether the server is reliable,
//! `flight` puts a list on the wire, `registry` knows which nodes are live, and `values`, `words` and `faults`
//! translate. Invariants: a commit that was answered with a warning counts as unknown; no flight waits for ever;
//! nothing here is called on an asynchronous thread.

mod address;
mod faults;
mod flight;
mod registry;
mod session;
mod upgrade;
mod values;
mod words;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Statement as Prepared;

use super::conn::{Conn, Rows, Statement, StoreError, in_transaction};
use super::database::PostgresUrl;
use super::schema::{self, Schema};
use super::{Engine, NodeRegistry};
use address::Address;
use faults::Fault;
use flight::{PendingStatement, command, in_order, place, query};
use session::Session;
pub(super) use upgrade::{schema, upgrade};
use words::in_own_words;

/// The number of readers of one node. A read takes a fraction of a millisecond, and the server also has other nodes'.
const READERS: u32 = 8;
/// How long a read waits for one of them.
const READER_TIME: Duration = Duration::from_secs(5);

/// What a connection is for.
struct Role {
    /// The command that begins a transaction.
    begin: &'static str,
    /// The settings of its sessions.
    settings: &'static str,
    /// How long one flight may take before the connection is given up.
    patience: Duration,
    /// Whether the list may be run again on a new connection if the connection is lost, because nothing it does leaves
    /// a trace.
    repeats: bool,
}

// Writers and readers use generic plans over indexes, of which there is one for every query. The server then neither
// plans each list anew nor lets its table statistics decide.

/// Waits up to 10 s for other nodes' write turns. A node that vanished in the middle of its turn is thrown out after 5
/// s, even while the server still waits for it to take an answer. There is no statement timeout: if one ended a commit
/// that waits for its standby, the commit would look done.
const WRITER: Role = Role {
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT id FROM head WHERE id = 1 FOR UPDATE",
    settings: "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; SET tcp_user_timeout = '5s'; \
               SET statement_timeout = 0; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off",
    patience: Duration::from_secs(20),
    repeats: false,
};

/// Waits for rows so briefly that it gives up before the server would look for a deadlock with a batch and end one of the two.
const ASIDE: Role = Role {
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    settings: "SET lock_timeout = '100ms'; SET idle_in_transaction_session_timeout = '5s'; SET statement_timeout = 0; \
               SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off",
    patience: Duration::from_secs(20),
    repeats: false,
};

/// Holds the turn for minutes, and pauses while the other end of a move works.
const MOVER: Role = Role {
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT id FROM head WHERE id = 1 FOR UPDATE",
    settings: "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0",
    patience: Duration::from_secs(600),
    repeats: false,
};

const READER: Role = Role {
    begin: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    settings: "SET default_transaction_read_only = on; SET statement_timeout = '8s'; \
               SET idle_in_transaction_session_timeout = '60s'; \
               SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off",
    patience: Duration::from_secs(10),
    repeats: true,
};

/// Reads pages for minutes on one snapshot. A page may be large.
const CHECKER: Role = Role {
    begin: READER.begin,
    settings: "SET default_transaction_read_only = on; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0",
    patience: Duration::from_secs(120),
    repeats: false,
};

/// Makes and upgrades the tables. The lock is for nodes that start at the same moment: one works, and the others wait
/// for it. For a lock of a table it waits so briefly that nobody who queues behind it notices. A step may take hours on a
/// large table: a node that gave it up sooner would begin it again for ever. The server looks every 10 s whether the node is
/// still there, because the step of one that is gone would keep its locks to the end. Where it cannot look, as on Windows, it
/// refuses the setting.
const MIGRATOR: Role = Role {
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '5min'; SELECT pg_advisory_xact_lock(7882842413417721); SET LOCAL lock_timeout = '500ms'",
    settings: "SET statement_timeout = 0; DO $$ BEGIN SET client_connection_check_interval = '10s'; \
               EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$",
    patience: Duration::from_secs(24 * 60 * 60),
    repeats: false,
};

/// # Errors
/// What is wrong with the address, before any server is contacted.
pub(super) fn check(url: &PostgresUrl) -> Result<(), StoreError> {
    Address::parse(url).map(drop)
}

/// A database on a server.
pub(super) struct Server {
    address: Arc<Address>,
    readers: r2d2::Pool<Readers>,
}

impl Server {
    /// Opens the database. Creates its tables first if `create` is set.
    pub(super) fn open(url: &PostgresUrl, create: bool) -> Result<Self, StoreError> {
        let address = Arc::new(Address::parse(url)?);
        let found = existing(&mut Postgres::new(Arc::clone(&address), &CHECKER))?;
        match found {
            // A node may lack the right to create tables if they exist already.
            Some(schema) => schema.require(schema::known())?,
            None if create => {
                let mut conn = Postgres::new(Arc::clone(&address), &MIGRATOR);
                in_transaction(&mut conn, |conn| schema::make(conn, script))?;
            }
            None => {
                return Err(StoreError::Failed(format!(
                    "there is no Bookguard database at {address}. If there was one, or a ledger was moved there, bring that back; for a new \
                     ledger, `bookguard serve --db {address}` makes its tables"
                )));
            }
        }
        let readers = r2d2::Pool::builder()
            .max_size(READERS)
            .min_idle(Some(0))
            .connection_timeout(READER_TIME)
            .test_on_check_out(false)
            .build_unchecked(Readers(Arc::clone(&address)));
        Ok(Self { address, readers })
    }
}

/// What the database says about its schema. Returns `None` if it is empty.
fn existing(conn: &mut Postgres) -> Result<Option<Schema>, StoreError> {
    let tables = conn.one(Statement::new(
        "SELECT c.relname::TEXT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p')",
        vec![],
    ))?;
    let has = |name: &str| tables.rows.iter().any(|row| row.text(0) == Ok(name));
    if has("schema_version") && has("entry") {
        return schema::found(conn).map(Some);
    }
    if tables.rows.is_empty() {
        Ok(None)
    } else {
        Err(StoreError::Foreign)
    }
}

/// Runs a whole script that is written in SQLite's dialect.
fn script(conn: &mut Postgres, sql: &str) -> Result<(), StoreError> {
    conn.script(&in_own_words(sql))
}

impl Engine for Server {
    fn writer(&self) -> Result<Box<dyn Conn>, StoreError> {
        let mut conn = Postgres::new(Arc::clone(&self.address), &WRITER);
        conn.session()?;
        Ok(Box::new(conn))
    }

    fn aside(&self) -> Result<Box<dyn Conn>, StoreError> {
        let mut conn = Postgres::new(Arc::clone(&self.address), &ASIDE);
        conn.session()?;
        Ok(Box::new(conn))
    }

    fn mover(&self) -> Result<Box<dyn Conn>, StoreError> {
        let mut conn = Postgres::new(Arc::clone(&self.address), &MOVER);
        conn.session()?;
        Ok(Box::new(conn))
    }

    fn reader(&self) -> Result<Box<dyn Conn>, StoreError> {
        let conn = self.readers.get().map_err(|_| {
            StoreError::Failed(format!(
                "all {READERS} connections that read were busy for {} s",
                READER_TIME.as_secs()
            ))
        })?;
        Ok(Box::new(conn))
    }

    fn checker(&self) -> Result<Box<dyn Conn>, StoreError> {
        let mut conn = Postgres::new(Arc::clone(&self.address), &CHECKER);
        conn.session()?;
        Ok(Box::new(conn))
    }

    fn now_ms(&self) -> Result<Option<i64>, StoreError> {
        let rows = self.reader()?.one(Statement::new(
            "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT",
            vec![],
        ))?;
        rows.rows.first().map(|row| row.int(0)).transpose()
    }

    fn registry(&self) -> Option<Box<dyn NodeRegistry>> {
        Some(registry::open(Arc::clone(&self.address)))
    }

    /// The references to missing rows. The server keeps its own checksums, and `pg_amcheck` checks its indexes.
    fn faults(&self) -> Result<Vec<String>, StoreError> {
        words::missing(&mut *self.checker()?)
    }
}

/// Makes connections for the pool, which limits their number. Each opens at its first use, and again after it was lost.
struct Readers(Arc<Address>);

impl r2d2::ManageConnection for Readers {
    type Connection = Postgres;
    type Error = StoreError;

    fn connect(&self) -> Result<Postgres, StoreError> {
        Ok(Postgres::new(Arc::clone(&self.0), &READER))
    }

    fn is_valid(&self, _: &mut Postgres) -> Result<(), StoreError> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Postgres) -> bool {
        false
    }
}

impl Conn for r2d2::PooledConnection<Readers> {
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        (**self).run(statements)
    }

    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        (**self).begin(statements)
    }

    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        (**self).commit(statements)
    }

    fn rollback(&mut self) {
        (**self).rollback();
    }
}

/// One connection, opened when it is needed.
struct Postgres {
    address: Arc<Address>,
    role: &'static Role,
    session: Option<Session>,
    /// The session's prepared statements, by address and length of their text, which lives as long as the program.
    prepared: HashMap<(usize, usize), Prepared>,
    /// Whether a transaction is open.
    begun: bool,
}

/// The commands that go before and after a list in the same flight.
type Surrounding = [Option<&'static str>; 2];

impl Postgres {
    fn new(address: Arc<Address>, role: &'static Role) -> Self {
        Self {
            address,
            role,
            session: None,
            prepared: HashMap::new(),
            begun: false,
        }
    }

    /// The session, opened if there is none or the server has closed it. A transaction does not outlive its session.
    fn session(&mut self) -> Result<&mut Session, StoreError> {
        // A list that may be run again finds a lost session when it runs, which is soon enough.
        let found_out = self.begun || self.role.repeats;
        let open = |session: &mut Session| found_out || session.is_open();
        let open = self.session.as_mut().is_some_and(open);
        if !open {
            self.close();
            self.session = Some(Session::open(&self.address, self.role.settings)?);
        }
        self.session
            .as_mut()
            .ok_or_else(|| StoreError::Failed("there is no session".to_owned()))
    }

    fn close(&mut self) {
        self.session = None;
        self.prepared.clear();
        self.begun = false;
    }

    /// Runs a whole script, for migrations.
    fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        let patience = self.role.patience;
        let session = self.session()?;
        let ran = session.wait(patience, |client| client.batch_execute(sql));
        ran.map_err(|fault| self.failed(fault))
    }

    /// Sends one flight. If the session is lost, its transaction is lost with it.
    fn fly(
        &mut self,
        statements: &[Statement<'_>],
        around: Surrounding,
    ) -> Result<Vec<Rows>, StoreError> {
        let fault = match self.fly_once(statements, around) {
            Ok(results) => return Ok(results),
            Err(fault) => fault,
        };
        let again = self.role.repeats && !self.begun && matches!(fault, Fault::Lost(_));
        let error = self.failed(fault);
        if !again {
            return Err(error);
        }
        self.fly_once(statements, around)
            .map_err(|fault| self.failed(fault))
    }

    fn fly_once(
        &mut self,
        statements: &[Statement<'_>],
        [before, after]: Surrounding,
    ) -> Result<Vec<Rows>, Fault> {
        let patience = self.role.patience;
        self.session().map_err(Fault::Reported)?;
        let Some(session) = &mut self.session else {
            return Err(Fault::Lost("it was closed".to_owned()));
        };
        session.prepare(&mut self.prepared, statements, patience)?;
        let prepared = &self.prepared;
        session
            .wait(patience, |client| {
                let mut lane: Vec<PendingStatement<'_, Rows>> =
                    Vec::with_capacity(statements.len() + 2);
                if let Some(sql) = before {
                    lane.push(Box::pin(command(client, sql)));
                }
                for statement in statements {
                    lane.push(Box::pin(query(
                        client,
                        prepared.get(&place(statement.sql)),
                        statement,
                    )));
                }
                if let Some(sql) = after {
                    lane.push(Box::pin(command(client, sql)));
                }
                in_order(lane)
            })
            .map(|mut results| {
                if before.is_some() {
                    results.remove(0);
                }
                results.truncate(statements.len());
                results
            })
    }

    /// Converts a fault into the store's error. A session that failed in any way but by the server's own error is not
    /// reused.
    fn failed(&mut self, fault: Fault) -> StoreError {
        if !fault.leaves_session() {
            self.close();
        }
        fault.into_error(&self.address)
    }
}

impl Conn for Postgres {
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        self.fly(statements, [None, None])
    }

    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        let results = self.fly(statements, [Some(self.role.begin), None]);
        // The transaction is also open if a statement after BEGIN failed. A lost session has none.
        self.begun = self.session.is_some();
        if results.is_err() {
            self.rollback();
        }
        results
    }

    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        // Without a transaction every statement would be kept on its own.
        if !self.begun {
            return Err(StoreError::not_begun());
        }
        if let Some(session) = &mut self.session {
            session.forget_warnings();
        }
        // After a failed statement, COMMIT undoes everything and reports success. Any other statement reports the
        // failure.
        let after = match statements {
            [] => "SELECT 1; COMMIT",
            _ => "COMMIT",
        };
        let results = self.fly(statements, [None, Some(after)])?;
        self.begun = false;
        let warning = self.session.as_mut().and_then(Session::warning);
        match warning {
            // A standby may lack the commit. A caller that is told "done" must be able to rely on it.
            Some(warning) => Err(self.failed(Fault::Lost(format!(
                "the commit was confirmed with a warning: {warning}"
            )))),
            None => Ok(results),
        }
    }

    fn rollback(&mut self) {
        if !std::mem::take(&mut self.begun) {
            return;
        }
        if let Some(session) = &self.session {
            session.send("ROLLBACK");
        }
    }
}

#[cfg(test)]
mod tests;
