//! Partners and their keys.

pub(crate) mod quota;
mod settings;

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::conflict;
use crate::features::api_keys::rule::key_added;
use crate::features::partners::{ApprovePartner, RegisterPartner, Registration};
use crate::model::{PartnerStatus, Timestamp};

impl Command for RegisterPartner {
    type Reply = Registration;

    fn decide(&self, _: &BatchState, _: Timestamp) -> Decided<Registration> {
        let mut changes = vec![Change::PartnerAdded {
            partner: Box::new(self.partner.clone()),
            secret: self.secret.clone(),
        }];
        if let Some(key) = &self.key {
            changes.push(key_added(self.partner.partner_id, key));
        }
        Ok((changes, self.reply.clone()))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

impl Command for ApprovePartner {
    type Reply = Registration;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<Registration> {
        let partner_id = self.partner_id;
        let state = batch.partner(&partner_id)?;
        state.refuse_if_ended()?;
        if state.partner.status != PartnerStatus::Pending {
            return Err(conflict!(
                "partner_not_pending",
                "Partner {partner_id} is already approved; create further keys with api-keys create."
            ));
        }
        let changes = vec![
            Change::PartnerStatusChanged(partner_id, PartnerStatus::Active),
            key_added(partner_id, &self.key),
        ];
        Ok((changes, self.reply.clone()))
    }
}

#[cfg(test)]
mod tests;
