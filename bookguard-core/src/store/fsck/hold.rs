//! Checks legal holds. No ledger entry describes them, but each row carries a code that only the service can make.

use super::checked_row::{MISSPELLED, forged};
use super::{Check, spelled};
use crate::store::conn::{Row, StoreError, args};
use crate::store::holds;

impl Check<'_> {
    pub(super) fn hold(&mut self, row: &Row) -> Result<(), StoreError> {
        let id = row.id(0)?;
        let (stored, genuine) = holds::document(row, self.seal)?;
        let hold = &stored.hold;
        let it = self.checked("hold", id, hold.hold_id, hold.placed_at);
        if !genuine {
            let follows =
                "Nothing of its booking can be erased; place the hold again and delete this row";
            self.fault(&it, "mac", forged(follows));
        }
        if !spelled(row, 4, hold) {
            self.fault(&it, "body", MISSPELLED);
        }
        self.not_before(&it, "released_ms", hold.released_at);
        let bookings = self.conn.count(
            "SELECT COUNT(*) FROM booking WHERE id = $1 AND partner_id = $2",
            args![&hold.booking_id, &stored.partner_id],
        )?;
        if bookings == 0 {
            let detail = "the booking does not exist, or is another partner's";
            self.fault(&it, "booking_id", detail);
        }
        Ok(())
    }
}
