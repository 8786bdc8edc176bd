//! The benchmark's PostgreSQL server, and nodes on it.
//!
//! The server is private, and every commit is durable (`fsync`, `synchronous_commit`). Its other settings are usual for a
//! server of some size. Its log is filled at the start, so that it reuses files like a server that has run for a while.
//! The resource use of its processes, all children of one, is read from `/proc`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bookguard_test_postgres::{Options, Postgres};
use tempfile::TempDir;

use crate::Fallible;
use crate::inserts::Bare;
use crate::process::{Maker, Process, Stat, Target};

/// Large enough that a run measures neither reads from the disk nor checkpoints.
const SETTINGS: [&str; 3] = [
    "shared_buffers = 512MB",
    "max_wal_size = 8GB",
    "min_wal_size = 1GB",
];
/// Writes as much log as `min_wal_size`.
const FILL: &str = "SELECT COUNT(pg_logical_emit_message(false, '', repeat('x', 1 << 20))) FROM generate_series(1, 1024)";

/// A PostgreSQL server; it ends with the benchmark.
pub struct Cluster {
    postgres: Postgres,
    /// The parent of all its other processes.
    postmaster: u32,
}

impl Cluster {
    /// Starts the server; prints a note and returns `None` if PostgreSQL is not installed.
    pub fn start() -> Fallible<Option<Self>> {
        let mut options = Options::default();
        for setting in SETTINGS {
            options = options.setting(setting);
        }
        let Some(postgres) = Postgres::start(&options) else {
            return Ok(None);
        };
        let child = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
        let child = postgres.sql("postgres", child).parse()?;
        postgres.sql("postgres", FILL);
        let cluster = Self {
            postmaster: Stat::of(child)?.parent,
            postgres,
        };
        cluster.checkpoint();
        Ok(Some(cluster))
    }

    /// Makes a checkpoint, which flushes changed pages and lets the log reuse its old files.
    pub fn checkpoint(&self) {
        self.postgres.sql("postgres", "CHECKPOINT");
    }

    /// Creates a database and returns its URL.
    pub fn database(&self) -> String {
        self.postgres.fresh_database()
    }

    /// Starts `count` nodes on a new database.
    pub fn nodes(&self, maker: &Maker, count: usize) -> Fallible<Nodes> {
        let (url, folder) = (self.database(), maker.folder()?);
        let mut nodes = Nodes {
            processes: Vec::new(),
            asked: Bare::connect(&url)?,
            url,
            folder,
        };
        // One after the other, because the first one begins the log.
        for _ in 0..count {
            nodes.add(maker)?;
        }
        Ok(nodes)
    }

    /// Returns the processor time that all its processes have used.
    pub fn processor_time(&self) -> Fallible<Duration> {
        let postmaster = Stat::of(self.postmaster)?;
        let mut used = postmaster.own + postmaster.ended;
        for process in fs::read_dir("/proc")? {
            let Some(pid) = pid(&process?.path()) else {
                continue;
            };
            // The time of a process that has just ended is in the postmaster's account.
            if let Ok(stat) = Stat::of(pid)
                && stat.parent == self.postmaster
            {
                used += stat.own;
            }
        }
        Ok(used)
    }
}

fn pid(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Nodes on one database.
pub struct Nodes {
    /// Their processes.
    pub processes: Vec<Process>,
    /// A connection of the benchmark's own.
    pub asked: Bare,
    /// Their database.
    pub url: String,
    folder: TempDir,
}

impl Nodes {
    /// Starts another node.
    pub fn add(&mut self, maker: &Maker) -> Fallible<()> {
        let folder = self.folder.path();
        let mut command = maker.serve(&self.url);
        command.arg("--ledger-key").arg(folder.join("bench.key"));
        let log = folder.join(format!("log{}", self.processes.len()));
        self.processes.push(Process::start(command, &log)?);
        Ok(())
    }

    /// Returns how many transactions have written so far, including this query. While nodes run, every other one is a write
    /// turn.
    pub fn transactions(&self) -> Fallible<i64> {
        self.asked
            .number("SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)")
    }
}

impl Target for Nodes {
    fn addrs(&self) -> Vec<SocketAddr> {
        self.processes.iter().map(|process| process.addr).collect()
    }

    fn is_settled(&self) -> Fallible<bool> {
        let open =
            "SELECT COUNT(*) FROM (SELECT 1 FROM delivery WHERE due_ms IS NOT NULL LIMIT 1) open";
        Ok(self.asked.number(open)? == 0)
    }

    fn last_attempts(&self, count: usize) -> Fallible<Vec<Duration>> {
        let sql = format!(
            "SELECT CAST(CAST(body AS JSON) ->> 'durationMs' AS BIGINT) FROM attempt ORDER BY ctid DESC LIMIT {count}"
        );
        let taken = self.asked.numbers(&sql)?.into_iter();
        taken
            .map(|ms| Ok(Duration::from_millis(u64::try_from(ms)?)))
            .collect()
    }
}
