//! Limits large messages in memory: how many per partner, and how many bytes in all.
//!
//! Announcing a large message reserves nothing: bytes are counted as they arrive. Invariant: everything taken is given back
//! when its holder is dropped.

use std::sync::Arc;

use bookguard_core::error::Error;
use bookguard_core::model::PartnerId;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::MESSAGE_BYTES;
use crate::refusal::Refusal;
use crate::under_way::{OneUnderWay, UnderWay};

/// The most large messages in progress for one partner, all its keys together.
const EACH: usize = 2;
/// The most bytes of all large messages together: eight of the largest size.
const ALL_BYTES: usize = 8 * MESSAGE_BYTES;

/// The large messages in memory.
pub(super) struct LargeMessages {
    in_progress: Arc<UnderWay<PartnerId>>,
    /// The bytes that are left for them.
    room: Semaphore,
}

/// A permit for one large message.
pub(super) struct LargeMessage<'p> {
    large_messages: &'p LargeMessages,
    _place: OneUnderWay<PartnerId>,
    /// The bytes received so far.
    held: SemaphorePermit<'p>,
}

impl Default for LargeMessages {
    fn default() -> Self {
        Self {
            in_progress: UnderWay::new(EACH, usize::MAX),
            room: Semaphore::new(ALL_BYTES),
        }
    }
}

impl LargeMessages {
    /// Takes a permit for a message of this partner, of which no bytes are counted yet.
    ///
    /// # Errors
    /// `unavailable` if the partner has its share already.
    pub(super) fn take(&self, partner: PartnerId) -> Result<LargeMessage<'_>, Refusal> {
        let place = self.in_progress.begin(partner).map_err(|_| {
            let message = "Large messages of yours are already being read. Send the next when one of them is answered.";
            Refusal::from(Error::unavailable(message))
        })?;
        Ok(LargeMessage {
            large_messages: self,
            _place: place,
            held: self.room(0)?,
        })
    }

    fn room(&self, bytes: usize) -> Result<SemaphorePermit<'_>, Refusal> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.room.try_acquire_many(bytes).map_err(|_| {
            let message = "Too many large messages are being read. Try again in a moment.";
            Error::unavailable(message).into()
        })
    }
}

impl LargeMessage<'_> {
    /// Counts the bytes received so far.
    ///
    /// # Errors
    /// `unavailable` if all messages together would be too large.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.held.num_permits());
        self.held.merge(self.large_messages.room(more)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_permit_blocks_nobody_and_everything_taken_is_returned() {
        let large_messages = LargeMessages::default();
        let partner = |n| PartnerId::from_bytes([n; 16]);
        let code = |refused: Refusal| refused.code().to_owned();
        let mut held = Vec::new();
        for n in 0..100 {
            for _ in 0..EACH {
                let mut place = large_messages
                    .take(partner(n))
                    .map_err(code)
                    .expect("a share");
                place.hold(10).map_err(code).expect("they are few");
                held.push(place);
            }
            let refused = large_messages.take(partner(n)).map(drop).map_err(code);
            assert_eq!(refused, Err("unavailable".to_owned()));
        }
        let mut large = large_messages
            .take(partner(200))
            .map_err(code)
            .expect("a share");
        let room = ALL_BYTES - 10 * held.len();
        large.hold(room).map_err(code).expect("there is room");
        assert!(large.hold(room + 1).is_err(), "all are too large");
        assert!(held[0].hold(11).is_err());
        held.pop();
        assert!(held[0].hold(11).is_ok());
        drop(large);
        held.clear();
        assert_eq!(large_messages.room.available_permits(), ALL_BYTES);
    }
}
