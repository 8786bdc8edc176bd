//! A stream that ends a connection whose client takes too long.
//!
//! It does not parse HTTP: the first byte received while nothing is under way begins a request, and the first bytes sent once it
//! is answered begin the answer, which ends when everything was flushed. Each connection has one timer, reset lazily, so a fast
//! request never touches it.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::room::ConnectionState;
use super::{ANSWER_BYTES_PER_S, IDLE, REQUEST};

pub(super) struct DeadlineStream<S> {
    stream: S,
    seat: Arc<ConnectionState>,
    phase: Phase,
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
}

/// What a connection does.
enum Phase {
    /// It waits for a request.
    Idle,
    /// A request has begun and its answer has not.
    Asked,
    /// An answer is sent; the next request may have begun.
    Answering { next: bool },
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(stream: S, seat: Arc<ConnectionState>) -> Self {
        // The time for the first request starts with the connection.
        let deadline = Instant::now() + REQUEST;
        seat.expect_by(deadline);
        Self {
            stream,
            seat,
            phase: Phase::Idle,
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
        match &mut self.phase {
            Phase::Asked => {}
            // Whoever sends requests must take the answers all the same.
            Phase::Answering { next } => *next = true,
            Phase::Idle => {
                self.phase = Phase::Asked;
                self.expect_by(Instant::now() + REQUEST);
            }
        }
    }

    fn sent(&mut self, bytes: usize) {
        // "100 Continue" is no answer: the request has no more time for it.
        if self.seat.is_engaged() {
            return;
        }
        let latest = Instant::now() + IDLE;
        let deadline = match self.phase {
            Phase::Answering { .. } => {
                let taken = bytes as f64 / ANSWER_BYTES_PER_S as f64;
                latest.min(self.deadline + Duration::from_secs_f64(taken))
            }
            Phase::Idle | Phase::Asked => {
                self.phase = Phase::Answering { next: false };
                latest
            }
        };
        self.expect_by(deadline);
    }

    fn flushed(&mut self) {
        if let Phase::Answering { next } = self.phase {
            let (phase, time) = match next {
                // More of it is being produced.
                _ if self.seat.is_answering() => (Phase::Answering { next }, IDLE),
                true => (Phase::Asked, REQUEST),
                false => (Phase::Idle, IDLE),
            };
            self.phase = phase;
            self.expect_by(Instant::now() + time);
        }
    }

    fn expect_by(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.seat.expect_by(deadline);
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
        if let Ok(bytes) = written {
            self.sent(bytes);
        }
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
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.flushed();
        Poll::Ready(Ok(()))
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

    fn stream<S>(stream: S) -> DeadlineStream<S> {
        let seat = Arc::new(ConnectionState::new(Instant::now()));
        DeadlineStream::new(stream, seat)
    }

    /// Reads one byte, or returns the kind of the error.
    async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<u8, io::ErrorKind> {
        stream.read_u8().await.map_err(|e| e.kind())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_let_go() {
        let (_client, server) = duplex(64);
        let began = Instant::now();
        assert_eq!(
            read(&mut stream(server)).await,
            Err(io::ErrorKind::TimedOut)
        );
        assert!(began.elapsed() >= REQUEST && began.elapsed() < REQUEST + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn dripping_bytes_do_not_stretch_a_request() {
        let (mut client, server) = duplex(64);
        let mut server = stream(server);
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
        let mut server = stream(server);
        for _ in 0..5 {
            advance(IDLE - Duration::from_secs(31)).await;
            client.write_all(b"x").await.unwrap();
            assert_eq!(read(&mut server).await, Ok(b'x'));
            advance(REQUEST - Duration::from_secs(1)).await;
            assert!(server.check(&mut noop()).is_ok());
            server.write_all(b"y").await.unwrap();
            server.flush().await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), b'y');
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_its_answer_is_let_go() {
        let (_client, server) = duplex(4);
        let mut server = stream(server);
        let began = Instant::now();
        let error = server.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= REQUEST && began.elapsed() <= IDLE + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn being_told_to_go_on_gives_a_request_no_more_time() {
        let (mut client, server) = duplex(64);
        let mut server = stream(server);
        client.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut server).await, Ok(b'x'));
        server.seat.engage();
        advance(REQUEST - Duration::from_secs(1)).await;
        server.write_all(b"100").await.unwrap();
        server.flush().await.unwrap();
        client.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut server).await, Ok(b'x'));
        advance(Duration::from_secs(2)).await;
        assert!(server.check(&mut noop()).is_err());
    }

    /// Sends an answer of so many bytes to a client that takes so many every ten seconds, and sends one each time. Returns how it
    /// ended, and when.
    async fn taken(bytes: usize, each: usize) -> (Option<io::ErrorKind>, Duration) {
        let (mut client, server) = duplex(each);
        let mut server = stream(server);
        let (began, mut taken) = (Instant::now(), vec![0; each]);
        tokio::spawn(async move {
            while client.read_exact(&mut taken).await.is_ok() {
                let _ = client.write_all(b"x").await;
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        });
        let sent = async {
            for _ in 0..bytes / each {
                server.write_all(&vec![0; each]).await?;
                let mut next = [0; 8];
                let mut next = ReadBuf::new(&mut next);
                let _ = Pin::new(&mut server).poll_read(&mut noop(), &mut next);
            }
            server.flush().await
        };
        let ended = sent.await.err().map(|e| e.kind());
        (ended, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_takes_no_longer_than_at_the_least_rate() {
        let (late, end) = (Some(io::ErrorKind::TimedOut), Duration::from_secs(2));
        let rate = ANSWER_BYTES_PER_S as usize * 10;
        for (each, ended, least, most) in [
            (1, late, IDLE, IDLE + end),
            (rate / 2, late, IDLE * 3 / 2, IDLE * 2),
            (rate, None, 4 * IDLE, 16 * IDLE),
        ] {
            let (how, when) = taken(32 * rate, each).await;
            assert_eq!(how, ended, "{each} {when:?}");
            assert!((least..=most).contains(&when), "{each} {when:?}");
        }
    }

    fn noop() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }
}
