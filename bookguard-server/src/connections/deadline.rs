//! A stream that notes what a connection receives and sends, and fails when the connection is late.
//!
//! It has no timer: [`ConnectionState::overdue`] wakes the task at the right time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::room::ConnectionState;

pub(super) struct DeadlineStream<S> {
    stream: S,
    seat: Arc<ConnectionState>,
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(stream: S, seat: Arc<ConnectionState>) -> Self {
        Self { stream, seat }
    }

    /// Pending, unless the connection is late.
    fn pending<T>(&self) -> Poll<io::Result<T>> {
        match self.seat.is_late() {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Poll::Pending,
        }
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = written else {
            return self.pending();
        };
        if let Ok(bytes) = written {
            self.seat.progress().sent(bytes, Instant::now());
        }
        Poll::Ready(written)
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
            return self.pending();
        };
        if buf.filled().len() > before {
            self.seat.progress().received(Instant::now());
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has nothing more to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.seat.progress().flushed(Instant::now());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::super::{IDLE, REQUEST};
    use super::*;

    fn stream<S>(stream: S) -> DeadlineStream<S> {
        DeadlineStream::new(stream, Arc::new(ConnectionState::new()))
    }

    /// Does something beside what wakes a connection that is late; returns how it ended, and when.
    async fn beside<T>(
        seat: Arc<ConnectionState>,
        task: impl Future<Output = io::Result<T>>,
    ) -> (Option<io::ErrorKind>, Duration) {
        let began = Instant::now();
        let ended = tokio::select! {
            ended = task => ended.err().map(|e| e.kind()),
            () = seat.overdue() => panic!("the stream ends first"),
        };
        (ended, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_or_too_little_is_let_go() {
        for says in [false, true] {
            let (mut client, server) = duplex(64);
            let mut server = stream(server);
            tokio::spawn(async move {
                while says && client.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(7)).await;
                }
                std::future::pending::<()>().await;
            });
            let seat = Arc::clone(&server.seat);
            let mut all = Vec::new();
            let ended = beside(seat, server.read_to_end(&mut all)).await;
            assert_eq!(ended, (Some(io::ErrorKind::TimedOut), REQUEST));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_its_answer_is_let_go() {
        let (_client, server) = duplex(4);
        let mut server = stream(server);
        let seat = Arc::clone(&server.seat);
        seat.progress().answer(None, Instant::now());
        let ended = beside(seat, server.write_all(b"more than fits")).await;
        assert_eq!(ended, (Some(io::ErrorKind::TimedOut), IDLE));
    }
}
