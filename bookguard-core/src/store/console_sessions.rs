//! Rows of console sessions: how they are written, and which of them are genuine.
//!
//! A row decides who may act with a key, so it carries a code over all of it, made with the sealing key. Invariants: a row that was
//! written or changed by anyone but Bookguard opens nothing, as if it did not exist, and `fsck` reports it. A whole row that is put
//! back in an earlier state is genuine, as with API keys. A row without a partner is the operator's; the two kinds have codes of
//! their own, and none is ever read as the other.

use super::commit::json;
use super::conn::{Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use crate::engine::batch::BatchState;
use crate::engine::command::{StoredConsoleSession, StoredOperatorSession};
use crate::limits::CONSOLE_SESSIONS_FORGOTTEN;
use crate::model::{ConsoleSession, ConsoleSessionId, OperatorSession, PartnerId, Timestamp};
use crate::seal::Seal;

/// A query for sessions with the columns that [`document`] takes.
macro_rules! console_sessions_where {
    ($rest:literal) => {
        concat!(
            "SELECT id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac FROM console_session WHERE ",
            $rest
        )
    };
}
#[cfg(test)]
pub(super) use console_sessions_where;

/// Several sessions.
pub(super) const SOME: &str = console_sessions_where!("id IN ({})");

/// A partner's sessions and links that have not expired, ended ones included.
pub(super) const UNEXPIRED: &str = console_sessions_where!("partner_id = $1 AND expires_ms > $2");

/// The operator's sessions and links that have not expired, ended ones included.
pub(super) const UNEXPIRED_OPERATORS: &str =
    console_sessions_where!("partner_id IS NULL AND expires_ms > $1");

/// All sessions, in pages by id.
pub(super) const ALL: &str = console_sessions_where!("id > $1 ORDER BY id LIMIT $2");

/// The session or link with this token that is neither ended nor expired.
const LIVE: &str = console_sessions_where!("hash = $1 AND ended_ms IS NULL AND expires_ms > $2");

const PAGE: &str = console_sessions_where!("partner_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");

const OPERATORS_PAGE: &str =
    console_sessions_where!("partner_id IS NULL AND id < $1 ORDER BY id DESC LIMIT $2");

/// A session as its row describes it.
pub(super) enum Stored {
    /// A partner's.
    Partner(StoredConsoleSession),
    /// The operator's.
    Operator(StoredOperatorSession),
}

/// What the columns of a session hold.
pub(super) struct Columns {
    pub id: ConsoleSessionId,
    /// None if it is the operator's.
    pub partner_id: Option<PartnerId>,
    pub key_id: Vec<u8>,
    hash: [u8; 32],
    /// As the id has it, so without a column.
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub expires_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub body: String,
}

impl Stored {
    pub(super) fn columns(&self) -> Columns {
        match self {
            Self::Partner(stored) => stored.into(),
            Self::Operator(stored) => stored.into(),
        }
    }
}

impl From<&StoredConsoleSession> for Columns {
    fn from(stored: &StoredConsoleSession) -> Self {
        let session = &stored.session;
        Self {
            id: session.console_session_id,
            partner_id: Some(stored.partner_id),
            key_id: session.api_key_id.as_bytes().to_vec(),
            hash: stored.hash,
            created_at: session.created_at,
            started_at: session.started_at,
            expires_at: session.expires_at,
            ended_at: session.ended_at,
            body: json(session),
        }
    }
}

impl From<&StoredOperatorSession> for Columns {
    fn from(stored: &StoredOperatorSession) -> Self {
        let session = &stored.session;
        Self {
            id: session.console_session_id,
            partner_id: None,
            key_id: session.operator_key_id.as_bytes().to_vec(),
            hash: stored.hash,
            created_at: session.created_at,
            started_at: session.started_at,
            expires_at: session.expires_at,
            ended_at: session.ended_at,
            body: json(session),
        }
    }
}

fn mac(seal: &Seal, columns: &Columns, body: &str) -> [u8; 32] {
    let ms = |at: Option<Timestamp>| at.map_or(Vec::new(), |at| at.ms().to_be_bytes().to_vec());
    let id = columns.id.as_bytes();
    let rest = [
        &columns.key_id[..],
        &columns.hash,
        &ms(columns.started_at),
        &ms(Some(columns.expires_at)),
        &ms(columns.ended_at),
        body.as_bytes(),
    ];
    let whose = match &columns.partner_id {
        Some(partner_id) => vec![&b"console_session"[..], id, partner_id.as_bytes()],
        None => vec![&b"operator_session"[..], id],
    };
    seal.code(&[whose, rest.to_vec()].concat())
}

/// Inserts a session or a link.
pub(super) fn added(seal: &Seal, stored: impl Into<Columns>) -> Statement<'static> {
    let columns = stored.into();
    let code = mac(seal, &columns, &columns.body);
    Statement::new(
        "INSERT INTO console_session (id, partner_id, key_id, hash, started_ms, expires_ms, ended_ms, body, mac) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        args![
            columns.id,
            columns.partner_id,
            columns.key_id,
            columns.hash,
            columns.started_at,
            columns.expires_at,
            columns.ended_at,
            columns.body,
            code,
        ],
    )
}

/// Stores that a session began or ended.
pub(super) fn changed(seal: &Seal, stored: impl Into<Columns>) -> Statement<'static> {
    let columns = stored.into();
    let code = mac(seal, &columns, &columns.body);
    Statement::new(
        "UPDATE console_session SET hash = $1, started_ms = $2, expires_ms = $3, ended_ms = $4, body = $5, mac = $6 WHERE id = $7",
        args![
            columns.hash,
            columns.started_at,
            columns.expires_at,
            columns.ended_at,
            columns.body,
            code,
            columns.id,
        ],
    )
}

/// Deletes sessions that expired before an instant.
pub(super) fn forgotten(before: Timestamp) -> Statement<'static> {
    Statement::new(
        "DELETE FROM console_session WHERE id IN (SELECT id FROM console_session WHERE expires_ms < $1 ORDER BY expires_ms LIMIT $2)",
        args![before, CONSOLE_SESSIONS_FORGOTTEN],
    )
}

/// A session as its row describes it, and whether the row is genuine.
pub(super) fn document(row: &Row, seal: &Seal) -> Result<(Stored, bool), StoreError> {
    let stored = match row.maybe_id(1)? {
        Some(partner_id) => Stored::Partner(StoredConsoleSession {
            partner_id,
            session: row.json(7)?,
            hash: row.bytes(3)?,
        }),
        None => Stored::Operator(StoredOperatorSession {
            session: row.json(7)?,
            hash: row.bytes(3)?,
        }),
    };
    let columns = stored.columns();
    let genuine = columns.id == row.id(0)?
        && columns.key_id == row.blob(2)?
        && columns.started_at == row.maybe_time(4)?
        && columns.expires_at == row.time(5)?
        && columns.ended_at == row.maybe_time(6)?
        && mac(seal, &columns, row.text(7)?)[..] == *row.blob(8)?;
    Ok((stored, genuine))
}

/// The session of a row; `None` if the row is not genuine.
fn read(row: &Row, seal: &Seal) -> Option<Stored> {
    let (stored, genuine) = document(row, seal).ok()?;
    genuine.then_some(stored)
}

fn read_partners(row: &Row, seal: &Seal) -> Option<StoredConsoleSession> {
    match read(row, seal)? {
        Stored::Partner(stored) => Some(stored),
        Stored::Operator(_) => None,
    }
}

fn read_operators(row: &Row, seal: &Seal) -> Option<StoredOperatorSession> {
    match read(row, seal)? {
        Stored::Operator(stored) => Some(stored),
        Stored::Partner(_) => None,
    }
}

pub(super) fn read_console_session(
    work: &mut BatchState,
    loading: &Loading<'_>,
    row: &Row,
) -> Read<()> {
    match read(row, loading.seal()) {
        Some(Stored::Partner(stored)) => {
            (work.console_sessions).insert(stored.session.console_session_id, stored);
        }
        Some(Stored::Operator(stored)) => {
            (work.operator_sessions).insert(stored.session.console_session_id, stored);
        }
        None => {}
    }
    Ok(())
}

impl Reader<'_> {
    /// The partner's session or link that this token opens at `now`, by the token's SHA-256.
    pub fn live_console_session(
        &mut self,
        hash: &[u8; 32],
        now: Timestamp,
    ) -> Read<Option<StoredConsoleSession>> {
        let row = self.first(LIVE, args![hash, now])?;
        Ok(row.and_then(|row| read_partners(&row, self.seal())))
    }

    /// The operator's session or link that this token opens at `now`, by the token's SHA-256.
    pub fn live_operator_session(
        &mut self,
        hash: &[u8; 32],
        now: Timestamp,
    ) -> Read<Option<StoredOperatorSession>> {
        let row = self.first(LIVE, args![hash, now])?;
        Ok(row.and_then(|row| read_operators(&row, self.seal())))
    }

    /// The partner whose session or link this is; `None` if it is the operator's.
    pub fn console_session_owner(&mut self, id: &ConsoleSessionId) -> Read<Option<PartnerId>> {
        let row = self.first(
            "SELECT partner_id FROM console_session WHERE id = $1",
            args![id],
        )?;
        row.map_or(Ok(None), |row| row.maybe_id(0))
    }

    /// A partner's sessions and links, newest first, below `before`. Rows that are not genuine are left out.
    pub fn console_sessions(
        &mut self,
        partner_id: &PartnerId,
        before: Option<ConsoleSessionId>,
        rows: u32,
    ) -> Read<Vec<ConsoleSession>> {
        let args = args![partner_id];
        self.genuine((PAGE, args), before, rows, |row, seal| {
            Ok(read_partners(row, seal).map(|stored| stored.session))
        })
    }

    /// The operator's sessions and links, newest first, below `before`. Rows that are not genuine are left out.
    pub fn operator_sessions(
        &mut self,
        before: Option<ConsoleSessionId>,
        rows: u32,
    ) -> Read<Vec<OperatorSession>> {
        self.genuine((OPERATORS_PAGE, vec![]), before, rows, |row, seal| {
            Ok(read_operators(row, seal).map(|stored| stored.session))
        })
    }

    /// Whether a session expired before this instant.
    pub fn has_old_console_sessions(&mut self, before: Timestamp) -> Read<bool> {
        let row = self.first(
            "SELECT id FROM console_session WHERE expires_ms < $1 ORDER BY expires_ms LIMIT 1",
            args![before],
        )?;
        Ok(row.is_some())
    }
}
