//! A webhook receiver: keeps what it is sent and answers as it is told.
//!
//! Hand-written on TCP, because it must also misbehave.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::waiting::BOUND;

/// How a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// With this status.
    Status(u16),
    /// With this status and these headers, a line each.
    Headed(u16, &'static str),
    /// Not at all, until the usual answer is another.
    Silence,
    /// By closing the connection.
    Close,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The path.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body, to the byte.
    pub body: Vec<u8>,
}

/// A receiver, until it is dropped.
pub struct Receiver {
    addr: SocketAddr,
    state: Arc<State>,
    task: AbortHandle,
}

struct State {
    desk: Mutex<Desk>,
    changed: Notify,
}

struct Desk {
    received: Vec<Received>,
    next: VecDeque<Answer>,
    usual: Answer,
}

impl Receiver {
    /// One that answers 200.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port of this machine can be had");
        let addr = listener
            .local_addr()
            .expect("a bound listener has an address");
        let state = Arc::new(State {
            desk: Mutex::new(Desk {
                received: Vec::new(),
                next: VecDeque::new(),
                usual: Answer::Status(200),
            }),
            changed: Notify::new(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&state))).abort_handle();
        Self { addr, state, task }
    }

    /// Where to post.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.addr)
    }

    /// How requests are answered from now on; those that were left in silence too.
    pub fn answer(&self, usual: Answer) {
        self.state.desk().usual = usual;
        self.state.changed.notify_waiters();
    }

    /// How the next requests are answered, in turn, before it goes on as usual.
    pub fn answer_next(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state.desk().next.extend(answers);
    }

    /// What has come so far.
    pub fn received(&self) -> Vec<Received> {
        self.state.desk().received.clone()
    }

    /// Waits until this many have come, and gives all of them.
    ///
    /// Panics after the bound.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let arrived = timeout(BOUND, async {
            loop {
                // Listened for before looking, so that nothing arrives in between.
                let changed = self.state.changed.notified();
                let received = self.received();
                if received.len() >= count {
                    return received;
                }
                changed.await;
            }
        });
        let arrived = arrived.await;
        arrived.unwrap_or_else(|_| panic!("{} of {count} webhooks came", self.received().len()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Received {
    /// A header's value; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a webhook's body is JSON")
    }

    /// A member of the body that is a string.
    pub fn string(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_default().to_owned()
    }
}

/// Dropping it ends every connection too.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

/// Until the sender goes away, or the answer is to close.
async fn serve(stream: TcpStream, state: Arc<State>) -> Option<()> {
    let mut stream = BufStream::new(stream);
    loop {
        let received = read(&mut stream).await?;
        let mut answer = {
            let mut desk = state.desk();
            desk.received.push(received);
            let usual = desk.usual.clone();
            desk.next.pop_front().unwrap_or(usual)
        };
        state.changed.notify_waiters();
        while answer == Answer::Silence {
            // Listened for before looking, so that nothing is told in between.
            let changed = state.changed.notified();
            answer = state.desk().usual.clone();
            if answer == Answer::Silence {
                changed.await;
            }
        }
        let (status, headers) = match answer {
            Answer::Status(status) => (status, ""),
            Answer::Headed(status, headers) => (status, headers),
            Answer::Silence | Answer::Close => return None,
        };
        let head = format!("HTTP/1.1 {status} Told\r\ncontent-length: 2\r\n{headers}\r\nok");
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
    }
}

async fn read(stream: &mut BufStream<TcpStream>) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length");
    let length = length.map_or(Some(0), |length| length.parse().ok())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Received {
        path,
        headers,
        body,
    })
}
