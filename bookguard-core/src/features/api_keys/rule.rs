//! Creates and revokes API keys.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, NewKey};
use crate::engine::needs::Needs;
use crate::error::{Error, Kind};
use crate::features::api_keys::{CreateApiKey, NewApiKey, RevokeApiKey};
use crate::limits;
use crate::model::{ApiKey, PartnerId, Scope, Timestamp};

impl Command for CreateApiKey {
    type Reply = NewApiKey;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.key_owners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<NewApiKey> {
        let state = batch
            .active_partner(&self.partner_id)
            .ok_or_else(|| Error::not_found("partner"))?;
        if state.live_keys >= limits::KEYS_PER_PARTNER {
            return Err(Error::conflict(
                "too_many_keys",
                format!(
                    "The partner has {} keys, the most allowed. Revoke one first.",
                    state.live_keys
                ),
            ));
        }
        Ok((
            vec![key_added(self.partner_id, &self.key)],
            self.reply.clone(),
        ))
    }
}

impl Command for RevokeApiKey {
    type Reply = ApiKey;

    fn only_ends(&self) -> bool {
        true
    }

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.key_owners.push(self.partner_id);
        needs.keys.push(self.api_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<ApiKey> {
        let (partner_id, api_key_id) = (self.partner_id, self.api_key_id);
        let state = batch
            .keys
            .get(&api_key_id)
            .filter(|state| state.partner_id == partner_id)
            .ok_or_else(|| Error::not_found("API key"))?;
        let mut key = state.key.clone();
        if key.revoked_at.is_some() {
            return Ok((Vec::new(), key));
        }
        if let Some(by) = &self.by {
            let beyond = by.lacks(&key.scopes);
            if !beyond.is_empty() {
                return Err(Error::new(
                    Kind::Forbidden,
                    "insufficient_scope",
                    format!(
                        "This key cannot revoke a key that holds scopes it does not hold itself: {}. Use a key that holds them.",
                        beyond.join(", ")
                    ),
                ));
            }
            let manages =
                |key: &ApiKey| key.revoked_at.is_none() && key.scopes.allow(Scope::ApiKeysWrite);
            let of_partner = batch
                .keys
                .values()
                .filter(|state| state.partner_id == partner_id);
            if manages(&key) && of_partner.filter(|state| manages(&state.key)).count() == 1 {
                return Err(Error::conflict(
                    "last_managing_key",
                    "This is the partner's last active key with the scope api-keys:write. Create another with that scope first, \
                     or have the operator revoke this one.",
                ));
            }
        }
        key.revoked_at = Some(at);
        Ok((vec![Change::KeyRevoked { api_key_id, at }], key))
    }
}

pub(crate) fn key_added(partner_id: PartnerId, key: &NewKey) -> Change {
    Change::KeyAdded {
        partner_id,
        key: Box::new(key.clone()),
    }
}

#[cfg(test)]
mod tests;
