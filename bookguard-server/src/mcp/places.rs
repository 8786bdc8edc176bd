//! The places of large messages: how many are in memory at a time, and how many of them a partner's.
//!
//! Invariant: a place that was taken is given back when its holder is dropped, whatever became of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bookguard_core::error::Error;
use bookguard_core::model::PartnerId;

use crate::refusal::Refusal;

/// Messages larger than other requests that are received or answered.
const ALL: usize = 8;
/// Those of them that one partner's keys may hold.
const EACH: usize = 2;

/// Who holds them.
#[derive(Default)]
pub(super) struct Places(Mutex<Vec<PartnerId>>);

/// One of them.
pub(super) struct Place<'p>(&'p Places, PartnerId);

impl Places {
    /// A place for a message of this partner's.
    ///
    /// Refuses: `unavailable` when there is none for it.
    pub(super) fn take(&self, partner: PartnerId) -> Result<Place<'_>, Refusal> {
        let mut taken = self.taken();
        let own = taken.iter().filter(|holder| **holder == partner).count();
        if own >= EACH {
            let message = "Large messages of yours are being read already. Send the next when one of them was answered.";
            return Err(Error::unavailable(message).into());
        }
        if taken.len() >= ALL {
            let message = "Too many large messages are being read. Try again in a moment.";
            return Err(Error::unavailable(message).into());
        }
        taken.push(partner);
        Ok(Place(self, partner))
    }

    fn taken(&self) -> MutexGuard<'_, Vec<PartnerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.taken();
        if let Some(index) = taken.iter().position(|holder| *holder == self.1) {
            taken.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_places_of_others_and_what_was_taken_comes_back() {
        let places = Places::default();
        let partner = |n| PartnerId::from_bytes([n; 16]);
        let take = |n| {
            places
                .take(partner(n))
                .map_err(|refusal| refusal.code().to_owned())
        };
        let mut held = Vec::new();
        for n in 0..(ALL / EACH) as u8 {
            for _ in 0..EACH {
                held.push(take(n).expect("a share is everybody's"));
            }
            assert_eq!(take(n).err().as_deref(), Some("unavailable"));
        }
        assert_eq!(
            take(200).err().as_deref(),
            Some("unavailable"),
            "all are taken"
        );
        held.pop();
        assert!(take(200).is_ok());
        held.clear();
        assert!(places.taken().is_empty());
    }
}
