//! An answer whose bytes are produced while it is sent: its connection is not idle before it ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use super::room::ConnectionState;
use crate::answers::AnswerRoom;

/// A body that marks its connection as answered when it has ended, or at once if all of it is there.
pub(super) struct Streamed<B> {
    body: B,
    seat: Option<Arc<ConnectionState>>,
}

impl<B: Body> Streamed<B> {
    /// The body keeps this room until it is sent.
    pub(super) fn new(body: B, seat: Arc<ConnectionState>, room: Option<Arc<AnswerRoom>>) -> Self {
        let is_whole = body.size_hint().exact().is_some();
        seat.answering(room);
        if is_whole {
            seat.answered();
        }
        let seat = (!is_whole).then_some(seat);
        Self { body, seat }
    }
}

impl<B> Drop for Streamed<B> {
    /// hyper drops a body before it flushes the last of it.
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.answered();
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
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
