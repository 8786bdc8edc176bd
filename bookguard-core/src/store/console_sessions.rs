//! Rows of console sessions: how they are written, and which of them are genuine.
//!
//! A row decides who may act with a key, so it carries a code over all of it, made with the sealing key. Invariant: a row that was
//! written or changed by anyone but Bookguard opens nothing, as if it did not exist, and `fsck` reports it. A whole row that is put
//! back in an earlier state is genuine, as with API keys.

use super::commit::{int, json};
use super::conn::{Row, Statement, StoreError};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::engine::command::StoredConsoleSession;
use crate::limits::CONSOLE_SESSIONS_FORGOTTEN;
use crate::model::{ConsoleSession, ConsoleSessionId, PartnerId, Timestamp};
use crate::seal::Seal;

/// Several sessions.
pub(super) const SOME: &str = "SELECT id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac FROM console_session \
     WHERE id IN ({})";

/// A partner's sessions and links that have not expired, ended ones included.
pub(super) const UNEXPIRED: &str = "SELECT id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac FROM console_session \
     WHERE partner_id = $1 AND expires_ms > $2";

/// All sessions, in pages by id.
pub(super) const ALL: &str = "SELECT id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac FROM console_session \
     WHERE id > $1 ORDER BY id LIMIT $2";

/// The session or link with this token that is neither ended nor expired.
const LIVE: &str = "SELECT id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac FROM console_session \
     WHERE hash = $1 AND ended_ms IS NULL AND expires_ms > $2";

const PAGE: &str = "SELECT id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac FROM console_session \
     WHERE partner_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";

fn mac(seal: &Seal, stored: &StoredConsoleSession, body: &str) -> [u8; 32] {
    let session = &stored.session;
    let ms = |at: Option<Timestamp>| at.map_or(Vec::new(), |at| at.ms().to_be_bytes().to_vec());
    seal.code(&[
        b"console_session",
        session.console_session_id.as_bytes(),
        stored.partner_id.as_bytes(),
        session.api_key_id.as_bytes(),
        &stored.hash,
        &ms(session.started_at),
        &ms(Some(session.expires_at)),
        &ms(session.ended_at),
        body.as_bytes(),
    ])
}

/// Inserts a session or a link.
pub(super) fn added(seal: &Seal, stored: &StoredConsoleSession) -> Statement<'static> {
    let session = &stored.session;
    let body = json(session);
    let code = mac(seal, stored, &body);
    Statement::new(
        "INSERT INTO console_session (id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        vec![
            session.console_session_id.as_bytes().to_vec().into(),
            stored.partner_id.as_bytes().to_vec().into(),
            session.api_key_id.as_bytes().to_vec().into(),
            stored.hash.to_vec().into(),
            session.started_at.map(Timestamp::ms).into(),
            session.expires_at.ms().into(),
            session.ended_at.map(Timestamp::ms).into(),
            body.into(),
            code.to_vec().into(),
        ],
    )
}

/// Stores that a session began or ended.
pub(super) fn changed(seal: &Seal, stored: &StoredConsoleSession) -> Statement<'static> {
    let session = &stored.session;
    let body = json(session);
    let code = mac(seal, stored, &body);
    Statement::new(
        "UPDATE console_session SET hash = $1, started_ms = $2, expires_ms = $3, ended_ms = $4, body = $5, mac = $6 WHERE id = $7",
        vec![
            stored.hash.to_vec().into(),
            session.started_at.map(Timestamp::ms).into(),
            session.expires_at.ms().into(),
            session.ended_at.map(Timestamp::ms).into(),
            body.into(),
            code.to_vec().into(),
            session.console_session_id.as_bytes().to_vec().into(),
        ],
    )
}

/// Deletes sessions that expired before an instant.
pub(super) fn forgotten(before: Timestamp) -> Statement<'static> {
    Statement::new(
        "DELETE FROM console_session WHERE id IN (SELECT id FROM console_session WHERE expires_ms < $1 ORDER BY expires_ms LIMIT $2)",
        vec![before.ms().into(), int(CONSOLE_SESSIONS_FORGOTTEN)],
    )
}

/// A session as its row describes it, and whether the row is genuine.
pub(super) fn document(row: &Row, seal: &Seal) -> Result<(StoredConsoleSession, bool), StoreError> {
    let stored = StoredConsoleSession {
        partner_id: row.id(1)?,
        session: row.json(7)?,
        hash: row.bytes(3)?,
    };
    let session = &stored.session;
    let genuine = (session.console_session_id, session.api_key_id) == (row.id(0)?, row.id(2)?)
        && session.started_at.map(Timestamp::ms) == row.maybe_int(4)?
        && session.expires_at.ms() == row.int(5)?
        && session.ended_at.map(Timestamp::ms) == row.maybe_int(6)?
        && mac(seal, &stored, row.text(7)?)[..] == *row.blob(8)?;
    Ok((stored, genuine))
}

/// The session of a row; `None` if the row is not genuine.
fn read(row: &Row, seal: &Seal) -> Option<StoredConsoleSession> {
    let (stored, genuine) = document(row, seal).ok()?;
    genuine.then_some(stored)
}

pub(super) fn read_console_session(
    work: &mut BatchState,
    loading: &Loading<'_>,
    row: &Row,
) -> Result<(), StoreError> {
    if let Some(stored) = read(row, loading.seal()) {
        (work.console_sessions).insert(stored.session.console_session_id, stored);
    }
    Ok(())
}

impl Reader<'_> {
    /// The session or link that this token opens at `now`, by the token's SHA-256.
    pub fn live_console_session(
        &mut self,
        hash: &[u8; 32],
        now: Timestamp,
    ) -> Read<Option<StoredConsoleSession>> {
        let row = self.first(LIVE, vec![hash.into(), now.ms().into()])?;
        Ok(row.and_then(|row| read(&row, self.seal())))
    }

    /// The partner whose session or link this is.
    pub fn console_session_owner(&mut self, id: &ConsoleSessionId) -> Read<Option<PartnerId>> {
        let row = self.first(
            "SELECT partner_id FROM console_session WHERE id = $1",
            vec![id.into()],
        )?;
        row.map(|row| row.id(0)).transpose()
    }

    /// A partner's sessions and links, newest first, below `before`. Rows that are not genuine are left out.
    pub fn console_sessions(
        &mut self,
        partner_id: &PartnerId,
        before: Option<ConsoleSessionId>,
        rows: u32,
    ) -> Read<Vec<ConsoleSession>> {
        let mut before = before.unwrap_or(ConsoleSessionId::from_bytes([0xff; 16]));
        let mut found = Vec::new();
        loop {
            let args = vec![partner_id.into(), (&before).into(), i64::from(rows).into()];
            let page = self.all(PAGE, args)?;
            let seal = self.seal();
            let genuine = page.iter().filter_map(|row| read(row, seal));
            found.extend(genuine.map(|stored| stored.session));
            found.truncate(rows as usize);
            let short = found.len() < rows as usize && page.len() == rows as usize;
            match page.last().filter(|_| short) {
                Some(last) => before = last.id(0)?,
                None => return Ok(found),
            }
        }
    }

    /// Whether a session expired before this instant.
    pub fn has_old_console_sessions(&mut self, before: Timestamp) -> Read<bool> {
        let row = self.first(
            "SELECT id FROM console_session WHERE expires_ms < $1 ORDER BY expires_ms LIMIT 1",
            vec![before.ms().into()],
        )?;
        Ok(row.is_some())
    }
}
