//! Checks console sessions. No ledger entry describes them, but each row carries a code that only the service can make.

use super::others::{MISSPELLED, identity};
use super::{Check, spelled};
use crate::limits::{CONSOLE_LINK_MS, CONSOLE_SESSION_MS};
use crate::model::ConsoleSessionId;
use crate::store::conn::{Row, Statement, StoreError};
use crate::store::console_sessions;

impl Check<'_> {
    pub(super) fn console_session(&mut self, row: &Row) -> Result<(), StoreError> {
        let id: ConsoleSessionId = row.id(0)?;
        let (stored, genuine) = console_sessions::document(row, self.seal)?;
        let session = &stored.session;
        identity(
            &mut self.findings,
            "console_session",
            &id,
            &session.console_session_id,
            session.created_at,
        );
        let place = |field: &str| format!("console_session {id} field {field}");
        if !genuine {
            let detail = "Bookguard did not write this row so: it was written or changed by somebody without the ledger key. It opens \
                          nothing; delete it";
            self.findings.add("console_session", place("mac"), detail);
        }
        let (begins, most) = match session.started_at {
            Some(at) => (at, CONSOLE_SESSION_MS),
            None => (session.created_at, CONSOLE_LINK_MS),
        };
        let lasts = session.expires_at.ms() - begins.ms();
        if !(1..=most).contains(&lasts) || !spelled(row, 7, session) {
            self.findings
                .add("console_session", place("body"), MISSPELLED);
        }
        for (column, at) in [
            ("started_ms", session.started_at),
            ("ended_ms", session.ended_at),
        ] {
            self.not_before("console_session", &id, column, at, session.created_at);
        }
        let keys = self.rows(Statement::new(
            "SELECT COUNT(*) FROM api_key WHERE id = $1 AND partner_id = $2",
            vec![(&session.api_key_id).into(), (&stored.partner_id).into()],
        ))?;
        if keys.first().map_or(Ok(0), |row| row.int(0))? == 0 {
            let detail = "the partner has no such key";
            self.findings
                .add("console_session", place("key_id"), detail);
        }
        Ok(())
    }
}
