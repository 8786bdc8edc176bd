//! A webhook receiver that keeps the requests it gets and answers on command.
//!
//! Written by hand on TCP, because it must also misbehave. A TLS handshake gets a plain answer.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bookguard_core::webhook::{self, Secret, StandardHeaders};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::waiting::BOUND;

/// How a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// With this status.
    Status(u16),
    /// With this status and these headers, a line each.
    Headed(u16, &'static str),
    /// With this status, after this delay.
    Late(Duration, u16),
    /// With 200, these headers, a line each, and this body.
    Body(&'static str, Arc<[u8]>),
    /// With 200 and a body that comes one byte at a time and never ends.
    Dripping,
    /// With 200 and an endless body, as fast as it is read.
    Endless,
    /// With endless interim answers and no final one: many as fast as they are read, the rest slowly.
    Interim,
    /// Not at all, until the usual answer changes.
    Silence,
    /// By closing the connection.
    Close,
    /// By resetting the connection.
    Reset,
    /// With 200 and half a body; then it sends nothing more and keeps listening.
    HalfClose,
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The path.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// When the request was complete.
    pub at: Instant,
}

/// A running receiver, until it is dropped.
pub struct Receiver {
    addr: SocketAddr,
    state: Arc<State>,
    task: AbortHandle,
}

struct State {
    inbox: Mutex<Inbox>,
    changed: Notify,
    /// How many connections are open.
    connections: AtomicUsize,
}

struct Inbox {
    received: Vec<Received>,
    next: VecDeque<Answer>,
    usual: Answer,
}

impl Receiver {
    /// A receiver that answers 200.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port of this machine can be had");
        let addr = listener
            .local_addr()
            .expect("a bound listener has an address");
        let state = Arc::new(State {
            inbox: Mutex::new(Inbox {
                received: Vec::new(),
                next: VecDeque::new(),
                usual: Answer::Status(200),
            }),
            changed: Notify::new(),
            connections: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&state))).abort_handle();
        Self { addr, state, task }
    }

    /// The address to post to.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.addr)
    }

    /// Starts a receiver with this answer.
    pub async fn answering(answer: Answer) -> Self {
        let receiver = Self::start().await;
        receiver.answer(answer);
        receiver
    }

    /// Changes the usual answer, also for requests that were left unanswered.
    pub fn answer(&self, usual: Answer) {
        self.state.inbox().usual = usual;
        self.state.changed.notify_waiters();
    }

    /// Sets the answers for the next requests, in turn; later requests get the usual answer.
    pub fn answer_next(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state.inbox().next.extend(answers);
    }

    /// How many requests have arrived so far.
    pub fn count(&self) -> usize {
        self.state.inbox().received.len()
    }

    /// How many connections are open. If there are none, every request has arrived.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// The requests that have arrived so far.
    pub fn received(&self) -> Vec<Received> {
        self.state.inbox().received.clone()
    }

    /// Waits until this many requests have arrived, and returns all of them.
    ///
    /// Panics after the bound.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let arrived = timeout(BOUND, async {
            loop {
                // Registered before looking, so that no arrival is missed in between.
                let changed = self.state.changed.notified();
                if self.count() >= count {
                    return self.received();
                }
                changed.await;
            }
        });
        let arrived = arrived.await;
        arrived.unwrap_or_else(|_| panic!("{} of {count} webhooks came", self.count()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Received {
    /// Whether its body was signed with one of these secrets (`x-service-signature`).
    pub fn body_verifies(&self, secret: &Secret) -> Result<(), webhook::VerifyError> {
        webhook::verify([secret], self.header("x-service-signature"), &self.body)
    }

    /// Whether it was signed with this secret at this time, as Standard Webhooks defines it.
    pub fn verifies(
        &self,
        secret: &Secret,
        now: i64,
        tolerance: Option<Duration>,
    ) -> Result<(), webhook::VerifyError> {
        let headers = StandardHeaders {
            id: self.header("webhook-id"),
            timestamp: self.header("webhook-timestamp"),
            signature: self.header("webhook-signature"),
        };
        webhook::verify_standard([secret], headers, &self.body, now, tolerance)
    }

    /// A header's value; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a webhook's body is JSON")
    }

    /// A string member of the body.
    pub fn string(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_default().to_owned()
    }
}

/// Dropping it also ends every connection.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let open = Open::new(&state);
        let state = Arc::clone(&state);
        connections.spawn(async move {
            serve(stream, state).await;
            drop(open);
        });
        while connections.try_join_next().is_some() {}
    }
}

/// An open connection, counted until it is dropped.
struct Open(Arc<State>);

impl Open {
    fn new(state: &Arc<State>) -> Self {
        state.connections.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(state))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves a connection until the sender closes it, or an answer ends it.
async fn serve(stream: TcpStream, state: Arc<State>) -> Option<()> {
    let mut stream = BufStream::new(stream);
    if stream.fill_buf().await.ok()?.first() == Some(&TLS_HANDSHAKE) {
        return send(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    }
    loop {
        let received = read(&mut stream).await?;
        let mut answer = {
            let mut inbox = state.inbox();
            inbox.received.push(received);
            let usual = inbox.usual.clone();
            inbox.next.pop_front().unwrap_or(usual)
        };
        state.changed.notify_waiters();
        while answer == Answer::Silence {
            // Registered before looking, so that no change is missed in between.
            let changed = state.changed.notified();
            answer = state.inbox().usual.clone();
            if answer == Answer::Silence {
                changed.await;
            }
        }
        give(&mut stream, answer).await?;
    }
}

/// The first byte of a TLS handshake: RFC 8446, section 5.1.
const TLS_HANDSHAKE: u8 = 22;
/// The pause between two bytes of a slow body.
const DRIP: Duration = Duration::from_millis(50);
/// How many interim answers come at full speed: far more bytes than any limit of ours.
const INTERIM: usize = 10_000;

/// Sends an answer; `None` ends the connection.
async fn give(stream: &mut BufStream<TcpStream>, answer: Answer) -> Option<()> {
    match answer {
        Answer::Status(status) => told(stream, status, "", b"ok").await,
        Answer::Headed(status, headers) => told(stream, status, headers, b"ok").await,
        Answer::Body(headers, body) => told(stream, 200, headers, &body).await,
        Answer::Late(by, status) => {
            sleep(by).await;
            told(stream, status, "", b"ok").await
        }
        Answer::Dripping => {
            send(stream, b"HTTP/1.1 200 Told\r\ncontent-length: 9999\r\n\r\n").await?;
            loop {
                send(stream, b".").await?;
                sleep(DRIP).await;
            }
        }
        Answer::Endless => {
            let head = b"HTTP/1.1 200 Told\r\ntransfer-encoding: chunked\r\n\r\n";
            send(stream, head).await?;
            let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
            loop {
                send(stream, chunk.as_bytes()).await?;
            }
        }
        Answer::Interim => {
            let interim = "HTTP/1.1 100 Continue\r\n\r\n";
            send(stream, interim.repeat(INTERIM).as_bytes()).await?;
            // At full speed, a client that only its patience stops would use up the processor.
            loop {
                send(stream, interim.as_bytes()).await?;
                sleep(DRIP).await;
            }
        }
        Answer::Silence | Answer::Close => None,
        Answer::Reset => {
            let _ = stream.get_ref().set_zero_linger();
            None
        }
        Answer::HalfClose => {
            send(
                stream,
                b"HTTP/1.1 200 Told\r\ncontent-length: 9\r\n\r\nhalf",
            )
            .await?;
            stream.shutdown().await.ok()?;
            // Until the sender closes the connection.
            let _ = stream.read(&mut [0]).await;
            None
        }
    }
}

pub(crate) async fn told(
    stream: &mut BufStream<TcpStream>,
    status: u16,
    headers: &str,
    body: &[u8],
) -> Option<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {length}\r\n{headers}\r\n");
    send(stream, &[head.as_bytes(), body].concat()).await
}

async fn send(stream: &mut BufStream<TcpStream>, bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).await.ok()?;
    stream.flush().await.ok()
}

pub(crate) async fn read(stream: &mut BufStream<TcpStream>) -> Option<Received> {
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
        at: Instant::now(),
    })
}
