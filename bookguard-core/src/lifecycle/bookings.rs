//! Bookings: recorded, protected. Each fact is a leaf of the ledger and an event.

use std::sync::Arc;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Decided, webhooks};
use crate::change::{Change, Entry};
use crate::command::{BookingCreated, NewBooking, NewEvent, Protected, Receipt, Reply};
use crate::error::Error;
use crate::evidence::facts::{self, Fact};
use crate::ledger::{Hash, Leaf, LeafKind, leaf_hash};
use crate::model::{BookingId, BookingStatus, EventId, EventType, PartnerId, Timestamp};
use crate::webhook::body;
use crate::work::Work;

pub(super) fn create(work: &Work, at: Timestamp, new: &NewBooking, index: usize) -> Decided {
    let booking = &new.booking;
    let partner = work
        .active_partner(&booking.partner_id)
        .ok_or_else(|| Error::not_found("partner"))?;
    if let Some(shelf) = &new.shelf
        && !shelf.is_current(partner.versions, &partner.partner.settings)
    {
        return Err(Error::outdated());
    }
    let chain = Chain {
        booking_id: Some(booking.booking_id),
        stream: new.stream,
        seq: 0,
        prev: Hash::ZERO,
    };
    let mut changes = vec![
        Change::BookingAdded { command: index },
        Change::Entry(Box::new(chain.link(
            work.size,
            at,
            Arc::clone(&new.fact),
        )?)),
    ];
    webhooks::emit(
        work,
        partner,
        at,
        booking.booking_id,
        &new.event,
        &mut changes,
    );
    let reply = BookingCreated {
        booking_id: booking.booking_id,
        partner_id: booking.partner_id,
        status: booking.status,
        created_at: booking.created_at,
    };
    Ok((changes, Reply::BookingCreated(reply)))
}

/// The event a protection causes.
pub(super) struct ProtectedEvent<'a> {
    pub event_id: EventId,
    pub lease: i64,
    pub evidence_url: &'a str,
}

pub(super) fn protect(
    work: &Work,
    at: Timestamp,
    partner_id: PartnerId,
    booking_id: BookingId,
    event: &ProtectedEvent<'_>,
    seed: &[u8; 32],
) -> Decided {
    let state = work
        .bookings
        .get(&booking_id)
        .filter(|state| state.booking.partner_id == partner_id)
        .ok_or_else(|| Error::not_found("booking"))?;
    let partner = work
        .active_partner(&partner_id)
        .ok_or_else(|| Error::not_found("booking"))?;
    let receipt = |leaf_index: u64, leaf: &Hash| Receipt {
        log_origin: work.origin.clone(),
        leaf_index,
        leaf_hash: leaf.to_string(),
        tree_size: 0,
        root_hash: String::new(),
    };
    let reply = |protected_at, receipt| {
        Reply::Protected(Box::new(Protected {
            booking_id,
            protected: true,
            protected_at,
            receipt,
        }))
    };
    match state.booking.status {
        BookingStatus::Canceled => {
            return Err(Error::conflict(
                "booking_canceled",
                format!(
                    "Booking {booking_id} is canceled; only bookings that are not canceled can be protected."
                ),
            ));
        }
        BookingStatus::Protected => {
            // The rows that say "protected" and the leaf index are written together; without one the store is damaged.
            let (Some(protected_at), Some((leaf_index, leaf))) =
                (state.booking.protected_at, state.protected_leaf)
            else {
                return Err(Error::internal(format!(
                    "booking {booking_id} is protected but has no leaf that says so"
                )));
            };
            return Ok((Vec::new(), reply(protected_at, receipt(leaf_index, &leaf))));
        }
        BookingStatus::Created => {}
    }
    let mut booking = state.booking.clone();
    booking.protect(at);
    let fields = facts::protected(&booking, &state.terms);
    let fact = Fact::seal(LeafKind::BookingProtected, fields, salts(*seed))?;
    let chain = Chain {
        booking_id: Some(booking_id),
        stream: state.stream,
        seq: state.entries,
        prev: state.tip,
    };
    let entry = chain.link(work.size, at, Arc::new(fact))?;
    let (leaf_index, leaf) = (entry.index, entry.hash);
    let mut changes = vec![
        Change::Entry(Box::new(entry)),
        Change::BookingProtected {
            booking_id,
            at,
            leaf_index,
        },
    ];
    let event = NewEvent {
        event_id: event.event_id,
        event_type: EventType::BookingProtected,
        head: body::protected(event.event_id, &booking, at, event.evidence_url),
        lease: event.lease,
    };
    webhooks::emit(work, partner, at, booking_id, &event, &mut changes);
    Ok((changes, reply(at, receipt(leaf_index, &leaf))))
}

/// Fresh salts from a seed.
pub(super) fn salts(seed: [u8; 32]) -> impl FnMut() -> [u8; 32] {
    let mut dice = ChaCha12Rng::from_seed(seed);
    move || {
        let mut salt = [0; 32];
        dice.fill_bytes(&mut salt);
        salt
    }
}

/// Where a chain of entries stands: a booking's, or one of the log's own.
pub(super) struct Chain {
    pub booking_id: Option<BookingId>,
    pub stream: [u8; 16],
    pub seq: u64,
    pub prev: Hash,
}

impl Chain {
    /// The next entry, at `index` of the log.
    pub fn link(self, index: u64, at: Timestamp, fact: Arc<Fact>) -> Result<Entry, Error> {
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
        let hash = leaf_hash(&leaf);
        Ok(Entry {
            index,
            booking_id: self.booking_id,
            seq: self.seq,
            leaf,
            hash,
            fact,
        })
    }
}
