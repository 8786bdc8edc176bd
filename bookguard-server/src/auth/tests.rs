use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
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
use crate::test_runtime::threads_started_by;

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

/// An answer that is kept: the key of [`holder`] `n`.
fn known(n: u8) -> CachedKey {
    CachedKey::Answer(Ok(holder(n)))
}

/// Keeps the key of [`holder`] `n`.
fn keep(keys: &Keys, n: u8) {
    keys.keep(&hash(n.into()), Ok((holder(n), None)), at(0), 0);
}

/// Caches session `n` of the key of [`holder`] `n`, and returns whether it is still cached at `at`.
fn has_session(keys: &Keys, n: u8, at: Timestamp) -> bool {
    let seen = keys.seen();
    let entry = seen.sessions.get(&place(&hash(n.into())));
    entry.is_some_and(|entry| entry.holds(&hash(n.into()), at))
}

fn keep_session(keys: &Keys, n: u8, expires: Timestamp) {
    let mut authority = holder(n);
    let Authority::Partner { signed_in, .. } = &mut authority else {
        panic!("a partner's key")
    };
    *signed_in = Some(SignedIn {
        console_session_id: ConsoleSessionId::from_bytes([n; 16]),
        person: None,
    });
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
        assert_eq!(keys.glance(&hash(9), at(0)), known(2));
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

    fn close(self) {
        drop(self.service);
        self.closing.wait();
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
    assert_eq!(unknown, Err(Error::unauthorized()));
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
    assert_eq!(ended, Err(Error::unauthorized()));
    drop((by_key, signed_in));
    acme.close();
}

#[test]
fn callers_that_wait_for_the_store_take_no_thread_each() {
    let started = threads_started_by(async {
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
        acme.close();
    });
    assert_eq!(started, 0);
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
    acme.close();
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
    acme.close();
}

#[test]
fn what_another_request_has_found_meanwhile_is_not_looked_up_again() {
    let keys = Keys::default();
    let unknown = || Ok(KeyFound::Unknown);
    let found = keys.find(&hash(1), at(0), unknown);
    assert_eq!(found, Err(Error::unauthorized()));
    let known = keys.find(&hash(1), at(0), || panic!("it is known"));
    assert_eq!(known, Err(Error::unauthorized()));
    let down = Error::unavailable("down");
    let failed = keys.find(&hash(2), at(0), || Err(down.clone()));
    assert_eq!(failed, Err(down));
    let found = keys.find(&hash(2), at(0), unknown);
    assert_eq!(found, Err(Error::unauthorized()));
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
    let found = keys.glance(&hash(1), at(0));
    assert_eq!(found, CachedKey::Ask(1), "it is not a key");
}

fn hash(n: u32) -> Hash {
    let mut hash = [7; 32];
    hash[..4].copy_from_slice(&n.to_le_bytes());
    hash
}

#[test]
fn answers_are_kept_for_their_time_and_no_longer() {
    let keys = Keys::default();
    keep(&keys, 1);
    keys.keep(&hash(2), UNKNOWN_KEY, at(0), 0);
    let last = limits::KEY_CACHE_MS - 1;
    assert_eq!(keys.glance(&hash(1), at(last)), known(1));
    let refused = CachedKey::Answer(Err(Refused::Unknown));
    assert_eq!(keys.glance(&hash(2), at(last)), refused);
    for n in [1, 2] {
        assert_eq!(keys.glance(&hash(n), at(last + 1)), CachedKey::Ask(0));
        let set_back = keys.glance(&hash(n), at(-1));
        assert_eq!(set_back, CachedKey::Ask(0), "the clock was set back");
    }
}

#[test]
fn a_key_is_not_kept_beyond_its_expiry_nor_longer_than_others() {
    let last = limits::KEY_CACHE_MS - 1;
    for (expires, kept_until) in [(1, 0), (last, last - 1), (limits::DAY_MS, last)] {
        let keys = Keys::default();
        keys.keep(&hash(1), Ok((holder(1), Some(at(expires)))), at(0), 0);
        let glance = |ms| keys.glance(&hash(1), at(ms));
        assert_eq!(glance(kept_until), known(1));
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
    keep(&keys, 1);
    let mut other = hash(1);
    other[31] ^= 1;
    assert_eq!(keys.glance(&other, at(0)), CachedKey::Ask(0));
}

#[test]
fn a_key_revoked_here_dies_at_once_and_leaves_the_others() {
    let keys = Keys::default();
    keep(&keys, 1);
    keep(&keys, 2);
    keys.forget(&ApiKeyId::from_bytes([1; 16]));
    assert_eq!(keys.glance(&hash(1), at(0)), CachedKey::Ask(1));
    assert_eq!(keys.glance(&hash(2), at(0)), known(2));
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
    assert_eq!(keys.glance(&hash(0), at(0)), known(1));
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
