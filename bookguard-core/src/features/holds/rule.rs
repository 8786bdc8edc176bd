//! Places and releases legal holds.

use super::{PlaceHold, ReleaseHold};
use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::evidence::{HeldBy, Hold, StoredHold};
use crate::limits;
use crate::model::Timestamp;

impl Command for PlaceHold {
    type Reply = Hold;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.stored.partner_id, self.stored.hold.booking_id);
        needs.held.push(self.stored.hold.booking_id);
    }

    /// Places the hold.
    ///
    /// # Errors
    /// `not_found`, `too_many_holds`.
    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<Hold> {
        let hold = &self.stored.hold;
        batch.kept_booking_of(self.stored.partner_id, hold.booking_id)?;
        let by = hold.placed_by;
        let of_booking = batch.holds.values().map(|stored| &stored.hold);
        let of_booking =
            of_booking.filter(|one| one.booking_id == hold.booking_id && one.placed_by == by);
        let most = limits::HOLDS_PER_BOOKING;
        if of_booking.count() >= most {
            let message = format!(
                "The {} has placed {most} holds on booking {}, released ones included, which is the most. An active one keeps it as \
                 well; if none is left, the {} can place one.",
                by.word(),
                hold.booking_id,
                match by {
                    HeldBy::Operator => HeldBy::Partner.word(),
                    HeldBy::Partner => HeldBy::Operator.word(),
                }
            );
            return Err(Error::conflict("too_many_holds", message));
        }
        if self.others >= limits::HOLDS_PER_PARTNER as usize {
            let message = format!(
                "The {} has {} active holds on the partner's bookings, which is the most. Release those whose matter is over.",
                by.word(),
                self.others
            );
            return Err(Error::conflict("too_many_holds", message));
        }
        let placed = Change::HoldWritten(Box::new(self.stored.clone()));
        Ok((vec![placed], hold.clone()))
    }

    fn brings_new(&self) -> bool {
        true
    }

    fn refused_from(&self) -> u64 {
        limits::HOLDS_UNTIL
    }
}

impl Command for ReleaseHold {
    type Reply = Hold;

    fn only_ends(&self) -> bool {
        true
    }

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
        needs.held.push(self.booking_id);
    }

    /// Releases the hold.
    ///
    /// # Errors
    /// `not_found`, `operator_hold`.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Hold> {
        batch.kept_booking_of(self.partner_id, self.booking_id)?;
        let stored = batch.holds.get(&self.hold_id);
        let stored = stored
            .filter(|stored| stored.hold.booking_id == self.booking_id)
            .ok_or_else(|| Error::not_found("hold"))?;
        if !stored.hold.is_active() {
            return Ok((Vec::new(), stored.hold.clone()));
        }
        if stored.hold.placed_by == HeldBy::Operator && self.by == HeldBy::Partner {
            return Err(conflict!(
                "operator_hold",
                "Hold {} was placed by the service's operator, who alone can release it. Ask the operator.",
                self.hold_id
            ));
        }
        let hold = Hold {
            released_at: Some(at.max(stored.hold.placed_at)),
            ..stored.hold.clone()
        };
        let released = StoredHold {
            hold: hold.clone(),
            ..stored.clone()
        };
        Ok((vec![Change::HoldWritten(Box::new(released))], hold))
    }
}

#[cfg(test)]
mod tests;
