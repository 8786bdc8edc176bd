//! Checks operator keys and the audit: each row carries a code that only the service can make.

use super::others::{MISSPELLED, identity};
use super::{Check, spelled};
use crate::model::{AuditId, OperatorKeyId};
use crate::store::conn::{Row, StoreError};
use crate::store::{audit, operator_keys};

impl Check<'_> {
    pub(super) fn operator_key(&mut self, row: &Row) -> Result<(), StoreError> {
        let id: OperatorKeyId = row.id(0)?;
        let (stored, genuine) = operator_keys::document(row, self.seal)?;
        let key = &stored.key;
        identity(
            &mut self.findings,
            "operator_key",
            &id,
            &key.operator_key_id,
            key.created_at,
        );
        let place = |field: &str| format!("operator_key {id} field {field}");
        if !genuine {
            let detail = "this row is not as Bookguard wrote it: it was written or changed by somebody without the ledger key. It opens \
                          nothing; delete it";
            self.findings.add("operator_key", place("mac"), detail);
        }
        if key.hint.len() != 4 || !spelled(row, 3, key) {
            self.findings.add("operator_key", place("body"), MISSPELLED);
        }
        self.not_before(
            "operator_key",
            &id,
            "revoked_ms",
            key.revoked_at,
            key.created_at,
        );
        Ok(())
    }

    pub(super) fn audit(&mut self, row: &Row) -> Result<(), StoreError> {
        let id: AuditId = row.id(0)?;
        let (record, genuine) = audit::document(row, self.seal)?;
        identity(
            &mut self.findings,
            "audit",
            &id,
            &record.audit_id,
            record.at,
        );
        let place = |field: &str| format!("audit {id} field {field}");
        if !genuine {
            let detail = "this row is not as Bookguard wrote it: it was written or changed by somebody without the ledger key. It is \
                          not shown";
            self.findings.add("audit", place("mac"), detail);
        }
        if !spelled(row, 3, &record) {
            self.findings.add("audit", place("body"), MISSPELLED);
        }
        Ok(())
    }
}
