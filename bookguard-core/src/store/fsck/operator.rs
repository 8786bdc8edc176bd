//! Checks operator keys and the audit: each row carries a code that only the service can make.

use super::checked_row::{MISSPELLED, forged};
use super::{Check, spelled};
use crate::store::conn::{Row, StoreError};
use crate::store::{audit, operator_keys};

impl Check<'_> {
    pub(super) fn operator_key(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let (stored, genuine) = operator_keys::document(row, self.seal)?;
        let key = &stored.key;
        let it = self.checked("operator_key", id, key.operator_key_id, key.created_at);
        if !genuine {
            self.fault(&it, "mac", forged("It opens nothing; delete it"));
        }
        if key.hint.len() != 4 || !spelled(row, 3, key) {
            self.fault(&it, "body", MISSPELLED);
        }
        self.not_before(&it, "revoked_ms", key.revoked_at);
        Ok(())
    }

    pub(super) fn audit(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let (record, genuine) = audit::document(row, self.seal)?;
        let it = self.checked("audit", id, record.audit_id, record.at);
        if !genuine {
            self.fault(&it, "mac", forged("It is not shown"));
        }
        if !spelled(row, 3, &record) {
            self.fault(&it, "body", MISSPELLED);
        }
        Ok(())
    }
}
