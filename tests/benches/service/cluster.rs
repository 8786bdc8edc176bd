//! The PostgreSQL server of the benchmark, and nodes on it.
//!
//! It is private and keeps every promise a commit makes (`fsync`, `synchronous_commit`); what is set beyond that any
//! server of some size has set, and it begins as one that has run for a while: its log goes into files that are there.
//! What its processes use is read from `/proc`: they are the children of one.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bookguard_test_postgres::{Options, Postgres};
use tempfile::TempDir;

use crate::Fallible;
use crate::inserts::Bare;
use crate::process::{Maker, Process, Stat, Target};

/// Room for what a run writes, so that neither reading nor checkpoints are what is measured.
const SETTINGS: [&str; 3] = [
    "shared_buffers = 512MB",
    "max_wal_size = 8GB",
    "min_wal_size = 1GB",
];
/// Fills as much of the log.
const FILL: &str = "SELECT COUNT(pg_logical_emit_message(false, '', repeat('x', 1 << 20))) FROM generate_series(1, 1024)";

/// A server; it ends with the benchmark.
pub struct Cluster {
    postgres: Postgres,
    /// The process all of its others are children of.
    postmaster: u32,
}

impl Cluster {
    /// Starts it; `None` where PostgreSQL is not installed, which is said.
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

    /// Brings to its disk what is not there yet, and makes the log's old files its next ones.
    pub fn checkpoint(&self) {
        self.postgres.sql("postgres", "CHECKPOINT");
    }

    /// A new database; its URL.
    pub fn database(&self) -> String {
        self.postgres.fresh_database()
    }

    /// So many nodes on a new database.
    pub fn nodes(&self, maker: &Maker, count: usize) -> Fallible<Nodes> {
        let (url, folder) = (self.database(), maker.folder()?);
        let mut nodes = Nodes {
            processes: Vec::new(),
            asked: Bare::connect(&url)?,
            url,
            folder,
        };
        // One after the other: the first begins the log.
        for _ in 0..count {
            nodes.add(maker)?;
        }
        Ok(nodes)
    }

    /// Processor time that all of its processes have used.
    pub fn processor_time(&self) -> Fallible<Duration> {
        let postmaster = Stat::of(self.postmaster)?;
        let mut used = postmaster.own + postmaster.ended;
        for process in fs::read_dir("/proc")? {
            let Some(pid) = pid(&process?.path()) else {
                continue;
            };
            // One that has just ended is the postmaster's to account for.
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

/// Servers on one database.
pub struct Nodes {
    /// Their processes.
    pub processes: Vec<Process>,
    /// A connection beside theirs.
    pub asked: Bare,
    /// Their database.
    pub url: String,
    folder: TempDir,
}

impl Nodes {
    /// Starts one more.
    pub fn add(&mut self, maker: &Maker) -> Fallible<()> {
        let folder = self.folder.path();
        let mut command = maker.serve(&self.url);
        command.arg("--ledger-key").arg(folder.join("bench.key"));
        let log = folder.join(format!("log{}", self.processes.len()));
        self.processes.push(Process::start(command, &log)?);
        Ok(())
    }

    /// How many transactions have written so far, this question included: while nodes run, every other one is a turn.
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
