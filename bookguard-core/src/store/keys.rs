//! Rows of API keys: how they are written, and which of them are genuine.
//!
//! A row decides what its key may access, so it carries two codes made with the sealing key. `mac` covers everything
//! the key was made with; `standing` covers whether and when it was revoked. Invariant: a row that was written or
//! changed by anyone but Bookguard counts nowhere, as if it did not exist, and `fsck` reports it. A whole row that is
//! put back in an earlier state is genuine. No code protects against that; only care for old copies does.

use super::commit::json;
use super::conn::{Row, Statement, StoreError};
use crate::engine::command::NewKey;
use crate::model::{ApiKey, ApiKeyId, PartnerId, Timestamp};
use crate::seal::Seal;

/// A query for key rows with the columns that [`read`] takes. The argument follows the table's name.
macro_rules! keys_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, partner_id, hash, revoked_ms, body, mac, standing FROM api_key WHERE ",
            $rest
        )
    };
}
pub(super) use keys_where;

/// Inserts new keys.
pub(super) const INSERT: &str =
    "INSERT INTO api_key (id, partner_id, hash, body, mac, standing) VALUES {}";

/// What a key was made with, in the order in which the code covers it.
type KeyOrigin<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a str);

fn mac(seal: &Seal, (id, partner_id, hash, body): KeyOrigin<'_>) -> [u8; 32] {
    seal.code(&[b"api_key", id, partner_id, hash, body.as_bytes()])
}

fn standing(seal: &Seal, id: &[u8], revoked_ms: Option<i64>) -> [u8; 32] {
    let revoked = revoked_ms.map(i64::to_be_bytes);
    let revoked = revoked.as_ref().map_or(&[][..], |ms| &ms[..]);
    seal.code(&[b"api_key standing", id, revoked])
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
    let codes = [mac(seal, made_with), standing(seal, id.as_bytes(), None)];
    (body, codes)
}

/// Revokes a key, whether its row is genuine or not.
pub(super) fn revoked(seal: &Seal, api_key_id: &ApiKeyId, at: Timestamp) -> Statement<'static> {
    let code = standing(seal, api_key_id.as_bytes(), Some(at.ms()));
    Statement::new(
        "UPDATE api_key SET revoked_ms = $1, standing = $2 WHERE id = $3",
        vec![
            at.ms().into(),
            code.to_vec().into(),
            api_key_id.as_bytes().to_vec().into(),
        ],
    )
}

/// The part of a row that Bookguard did not write, if any. The row has the columns of [`keys_where`].
pub(super) fn forgery(row: &Row, seal: &Seal) -> Result<Option<&'static str>, StoreError> {
    let (id, revoked_ms) = (row.blob(0)?, row.maybe_int(3)?);
    let made_with = (id, row.blob(1)?, row.blob(2)?, row.text(4)?);
    Ok(if mac(seal, made_with)[..] != *row.blob(5)? {
        Some("mac")
    } else if standing(seal, id, revoked_ms)[..] != *row.blob(6)? {
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

/// The key as its row describes it, whether the row is genuine or not.
pub(super) fn document(row: &Row) -> Result<ApiKey, StoreError> {
    let mut key: ApiKey = row.json(4)?;
    key.revoked_at = row.maybe_int(3)?.map(Timestamp::from_ms);
    Ok(key)
}
