//! A forward proxy that opens tunnels (`CONNECT`), as operators run one, and that can fail in every way a proxy can.
//!
//! Written by hand on TCP, because it must also misbehave.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream, copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// How the proxy treats a request for a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Opens the tunnel, or answers 502 if it cannot.
    Open,
    /// Answers these bytes and closes the connection.
    Says(&'static str),
    /// Answers without end.
    Endless,
    /// Answers nothing, for as long as it runs.
    Silent,
    /// Closes the connection at once.
    Closes,
    /// Resets the connection at once.
    Resets,
}

/// A request for a tunnel: its first line and the value of `proxy-authorization`.
pub type Asked = (String, Option<String>);

/// A running proxy, until it is dropped.
pub struct ForwardProxy {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

struct State {
    way: Way,
    asked: Vec<Asked>,
    waiting: usize,
}

impl ForwardProxy {
    /// A proxy that opens tunnels.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port of this machine can be had");
        let addr = listener.local_addr().expect("a bound listener has one");
        let state = Arc::new(Mutex::new(State {
            way: Way::Open,
            asked: Vec::new(),
            waiting: 0,
        }));
        let serving = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Self {
            addr,
            state,
            task: task.abort_handle(),
        }
    }

    /// Its address, with this text before the host, such as `user:password@`.
    pub fn url(&self, credentials: &str) -> String {
        format!("http://{credentials}{}", self.addr)
    }

    /// Changes how requests are treated from now on.
    pub fn way(&self, way: Way) {
        lock(&self.state).way = way;
    }

    /// How many clients wait for an answer that it does not give.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting
    }

    /// The requests it got, in order.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.state).asked.clone()
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufStream::new(stream);
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    let target = asked.0.split(' ').nth(1).unwrap_or_default().to_owned();
    let way = {
        let mut state = lock(&state);
        state.asked.push(asked);
        state.way
    };
    // A client that gives up is not a failure of the proxy.
    let _ = match way {
        Way::Open => open(stream, &target).await,
        Way::Says(bytes) => say(&mut stream, bytes).await,
        Way::Endless => loop {
            if let Err(gone) = say(&mut stream, "HTTP/1.1 200 OK\r\nx: y\r\nx: ").await {
                break Err(gone);
            }
        },
        Way::Silent => {
            lock(&state).waiting += 1;
            let ended = stream.read_u8().await;
            lock(&state).waiting -= 1;
            ended.map(drop)
        }
        Way::Closes => Ok(()),
        Way::Resets => stream.get_ref().set_zero_linger(),
    };
}

async fn say(stream: &mut BufStream<TcpStream>, bytes: &str) -> std::io::Result<()> {
    stream.write_all(bytes.as_bytes()).await?;
    stream.flush().await
}

async fn open(mut stream: BufStream<TcpStream>, target: &str) -> std::io::Result<()> {
    match TcpStream::connect(target).await {
        Ok(mut receiver) => {
            say(&mut stream, "HTTP/1.1 200 Connection established\r\n\r\n").await?;
            copy_bidirectional(&mut stream, &mut receiver).await?;
            Ok(())
        }
        Err(_) => say(&mut stream, "HTTP/1.1 502 Bad Gateway\r\n\r\n").await,
    }
}

async fn read(stream: &mut BufStream<TcpStream>) -> Option<Asked> {
    let (mut first, mut authorization) = (String::new(), None);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            return Some((first, authorization));
        }
        if first.is_empty() {
            first = line.to_owned();
        }
        if let Some(value) = line.strip_prefix("proxy-authorization: ") {
            authorization = Some(value.to_owned());
        }
    }
}
