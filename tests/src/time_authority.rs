//! A time-stamp authority on this machine, over plain HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bookguard_core::clock::Clock;
use bookguard_test_authority::{Authority, Chain};
use tokio::io::BufStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::receiver::{read, told};

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
        tokio::spawn(async move { answer(stream, &state).await });
    }
}

async fn answer(stream: TcpStream, state: &State) -> Option<()> {
    let mut stream = BufStream::new(stream);
    let request = read(&mut stream).await?;
    let now = lock(&state.clock)
        .as_ref()
        .map_or(0, |clock| clock.now().ms());
    let response = lock(&state.authority).answer(&request.body, now);
    state.asked.fetch_add(1, Ordering::AcqRel);
    let head = "content-type: application/timestamp-reply\r\n";
    told(&mut stream, 200, head, &response).await
}
