//! Begins and ends console sessions.

use super::{
    CreateConsoleLink, EndConsoleSession, ForgetConsoleSessions, NewConsoleLink, OpenConsoleLink,
    StartConsoleSession, StartedConsoleSession, no_such_link, old_before, started,
};
use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, StoredConsoleSession};
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::features::api_keys;
use crate::limits;
use crate::model::{ApiKey, ApiKeyId, ConsoleSession, PartnerId, Timestamp};

impl Command for CreateConsoleLink {
    type Reply = NewConsoleLink;

    fn needs(&self, needs: &mut Needs) {
        begins(needs, self.partner_id, self.api_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<NewConsoleLink> {
        let key = key_of(batch, self.partner_id, self.api_key_id);
        let key = key.filter(|key| key.works(at) || self.by.is_none());
        // A calling key was admitted and has ended since; another was named by the operator.
        let key = key.ok_or_else(|| match self.by {
            Some(_) => Error::unauthorized(),
            None => Error::not_found("API key"),
        })?;
        if !key.works(at) {
            return Err(api_keys::rule::ended(key));
        }
        require_room(batch, self.partner_id, at)?;
        let own = self.by.as_ref().map_or(&key.scopes, |by| &by.scopes);
        let session = ConsoleSession {
            console_session_id: self.console_session_id,
            api_key_id: key.api_key_id,
            person: Some(self.person.clone()),
            scopes: api_keys::given_scopes(own, self.scopes.clone())?,
            created_at: at,
            started_at: None,
            expires_at: at_most(at.plus_ms(limits::CONSOLE_LINK_MS), key),
            ended_at: None,
        };
        let reply = NewConsoleLink {
            console_session_id: session.console_session_id,
            api_key_id: session.api_key_id,
            url: self.url.clone(),
            person: self.person.clone(),
            scopes: session.scopes.clone(),
            created_at: at,
            expires_at: session.expires_at,
        };
        Ok((vec![added(self.partner_id, session, self.hash)], reply))
    }

    fn brings_new(&self) -> bool {
        true
    }

    fn refused_from(&self) -> u64 {
        limits::HOLDS_UNTIL
    }
}

impl Command for StartConsoleSession {
    type Reply = StartedConsoleSession;

    fn needs(&self, needs: &mut Needs) {
        begins(needs, self.partner_id, self.api_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<StartedConsoleSession> {
        let key = key_of(batch, self.partner_id, self.api_key_id)
            .filter(|key| key.works(at))
            .ok_or_else(Error::unauthorized)?;
        require_room(batch, self.partner_id, at)?;
        let session = ConsoleSession {
            console_session_id: self.console_session_id,
            api_key_id: key.api_key_id,
            person: None,
            scopes: self.scopes.clone(),
            created_at: at,
            started_at: Some(at),
            expires_at: at_most(at.plus_ms(limits::CONSOLE_SESSION_MS), key),
            ended_at: None,
        };
        let reply = started(session.console_session_id, &self.token, session.expires_at);
        Ok((vec![added(self.partner_id, session, self.hash)], reply))
    }
}

impl Command for OpenConsoleLink {
    type Reply = StartedConsoleSession;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.keys.push(self.api_key_id);
        needs.console_sessions.push(self.console_session_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<StartedConsoleSession> {
        // It may have been opened or ended since it was looked up.
        let stored = batch
            .console_sessions
            .get(&self.console_session_id)
            .filter(|stored| stored.hash == self.link && stored.session.is_live(at))
            .filter(|stored| stored.session.started_at.is_none())
            .ok_or_else(no_such_link)?;
        let key = key_of(batch, stored.partner_id, stored.session.api_key_id)
            .filter(|key| key.works(at))
            .ok_or_else(no_such_link)?;
        let session = ConsoleSession {
            started_at: Some(at),
            expires_at: at_most(at.plus_ms(limits::CONSOLE_SESSION_MS), key),
            ..stored.session.clone()
        };
        let reply = started(session.console_session_id, &self.token, session.expires_at);
        let opened = StoredConsoleSession {
            partner_id: stored.partner_id,
            session,
            hash: self.hash,
        };
        Ok((vec![Change::ConsoleSessionChanged(Box::new(opened))], reply))
    }
}

impl Command for EndConsoleSession {
    type Reply = ConsoleSession;

    fn only_ends(&self) -> bool {
        true
    }

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.console_sessions.push(self.console_session_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<ConsoleSession> {
        let stored = batch
            .console_sessions
            .get(&self.console_session_id)
            .filter(|stored| stored.partner_id == self.partner_id)
            .ok_or_else(|| Error::not_found("console session"))?;
        if !stored.session.is_live(at) {
            return Ok((Vec::new(), stored.session.clone()));
        }
        let session = ConsoleSession {
            ended_at: Some(at),
            ..stored.session.clone()
        };
        let ended = StoredConsoleSession {
            session: session.clone(),
            ..stored.clone()
        };
        Ok((
            vec![Change::ConsoleSessionChanged(Box::new(ended))],
            session,
        ))
    }
}

impl Command for ForgetConsoleSessions {
    type Reply = ();

    fn needs(&self, _: &mut Needs) {}

    fn decide(&self, _: &BatchState, at: Timestamp) -> Decided<()> {
        let before = old_before(at);
        Ok((vec![Change::ConsoleSessionsForgotten { before }], ()))
    }
}

/// What a command must see that adds a session or a link of this key.
fn begins(needs: &mut Needs, partner_id: PartnerId, api_key_id: ApiKeyId) {
    needs.partners.push(partner_id);
    needs.keys.push(api_key_id);
    needs.console_owners.push(partner_id);
}

/// The partner's key with this id, if there is one.
fn key_of(batch: &BatchState, partner_id: PartnerId, api_key_id: ApiKeyId) -> Option<&ApiKey> {
    let state = batch.keys.get(&api_key_id);
    let state = state.filter(|state| state.partner_id == partner_id);
    state.map(|state| &state.key)
}

/// Fails if the partner has as many sessions and links as it may have.
fn require_room(batch: &BatchState, partner_id: PartnerId, at: Timestamp) -> Result<(), Error> {
    let of_partner = (batch.console_sessions.values())
        .filter(|stored| stored.partner_id == partner_id)
        .map(|stored| &stored.session);
    let places = of_partner.map(|session| (session.expires_at, session.is_live(at)));
    require_place("The partner", "/v1/console-sessions", places, at)
}

/// Fails if `whose` sessions and links, each with its end and whether it works, are as many as there may be.
pub(in crate::features) fn require_place(
    whose: &str,
    path: &str,
    sessions: impl Iterator<Item = (Timestamp, bool)>,
    at: Timestamp,
) -> Result<(), Error> {
    let unexpired: Vec<_> = sessions.filter(|(end, _)| at < *end).collect();
    let begun = unexpired.len();
    let live = unexpired.iter().filter(|(_, works)| *works);
    let (ends, live) = (live.clone().map(|(end, _)| *end).min(), live.count());
    let (first, what) = if begun >= limits::CONSOLE_SESSIONS_BEGUN {
        let what = format!(
            "has begun {begun} console sessions and links that would not have expired yet, the most allowed."
        );
        (unexpired.iter().map(|(end, _)| *end).min(), what)
    } else if live >= limits::CONSOLE_SESSIONS {
        let what = format!(
            "has {live} console sessions and links that work, the most allowed. End one first with DELETE \
             {path}/{{consoleSessionId}}, or wait."
        );
        (ends, what)
    } else {
        return Ok(());
    };
    Err(Error::conflict(
        "too_many_console_sessions",
        format!(
            "{whose} {what} The first of them expires at {}.",
            first.unwrap_or(at)
        ),
    ))
}

/// This moment, or the one at which the key stops working if that is earlier.
fn at_most(end: Timestamp, key: &ApiKey) -> Timestamp {
    key.expires_at.map_or(end, |key_ends| key_ends.min(end))
}

fn added(partner_id: PartnerId, session: ConsoleSession, hash: [u8; 32]) -> Change {
    Change::ConsoleSessionAdded(Box::new(StoredConsoleSession {
        partner_id,
        session,
        hash,
    }))
}

#[cfg(test)]
mod tests;
