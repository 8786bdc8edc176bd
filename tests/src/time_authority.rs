//! A time-stamp authority on this machine, over plain HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bookguard_core::clock::Clock;
use bookguard_test_authority::{Authority, Chain};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// An authority that answers every request rightly, at the time of the server that it follows. It ends when dropped.
pub struct TimeAuthority {
    url: String,
    state: Arc<State>,
    serving: AbortHandle,
}

struct State {
    authority: Mutex<Authority>,
    clock: Mutex<Option<Clock>>,
    asked: AtomicUsize,
}

impl TimeAuthority {
    /// An authority with these certificates.
    pub async fn start(chain: &Chain) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("this machine has a free port");
        let addr = listener.local_addr().expect("it listens");
        let state = Arc::new(State {
            authority: Mutex::new(Authority::new(chain)),
            clock: Mutex::new(None),
            asked: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self {
            url: format!("http://{addr}/"),
            state,
            serving: serving.abort_handle(),
        }
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The root that vouches for it, in PEM.
    pub fn root_pem(&self) -> String {
        lock(&self.state.authority).root_pem()
    }

    /// Goes on with other certificates.
    pub fn renew(&self, chain: &Chain) {
        *lock(&self.state.authority) = Authority::new(chain);
    }

    /// Takes its time from this clock.
    pub fn follow(&self, clock: Clock) {
        *lock(&self.state.clock) = Some(clock);
    }

    /// How many requests it answered.
    pub fn asked(&self) -> usize {
        self.state.asked.load(Ordering::Acquire)
    }
}

impl Drop for TimeAuthority {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move { drop(answer(stream, &state).await) });
    }
}

async fn answer(stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut request = vec![0; length];
    stream.read_exact(&mut request).await?;
    let now = lock(&state.clock)
        .as_ref()
        .map_or(0, |clock| clock.now().ms());
    let response = lock(&state.authority).answer(&request, now);
    state.asked.fetch_add(1, Ordering::AcqRel);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/timestamp-reply\r\ncontent-length: {}\r\n\r\n",
        response.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&response).await?;
    stream.flush().await
}
