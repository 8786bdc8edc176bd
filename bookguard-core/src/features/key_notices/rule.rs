//! Telling the owner of a key that it will expire.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::features::deliveries::rule::emit;
use crate::features::key_notices::TellExpiry;
use crate::model::{EventType, Timestamp};
use crate::webhook::body::{self, Expiry};

impl Command for TellExpiry {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.keys.push(self.api_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        let mut changes = vec![Change::KeyExpiryTold(self.api_key_id)];
        let Some(state) = batch.keys.get(&self.api_key_id) else {
            // Its row is not genuine: nobody's key. Without a notice, no look finds it again.
            return Ok((changes, ()));
        };
        if state.notice_at.is_none_or(|notice| notice > at) {
            return Ok((Vec::new(), ()));
        }
        let partner = batch.partners.get(&self.partner_id);
        let of = partner.zip(state.key.expires_at.filter(|_| state.key.works(at)));
        if let Some((partner, expires_at)) = of {
            let expiry = Expiry {
                api_key_id: self.api_key_id,
                expires_at,
            };
            let head = |event_id| body::expiring(event_id, self.partner_id, &expiry);
            let event = (EventType::ApiKeyExpiring, self.event);
            emit((batch, partner), at, None, event, head, &mut changes);
        }
        Ok((changes, ()))
    }
}

#[cfg(test)]
mod tests;
