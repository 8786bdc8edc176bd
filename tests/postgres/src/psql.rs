//! Runs SQL with psql, which supports every way to log in.
//!
//! Invariant: it ends, whatever the server does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::binaries::Binaries;
use crate::guard::quiet_environment;

/// Longer than the server's own limit, which the connection sets.
const PATIENCE: Duration = Duration::from_secs(90);

fn command(url: &str) -> Command {
    // Debian's psql on the path is a script that starts the real one; it takes ten times as long.
    static BESIDE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let beside = Binaries::find().ok()?.folder.join("psql");
        beside.is_file().then_some(beside)
    });
    let program = BESIDE.as_deref().unwrap_or(Path::new("psql"));
    let mut command = Command::new(program);
    quiet_environment(&mut command);
    command
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url])
        .env("PGCONNECT_TIMEOUT", "20");
    command
}

/// Runs `ask`, which may wait for a server.
fn bounded<T: Send + 'static>(what: &str, ask: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(ask()));
    receiver
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| panic!("{what}: no answer within {PATIENCE:?}"))
}

fn no_psql(error: &std::io::Error) -> ! {
    panic!("psql: {error} (Debian: apt-get install postgresql-client)")
}

/// Runs SQL. Returns one row per line, with `|` between columns.
pub fn psql(url: &str, sql: &str) -> String {
    let mut command = command(url);
    command
        .args(["-c", sql])
        .env("PGOPTIONS", "-c statement_timeout=60s");
    let output = bounded(sql, move || command.output()).unwrap_or_else(|e| no_psql(&e));
    assert!(
        output.status.success(),
        "{sql}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An open transaction; dropping it rolls it back.
#[derive(Debug)]
pub struct OpenTransaction(Child);

impl OpenTransaction {
    /// Begins a transaction and runs SQL in it.
    pub(crate) fn begin(url: &str, sql: &str) -> Self {
        let mut child = command(url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| no_psql(&e));
        let stdout = child.stdout.take().expect("standard output is piped");
        let stdin = child.stdin.as_mut().expect("standard input is piped");
        writeln!(stdin, "BEGIN;\n{sql};\n\\echo held")
            .unwrap_or_else(|e| panic!("{sql}: psql ended: {e}"));
        let held = Self(child);
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let began = bounded(sql, move || lines.any(|line| line == "held"));
        assert!(began, "{sql}: psql ended");
        held
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // Asked to quit and awaited, psql is gone before the next step.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
