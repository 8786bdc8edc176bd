//! Begins and ends sessions of the operator's console.

use super::{
    CreateOperatorLink, EndOperatorSession, NewOperatorLink, OpenOperatorLink, StartOperatorSession,
};
use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, StoredOperatorSession};
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::features::console::rule::require_place;
use crate::features::console::{StartedConsoleSession, no_such_link, started};
use crate::limits;
use crate::model::{OperatorKeyId, OperatorSession, Timestamp};

impl Command for CreateOperatorLink {
    type Reply = NewOperatorLink;

    fn needs(&self, needs: &mut Needs) {
        begins(needs, self.operator_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<NewOperatorLink> {
        if !works(batch, self.operator_key_id) {
            // A calling key was admitted and has been revoked since; another was named.
            return Err(match self.is_own {
                true => Error::operator_unauthorized(),
                false => Error::not_found("operator key"),
            });
        }
        require_room(batch, at)?;
        let session = OperatorSession {
            console_session_id: self.console_session_id,
            operator_key_id: self.operator_key_id,
            person: Some(self.person.clone()),
            created_at: at,
            started_at: None,
            expires_at: at.plus_ms(limits::CONSOLE_LINK_MS),
            ended_at: None,
        };
        let reply = NewOperatorLink {
            console_session_id: session.console_session_id,
            operator_key_id: session.operator_key_id,
            url: self.url.clone(),
            person: self.person.clone(),
            created_at: at,
            expires_at: session.expires_at,
        };
        Ok((vec![added(session, self.hash)], reply))
    }
}

impl Command for StartOperatorSession {
    type Reply = StartedConsoleSession;

    fn needs(&self, needs: &mut Needs) {
        begins(needs, self.operator_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<StartedConsoleSession> {
        if !works(batch, self.operator_key_id) {
            return Err(Error::operator_unauthorized());
        }
        require_room(batch, at)?;
        let session = OperatorSession {
            console_session_id: self.console_session_id,
            operator_key_id: self.operator_key_id,
            person: None,
            created_at: at,
            started_at: Some(at),
            expires_at: at.plus_ms(limits::CONSOLE_SESSION_MS),
            ended_at: None,
        };
        let reply = started(session.console_session_id, &self.token, session.expires_at);
        Ok((vec![added(session, self.hash)], reply))
    }
}

impl Command for OpenOperatorLink {
    type Reply = StartedConsoleSession;

    fn needs(&self, needs: &mut Needs) {
        needs.operator_keys.push(self.operator_key_id);
        needs.console_sessions.push(self.console_session_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<StartedConsoleSession> {
        // It may have been opened or ended since it was looked up, and its key revoked.
        let stored = batch
            .operator_sessions
            .get(&self.console_session_id)
            .filter(|stored| stored.hash == self.link && stored.session.is_live(at))
            .filter(|stored| stored.session.started_at.is_none())
            .filter(|stored| works(batch, stored.session.operator_key_id))
            .ok_or_else(no_such_link)?;
        let session = OperatorSession {
            started_at: Some(at),
            expires_at: at.plus_ms(limits::CONSOLE_SESSION_MS),
            ..stored.session.clone()
        };
        let reply = started(session.console_session_id, &self.token, session.expires_at);
        let opened = StoredOperatorSession {
            session,
            hash: self.hash,
        };
        Ok((
            vec![Change::OperatorSessionChanged(Box::new(opened))],
            reply,
        ))
    }
}

impl Command for EndOperatorSession {
    type Reply = OperatorSession;

    fn needs(&self, needs: &mut Needs) {
        needs.console_sessions.push(self.console_session_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<OperatorSession> {
        let stored = batch
            .operator_sessions
            .get(&self.console_session_id)
            .ok_or_else(|| Error::not_found("console session"))?;
        if !stored.session.is_live(at) {
            return Ok((Vec::new(), stored.session.clone()));
        }
        let session = OperatorSession {
            ended_at: Some(at),
            ..stored.session.clone()
        };
        let ended = StoredOperatorSession {
            session: session.clone(),
            hash: stored.hash,
        };
        Ok((
            vec![Change::OperatorSessionChanged(Box::new(ended))],
            session,
        ))
    }
}

/// What a command must see that adds a session or a link of this key.
fn begins(needs: &mut Needs, operator_key_id: OperatorKeyId) {
    needs.operator_keys.push(operator_key_id);
    needs.live_operator_keys = true;
    needs.unexpired_operator_sessions = true;
}

/// Whether this operator key works.
fn works(batch: &BatchState, operator_key_id: OperatorKeyId) -> bool {
    let stored = batch.operator_keys.get(&operator_key_id);
    stored.is_some_and(|stored| stored.key.revoked_at.is_none())
}

/// Fails if there are as many sessions and links as there may be, of all keys together.
fn require_room(batch: &BatchState, at: Timestamp) -> Result<(), Error> {
    let sessions = batch.operator_sessions.values().map(|stored| {
        let session = &stored.session;
        let opens = session.is_live(at) && works(batch, session.operator_key_id);
        (session.expires_at, opens)
    });
    require_place(
        "The operator",
        "/v1/operator/console-sessions",
        sessions,
        at,
    )
}

fn added(session: OperatorSession, hash: [u8; 32]) -> Change {
    Change::OperatorSessionAdded(Box::new(StoredOperatorSession { session, hash }))
}

#[cfg(test)]
mod tests;
