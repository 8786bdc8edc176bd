//! How many operator keys there may be, and that each is revoked once.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, NewOperatorKey};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::features::operator_keys::{CreateOperatorKey, CreatedOperatorKey, RevokeOperatorKey};
use crate::limits;
use crate::model::{OperatorKey, Timestamp};

impl Command for CreateOperatorKey {
    type Reply = CreatedOperatorKey;

    fn needs(&self, needs: &mut Needs) {
        needs.live_operator_keys = true;
    }

    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<CreatedOperatorKey> {
        let keys = batch.operator_keys.values();
        let live = keys.filter(|stored| stored.key.revoked_at.is_none());
        let live = live.count();
        if live >= limits::OPERATOR_KEYS {
            return Err(conflict!(
                "too_many_operator_keys",
                "There are {live} operator keys, the most allowed. Revoke one first."
            ));
        }
        let added = Change::OperatorKeyAdded(Box::new(self.key.clone()));
        Ok((vec![added], self.reply.clone()))
    }
}

impl Command for RevokeOperatorKey {
    type Reply = OperatorKey;

    fn needs(&self, needs: &mut Needs) {
        needs.operator_keys.push(self.operator_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<OperatorKey> {
        let stored = batch
            .operator_keys
            .get(&self.operator_key_id)
            .ok_or_else(|| Error::not_found("operator key"))?;
        if stored.key.revoked_at.is_some() {
            return Ok((Vec::new(), stored.key.clone()));
        }
        let key = OperatorKey {
            revoked_at: Some(at),
            ..stored.key.clone()
        };
        let revoked = NewOperatorKey {
            key: key.clone(),
            hash: stored.hash,
        };
        Ok((vec![Change::OperatorKeyRevoked(Box::new(revoked))], key))
    }
}

#[cfg(test)]
mod tests;
