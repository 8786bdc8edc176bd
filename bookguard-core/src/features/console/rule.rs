//! Begins and ends console sessions.

use super::{
    CreateConsoleLink, EndConsoleSession, ForgetConsoleSessions, NewConsoleLink, OpenConsoleLink,
    StartConsoleSession, StartedConsoleSession, no_such_link, old_before, started,
};
use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, StoredConsoleSession};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
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
        require_room(batch, self.partner_id, key.api_key_id, None, at)?;
        require_few_links(batch, self.partner_id, key.api_key_id, at)?;
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
        let displaced = displaced(batch, self.partner_id, key.api_key_id, at);
        require_room(batch, self.partner_id, key.api_key_id, displaced, at)?;
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
        let reply = StartedConsoleSession {
            displaced: displaced.map(|stored| stored.session.console_session_id),
            ..started(session.console_session_id, &self.token, session.expires_at)
        };
        let ended = displaced.map(|stored| changed(ended(stored, at)));
        let added = added(self.partner_id, session, self.hash);
        Ok((ended.into_iter().chain([added]).collect(), reply))
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
        Ok((vec![changed(opened)], reply))
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
        let ended = ended(stored, at);
        let session = ended.session.clone();
        Ok((vec![changed(ended)], session))
    }
}

impl Command for ForgetConsoleSessions {
    type Reply = ();

    fn decide(&self, _: &BatchState, at: Timestamp) -> Decided<()> {
        let before = old_before(at);
        Ok((vec![Change::ConsoleSessionsForgotten(before)], ()))
    }
}

/// What a command must see that adds a session or a link of this key.
fn begins(needs: &mut Needs, partner_id: PartnerId, api_key_id: ApiKeyId) {
    needs.partners.push(partner_id);
    needs.keys.push(api_key_id);
    needs.key_owners.push(partner_id);
    needs.console_owners.push(partner_id);
}

/// The partner's key with this id, if there is one.
fn key_of(batch: &BatchState, partner_id: PartnerId, api_key_id: ApiKeyId) -> Option<&ApiKey> {
    let state = batch.keys.get(&api_key_id);
    let state = state.filter(|state| state.partner_id == partner_id);
    state.map(|state| &state.key)
}

/// The partner's sessions and links.
fn of_partner(
    batch: &BatchState,
    partner_id: PartnerId,
) -> impl Iterator<Item = &StoredConsoleSession> {
    (batch.console_sessions.values()).filter(move |stored| stored.partner_id == partner_id)
}

/// Whether a session or link opens anything, which takes a key that works.
fn works(batch: &BatchState, stored: &StoredConsoleSession, at: Timestamp) -> bool {
    let key = key_of(batch, stored.partner_id, stored.session.api_key_id);
    stored.session.is_live(at) && key.is_some_and(|key| key.works(at))
}

/// The session that ends because somebody signs in with this key: the oldest that began with the key itself, if the partner or the
/// key has as many sessions, or sessions and links, as it may have.
fn displaced(
    batch: &BatchState,
    partner_id: PartnerId,
    api_key_id: ApiKeyId,
    at: Timestamp,
) -> Option<&StoredConsoleSession> {
    let working = of_partner(batch, partner_id).filter(|stored| works(batch, stored, at));
    let working: Vec<_> = working.collect();
    let of_key: Vec<_> = (working.iter().copied())
        .filter(|stored| stored.session.api_key_id == api_key_id)
        .collect();
    let with_key: Vec<_> = (of_key.iter().copied())
        .filter(|stored| stored.session.person.is_none())
        .collect();
    let is_full = working.len() >= limits::CONSOLE_SESSIONS
        || of_key.len() >= limits::CONSOLE_PLACES_OF_KEY
        || with_key.len() >= limits::CONSOLE_SESSIONS_OF_KEY;
    (with_key.into_iter())
        .filter(|_| is_full)
        .min_by_key(|stored| (stored.session.created_at, stored.session.console_session_id))
}

/// Fails if the partner or this key has as many sessions and links as it may have, apart from the displaced one, or as many began with
/// this key as may.
fn require_room(
    batch: &BatchState,
    partner_id: PartnerId,
    api_key_id: ApiKeyId,
    displaced: Option<&StoredConsoleSession>,
    at: Timestamp,
) -> Result<(), Error> {
    let of_key = of_partner(batch, partner_id)
        .filter(|stored| stored.session.api_key_id == api_key_id)
        .map(|stored| stored.session.expires_at);
    require_beginning(
        "The API key",
        limits::CONSOLE_SESSIONS_BEGUN_OF_KEY,
        of_key,
        at,
    )?;
    let displaced = displaced.map(|stored| stored.session.console_session_id);
    let stays = |stored: &StoredConsoleSession| {
        displaced != Some(stored.session.console_session_id) && works(batch, stored, at)
    };
    let path = "/v1/console-sessions";
    let places =
        of_partner(batch, partner_id).map(|stored| (stored.session.expires_at, stays(stored)));
    require_place("The partner", path, places, at)?;
    let of_key = of_partner(batch, partner_id)
        .filter(|stored| stored.session.api_key_id == api_key_id && stays(stored))
        .map(|stored| stored.session.expires_at);
    let of_key: Vec<_> = of_key.collect();
    require_fewer("The API key", limits::CONSOLE_PLACES_OF_KEY, path, &of_key)
}

/// Fails if as many links of the partner, or of the key, wait to be opened as may. No older one ends instead: whoever got it would
/// learn only that it does not work, while whoever makes links reads this refusal.
fn require_few_links(
    batch: &BatchState,
    partner_id: PartnerId,
    api_key_id: ApiKeyId,
    at: Timestamp,
) -> Result<(), Error> {
    let waiting = of_partner(batch, partner_id)
        .filter(|stored| stored.session.started_at.is_none() && works(batch, stored, at))
        .map(|stored| (stored.session.api_key_id, stored.session.expires_at));
    let waiting: Vec<_> = waiting.collect();
    let of_key = waiting.iter().filter(|(of, _)| *of == api_key_id);
    let of_key: Vec<_> = of_key.map(|(_, end)| *end).collect();
    let of_all: Vec<_> = waiting.iter().map(|(_, end)| *end).collect();
    for (whose, most, ends) in [
        ("The API key", limits::CONSOLE_LINKS_OF_KEY, of_key),
        ("The partner", limits::CONSOLE_LINKS, of_all),
    ] {
        if ends.len() >= most {
            let what = format!(
                "{whose} has {} console links that nobody has opened, the most allowed. End one first with DELETE \
                 /v1/console-sessions/{{consoleSessionId}}, or wait.",
                ends.len()
            );
            return Err(too_many(&what, &ends));
        }
    }
    Ok(())
}

/// Fails if `whose` sessions and links, each with its end and whether it works, are as many as there may be.
pub(in crate::features) fn require_place(
    whose: &str,
    path: &str,
    sessions: impl Iterator<Item = (Timestamp, bool)>,
    at: Timestamp,
) -> Result<(), Error> {
    let sessions: Vec<_> = sessions.collect();
    let ends = sessions.iter().map(|(end, _)| *end);
    require_beginning(whose, limits::CONSOLE_SESSIONS_BEGUN, ends, at)?;
    let live = sessions.iter().filter(|(_, works)| *works);
    let live: Vec<_> = live.map(|(end, _)| *end).collect();
    require_fewer(whose, limits::CONSOLE_SESSIONS, path, &live)
}

/// Fails if `whose` sessions and links that work, by their ends, are as many as there may be.
fn require_fewer(whose: &str, most: usize, path: &str, ends: &[Timestamp]) -> Result<(), Error> {
    if ends.len() < most {
        return Ok(());
    }
    let what = format!(
        "{whose} has {} console sessions and links that work, the most allowed. End one first with DELETE \
         {path}/{{consoleSessionId}}, or wait.",
        ends.len()
    );
    Err(too_many(&what, ends))
}

/// Fails if as many of `whose` sessions and links that would not have expired yet, each with its end, began as may.
fn require_beginning(
    whose: &str,
    most: usize,
    ends: impl Iterator<Item = Timestamp>,
    at: Timestamp,
) -> Result<(), Error> {
    let unexpired: Vec<_> = ends.filter(|end| at < *end).collect();
    let begun = unexpired.len();
    if begun < most {
        return Ok(());
    }
    let what = format!(
        "{whose} has begun {begun} console sessions and links that would not have expired yet, the most allowed."
    );
    Err(too_many(&what, &unexpired))
}

fn too_many(what: &str, ends: &[Timestamp]) -> Error {
    let first = ends.iter().min().copied().unwrap_or_default();
    conflict!(
        "too_many_console_sessions",
        "{what} The first of them expires at {first}."
    )
}

/// This moment, or the one at which the key stops working if that is earlier.
fn at_most(end: Timestamp, key: &ApiKey) -> Timestamp {
    key.expires_at.map_or(end, |key_ends| key_ends.min(end))
}

/// A session or link that somebody ends, or that another one displaces.
fn ended(stored: &StoredConsoleSession, at: Timestamp) -> StoredConsoleSession {
    let mut ended = stored.clone();
    ended.session.ended_at = Some(at);
    ended
}

fn changed(stored: StoredConsoleSession) -> Change {
    Change::ConsoleSessionChanged(Box::new(stored))
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
