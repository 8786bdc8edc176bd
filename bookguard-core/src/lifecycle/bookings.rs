//! Bookings: recorded, protected. Each fact is a leaf of the ledger and an event.

use super::chain::{self, Chain};
use super::{Decided, quotas, webhooks};
use crate::change::Change;
use crate::command::{BookingCreated, NewBooking, NewEvent, Protected, Receipt, Reply};
use crate::error::Error;
use crate::evidence::facts;
use crate::ledger::{Hash, LeafKind};
use crate::model::{BookingId, BookingStatus, EventId, EventType, PartnerId, Timestamp};
use crate::webhook::body;
use crate::work::Work;

pub(super) fn create(work: &Work, at: Timestamp, new: &NewBooking, index: usize) -> Decided {
    let booking = &new.booking;
    let partner = work
        .active_partner(&booking.partner_id)
        .ok_or_else(|| Error::not_found("partner"))?;
    quotas::admit_booking(work, partner, at, new.bytes())?;
    if let Some(shelf) = &new.shelf
        && !shelf.is_current(partner.edition, &partner.partner.settings)
    {
        return Err(Error::outdated());
    }
    let first = chain::first(work, booking.booking_id, new.stream, at, &new.fact)?;
    let mut changes = vec![
        Change::BookingAdded {
            command: index,
            partner_id: booking.partner_id,
            bytes: new.bytes(),
        },
        Change::Entry(Box::new(first)),
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
    let mut chain = Chain::of(work, state, at, seed)?;
    let fields = facts::protected(&booking, &state.terms);
    let entry = chain.append(LeafKind::BookingProtected, fields)?;
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
