//! Checks legal holds. No ledger entry describes them, but each row carries a code that only the service can make.

use super::others::{MISSPELLED, identity};
use super::{Check, spelled};
use crate::model::HoldId;
use crate::store::conn::{Row, Statement, StoreError, args};
use crate::store::holds;

impl Check<'_> {
    pub(super) fn hold(&mut self, row: &Row) -> Result<(), StoreError> {
        let id: HoldId = row.id(0)?;
        let (stored, genuine) = holds::document(row, self.seal)?;
        let hold = &stored.hold;
        identity(
            &mut self.findings,
            "hold",
            &id,
            &hold.hold_id,
            hold.placed_at,
        );
        let place = |field: &str| format!("hold {id} field {field}");
        if !genuine {
            let detail = "this row is not as Bookguard wrote it: it was written or changed by somebody without the ledger key. Nothing of \
                          its booking can be erased; place the hold again and delete this row";
            self.findings.add("hold", place("mac"), detail);
        }
        if !spelled(row, 4, hold) {
            self.findings.add("hold", place("body"), MISSPELLED);
        }
        self.not_before("hold", &id, "released_ms", hold.released_at, hold.placed_at);
        let bookings = self.rows(Statement::new(
            "SELECT COUNT(*) FROM booking WHERE id = $1 AND partner_id = $2",
            args![&hold.booking_id, &stored.partner_id],
        ))?;
        if bookings.first().map_or(Ok(0), |row| row.int(0))? == 0 {
            let detail = "the booking does not exist, or is another partner's";
            self.findings.add("hold", place("booking_id"), detail);
        }
        Ok(())
    }
}
