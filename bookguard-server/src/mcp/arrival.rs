//! Receives a message: a small one like any other request, a large one only if it arrives fast.
//!
//! Invariants: no more of a message is held than allowed; a large one is held only while it arrives at [`RATE`] or faster.

use std::time::Duration;

use poem::Request;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout_at};

use super::MESSAGE_BYTES;
use super::large_messages::LargeMessage;
use crate::incoming;
use crate::refusal::Refusal;

/// How long a message no larger than an ordinary request may take.
pub(super) const ARRIVAL: Duration = Duration::from_secs(20);
/// How long a message without a key may take: less, because it occupies a connection meanwhile.
pub(super) const STRANGERS_ARRIVAL: Duration = Duration::from_secs(5);
/// The least bytes per second of a large message, averaged from its beginning: 2 Mbit/s.
const RATE: f64 = 256.0 * 1024.0;
/// How far a large message may fall behind that.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes read at a time.
const PIECE: usize = 32 * 1024;

/// Why a message was not received.
pub(super) enum NotReceived {
    /// It arrived too slowly.
    Late,
    ToolRefusal(Refusal),
}

impl From<Refusal> for NotReceived {
    fn from(refusal: Refusal) -> Self {
        Self::ToolRefusal(refusal)
    }
}

impl NotReceived {
    /// The refusal to send to the caller.
    pub(super) fn into_refusal(self) -> Refusal {
        match self {
            Self::ToolRefusal(refusal) => refusal,
            Self::Late => {
                let message = format!(
                    "The message did not arrive in time: one of more than 64 KiB at {} KiB a second or faster, a smaller one within {} s, or {} s without an x-api-key. Send it faster, or verify a booking of yours by its bookingId.",
                    RATE / 1024.0,
                    ARRIVAL.as_secs(),
                    STRANGERS_ARRIVAL.as_secs()
                );
                incoming::too_slow(message)
            }
        }
    }
}

/// Receives the body of a request. A body of up to `few` bytes may take `arrival`. For a larger one, `place` is called before
/// more bytes are held, and the place it returns is returned with the body.
pub(super) async fn receive<'p>(
    request: &mut Request,
    (few, arrival): (usize, Duration),
    place: impl FnOnce() -> Result<LargeMessage<'p>, Refusal>,
) -> Result<(Vec<u8>, Option<LargeMessage<'p>>), NotReceived> {
    let begun = Instant::now();
    let declared = incoming::declared_length(request.headers());
    if declared.is_some_and(|length| length <= few as u64) {
        let small = incoming::body(request, few);
        let small = timeout_at(begun + arrival, small).await;
        return Ok((small.map_err(|_| NotReceived::Late)??, None));
    }
    if declared.is_some_and(|length| length > MESSAGE_BYTES as u64) {
        return Err(incoming::too_large(MESSAGE_BYTES).into());
    }
    // Checked before the body is read: every message must be sent as JSON.
    incoming::is_json(request.headers())?;
    let mut bytes = Vec::new();
    if declared.is_some() {
        let held = place()?;
        let body = request.take_body().into_async_read();
        return arrive(body, bytes, held).await;
    }
    let mut body = request.take_body().into_async_read();
    while bytes.len() <= few {
        if read(&mut body, &mut bytes, begun + arrival).await? == 0 {
            return Ok((bytes, None));
        }
    }
    match place() {
        Ok(held) => arrive(body, bytes, held).await,
        Err(refused) => refuse(body, bytes, refused).await,
    }
}

/// Receives the rest of a large message.
async fn arrive<'p>(
    mut body: impl AsyncRead + Unpin,
    mut bytes: Vec<u8>,
    mut held: LargeMessage<'p>,
) -> Result<(Vec<u8>, Option<LargeMessage<'p>>), NotReceived> {
    let (begun, before) = (Instant::now(), bytes.len());
    let refused = loop {
        if let Err(refused) = held.hold(bytes.len()) {
            break refused;
        }
        let due = Duration::from_secs_f64((bytes.len() - before) as f64 / RATE);
        if read(&mut body, &mut bytes, begun + GRACE + due).await? == 0 {
            return Ok((bytes, Some(held)));
        }
        if bytes.len() > MESSAGE_BYTES {
            break incoming::too_large(MESSAGE_BYTES);
        }
    };
    drop(held);
    refuse(body, bytes, refused).await
}

/// Reads some more bytes; returns 0 at the end.
async fn read(
    body: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    deadline: Instant,
) -> Result<usize, NotReceived> {
    bytes.reserve(PIECE);
    let read = timeout_at(deadline, body.read_buf(bytes)).await;
    let read = read.map_err(|_| NotReceived::Late)?;
    read.map_err(|e| incoming::unfinished(&e).into())
}

/// Refuses a message that is still arriving. Drops the rest of it, so that the sender can read the refusal.
async fn refuse<T>(
    body: impl AsyncRead + Unpin,
    bytes: Vec<u8>,
    refused: Refusal,
) -> Result<T, NotReceived> {
    drop(bytes);
    incoming::drop_rest(body).await;
    Err(refused.into())
}
