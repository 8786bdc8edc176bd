//! The service from the inside: commands through the real writer on a real SQLite file.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bookguard_core::clock::Clock;
use bookguard_core::engine::command::Written;
use bookguard_core::error::Error;
use bookguard_core::evidence;
use bookguard_core::features::api_keys::{CreateApiKey, NewApiKey};
use bookguard_core::features::bookings::{
    BookingCreated, CreateBooking, GetBooking, ListBookings, ProtectBooking, Protected,
};
use bookguard_core::features::cosignatures::{WitnessTurn, claim, look, places, witnessed};
use bookguard_core::features::events::ListBookingEvents;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::partners::{RegisterPartner, Registration};
use bookguard_core::ledger::cosignature::Cosigner;
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::witness::{AddCheckpoint, judge};
use bookguard_core::ledger::{Checkpoint, VerifierKey};
use bookguard_core::model::{Booking, Page, PartnerId, Scopes, Timestamp};
use bookguard_core::operation::{self, Action, Finished, Operation, Request};
use bookguard_core::service::{Closing, OpenError, Service, ServiceConfig};
use bookguard_core::session::{Authority, Session};

const START_MS: i64 = 1_790_000_000_000;

struct Bench {
    service: Option<Arc<Service>>,
    closing: Option<Closing>,
    clock: Arc<AtomicI64>,
}

fn open(db: &Path, clock: &Arc<AtomicI64>) -> Result<(Arc<Service>, Closing), OpenError> {
    Service::open(ServiceConfig {
        clock: Clock::Set(Arc::clone(clock)),
        ..ServiceConfig::of(db.into())
    })
}

impl Bench {
    fn new(db: &Path) -> Self {
        let clock = Arc::new(AtomicI64::new(START_MS));
        let (service, closing) = open(db, &clock).unwrap();
        Self {
            service: Some(service),
            closing: Some(closing),
            clock,
        }
    }

    fn session(&self, authority: Authority) -> Session {
        Session {
            service: Arc::clone(self.service.as_ref().unwrap()),
            authority,
            address: None,
        }
    }

    fn anonymous(&self) -> Session {
        let address = "127.0.0.1".to_owned();
        self.session(Authority::Anonymous { address })
    }

    fn partner(&self) -> Session {
        let registered = call::<RegisterPartner>(&self.anonymous(), &[], PARTNER, None);
        let registered: Registration = decode(&registered.unwrap());
        self.session(Authority::Partner {
            partner_id: registered.partner_id,
            api_key_id: registered.api_key_id.unwrap(),
            scopes: Scopes::all(),
            suspended: false,
            signed_in: None,
        })
    }

    fn advance(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::AcqRel);
    }

    fn close(&mut self) {
        drop(self.service.take());
        self.closing.take().unwrap().wait();
    }
}

fn call<O: Operation>(
    session: &Session,
    path: &[&str],
    body: &str,
    key: Option<&str>,
) -> Result<Finished, Error> {
    let request = Request {
        path: path.iter().map(|s| (*s).to_owned()).collect(),
        body: body.as_bytes().to_vec(),
        idempotency_key: key.map(str::to_owned),
        ..Request::default()
    };
    match operation::prepare::<O>(session, &request)? {
        Action::Read { read, .. } => read(session),
        Action::Watch(watch) => Ok((watch.look)(session)?.finished),
        Action::Write(writing) => {
            let answer = session
                .service
                .submit(writing.command)?
                .blocking_recv()
                .unwrap()?;
            Ok(operation::finish_write::<O>(answer))
        }
    }
}

/// Calls an operation on a booking, without a body.
fn of<O: Operation>(session: &Session, id: &str) -> Result<Finished, Error> {
    call::<O>(session, &[id], "", None)
}

fn decode<T: serde::de::DeserializeOwned>(finished: &Finished) -> T {
    serde_json::from_slice(&finished.body).unwrap()
}

const PARTNER: &str = r#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
const BOOKING: &str = r#"{"talent":{"id":"t1","name":"The Night Owls"},"organizer":{"id":"o1","name":"Acme Events"},
    "eventType":"concert","eventDate":"2027-06-20T19:00:00-04:00","bookingValue":1200.50}"#;

fn create(session: &Session) -> BookingCreated {
    decode(&call::<CreateBooking>(session, &[], BOOKING, None).unwrap())
}

#[test]
fn a_booking_is_recorded_protected_once_and_read_back_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let mut bench = Bench::new(&db);
    let partner = bench.partner();
    let created = create(&partner);
    let id = created.booking_id.to_string();
    let [first, again] = [(); 2].map(|()| {
        bench.advance(5_000);
        decode::<Protected>(&of::<ProtectBooking>(&partner, &id).unwrap())
    });
    assert_eq!(first, again);
    assert_eq!((first.receipt.leaf_index, first.receipt.tree_size), (1, 2));
    let before = of::<GetBooking>(&partner, &id).unwrap();
    let events = of::<ListBookingEvents>(&partner, &id).unwrap();
    let authority = partner.authority.clone();
    drop(partner);
    bench.close();

    let (service, closing) = open(&db, &bench.clock).unwrap();
    let partner = Session {
        service,
        authority,
        address: None,
    };
    assert_eq!(of::<GetBooking>(&partner, &id).unwrap(), before);
    assert_eq!(of::<ListBookingEvents>(&partner, &id).unwrap(), events);
    let booking: serde_json::Value = decode(&before);
    assert_eq!(booking["bookingValue"].to_string(), "1200.5");
    assert_eq!(booking["status"], "protected");
    assert_eq!(booking["policy"]["policyId"], "talent_standard");
    let events: serde_json::Value = decode(&events);
    let events = events["webhookEvents"].as_array().unwrap();
    let types: Vec<_> = events.iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["booking.created", "booking.protected"]);
    assert_eq!(events[1]["status"], "no_endpoints");
    assert_eq!(events[1]["seq"], 2);
    drop(partner);
    closing.wait();
}

#[test]
fn an_idempotency_key_repeats_the_answer_until_its_day_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(&folder.path().join("b.db"));
    let partner = bench.partner();
    let create = |body: &str| call::<CreateBooking>(&partner, &[], body, Some("k-1"));
    let first = create(BOOKING).unwrap();
    let again = create(BOOKING).unwrap();
    assert!(!first.replayed && again.replayed);
    assert_eq!(
        (first.body.clone(), first.location.clone()),
        (again.body, again.location)
    );
    let reused = create(&BOOKING.replace("1200", "1300")).unwrap_err();
    assert_eq!(reused.code, "idempotency_key_reused");
    // Another partner's key of the same name is another key.
    let other = bench.partner();
    let theirs = call::<CreateBooking>(&other, &[], BOOKING, Some("k-1")).unwrap();
    assert!(!theirs.replayed && theirs.body != first.body);
    bench.advance(24 * 3_600_000 + 1);
    let now = Timestamp::from_ms(bench.clock.load(Ordering::Acquire));
    let expired = || {
        let mut reader = partner.service.reader().unwrap();
        reader.has_expired_answers(now).unwrap()
    };
    assert!(expired());
    let later = create(BOOKING).unwrap();
    assert!(!later.replayed && later.body != first.body);
    let forgot = [(); 2].map(|()| partner.service.forget_expired_answers().unwrap());
    assert_eq!(forgot, [true, false]);
    assert!(!expired());
    assert!(
        create(BOOKING).unwrap().replayed,
        "what is not over is not forgotten"
    );
}

#[test]
fn equal_requests_in_one_batch_make_one_booking_with_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(&folder.path().join("b.db"));
    let partner = bench.partner();
    let request = Request {
        body: BOOKING.into(),
        idempotency_key: Some("same".into()),
        ..Request::default()
    };
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let prepared = operation::prepare::<CreateBooking>(&partner, &request);
            let Action::Write(writing) = prepared.unwrap() else {
                unreachable!("creating is a write")
            };
            partner.service.submit(writing.command).unwrap()
        })
        .collect();
    let mut bodies = waiting.into_iter().map(|answer| {
        let answer = answer.blocking_recv().unwrap();
        operation::finish_write::<CreateBooking>(answer.unwrap()).body
    });
    let first = bodies.next().unwrap();
    assert!(bodies.all(|body| body == first));
    let head = partner.service.store().head().unwrap().unwrap();
    assert_eq!(head.head.size, 1);
}

#[test]
fn two_processes_on_one_file_share_the_write_turn_and_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let bench = Bench::new(&db);
    let (second, _closing) = open(&db, &bench.clock).unwrap();
    let here = bench.partner();
    let there = Session {
        service: second,
        authority: here.authority.clone(),
        address: None,
    };
    let threads = [here.clone(), there].map(|session| {
        std::thread::spawn(move || {
            for _ in 0..40 {
                create(&session);
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let head = here.service.store().head().unwrap().unwrap();
    assert_eq!(head.head.size, 80);
    let begins = format!("{}\n80\n", head.origin);
    assert!(head.checkpoint.starts_with(&begins));
}

#[test]
fn another_partners_booking_answers_exactly_like_one_that_does_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(&folder.path().join("b.db"));
    let (one, other) = (bench.partner(), bench.partner());
    let theirs = create(&other).booking_id.to_string();
    let nobodys = theirs.replace(|c: char| c.is_ascii_digit(), "0");
    for id in [theirs.as_str(), nobodys.as_str(), "bkg_", "nonsense"] {
        let answers = [of::<GetBooking>(&one, id), of::<ProtectBooking>(&one, id)];
        for answer in answers {
            assert_eq!(answer.unwrap_err(), Error::not_found("booking"));
        }
    }
    assert!(
        matches!(other.authority, Authority::Partner { partner_id, .. } if partner_id != PartnerId::from_bytes([0; 16]))
    );
}

#[test]
fn the_evidence_of_a_booking_verifies_offline_at_every_step_and_nobody_elses_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(&folder.path().join("b.db"));
    let (owner, stranger) = (bench.partner(), bench.partner());
    let vkey = owner.service.head().unwrap().vkey;
    let id = create(&owner).booking_id.to_string();
    let policy = "\"eventType\":\"concert\",\"policyId\":\"moderate\",\"timeZone\":\"Europe/Berlin\",\"amountPaid\":12.34,\
                  \"metadata\":{\"\u{1f3b8}\":\"\u{ff21}\",\"a\":\"b\\\"c\"}";
    let body = BOOKING.replace("\"eventType\":\"concert\"", policy);
    let other: BookingCreated = decode(&call::<CreateBooking>(&owner, &[], &body, None).unwrap());
    for _ in 0..300 {
        create(&stranger);
    }
    let other = other.booking_id.to_string();
    for (step, id) in [(0, &id), (1, &other), (2, &id), (3, &other)] {
        if step > 1 {
            bench.advance(86_400_000);
            of::<ProtectBooking>(&owner, id).unwrap();
        }
        let packet = of::<GetEvidence>(&owner, id).unwrap();
        let report = evidence::verify(&packet.body, &vkey);
        assert!(report.verified(), "{report}");
        let ledger = report.ledger.unwrap();
        let size = 302 + u64::from(step.max(1_u32) - 1);
        assert_eq!(
            (report.booking_id.unwrap().to_string(), ledger.tree_size),
            (id.clone(), size)
        );
        let foreign = of::<GetEvidence>(&stranger, id).unwrap_err();
        let unknown = of::<GetEvidence>(&stranger, "bkg_1").unwrap_err();
        assert_eq!(foreign, unknown);
    }
    // A clock that was set back makes no packet that is older than what it tells of.
    bench.clock.store(0, Ordering::Release);
    let packet = of::<GetEvidence>(&owner, &id).unwrap();
    assert!(evidence::verify(&packet.body, &vkey).verified());
}

#[test]
fn a_missing_or_foreign_ledger_key_stops_the_start_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let mut bench = Bench::new(&db);
    let key = service_key(&db);
    bench.close();
    let kept = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let refused = || open(&db, &bench.clock).err().unwrap();
    assert!(refused().contains("is missing"));
    assert!(!key.exists());
    let mut other = Bench::new(&folder.path().join("other.db"));
    other.close();
    std::fs::copy(service_key(&folder.path().join("other.db")), &key).unwrap();
    assert!(refused().contains("another key"));
    std::fs::write(&key, kept).unwrap();
    open(&db, &bench.clock).unwrap();
}

fn service_key(db: &Path) -> std::path::PathBuf {
    bookguard_core::key_file::default_path(Some(db))
}

#[test]
fn no_two_keys_share_an_answer_and_a_strangers_key_cannot_be_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(&folder.path().join("b.db"));
    let all = bench.partner();
    let Authority::Partner { partner_id, .. } = all.authority else {
        unreachable!("a partner's session")
    };
    let made = |session: &Session| {
        let made = call::<CreateApiKey>(session, &[], r#"{"name":"ci"}"#, Some("new-key"));
        decode::<NewApiKey>(&made.unwrap())
    };
    let narrow = bench.session(Authority::Partner {
        partner_id,
        api_key_id: made(&all).api_key_id,
        scopes: Scopes::parse(&["api-keys:write"]).unwrap(),
        suspended: false,
        signed_in: None,
    });
    assert_eq!(made(&narrow).scopes.words(), ["api-keys:write"]);

    let stranger = bench.anonymous();
    let register = |key| call::<RegisterPartner>(&stranger, &[], PARTNER, Some(key));
    let guessable = register("reg-1").unwrap_err();
    assert_eq!(guessable.code, "idempotency_key_invalid");
    let key = "0190f5c2-7a2e-7c3e-9a53-1f0f5e1c2d3b";
    let first = register(key).unwrap();
    assert_eq!(register(key).unwrap().body, first.body);
}

#[test]
fn a_filter_that_matches_little_answers_in_pages_that_come_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new(&folder.path().join("b.db"));
    let partner = bench.partner();
    let ids: Vec<String> = (0..7)
        .map(|_| {
            bench.advance(1);
            create(&partner).booking_id.to_string()
        })
        .collect();
    of::<ProtectBooking>(&partner, &ids[3]).unwrap();
    let list = |query: &[(&str, &str)]| {
        let query = query.iter();
        let request = Request {
            query: (query.map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))).collect(),
            ..Request::default()
        };
        match operation::prepare::<ListBookings>(&partner, &request).unwrap() {
            Action::Read { read, .. } => decode::<Page<Booking>>(&read(&partner).unwrap()),
            _ => unreachable!("bookings are listed as they are stored"),
        }
    };
    let protected = list(&[("status", "protected"), ("limit", "1")]);
    assert_eq!(protected.data.len(), 1);
    assert_eq!(protected.data[0].booking_id.to_string(), ids[3]);
    let rest = list(&[
        ("status", "protected"),
        ("cursor", &protected.next_cursor.unwrap()),
    ]);
    assert!(rest.data.is_empty() && !rest.has_more && rest.next_cursor.is_none());

    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let mut query = vec![("limit", "3")];
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = list(&query);
        seen.extend((page.data.iter()).map(|booking| booking.booking_id.to_string()));
        if !page.has_more {
            break;
        }
        cursor = page.next_cursor;
    }
    assert_eq!(seen, ids.iter().rev().cloned().collect::<Vec<_>>());
}

/// A log that three witnesses cosign. They judge proofs as witnesses do.
struct Witnessed {
    bench: Bench,
    partner: Session,
    cosigners: [Cosigner; 3],
    policy: TrustPolicy,
    latest: [Option<Checkpoint>; 3],
}

impl Witnessed {
    fn new(db: &Path) -> Self {
        let bench = Bench::new(db);
        let partner = bench.partner();
        let cosigners =
            [1, 2, 3].map(|n| Cosigner::from_seed(&format!("w{n}.example.com"), &[n; 32]).unwrap());
        let lines = cosigners.iter().enumerate().map(|(n, cosigner)| {
            let key = cosigner.verifier();
            format!("witness w{n} {key} https://w{n}.example.com\n")
        });
        let policy = lines.collect::<String>() + "group all all w0 w1 w2\nquorum all\n";
        Self {
            policy: TrustPolicy::parse(&policy).unwrap(),
            bench,
            partner,
            cosigners,
            latest: [const { None }; 3],
        }
    }

    /// A turn with this witness after this many seconds. The witness refuses everything older than `least`. Returns the size that it was
    /// asked for.
    fn turn(&mut self, n: usize, seconds: i64, least: u64) -> u64 {
        let service = &self.partner.service;
        let now = self.bench.clock.fetch_add(seconds * 1000, Ordering::AcqRel) + seconds * 1000;
        let place = places(&self.policy).swap_remove(n);
        let (head, _) = look(service).unwrap();
        let taken = service.submit(claim(service, &place, &head)).unwrap();
        let Written::Fresh(Some(state)) = taken.blocking_recv().unwrap().unwrap() else {
            panic!("it is not due");
        };
        let mut turn = WitnessTurn::new(place, state);
        let body = turn.request(service, &self.policy).unwrap().unwrap();
        let asked = AddCheckpoint::parse(&body).unwrap();
        let logs = [service.head().unwrap().vkey.parse::<VerifierKey>().unwrap()];
        let (key, seen) = judge(&asked, &logs, |_| self.latest[n].clone()).unwrap();
        let size = seen.size;
        let answered = match size < least {
            true => turn.answered((503, b"not read so far"), Timestamp::from_ms(now)),
            false => {
                self.latest[n] = Some(seen);
                let text = key.open(&asked.note).unwrap();
                let line = self.cosigners[n].cosign(text, now.unsigned_abs() / 1000);
                turn.answered((200, line.as_bytes()), Timestamp::from_ms(now))
            }
        };
        assert!(!answered);
        let (state, note) = turn.end(service, &self.policy).unwrap();
        assert_eq!(state.trouble.is_some(), size < least);
        let noted = service.submit(note).unwrap();
        noted.blocking_recv().unwrap().unwrap();
        size
    }
}

/// Each of three witnesses is asked, again and again, by a log that has grown since the one before was.
#[test]
fn witnesses_reach_a_quorum_on_a_log_that_grows_between_their_turns() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Witnessed::new(&folder.path().join("b.db"));
    let mut quorums = Vec::new();
    for _ in 0..3 {
        for n in 0..3 {
            create(&log.partner);
            log.turn(n, 11, 0);
        }
        let best = witnessed(&log.partner.service, &log.policy)
            .unwrap()
            .unwrap();
        quorums.push((best.size, best.witnesses.len()));
    }
    assert_eq!(quorums, [(1, 3), (4, 3), (7, 3)]);
}

/// An auditing witness cosigns nothing older than what it has read.
#[test]
fn a_witness_that_refuses_what_others_cosigned_is_asked_for_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Witnessed::new(&folder.path().join("b.db"));
    create(&log.partner);
    log.turn(0, 11, 0);
    create(&log.partner);
    let asked = [log.turn(1, 11, 2), log.turn(1, 3600, 2)];
    assert_eq!(asked, [1, 2]);
}
