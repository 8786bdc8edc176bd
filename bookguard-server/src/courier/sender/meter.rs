//! Limits what a receiver can make one attempt read, and which connections are kept.
//!
//! The HTTP client skips interim answers (1xx) and TLS skips empty records, both without limit; and a receiver that writes one
//! byte at a time causes a wake-up for each. So bytes and pieces are counted where they are read from the connection, below
//! TLS. The count is reset only when a request is written; other writes, such as those of TLS, do not reset it. Invariant:
//! between two requests a connection reads at most its limit plus one buffer.
//!
//! A connection that is kept for further requests has a place, of which there are few ([`Places`]). It takes the place when it
//! opens and gives it back when it closes; the first request after its time is its last.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bookguard_core::limits::{HANDSHAKE_BYTES, RESPONSE_PIECES, RESPONSE_WIRE_BYTES};
use hyper::http::Extensions;
use hyper::rt;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of connections that are kept for further requests.
#[derive(Debug, Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// How long a connection keeps its place. Without an end, those that open first would keep all places.
    time: Duration,
}

/// When a connection has kept its place for its time. The client hands it on with what else it knows of the connection.
#[derive(Debug, Clone, Copy)]
struct KeptUntil(Instant);

/// A socket that counts what is read from it.
#[derive(Debug)]
pub(super) struct Metered {
    socket: TcpStream,
    bytes_left: usize,
    pieces_left: usize,
    /// The place of a connection that may be kept when its request is answered, and until when.
    kept: Option<(OwnedSemaphorePermit, KeptUntil)>,
}

/// A connection whose count is reset by each request that is written.
pub(super) struct Exchanges(pub MaybeHttpsStream<TokioIo<Metered>>);

/// The error that a receiver sent more than an attempt reads; recovered from the client's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    Bytes,
    Pieces,
}

impl Places {
    /// This many places, each for this time.
    pub(super) fn new(count: usize, time: Duration) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            time,
        }
    }

    /// Takes one, if one is free.
    fn take(&self) -> Option<(OwnedSemaphorePermit, KeptUntil)> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some((place, KeptUntil(Instant::now() + self.time)))
    }
}

/// Makes the request that a connection is taking its last one, if the connection was kept for its time.
pub(super) fn retire(carrier: &CaptureConnection) {
    let carrier = carrier.connection_metadata();
    let Some(connection) = carrier.as_ref() else {
        return;
    };
    let mut known = Extensions::new();
    connection.get_extras(&mut known);
    let until = known.get::<KeptUntil>();
    if until.is_some_and(|until| until.0 <= Instant::now()) {
        connection.poison();
    }
}

impl Metered {
    /// Wraps a new connection, which is kept for further requests if it gets one of these places. What is read before the first
    /// request is the TLS handshake.
    pub(super) fn new(socket: TcpStream, places: &Places) -> Self {
        Self {
            socket,
            bytes_left: HANDSHAKE_BYTES,
            pieces_left: RESPONSE_PIECES,
            kept: places.take(),
        }
    }

    fn renew(&mut self) {
        self.bytes_left = RESPONSE_WIRE_BYTES;
        self.pieces_left = RESPONSE_PIECES;
    }

    fn check(&self) -> io::Result<()> {
        match (self.bytes_left, self.pieces_left) {
            (0, _) => Err(io::Error::other(Excess::Bytes)),
            (_, 0) => Err(io::Error::other(Excess::Pieces)),
            _ => Ok(()),
        }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        self.bytes_left = self.bytes_left.saturating_sub(read);
        self.pieces_left -= 1;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

impl Connection for Metered {
    fn connected(&self) -> Connected {
        let connected = self.socket.connected();
        match &self.kept {
            Some((_, until)) => connected.extra(*until),
            None => {
                // The client closes it after its first request.
                connected.poison();
                connected
            }
        }
    }
}

impl Exchanges {
    /// Resets the count when a request is written. The socket takes the request in one piece, long before the answer.
    fn asked(&mut self) {
        let socket = match &mut self.0 {
            MaybeHttpsStream::Http(plain) => plain,
            MaybeHttpsStream::Https(tls) => tls.inner_mut().get_mut().0.inner_mut(),
        };
        socket.inner_mut().renew();
    }
}

impl rt::Read for Exchanges {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl rt::Write for Exchanges {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.0).poll_write(cx, bytes))?;
        self.asked();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.0).poll_write_vectored(cx, parts))?;
        self.asked();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Connection for Exchanges {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => f.write_str("more was sent than an answer may have"),
            Self::Pieces => write!(f, "the answer came in more than {RESPONSE_PIECES} pieces"),
        }
    }
}

impl std::error::Error for Excess {}
