//! Rows of operator keys: how they are written, and which of them are genuine.
//!
//! A row gives access to everything, so it carries a code over all of it, made with the sealing key. Invariant: a row that was
//! written or changed by anyone but Bookguard counts nowhere, as if it did not exist, and `fsck` reports it. A whole row that is
//! put back in an earlier state is genuine, as with API keys.

use super::commit::json;
use super::conn::{Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::engine::command::NewOperatorKey;
use crate::model::{OperatorKey, OperatorKeyId};
use crate::seal::Seal;

/// A query for operator keys with the columns that [`document`] takes. The argument follows the table's name.
macro_rules! operator_keys_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, hash, revoked_ms, body, mac FROM operator_key ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use operator_keys_where;

/// Several keys.
pub(super) const SOME: &str = operator_keys_where!("WHERE id IN ({})");
/// The keys that are not revoked.
pub(super) const LIVE: &str = operator_keys_where!("WHERE revoked_ms IS NULL");
/// All keys, in pages by id.
pub(super) const ALL: &str = operator_keys_where!("WHERE id > $1 ORDER BY id LIMIT $2");

/// The result of looking up an operator key by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorKeyFound {
    /// A key that is not revoked.
    Live(OperatorKey),
    /// The key does not exist, or it was revoked.
    Unknown,
    /// The row was not written by Bookguard, so the key gives no access.
    Forged(OperatorKeyId),
}

fn mac(seal: &Seal, stored: &NewOperatorKey, body: &str) -> [u8; 32] {
    let revoked = stored.key.revoked_at.map(|at| at.ms().to_be_bytes());
    seal.code(&[
        b"operator_key",
        stored.key.operator_key_id.as_bytes(),
        &stored.hash,
        revoked.as_ref().map_or(&[][..], |ms| &ms[..]),
        body.as_bytes(),
    ])
}

/// Inserts a key.
pub(super) fn added(seal: &Seal, stored: &NewOperatorKey) -> Statement<'static> {
    let body = json(&stored.key);
    let code = mac(seal, stored, &body);
    Statement::new(
        "INSERT INTO operator_key (id, hash, body, mac) VALUES ($1, $2, $3, $4)",
        args![stored.key.operator_key_id, stored.hash, body, code],
    )
}

/// Stores that a key was revoked.
pub(super) fn revoked(seal: &Seal, stored: &NewOperatorKey) -> Statement<'static> {
    let body = json(&stored.key);
    let code = mac(seal, stored, &body);
    Statement::new(
        "UPDATE operator_key SET revoked_ms = $1, body = $2, mac = $3 WHERE id = $4",
        args![
            stored.key.revoked_at,
            body,
            code,
            stored.key.operator_key_id,
        ],
    )
}

/// A key as its row describes it, and whether the row is genuine.
pub(super) fn document(row: &Row, seal: &Seal) -> Result<(NewOperatorKey, bool), StoreError> {
    let stored = NewOperatorKey {
        key: row.json(3)?,
        hash: row.bytes(1)?,
    };
    let key = &stored.key;
    let genuine = key.operator_key_id == row.id(0)?
        && key.revoked_at == row.maybe_time(2)?
        && mac(seal, &stored, row.text(3)?)[..] == *row.blob(4)?;
    Ok((stored, genuine))
}

/// The key of a row; `None` if the row is not genuine.
fn read(row: &Row, seal: &Seal) -> Option<NewOperatorKey> {
    let (stored, genuine) = document(row, seal).ok()?;
    genuine.then_some(stored)
}

pub(super) fn read_operator_key(
    work: &mut BatchState,
    loading: &Loading<'_>,
    row: &Row,
) -> Read<()> {
    if let Some(stored) = read(row, loading.seal()) {
        work.operator_keys
            .insert(stored.key.operator_key_id, stored);
    }
    Ok(())
}

impl Reader<'_> {
    /// Looks up the operator key with this hash. A revoked key counts as unknown.
    pub fn operator_key_by_hash(&mut self, hash: &[u8; 32]) -> Read<OperatorKeyFound> {
        let row = self.first(
            operator_keys_where!("WHERE hash = $1 AND revoked_ms IS NULL"),
            args![hash],
        )?;
        let Some(row) = row else {
            return Ok(OperatorKeyFound::Unknown);
        };
        Ok(match read(&row, self.seal()) {
            Some(stored) => OperatorKeyFound::Live(stored.key),
            None => OperatorKeyFound::Forged(row.id(0)?),
        })
    }

    /// The operator key with this id, revoked or not. One whose row is not genuine does not exist.
    pub fn operator_key(&mut self, id: &OperatorKeyId) -> Read<Option<OperatorKey>> {
        let row = self.first(operator_keys_where!("WHERE id = $1"), args![id])?;
        Ok(row.and_then(|row| Some(read(&row, self.seal())?.key)))
    }

    /// Those of these operator keys that exist, revoked or not. Rows that are not genuine are left out.
    pub fn operator_keys_by_id(&mut self, ids: &[OperatorKeyId]) -> Read<Vec<OperatorKey>> {
        let (rows, seal) = (self.keyed(SOME, ids)?, self.seal());
        let genuine = rows.iter().filter_map(|row| read(row, seal));
        Ok(genuine.map(|stored| stored.key).collect())
    }

    /// Operator keys, newest first, below `before`. Rows that are not genuine are left out.
    pub fn operator_keys(
        &mut self,
        before: Option<OperatorKeyId>,
        rows: u32,
    ) -> Read<Vec<OperatorKey>> {
        let sql = operator_keys_where!("WHERE id < $1 ORDER BY id DESC LIMIT $2");
        self.genuine((sql, vec![]), before, rows, |row, seal| {
            Ok(read(row, seal).map(|stored| stored.key))
        })
    }
}
