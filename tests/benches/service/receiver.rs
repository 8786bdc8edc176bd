//! A webhook receiver that does next to nothing: it answers 200 and records when each booking's event arrived.
//!
//! It runs on a thread of its own and has a gate: while that is shut, requests are read but not answered, so that a
//! backlog builds up.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;

use crate::Fallible;
use crate::http::{content_length, head_end};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A running receiver; it ends with the process.
pub struct Receiver {
    /// The address it listens on.
    pub addr: SocketAddr,
    gate: watch::Sender<bool>,
    seen: Arc<Mutex<Seen>>,
}

/// The events that have arrived so far.
#[derive(Default)]
struct Seen {
    /// When each booking's first event arrived.
    bookings: HashMap<String, Instant>,
    /// The clients that wait for a booking's event.
    waiting: HashMap<String, oneshot::Sender<Instant>>,
    requests: u64,
    /// The body that came last: what a bare client posts for comparison.
    body: Vec<u8>,
}

impl Receiver {
    /// Starts a receiver with its gate open.
    pub fn start() -> Fallible<Self> {
        let (gate, open) = watch::channel(true);
        let seen = Arc::<Mutex<Seen>>::default();
        let (tell, told) = std::sync::mpsc::channel();
        let noted = Arc::clone(&seen);
        std::thread::spawn(move || -> Fallible<()> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            LocalSet::new().block_on(&runtime, async {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                tell.send(listener.local_addr()?)?;
                loop {
                    let (stream, _) = listener.accept().await?;
                    tokio::task::spawn_local(serve(stream, open.clone(), Arc::clone(&noted)));
                }
            })
        });
        Ok(Self {
            addr: told.recv()?,
            gate,
            seen,
        })
    }

    /// Opens or shuts the gate.
    pub fn open(&self, open: bool) {
        self.gate.send_replace(open);
    }

    /// Forgets everything that arrived.
    pub fn forget(&self) {
        let mut seen = self.seen();
        seen.bookings.clear();
        seen.requests = 0;
    }

    /// Returns the number of bookings whose events have arrived.
    pub fn bookings(&self) -> usize {
        self.seen().bookings.len()
    }

    /// Returns when this booking's first event arrived.
    pub fn came(&self, booking_id: &str) -> Option<Instant> {
        self.seen().bookings.get(booking_id).copied()
    }

    /// The body that came last.
    pub fn body(&self) -> Vec<u8> {
        self.seen().body.clone()
    }

    /// Returns a handle to wait for bookings.
    pub fn watcher(&self) -> Watcher {
        Watcher(Arc::clone(&self.seen))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the events of bookings.
#[derive(Clone, Default)]
pub struct Watcher(Arc<Mutex<Seen>>);

impl Watcher {
    /// Returns once the booking's event has arrived.
    pub async fn came(&self, booking_id: &str) -> Fallible<()> {
        let waiter = {
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.bookings.contains_key(booking_id) {
                return Ok(());
            }
            let (tell, told) = oneshot::channel();
            seen.waiting.insert(booking_id.to_owned(), tell);
            told
        };
        waiter.await?;
        Ok(())
    }
}

async fn serve(
    mut stream: TcpStream,
    mut open: watch::Receiver<bool>,
    seen: Arc<Mutex<Seen>>,
) -> Fallible<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(head) = head_end(&buffer) {
                let end = head + content_length(&buffer[..head]).unwrap_or(0);
                if buffer.len() >= end {
                    break (head, end);
                }
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        open.wait_for(|open| *open).await?;
        note(&seen, &buffer[end.0..end.1]);
        stream.write_all(ANSWER).await?;
        buffer.drain(..end.1);
    }
}

fn note(seen: &Mutex<Seen>, body: &[u8]) {
    let now = Instant::now();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.requests += 1;
    if let Some(id) = booking_id(body) {
        if let Some(waiter) = seen.waiting.remove(id) {
            // The client may be gone if the load has ended.
            let _ = waiter.send(now);
        }
        seen.bookings.entry(id.to_owned()).or_insert(now);
    }
    if seen.requests == 1 {
        seen.body = body.to_vec();
    }
}

/// Returns the booking that a JSON text names.
pub fn booking_id(body: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"\"bookingId\":\"";
    const LENGTH: usize = 36;
    let at = body.windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    std::str::from_utf8(body.get(at..at + LENGTH)?).ok()
}
