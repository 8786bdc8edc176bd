//! Rows of API keys: how they are written, and which of them are genuine.
//!
//! A row decides what its key may access, so it carries two codes made with the sealing key. `mac` covers everything
//! the key was made with; `standing` covers whether and when it was revoked, and when it expires. Invariant: a row that was written or
//! changed by anyone but Bookguard counts nowhere, as if it did not exist, and `fsck` reports it. A whole row that is
//! put back in an earlier state is genuine. No code protects against that; only care for old copies does.

use super::commit::json;
use super::conn::{Conn, Row, Statement, StoreError, args};
use super::read::{KeyNotice, Read, Reader};
use crate::engine::batch::KeyState;
use crate::engine::change::KeyStanding;
use crate::engine::command::NewKey;
use crate::limits::KEY_USE_AHEAD_MS;
use crate::model::{ApiKey, ApiKeyId, PartnerId, Timestamp};
use crate::seal::Seal;

/// A query for key rows with the columns that [`read`] takes. The argument follows the table's name.
macro_rules! keys_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, partner_id, hash, revoked_ms, body, mac, standing, expires_ms, last_used_ms, notice_ms FROM api_key WHERE ",
            $rest
        )
    };
}
pub(super) use keys_where;

/// Inserts new keys.
pub(super) const INSERT: &str = "INSERT INTO api_key (id, partner_id, hash, body, mac, standing, expires_ms, notice_ms) VALUES {}";

/// Stores that a key was used, unless a later use is known that a right clock can have stored.
const USED: &str = "UPDATE api_key SET last_used_ms = $1 WHERE id = $2 AND (COALESCE(last_used_ms, 0) < $1 OR last_used_ms > $3)";

/// What a key was made with, in the order in which the code covers it.
type KeyOrigin<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a str);

fn mac(seal: &Seal, (id, partner_id, hash, body): KeyOrigin<'_>) -> [u8; 32] {
    seal.code(&[b"api_key", id, partner_id, hash, body.as_bytes()])
}

/// Without an expiry, the code is as programs that know of none make it. They refuse keys that have one.
fn standing(seal: &Seal, id: &[u8], revoked_ms: Option<i64>, expires_ms: Option<i64>) -> [u8; 32] {
    let revoked = revoked_ms.map(i64::to_be_bytes);
    let revoked = revoked.as_ref().map_or(&[][..], |ms| &ms[..]);
    let covered: [&[u8]; 3] = [b"api_key standing", id, revoked];
    match expires_ms {
        None => seal.code(&covered),
        Some(ms) => seal.code(&[covered[0], covered[1], covered[2], &ms.to_be_bytes()]),
    }
}

/// The stored text and the codes of a new key.
pub(super) fn born(seal: &Seal, partner_id: &PartnerId, key: &NewKey) -> (String, [[u8; 32]; 2]) {
    let (id, body) = (key.key.api_key_id, json(&key.key));
    let made_with = (
        &id.as_bytes()[..],
        &partner_id.as_bytes()[..],
        &key.hash[..],
        body.as_str(),
    );
    let expires_ms = key.key.expires_at.map(Timestamp::ms);
    let standing = standing(seal, id.as_bytes(), None, expires_ms);
    let codes = [mac(seal, made_with), standing];
    (body, codes)
}

/// Keys whose expiry is due to be announced, the longest due first.
const NOTICES: &str = "SELECT notice_ms, id, partner_id FROM api_key WHERE (notice_ms, id) > ($1, $2) AND notice_ms <= $3 \
     ORDER BY notice_ms, id LIMIT $4";

impl Reader<'_> {
    /// Keys whose expiry is due to be announced at `now`, with their owners, whether their rows are genuine or not; those after `after`.
    pub fn expiring_keys(
        &mut self,
        now: Timestamp,
        after: Option<KeyNotice>,
        rows: u32,
    ) -> Read<Vec<KeyNotice>> {
        let (since, key) = after.map_or((i64::MIN, ApiKeyId::from_bytes([0; 16])), |after| {
            (after.0.ms(), after.1)
        });
        self.each(NOTICES, args![since, &key, now, rows], |row| {
            Ok((row.time(0)?, row.id(1)?, row.id(2)?))
        })
    }
}

/// Stores that the expiry of a key was announced.
pub(super) fn notice_sent(api_key_id: &ApiKeyId) -> Statement<'static> {
    Statement::new(
        "UPDATE api_key SET notice_ms = NULL WHERE id = $1",
        args![*api_key_id],
    )
}

/// Stores until when a key works. Whoever ends a key knows when, so there is nothing to tell.
pub(super) fn stands(seal: &Seal, api_key_id: &ApiKeyId, key: KeyStanding) -> Statement<'static> {
    let revoked_ms = key.revoked_at.map(Timestamp::ms);
    let expires_ms = key.expires_at.map(Timestamp::ms);
    let code = standing(seal, api_key_id.as_bytes(), revoked_ms, expires_ms);
    Statement::new(
        "UPDATE api_key SET revoked_ms = $1, expires_ms = $2, standing = $3, notice_ms = NULL WHERE id = $4",
        args![revoked_ms, expires_ms, code, *api_key_id],
    )
}

/// Stores when keys were used, in one transaction.
pub(super) fn used(conn: &mut dyn Conn, uses: &[(ApiKeyId, Timestamp)]) -> Result<(), StoreError> {
    let statements: Vec<_> = uses
        .iter()
        .map(|(id, at)| Statement::new(USED, args![*at, id, at.ms() + KEY_USE_AHEAD_MS]))
        .collect();
    conn.write(&statements)
}

/// The part of a row that Bookguard did not write, if any. The row has the columns of [`keys_where`].
pub(super) fn forgery(row: &Row, seal: &Seal) -> Result<Option<&'static str>, StoreError> {
    let (id, revoked_ms, expires_ms) = (row.blob(0)?, row.maybe_int(3)?, row.maybe_int(7)?);
    let made_with = (id, row.blob(1)?, row.blob(2)?, row.text(4)?);
    Ok(if mac(seal, made_with)[..] != *row.blob(5)? {
        Some("mac")
    } else if standing(seal, id, revoked_ms, expires_ms)[..] != *row.blob(6)? {
        Some("standing")
    } else {
        None
    })
}

/// The key of a row and its owner; `None` if the row is not genuine.
pub(super) fn read(row: &Row, seal: &Seal) -> Result<Option<(PartnerId, ApiKey)>, StoreError> {
    if !matches!(forgery(row, seal), Ok(None)) {
        return Ok(None);
    }
    Ok(Some((row.id(1)?, document(row)?)))
}

/// As [`read`], as the commands of a batch see it.
pub(super) fn state(row: &Row, seal: &Seal) -> Result<Option<KeyState>, StoreError> {
    let Some((partner_id, key)) = read(row, seal)? else {
        return Ok(None);
    };
    let made: ApiKey = row.json(4)?;
    Ok(Some(KeyState {
        partner_id,
        key,
        lives_ms: made.lives_ms(),
        notice_at: row.maybe_time(9)?,
    }))
}

/// The key as its row describes it, whether the row is genuine or not.
pub(super) fn document(row: &Row) -> Result<ApiKey, StoreError> {
    let mut key: ApiKey = row.json(4)?;
    key.revoked_at = row.maybe_time(3)?;
    key.expires_at = row.maybe_time(7)?;
    key.last_used_at = row.maybe_time(8)?;
    Ok(key)
}
