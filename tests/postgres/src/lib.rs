//! A private PostgreSQL server for tests, which ends with the process that started it.
//!
//! ```no_run
//! if let Some(postgres) = bookguard_test_postgres::Postgres::shared() {
//!     let url = postgres.fresh_database(); // postgres://bookguard@127.0.0.1:23456/test_1
//! }
//! ```
//!
//! | `BOOKGUARD_TEST_POSTGRES` | what tests run on |
//! |---|---|
//! | not set | the newest server binaries (15 or newer) of this machine; without any, nothing, which one line on stderr says |
//! | `required` | the same, but no binaries is a failure |
//! | `postgres://…` | that server, whose user may create databases; servers of a test's own still need binaries |
//!
//! The tests decide what runs on the server, and in which database; this crate knows none of the product's crates.
//!
//! Invariants: a server listens on 127.0.0.1 only, and writes only to its own directory; it runs as an unprivileged user; a
//! crash loses nothing that it acknowledged (`fsync` is on); however the process that started it ends, even by SIGKILL, the
//! server ends and its directory is removed (`guard.rs`).

mod binaries;
mod cluster;
mod guard;
mod psql;

use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::binaries::Binaries;
use crate::cluster::Cluster;
pub use crate::psql::OpenTransaction;
use crate::psql::psql;

/// The variable that chooses what tests run on.
pub const VARIABLE: &str = "BOOKGUARD_TEST_POSTGRES";
/// Printed to stderr once per process if PostgreSQL is not installed.
pub const NOT_RUN: &str =
    "PostgreSQL is not installed: the PostgreSQL half of the tests was not run";
/// The beginning of the line printed to stderr once per process if PostgreSQL is used.
pub const RUN: &str = "the tests run on PostgreSQL too: ";
/// The superuser of every server that this crate starts.
pub const USER: &str = "bookguard";

/// A server. Dropping it stops it; the shared one ends with the process.
#[derive(Debug)]
pub struct Postgres {
    place: Place,
}

#[derive(Debug)]
enum Place {
    Own(Cluster),
    /// The URL of a server that was given.
    Given(String),
}

/// The options for starting a server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<String>,
    files: Vec<(String, Vec<u8>)>,
    password: Option<String>,
}

impl Options {
    /// Adds a line to postgresql.conf; the last line with a name wins.
    #[must_use]
    pub fn setting(mut self, line: &str) -> Self {
        self.settings.push(line.to_owned());
        self
    }

    /// Adds a file to the data directory, such as a certificate that a setting names; only the server can read it. An
    /// existing file, such as `pg_hba.conf`, is replaced.
    #[must_use]
    pub fn file(mut self, name: &str, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), contents.into()));
        self
    }

    /// Requires SCRAM from everybody, with this password for [`USER`]; without this option, everybody is trusted.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }
}

impl Postgres {
    /// The server that all tests of this process share; `None` if PostgreSQL is not installed.
    ///
    /// Panics if it does not start, or if PostgreSQL is required and not installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
        SHARED
            .get_or_init(|| match Wish::of_environment() {
                Wish::Given(url) => {
                    say(&format!("{RUN}the server of {VARIABLE}"));
                    Some(Self {
                        place: Place::Given(url),
                    })
                }
                Wish::Start { .. } => Self::start(&Options::default()),
            })
            .as_ref()
    }

    /// A server for one test; `None` if there is no PostgreSQL to start.
    ///
    /// Panics as [`Self::shared`] does.
    pub fn start(options: &Options) -> Option<Self> {
        let binaries = installed()?;
        Some(Self {
            place: Place::Own(Cluster::init(binaries, options)),
        })
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        match &self.place {
            Place::Own(cluster) => cluster.url(database),
            Place::Given(url) => in_database(url, database),
        }
    }

    /// Creates an empty database for one caller and returns its URL.
    pub fn fresh_database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = match &self.place {
            Place::Own(_) => format!("test_{count}"),
            // Other processes may use the same server, now or earlier.
            Place::Given(_) => format!("bookguard_test_{:016x}_{count}", guard::random()),
        };
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Removes a database by the URL from [`Self::fresh_database`], and disconnects its clients.
    pub fn drop_database(&self, url: &str) {
        let name = database_of(url);
        self.sql(
            "postgres",
            &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        );
    }

    /// Runs SQL in one of its databases as its superuser, with psql. Returns one row per line, with `|` between columns.
    ///
    /// Panics with the server's message if it fails, and after a minute.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        psql(&self.url(database), sql)
    }

    /// Begins a transaction in one of its databases, runs SQL in it, and leaves it open until the returned value is
    /// dropped.
    ///
    /// Panics as [`Self::sql`] does.
    pub fn hold(&self, database: &str, sql: &str) -> OpenTransaction {
        OpenTransaction::begin(&self.url(database), sql)
    }

    /// Its port on 127.0.0.1.
    ///
    /// Panics on a server that was given, as do all methods below.
    pub fn port(&self) -> u16 {
        self.own().port()
    }

    /// Stops it at once, like a crash: it writes nothing more, and tells no client. It recovers when it is started again.
    pub fn crash(&self) {
        self.own().stop("immediate");
    }

    /// Stops it in order; clients are disconnected.
    pub fn stop(&self) {
        self.own().stop("fast");
    }

    /// Starts it again after [`Self::crash`] or [`Self::stop`], on the same data and port, and waits until it takes
    /// connections.
    pub fn start_again(&self) {
        self.own().start();
    }

    /// Stops it in order and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Changes a setting of a running server, and waits until every part of the server has applied it.
    pub fn set(&self, name: &str, value: &str) {
        self.own().set(name, value);
    }

    /// A hot standby that streams from it, on its own port. From now on this server answers no COMMIT before all its
    /// standbys have it (`synchronous_standby_names`).
    pub fn standby(&self) -> Self {
        Self {
            place: Place::Own(self.own().standby()),
        }
    }

    /// Makes a standby the primary, and waits until it takes writes.
    pub fn promote(&self) {
        self.own().promote();
    }

    fn own(&self) -> &Cluster {
        match &self.place {
            Place::Own(cluster) => cluster,
            Place::Given(_) => panic!(
                "the server of {VARIABLE} is not the tests' to start and stop: this needs Postgres::start"
            ),
        }
    }
}

enum Wish {
    Start { required: bool },
    Given(String),
}

impl Wish {
    fn of_environment() -> Self {
        match std::env::var(VARIABLE).unwrap_or_default().as_str() {
            "" => Self::Start { required: false },
            "required" => Self::Start { required: true },
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Self::Given(url.to_owned())
            }
            other => panic!(
                "{VARIABLE} is {other:?}; it is \"required\", the postgres:// URL of a server to test on, or not set"
            ),
        }
    }
}

/// The binaries of this machine; prints once whether there are any.
fn installed() -> Option<&'static Binaries> {
    static INSTALLED: OnceLock<Option<Binaries>> = OnceLock::new();
    INSTALLED
        .get_or_init(|| {
            let settled = settle(Binaries::find(), &Wish::of_environment());
            match &settled {
                Some(binaries) => say(&format!("{RUN}{binaries}")),
                None => say(NOT_RUN),
            }
            settled
        })
        .as_ref()
}

/// Missing binaries are accepted unless PostgreSQL is required.
fn settle(found: Result<Binaries, String>, wish: &Wish) -> Option<Binaries> {
    match (found, wish) {
        (Ok(binaries), _) => Some(binaries),
        (Err(why), Wish::Start { required: true }) => {
            panic!("{VARIABLE} is \"required\", but {why}")
        }
        (Err(_), _) => None,
    }
}

/// Writes past the capture of the test harness, which hides the output of passing tests.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The URL of another database of the same server.
fn in_database(url: &str, database: &str) -> String {
    let (path, query) = match url.find('?') {
        Some(at) => url.split_at(at),
        None => (url, ""),
    };
    let host = path.find("://").map_or(0, |at| at + 3);
    let end = path[host..].find('/').map_or(path.len(), |at| host + at);
    format!("{}/{database}{query}", &path[..end])
}

/// The name of the database in a URL.
pub fn database_of(url: &str) -> &str {
    let path = url.split('?').next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_binaries_tests_go_on_without_them() {
        let missing = || Err("nothing is installed".to_owned());
        assert!(settle(missing(), &Wish::Start { required: false }).is_none());
        assert!(settle(missing(), &Wish::Given("postgres://host".to_owned())).is_none());
    }

    #[test]
    #[should_panic(expected = "is \"required\", but nothing is installed")]
    fn without_binaries_tests_that_require_them_fail() {
        settle(
            Err("nothing is installed".to_owned()),
            &Wish::Start { required: true },
        );
    }

    #[test]
    fn a_url_is_that_of_another_database_of_the_same_server() {
        for (url, expected) in [
            ("postgres://me@host:5432/mine", "postgres://me@host:5432/x"),
            ("postgres://me:p%2Fw@host", "postgres://me:p%2Fw@host/x"),
            ("postgresql://host/", "postgresql://host/x"),
            (
                "postgres://host/mine?sslmode=require",
                "postgres://host/x?sslmode=require",
            ),
            (
                "postgres://a,b?application_name=/",
                "postgres://a,b/x?application_name=/",
            ),
        ] {
            assert_eq!(in_database(url, "x"), expected);
            assert_eq!(database_of(expected), "x");
        }
    }
}
