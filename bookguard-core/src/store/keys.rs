//! Rows of API keys: what is written of them, and which of them are genuine.
//!
//! A key opens what its row says, so a row carries two codes under the sealing key: `mac` is over all that the key was made
//! with, `standing` over whether it was revoked and when. Invariant: a row that somebody else than Bookguard wrote or changed
//! counts nowhere; it is as if it were not there, and the check of a database names it. A whole row put back as it once was
//! is genuine: against that stands no code, only the care for old copies.

use super::commit::json;
use super::conn::{Row, Statement, StoreError};
use crate::engine::command::NewKey;
use crate::model::{ApiKey, ApiKeyId, PartnerId, Timestamp};
use crate::seal::Seal;

/// Asks for rows of keys in the columns that [`read`] takes; what follows the table's name is to be added.
macro_rules! keys_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, partner_id, hash, revoked_ms, body, mac, standing FROM api_key WHERE ",
            $rest
        )
    };
}
pub(super) use keys_where;

/// Writes new keys.
pub(super) const INSERT: &str =
    "INSERT INTO api_key (id, partner_id, hash, body, mac, standing) VALUES {}";

/// What a key was made with, in the order the code is over it.
type Born<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a str);

fn mac(seal: &Seal, (id, partner_id, hash, body): Born<'_>) -> [u8; 32] {
    seal.code(&[b"api_key", id, partner_id, hash, body.as_bytes()])
}

fn standing(seal: &Seal, id: &[u8], revoked_ms: Option<i64>) -> [u8; 32] {
    let revoked = revoked_ms.map(i64::to_be_bytes);
    let revoked = revoked.as_ref().map_or(&[][..], |ms| &ms[..]);
    seal.code(&[b"api_key standing", id, revoked])
}

/// The text and the codes of a new key.
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

/// Revokes a key, genuine or not.
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

/// What of a row is not as Bookguard wrote it; the row's columns as [`keys_where`] asks for them.
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

/// The key of a row and whose it is; `None` when the row is not genuine.
pub(super) fn read(row: &Row, seal: &Seal) -> Result<Option<(PartnerId, ApiKey)>, StoreError> {
    if !matches!(forgery(row, seal), Ok(None)) {
        return Ok(None);
    }
    Ok(Some((row.id(1)?, document(row)?)))
}

/// What a row says of its key, genuine or not.
pub(super) fn document(row: &Row) -> Result<ApiKey, StoreError> {
    let mut key: ApiKey = row.json(4)?;
    key.revoked_at = row.maybe_int(3)?.map(Timestamp::from_ms);
    Ok(key)
}
