//! Checks shares. No ledger entry describes them, but each row carries a code that only the service can make.

use super::checked_row::{MISSPELLED, forged};
use super::{Check, spelled};
use crate::limits::{DAY_MS, SHARE_DAYS, SHARE_VIEWS};
use crate::store::conn::{Row, StoreError, args};
use crate::store::shares;

impl Check<'_> {
    pub(super) fn share(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let (stored, genuine) = shares::document(row, self.seal)?;
        let share = &stored.share;
        let it = self.checked("share", id, share.share_id, share.created_at);
        if !genuine {
            self.fault(&it, "mac", forged("It shows nothing; delete it"));
        }
        let listed =
            usize::try_from(share.views).map_or(SHARE_VIEWS, |views| views.min(SHARE_VIEWS));
        let lasts = share.expires_at.ms() - share.created_at.ms();
        let fitting = share.recent_views.len() == listed
            && share.recent_views.first().map(|view| view.at) == share.last_viewed_at
            && share.withhold.is_sorted_by(|a, b| a.word() < b.word())
            && (1..=SHARE_DAYS * DAY_MS).contains(&lasts);
        if !fitting || !spelled(row, 5, share) {
            self.fault(&it, "body", MISSPELLED);
        }
        self.not_before(&it, "revoked_ms", share.revoked_at);
        let sql = "SELECT COUNT(*) FROM booking WHERE id = $1";
        if self.conn.count(sql, args![&share.booking_id])? == 0 {
            self.fault(&it, "booking_id", "the booking does not exist");
        }
        Ok(())
    }
}
