//! What ends with a partner's contract.

use super::{ContractEnd, EndContract, EraseBooking};
use crate::engine::batch::{BatchState, PartnerState};
use crate::engine::change::{Change, KeyStanding};
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::features::endpoints::rule::deleted;
use crate::features::erasures::rule::any_booking;
use crate::model::{BookingId, HoldId, Partner, PartnerStatus, Timestamp};

impl Command for EraseBooking {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        self.0.needs(needs);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        let (changes, _) = self.0.decide(batch, at)?;
        Ok((changes, ()))
    }
}

impl Command for EndContract {
    type Reply = ContractEnd;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.key_owners.push(self.partner_id);
        needs.holders.push(self.partner_id);
    }

    /// Takes from the partner whatever it could act with, and erases its own record if nothing else is left.
    ///
    /// # Errors
    /// `not_found`, `booking_changed`.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<ContractEnd> {
        let state = batch.partner(&self.partner_id)?;
        let mut changes = disarmed(batch, state, at);
        let begun = ContractEnd::begun(self.partner_id);
        if let Some(page) = &self.page {
            self.refuse_if_changed(page, batch, state)?;
            if page.done && !state.partner.is_erased() {
                changes.push(Change::PartnerEdited(Box::new(state.partner.erased())));
            }
            return Ok((changes, page.clone()));
        }
        if state.partner.is_ended() {
            return Ok((changes, begun));
        }
        let ended = Partner {
            status: PartnerStatus::Suspended,
            contract_ended_at: Some(at),
            ..state.partner.clone()
        };
        let ended = match state.partner.status {
            PartnerStatus::Active | PartnerStatus::Suspended => ended,
            // It never had a key, so nothing else is stored of it. At once, because nobody is suspended without a key otherwise.
            PartnerStatus::Pending | PartnerStatus::Approved => ended.erased(),
        };
        changes.push(Change::PartnerEdited(Box::new(ended)));
        Ok((changes, begun))
    }

    fn remembered_with(&self) -> Option<BookingId> {
        // Texts of holds, which may be of many bookings.
        let page = self.page.as_ref();
        let has_holds = page.is_some_and(|page| !page.held.is_empty());
        has_holds.then(|| any_booking(self.partner_id))
    }
}

impl EndContract {
    /// Refuses if the page, examined before the write turn, is not true any more.
    fn refuse_if_changed(
        &self,
        page: &ContractEnd,
        batch: &BatchState,
        state: &PartnerState,
    ) -> Result<(), Error> {
        let holds = batch.holds.values();
        let active =
            holds.filter(|stored| stored.partner_id == self.partner_id && stored.hold.is_active());
        let active: Vec<HoldId> = active.map(|stored| stored.hold.hold_id).collect();
        let is_held = page.done && !active.is_empty();
        let mut named = page.held.iter();
        let is_back = !state.partner.is_ended();
        if is_held || is_back || named.any(|hold| !active.contains(&hold.hold_id)) {
            return Err(conflict!(
                "booking_changed",
                "A legal hold on a booking of partner {} was placed or released, or the partner was reinstated, at the same moment. Send the request again.",
                self.partner_id
            ));
        }
        Ok(())
    }
}

/// The changes by which a partner that can still act no longer can.
fn disarmed(batch: &BatchState, state: &PartnerState, at: Timestamp) -> Vec<Change> {
    let partner_id = state.partner.partner_id;
    let own = batch
        .keys
        .iter()
        .filter(|(_, key)| key.partner_id == partner_id);
    let live = own.filter(|(_, key)| key.key.revoked_at.is_none());
    let mut changes: Vec<Change> = live
        .map(|(api_key_id, key)| {
            let standing = KeyStanding {
                revoked_at: Some(at),
                expires_at: key.key.expires_at,
            };
            Change::KeyStandingChanged(*api_key_id, standing)
        })
        .collect();
    let endpoints = state.endpoints.iter();
    changes.extend(endpoints.flat_map(|endpoint| deleted(endpoint, at)));
    if state.partner.status != PartnerStatus::Suspended {
        changes.push(Change::PartnerStatusChanged(
            partner_id,
            PartnerStatus::Suspended,
        ));
    }
    changes
}

#[cfg(test)]
mod tests;
