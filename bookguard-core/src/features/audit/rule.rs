//! Deletes old records of the audit. Invariant: whatever the settings say, none goes in its first month.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::features::audit::PruneAudit;
use crate::limits::{AUDIT_DAYS_MIN, DAY_MS};
use crate::model::{AuditId, Timestamp};

impl Command for PruneAudit {
    type Reply = u64;

    fn decide(&self, _: &BatchState, at: Timestamp) -> Decided<u64> {
        let young = AuditId::earliest(at.plus_ms(-i64::from(AUDIT_DAYS_MIN) * DAY_MS));
        if self.newest >= young {
            return Ok((vec![], 0));
        }
        let pruned = Change::AuditPruned(self.newest);
        Ok((vec![pruned], self.records))
    }
}

#[cfg(test)]
mod tests;
