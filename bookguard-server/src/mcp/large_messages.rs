//! Limits large messages in memory: how many per partner, and how many bytes in all.
//!
//! Announcing a large message reserves nothing: bytes are counted as they arrive. Invariant: everything taken is given back
//! when its holder is dropped.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bookguard_core::error::Error;
use bookguard_core::model::PartnerId;

use super::MESSAGE_BYTES;
use crate::refusal::Refusal;

/// The most large messages in progress for one partner, all its keys together.
const EACH: usize = 2;
/// The most bytes of all large messages together: eight of the largest size.
const ALL_BYTES: usize = 8 * MESSAGE_BYTES;

/// The large messages in memory.
#[derive(Default)]
pub(super) struct LargeMessages(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    messages: HashMap<PartnerId, usize>,
    bytes: usize,
}

/// A permit for one large message.
pub(super) struct LargeMessage<'p> {
    large_messages: &'p LargeMessages,
    partner: PartnerId,
    bytes: usize,
}

impl LargeMessages {
    /// Takes a permit for a message of this partner, of which no bytes are counted yet.
    ///
    /// # Errors
    /// `unavailable` if the partner has its share already.
    pub(super) fn take(&self, partner: PartnerId) -> Result<LargeMessage<'_>, Refusal> {
        let mut taken = self.taken();
        let own = taken.messages.entry(partner).or_default();
        if *own >= EACH {
            let message = "Large messages of yours are already being read. Send the next when one of them is answered.";
            return Err(Error::unavailable(message).into());
        }
        *own += 1;
        Ok(LargeMessage {
            large_messages: self,
            partner,
            bytes: 0,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LargeMessage<'_> {
    /// Counts the bytes received so far.
    ///
    /// # Errors
    /// `unavailable` if all messages together would be too large.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        let mut taken = self.large_messages.taken();
        let all = taken.bytes - self.bytes + bytes;
        if all > ALL_BYTES {
            let message = "Too many large messages are being read. Try again in a moment.";
            return Err(Error::unavailable(message).into());
        }
        taken.bytes = all;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for LargeMessage<'_> {
    fn drop(&mut self) {
        let mut taken = self.large_messages.taken();
        taken.bytes -= self.bytes;
        if let Some(own) = taken.messages.get_mut(&self.partner) {
            *own -= 1;
            if *own == 0 {
                taken.messages.remove(&self.partner);
            }
        }
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
        assert!(large_messages.taken().messages.is_empty() && large_messages.taken().bytes == 0);
    }
}
