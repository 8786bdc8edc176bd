//! The PostgreSQL engine: any number of nodes on one server, each writing in its turn.
//!
//! The write turn is a lock on the head's row, taken by the transaction's first statement and given back by its end,
//! whatever ends it: a commit, a lost connection, a killed server. A list of statements goes out in one flight. The
//! client is the asynchronous one on a small runtime of each connection's own: its blocking sibling is the same client
//! on the same kind of runtime, but asks one thing at a time.
//!
//! `address` reads where the server is, `session` opens a connection and looks whether it may be relied on, `flight` puts
//! a list on the wire, `registry` says which nodes are there, `values`, `words` and `faults` translate. Invariants: a commit that was answered with a warning
//! counts as unknown; no flight waits for ever; nothing here is called on an asynchronous thread.

mod address;
mod faults;
mod flight;
mod registry;
mod session;
mod values;
mod words;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Statement as Prepared;

use super::conn::{Conn, Rows, Statement, StoreError};
use super::database::PostgresUrl;
use super::{Engine, NodeRegistry, migrate, schema_version};
use address::Address;
use faults::Fault;
use flight::{Leg, command, in_order, place, query};
use session::Session;
use words::in_own_words;

/// Readers of one node: a read takes a fraction of a millisecond, and the server has other nodes' to keep.
const READERS: u32 = 8;
/// How long a read waits for one of them.
const READER_TIME: Duration = Duration::from_secs(5);

/// What a connection is for.
struct Role {
    /// Begins a transaction.
    begin: &'static str,
    /// Settings of its sessions.
    settings: &'static str,
    /// How long one flight may take before the connection is given up.
    patience: Duration,
    /// Whether a lost connection may be replaced and the list run again: nothing it does leaves a trace.
    repeats: bool,
}

// The plans of writer and readers are made once and go by an index, as there is one for every question they have: the
// server neither plans each list anew nor lets what it last counted in a table decide.

/// The write turn waits for other nodes for 10 s. A node that vanished without a word in the middle of its turn is
/// thrown out after 5 s, also where the server is still waiting for it to take an answer. Statements have no time of
/// their own: one that ended while a commit waits for its standby would let the commit pass for done.
const WRITER: Role = Role {
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT id FROM head WHERE id = 1 FOR UPDATE",
    settings: "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; SET tcp_user_timeout = '5s'; \
               SET statement_timeout = 0; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off",
    patience: Duration::from_secs(20),
    repeats: false,
};

/// Holds the turn for minutes, with pauses while the other end of a move works.
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

/// Reads in pages for minutes, on one snapshot; a page may be a large one.
const CHECKER: Role = Role {
    begin: READER.begin,
    settings: "SET default_transaction_read_only = on; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0",
    patience: Duration::from_secs(120),
    repeats: false,
};

/// Brings the schema up to date; the lock is for nodes that start in the same moment.
const MIGRATOR: Role = Role {
    begin: "BEGIN; SELECT pg_advisory_xact_lock(7882842413417721)",
    settings: "SET lock_timeout = '30s'; SET statement_timeout = 0",
    patience: Duration::from_secs(600),
    repeats: false,
};

/// # Errors
/// What is wrong with an address, before anybody is asked.
pub(super) fn check(url: &PostgresUrl) -> Result<(), StoreError> {
    Address::parse(url).map(drop)
}

/// A database on a server.
pub(super) struct Server {
    address: Arc<Address>,
    readers: r2d2::Pool<Readers>,
}

impl Server {
    /// Opens the database, brings its schema up to date, and makes its tables when `create` says so.
    pub(super) fn open(url: &PostgresUrl, create: bool) -> Result<Self, StoreError> {
        let address = Arc::new(Address::parse(url)?);
        let mut conn = Postgres::new(Arc::clone(&address), &MIGRATOR);
        let known = i64::try_from(super::MIGRATIONS.len()).unwrap_or(i64::MAX);
        // A node may have no right to make tables, where they are made already.
        if existing_schema(&mut conn, create, &address)? < known {
            conn.begin(&[])?;
            migrate(&mut conn, |conn, script| conn.script(&in_own_words(script)))?;
            conn.commit(&[])?;
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

/// The schema's number; 0 for a database with nothing in it, when one is to be made.
fn existing_schema(
    conn: &mut Postgres,
    create: bool,
    address: &Address,
) -> Result<i64, StoreError> {
    let tables = conn.one(Statement::new(
        "SELECT c.relname::TEXT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p')",
        vec![],
    ))?;
    let has = |name: &str| tables.rows.iter().any(|row| row.text(0) == Ok(name));
    if has("schema_version") && has("entry") {
        return schema_version(conn);
    }
    if !tables.rows.is_empty() {
        return Err(StoreError::Foreign);
    }
    if !create {
        return Err(StoreError::Failed(format!(
            "there is no Bookguard database at {address}; `bookguard serve --db {address}` makes its tables"
        )));
    }
    Ok(0)
}

impl Engine for Server {
    fn writer(&self) -> Result<Box<dyn Conn>, StoreError> {
        let mut conn = Postgres::new(Arc::clone(&self.address), &WRITER);
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

    /// What refers to nothing. The server keeps its own checksums; its indexes are `pg_amcheck`'s to look at.
    fn faults(&self) -> Result<Vec<String>, StoreError> {
        words::missing(&mut *self.checker()?)
    }
}

/// Makes connections for the pool, which bounds them; each opens when it is first used, and again after it was lost.
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
    /// Statements the session knows, by place and length of their text, which lives as long as the program.
    prepared: HashMap<(usize, usize), Prepared>,
    /// Whether a transaction is open.
    begun: bool,
}

/// What goes before or after a list in the same flight.
#[derive(Clone, Copy, Default)]
struct Around {
    before: Option<&'static str>,
    after: Option<&'static str>,
}

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
        // Where a list is run again if its session was lost, that is soon enough to find out.
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

    /// One flight. A session that is lost takes its transaction with it.
    fn fly(
        &mut self,
        statements: &[Statement<'_>],
        around: Around,
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
        around: Around,
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
                let mut lane: Vec<Leg<'_, Rows>> = Vec::with_capacity(statements.len() + 2);
                if let Some(sql) = around.before {
                    lane.push(Box::pin(command(client, sql)));
                }
                for statement in statements {
                    lane.push(Box::pin(query(
                        client,
                        prepared.get(&place(statement.sql)),
                        statement,
                    )));
                }
                if let Some(sql) = around.after {
                    lane.push(Box::pin(command(client, sql)));
                }
                in_order(lane)
            })
            .map(|mut results| {
                if around.before.is_some() {
                    results.remove(0);
                }
                results.truncate(statements.len());
                results
            })
    }

    /// The store's error for a fault. A session that failed otherwise than by the server's own word is not used again.
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
        self.fly(statements, Around::default())
    }

    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        let before = Some(self.role.begin);
        let results = self.fly(
            statements,
            Around {
                before,
                after: None,
            },
        );
        // Open also when a statement after BEGIN failed; a session that was lost has none.
        self.begun = self.session.is_some();
        if results.is_err() {
            self.rollback();
        }
        results
    }

    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        // Outside of a transaction every statement would be kept alone.
        if !self.begun {
            return Err(StoreError::not_begun());
        }
        if let Some(session) = &mut self.session {
            session.forget_warnings();
        }
        // After a failure COMMIT undoes everything and calls that done; any other statement says what is the matter.
        let after = Some(match statements {
            [] => "SELECT 1; COMMIT",
            _ => "COMMIT",
        });
        let results = self.fly(
            statements,
            Around {
                before: None,
                after,
            },
        )?;
        self.begun = false;
        let warning = self.session.as_mut().and_then(Session::warning);
        match warning {
            // A standby that was to have it may not have it: whoever is told "done" must be able to rely on it.
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
