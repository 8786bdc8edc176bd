//! Checks console sessions. No ledger entry describes them, but each row carries a code that only the service can make.

use super::others::{MISSPELLED, identity};
use super::{Check, spelled};
use crate::limits::{CONSOLE_LINK_MS, CONSOLE_SESSION_MS};
use crate::model::{ConsoleSessionId, Timestamp};
use crate::store::conn::{Row, Statement, StoreError, args};
use crate::store::console_sessions::{self, Stored};

/// What both kinds of sessions tell of themselves.
struct Told {
    id: ConsoleSessionId,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    expires_at: Timestamp,
    ended_at: Option<Timestamp>,
    is_spelled: bool,
    /// Whether its key is there.
    has_key: Statement<'static>,
}

impl Check<'_> {
    pub(super) fn console_session(&mut self, row: &Row) -> Result<(), StoreError> {
        let id: ConsoleSessionId = row.id(0)?;
        let (stored, genuine) = console_sessions::document(row, self.seal)?;
        let told = told(row, &stored);
        identity(
            &mut self.findings,
            "console_session",
            &id,
            &told.id,
            told.created_at,
        );
        let place = |field: &str| format!("console_session {id} field {field}");
        if !genuine {
            let detail = "this row is not as Bookguard wrote it: it was written or changed by somebody without the ledger key. It opens \
                          nothing; delete it";
            self.findings.add("console_session", place("mac"), detail);
        }
        let (begins, most) = match told.started_at {
            Some(at) => (at, CONSOLE_SESSION_MS),
            None => (told.created_at, CONSOLE_LINK_MS),
        };
        let lasts = told.expires_at.ms() - begins.ms();
        if !(1..=most).contains(&lasts) || !told.is_spelled {
            self.findings
                .add("console_session", place("body"), MISSPELLED);
        }
        for (column, at) in [("started_ms", told.started_at), ("ended_ms", told.ended_at)] {
            self.not_before("console_session", &id, column, at, told.created_at);
        }
        let keys = self.rows(told.has_key)?;
        if keys.first().map_or(Ok(0), |row| row.int(0))? == 0 {
            let detail = match stored {
                Stored::Partner(_) => "the partner has no such key",
                Stored::Operator(_) => "the operator has no such key",
            };
            self.findings
                .add("console_session", place("key_id"), detail);
        }
        Ok(())
    }
}

fn told(row: &Row, stored: &Stored) -> Told {
    match stored {
        Stored::Partner(stored) => Told {
            id: stored.session.console_session_id,
            created_at: stored.session.created_at,
            started_at: stored.session.started_at,
            expires_at: stored.session.expires_at,
            ended_at: stored.session.ended_at,
            is_spelled: spelled(row, 7, &stored.session),
            has_key: Statement::new(
                "SELECT COUNT(*) FROM api_key WHERE id = $1 AND partner_id = $2",
                args![stored.session.api_key_id, stored.partner_id],
            ),
        },
        Stored::Operator(stored) => Told {
            id: stored.session.console_session_id,
            created_at: stored.session.created_at,
            started_at: stored.session.started_at,
            expires_at: stored.session.expires_at,
            ended_at: stored.session.ended_at,
            is_spelled: spelled(row, 7, &stored.session),
            has_key: Statement::new(
                "SELECT COUNT(*) FROM operator_key WHERE id = $1",
                args![stored.session.operator_key_id],
            ),
        },
    }
}
