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
use bookguard_core::session::{
    Authority, Operator, key_expired, operator_unauthorized, unauthorized,
};
use bookguard_core::store::operator_keys::OperatorKeyFound;
use bookguard_core::store::read::KeyFound;
use poem::http::header::HeaderMap;
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
            Refused::Unknown => unauthorized(),
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
        let hash = presented(headers).ok_or_else(unauthorized)?.hash();
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
        let found = console::find(service, token)?.ok_or_else(unauthorized)?;
        self.uses.note(&found.key, asked_at);
        let session = (found.authority, found.expires_at);
        self.keep_session(hash, session.clone(), asked_at, revocations);
        Ok(session)
    }

    /// The cached session, or else the number of revocations for [`Self::keep_session`].
    fn glance_session(&self, hash: &Hash, now: Timestamp) -> Result<FoundSession, u64> {
        let seen = self.seen();
        let known = seen.sessions.get(&place(hash));
        let known = known.filter(|entry| entry.holds(hash, now));
        known.map_or(Err(seen.revocations), |entry| Ok(entry.value.clone()))
    }

    /// Caches a session, as [`Self::keep`] caches a key.
    fn keep_session(&self, hash: &Hash, value: FoundSession, now: Timestamp, revocations: u64) {
        let mut seen = self.seen();
        if seen.revocations == revocations {
            let until_ms = (now.ms() + limits::KEY_CACHE_MS).min(value.1.ms());
            let entry = Remembered {
                hash: *hash,
                until_ms,
                value,
            };
            insert(&mut seen.sessions, KNOWN, now, entry);
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

    /// Forgets a session of the console that was ended on this node.
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
        if let Some(entry) = seen
            .known
            .get(&place(hash))
            .filter(|entry| entry.holds(hash, now))
        {
            return CachedKey::Answer(Ok(entry.value.clone()));
        }
        let refused = seen.refused.get(&place(hash));
        if let Some(entry) = refused.filter(|entry| entry.holds(hash, now)) {
            return CachedKey::Answer(Err(entry.value));
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
            Ok((value, expires_at)) => insert(
                &mut seen.known,
                KNOWN,
                now,
                Remembered {
                    hash: *hash,
                    until_ms: expires_at.map_or(until_ms, |end| end.ms().min(until_ms)),
                    value,
                },
            ),
            Err(value) => insert(
                &mut seen.refused,
                UNKNOWN,
                now,
                Remembered {
                    hash: *hash,
                    until_ms,
                    value,
                },
            ),
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

fn insert<T>(
    entries: &mut HashMap<u64, Remembered<T>>,
    most: usize,
    now: Timestamp,
    entry: Remembered<T>,
) {
    if entries.len() >= most {
        entries.retain(|_, entry| entry.fresh(now));
        if entries.len() >= most {
            entries.clear();
        }
    }
    entries.insert(place(&entry.hash), entry);
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
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
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
    let hash = key.ok_or_else(operator_unauthorized)?.hash();
    let found = look_ups.run(move |service| {
        let found = service.reader()?.operator_key_by_hash(&hash);
        found.map_err(|e| service.fault(&e))
    });
    let key = match found.await? {
        OperatorKeyFound::Live(key) => key,
        OperatorKeyFound::Unknown => return Err(operator_unauthorized()),
        OperatorKeyFound::Forged(operator_key_id) => {
            tracing::error!(
                %operator_key_id,
                "operator key {operator_key_id} was refused: its row in the database was written or changed by somebody without \
                 the ledger key. Run `bookguard ledger verify`, and find out who can write to the database"
            );
            return Err(operator_unauthorized());
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
    found.await?.ok_or_else(operator_unauthorized)
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
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use bookguard_core::clock::Clock;
    use bookguard_core::engine::command::Written;
    use bookguard_core::features::console::{SignOut, StartConsoleSession};
    use bookguard_core::features::partners::{RegisterPartner, Registration};
    use bookguard_core::model::{PartnerId, Scopes};
    use bookguard_core::operation::{self, Action, Operation, Request};
    use bookguard_core::service::{Closing, ServiceConfig};
    use bookguard_core::session::{Session, SignedIn};
    use bookguard_core::store::read::Reader;
    use poem::http::Method;
    use poem::http::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::observer::{self, Observed};
    use crate::payer::Payer;
    use crate::readers::Readers;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(1_700_000_000_000 + ms)
    }

    const UNKNOWN_KEY: Result<Opens, Refused> = Err(Refused::Unknown);

    fn holder(n: u8) -> Authority {
        Authority::Partner {
            partner_id: PartnerId::from_bytes([n; 16]),
            api_key_id: ApiKeyId::from_bytes([n; 16]),
            scopes: Scopes::all(),
            suspended: false,
            signed_in: None,
        }
    }

    /// Caches session `n` of the key of [`holder`] `n`, and returns whether it is still cached at `at`.
    fn has_session(keys: &Keys, n: u8, at: Timestamp) -> bool {
        let seen = keys.seen();
        let entry = seen.sessions.get(&place(&hash(n.into())));
        entry.is_some_and(|entry| entry.holds(&hash(n.into()), at))
    }

    fn keep_session(keys: &Keys, n: u8, expires: Timestamp) {
        let Authority::Partner {
            partner_id,
            api_key_id,
            scopes,
            suspended,
            ..
        } = holder(n)
        else {
            panic!("a partner's key")
        };
        let authority = Authority::Partner {
            partner_id,
            api_key_id,
            scopes,
            suspended,
            signed_in: Some(SignedIn {
                console_session_id: ConsoleSessionId::from_bytes([n; 16]),
                person: None,
            }),
        };
        let revocations = keys.seen().revocations;
        keys.keep_session(&hash(n.into()), (authority, expires), at(0), revocations);
    }

    #[test]
    fn a_session_is_forgotten_when_it_ends_and_with_its_key_or_partner() {
        let last = limits::KEY_CACHE_MS - 1;
        let forgets: [fn(&Keys); 3] = [
            |keys| keys.forget_session(&ConsoleSessionId::from_bytes([1; 16])),
            |keys| keys.forget(&ApiKeyId::from_bytes([1; 16])),
            |keys| keys.forget_partner(&PartnerId::from_bytes([1; 16])),
        ];
        for forget in forgets {
            let keys = Keys::default();
            keys.keep(&hash(9), Ok((holder(2), None)), at(0), 0);
            keep_session(&keys, 1, at(limits::DAY_MS));
            keep_session(&keys, 2, at(limits::DAY_MS));
            assert!(has_session(&keys, 1, at(last)));
            assert!(!has_session(&keys, 1, at(last + 1)), "kept too long");
            forget(&keys);
            assert!(!has_session(&keys, 1, at(0)) && has_session(&keys, 2, at(0)));
            assert_eq!(
                keys.glance(&hash(9), at(0)),
                CachedKey::Answer(Ok(holder(2)))
            );
        }
    }

    /// A service with a clock that tests set, and a partner.
    struct Registered {
        _folder: tempfile::TempDir,
        clock: Arc<AtomicI64>,
        service: Arc<Service>,
        closing: Closing,
        partner: Registration,
    }

    impl Registered {
        /// The headers of its requests.
        fn headers(&self) -> HeaderMap {
            let key = self.partner.api_key.as_ref().unwrap();
            HeaderMap::from_iter([(HeaderName::from_static("x-api-key"), key.parse().unwrap())])
        }

        /// All connections for reading.
        fn hold(&self) -> Vec<Reader<'_>> {
            (0..8).map(|_| self.service.reader().unwrap()).collect()
        }
    }

    type IsKnown<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

    /// The headers of an operator whose key is unknown.
    fn operator_headers() -> HeaderMap {
        let key = ApiKeySecret::of_operator(|| 9);
        let name = HeaderName::from_static(OPERATOR_KEY);
        HeaderMap::from_iter([(name, key.reveal().parse().unwrap())])
    }

    async fn registered() -> Registered {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicI64::new(1_790_000_000_000));
        let (service, closing) = Service::open(ServiceConfig {
            clock: Clock::Set(Arc::clone(&clock)),
            ..ServiceConfig::of(folder.path().join("b.db").as_path().into())
        })
        .unwrap();
        let stranger = session(
            &service,
            Authority::Anonymous {
                address: "127.0.0.1".to_owned(),
            },
        );
        let body = r#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
        let partner = written::<RegisterPartner>(&stranger, body).await;
        Registered {
            _folder: folder,
            clock,
            service,
            closing,
            partner,
        }
    }

    fn session(service: &Arc<Service>, authority: Authority) -> Session {
        Session {
            service: Arc::clone(service),
            authority,
            address: None,
        }
    }

    fn look_ups<'r>(service: &'r Arc<Service>, readers: &'r Readers) -> LookUps<'r> {
        LookUps {
            service,
            readers,
            payer: Payer::STRANGER,
        }
    }

    #[tokio::test]
    async fn a_session_is_looked_up_once_for_its_time_and_unknown_tokens_open_nothing() {
        let acme = registered().await;
        let by_key = Authority::Partner {
            partner_id: acme.partner.partner_id,
            api_key_id: acme.partner.api_key_id.unwrap(),
            scopes: Scopes::all(),
            suspended: false,
            signed_in: None,
        };
        let by_key = session(&acme.service, by_key);
        let started = written::<StartConsoleSession>(&by_key, "").await;
        let keys = Arc::new(Keys::default());
        let readers = Readers::start(0).unwrap();
        let look_ups = look_ups(&acme.service, &readers);
        let unknown = keys.identify_session(&look_ups, "unknown").await;
        assert_eq!(unknown, Err(unauthorized()));
        let token = &*started.token;
        let found = keys.identify_session(&look_ups, token).await.unwrap();
        assert_eq!(found.1, started.expires_at);
        let signed_in = session(&acme.service, found.0.clone());
        let id = signed_in.signed_in().unwrap().console_session_id;
        assert_eq!(id, started.console_session_id);
        // Ended by another node.
        written::<SignOut>(&signed_in, "").await;
        assert_eq!(keys.identify_session(&look_ups, token).await, Ok(found));
        acme.clock.fetch_add(limits::KEY_CACHE_MS, Ordering::AcqRel);
        let ended = keys.identify_session(&look_ups, token).await;
        assert_eq!(ended, Err(unauthorized()));
        drop((by_key, signed_in, acme.service));
        acme.closing.wait();
    }

    #[test]
    fn callers_that_wait_for_the_store_take_no_thread_each() {
        let threads = Arc::new(AtomicUsize::new(0));
        let started = Arc::clone(&threads);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .on_thread_start(move || {
                started.fetch_add(1, Ordering::AcqRel);
            })
            .build()
            .unwrap();
        runtime.block_on(async {
            let acme = registered().await;
            let readers = Readers::start(0).unwrap();
            let look_ups = look_ups(&acme.service, &readers);
            let keys = Arc::new(Keys::default());
            let headers = acme.headers();
            // While the test holds every connection, whoever asks waits.
            let held = acme.hold();
            let operator = operator_headers();
            let mut asking: Vec<(IsKnown<'_>, bool)> = Vec::new();
            for _ in 0..16 {
                let key = async { keys.identify(&look_ups, &headers).await.is_ok() };
                let session = async { keys.identify_session(&look_ups, "none").await.is_ok() };
                let operators_key = async { identify_operator(&look_ups, &operator).await.is_ok() };
                let operators_session =
                    async { identify_operator_session(&look_ups, "none").await.is_ok() };
                asking.push((Box::pin(key), true));
                asking.push((Box::pin(session), false));
                asking.push((Box::pin(operators_key), false));
                asking.push((Box::pin(operators_session), false));
            }
            for (asked, _) in &mut asking {
                let mut context = Context::from_waker(Waker::noop());
                assert!(asked.as_mut().poll(&mut context).is_pending());
            }
            drop(held);
            for (asked, is_known) in asking {
                assert_eq!(asked.await, is_known);
            }
            drop(acme.service);
            acme.closing.wait();
        });
        // Every thread that was asked for has started and ended.
        drop(runtime);
        assert_eq!(threads.load(Ordering::Acquire), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_cannot_be_looked_up_in_time_is_told_so() {
        let acme = registered().await;
        let readers = Readers::start(0).unwrap();
        let look_ups = look_ups(&acme.service, &readers);
        let keys = Arc::new(Keys::default());
        let headers = acme.headers();
        let held = acme.hold();
        let late = keys.identify(&look_ups, &headers).await;
        let late = late.unwrap_err();
        assert_eq!(late.code, "unavailable");
        assert!(late.message.contains("in time"), "{}", late.message);
        drop(held);
        tokio::time::resume();
        keys.identify(&look_ups, &headers).await.unwrap();
        drop(acme.service);
        acme.closing.wait();
    }

    #[tokio::test]
    async fn what_a_look_up_logs_belongs_to_its_request() {
        let acme = registered().await;
        let readers = Readers::start(0).unwrap();
        let look_ups = look_ups(&acme.service, &readers);
        let request = Observed::new(
            &Method::GET,
            &HeaderMap::new(),
            HeaderValue::from_static("r"),
        );
        let of = |_: &Arc<Service>| Ok(observer::current().map(|of| of.request_id.clone()));
        let of = request.scope(look_ups.run(of)).await;
        assert_eq!(of, Ok(Some(HeaderValue::from_static("r"))));
        drop(acme.service);
        acme.closing.wait();
    }

    #[test]
    fn what_another_request_has_found_meanwhile_is_not_looked_up_again() {
        let keys = Keys::default();
        let unknown = || Ok(KeyFound::Unknown);
        assert_eq!(keys.find(&hash(1), at(0), unknown), Err(unauthorized()));
        let not_asked = || panic!("it is known");
        assert_eq!(keys.find(&hash(1), at(0), not_asked), Err(unauthorized()));
        let down = Error::unavailable("down");
        let failed = keys.find(&hash(2), at(0), || Err(down.clone()));
        assert_eq!(failed, Err(down));
        assert_eq!(keys.find(&hash(2), at(0), unknown), Err(unauthorized()));
    }

    /// The answer to an operation that writes.
    async fn written<O: Operation>(session: &Session, body: &str) -> O::Output {
        let request = Request {
            body: body.as_bytes().to_vec(),
            ..Request::default()
        };
        let Action::Write(writing) = operation::prepare::<O>(session, &request).unwrap() else {
            panic!("it writes")
        };
        let submitted = session.service.submit(writing.command).unwrap();
        match Service::outcome(submitted).await.unwrap() {
            Written::Fresh(answer) => answer,
            Written::Replayed(_) => panic!("it has no idempotency key"),
        }
    }

    #[test]
    fn a_session_is_not_kept_beyond_its_end_nor_if_it_ended_while_it_was_looked_up() {
        let keys = Keys::default();
        keep_session(&keys, 1, at(5));
        assert!(has_session(&keys, 1, at(4)) && !has_session(&keys, 1, at(5)));
        let late = (holder(2), at(limits::DAY_MS));
        keys.forget_session(&ConsoleSessionId::from_bytes([2; 16]));
        keys.keep_session(&hash(2), late, at(0), 0);
        assert!(!has_session(&keys, 2, at(0)));
        assert_eq!(
            keys.glance(&hash(1), at(0)),
            CachedKey::Ask(1),
            "it is no key"
        );
    }

    fn hash(n: u32) -> Hash {
        let mut hash = [7; 32];
        hash[..4].copy_from_slice(&n.to_le_bytes());
        hash
    }

    #[test]
    fn answers_are_kept_for_their_time_and_no_longer() {
        let keys = Keys::default();
        keys.keep(&hash(1), Ok((holder(1), None)), at(0), 0);
        keys.keep(&hash(2), UNKNOWN_KEY, at(0), 0);
        let last = limits::KEY_CACHE_MS - 1;
        assert_eq!(
            keys.glance(&hash(1), at(last)),
            CachedKey::Answer(Ok(holder(1)))
        );
        assert_eq!(
            keys.glance(&hash(2), at(last)),
            CachedKey::Answer(Err(Refused::Unknown))
        );
        for n in [1, 2] {
            assert_eq!(keys.glance(&hash(n), at(last + 1)), CachedKey::Ask(0));
            assert_eq!(
                keys.glance(&hash(n), at(-1)),
                CachedKey::Ask(0),
                "the clock was set back"
            );
        }
    }

    #[test]
    fn a_key_is_not_kept_beyond_its_expiry_nor_longer_than_others() {
        let last = limits::KEY_CACHE_MS - 1;
        for (expires, kept_until) in [(1, 0), (last, last - 1), (limits::DAY_MS, last)] {
            let keys = Keys::default();
            keys.keep(&hash(1), Ok((holder(1), Some(at(expires)))), at(0), 0);
            let glance = |ms| keys.glance(&hash(1), at(ms));
            assert_eq!(glance(kept_until), CachedKey::Answer(Ok(holder(1))));
            assert_eq!(glance(kept_until + 1), CachedKey::Ask(0));
        }
        let keys = Keys::default();
        keys.keep(&hash(1), Err(Refused::Expired(at(-5))), at(0), 0);
        let refused = CachedKey::Answer(Err(Refused::Expired(at(-5))));
        assert_eq!(keys.glance(&hash(1), at(last)), refused);
    }

    #[test]
    fn only_the_whole_hash_counts() {
        let keys = Keys::default();
        keys.keep(&hash(1), Ok((holder(1), None)), at(0), 0);
        let mut other = hash(1);
        other[31] ^= 1;
        assert_eq!(keys.glance(&other, at(0)), CachedKey::Ask(0));
    }

    #[test]
    fn a_key_revoked_here_dies_at_once_and_leaves_the_others() {
        let keys = Keys::default();
        keys.keep(&hash(1), Ok((holder(1), None)), at(0), 0);
        keys.keep(&hash(2), Ok((holder(2), None)), at(0), 0);
        keys.forget(&ApiKeyId::from_bytes([1; 16]));
        assert_eq!(keys.glance(&hash(1), at(0)), CachedKey::Ask(1));
        assert_eq!(
            keys.glance(&hash(2), at(0)),
            CachedKey::Answer(Ok(holder(2)))
        );
    }

    #[test]
    fn an_answer_read_before_a_revocation_is_not_kept_after_it() {
        let keys = Keys::default();
        let CachedKey::Ask(asked) = keys.glance(&hash(1), at(0)) else {
            panic!("nothing is kept yet")
        };
        keys.forget(&ApiKeyId::from_bytes([1; 16]));
        keys.keep(&hash(1), Ok((holder(1), None)), at(0), asked);
        assert_eq!(keys.glance(&hash(1), at(0)), CachedKey::Ask(1));
    }

    #[test]
    fn guesses_neither_grow_without_bound_nor_push_out_valid_keys() {
        let keys = Keys::default();
        keys.keep(&hash(0), Ok((holder(1), None)), at(0), 0);
        for n in 1..=(UNKNOWN as u32 * 3) {
            keys.keep(&hash(n), UNKNOWN_KEY, at(0), 0);
        }
        assert!(keys.seen().refused.len() <= UNKNOWN);
        assert_eq!(
            keys.glance(&hash(0), at(0)),
            CachedKey::Answer(Ok(holder(1)))
        );
    }

    #[test]
    fn what_cannot_be_a_key_is_not_looked_up() {
        let secret = ApiKeySecret::generate(|| 9);
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-api-key", value.parse().unwrap());
            }
            presented(&headers).is_some()
        };
        assert!(with(&[secret.reveal()]));
        assert!(
            !with(&[])
                && !with(&[""])
                && !with(&["bgk_short"])
                && !with(&[secret.reveal(), secret.reveal()])
        );
    }
}
