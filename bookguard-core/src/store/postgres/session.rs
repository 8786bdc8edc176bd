//! One session on the server: opened, checked, and driven on its own runtime.
//!
//! Invariants: a session opens only on a server that keeps what it commits; a wait that takes too long leaves no
//! session behind.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Statement as Prepared};

use super::address::Address;
use super::faults::Fault;
use super::flight::{PendingStatement, in_order, place};
use crate::store::conn::{Statement, StoreError};

/// The oldest supported server, as a `server_version_num`.
const OLDEST: i32 = 150_000;
/// How long opening a session may take. Each server of an address with several gets a share of it, so that one that
/// accepts and then stays silent does not block the next.
const OPEN_TIME: Duration = Duration::from_secs(15);

/// The first query on a session. It also pins `synchronous_commit` to the value that was checked, even if the server's
/// setting changes later. Two values are replaced: with them, a commit may be answered before it is on the disk of a standby.
const CHECKS: &str = "SELECT current_setting('server_version_num')::INT, current_setting('server_encoding')::TEXT, \
     CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END, current_setting('default_transaction_read_only')::TEXT, \
     current_setting('fsync')::TEXT, set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') \
     IN ('local', 'remote_write') THEN 'on' ELSE current_setting('synchronous_commit') END, FALSE)::TEXT";

/// Makes the server notice within two minutes that a node's machine is gone, and free its place for others.
const NOTICED: &str =
    "SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 15; SET tcp_keepalives_count = 4";

/// Makes the server send its warnings, whatever its role, its database or the address say: a commit whose wait for a standby
/// was cancelled differs from others by its warning alone.
const WARNED: &str = "SET client_min_messages = warning";

/// An open session.
pub(super) struct Session {
    client: Client,
    /// Taken when the session ends, because a runtime must not wait for its own end inside another runtime.
    runtime: Option<Runtime>,
    warnings: Warnings,
}

/// The server's warnings since they were last taken.
type Warnings = Arc<Mutex<Vec<String>>>;

impl Session {
    /// Opens a session.
    ///
    /// # Errors
    /// If no connection can be set up, or the last server that was tried cannot be reached, refuses, or is not reliable.
    pub fn open(address: &Address, settings: &str) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| StoreError::Failed(format!("a connection cannot be set up: {e}")))?;
        let warnings = Warnings::default();
        let opened = runtime.block_on(open_any(address, settings, &warnings));
        let session = opened.map(|client| Self {
            client,
            runtime: None,
            warnings,
        });
        match session {
            Ok(mut session) => {
                session.runtime = Some(runtime);
                Ok(session)
            }
            Err(fault) => {
                runtime.shutdown_background();
                // There was no session yet that could have been lost.
                let fault = match fault {
                    Fault::Lost(why) => Fault::Unreached(format!("does not open a session: {why}")),
                    other => other,
                };
                Err(fault.into_error(address))
            }
        }
    }

    /// Whether the session is open, as far as this side knows.
    pub fn is_open(&mut self) -> bool {
        if let Some(runtime) = &self.runtime {
            // Lets the connection process what has arrived since the last wait: once to be woken, once to read.
            runtime.block_on(async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            });
        }
        !self.client.is_closed()
    }

    /// Runs `ask` and waits for its answer for at most `patience`.
    ///
    /// # Errors
    /// Those of `ask`; [`Fault::Unreached`] if the answer takes longer; [`Fault::Lost`] if the session has ended.
    pub fn wait<'a, T, E: Into<Fault>, F: Future<Output = Result<T, E>> + 'a>(
        &'a self,
        patience: Duration,
        ask: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, Fault> {
        let Some(runtime) = &self.runtime else {
            return Err(Fault::Lost("it was closed".to_owned()));
        };
        runtime.block_on(async {
            match tokio::time::timeout(patience, ask(&self.client)).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(Fault::silence(patience)),
            }
        })
    }

    /// Sends a command without waiting for its answer. Later answers come after it.
    pub fn send(&self, command: &str) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                let mut sent = std::pin::pin!(self.client.batch_execute(command));
                std::future::poll_fn(|context| Poll::Ready(sent.as_mut().poll(context).is_ready()))
                    .await;
                // The connection puts it on the wire.
                tokio::task::yield_now().await;
            });
        }
    }

    /// Prepares those of the statements that the session does not know yet, in one flight.
    ///
    /// # Errors
    /// As [`Self::wait`]; `known` is then as it was.
    pub fn prepare(
        &self,
        known: &mut HashMap<(usize, usize), Prepared>,
        statements: &[Statement<'_>],
        patience: Duration,
    ) -> Result<(), Fault> {
        let mut unknown: Vec<&'static str> = Vec::new();
        for statement in statements {
            let sql = statement.sql;
            let asked = unknown.iter().any(|other| place(other) == place(sql));
            if !known.contains_key(&place(sql)) && !asked {
                unknown.push(sql);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let prepared = self.wait(patience, |client| {
            let ask = |sql: &&'static str| -> PendingStatement<'_, Prepared> {
                let asked = client.prepare(sql);
                Box::pin(async { Ok(asked.await?) })
            };
            in_order(unknown.iter().map(ask).collect())
        })?;
        known.extend(unknown.iter().map(|sql| place(sql)).zip(prepared));
        Ok(())
    }

    /// Forgets earlier warnings, so that only new ones count.
    pub fn forget_warnings(&mut self) {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The first warning since then.
    pub fn warning(&mut self) -> Option<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        (!warnings.is_empty()).then(|| warnings.remove(0))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Opens a session on the first server that passes the checks. The one that last did so is tried first: a server that drops
/// packets would otherwise delay every session for as long as it is down.
async fn open_any(address: &Address, settings: &str, warnings: &Warnings) -> Result<Client, Fault> {
    let count = u32::try_from(address.servers.len()).unwrap_or(u32::MAX);
    let patience = OPEN_TIME / count.max(1);
    let mut opened = Err(Fault::silence(patience));
    let last_opened = address.last_opened.load(Ordering::Relaxed);
    let servers = address.servers.iter().enumerate();
    let from_there = servers.cycle().skip(last_opened);
    for (place, server) in from_there.take(address.servers.len()) {
        let opening = open(address, server, settings, warnings);
        let waited = tokio::time::timeout(patience, opening).await;
        opened = waited.unwrap_or_else(|_| Err(Fault::silence(patience)));
        if opened.is_ok() {
            address.last_opened.store(place, Ordering::Relaxed);
            break;
        }
    }
    opened
}

async fn open(
    address: &Address,
    server: &Config,
    settings: &str,
    warnings: &Warnings,
) -> Result<Client, Fault> {
    let client = match &address.tls {
        Some(tls) => {
            let (client, connection) = server.connect(tls.clone()).await?;
            drive(connection, Arc::clone(warnings));
            client
        }
        None => {
            let (client, connection) = server.connect(NoTls).await?;
            drive(connection, Arc::clone(warnings));
            client
        }
    };
    let row = client.query_one(CHECKS, &[]).await?;
    let text = |column| row.try_get::<_, String>(column);
    let version: i32 = row.try_get(0)?;
    let found = ServerInfo {
        version,
        encoding: text(1)?,
        standby: text(2)? == "on",
        read_only: text(3)? == "on",
        fsync: text(4)? != "off",
        waits_for_disk: text(5)? != "off",
    };
    found
        .check()
        .map_err(|why| Fault::Reported(StoreError::Failed(format!("{address} {why}"))))?;
    client
        .batch_execute(&format!("{WARNED}; {NOTICED}; {settings}"))
        .await?;
    Ok(client)
}

/// Lets the connection run whenever something is waited for.
fn drive<S, T>(mut connection: Connection<S, T>, warnings: Warnings)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let AsyncMessage::Notice(notice) = message
                // The other form of the severity is in the server's language.
                && notice.parsed_severity() == Some(Severity::Warning)
            {
                let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
                warnings.push(notice.message().to_owned());
            }
        }
    });
}

/// What the server says about itself.
struct ServerInfo {
    version: i32,
    encoding: String,
    standby: bool,
    read_only: bool,
    fsync: bool,
    waits_for_disk: bool,
}

impl ServerInfo {
    /// Why this server is not reliable, as the end of a sentence that begins with its address.
    fn check(&self) -> Result<(), String> {
        let refuse = |wrong: bool, why: &str| if wrong { Err(why.to_owned()) } else { Ok(()) };
        if self.version < OLDEST {
            return Err(format!(
                "is PostgreSQL {}, and Bookguard needs 15 or later; upgrade the server",
                self.version / 10_000
            ));
        }
        refuse(
            self.encoding != "UTF8",
            "does not keep text as UTF8; make the database with ENCODING 'UTF8'",
        )?;
        refuse(
            self.standby,
            "is a standby, which cannot be written; name the primary, or all servers: postgres://user@first,second/database",
        )?;
        refuse(
            self.read_only,
            "lets this user only read (default_transaction_read_only is on); allow writing",
        )?;
        refuse(
            !self.fsync,
            "runs with fsync = off, so that a crash could lose what was acknowledged; switch it on",
        )?;
        refuse(
            !self.waits_for_disk,
            "runs with synchronous_commit = off, so that a crash could lose what was acknowledged; switch it on for this user or database",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn sound() -> ServerInfo {
        ServerInfo {
            version: 150_004,
            encoding: "UTF8".to_owned(),
            standby: false,
            read_only: false,
            fsync: true,
            waits_for_disk: true,
        }
    }

    /// Reads one message of the client. `kind` is the length of its type: 1, or 0 for a message without one.
    fn read_message(socket: &mut TcpStream, kind: usize) {
        let mut start = vec![0; kind + 4];
        socket.read_exact(&mut start).unwrap();
        let length = u32::from_be_bytes(start[kind..].try_into().unwrap());
        let mut rest = vec![0; length as usize - 4];
        socket.read_exact(&mut rest).unwrap();
    }

    #[test]
    fn a_warning_is_one_in_the_servers_language_too() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            read_message(&mut socket, 0);
            socket
                .write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
                .unwrap();
            read_message(&mut socket, 1);
            let fields = b"SWARNUNG\0VWARNING\0C01000\0MWarten abgebrochen\0\0";
            let length = u32::try_from(fields.len() + 4).unwrap();
            let said = [b"N".as_slice(), &length.to_be_bytes(), fields];
            socket.write_all(&said.concat()).unwrap();
            socket
                .write_all(b"C\0\0\0\x0bCOMMIT\0Z\0\0\0\x05I")
                .unwrap();
            // Until the client is gone.
            let _ = socket.read(&mut [0]);
        });
        let warnings = Warnings::default();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut config = tokio_postgres::Config::new();
            config.host("127.0.0.1").port(port).user("u");
            let (client, connection) = config.connect(NoTls).await.unwrap();
            drive(connection, Arc::clone(&warnings));
            client.batch_execute("COMMIT").await.unwrap();
        });
        drop(runtime);
        server.join().unwrap();
        assert_eq!(*warnings.lock().unwrap(), ["Warten abgebrochen"]);
    }

    #[test]
    fn a_server_that_cannot_be_relied_on_is_refused_with_its_reason() {
        assert_eq!(sound().check(), Ok(()));
        #[rustfmt::skip]
        let cases = [
            (ServerInfo { version: 140_011, ..sound() }, "is PostgreSQL 14,"),
            (ServerInfo { version: 90_624, ..sound() }, "is PostgreSQL 9,"),
            (ServerInfo { encoding: "SQL_ASCII".to_owned(), ..sound() }, "UTF8"),
            (ServerInfo { standby: true, ..sound() }, "is a standby"),
            (ServerInfo { read_only: true, ..sound() }, "only read"),
            (ServerInfo { fsync: false, ..sound() }, "fsync = off"),
            (ServerInfo { waits_for_disk: false, ..sound() }, "synchronous_commit = off"),
        ];
        for (found, why) in cases {
            assert!(found.check().unwrap_err().contains(why), "{why}");
        }
    }
}
