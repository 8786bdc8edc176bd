//! Identifies the caller: from the `x-api-key` header to an authority, on the operator interface from `x-operator-key`.
//!
//! A key is looked up by the SHA-256 of its text. The result is cached for [`limits::KEY_CACHE_MS`], so a revoked key stops
//! working within that time on every node; on the node that revoked it, it stops at once ([`Keys::forget`]). A key that expires is
//! never cached beyond that moment, so it stops at that moment on every node. No caching crate discards results that a revocation
//! overtook. An operator's key is looked up for each request: there are few. A session of the console is cached as its key is, and is
//! forgotten with it.
//!
//! Invariants: a result read from the store before a revocation is never kept after it; a row that the service did not write is
//! nobody's key.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bookguard_core::error::Error;
use bookguard_core::features::{console, operator_sessions};
use bookguard_core::limits;
use bookguard_core::model::{ApiKeyId, ApiKeySecret, ConsoleSessionId, PartnerId, Timestamp};
use bookguard_core::service::Service;
use bookguard_core::session::{Authority, Operator, key_expired};
use bookguard_core::store::operator_keys::OperatorKeyFound;
use bookguard_core::store::read::KeyFound;
use poem::http::header::{AsHeaderName, HeaderMap};
use subtle::ConstantTimeEq as _;

use crate::key_uses::KeyUses;
use crate::readers::LookUps;

/// The most valid keys cached.
const KNOWN: usize = 10_000;
/// The most invalid keys cached. They are kept apart, so that guessing cannot evict valid keys.
const UNKNOWN: usize = 1_000;

/// The header with an operator's key.
const OPERATOR_KEY: &str = "x-operator-key";
/// The header with the partner that the operator acts for.
const ACTING_FOR: &str = "x-partner-id";

type Hash = [u8; 32];

/// A cache of recently seen keys.
#[derive(Default)]
pub(crate) struct Keys {
    seen: Mutex<Seen>,
    pub(crate) uses: Arc<KeyUses>,
}

#[derive(Default)]
struct Seen {
    known: HashMap<u64, Remembered<Authority>>,
    /// Sessions of the console, by their tokens. They are kept apart, so that no key is taken for a session.
    sessions: HashMap<u64, Remembered<FoundSession>>,
    refused: HashMap<u64, Remembered<Refused>>,
    /// The number of revocations on this node.
    revocations: u64,
    /// Forged rows that were reported to the operator.
    forged: HashSet<ApiKeyId>,
}

struct Remembered<T> {
    hash: Hash,
    until_ms: i64,
    value: T,
}

/// Why a key opens nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Refused {
    Unknown,
    Expired(Timestamp),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown => Error::unauthorized(),
            Refused::Expired(at) => key_expired(at),
        }
    }
}

/// A session of the console: what it may do, and when it expires.
type FoundSession = (Authority, Timestamp);

/// What a key opens, and when it expires.
type Opens = (Authority, Option<Timestamp>);

/// What the cache knows about a key.
#[derive(Debug, PartialEq)]
enum CachedKey {
    Answer(Result<Authority, Refused>),
    /// Ask the store. The number of revocations goes into [`Keys::keep`].
    Ask(u64),
}

impl Keys {
    /// Identifies the caller of a request with these headers.
    ///
    /// # Errors
    /// `unauthorized`, `api_key_expired`, and those of [`LookUps::run`].
    pub(crate) async fn identify(
        self: &Arc<Self>,
        look_ups: &LookUps<'_>,
        headers: &HeaderMap,
    ) -> Result<Authority, Error> {
        let hash = presented(headers).ok_or_else(Error::unauthorized)?.hash();
        if let CachedKey::Answer(answer) = self.glance(&hash, look_ups.service.clock().now()) {
            return Ok(answer?);
        }
        let keys = Arc::clone(self);
        let find = move |service: &Arc<Service>| {
            keys.find(&hash, service.clock().now(), || look_up(service, &hash))
        };
        look_ups.run(find).await
    }

    /// Identifies the owner of the key with this hash, and caches the answer. `look_up`, which asks the store, is not called if
    /// another request has cached the answer meanwhile.
    fn find(
        &self,
        hash: &Hash,
        asked_at: Timestamp,
        look_up: impl FnOnce() -> Result<KeyFound, Error>,
    ) -> Result<Authority, Error> {
        let revocations = match self.glance(hash, asked_at) {
            CachedKey::Answer(answer) => return Ok(answer?),
            CachedKey::Ask(revocations) => revocations,
        };
        let found = match look_up()? {
            KeyFound::Owned {
                partner_id,
                key,
                suspended,
            } => match key.expires_at.filter(|end| *end <= asked_at) {
                Some(end) => Err(Refused::Expired(end)),
                None => {
                    self.uses.note(&key, asked_at);
                    let authority = Authority::Partner {
                        partner_id,
                        api_key_id: key.api_key_id,
                        scopes: key.scopes,
                        suspended,
                        signed_in: None,
                    };
                    Ok((authority, key.expires_at))
                }
            },
            KeyFound::Unknown => Err(Refused::Unknown),
            KeyFound::Forged(api_key_id) => {
                self.tell(api_key_id);
                Err(Refused::Unknown)
            }
        };
        self.keep(hash, found.clone(), asked_at, revocations);
        Ok(found.map(|(authority, _)| authority)?)
    }

    /// Identifies the caller by the token of a session of the console, and says when the session expires.
    ///
    /// # Errors
    /// `unauthorized`, and those of [`LookUps::run`].
    pub(crate) async fn identify_session(
        self: &Arc<Self>,
        look_ups: &LookUps<'_>,
        token: &str,
    ) -> Result<FoundSession, Error> {
        let hash = console::hash_of(token);
        if let Ok(found) = self.glance_session(&hash, look_ups.service.clock().now()) {
            return Ok(found);
        }
        let (keys, token) = (Arc::clone(self), token.to_owned());
        let find = move |service: &Arc<Service>| keys.find_session(service, &hash, &token);
        look_ups.run(find).await
    }

    /// Finds the session with this token, and caches it.
    fn find_session(
        &self,
        service: &Service,
        hash: &Hash,
        token: &str,
    ) -> Result<FoundSession, Error> {
        let asked_at = service.clock().now();
        // Another request may have cached it meanwhile.
        let revocations = match self.glance_session(hash, asked_at) {
            Ok(found) => return Ok(found),
            Err(revocations) => revocations,
        };
        let found = console::find(service, token)?.ok_or_else(Error::unauthorized)?;
        self.uses.note(&found.key, asked_at);
        let session = (found.authority, found.expires_at);
        self.keep_session(hash, session.clone(), asked_at, revocations);
        Ok(session)
    }

    /// The cached session, or else the number of revocations for [`Self::keep_session`].
    fn glance_session(&self, hash: &Hash, now: Timestamp) -> Result<FoundSession, u64> {
        let seen = self.seen();
        let known = remembered(&seen.sessions, hash, now);
        known.cloned().ok_or(seen.revocations)
    }

    /// Caches a session, as [`Self::keep`] caches a key.
    fn keep_session(&self, hash: &Hash, value: FoundSession, now: Timestamp, revocations: u64) {
        let mut seen = self.seen();
        if seen.revocations == revocations {
            let until_ms = (now.ms() + limits::KEY_CACHE_MS).min(value.1.ms());
            insert(&mut seen.sessions, KNOWN, now, (hash, until_ms), value);
        }
    }

    /// Reports once to the operator that a caller used a key whose row the service did not write.
    fn tell(&self, api_key_id: ApiKeyId) {
        let mut seen = self.seen();
        if seen.forged.len() >= UNKNOWN {
            seen.forged.clear();
        }
        if seen.forged.insert(api_key_id) {
            drop(seen);
            tracing::error!(
                %api_key_id,
                "API key {api_key_id} was refused: its row in the database was written or changed by somebody without the ledger \
                 key. Run `bookguard ledger verify`, and find out who can write to the database"
            );
        }
    }

    /// Forgets the keys of a partner whose standing changed on this node.
    pub(crate) fn forget_partner(&self, partner_id: &PartnerId) {
        self.forget_callers(|authority| {
            matches!(authority, Authority::Partner { partner_id: id, .. } if id == partner_id)
        });
    }

    /// Forgets a key that was revoked or rotated on this node, and its sessions.
    pub(crate) fn forget(&self, api_key_id: &ApiKeyId) {
        self.forget_callers(|authority| {
            matches!(authority, Authority::Partner { api_key_id: id, .. } if id == api_key_id)
        });
    }

    /// Forgets a session of the console that was ended or displaced on this node.
    pub(crate) fn forget_session(&self, ended: &ConsoleSessionId) {
        self.forget_callers(|authority| {
            matches!(authority, Authority::Partner { signed_in: Some(by), .. } if by.console_session_id == *ended)
        });
    }

    /// Forgets the keys and sessions of these callers.
    fn forget_callers(&self, is_one: impl Fn(&Authority) -> bool) {
        let mut seen = self.seen();
        seen.revocations += 1;
        seen.known.retain(|_, entry| !is_one(&entry.value));
        seen.sessions.retain(|_, entry| !is_one(&entry.value.0));
    }

    fn glance(&self, hash: &Hash, now: Timestamp) -> CachedKey {
        let seen = self.seen();
        if let Some(known) = remembered(&seen.known, hash, now) {
            return CachedKey::Answer(Ok(known.clone()));
        }
        if let Some(refused) = remembered(&seen.refused, hash, now) {
            return CachedKey::Answer(Err(*refused));
        }
        CachedKey::Ask(seen.revocations)
    }

    /// Caches the result of asking the store at `now`. The time counts from the question, not from the answer, because a key
    /// may be revoked on another node right after the question.
    fn keep(&self, hash: &Hash, found: Result<Opens, Refused>, now: Timestamp, revocations: u64) {
        let until_ms = now.ms() + limits::KEY_CACHE_MS;
        let mut seen = self.seen();
        match found {
            // This key may have been revoked since the store was asked.
            Ok(_) if seen.revocations != revocations => {}
            Ok((value, expires_at)) => {
                let until_ms = expires_at.map_or(until_ms, |end| end.ms().min(until_ms));
                insert(&mut seen.known, KNOWN, now, (hash, until_ms), value);
            }
            Err(value) => insert(&mut seen.refused, UNKNOWN, now, (hash, until_ms), value),
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Remembered<T> {
    fn fresh(&self, now: Timestamp) -> bool {
        // The upper bound matters after the clock was set back.
        let left = self.until_ms - now.ms();
        left > 0 && left <= limits::KEY_CACHE_MS
    }

    fn holds(&self, hash: &Hash, now: Timestamp) -> bool {
        self.fresh(now) && bool::from(self.hash.ct_eq(hash))
    }
}

/// What is remembered of this hash.
fn remembered<'s, T>(
    entries: &'s HashMap<u64, Remembered<T>>,
    hash: &Hash,
    now: Timestamp,
) -> Option<&'s T> {
    let entry = entries.get(&place(hash));
    entry
        .filter(|entry| entry.holds(hash, now))
        .map(|entry| &entry.value)
}

fn insert<T>(
    entries: &mut HashMap<u64, Remembered<T>>,
    most: usize,
    now: Timestamp,
    (hash, until_ms): (&Hash, i64),
    value: T,
) {
    if entries.len() >= most {
        entries.retain(|_, entry| entry.fresh(now));
        if entries.len() >= most {
            entries.clear();
        }
    }
    let entry = Remembered {
        hash: *hash,
        until_ms,
        value,
    };
    entries.insert(place(hash), entry);
}

/// The map key of a hash. Two hashes with the same one replace each other, which costs a look-up.
fn place(hash: &Hash) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(head)
}

/// The partner's key that a request presents, if there is exactly one and it has the form of a key.
fn presented(headers: &HeaderMap) -> Option<ApiKeySecret> {
    ApiKeySecret::parse(single(headers, "x-api-key")?)
}

/// The text of a header that was sent once.
pub(crate) fn single(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    value.to_str().ok()
}

/// Identifies the operator, and the partner it acts for.
///
/// # Errors
/// `unauthorized`, `partner_id_invalid`, and those of [`LookUps::run`].
pub(crate) async fn identify_operator(
    look_ups: &LookUps<'_>,
    headers: &HeaderMap,
) -> Result<Authority, Error> {
    let key = single(headers, OPERATOR_KEY).and_then(ApiKeySecret::parse_operators);
    let hash = key.ok_or_else(Error::operator_unauthorized)?.hash();
    let found = look_ups.run(move |service| {
        let found = service.reader()?.operator_key_by_hash(&hash);
        found.map_err(|e| service.fault(&e))
    });
    let key = match found.await? {
        OperatorKeyFound::Live(key) => key,
        OperatorKeyFound::Unknown => return Err(Error::operator_unauthorized()),
        OperatorKeyFound::Forged(operator_key_id) => {
            tracing::error!(
                %operator_key_id,
                "operator key {operator_key_id} was refused: its row in the database was written or changed by somebody without \
                 the ledger key. Run `bookguard ledger verify`, and find out who can write to the database"
            );
            return Err(Error::operator_unauthorized());
        }
    };
    let partner_id = match headers.contains_key(ACTING_FOR) {
        true => Some(acting_for(headers)?),
        false => None,
    };
    let by = Operator::Key {
        operator_key_id: key.operator_key_id,
        name: key.name,
        signed_in: None,
    };
    Ok(Authority::Administrator { by, partner_id })
}

/// Identifies whoever is signed in to the operator's console with this token. As an operator's key, it is looked up for each
/// request, so it stops working at once on every node.
///
/// # Errors
/// `unauthorized`, and those of [`LookUps::run`].
pub(crate) async fn identify_operator_session(
    look_ups: &LookUps<'_>,
    token: &str,
) -> Result<Authority, Error> {
    let token = token.to_owned();
    let found = look_ups.run(move |service| operator_sessions::find(service, &token));
    found.await?.ok_or_else(Error::operator_unauthorized)
}

fn acting_for(headers: &HeaderMap) -> Result<PartnerId, Error> {
    let named = single(headers, ACTING_FOR).and_then(PartnerId::parse);
    named.ok_or_else(|| {
        Error::fault(
            ACTING_FOR,
            "partner_id_invalid",
            "is not one partner's id",
            "Send the header once with an id such as ptn_…, or leave it out.",
        )
    })
}

fn look_up(service: &Service, hash: &Hash) -> Result<KeyFound, Error> {
    let mut reader = service.reader()?;
    reader.key_by_hash(hash).map_err(|e| service.fault(&e))
}

#[cfg(test)]
mod tests;
