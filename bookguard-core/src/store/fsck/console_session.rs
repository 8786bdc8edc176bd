//! Checks console sessions. No ledger entry describes them, but each row carries a code that only the service can make.

use super::Check;
use super::checked_row::{MISSPELLED, forged};
use crate::limits::{CONSOLE_LINK_MS, CONSOLE_SESSION_MS};
use crate::store::conn::{Row, StoreError, args};
use crate::store::console_sessions;

impl Check<'_> {
    pub(super) fn console_session(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let (stored, genuine) = console_sessions::document(row, self.seal)?;
        let told = stored.columns();
        let it = self.checked("console_session", id, told.id, told.created_at);
        if !genuine {
            self.fault(&it, "mac", forged("It opens nothing; delete it"));
        }
        let (begins, most) = match told.started_at {
            Some(at) => (at, CONSOLE_SESSION_MS),
            None => (told.created_at, CONSOLE_LINK_MS),
        };
        let lasts = told.expires_at.ms() - begins.ms();
        if !(1..=most).contains(&lasts) || row.text(7) != Ok(told.body.as_str()) {
            self.fault(&it, "body", MISSPELLED);
        }
        self.not_before(&it, "started_ms", told.started_at);
        self.not_before(&it, "ended_ms", told.ended_at);
        let (keys, detail) = match &told.partner_id {
            Some(partner_id) => (
                self.conn.count(
                    "SELECT COUNT(*) FROM api_key WHERE id = $1 AND partner_id = $2",
                    args![&told.key_id, partner_id],
                )?,
                "the partner has no such key",
            ),
            None => (
                self.conn.count(
                    "SELECT COUNT(*) FROM operator_key WHERE id = $1",
                    args![&told.key_id],
                )?,
                "the operator has no such key",
            ),
        };
        if keys == 0 {
            self.fault(&it, "key_id", detail);
        }
        Ok(())
    }
}
