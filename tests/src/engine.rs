//! Test databases, on each engine.
//!
//! Tests of the service's behaviour run on every engine; only tests of a behaviour of SQLite or PostgreSQL alone name one.
//! Without PostgreSQL on the machine its half is skipped, which `bookguard_test_postgres` reports once.
//!
//! Invariant: a test database and its folder belong to one test, and are removed when it is dropped.

use std::fmt;
use std::path::{Path, PathBuf};

use bookguard_core::store::Database;
use bookguard_test_postgres::{OpenTransaction, Postgres, database_of};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::program::{Arguments, CommandLine, bookguard};

/// The engine of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// Runs a test on SQLite, then on PostgreSQL if it is installed.
pub async fn on_every_engine(body: impl AsyncFn(Engine)) {
    on(Engine::Sqlite, &body).await;
    if Postgres::shared().is_some() {
        on(Engine::Postgres, &body).await;
    }
}

/// Runs a test on PostgreSQL if it is installed.
pub async fn on_postgres(body: impl AsyncFn(Engine)) {
    if Postgres::shared().is_some() {
        on(Engine::Postgres, &body).await;
    }
}

async fn on(engine: Engine, body: &impl AsyncFn(Engine)) {
    let failing = Failing(engine);
    // On the heap, because the futures of tests are large.
    Box::pin(body(engine)).await;
    drop(failing);
}

/// Prints the engine on which a test failed.
struct Failing(Engine);

impl Drop for Failing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was on {}", self.0);
        }
    }
}

/// An empty database, and a folder for its key and the test's files.
pub struct TestDatabase {
    db: Database,
    folder: TempDir,
    /// The server and the database's URL there.
    postgres: Option<(&'static Postgres, String)>,
}

impl TestDatabase {
    /// A new database. A SQLite file is not created yet.
    pub fn new(engine: Engine) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        match engine {
            Engine::Sqlite => Self {
                db: folder.path().join("bookguard.db").into(),
                folder,
                postgres: None,
            },
            Engine::Postgres => {
                let postgres = Postgres::shared().expect("the test asked whether there is one");
                let url = postgres.fresh_database();
                Self {
                    db: url.clone().into(),
                    folder,
                    postgres: Some((postgres, url)),
                }
            }
        }
    }

    /// A database that the test provides, such as one reached through a proxy; its folder is new.
    pub fn at(db: impl Into<Database>) -> Self {
        Self {
            db: db.into(),
            folder: tempfile::tempdir().expect("a temporary directory can be made"),
            postgres: None,
        }
    }

    /// The database.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// The database's URL, including the password.
    pub fn url(&self) -> String {
        match &self.db {
            Database::Postgres(url) => url.reveal().to_owned(),
            Database::File(path) => panic!("{} is a file and has no URL", path.display()),
        }
    }

    /// The database's file.
    pub fn file(&self) -> &Path {
        self.db.file().expect("this test is about a file")
    }

    /// The ledger key's file, if it is not beside the database.
    pub fn ledger_key(&self) -> Option<PathBuf> {
        let server = self.db.file().is_none();
        server.then(|| self.folder.path().join("bookguard.key"))
    }

    /// The ledger key's file, wherever it is.
    pub fn key_file(&self) -> PathBuf {
        let beside = || self.file().with_extension("db.key");
        self.ledger_key().unwrap_or_else(beside)
    }

    /// A path for a file of the test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `bookguard` with these arguments, on this database.
    pub fn command(&self, args: impl Arguments) -> CommandLine {
        let line = bookguard(args).arg("--db");
        let line = match &self.db {
            Database::File(path) => line.arg(path),
            Database::Postgres(url) => line.arg(url.reveal()),
        };
        match self.ledger_key() {
            Some(key) => line.arg("--ledger-key").arg(key),
            None => line,
        }
    }

    /// Verifies the whole ledger, as the administrator does, and returns the report.
    ///
    /// Panics unless everything verifies and the number of bookings is this one.
    pub async fn verify(&self, bookings: usize) -> serde_json::Value {
        let line = self.command(["ledger", "verify"]).patiently();
        let report = line.run().await.json();
        assert_eq!(report["verified"], true, "{report}");
        assert_eq!(report["findings"], serde_json::json!([]), "{report}");
        assert_eq!(report["bookings"], bookings, "{report}");
        report
    }

    /// Runs statements directly on the database, all or none, as somebody with access to it could.
    pub fn tamper(&self, sql: &str) {
        if let Some((postgres, url)) = &self.postgres {
            postgres.sql(database_of(url), sql);
            return;
        }
        // Foreign keys are not enforced, so that exactly these statements take effect.
        let own = "PRAGMA busy_timeout = 10000; PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON";
        let store = Connection::open(self.file()).expect("a database that can be opened");
        let done = store.execute_batch(&format!("{own}; BEGIN IMMEDIATE; {sql}; COMMIT"));
        done.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// The number that this query returns, read without the service.
    pub fn count(&self, sql: &str) -> usize {
        if let Some((postgres, url)) = &self.postgres {
            let number = postgres.sql(database_of(url), sql);
            return number.trim().parse().expect("the answer is a number");
        }
        let store = Connection::open(self.file()).expect("a database that can be opened");
        let number = store.query_row(sql, [], |row| row.get::<_, i64>(0));
        let number = number.unwrap_or_else(|e| panic!("{sql}: {e}"));
        usize::try_from(number).expect("a count is not negative")
    }

    /// The names of its tables, except the one that holds the schema's version.
    pub fn tables(&self) -> Vec<String> {
        let mut names: Vec<String> = if let Some((postgres, url)) = &self.postgres {
            let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'";
            let names = postgres.sql(database_of(url), tables);
            names.lines().map(str::to_owned).collect()
        } else {
            let store = Connection::open(self.file()).expect("a database that can be opened");
            let query = store.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'");
            let mut query = query.expect("the schema has such columns");
            let names = query.query_map([], |row| row.get(0));
            names
                .and_then(Iterator::collect::<Result<_, _>>)
                .expect("names can be read")
        };
        names.retain(|name| name != "schema_version");
        names
    }

    /// Whether somebody holds the write turn at this moment.
    pub fn turn_is_taken(&self) -> bool {
        if let Some((postgres, url)) = &self.postgres {
            let free = "SELECT id FROM head FOR UPDATE SKIP LOCKED";
            return postgres.sql(database_of(url), free).trim().is_empty();
        }
        let store = Connection::open(self.file()).expect("a database that can be opened");
        let begun = store.execute_batch("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE");
        begun.is_err()
    }

    /// Keeps every writer waiting until the returned value is dropped.
    pub fn hold_turn(&self) -> Turn {
        if let Some((postgres, url)) = &self.postgres {
            let turn = "SELECT id FROM head FOR UPDATE";
            return Turn::Postgres(postgres.hold(database_of(url), turn));
        }
        let store = Connection::open(self.file()).expect("a database that can be opened");
        let begun = store.execute_batch("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE");
        begun.expect("a turn that can be had");
        Turn::Sqlite(store)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A second panic would hide the first.
        if let Some((postgres, url)) = self.postgres.take()
            && !std::thread::panicking()
        {
            postgres.drop_database(&url);
        }
    }
}

/// The write turn, held by a test.
pub enum Turn {
    /// A transaction on the file.
    Sqlite(Connection),
    /// A transaction on the server.
    Postgres(OpenTransaction),
}
