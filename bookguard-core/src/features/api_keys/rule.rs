//! Creates, rotates and revokes API keys.

use crate::engine::batch::{BatchState, KeyState};
use crate::engine::change::{Change, KeyStanding};
use crate::engine::command::{Command, Decided, NewKey};
use crate::engine::needs::Needs;
use crate::error::{Error, Kind, conflict};
use crate::features::api_keys::rotation::{RotateApiKey, RotatedApiKey};
use crate::features::api_keys::{CreateApiKey, Maker, NewApiKey, RevokeApiKey};
use crate::limits;
use crate::model::{ApiKey, ApiKeyId, PartnerId, Scope, Scopes, Timestamp};

impl Command for CreateApiKey {
    type Reply = NewApiKey;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.key_owners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<NewApiKey> {
        batch.active_partner(&self.partner_id)?;
        let keys = working(batch, self.partner_id, at).count();
        if keys >= limits::KEYS_PER_PARTNER {
            return Err(conflict!(
                "too_many_keys",
                "The partner has {keys} working keys, the most allowed. Revoke one first."
            ));
        }
        let mut new = self.key.clone();
        if let Some(last) = last_moment(batch, self.partner_id, self.by.as_ref(), at)? {
            let wanted = new.key.expires_at.get_or_insert(last);
            if *wanted > last {
                return Err(outlives(*wanted, last));
            }
        }
        let reply = NewApiKey::showing(&new.key, &self.secret);
        Ok((vec![key_added(self.partner_id, &new)], reply))
    }
}

impl Command for RotateApiKey {
    type Reply = RotatedApiKey;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.key_owners.push(self.partner_id);
        needs.keys.push(self.api_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<RotatedApiKey> {
        let (partner_id, api_key_id) = (self.partner_id, self.api_key_id);
        batch.active_partner(&partner_id)?;
        let state = find(batch, partner_id, api_key_id)?;
        let old = &state.key;
        if !old.works(at) {
            return Err(ended(old));
        }
        if let Some(by) = &self.by {
            require_held(&by.scopes, old, "rotate")?;
            if by.api_key_id == api_key_id {
                self.require_prudence(state)?;
            }
        }
        let keys = working(batch, partner_id, at).count();
        if self.overlap_ms > 0 && keys >= limits::KEYS_PER_PARTNER {
            return Err(conflict!(
                "too_many_keys",
                "The partner has {keys} working keys, the most allowed, and the old one would count beside the new one. Revoke one first, or \
                 send \"overlapSeconds\": 0."
            ));
        }
        let mut new = self.key.clone();
        new.key.name.clone_from(&old.name);
        new.key.scopes.clone_from(&old.scopes);
        new.key.expires_at = state.lives_ms.map(|ms| at.plus_ms(ms));
        // A key may go on in its own successor. In another's it would live longer than it was given.
        let other = self.by.as_ref().filter(|by| by.api_key_id != api_key_id);
        if let Some(last) = last_moment(batch, partner_id, other, at)? {
            let end = new.key.expires_at.unwrap_or(Timestamp::from_ms(i64::MAX));
            if end > last {
                return Err(Error::new(
                    Kind::Forbidden,
                    "outlives_creator",
                    format!(
                        "This key expires at {last}, before the new key would. Let the key rotate itself, or use a key that lives as \
                         long."
                    ),
                ));
            }
        }
        // Earlier than it was made to expire, even if that is near: otherwise nobody could tell that it was rotated.
        let made_until = state.made_until().map(|until| until.plus_ms(-1));
        let latest = [old.expires_at, made_until].into_iter().flatten();
        let end = latest.fold(at.plus_ms(self.overlap_ms), Ord::min);
        // A key that ends now is revoked: an expiry holds on each node by its own clock.
        let revoked_at = (self.overlap_ms == 0).then_some(at);
        let rotated = RotatedApiKey {
            key: NewApiKey::showing(&new.key, &self.secret),
            replaced_api_key_id: api_key_id,
            replaced_expires_at: end,
        };
        let standing = KeyStanding {
            revoked_at,
            expires_at: Some(end),
        };
        let ends = Change::KeyStandingChanged(api_key_id, standing);
        Ok((vec![key_added(partner_id, &new), ends], rotated))
    }
}

impl RotateApiKey {
    /// Refuses what a key must not do to itself: make a second successor, because a thief of the old key would make the
    /// last one; or end before its holder can have the new one.
    fn require_prudence(&self, state: &KeyState) -> Result<(), Error> {
        if state.is_rotated() {
            return Err(Error::conflict(
                "api_key_rotated",
                "This key was rotated already, so it cannot rotate itself again. Use the key that replaced it.",
            ));
        }
        if self.overlap_ms < limits::OWN_OVERLAP_MS {
            let least = limits::OWN_OVERLAP_MS / 1000;
            return Err(Error::fault(
                "/overlapSeconds",
                "out_of_range",
                format!(
                    "is less than {least}, and this key rotates itself: if the answer is lost, so are both keys"
                ),
                format!("Send {least} or more, or create another key and revoke this one with it."),
            ));
        }
        Ok(())
    }
}

impl Command for RevokeApiKey {
    type Reply = ApiKey;

    fn only_ends(&self) -> bool {
        true
    }

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.key_owners.push(self.partner_id);
        needs.keys.push(self.api_key_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<ApiKey> {
        let (partner_id, api_key_id) = (self.partner_id, self.api_key_id);
        let mut key = find(batch, partner_id, api_key_id)?.key.clone();
        if key.revoked_at.is_some() {
            return Ok((Vec::new(), key));
        }
        if let Some(by) = &self.by {
            require_held(by, &key, "revoke")?;
            if manages(&key) && key.works(at) && !is_replaceable(batch, partner_id, &key, at) {
                return Err(Error::conflict(
                    "last_managing_key",
                    "This is the partner's last active key with the scope api-keys:write, apart from any that expire within seven days, and before it. \
                     Create or rotate another with that scope first, or have the operator revoke this one.",
                ));
            }
        }
        key.revoked_at = Some(at);
        let standing = KeyStanding {
            revoked_at: key.revoked_at,
            expires_at: key.expires_at,
        };
        let revoked = Change::KeyStandingChanged(api_key_id, standing);
        Ok((vec![revoked], key))
    }
}

pub(crate) fn key_added(partner_id: PartnerId, key: &NewKey) -> Change {
    Change::KeyAdded(partner_id, Box::new(key.clone()))
}

/// The partner's keys that open anything at this instant.
fn working(
    batch: &BatchState,
    partner_id: PartnerId,
    at: Timestamp,
) -> impl Iterator<Item = &ApiKey> {
    let of_partner = (batch.keys.values()).filter(move |state| state.partner_id == partner_id);
    of_partner
        .map(|state| &state.key)
        .filter(move |key| key.works(at))
}

fn find(
    batch: &BatchState,
    partner_id: PartnerId,
    api_key_id: ApiKeyId,
) -> Result<&KeyState, Error> {
    let state = batch.keys.get(&api_key_id);
    state
        .filter(|state| state.partner_id == partner_id)
        .ok_or_else(|| Error::not_found("API key"))
}

/// The moment at which the calling key expires, which no key that it makes outlives; `None` if it does not, or there is none.
fn last_moment(
    batch: &BatchState,
    partner_id: PartnerId,
    by: Option<&Maker>,
    at: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    let Some(by) = by else { return Ok(None) };
    let mut keys = working(batch, partner_id, at);
    let own = keys.find(|key| key.api_key_id == by.api_key_id);
    // It was admitted and has ended since.
    own.map(|key| key.expires_at)
        .ok_or_else(Error::unauthorized)
}

fn require_held(scopes: &Scopes, key: &ApiKey, what: &str) -> Result<(), Error> {
    let beyond = scopes.lacks(&key.scopes);
    if beyond.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        Kind::Forbidden,
        "insufficient_scope",
        format!(
            "This key cannot {what} a key that holds scopes it does not hold itself: {}. Use a key that holds them.",
            beyond.join(", ")
        ),
    ))
}

fn manages(key: &ApiKey) -> bool {
    key.scopes.allow(Scope::ApiKeysWrite)
}

/// Whether another key manages keys for as long as this one, or for longer than any overlap: a key that was rotated out does not
/// count.
fn is_replaceable(batch: &BatchState, partner_id: PartnerId, key: &ApiKey, at: Timestamp) -> bool {
    let enough = at.plus_ms(limits::SECRET_OVERLAP_MS + 1);
    let until = key.expires_at.map_or(enough, |end| end.min(enough));
    let lasts = |other: &ApiKey| other.expires_at.is_none_or(|end| end >= until);
    working(batch, partner_id, at)
        .any(|other| other.api_key_id != key.api_key_id && manages(other) && lasts(other))
}

fn outlives(wanted: Timestamp, last: Timestamp) -> Error {
    let what = format!("{wanted} is later than the moment at which this key expires: {last}");
    let fix = format!("Send {last} or earlier, or leave it out.");
    Error {
        kind: Kind::Forbidden,
        ..Error::fault("/expiresAt", "outlives_creator", what, fix)
    }
}

/// The error for a key that works no more.
pub(crate) fn ended(key: &ApiKey) -> Error {
    let how = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("was revoked at {at}"),
        (None, at) => format!("expired at {}", at.unwrap_or_default()),
    };
    conflict!(
        "api_key_ended",
        "The API key {} {how}. Create another with POST /v1/api-keys.",
        key.api_key_id
    )
}

#[cfg(test)]
mod tests;
