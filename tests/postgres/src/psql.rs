//! SQL through psql, which knows every way to log in.
//!
//! Invariant: it ends, whatever the server does.

use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::guard::quiet_environment;

/// Longer than the server's own limit, which the connection asks for.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs SQL; rows one a line, `|` between columns.
pub fn psql(url: &str, sql: &str) -> String {
    let mut command = Command::new("psql");
    quiet_environment(&mut command);
    command
        .args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            url,
            "-c",
            sql,
        ])
        .env("PGCONNECT_TIMEOUT", "20")
        .env("PGOPTIONS", "-c statement_timeout=60s");
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(command.output()));
    let output = receiver
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| panic!("{sql}: no answer within {PATIENCE:?}"))
        .unwrap_or_else(|e| panic!("psql: {e} (Debian: apt-get install postgresql-client)"));
    assert!(
        output.status.success(),
        "{sql}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
