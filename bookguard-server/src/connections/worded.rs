//! A stream that replaces hyper's own refusals with the server's usual ones.
//!
//! A message that cannot be read never becomes a request: hyper answers it with a bare status and closes. Anything written
//! while no request is in progress must be such an answer, so it is replaced by a refusal with a body and a request id. After
//! that, the client's remaining bytes are read for a moment, so that a TCP reset does not discard the answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use poem::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::LATE;
use super::room::ConnectionState;
use crate::router::Router;

/// Bytes of an unreadable message that are read and dropped.
const DISCARD_BYTES: usize = 256 * 1024;

pub(super) struct Worded<S> {
    stream: S,
    seat: Arc<ConnectionState>,
    router: Arc<Router>,
    refusal: Option<Box<Refusing>>,
}

/// A refusal being sent.
struct Refusing {
    bytes: Vec<u8>,
    sent: usize,
    dropped: usize,
    /// When to stop reading from the client, set once the refusal is sent.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Worded<S> {
    pub(super) fn new(stream: S, seat: Arc<ConnectionState>, router: Arc<Router>) -> Self {
        Self {
            stream,
            seat,
            router,
            refusal: None,
        }
    }
}

impl<S: AsyncWrite + Unpin> Worded<S> {
    /// Sends the refusal in place of hyper's `length` bytes, which start with `head`.
    fn refuse(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let router = &self.router;
        let refusal = self.refusal.get_or_insert_with(|| {
            Box::new(Refusing {
                bytes: router.refuse_unread(status(head)),
                sent: 0,
                dropped: 0,
                until: None,
            })
        });
        while refusal.sent < refusal.bytes.len() {
            let left = &refusal.bytes[refusal.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => refusal.sent += sent,
            }
        }
        Poll::Ready(Ok(length))
    }
}

/// Reads the status from a status line such as `HTTP/1.1 431 Request Header Fields Too Large`.
fn status(head: &[u8]) -> StatusCode {
    let code = head.split(|byte| *byte == b' ').nth(1);
    code.and_then(|code| StatusCode::from_bytes(code).ok())
        .unwrap_or(StatusCode::BAD_REQUEST)
}

impl<S: AsyncRead + Unpin> AsyncRead for Worded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Worded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.seat.is_waiting() {
            return self.refuse(cx, buf, buf.len());
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.seat.is_waiting() {
            let length = bufs.iter().map(|buf| buf.len()).sum();
            return self.refuse(cx, bufs.first().map_or(&[], |buf| buf), length);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            stream, refusal, ..
        } = &mut *self;
        let mut stream = Pin::new(stream);
        let Some(refusal) = refusal else {
            return stream.poll_shutdown(cx);
        };
        let until = match &mut refusal.until {
            Some(until) => until,
            None => {
                ready!(stream.as_mut().poll_shutdown(cx))?;
                refusal.until.insert(Box::pin(sleep(LATE)))
            }
        };
        let mut buffer = [0; 4096];
        while refusal.dropped < DISCARD_BYTES && until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut buffer);
            match ready!(stream.as_mut().poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => refusal.dropped += buffer.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
