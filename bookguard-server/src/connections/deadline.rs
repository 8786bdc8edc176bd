//! A stream that ends a connection whose client takes too long.
//!
//! It does not parse HTTP: the first byte received after bytes were sent begins a request, and the next bytes sent end it. Each
//! connection has one timer, reset lazily, so a fast request never touches it.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{IDLE, REQUEST};

pub(super) struct DeadlineStream<S> {
    stream: S,
    /// Whether a request has begun and its answer has not.
    busy: bool,
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(stream: S) -> Self {
        // The time for the first request starts with the connection.
        let deadline = Instant::now() + REQUEST;
        Self {
            stream,
            busy: false,
            deadline,
            timer: Box::pin(sleep_until(deadline)),
        }
    }

    /// Fails if the deadline has passed; otherwise makes sure that the task wakes at the deadline.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // The timer was set for an earlier deadline.
            self.timer.as_mut().reset(self.deadline);
        }
        Ok(())
    }

    fn received(&mut self) {
        if !self.busy {
            self.busy = true;
            self.expect_by(Instant::now() + REQUEST);
        }
    }

    fn sent(&mut self) {
        self.busy = false;
        self.expect_by(Instant::now() + IDLE);
    }

    fn expect_by(&mut self, deadline: Instant) {
        self.deadline = deadline;
        // A timer set too late is moved forward now; one set too early is reset when it fires.
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DeadlineStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) else {
            self.check(cx)?;
            return Poll::Pending;
        };
        if buf.filled().len() > before {
            self.received();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> DeadlineStream<S> {
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = result else {
            self.check(cx)?;
            return Poll::Pending;
        };
        self.sent();
        Poll::Ready(written)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        Poll::Ready(result)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::{Instant, advance};

    use super::*;

    /// Reads one byte, or returns the kind of the error.
    async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<u8, io::ErrorKind> {
        stream.read_u8().await.map_err(|e| e.kind())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_let_go() {
        let (_client, server) = duplex(64);
        let began = Instant::now();
        assert_eq!(
            read(&mut DeadlineStream::new(server)).await,
            Err(io::ErrorKind::TimedOut)
        );
        assert!(began.elapsed() >= REQUEST && began.elapsed() < REQUEST + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn dripping_bytes_do_not_stretch_a_request() {
        let (mut client, server) = duplex(64);
        let mut server = DeadlineStream::new(server);
        let began = Instant::now();
        let outcome = loop {
            client.write_all(b"x").await.unwrap();
            advance(Duration::from_secs(7)).await;
            if read(&mut server).await.is_err() || server.check(&mut noop()).is_err() {
                break began.elapsed();
            }
        };
        assert!(outcome <= REQUEST + Duration::from_secs(14), "{outcome:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_has_its_own_time() {
        let (mut client, server) = duplex(64);
        let mut server = DeadlineStream::new(server);
        for _ in 0..5 {
            advance(IDLE - Duration::from_secs(31)).await;
            client.write_all(b"x").await.unwrap();
            assert_eq!(read(&mut server).await, Ok(b'x'));
            advance(REQUEST - Duration::from_secs(1)).await;
            assert!(server.check(&mut noop()).is_ok());
            server.write_all(b"y").await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), b'y');
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_its_answer_is_let_go() {
        let (_client, server) = duplex(4);
        let mut server = DeadlineStream::new(server);
        let began = Instant::now();
        let error = server.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= REQUEST && began.elapsed() <= IDLE + Duration::from_secs(1));
    }

    fn noop() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }
}
