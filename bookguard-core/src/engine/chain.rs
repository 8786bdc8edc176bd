//! A chain of ledger entries, a booking's or one of the log's own, continued by one command: each entry names the one before.
//!
//! Invariant: no entry of the log has an earlier time than the one before it. A command's time was taken before its turn, and the
//! clock may have been set back since; then the entry has the time of the one before it, and the fact in it says the clock's.

use std::sync::Arc;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::engine::batch::{BatchState, BookingState};
use crate::engine::change::Entry;
use crate::error::Error;
use crate::evidence::facts::{Fact, Field};
use crate::ledger::{Hash, Leaf, LeafKind, leaf_hash};
use crate::model::{BookingId, Timestamp};

/// Where a chain stands, and where the log does.
pub(crate) struct Chain {
    next: Place,
    at: Timestamp,
    dice: ChaCha12Rng,
}

/// Where an entry goes.
#[derive(Clone, Copy)]
struct Place {
    booking_id: Option<BookingId>,
    stream: [u8; 16],
    seq: u64,
    prev: Hash,
    index: u64,
    /// The time of the log's last entry.
    not_before: Timestamp,
}

impl Chain {
    /// The chain of a booking there is. The salts come from `seed`: rules roll no dice.
    ///
    /// # Errors
    /// `internal`, when it is not known where the chain stands.
    pub fn of(
        batch: &BatchState,
        state: &BookingState,
        at: Timestamp,
        seed: &[u8; 32],
    ) -> Result<Self, Error> {
        Ok(Self {
            next: after(batch, state.booking.booking_id)?,
            at,
            dice: ChaCha12Rng::from_seed(*seed),
        })
    }

    /// A chain of the log's own, which no booking has.
    pub fn of_the_log(
        batch: &BatchState,
        stream: [u8; 16],
        at: Timestamp,
        seed: &[u8; 32],
    ) -> Self {
        Self {
            next: Place {
                booking_id: None,
                stream,
                seq: 0,
                prev: Hash::ZERO,
                index: batch.size,
                not_before: batch.written,
            },
            at,
            dice: ChaCha12Rng::from_seed(*seed),
        }
    }

    /// Appends a fact.
    ///
    /// # Errors
    /// `internal`, for a value nothing can commit to.
    pub fn append(&mut self, kind: LeafKind, fields: Vec<Field>) -> Result<Entry, Error> {
        let fact = Fact::seal(kind, fields, || {
            let mut salt = [0; 32];
            self.dice.fill_bytes(&mut salt);
            salt
        })?;
        let entry = entry(self.next, self.at, Arc::new(fact))?;
        self.next = Place {
            seq: self.next.seq + 1,
            prev: entry.hash,
            index: self.next.index + 1,
            not_before: entry.at,
            ..self.next
        };
        Ok(entry)
    }
}

/// The first entry of a new booking.
///
/// # Errors
/// As [`Chain::append`].
pub(crate) fn first(
    batch: &BatchState,
    booking_id: BookingId,
    stream: [u8; 16],
    at: Timestamp,
    fact: &Arc<Fact>,
) -> Result<Entry, Error> {
    let place = Place {
        booking_id: Some(booking_id),
        stream,
        seq: 0,
        prev: Hash::ZERO,
        index: batch.size,
        not_before: batch.written,
    };
    entry(place, at, Arc::clone(fact))
}

/// The next entry of a booking's chain, of a fact that was committed to already.
///
/// # Errors
/// As [`Chain::of`] and [`Chain::append`].
pub(crate) fn next(
    batch: &BatchState,
    booking_id: BookingId,
    at: Timestamp,
    fact: &Arc<Fact>,
) -> Result<Entry, Error> {
    entry(after(batch, booking_id)?, at, Arc::clone(fact))
}

/// The place behind the last entry of a booking.
fn after(batch: &BatchState, booking_id: BookingId) -> Result<Place, Error> {
    let chain = batch.chains.get(&booking_id).ok_or_else(|| {
        Error::internal(format!(
            "where the entries of booking {booking_id} end was not loaded"
        ))
    })?;
    Ok(Place {
        booking_id: Some(booking_id),
        stream: chain.stream,
        seq: chain.entries,
        prev: chain.tip,
        index: batch.size,
        not_before: batch.written,
    })
}

fn entry(place: Place, at: Timestamp, fact: Arc<Fact>) -> Result<Entry, Error> {
    let at = at.max(place.not_before);
    let leaf = Leaf {
        commit: fact.commit,
        prev: place.prev,
        seq: place.seq,
        stream: place.stream,
        t: at.ms(),
    }
    .encode()
    .map_err(|e| {
        let whose = place.booking_id.map(|id| id.to_string());
        let whose = whose.as_deref().unwrap_or("the log itself");
        Error::internal(format!("a leaf of {whose} cannot be written: {e}"))
    })?;
    Ok(Entry {
        index: place.index,
        booking_id: place.booking_id,
        seq: place.seq,
        at,
        hash: leaf_hash(&leaf),
        leaf,
        fact,
    })
}
