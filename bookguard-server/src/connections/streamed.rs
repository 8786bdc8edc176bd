//! An answer, which notes when all of it was produced: its connection is not idle before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf as _;
use http_body::{Body, Frame, SizeHint};

use super::room::ConnectionState;

/// A body that marks its answer as produced when it has ended, or at once if all of it is there.
pub(super) struct Streamed<B> {
    body: B,
    seat: Option<Arc<ConnectionState>>,
    /// The bytes that are left, if their number was declared. hyper asks for no more after the last one, and so drops the body at once.
    left: Option<u64>,
}

impl<B: Body> Streamed<B> {
    /// `declared` is the length that the answer's head declares.
    pub(super) fn new(body: B, seat: Arc<ConnectionState>, declared: Option<u64>) -> Self {
        let is_whole = body.size_hint().exact().is_some();
        if is_whole {
            seat.progress().produced();
        }
        Self {
            body,
            seat: (!is_whole).then_some(seat),
            left: declared,
        }
    }
}

impl<B> Drop for Streamed<B> {
    /// hyper drops a body before it flushes the last of it.
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.progress().produced();
        }
    }
}

impl<B: Body + Unpin> Body for Streamed<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let (Some(left), Some(data)) = (&mut self.left, frame.data_ref())
        {
            *left = left.saturating_sub(data.remaining() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0) || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
