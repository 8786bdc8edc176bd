//! A network between a node and its PostgreSQL server that fails on command.
//!
//! Of the protocol it knows only the word COMMIT, which travels unencrypted in both directions: a failure there decides
//! whether a commit happened that nobody was told about.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// The command and its confirmation, each at the end of a message; READ COMMITTED does not match.
const COMMIT: &[u8] = b"COMMIT\0";

/// What happens to the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// They arrive.
    Pass,
    /// They arrive after this delay, in both directions.
    Late(Duration),
    /// They do not arrive, and neither side is told, until there is another rule.
    Hold,
    /// All connections are reset, including new ones.
    Cut,
    /// The next commit does not reach the server: its connection is reset. After that, everything passes.
    CutBeforeCommit,
    /// The next commit reaches the server and is executed; its answer is lost with the connection. After that, everything
    /// passes.
    CutAfterCommit,
    /// The next commit is held back; all other connections work as usual.
    HoldCommit,
}

/// A running proxy, until it is dropped.
pub struct Proxy {
    rule: Arc<watch::Sender<Rule>>,
    url: String,
    task: AbortHandle,
}

impl Proxy {
    /// A proxy for the server of this URL.
    pub async fn before(url: &str) -> Self {
        let mut url: Url = url.parse().expect("the URL of a test's database");
        let host = url.host_str().expect("it names a host").to_owned();
        let target = (host, url.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port of this machine can be had");
        let addr: SocketAddr = listener
            .local_addr()
            .expect("a bound listener has an address");
        url.set_host(Some("127.0.0.1"))
            .expect("a host of a URL that had one");
        url.set_port(Some(addr.port()))
            .expect("a port of a URL with a host");
        let rule = Arc::new(watch::Sender::new(Rule::Pass));
        let task = tokio::spawn(accept(listener, target, Arc::clone(&rule)));
        Self {
            rule,
            url: url.into(),
            task: task.abort_handle(),
        }
    }

    /// The URL of the same database, through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Changes the rule, for existing connections too.
    pub fn set(&self, rule: Rule) {
        self.rule.send_replace(rule);
    }

    /// The current rule.
    pub fn rule(&self) -> Rule {
        *self.rule.borrow()
    }

    /// Resets every existing connection; new ones work.
    pub fn cut(&self) {
        self.set(Rule::Cut);
        self.set(Rule::Pass);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Dropping it also ends every connection.
async fn accept(listener: TcpListener, target: (String, u16), rule: Arc<watch::Sender<Rule>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(connect(client, target.clone(), Arc::clone(&rule)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(client: TcpStream, target: (String, u16), rule: Arc<watch::Sender<Rule>>) {
    let server = TcpStream::connect(target).await;
    if let Ok(server) = server
        && *rule.borrow() != Rule::Cut
    {
        relay(client, server, &rule).await;
    } else {
        let _ = client.set_zero_linger();
    }
}

/// Copies bytes until either side closes or a rule ends the connection; then resets both sides.
async fn relay(mut client: TcpStream, mut server: TcpStream, rule: &watch::Sender<Rule>) {
    // Shared by the two directions: whether an answer that is to be lost is under way.
    let losing = watch::Sender::new(false);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let mut watched = rule.subscribe();
    tokio::select! {
        _ = watched.wait_for(|rule| *rule == Rule::Cut) => {}
        () = ask(&mut from_client, &mut to_server, rule, &losing) => {}
        () = answer(&mut from_server, &mut to_client, rule, &losing) => {}
    }
    for stream in [&client, &server] {
        let _ = stream.set_zero_linger();
    }
}

/// From the client to the server.
async fn ask(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    rule: &watch::Sender<Rule>,
    losing: &watch::Sender<bool>,
) {
    let mut chunks = Chunks::default();
    while let Some(commits) = chunks.next(from).await {
        let mut now = *rule.borrow();
        if commits {
            match now {
                Rule::CutBeforeCommit => {
                    rule.send_replace(Rule::Pass);
                    return;
                }
                Rule::CutAfterCommit => {
                    rule.send_replace(Rule::Pass);
                    losing.send_replace(true);
                    now = Rule::Pass;
                }
                // This chunk is the last of its connection.
                Rule::HoldCommit => std::future::pending::<()>().await,
                _ => {}
            }
        }
        if chunks.forward(to, now, rule).await.is_none() {
            return;
        }
    }
}

/// From the server to the client.
async fn answer(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    rule: &watch::Sender<Rule>,
    losing: &watch::Sender<bool>,
) {
    let mut chunks = Chunks::default();
    while let Some(committed) = chunks.next(from).await {
        if *losing.borrow() {
            // Anything that comes before the commit's own answer is lost with it.
            if committed {
                return;
            }
            continue;
        }
        let now = *rule.borrow();
        if chunks.forward(to, now, rule).await.is_none() {
            return;
        }
    }
}

/// The chunk read last, and the end of the bytes before it, because a word may be split.
#[derive(Default)]
struct Chunks {
    tail: Vec<u8>,
    chunk: Vec<u8>,
}

impl Chunks {
    /// Reads the next chunk. Returns whether it contains a commit, or `None` at the end.
    async fn next(&mut self, from: &mut ReadHalf<'_>) -> Option<bool> {
        self.chunk.resize(64 * 1024, 0);
        let read = from
            .read(&mut self.chunk)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        self.chunk.truncate(read);
        self.tail.extend_from_slice(&self.chunk);
        let found = self.tail.windows(COMMIT.len()).any(|word| word == COMMIT);
        // A word that was found is not found again.
        let keep = if found { 0 } else { COMMIT.len() - 1 };
        self.tail.drain(..self.tail.len().saturating_sub(keep));
        Some(found)
    }

    async fn forward(
        &self,
        to: &mut WriteHalf<'_>,
        now: Rule,
        rule: &watch::Sender<Rule>,
    ) -> Option<()> {
        match now {
            Rule::Late(time) => tokio::time::sleep(time).await,
            Rule::Hold => {
                let mut watched = rule.subscribe();
                watched.wait_for(|rule| *rule != Rule::Hold).await.ok()?;
            }
            _ => {}
        }
        to.write_all(&self.chunk).await.ok()
    }
}
