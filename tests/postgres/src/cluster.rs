//! A data directory and the server on it.
//!
//! Invariants: from its first start on, the server keeps its own port, outside the range from which the system assigns
//! ports; when a start has succeeded, the server takes connections.

use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::binaries::Binaries;
use crate::guard::{Guard, random};
use crate::psql::psql;
use crate::{Options, USER};

/// Below the ports that systems assign on request (Linux: from 32768), so that a port is still free after a crash.
const PORTS: RangeInclusive<u16> = 20_000..=31_999;
const BOUND: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Small, and as the product demands: no setting here makes a commit less durable.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = '.'
max_connections = 300
shared_buffers = 64MB
";

/// A server in its own directory.
#[derive(Debug)]
pub struct Cluster {
    binaries: &'static Binaries,
    guard: Mutex<Guard>,
    port: u16,
    password: Option<String>,
    /// The names of its standbys; a commit waits for all of them.
    standbys: Mutex<Vec<String>>,
}

impl Cluster {
    /// Creates a data directory and starts its server.
    pub fn init(binaries: &'static Binaries, options: &Options) -> Self {
        let mut guard = Guard::post(&binaries.folder, options.password.as_deref());
        let auth = match &options.password {
            // The file is in a directory that only this user can enter.
            Some(_) => "-A scram-sha-256 --pwfile=password",
            None => "-A trust",
        };
        guard.must("printf '%s\\n' \"$PGPASSWORD\" >password");
        guard.must(&format!(
            "\"$BIN/initdb\" -D data -U {USER} {auth} --locale=C --encoding=UTF8 --no-sync --no-instructions"
        ));
        let settings = format!("{SETTINGS}{}\n", options.settings.join("\n"));
        append(&guard, "data/postgresql.conf", settings.as_bytes());
        for (name, contents) in &options.files {
            // Created by the user who must own it.
            guard.must(&format!(": >'data/{name}'"));
            append(&guard, &format!("data/{name}"), contents);
        }
        Self::launch(binaries, guard, options.password.clone())
    }

    /// Starts the server of a new directory on a free port, which it then keeps.
    fn launch(binaries: &'static Binaries, mut guard: Guard, password: Option<String>) -> Self {
        let end = Instant::now() + BOUND;
        loop {
            let port = free_port();
            if guard.run(&start_line(port)) {
                return Self {
                    binaries,
                    guard: Mutex::new(guard),
                    port,
                    password,
                    standbys: Mutex::default(),
                };
            }
            // Another process may have taken the port since it was checked.
            let said = guard.tail();
            let taken = said.contains("Address already in use");
            assert!(
                taken && Instant::now() < end,
                "PostgreSQL does not start\n{said}"
            );
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self, database: &str) -> String {
        let password = match &self.password {
            Some(password) => format!(":{}", encoded(password)),
            None => String::new(),
        };
        format!(
            "postgres://{USER}{password}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    pub fn start(&self) {
        self.guard().must(&start_line(self.port));
    }

    pub fn stop(&self, mode: &str) {
        self.guard()
            .must(&format!("\"$BIN/pg_ctl\" stop -D data -m {mode} -w -t 60"));
    }

    pub fn promote(&self) {
        self.guard()
            .must("\"$BIN/pg_ctl\" promote -D data -w -t 60");
    }

    /// Creates a standby; from then on, every COMMIT waits for it.
    pub fn standby(&self) -> Self {
        let mut guard = Guard::post(&self.binaries.folder, self.password.as_deref());
        let name = format!("standby_{:016x}", random());
        guard.must(&format!(
            "\"$BIN/pg_basebackup\" -D data -R -c fast --no-sync \
             -d 'host=127.0.0.1 port={} user={USER} connect_timeout=20 application_name={name}'",
            self.port
        ));
        // The primary's setting must not apply to the copy once it is promoted.
        append(
            &guard,
            "data/postgresql.auto.conf",
            b"synchronous_standby_names = ''\n",
        );
        let standby = Self::launch(self.binaries, guard, self.password.clone());
        let url = self.url("postgres");
        let all = {
            let mut names = self.standbys.lock().unwrap_or_else(PoisonError::into_inner);
            names.push(name.clone());
            format!("FIRST {} ({})", names.len(), names.join(", "))
        };
        self.set("synchronous_standby_names", &all);
        let state =
            format!("SELECT sync_state FROM pg_stat_replication WHERE application_name = '{name}'");
        until("the standby to be synchronous", || {
            psql(&url, &state) == "sync"
        });
        standby
    }

    /// Changes a setting and waits until every part of the server has applied it.
    pub fn set(&self, name: &str, value: &str) {
        let url = self.url("postgres");
        psql(&url, &format!("ALTER SYSTEM SET {name} = '{value}'"));
        psql(&url, "SELECT pg_reload_conf()");
        // If a new session has the setting, the postmaster has signaled all other processes before.
        until("the setting to be read", || {
            psql(&url, &format!("SHOW {name}")) == value
        });
        // The checkpointer decides whether commits wait for standbys; it reads its settings before it works.
        psql(&url, "CHECKPOINT");
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_line(port: u16) -> String {
    format!("\"$BIN/pg_ctl\" start -D data -l postgres.log -w -t 60 -o '-p {port}'")
}

fn append(guard: &Guard, name: &str, contents: &[u8]) {
    use std::io::Write as _;
    let path = guard.directory().join(name);
    let file = std::fs::OpenOptions::new().append(true).open(&path);
    file.and_then(|mut file| file.write_all(contents))
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// A port that nobody listens on; two concurrent calls may get the same one.
fn free_port() -> u16 {
    let width = u64::from(PORTS.end() - PORTS.start()) + 1;
    let end = Instant::now() + BOUND;
    while Instant::now() < end {
        let offset = u16::try_from(random() % width).expect("the width of a range of u16");
        let port = PORTS.start() + offset;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free")
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !reached() {
        assert!(Instant::now() < end, "waited {BOUND:?} for {what}");
        sleep(LOOK_AGAIN);
    }
}

/// Percent-encodes a password for a URL.
fn encoded(password: &str) -> String {
    let mut text = String::new();
    for byte in password.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_stands_in_a_url_as_it_must() {
        assert_eq!(encoded("p@s:s/w%rd-é"), "p%40s%3As%2Fw%25rd-%C3%A9");
    }
}
