//! How far an attempt has come, visible from outside even if it is abandoned at its deadline.
//!
//! The resolver, the connector and the request's body report progress here; the HTTP client exposes no other points. Invariant:
//! progress only moves forward.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bookguard_core::webhook::Phase;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper_util::client::legacy::connect::CaptureConnection;

use super::meter::retire;

tokio::task_local! {
    /// The attempt being made. The client calls its resolver within this scope.
    pub(super) static PROGRESS: Progress;
}

/// The furthest phase that an attempt has reached.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Its place in [`STEPS`].
    step: AtomicUsize,
    /// How long the attempt may take, if it is one.
    patience: Option<Duration>,
    /// Whether the attempt waits for a proxy to open a connection.
    proxy: AtomicBool,
}

/// The phases in order. An attempt that has reported nothing (a literal address, no connection yet) is connecting.
const STEPS: [Phase; 6] = [
    Phase::Connect,
    Phase::Dns,
    Phase::Connect,
    Phase::Tls,
    Phase::Headers,
    Phase::Body,
];

impl Progress {
    /// The progress of an attempt that may take this long.
    pub(super) fn within(patience: Duration) -> Self {
        Progress(Arc::new(Inner {
            patience: Some(patience),
            ..Inner::default()
        }))
    }

    /// How long the attempt may take.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.0.patience
    }

    /// Notes that the attempt is in `phase`, unless it is already further.
    pub(super) fn reached(&self, phase: Phase) {
        let step = STEPS.iter().rposition(|known| *known == phase);
        let step = step.unwrap_or_default();
        self.0.step.fetch_max(step, Ordering::Relaxed);
    }

    /// The phase the attempt is in.
    pub(super) fn phase(&self) -> Phase {
        STEPS[self.0.step.load(Ordering::Relaxed)]
    }

    /// Notes whether the attempt waits for the proxy.
    pub(super) fn waits_for_proxy(&self, waits: bool) {
        self.0.proxy.store(waits, Ordering::Relaxed);
    }

    /// Whether the attempt waits for the proxy. This is false once the request is sent: a pooled connection may have become
    /// free meanwhile.
    pub(super) fn is_at_proxy(&self) -> bool {
        self.0.proxy.load(Ordering::Relaxed) && self.phase() < Phase::Headers
    }

    /// Wraps `bytes` in a request body that reports when the connection takes it.
    pub(super) fn watch(&self, bytes: Bytes) -> Watched {
        Watched {
            bytes,
            progress: self.clone(),
            carrier: None,
        }
    }
}

/// A body of one frame.
#[derive(Debug)]
pub(super) struct Watched {
    bytes: Bytes,
    progress: Progress,
    /// The connection that takes it, known once it is taken.
    carrier: Option<CaptureConnection>,
}

impl Watched {
    /// Notes where to look for the connection that takes the body.
    pub(super) fn goes_on(&mut self, carrier: CaptureConnection) {
        self.carrier = Some(carrier);
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.progress.reached(Phase::Headers);
        // Not once there is an answer: by then the client may have kept the connection already.
        if let Some(carrier) = self.carrier.take() {
            retire(&carrier);
        }
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
