//! Rows of legal holds: how they are written, and which of them are genuine.
//!
//! A row carries a code over all of it, made with the sealing key. Invariant: a row that anybody but Bookguard wrote or changed is an
//! error for whoever asks, and never a hold that is not there: nothing is erased while it is unknown whether a hold forbids it.

use super::commit::json;
use super::conn::{Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::evidence::{Hold, StoredHold};
use crate::limits;
use crate::model::{BookingId, HoldId, PartnerId};
use crate::seal::Seal;

/// A query for holds with the columns that [`document`] takes.
macro_rules! holds_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, booking_id, partner_id, released_ms, body, mac FROM hold WHERE ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use holds_where;

/// All holds of some bookings.
pub(super) const OF_BOOKINGS: &str = holds_where!("booking_id IN ({})");

/// The active holds of some partners.
pub(super) const OF_PARTNERS: &str = holds_where!("partner_id IN ({}) AND released_ms IS NULL");

/// Which of some events are of bookings under an active hold.
pub(super) const OF_EVENTS: &str = "SELECT e.id FROM event e JOIN hold h ON h.booking_id = e.booking_id \
     WHERE e.id IN ({}) AND h.released_ms IS NULL";

/// All holds, in pages by id.
pub(super) const ALL: &str = holds_where!("id > $1 ORDER BY id LIMIT $2");

const PAGE: &str = holds_where!("booking_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");

const ACTIVE: &str =
    holds_where!("partner_id = $1 AND released_ms IS NULL AND id > $2 ORDER BY id LIMIT $3");

fn mac(seal: &Seal, stored: &StoredHold, body: &str) -> [u8; 32] {
    let hold = &stored.hold;
    let released = hold.released_at.map(|at| at.ms().to_be_bytes());
    seal.code(&[
        b"hold",
        hold.hold_id.as_bytes(),
        hold.booking_id.as_bytes(),
        stored.partner_id.as_bytes(),
        released.as_ref().map_or(&[][..], |ms| &ms[..]),
        body.as_bytes(),
    ])
}

/// Inserts a hold, or replaces it by its released form.
pub(super) fn written(seal: &Seal, stored: &StoredHold) -> Statement<'static> {
    let hold = &stored.hold;
    let body = json(hold);
    let code = mac(seal, stored, &body);
    Statement::new(
        "INSERT INTO hold (id, booking_id, partner_id, released_ms, body, mac) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (id) DO UPDATE SET released_ms = excluded.released_ms, body = excluded.body, mac = excluded.mac",
        args![
            hold.hold_id,
            hold.booking_id,
            stored.partner_id,
            hold.released_at,
            body,
            code,
        ],
    )
}

/// A hold as its row describes it, and whether the row is genuine.
pub(super) fn document(row: &Row, seal: &Seal) -> Result<(StoredHold, bool), StoreError> {
    let stored = StoredHold {
        partner_id: row.id(2)?,
        hold: row.json::<Hold>(4)?,
    };
    let hold = &stored.hold;
    let genuine = (hold.hold_id, hold.booking_id) == (row.id(0)?, row.id(1)?)
        && hold.released_at == row.maybe_time(3)?
        && mac(seal, &stored, row.text(4)?)[..] == *row.blob(5)?;
    Ok((stored, genuine))
}

fn read(row: &Row, seal: &Seal) -> Result<StoredHold, StoreError> {
    match document(row, seal)? {
        (stored, true) => Ok(stored),
        (stored, false) => Err(StoreError::Corrupt(format!(
            "hold {} was written or changed by somebody without the ledger key",
            stored.hold.hold_id
        ))),
    }
}

pub(super) fn read_hold(work: &mut BatchState, loading: &Loading<'_>, row: &Row) -> Read<()> {
    let stored = read(row, loading.seal())?;
    work.holds.insert(stored.hold.hold_id, stored);
    Ok(())
}

pub(super) fn read_held_event(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    work.held_events.insert(row.id(0)?);
    Ok(())
}

impl Reader<'_> {
    /// A booking's holds, newest first, below `before`.
    pub fn holds(
        &mut self,
        booking_id: &BookingId,
        before: Option<HoldId>,
        rows: u32,
    ) -> Read<Vec<Hold>> {
        let before = before.unwrap_or(HoldId::from_bytes([0xff; 16]));
        let args = args![booking_id, &before, rows];
        let (page, seal) = (self.all(PAGE, args)?, self.seal());
        page.iter().map(|row| Ok(read(row, seal)?.hold)).collect()
    }

    /// A partner's bookings, oldest first, after `after`.
    pub fn bookings_after(
        &mut self,
        partner_id: &PartnerId,
        after: BookingId,
        rows: u32,
    ) -> Read<Vec<BookingId>> {
        let sql = "SELECT id FROM booking WHERE partner_id = $1 AND id > $2 ORDER BY id LIMIT $3";
        self.each(sql, args![partner_id, &after, rows], |row| row.id(0))
    }

    /// The active holds on a partner's bookings, whoever placed them, oldest first.
    pub fn active_holds(&mut self, partner_id: &PartnerId) -> Read<Vec<Hold>> {
        let mut holds: Vec<Hold> = Vec::new();
        loop {
            let after = holds.last().map(|hold| hold.hold_id);
            let after = after.unwrap_or(HoldId::from_bytes([0; 16]));
            let rows = i64::from(limits::HOLDS_PER_PARTNER);
            let args = args![partner_id, &after, rows];
            let (page, seal) = (self.all(ACTIVE, args)?, self.seal());
            if page.is_empty() {
                return Ok(holds);
            }
            for row in &page {
                holds.push(read(row, seal)?.hold);
            }
        }
    }
}
