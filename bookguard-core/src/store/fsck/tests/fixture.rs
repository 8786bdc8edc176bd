//! A database with everything in it, made by a service that is driven by hand.

use std::fs::Permissions;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use bookguard_test_authority as test_authority;
use sha2::{Digest as _, Sha256};

use crate::clock::Clock;
use crate::engine::answers::ForgetAnswers;
use crate::engine::command::{Command, Envelope, LeasedDelivery, Written};
use crate::evidence::ViewForm;
use crate::features;
use crate::features::api_keys::rotation::RotateApiKey;
use crate::features::bookings::BookingCreated;
use crate::features::deliveries::{ClaimDeliveries, SettleDelivery};
use crate::features::endpoints::DeleteEndpoint;
use crate::features::operator_keys::{CreateOperatorKey, RevokeOperatorKey};
use crate::features::partners::{Registration, SetQuota};
use crate::features::retention::Begin;
use crate::guard::Guard;
use crate::ledger::cosignature::Cosigner;
use crate::ledger::rollback::PublishedHead;
use crate::ledger::trust::TrustPolicy;
use crate::limits::{DAY_MS, HOUR_MS, KEY_NOTICE_MS};
use crate::model::{ApiKeyId, BookingId, Endpoint, QuotaChanges, Scopes, Timestamp};
use crate::operation::{self, Action, Operation, Request};
use crate::service::{Closing, OpenError, Service, ServiceConfig};
use crate::session::{Authority, Operator, Session};
use crate::store::conn::{Row, Statement};
use crate::store::load::event_type;
use crate::webhook::{Attempt, FailureClass, Phase};

pub(in crate::store) const START_MS: i64 = 1_790_000_000_000;

pub(in crate::store) fn open(
    db: &Path,
    clock: &Arc<AtomicI64>,
) -> Result<(Arc<Service>, Closing), OpenError> {
    Service::open(ServiceConfig {
        public_url: "https://api.example.com".to_owned(),
        operator_url: Some("https://operator.example.com".to_owned()),
        clock: Clock::Set(Arc::clone(clock)),
        verifies_endpoints: false,
        ..ServiceConfig::of(db.into())
    })
}

/// A service on a database, driven by hand.
struct Fixture {
    service: Arc<Service>,
    clock: Arc<AtomicI64>,
}

impl Fixture {
    fn session(&self, authority: Authority) -> Session {
        Session {
            service: Arc::clone(&self.service),
            authority,
            address: None,
        }
    }

    fn later(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::AcqRel);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.clock.load(Ordering::Acquire))
    }

    fn anonymous(&self) -> Session {
        let address = "127.0.0.1".to_owned();
        self.session(Authority::Anonymous { address })
    }

    fn call<O: Operation>(&self, session: &Session, path: &str, body: &str) -> O::Output {
        let path = Some(path.to_owned()).filter(|part| !part.is_empty());
        let request = Request {
            path: path.into_iter().collect(),
            body: body.as_bytes().to_vec(),
            ..Request::default()
        };
        self.run::<O>(session, &request)
    }

    fn run<O: Operation>(&self, session: &Session, request: &Request) -> O::Output {
        match operation::prepare::<O>(session, request).unwrap() {
            Action::Read { read, .. } => {
                serde_json::from_slice(&read(session).unwrap().body).unwrap()
            }
            Action::Watch(watch) => {
                let look = (watch.look)(session).unwrap();
                serde_json::from_slice(&look.finished.body).unwrap()
            }
            Action::Write(writing) => {
                for before in writing.before {
                    let outcome = self.service.submit(before).unwrap().blocking_recv();
                    assert!(outcome.unwrap().is_ok());
                }
                let answer = self.service.submit(writing.command).unwrap();
                match answer.blocking_recv().unwrap().unwrap() {
                    Written::Fresh(reply) => reply,
                    Written::Replayed(body) => serde_json::from_slice(&body).unwrap(),
                }
            }
        }
    }

    fn tell<R: Send + 'static>(&self, command: impl Command<Reply = R>) {
        self.answer(Envelope::new(self.now(), command));
    }

    /// Has the latest checkpoint stamped.
    fn stamp(&self) {
        const INTERVAL_MS: i64 = 600_000;
        let of = features::timestamps::due(&self.service, INTERVAL_MS).unwrap();
        let of = of.expect("something was logged");
        let turn = features::timestamps::take_turn(&self.service, INTERVAL_MS);
        assert_eq!(self.answer(turn), Some(1));
        let authority = test_authority::Authority::new(&test_authority::Chain::default());
        let request = bookguard_time::Request::new(of.imprint, [1; 8]);
        let response = authority.answer(&request.to_der(), self.now().ms());
        let roots = bookguard_time::Roots::from_pem(authority.root_pem().as_bytes()).unwrap();
        let stamp = request.verify(&response, &roots, self.now().ms()).unwrap();
        let stamped = (&stamp, response);
        let record = features::timestamps::record(&self.service, of, stamped, INTERVAL_MS);
        assert!(self.answer(record));
    }

    /// Has the log mapped.
    fn map(&self) {
        let epoch = features::epochs::due(&self.service, 0).unwrap();
        let record = features::epochs::record(&self.service, epoch.expect("something was logged"));
        assert!(self.answer(record));
    }

    fn answer<R: Send + 'static>(&self, command: Envelope<R>) -> R {
        match self.service.submit(command).unwrap().blocking_recv() {
            Ok(Ok(Written::Fresh(reply))) => reply,
            _ => panic!("it was refused"),
        }
    }

    fn partner(&self) -> Session {
        self.registered("Acme").0
    }

    fn registered(&self, name: &str) -> (Session, Registration) {
        let name = serde_json::Value::from(name);
        let body =
            format!(r#"{{"name":{name},"businessType":"venue","contactEmail":"a@example.com"}}"#);
        let registered: Registration =
            self.call::<features::partners::RegisterPartner>(&self.anonymous(), "", &body);
        let session = self.session(Authority::Partner {
            partner_id: registered.partner_id,
            api_key_id: registered.api_key_id.unwrap(),
            scopes: Scopes::all(),
            suspended: false,
            signed_in: None,
        });
        (session, registered)
    }

    fn book(&self, session: &Session, more: &str) -> BookingId {
        let body = format!(
            r#"{{"talent":{{"id":"t1","name":"The Night Owls"}},"organizer":{{"id":"o1","name":"Acme Events"}},
                "eventType":"concert","eventDate":"2027-06-20T19:00:00-04:00","bookingValue":1200.50{more}}}"#
        );
        let request = Request {
            body: body.into_bytes(),
            idempotency_key: Some(self.now().to_string()),
            ..Request::default()
        };
        let created: BookingCreated =
            self.run::<features::bookings::CreateBooking>(session, &request);
        created.booking_id
    }

    fn put(&self, session: &Session, id: &str, late: u32) {
        let body = format!(r#"{{"organizer":{{"late":{{"refundBps":{late}}}}}}}"#);
        self.call::<features::policies::PutPolicy>(session, id, &body);
    }

    fn protect(&self, session: &Session, id: &BookingId) {
        self.call::<features::bookings::ProtectBooking>(session, &id.to_string(), "");
    }

    fn accept(&self, session: &Session, id: &BookingId, party: &str, more: &str) {
        let id = id.to_string();
        let told = self.call::<features::acceptances::GetDisclosure>(session, &id, "");
        let (at, hash) = (self.now(), told.current.disclosure_hash);
        let body = format!(
            r#"{{"party":"{party}","method":"checkbox","at":"{at}","disclosureHash":"{hash}"{more}}}"#
        );
        self.call::<features::acceptances::AcceptTerms>(session, &id, &body);
    }

    fn reschedule(&self, session: &Session, id: &BookingId, date: &str) {
        let body = format!(
            r#"{{"eventDate":"{date}","agreedBy":["talent","organizer"],"timeZone":"Europe/Berlin"}}"#
        );
        self.call::<features::reschedules::RescheduleBooking>(session, &id.to_string(), &body);
    }

    /// A booking that was protected, rescheduled, canceled, left to a person and decided.
    fn resolve(&self, session: &Session) {
        let id = self.book(session, r#","policyId":"firm""#);
        self.protect(session, &id);
        self.reschedule(session, &id, "2027-07-20");
        self.accept(session, &id, "organizer", "");
        self.later(HOUR_MS);
        let body = r#"{"canceledBy":"talent","reason":"force_majeure","note":"no flights"}"#;
        let pending =
            self.call::<features::cancellations::CancelBooking>(session, &id.to_string(), body);
        self.later(HOUR_MS);
        let body = r#"{"refund":1000.25,"decidedBy":"disputes","rationale":"A storm indeed."}"#;
        let pending_id = pending.resolution_id.to_string();
        self.call::<features::cancellations::DecideResolution>(session, &pending_id, body);
    }

    /// Makes a booking that the endpoint never hears of, so that the last of ten attempts suspends it.
    fn suspend(&self, session: &Session, endpoint: &Endpoint) {
        self.book(session, "");
        for hours in [0, 15, 15, 15, 15, 15, 15, 15, 25, 25] {
            self.later(hours * HOUR_MS);
            assert_eq!(self.attempt(endpoint, Some(FailureClass::Http5xx)), 1);
        }
        let id = endpoint.endpoint_id.to_string();
        let now = self.call::<features::endpoints::GetEndpoint>(session, &id, "");
        assert_eq!(now.status, crate::model::EndpointStatus::Suspended);
    }

    /// Tells of the only key that will soon expire.
    fn tell_of(&self, api_key_id: ApiKeyId) {
        let due = features::key_notices::due(&self.service, None).unwrap();
        assert_eq!(
            due.iter().map(|(_, id, _)| *id).collect::<Vec<_>>(),
            [api_key_id]
        );
        self.answer(features::key_notices::tell(&self.service, due[0]));
    }

    /// Delivers everything again that was not received, and counts what is at an endpoint, with attempts before and
    /// after.
    fn recover(&self, session: &Session, (wide, narrow): (&Endpoint, &Endpoint)) {
        assert_eq!(self.attempt(narrow, Some(FailureClass::Http5xx)), 2);
        self.later(HOUR_MS);
        let body = format!(r#"{{"since":"{}"}}"#, Timestamp::from_ms(START_MS));
        let real = self.call::<features::recoveries::RecoverEvents>(session, "", &body);
        assert_eq!((real.recovered, real.deliveries), (3, 3), "{real:?}");
        self.later(HOUR_MS);
        assert!(self.attempt(wide, Some(FailureClass::Http5xx)) > 1);
        let since = Timestamp::from_ms(START_MS + 3 * HOUR_MS);
        let body = format!(
            r#"{{"since":"{since}","statuses":["failed"],"endpointId":"{}","dryRun":true}}"#,
            narrow.endpoint_id
        );
        let counted = self.call::<features::recoveries::RecoverEvents>(session, "", &body);
        assert_eq!(
            (counted.recovered, counted.dry_run),
            (2, true),
            "{counted:?}"
        );
    }

    /// Adds an evidence item with a file.
    fn add(&self, session: &Session, id: &BookingId) {
        use features::items::files::{PutItemFile, digest_of};
        let file = b"what was agreed\n".to_vec();
        let body = format!(
            r#"{{"kind":"contract","title":"Contract","sha256":"{}"}}"#,
            digest_of(&file)
        );
        let id = id.to_string();
        let added = self.call::<features::items::AddEvidenceItem>(session, &id, &body);
        let request = Request {
            path: vec![id, added.item.item_id.to_string()],
            file: Arc::new(file.as_slice().into()),
            ..Request::default()
        };
        self.run::<PutItemFile>(session, &request);
    }

    /// Makes a share that is viewed twice, and one that is revoked.
    fn share(&self, session: &Session, id: &BookingId) {
        use features::shares::{CreateShare, RecordView, RevokeShare};
        let body = r#"{"withhold":["ip"],"note":"the bank"}"#;
        let viewed = self.call::<CreateShare>(session, &id.to_string(), body);
        for form in [ViewForm::Page, ViewForm::Pdf] {
            self.tell(RecordView {
                share_id: viewed.share_id,
                form,
            });
        }
        let revoked = self.call::<CreateShare>(session, &id.to_string(), "");
        self.tell(RevokeShare {
            booking_id: *id,
            share_id: revoked.share_id,
        });
    }

    /// Places two holds on a booking, and releases one.
    fn hold(&self, session: &Session, id: &BookingId) {
        use features::holds::{PlaceHold, ReleaseHold};
        let body = r#"{"reason":"Chargeback","reference":"CB-1"}"#;
        self.call::<PlaceHold>(session, &id.to_string(), body);
        let over = self.call::<PlaceHold>(session, &id.to_string(), body);
        let request = Request {
            path: vec![id.to_string(), over.hold_id.to_string()],
            ..Request::default()
        };
        self.run::<ReleaseHold>(session, &request);
    }

    /// Takes turns with two witnesses, of which one may be away.
    fn witness(&self, away: Option<&str>) {
        use features::cosignatures::{WitnessTurn, claim, look, places};
        let named = [("one", 1), ("two", 2)].map(|(name, n)| {
            let cosigner = Cosigner::from_seed(&format!("{name}.example.com"), &[n; 32]);
            (name, cosigner.unwrap())
        });
        let lines = named.iter().map(|(name, cosigner)| {
            let key = cosigner.verifier();
            format!("witness {name} {key} https://{name}.example.com\n")
        });
        let policy = lines.collect::<String>() + "group all all one two\nquorum all\n";
        let policy = TrustPolicy::parse(&policy).unwrap();
        for (place, (name, cosigner)) in places(&policy).into_iter().zip(&named) {
            let (head, _) = look(&self.service).unwrap();
            let taken = claim(&self.service, &place, &head);
            let taken = self.service.submit_and_wait(taken).unwrap();
            let Written::Fresh(Some(state)) = taken else {
                panic!("{taken:?}");
            };
            let mut turn = WitnessTurn::new(place, state);
            turn.request(&self.service, &policy).unwrap().unwrap();
            let text = &head.checkpoint[..=head.checkpoint.find("\n\n").unwrap()];
            let time = u64::try_from(self.now().ms() / 1000).unwrap();
            let line = cosigner.cosign(text, time);
            match away == Some(*name) {
                true => turn.unanswered("it cannot be reached".to_owned()),
                false => assert!(!turn.answered((200, line.as_bytes()), self.now())),
            }
            let (_, note) = turn.end(&self.service, &policy).unwrap();
            self.service.submit_and_wait(note).unwrap();
        }
    }

    /// Begins a console session by a link and one with the key, which ends; leaves a link unopened.
    fn console(&self, session: &Session) {
        use features::console::{CreateConsoleLink, OpenConsoleLink, StartConsoleSession, find};
        let link = |body| self.call::<CreateConsoleLink>(session, "", body).url;
        let opened = link(r#"{"person":"Żółć 😀","scopes":["bookings:read"]}"#);
        let (_, token) = opened.rsplit_once('/').unwrap();
        let body = format!(r#"{{"token":"{token}"}}"#);
        self.call::<OpenConsoleLink>(&self.anonymous(), "", &body);
        let own = self.call::<StartConsoleSession>(session, "", "");
        let found = find(&self.service, &own.token).unwrap().unwrap();
        let signed_in = self.session(found.authority);
        self.call::<features::console::SignOut>(&signed_in, "", "");
        link(r#"{"person":"Bob"}"#);
    }

    /// Does in the operator's console what [`Self::console`] does in the partner's.
    fn operator_console(&self, database: &Session) {
        use features::operator_sessions::{
            CreateOperatorLink, OpenOperatorLink, SignOutOperator, StartOperatorSession, find,
        };
        let body = r#"{"name":"people"}"#;
        let key = self.call::<CreateOperatorKey>(database, "", body);
        let id = key.operator_key_id;
        let link = |person: &str| {
            let body = format!(r#"{{"person":"{person}","operatorKeyId":"{id}"}}"#);
            self.call::<CreateOperatorLink>(database, "", &body).url
        };
        let opened = link("Żółć 😀");
        let (_, token) = opened.rsplit_once('/').unwrap();
        let body = format!(r#"{{"token":"{token}"}}"#);
        self.call::<OpenOperatorLink>(&self.anonymous(), "", &body);
        let holder = self.session(Authority::Administrator {
            by: Operator::Key {
                operator_key_id: id,
                name: key.name,
                signed_in: None,
            },
            partner_id: None,
        });
        let own = self.call::<StartOperatorSession>(&holder, "", "");
        let signed_in = self.session(find(&self.service, &own.token).unwrap().unwrap());
        self.call::<SignOutOperator>(&signed_in, "", "");
        link("Bob");
    }

    fn endpoint(&self, session: &Session, body: &str) -> Endpoint {
        self.call::<features::endpoints::CreateEndpoint>(session, "", body)
            .endpoint
    }

    fn change(&self, session: &Session, endpoint: &Endpoint, body: &str) {
        let id = endpoint.endpoint_id.to_string();
        self.call::<features::endpoints::update::UpdateEndpoint>(session, &id, body);
    }

    /// Makes the guard remember entries that the database does not hold, and accepts their loss.
    fn lose(&self, entries: u64) {
        let head = self.service.head().unwrap().seen();
        let published = PublishedHead {
            size: head.size + entries,
            ..head
        };
        let guard = Guard::open(self.service.guard_file().to_owned()).unwrap();
        guard.note(None, published);
        // A reader of another process would see it with the next head it notes. The writer looks by itself.
        let forget = Envelope::new(self.now(), ForgetAnswers);
        let refused = self.service.submit(forget).unwrap().blocking_recv();
        let refused = refused.unwrap().unwrap_err();
        assert_eq!(refused.code, "ledger_rolled_back");
        let rollback = self.service.rollback().unwrap().unwrap();
        self.answer(features::ledger::accept_rollback(&self.service, rollback).unwrap());
        assert_eq!(self.service.rollback().unwrap(), None);
    }

    /// Takes what is due at an endpoint and ends each attempt as given.
    fn attempt(&self, endpoint: &Endpoint, class: Option<FailureClass>) -> usize {
        let lease = 7;
        self.tell(ClaimDeliveries {
            lease,
            endpoints: vec![(endpoint.endpoint_id, 10)],
        });
        let due: Vec<LeasedDelivery> = {
            let mut conn = self.service.store().reader().unwrap();
            let sql = "SELECT e.id, e.partner_id, e.booking_id, e.type, e.seq, e.body, d.attempts FROM delivery d \
                       JOIN event e ON e.id = d.event_id WHERE d.endpoint_id = $1 AND d.lease = $2 ORDER BY d.event_id";
            let args = vec![(&endpoint.endpoint_id).into(), lease.into()];
            let rows = conn.one(Statement::new(sql, args)).unwrap();
            let delivery = |row: &Row| LeasedDelivery {
                event_id: row.id(0).unwrap(),
                partner_id: row.id(1).unwrap(),
                endpoint_id: endpoint.endpoint_id,
                booking_id: row.maybe_id(2).unwrap(),
                event_type: event_type(row.int(3).unwrap()).unwrap(),
                seq: row.size(4).unwrap(),
                body: row.blob(5).unwrap().into(),
                lease,
                until: self.now(),
                attempts: u32::try_from(row.size(6).unwrap()).unwrap(),
                begun: self.now(),
                per_second: None,
                failing: false,
            };
            rows.rows.iter().map(delivery).collect()
        };
        for delivery in &due {
            let attempt = answered(self.now(), class);
            self.tell(SettleDelivery {
                jitter: 1 << 63,
                ..SettleDelivery::of(delivery, attempt, self.now()).unwrap()
            });
        }
        due.len()
    }
}

fn answered(at: Timestamp, class: Option<FailureClass>) -> Attempt {
    let status_code = match class {
        None => Some(200),
        Some(FailureClass::Gone) => Some(410),
        Some(FailureClass::Http5xx) => Some(503),
        Some(_) => None,
    };
    let text = status_code.map_or("", |_| "fine");
    Attempt {
        started_at: at.ms(),
        duration_ms: 20,
        phase: if status_code.is_some() {
            Phase::Body
        } else {
            Phase::Connect
        },
        class,
        detail: None,
        status_code,
        response_head: text.to_owned(),
        response_len: text.len() as u32,
        response_sha256: status_code.map(|_| hex::encode(Sha256::digest(text))),
        retry_after_ms: None,
        uncharged: false,
        url: None,
    }
}

/// A database with a partner that booked after each of these steps of the clock.
pub(super) fn ahead(db: &Path, pauses: &[i64]) -> (Arc<Service>, Closing) {
    let clock = Arc::new(AtomicI64::new(START_MS));
    let (service, closing) = open(db, &clock).unwrap();
    let fixture = Fixture { service, clock };
    let partner = fixture.partner();
    for pause in pauses {
        fixture.later(*pause);
        fixture.book(&partner, "");
    }
    (fixture.service, closing)
}

/// A partner one of whose endpoints was suspended, and another one heard of it.
fn suspended(fixture: &Fixture) -> (Session, Endpoint) {
    let partner = fixture.partner();
    let failing = fixture.endpoint(&partner, r#"{"url":"https://l.example.com/"}"#);
    let told = fixture.endpoint(
        &partner,
        r#"{"url":"https://m.example.com/","events":["endpoint.suspended","api_key.expiring"]}"#,
    );
    fixture.later(HOUR_MS);
    fixture.suspend(&partner, &failing);
    assert_eq!(fixture.attempt(&told, None), 1);
    (partner, failing)
}

/// A partner of the past. Its events were delivered (one of them after a failure), refused as gone, and meant for an
/// endpoint that is deleted; one still waits. [`prune`] prunes all but the last.
fn past(fixture: &Fixture) {
    let past = fixture.partner();
    fixture.later(HOUR_MS);
    let all = fixture.endpoint(&past, r#"{"url":"https://g.example.com/"}"#);
    let gone = fixture.endpoint(&past, r#"{"url":"https://h.example.com/"}"#);
    let deleted = fixture.endpoint(&past, r#"{"url":"https://i.example.com/"}"#);
    fixture.later(HOUR_MS);
    let told = fixture.book(&past, "");
    assert_eq!(fixture.attempt(&gone, Some(FailureClass::Gone)), 1);
    fixture.protect(&past, &told);
    assert_eq!(fixture.attempt(&all, Some(FailureClass::Http5xx)), 2);
    fixture.later(HOUR_MS);
    assert_eq!(fixture.attempt(&all, None), 2);
    fixture.tell(DeleteEndpoint {
        partner_id: past.partner_id().unwrap(),
        endpoint_id: deleted.endpoint_id,
        before: None,
    });
    fixture.later(HOUR_MS);
    let late = fixture.book(&past, "");
    fixture.endpoint(&past, r#"{"url":"https://j.example.com/"}"#);
    fixture.later(HOUR_MS);
    fixture.protect(&past, &late);
    assert_eq!(fixture.attempt(&all, None), 2);
}

/// Prunes the events before `before` and returns their number.
fn prune(fixture: &Fixture, before: Timestamp) -> u64 {
    let found = features::retention::look(&fixture.service, before, Begin::Next).unwrap();
    assert_eq!((found.waiting, found.next), (1, None));
    fixture.answer(found.command(fixture.now()).unwrap())
}

/// What only those who made an [`everything_and_more`] can know of it.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::store) struct Known {
    partner_id: String,
    api_key: String,
    bookings: usize,
    vkey: String,
    packets: Vec<String>,
}

/// Everything, and what is awkward: names in many scripts and with quotes, a suspended endpoint, and a partner whose key and
/// packets are returned.
pub(in crate::store) fn everything_and_more(db: &Path) -> Known {
    let clock = everything(db);
    let (service, closing) = open(db, &clock).unwrap();
    let fixture = Fixture { service, clock };
    let (session, registered) = fixture.registered("Żółć & 漢字 😀 'o\"o'");
    let more = r#","metadata":{"note":"it's \"so\"; -- $1 \\ %s","ref":"αβγ 😀"}"#;
    let first = fixture.book(&session, more);
    fixture.later(HOUR_MS);
    let booked = [first, fixture.book(&session, "")];
    let failing = fixture.endpoint(&session, r#"{"url":"https://z.example.com/"}"#);
    for id in &booked {
        fixture.accept(&session, id, "talent", r#","userAgent":"Ünïcode/1.0""#);
        fixture.protect(&session, id);
        fixture.reschedule(&session, id, "2027-08-20T20:00");
    }
    let is_suspended = || {
        let id = failing.endpoint_id.to_string();
        let now = fixture.call::<features::endpoints::GetEndpoint>(&session, &id, "");
        now.status == crate::model::EndpointStatus::Suspended
    };
    // Deliveries are given up before that, so there must be new ones.
    for _ in 0..20 {
        if is_suspended() {
            break;
        }
        fixture.later(12 * HOUR_MS);
        fixture.book(&session, "");
        fixture.attempt(&failing, Some(FailureClass::Http5xx));
    }
    assert!(is_suspended());
    let packets = booked.iter().map(|id| {
        let request = Request {
            path: vec![id.to_string()],
            ..Request::default()
        };
        let asked = operation::prepare::<features::evidence::GetEvidence>(&session, &request);
        let Action::Read { read, .. } = asked.unwrap() else {
            panic!("a packet is read")
        };
        String::from_utf8(read(&session).unwrap().body.into()).unwrap()
    });
    let known = Known {
        partner_id: registered.partner_id.to_string(),
        api_key: registered.api_key.unwrap(),
        bookings: booked.len(),
        packets: packets.collect(),
        vkey: fixture.service.head().unwrap().vkey,
    };
    drop((session, fixture));
    closing.wait();
    known
}

/// A database with two partners and bookings in every state. Some were accepted, one was rescheduled twice, and one was
/// resolved by a person. It has deliveries in every phase, one given up and accepted later; a gone and a deleted
/// endpoint; a recovery and one that only counted; a revoked key; remembered answers; a log that continued after two
/// losses; keys that were rotated or will soon expire; a third partner whose events were pruned; and a fourth with an endpoint that was suspended
/// twice. The steps are hours apart.
pub(in crate::store) fn everything(db: &Path) -> Arc<AtomicI64> {
    let (files, now) = &*MADE;
    for (end, bytes, permissions) in files {
        let mut file = db.as_os_str().to_owned();
        file.push(end);
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, permissions.clone()).unwrap();
    }
    Arc::new(AtomicI64::new(*now))
}

/// How a file's name ends, what is in it, and who may read it.
type Kept = (String, Vec<u8>, Permissions);

/// The files of the database with everything, and the time at its end. It is made once, because that takes longer than many a test
/// that begins with it.
static MADE: LazyLock<(Vec<Kept>, i64)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let clock = make_everything(&folder.path().join("b.db"));
    let files = std::fs::read_dir(folder.path()).unwrap();
    let files = files.filter_map(|file| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        let permissions = file.metadata().unwrap().permissions();
        Some((name.strip_prefix("b.db")?.to_owned(), bytes, permissions))
    });
    (files.collect(), clock.load(Ordering::Acquire))
});

fn make_everything(db: &Path) -> Arc<AtomicI64> {
    let clock = Arc::new(AtomicI64::new(START_MS));
    let (service, closing) = open(db, &clock).unwrap();
    let fixture = Fixture { service, clock };
    fixture.later(HOUR_MS);
    let failing = suspended(&fixture);
    past(&fixture);
    fixture.later(HOUR_MS);
    let today = fixture.now();
    let (acme, other) = (fixture.partner(), fixture.partner());
    fixture.later(HOUR_MS);
    fixture.put(&acme, "house", 5000);
    fixture.put(&other, "house", 0);
    fixture.later(HOUR_MS);
    fixture.put(&acme, "house", 2500);
    fixture.put(&acme, "gala", 0);
    let settings = r#"{"defaultPolicies":{"Concert":"house","*":"talent_standard"},"timeZone":"Europe/Vienna"}"#;
    fixture.call::<features::partners::UpdatePartner>(&acme, "", settings);
    fixture.tell(SetQuota {
        partner_id: acme.partner_id().unwrap(),
        changes: QuotaChanges {
            bookings: Some(Some(100)),
            ..QuotaChanges::default()
        },
    });
    let quiet = fixture.book(&acme, "");
    let all = fixture.endpoint(&acme, r#"{"url":"https://a.example.com/"}"#);
    let some = fixture.endpoint(
        &acme,
        r#"{"url":"https://b.example.com/","events":["booking.protected"],"description":"b"}"#,
    );
    let doomed = fixture.endpoint(&acme, r#"{"url":"https://c.example.com/"}"#);
    let ended = fixture.endpoint(&acme, r#"{"url":"https://d.example.com/"}"#);
    let theirs = fixture.endpoint(
        &other,
        r#"{"url":"https://e.example.com/","ownSecret":true}"#,
    );
    let narrowed = fixture.endpoint(&acme, r#"{"url":"https://f.example.com/"}"#);
    fixture.later(HOUR_MS);
    let narrow = r#"{"events":["booking.protected"],"rateLimitPerSecond":5}"#;
    fixture.change(&acme, &narrowed, narrow);
    fixture.later(HOUR_MS);
    let full = fixture.book(
        &acme,
        r#","policyId":"moderate","timeZone":"Europe/Berlin","amountPaid":12.34,"metadata":{"ref":"A-1"}"#,
    );
    fixture.book(&other, r#","currency":"EUR""#);
    assert_eq!(fixture.attempt(&all, Some(FailureClass::Http5xx)), 1);
    assert_eq!(fixture.attempt(&doomed, Some(FailureClass::Gone)), 1);
    assert_eq!(fixture.attempt(&theirs, Some(FailureClass::Http5xx)), 1);
    fixture.later(HOUR_MS);
    fixture.tell(DeleteEndpoint {
        partner_id: acme.partner_id().unwrap(),
        endpoint_id: ended.endpoint_id,
        before: None,
    });
    fixture.later(HOUR_MS);
    assert_eq!(
        fixture.attempt(&all, Some(FailureClass::ConnectionRefused)),
        1
    );
    fixture.lose(3);
    fixture.later(HOUR_MS);
    assert_eq!(fixture.attempt(&all, None), 1);
    fixture.later(HOUR_MS);
    fixture.lose(1);
    fixture.accept(
        &acme,
        &full,
        "organizer",
        r#","ip":"203.0.113.7","userAgent":"Browser/1.0""#,
    );
    fixture.protect(&acme, &full);
    fixture.reschedule(&acme, &quiet, "2027-08-20T20:00");
    fixture.protect(&acme, &quiet);
    fixture.accept(&acme, &quiet, "talent", "");
    fixture.reschedule(&acme, &quiet, "2027-09-20T20:00:00+02:00");
    fixture.later(HOUR_MS);
    assert_eq!(fixture.attempt(&some, None), 2);
    fixture.tell(ClaimDeliveries {
        lease: 9,
        endpoints: vec![(all.endpoint_id, 1), (theirs.endpoint_id, 1)],
    });
    let spare = fixture.call::<features::api_keys::CreateApiKey>(&acme, "", r#"{"name":"spare"}"#);
    fixture.call::<features::api_keys::RevokeApiKey>(&acme, &spare.api_key_id.to_string(), "");
    // A key that expires, and the one that it replaced, which was used.
    let body = format!(
        r#"{{"expiresAt":"{}"}}"#,
        fixture.now().plus_ms(90 * DAY_MS)
    );
    let expiring = fixture.call::<features::api_keys::CreateApiKey>(&acme, "", &body);
    let used = [(expiring.api_key_id, fixture.now())];
    fixture.service.note_key_uses(&used).unwrap();
    fixture.call::<RotateApiKey>(&acme, &expiring.api_key_id.to_string(), "");
    let operator = fixture.session(Authority::Administrator {
        by: Operator::Here { user: None },
        partner_id: None,
    });
    for name in ["console", "retired"] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        let made = fixture.call::<CreateOperatorKey>(&operator, "", &body);
        if name == "retired" {
            let id = made.operator_key_id.to_string();
            fixture.call::<RevokeOperatorKey>(&operator, &id, "");
        }
    }
    fixture.operator_console(&operator);
    drop(operator);
    fixture.console(&acme);
    fixture.share(&acme, &full);
    fixture.hold(&acme, &full);
    fixture.witness(None);
    fixture.add(&acme, &full);
    let listed = fixture.call::<features::bookings::ListBookings>(&other, "", "");
    let id = listed.data[0].booking_id.to_string();
    let waiting = fixture.call::<features::events::ListBookingEvents>(&other, &id, "");
    assert_eq!(
        waiting.webhook_events[0].deliveries[0].endpoint_id, theirs.endpoint_id,
        "and to nobody else"
    );
    assert_eq!(waiting.webhook_events[0].deliveries.len(), 1);
    // Given up, but accepted in the end.
    let late = fixture.book(&other, "").to_string();
    let too_large = Some(FailureClass::PayloadTooLarge);
    assert_eq!(fixture.attempt(&theirs, too_large), 1);
    let told = fixture.call::<features::events::ListBookingEvents>(&other, &late, "");
    let event_id = told.webhook_events[0].event_id.to_string();
    fixture.call::<features::events::RetryEvent>(&other, &event_id, "");
    assert_eq!(fixture.attempt(&theirs, None), 1);
    fixture.later(HOUR_MS);
    fixture.recover(&acme, (&all, &narrowed));
    fixture.later(HOUR_MS);
    let listing = fixture.endpoint(
        &other,
        r#"{"url":"https://k.example.com/","events":["booking.rescheduled","terms.accepted","resolution.decided"]}"#,
    );
    fixture.later(HOUR_MS);
    fixture.resolve(&other);
    assert_eq!(fixture.attempt(&listing, Some(FailureClass::Http5xx)), 3);
    fixture.later(HOUR_MS);
    assert_eq!(fixture.attempt(&listing, None), 3);
    fixture.later(48 * HOUR_MS);
    assert_eq!(prune(&fixture, today), 5);
    fixture.change(&failing.0, &failing.1, r#"{"enabled":true}"#);
    let week = KEY_NOTICE_MS;
    let body = format!(
        r#"{{"expiresAt":"{}"}}"#,
        fixture.now().plus_ms(week + HOUR_MS)
    );
    let key = fixture.call::<features::api_keys::CreateApiKey>(&failing.0, "", &body);
    fixture.suspend(&failing.0, &failing.1);
    fixture.tell_of(key.api_key_id);
    fixture.change(&failing.0, &failing.1, r#"{"enabled":true}"#);
    let asked = r#"{"party":"everybody","legalBasis":"objection","requestRef":"R-1"}"#;
    fixture.call::<features::erasures::EraseValues>(&other, &late, asked);
    fixture.witness(Some("two"));
    fixture.stamp();
    fixture.map();
    fixture.later(HOUR_MS);
    fixture.book(&other, "");
    fixture.stamp();
    fixture.map();
    let clock = Arc::clone(&fixture.clock);
    drop((acme, other, failing, fixture));
    closing.wait();
    clock
}
