//! Rows of shares: how they are written, and which of them are genuine.
//!
//! A row decides who sees a booking's evidence, so it carries a code over all of it, made with the sealing key. Invariant: a
//! row that was written or changed by anyone but Bookguard shows nothing, as if it did not exist, and `fsck` reports it. A
//! whole row that is put back in an earlier state is genuine, as with API keys.

use super::commit::json;
use super::conn::{Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::evidence::{Share, StoredShare};
use crate::limits::SHARES_FORGOTTEN;
use crate::model::{BookingId, Partner, ShareId, Timestamp};
use crate::seal::Seal;

/// A query for shares with the columns that [`document`] takes. The argument follows them.
macro_rules! shares {
    ($rest:literal) => {
        concat!(
            "SELECT id, booking_id, hash, expires_ms, revoked_ms, body, mac ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use shares;

/// Several shares.
pub(super) const SOME: &str = shares!("FROM share WHERE id IN ({})");

/// All shares of some bookings.
pub(super) const OF_BOOKINGS: &str = shares!("FROM share WHERE booking_id IN ({})");

/// All shares, in pages by id.
pub(super) const ALL: &str = shares!("FROM share WHERE id > $1 ORDER BY id LIMIT $2");

/// The live share with this token, and the record of its partner. An unknown token, an expired share and a revoked one are one answer to
/// the engine, so that nothing done afterwards can tell them apart.
const LIVE: &str = shares!(
    ", (SELECT p.body FROM booking b JOIN partner p ON p.id = b.partner_id WHERE b.id = share.booking_id) \
     FROM share WHERE hash = $1 AND revoked_ms IS NULL AND expires_ms > $2"
);

const PAGE: &str =
    shares!("FROM share WHERE booking_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");

fn ms(at: Timestamp) -> [u8; 8] {
    at.ms().to_be_bytes()
}

fn mac(seal: &Seal, stored: &StoredShare, body: &str) -> [u8; 32] {
    let share = &stored.share;
    let revoked = share.revoked_at.map(ms);
    seal.code(&[
        b"share",
        share.share_id.as_bytes(),
        share.booking_id.as_bytes(),
        &stored.hash,
        &ms(share.expires_at),
        revoked.as_ref().map_or(&[][..], |ms| &ms[..]),
        body.as_bytes(),
    ])
}

/// Inserts a share.
pub(super) fn added(seal: &Seal, stored: &StoredShare) -> Statement<'static> {
    let share = &stored.share;
    let body = json(share);
    let code = mac(seal, stored, &body);
    Statement::new(
        "INSERT INTO share (id, booking_id, hash, expires_ms, revoked_ms, body, mac) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        args![
            share.share_id,
            share.booking_id,
            stored.hash,
            share.expires_at,
            share.revoked_at,
            body,
            code,
        ],
    )
}

/// Stores that a share was revoked or viewed.
pub(super) fn changed(seal: &Seal, stored: &StoredShare) -> Statement<'static> {
    let share = &stored.share;
    let body = json(share);
    let code = mac(seal, stored, &body);
    Statement::new(
        "UPDATE share SET revoked_ms = $1, body = $2, mac = $3 WHERE id = $4",
        args![share.revoked_at, body, code, share.share_id],
    )
}

/// Deletes shares that expired before an instant.
pub(super) fn forgotten(before: Timestamp) -> Statement<'static> {
    Statement::new(
        "DELETE FROM share WHERE id IN (SELECT id FROM share WHERE expires_ms < $1 \
         AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.booking_id = share.booking_id AND h.released_ms IS NULL) ORDER BY expires_ms LIMIT $2)",
        args![before, SHARES_FORGOTTEN],
    )
}

/// A share as its row describes it, and whether the row is genuine.
pub(super) fn document(row: &Row, seal: &Seal) -> Result<(StoredShare, bool), StoreError> {
    let share: Share = row.json(5)?;
    let stored = StoredShare {
        share,
        hash: row.bytes(2)?,
    };
    let share = &stored.share;
    let genuine = (share.share_id, share.booking_id) == (row.id(0)?, row.id(1)?)
        && share.expires_at == row.time(3)?
        && share.revoked_at == row.maybe_time(4)?
        && mac(seal, &stored, row.text(5)?)[..] == *row.blob(6)?;
    Ok((stored, genuine))
}

/// The share of a row; `None` if the row is not genuine.
fn read(row: &Row, seal: &Seal) -> Option<StoredShare> {
    let (stored, genuine) = document(row, seal).ok()?;
    genuine.then_some(stored)
}

pub(super) fn read_share(work: &mut BatchState, loading: &Loading<'_>, row: &Row) -> Read<()> {
    if let Some(stored) = read(row, loading.seal()) {
        work.shares.insert(stored.share.share_id, stored);
    }
    Ok(())
}

impl Reader<'_> {
    /// The share that this token opens at `now`, by the token's SHA-256; none of a partner whose contract has ended.
    pub fn live_share(&mut self, hash: &[u8; 32], now: Timestamp) -> Read<Option<Share>> {
        let row = self.first(LIVE, args![hash, now])?;
        let Some(row) = row else {
            return Ok(None);
        };
        let partner: Partner = row.json(7)?;
        let stored = read(&row, self.seal()).filter(|_| !partner.is_ended());
        Ok(stored.map(|stored| stored.share))
    }

    /// A booking's shares, newest first, below `before`.
    pub fn shares(
        &mut self,
        booking_id: &BookingId,
        before: Option<ShareId>,
        rows: u32,
    ) -> Read<Vec<Share>> {
        let args = args![booking_id];
        self.genuine((PAGE, args), before, rows, |row, seal| {
            Ok(read(row, seal).map(|stored| stored.share))
        })
    }

    /// Whether a share expired before this instant.
    pub fn has_old_shares(&mut self, before: Timestamp) -> Read<bool> {
        let row = self.first(
            "SELECT id FROM share WHERE expires_ms < $1 \
             AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.booking_id = share.booking_id AND h.released_ms IS NULL) \
             ORDER BY expires_ms LIMIT 1",
            args![before],
        )?;
        Ok(row.is_some())
    }
}
