//! Evidence items: a partner added something to a booking's evidence.
//!
//! Invariant: an item is only ever added. Nothing later changes or removes it.

use crate::engine::batch::BatchState;
use crate::engine::chain::AppendedFacts;
use crate::engine::command::{Command, Decided, Head, Receipt};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::evidence::EvidenceItem;
use crate::features::items::{AddEvidenceItem, AddedItem};
use crate::input::amount;
use crate::limits::ITEMS;
use crate::model::Timestamp;

impl Command for AddEvidenceItem {
    type Reply = AddedItem;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
        needs.items.push(self.booking_id);
    }

    /// Records an item.
    ///
    /// # Errors
    /// `not_found`, `too_many_evidence_items`; by field `item_in_future` and the faults of an amount.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<AddedItem> {
        let asked = &self.asked;
        let booking_id = self.booking_id;
        let (_, state) = batch.booking_of(self.partner_id, booking_id)?;
        if state.items.len() >= ITEMS {
            return Err(conflict!(
                "too_many_evidence_items",
                "Booking {booking_id} has {ITEMS} evidence items, the most that a booking takes, and they cannot be removed. \
                 Keep the rest yourself; for other bookings, put what belongs together into one file."
            ));
        }
        if let Some(late) = asked.at.and_then(|instant| instant.after_receipt(at)) {
            return Err(Error::fault(
                "/at",
                "item_in_future",
                late,
                "Send the instant at which it was made or happened.",
            ));
        }
        let currency = asked.currency.unwrap_or(state.booking.currency);
        let digits = asked.amount.as_deref();
        let item = EvidenceItem {
            item_id: self.item_id,
            booking_id,
            added_at: at,
            kind: asked.kind,
            title: asked.title.clone(),
            at: asked.at,
            party: asked.party,
            amount: digits
                .map(|digits| amount("/amount", digits, currency))
                .transpose()?,
            reference: asked.reference.clone(),
            note: asked.note.clone(),
            sha256: asked.sha256.clone(),
        };
        let mut addition = AppendedFacts::to(batch, state, at, &self.seed)?;
        let place = addition.record(item.clone())?;
        let receipt = Receipt::of(&batch.origin, &place);
        Ok((addition.changes(), AddedItem { item, receipt }))
    }

    fn complete(&self, reply: &mut AddedItem, head: &Head) {
        reply.receipt.complete(head);
    }

    fn brings_new(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
