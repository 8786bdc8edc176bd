//! What the operator changes of a partner's account.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::features::partners::account::{
    EditPartner, PartnerEdit, ReinstatePartner, SuspendPartner,
};
use crate::model::{Partner, PartnerAccount, PartnerId, PartnerStatus, Timestamp};

impl Command for EditPartner {
    type Reply = PartnerAccount;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PartnerAccount> {
        let state = batch.partner(&self.partner_id)?;
        state.refuse_if_ended()?;
        let before = &state.partner;
        let PartnerEdit {
            name,
            contact_email,
            website,
        } = self.edit.clone();
        let after = Partner {
            name: name.unwrap_or_else(|| before.name.clone()),
            contact_email: contact_email.unwrap_or_else(|| before.contact_email.clone()),
            website: website.unwrap_or_else(|| before.website.clone()),
            ..before.clone()
        };
        let changes = match after == *before {
            true => Vec::new(),
            false => vec![Change::PartnerEdited(Box::new(after.clone()))],
        };
        let quota = batch.quota_of(state, at);
        let partner = after;
        Ok((changes, PartnerAccount { partner, quota }))
    }
}

impl Command for SuspendPartner {
    type Reply = PartnerAccount;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PartnerAccount> {
        stand(batch, at, self.partner_id, PartnerStatus::Suspended)
    }
}

impl Command for ReinstatePartner {
    type Reply = PartnerAccount;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PartnerAccount> {
        stand(batch, at, self.partner_id, PartnerStatus::Active)
    }
}

/// Gives a partner this status, unless it has it already or waits for approval. A partner that is reinstated has its contract again, if
/// its record is not erased yet.
fn stand(
    batch: &BatchState,
    at: Timestamp,
    partner_id: PartnerId,
    status: PartnerStatus,
) -> Decided<PartnerAccount> {
    let state = batch.partner(&partner_id)?;
    state.refuse_if_pending()?;
    let mut partner = state.partner.clone();
    let mut changes = Vec::new();
    if partner.status != status {
        changes.push(Change::PartnerStatusChanged(partner_id, status));
        partner.status = status;
    }
    if status == PartnerStatus::Active {
        state.refuse_if_erased()?;
        if partner.contract_ended_at.take().is_some() {
            changes.push(Change::PartnerEdited(Box::new(partner.clone())));
        }
    }
    let quota = batch.quota_of(state, at);
    Ok((changes, PartnerAccount { partner, quota }))
}

#[cfg(test)]
mod tests;
