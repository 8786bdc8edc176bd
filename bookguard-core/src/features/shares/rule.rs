//! Makes and revokes shares, and records who looked.

use super::{
    CreateShare, ForgetShares, NewShare, RecordView, RevokeShare, no_such_link, old_before,
};
use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::evidence::{Share, StoredShare};
use crate::limits;
use crate::model::Timestamp;

impl Command for CreateShare {
    type Reply = NewShare;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.shared.push(self.stored.share.booking_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<NewShare> {
        batch.active_partner(&self.partner_id)?;
        let booking_id = self.stored.share.booking_id;
        let others = batch.shares.values().map(|stored| &stored.share);
        let others = others.filter(|share| share.booking_id == booking_id);
        let (live, ended): (Vec<&Share>, Vec<&Share>) = others.partition(|share| share.is_live(at));
        if live.len() >= limits::SHARES_PER_BOOKING {
            return Err(conflict!(
                "too_many_shares",
                "The booking has {} shares that work, the most allowed. Revoke one first.",
                live.len()
            ));
        }
        if live.len() + ended.len() >= limits::SHARES_KEPT_PER_BOOKING {
            return Err(conflict!(
                "too_many_shares",
                "The booking has had {} shares, the most that are kept. Each is deleted {} days after it expired.",
                live.len() + ended.len(),
                limits::SHARE_KEPT_DAYS
            ));
        }
        let added = Change::ShareAdded(Box::new(self.stored.clone()));
        Ok((vec![added], self.reply.clone()))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

impl Command for RevokeShare {
    type Reply = Share;

    fn needs(&self, needs: &mut Needs) {
        needs.shares.push(self.share_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Share> {
        let stored = batch
            .shares
            .get(&self.share_id)
            .filter(|stored| stored.share.booking_id == self.booking_id)
            .ok_or_else(|| Error::not_found("share"))?;
        if stored.share.revoked_at.is_some() {
            return Ok((Vec::new(), stored.share.clone()));
        }
        let share = Share {
            revoked_at: Some(at),
            ..stored.share.clone()
        };
        Ok((vec![changed(stored, share.clone())], share))
    }
}

impl Command for RecordView {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.shares.push(self.share_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        // It may have been revoked since it was looked up.
        let stored = batch
            .shares
            .get(&self.share_id)
            .filter(|stored| stored.share.is_live(at))
            .ok_or_else(no_such_link)?;
        if !stored.share.is_new_view(self.form, at) {
            return Ok((Vec::new(), ()));
        }
        let viewed = stored.share.clone().viewed(self.form, at);
        Ok((vec![changed(stored, viewed)], ()))
    }
}

impl Command for ForgetShares {
    type Reply = ();

    fn decide(&self, _: &BatchState, at: Timestamp) -> Decided<()> {
        let before = old_before(at);
        Ok((vec![Change::SharesForgotten(before)], ()))
    }
}

fn changed(stored: &StoredShare, share: Share) -> Change {
    let hash = stored.hash;
    Change::ShareChanged(Box::new(StoredShare { share, hash }))
}

#[cfg(test)]
mod tests;
