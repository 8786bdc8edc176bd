//! Checks shares. No ledger entry describes them, but each row carries a code that only the service can make.

use super::others::{MISSPELLED, identity};
use super::{Check, spelled};
use crate::limits::{DAY_MS, SHARE_DAYS, SHARE_VIEWS};
use crate::model::ShareId;
use crate::store::conn::{Row, Statement, StoreError, args};
use crate::store::shares;

impl Check<'_> {
    pub(super) fn share(&mut self, row: &Row) -> Result<(), StoreError> {
        let id: ShareId = row.id(0)?;
        let (stored, genuine) = shares::document(row, self.seal)?;
        let share = &stored.share;
        identity(
            &mut self.findings,
            "share",
            &id,
            &share.share_id,
            share.created_at,
        );
        let place = |field: &str| format!("share {id} field {field}");
        if !genuine {
            let detail = "this row is not as Bookguard wrote it: it was written or changed by somebody without the ledger key. It shows \
                          nothing; delete it";
            self.findings.add("share", place("mac"), detail);
        }
        let listed =
            usize::try_from(share.views).map_or(SHARE_VIEWS, |views| views.min(SHARE_VIEWS));
        let lasts = share.expires_at.ms() - share.created_at.ms();
        let fitting = share.recent_views.len() == listed
            && share.recent_views.first().map(|view| view.at) == share.last_viewed_at
            && share.withhold.is_sorted_by(|a, b| a.word() < b.word())
            && (1..=SHARE_DAYS * DAY_MS).contains(&lasts);
        if !fitting || !spelled(row, 5, share) {
            self.findings.add("share", place("body"), MISSPELLED);
        }
        self.not_before(
            "share",
            &id,
            "revoked_ms",
            share.revoked_at,
            share.created_at,
        );
        let bookings = self.rows(Statement::new(
            "SELECT COUNT(*) FROM booking WHERE id = $1",
            args![&share.booking_id],
        ))?;
        if bookings.first().map_or(Ok(0), |row| row.int(0))? == 0 {
            let detail = "the booking does not exist";
            self.findings.add("share", place("booking_id"), detail);
        }
        Ok(())
    }
}
