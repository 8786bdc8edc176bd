//! A lean HTTP/1.1 client: sends a prepared request and reads status and body, over one kept-alive connection.
//!
//! It understands only what the measured servers answer (`Content-Length`, no chunks) and fails on anything else.
//! Invariant: one request is open at a time, so the buffer holds one answer.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Fallible;

/// A kept-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer to a request.
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: &'a [u8],
}

impl Connection {
    /// Opens a connection.
    pub async fn open(addr: SocketAddr) -> Fallible<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(4096),
        })
    }

    /// Sends a request and reads its answer.
    pub async fn exchange(&mut self, request: &[u8]) -> Fallible<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (status, head, length) = loop {
            if let Some(end) = head_end(&self.buffer) {
                let (status, length) = read_head(&self.buffer[..end])?;
                break (status, end, length);
            }
            self.read_more().await?;
        };
        while self.buffer.len() < head + length {
            self.read_more().await?;
        }
        Ok(Answer {
            status,
            body: &self.buffer[head..head + length],
        })
    }

    async fn read_more(&mut self) -> Fallible<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err("the server closed a kept-alive connection".into());
        }
        Ok(())
    }
}

/// Returns where the body begins, once the head is complete.
pub fn head_end(buffer: &[u8]) -> Option<usize> {
    buffer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4)
}

fn read_head(head: &[u8]) -> Fallible<(u16, usize)> {
    let status = head
        .get(9..12)
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .ok_or("an answer without a status")?;
    Ok((status, content_length(head).unwrap_or(0)))
}

/// Returns the value of `Content-Length`.
pub fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))?;
    std::str::from_utf8(&line[NAME.len()..])
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Makes a request that can be sent repeatedly.
pub fn request(method: &str, path: &str, key: Option<&str>, body: Option<&str>) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    if let Some(key) = key {
        text += &format!("x-api-key: {key}\r\n");
    }
    if let Some(body) = body {
        text += &format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
    } else if method != "GET" {
        text += "content-length: 0\r\n";
    }
    text += "\r\n";
    text += body.unwrap_or_default();
    text.into_bytes()
}

/// Makes one call outside of any measurement and returns its JSON; fails unless it succeeded.
pub fn call(
    addr: SocketAddr,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: Option<&str>,
) -> Fallible<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut connection = Connection::open(addr).await?;
        let answer = connection
            .exchange(&request(method, path, key, body))
            .await?;
        expect(&answer, 200..300)?;
        Ok(serde_json::from_slice(answer.body)?)
    })
}

/// Fails with the answer's text unless its status is one of these.
pub fn expect(answer: &Answer<'_>, statuses: std::ops::Range<u16>) -> Fallible<()> {
    if statuses.contains(&answer.status) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(answer.body);
    Err(format!("the server answered {}: {text}", answer.status).into())
}
