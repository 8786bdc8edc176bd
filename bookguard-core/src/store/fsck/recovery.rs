//! Checks recoveries. No ledger entry describes them, but what one examined is in its partner's log, and what it made
//! due says so.

use super::checked_row::{CheckedRow, MISSPELLED};
use super::{CLOCK_SLACK_MS, Check, spelled};
use crate::limits::ENDPOINTS_PER_PARTNER;
use crate::model::id::noun;
use crate::model::{EventId, PartnerId, Recovery, RecoveryStatus};
use crate::store::conn::{Row, StoreError, args};
use crate::store::recoveries;

impl Check<'_> {
    pub(super) fn recovery(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let owner: PartnerId = row.id(1)?;
        let recovery = recoveries::read(row)?;
        let asked: Recovery = row.json(2)?;
        let made = recovery.created_at;
        let it = self.checked("recovery", id, recovery.recovery_id, made);
        let as_asked = asked.clone().unbegun() == asked && spelled(row, 2, &asked);
        let in_order =
            recovery.statuses.is_sorted_by(|a, b| a < b) && !recovery.statuses.is_empty();
        if !as_asked || !in_order || recovery.since >= recovery.until || recovery.until > made {
            self.fault(&it, "body", MISSPELLED);
        }
        let most = ENDPOINTS_PER_PARTNER as u64;
        let fitting = recovery.recovered + recovery.no_endpoints + recovery.expired
            <= recovery.examined
            && (recovery.recovered..=recovery.recovered.saturating_mul(most))
                .contains(&recovery.deliveries)
            && (recovery.endpoint_id.is_none() || recovery.deliveries == recovery.recovered);
        if !fitting {
            self.fault(&it, "recovered", "its counts contradict each other");
        }
        let now = self.now.ms().saturating_add(CLOCK_SLACK_MS);
        if recovery
            .finished_at
            .is_some_and(|at| at < made || at.ms() > now)
        {
            let detail = "it is not between when the recovery began and now";
            self.doubt(&it, "finished_ms", detail);
        }
        self.passage(&it, &owner, &recovery)
    }

    /// Checks the range a recovery examined against its partner's log and endpoints.
    fn passage(
        &mut self,
        it: &CheckedRow<noun::Recovery>,
        owner: &PartnerId,
        recovery: &Recovery,
    ) -> Result<(), StoreError> {
        let sql = "SELECT COUNT(*) FROM event WHERE partner_id = $1";
        let events = self.conn.count(sql, args![owner])?;
        let Recovery {
            after_seq,
            reached_seq,
            through_seq,
            ..
        } = *recovery;
        if !(after_seq <= reached_seq && reached_seq <= through_seq && through_seq <= events) {
            let detail = format!(
                "row says after {after_seq}, reached {reached_seq}, through {through_seq}; the log has {events} events"
            );
            self.fault(it, "reached", detail);
        }
        // Ids begin with the millisecond, so the ids of a time span form a range.
        let first = EventId::new(recovery.since, [0; 10]);
        let beyond = EventId::new(recovery.until.plus_ms(1), [0; 10]);
        let examined = self.conn.count(
            "SELECT COUNT(*) FROM event WHERE partner_id = $1 AND seq > $2 AND seq <= $3 AND id >= $4 AND id < $5",
            args![owner, after_seq, reached_seq, first, beyond],
        )?;
        if examined != recovery.examined {
            let detail = format!(
                "row says {}; the range it went through has {examined} events of its period",
                recovery.examined
            );
            self.fault(it, "examined", detail);
        }
        let next = self.conn.first(
            "SELECT id FROM event WHERE partner_id = $1 AND seq = $2",
            args![owner, reached_seq + 1],
        )?;
        let next: Option<EventId> = next.map(|row| row.id(0)).transpose()?;
        let over = reached_seq == through_seq || next.is_some_and(|id| recovery.is_past(&id));
        if over != (recovery.status == RecoveryStatus::Finished) {
            let detail = "it is finished when it has looked at everything, and not before";
            self.fault(it, "finished_ms", detail);
        }
        if let Some(endpoint_id) = &recovery.endpoint_id {
            let sql = "SELECT COUNT(*) FROM endpoint WHERE id = $1 AND partner_id = $2";
            if self.conn.count(sql, args![endpoint_id, owner])? == 0 {
                self.fault(it, "endpointId", "the endpoint is not one of its partner");
            }
        }
        Ok(())
    }
}
