//! Records and protects bookings. Each fact is a leaf of the ledger and an event.

use std::sync::Arc;

use crate::engine::batch::BatchState;
use crate::engine::chain::{self, AppendedFacts};
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, Head, Receipt};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::evidence::facts::{self, LeafPlace};
use crate::features::bookings::{BookingCreated, CreateBooking, ProtectBooking, Protected};
use crate::features::deliveries::rule as deliveries;
use crate::features::partners::rule::quota;
use crate::model::{BookingStatus, EventType, Timestamp};
use crate::webhook::body;

impl Command for CreateBooking {
    type Reply = BookingCreated;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.0.booking.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<BookingCreated> {
        let Self(new) = self;
        let booking = &new.booking;
        let partner = batch.active_partner(&booking.partner_id)?;
        quota::admit_booking(batch, partner, at, new.bytes())?;
        if let Some(policy_set) = &new.policy_set
            && !policy_set.is_current(partner.policy_set_version, &partner.partner.settings)
        {
            return Err(Error::outdated());
        }
        let first = chain::first(batch, booking.booking_id, new.stream, at, &new.fact)?;
        let mut changes = vec![
            Change::BookingAdded(Arc::clone(new)),
            Change::Entry(Box::new(first)),
        ];
        let event = (EventType::BookingCreated, new.event);
        let (of, head) = (Some(booking.booking_id), |_| &new.event_head);
        deliveries::emit((batch, partner), at, of, event, head, &mut changes);
        let reply = BookingCreated {
            booking_id: booking.booking_id,
            partner_id: booking.partner_id,
            status: booking.status,
            created_at: booking.created_at,
        };
        Ok((changes, reply))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

impl Command for ProtectBooking {
    type Reply = Protected;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Protected> {
        let booking_id = self.booking_id;
        let (partner, state) = batch.booking_of(self.partner_id, booking_id)?;
        let reply = |protected_at, leaf: &LeafPlace| Protected {
            booking_id,
            protected: true,
            protected_at,
            receipt: Receipt::of(&batch.origin, leaf),
        };
        match state.booking.status {
            BookingStatus::Canceled => {
                return Err(conflict!(
                    "booking_canceled",
                    "Booking {booking_id} is canceled; only bookings that are not canceled can be protected."
                ));
            }
            BookingStatus::Protected => {
                // The status "protected" and the leaf index are written together; one without the other means that the
                // store is damaged.
                let (Some(protected_at), Some(leaf)) =
                    (state.booking.protected_at, &state.protected)
                else {
                    return Err(Error::internal(format!(
                        "booking {booking_id} is protected but has no leaf that says so"
                    )));
                };
                return Ok((Vec::new(), reply(protected_at, leaf)));
            }
            BookingStatus::Created => {}
        }
        let mut addition = AppendedFacts::to(batch, state, at, &self.seed)?;
        let leaf = addition.record(facts::ProtectionFact {
            protected_at: at,
            terms_hash: state.terms_hash_in_force(),
        })?;
        let mut changes = addition.changes();
        let head = |event_id| body::protected(event_id, &state.booking, at, &self.evidence_url);
        let event = (EventType::BookingProtected, self.event);
        let of = Some(booking_id);
        deliveries::emit((batch, partner), at, of, event, head, &mut changes);
        Ok((changes, reply(at, &leaf)))
    }

    fn complete(&self, reply: &mut Protected, head: &Head) {
        reply.receipt.complete(head);
    }
}

#[cfg(test)]
mod tests;
