//! What is kept of the log's witnesses: how it last went with each, and the newest checkpoints that they cosigned.
//!
//! How it went decides whether a witness is asked, and holds the alarm that the log lost entries, so each row carries a code over
//! all of it, made with the sealing key. Invariant: a row that was written or changed by anyone but Bookguard is as if it did not
//! exist, and `fsck` reports it. A cosignature proves itself.

use super::Store;
use super::commit::json;
use super::conn::{Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::key_file::LedgerKey;
use crate::limits::{COSIGNATURES_READ, WITNESSES_READ};
use crate::model::{StoredCosignature, WitnessState};
use crate::seal::Seal;

/// Several witnesses.
pub(super) const SOME: &str = "SELECT id, body, mac FROM witness WHERE id IN ({})";

/// All witnesses, in pages by id.
pub(super) const ALL: &str = "SELECT id, body, mac FROM witness WHERE id > $1 ORDER BY id LIMIT $2";

/// All cosignatures, in pages by their key.
pub(super) const COSIGNATURES: &str = "SELECT size, witness, vkey, note FROM cosignature WHERE (size, witness) > ($1, $2) \
     ORDER BY size, witness LIMIT $3";

/// The cosignatures of checkpoints of a size or a larger one, newest last.
const SINCE: &str = "SELECT size, witness, vkey, note FROM cosignature WHERE size >= $1 ORDER BY size, witness LIMIT $2";

fn mac(seal: &Seal, id: &[u8], body: &str) -> [u8; 32] {
    seal.code(&[b"witness", id, body.as_bytes()])
}

/// Stores how it went with a witness.
pub(super) fn noted(seal: &Seal, state: &WitnessState) -> Statement<'static> {
    let (id, body) = (WitnessState::id(&state.url), json(state));
    let code = mac(seal, &id, &body);
    Statement::new(
        "INSERT INTO witness (id, body, mac) VALUES ($1, $2, $3) \
         ON CONFLICT (id) DO UPDATE SET body = excluded.body, mac = excluded.mac",
        args![id, body, code],
    )
}

/// Stores a cosignature, in place of an older one of the same checkpoint.
pub(super) fn cosigned(one: &StoredCosignature) -> Statement<'_> {
    Statement::new(
        "INSERT INTO cosignature (size, witness, vkey, note) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (size, witness) DO UPDATE SET vkey = excluded.vkey, note = excluded.note",
        args![one.size, one.id(), one.key.as_str(), one.note.as_str()],
    )
}

/// Deletes a cosignature.
pub(super) fn forgotten(size: u64, witness: &[u8; 32]) -> Statement<'_> {
    Statement::new(
        "DELETE FROM cosignature WHERE size = $1 AND witness = $2",
        args![size, witness],
    )
}

/// A witness as its row describes it, and whether the row is genuine.
pub(super) fn document(row: &Row, seal: &Seal) -> Result<(WitnessState, bool), StoreError> {
    let state: WitnessState = row.json(1)?;
    let id = WitnessState::id(&state.url);
    let genuine = id[..] == *row.blob(0)? && mac(seal, &id, row.text(1)?)[..] == *row.blob(2)?;
    Ok((state, genuine))
}

/// The state of a row; `None` if the row is not genuine.
fn read(row: &Row, seal: &Seal) -> Option<WitnessState> {
    let (state, genuine) = document(row, seal).ok()?;
    genuine.then_some(state)
}

/// A cosignature as its row describes it.
pub(super) fn cosignature(row: &Row) -> Result<StoredCosignature, StoreError> {
    Ok(StoredCosignature {
        size: row.size(0)?,
        key: row.text(2)?.to_owned(),
        note: row.text(3)?.to_owned(),
    })
}

pub(super) fn read_witness(work: &mut BatchState, loading: &Loading<'_>, row: &Row) -> Read<()> {
    if let Some(state) = read(row, loading.seal()) {
        work.witnesses.insert(WitnessState::id(&state.url), state);
    }
    Ok(())
}

impl Store {
    /// How it went with every witness that was ever asked, for a log with this key.
    ///
    /// # Errors
    /// As listed by [`StoreError`].
    pub fn witnesses(&self, key: &LedgerKey) -> Result<Vec<WitnessState>, StoreError> {
        let seal = Seal::derive(key.seed());
        Reader::new(self.reader()?, &seal, None).witnesses()
    }
}

impl Reader<'_> {
    /// How it went with every witness that was ever asked.
    pub fn witnesses(&mut self) -> Read<Vec<WitnessState>> {
        let rows = self.all(ALL, args![&[][..], WITNESSES_READ])?;
        let seal = self.seal();
        Ok(rows.iter().filter_map(|row| read(row, seal)).collect())
    }

    /// The cosigned checkpoints of this size or a larger one, newest last.
    pub fn cosignatures(&mut self, size: u64) -> Read<Vec<StoredCosignature>> {
        self.each(SINCE, args![size, COSIGNATURES_READ], cosignature)
    }
}
