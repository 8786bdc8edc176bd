//! Limits large messages in memory: how many per partner, and how many bytes in all.
//!
//! Announcing a large message reserves nothing: bytes are counted as they arrive. Invariant: everything taken is given back
//! when its holder is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bookguard_core::error::Error;
use bookguard_core::model::PartnerId;

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
    /// The bytes of all of them.
    bytes: Mutex<usize>,
}

/// A permit for one large message.
pub(super) struct LargeMessage<'p> {
    large_messages: &'p LargeMessages,
    _place: OneUnderWay<PartnerId>,
    bytes: usize,
}

impl Default for LargeMessages {
    fn default() -> Self {
        Self {
            in_progress: UnderWay::new(EACH, usize::MAX),
            bytes: Mutex::default(),
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
            bytes: 0,
        })
    }

    fn bytes(&self) -> MutexGuard<'_, usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LargeMessage<'_> {
    /// Counts the bytes received so far.
    ///
    /// # Errors
    /// `unavailable` if all messages together would be too large.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        let mut held = self.large_messages.bytes();
        let all = *held - self.bytes + bytes;
        if all > ALL_BYTES {
            let message = "Too many large messages are being read. Try again in a moment.";
            return Err(Error::unavailable(message).into());
        }
        *held = all;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for LargeMessage<'_> {
    fn drop(&mut self) {
        *self.large_messages.bytes() -= self.bytes;
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
        assert_eq!(*large_messages.bytes(), 0);
    }
}
