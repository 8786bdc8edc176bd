//! Extends a chain of ledger entries, a booking's or the log's own, by one command. Each entry names the one before it.
//!
//! Invariant: no entry of the log has an earlier time than the entry before it. A command's time is taken before its
//! turn, and the clock may have been set back since. In that case the leaf has the time of the entry before it, and the
//! fact in it has the command's time.

use std::sync::Arc;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::engine::batch::{BatchState, LoadedBooking};
use crate::engine::change::{Change, Entry};
use crate::error::Error;
use crate::evidence::Epoch;
use crate::evidence::facts::{Fact, LeafPlace, Logged, SealedFact};
use crate::ledger::{Hash, Leaf, LeafKind, leaf_hash};
use crate::model::{BookingId, Timestamp};

/// The place of a new entry.
#[derive(Clone, Copy)]
struct Slot {
    booking_id: Option<BookingId>,
    stream: [u8; 16],
    seq: u64,
    prev: Hash,
    index: u64,
    /// The time of the log's last entry.
    not_before: Timestamp,
}

impl Slot {
    /// The first place of a chain.
    fn first(batch: &BatchState, booking_id: Option<BookingId>, stream: [u8; 16]) -> Self {
        Self {
            booking_id,
            stream,
            seq: 0,
            prev: Hash::ZERO,
            index: batch.size,
            not_before: batch.written,
        }
    }

    /// The place after the last entry of a booking.
    fn after(batch: &BatchState, booking_id: BookingId) -> Result<Self, Error> {
        let chain = batch.chains.get(&booking_id).ok_or_else(|| {
            Error::internal(format!(
                "where the entries of booking {booking_id} end was not loaded"
            ))
        })?;
        Ok(Self {
            seq: chain.entries,
            prev: chain.tip,
            ..Self::first(batch, Some(booking_id), chain.stream)
        })
    }

    fn fill(self, at: Timestamp, fact: Arc<SealedFact>) -> Result<Entry, Error> {
        let at = at.max(self.not_before);
        let leaf = Leaf {
            commit: fact.commit,
            prev: self.prev,
            seq: self.seq,
            stream: self.stream,
            t: at.ms(),
        }
        .encode()
        .map_err(|e| {
            let whose = self.booking_id.map(|id| id.to_string());
            let whose = whose.as_deref().unwrap_or("the log itself");
            Error::internal(format!("a leaf of {whose} cannot be written: {e}"))
        })?;
        Ok(Entry {
            index: self.index,
            booking_id: self.booking_id,
            seq: self.seq,
            at,
            hash: leaf_hash(&leaf),
            leaf,
            fact,
        })
    }
}

/// A booking and the facts that a command adds to it.
pub(crate) struct AppendedFacts {
    /// The booking, including the added facts.
    pub booking: LoadedBooking,
    next: Slot,
    at: Timestamp,
    seeds: ChaCha12Rng,
    entries: Vec<Change>,
}

impl AppendedFacts {
    /// Adds facts to an existing booking. Their seeds come from `seed`, because rules use no randomness.
    ///
    /// # Errors
    /// `internal` if the end of the chain is unknown.
    pub fn to(
        batch: &BatchState,
        booking: &LoadedBooking,
        at: Timestamp,
        seed: &[u8; 32],
    ) -> Result<Self, Error> {
        Ok(Self {
            next: Slot::after(batch, booking.booking.booking_id)?,
            booking: booking.clone(),
            at,
            seeds: ChaCha12Rng::from_seed(*seed),
            entries: Vec::new(),
        })
    }

    /// Records a fact and applies it.
    ///
    /// # Errors
    /// `internal` for a value that nothing can commit to, or for a fact that cannot follow the earlier ones.
    pub fn record(&mut self, fact: impl Into<Fact>) -> Result<LeafPlace, Error> {
        let fact = fact.into();
        let mut seed = [0; 32];
        self.seeds.fill_bytes(&mut seed);
        let sealed = fact.seal(seed)?;
        let entry = self.next.fill(self.at, Arc::new(sealed))?;
        let place = entry.place();
        self.next = Slot {
            seq: self.next.seq + 1,
            prev: entry.hash,
            index: self.next.index + 1,
            not_before: entry.at,
            ..self.next
        };
        let applied = self.booking.state.apply(Logged { place, fact });
        applied.map_err(Error::internal)?;
        self.entries.push(Change::Entry(Box::new(entry)));
        Ok(place)
    }

    /// The resulting changes: the entries and the booking.
    pub fn changes(self) -> Vec<Change> {
        let mut changes = self.entries;
        changes.push(Change::BookingChanged(Arc::new(self.booking)));
        changes
    }
}

/// An entry of the log's own, in a chain that belongs to no booking.
///
/// # Errors
/// `internal` for a value that nothing can commit to.
pub(crate) fn of_the_log(
    batch: &BatchState,
    stream: [u8; 16],
    at: Timestamp,
    seed: &[u8; 32],
    (kind, fact): (LeafKind, &impl serde::Serialize),
) -> Result<Entry, Error> {
    let fact = SealedFact::of(kind, fact, *seed)?;
    Slot::first(batch, None, stream).fill(at, Arc::new(fact))
}

/// The next entry of the chain whose entries commit to maps of the log.
///
/// # Errors
/// `internal` for a value that nothing can commit to.
pub(crate) fn of_the_map(batch: &BatchState, at: Timestamp, epoch: &Epoch) -> Result<Entry, Error> {
    let first = Slot::first(batch, None, Epoch::stream());
    let slot = batch.epoch.as_ref().map_or(first, |latest| Slot {
        seq: latest.seq + 1,
        prev: latest.place.hash,
        ..first
    });
    slot.fill(at, Arc::new(epoch.seal()?))
}

/// The first entry of a new booking.
///
/// # Errors
/// `internal` if its leaf cannot be written.
pub(crate) fn first(
    batch: &BatchState,
    booking_id: BookingId,
    stream: [u8; 16],
    at: Timestamp,
    fact: &Arc<SealedFact>,
) -> Result<Entry, Error> {
    Slot::first(batch, Some(booking_id), stream).fill(at, Arc::clone(fact))
}

/// The next entry of a booking's chain, for a fact that was committed to already.
///
/// # Errors
/// As [`first`], and if the end of the chain is unknown.
pub(crate) fn next(
    batch: &BatchState,
    booking_id: BookingId,
    at: Timestamp,
    fact: &Arc<SealedFact>,
) -> Result<Entry, Error> {
    Slot::after(batch, booking_id)?.fill(at, Arc::clone(fact))
}
