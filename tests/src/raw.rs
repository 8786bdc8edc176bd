//! Requests sent byte by byte, which no proper client would send.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// A connection.
pub struct Raw {
    stream: TcpStream,
    /// Bytes read and not yet taken.
    left: Vec<u8>,
}

/// A response as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawReply {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
}

/// Sends bytes on a new connection and reads one response.
pub async fn exchange(addr: SocketAddr, request: impl AsRef<[u8]>) -> RawReply {
    Raw::sending(addr, request).await.reply(false).await
}

impl Raw {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr)
            .await
            .expect("the server takes connections");
        Self {
            stream,
            left: Vec::new(),
        }
    }

    /// Connects and sends bytes.
    pub async fn sending(addr: SocketAddr, bytes: impl AsRef<[u8]>) -> Self {
        let mut raw = Self::connect(addr).await;
        raw.send(bytes).await;
        raw
    }

    /// Sends the head of a request (its first line and headers), and waits until the server asks for the body.
    pub async fn with_head(addr: SocketAddr, head: &str) -> Self {
        let head = format!("{head}\r\nhost: h\r\nexpect: 100-continue\r\n\r\n");
        let mut raw = Self::sending(addr, head).await;
        let asked = raw.reply(false).await;
        assert_eq!(asked.status, 100, "{asked:?}");
        raw
    }

    /// Connects from one of this machine's addresses.
    pub async fn connect_from(from: IpAddr, addr: SocketAddr) -> Self {
        let socket = match from {
            IpAddr::V4(_) => TcpSocket::new_v4(),
            IpAddr::V6(_) => TcpSocket::new_v6(),
        };
        let socket = socket.expect("the system gives sockets");
        let bound = socket.bind(SocketAddr::new(from, 0));
        bound.expect("the address is this machine's");
        let stream = socket.connect(addr).await;
        Self {
            stream: stream.expect("the server takes connections"),
            left: Vec::new(),
        }
    }

    /// Sends bytes. If the server has already closed, that is not a failure: its earlier answer can still be read.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Closes the sending side.
    pub async fn finish(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads one response; `headless` if it answers a HEAD, and so has no body whatever its headers say.
    pub async fn reply(&mut self, headless: bool) -> RawReply {
        let end = loop {
            if let Some(end) = find(&self.left, b"\r\n\r\n") {
                break end;
            }
            assert!(self.more().await, "the server closed without a response");
        };
        let head = String::from_utf8_lossy(&self.left[..end]).into_owned();
        self.left.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.and_then(|code| code.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut reply = RawReply {
            status: status.expect("a response begins with its status"),
            headers,
            body: Vec::new(),
        };
        if !headless && reply.status >= 200 && reply.status != 304 {
            reply.body = self.body(&reply).await;
        }
        reply
    }

    /// Whether the server has closed, or closes within the bound.
    pub async fn closed(&mut self) -> bool {
        self.left.is_empty() && !self.more().await
    }

    async fn body(&mut self, reply: &RawReply) -> Vec<u8> {
        if reply.header("transfer-encoding") == Some("chunked") {
            return self.chunks().await;
        }
        let length: usize = reply
            .header("content-length")
            .and_then(|length| length.parse().ok())
            .expect("answers say how long they are");
        self.take(length).await
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = find(&self.left, b"\r\n") {
                    break end;
                }
                assert!(self.more().await, "the server closed within a chunk");
            };
            let size = String::from_utf8_lossy(&self.left[..end]).into_owned();
            self.left.drain(..end + 2);
            let size = usize::from_str_radix(&size, 16).expect("a chunk begins with its size");
            body.extend(self.take(size).await);
            self.take(2).await;
            if size == 0 {
                return body;
            }
        }
    }

    async fn take(&mut self, length: usize) -> Vec<u8> {
        while self.left.len() < length {
            assert!(self.more().await, "the server closed within a body");
        }
        self.left.drain(..length).collect()
    }

    /// Reads more; `false` at the end.
    async fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read = timeout(PATIENCE, self.stream.read(&mut buffer)).await;
        // A reset is an end too: the server closed while bytes were still being sent to it.
        let read = read.expect("the server answers or closes").unwrap_or(0);
        self.left.extend_from_slice(&buffer[..read]);
        read > 0
    }
}

impl RawReply {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// An error's code; empty if the body has none. Every answer names its request.
    #[track_caller]
    pub fn code(&self) -> String {
        assert!(self.header("x-request-id").is_some(), "{self:?}");
        let code = &self.json()["code"];
        code.as_str().unwrap_or_default().to_owned()
    }

    /// Asserts that the answer has this status, and this value of a header.
    #[track_caller]
    pub fn headed(&self, status: u16, name: &str, value: &str) -> &Self {
        let said = (self.status, self.header(name));
        assert_eq!(said, (status, Some(value)), "{name} of {self:?}");
        self
    }

    /// Asserts that the answer is a refusal with this status and code.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> &Self {
        let said = (self.status, self.code());
        assert_eq!(said, (status, code.to_owned()), "{self:?}");
        self
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}
