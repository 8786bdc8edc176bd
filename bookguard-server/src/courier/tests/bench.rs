//! A whole node to test with: a service on a SQLite file of its own, its outbox, a partner.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use bookguard_core::clock::Clock;
use bookguard_core::command::{Outcome, Registration};
use bookguard_core::model::{DeliveryStatus, Endpoint, EndpointId, Scopes, Timestamp};
use bookguard_core::ops::bookings::CreateBooking;
use bookguard_core::ops::endpoints::{CreateEndpoint, GetEndpoint};
use bookguard_core::ops::events::{EventWithAttempts, GetEvent};
use bookguard_core::ops::partners::RegisterPartner;
use bookguard_core::ops::{self, Action, Operation, Request};
use bookguard_core::service::{self, Config};
use bookguard_core::webhook::Secret;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::super::*;
use super::receiver::PATIENCE;

pub(super) const START_MS: i64 = 1_790_000_000_000;
pub(super) const BOOKING: &str = r#"{"talent":{"id":"t1","name":"The Night Owls"},"organizer":{"id":"o1","name":"Acme Events"},
    "eventType":"concert","eventDate":"2027-06-20T19:00:00-04:00","bookingValue":1200.50}"#;

/// One process: a service with its outbox, and the parcels for its courier.
pub(super) struct Node {
    pub service: Arc<Service>,
    pub outbox: Arc<Outbox>,
    pub parcels: Option<UnboundedReceiver<Vec<Parcel>>>,
}

impl Node {
    pub(super) fn open(folder: &Path, clock: &Arc<AtomicI64>) -> Node {
        let (outbox, parcels) = Outbox::new();
        let outbox = Arc::new(outbox);
        let (service, _) = Service::open(Config {
            db: folder.join("b.db").into(),
            create: true,
            ledger_key: None,
            guard_file: None,
            public_url: "http://127.0.0.1".to_owned(),
            registration: service::Registration::Open,
            library_policies: true,
            clock: Clock::Set(Arc::clone(clock)),
            outbox: Some(Arc::clone(&outbox)),
            // Whatever an endpoint's address was checked by when it was made, the courier checks it again.
            endpoint_rule: Arc::new(|url| Ok(url.to_owned())),
            report: |_| {},
            commit_delay: Duration::ZERO,
        })
        .unwrap();
        Node {
            service,
            outbox,
            parcels: Some(parcels),
        }
    }

    pub(super) fn courier(&mut self, claims: bool) -> Courier {
        self.reporting_courier(claims, |_| {})
    }

    pub(super) fn reporting_courier(&mut self, claims: bool, report: fn(&str)) -> Courier {
        let settings = Settings {
            claims,
            ..Settings::new(AddressRules::dev(), report)
        };
        Courier::start(
            Arc::clone(&self.service),
            Arc::clone(&self.outbox),
            self.parcels.take().unwrap(),
            settings,
        )
        .unwrap()
    }

    /// What waits for the courier, which will get it all the same, and all that comes after it.
    pub(super) async fn peek(&mut self) -> Vec<Parcel> {
        let mut parcels = self.parcels.take().unwrap();
        let waiting = parcels.recv().await.unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(waiting.clone()).unwrap();
        tokio::spawn(async move {
            while let Some(more) = parcels.recv().await {
                if sender.send(more).is_err() {
                    return;
                }
            }
        });
        self.parcels = Some(receiver);
        waiting
    }
}

/// A node, its clock, and a partner.
pub(super) struct Bench {
    pub folder: TempDir,
    pub clock: Arc<AtomicI64>,
    pub node: Node,
    partner: Authority,
    pub secret: Secret,
}

impl Bench {
    pub(super) async fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicI64::new(START_MS));
        let node = Node::open(folder.path(), &clock);
        let anonymous = Session {
            service: Arc::clone(&node.service),
            authority: Authority::Anonymous {
                address: "127.0.0.1".to_owned(),
            },
        };
        let body = r#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
        let registered: Registration = call::<RegisterPartner>(&anonymous, &[], body).await;
        Bench {
            folder,
            clock,
            node,
            partner: Authority::Partner {
                partner_id: registered.partner_id,
                api_key_id: registered.api_key_id.unwrap(),
                scopes: Scopes::all(),
            },
            secret: Secret::new(registered.signing_secret.unwrap()),
        }
    }

    pub(super) fn session(&self) -> Session {
        Session {
            service: Arc::clone(&self.node.service),
            authority: self.partner.clone(),
        }
    }

    pub(super) async fn endpoint(&self, url: &str) -> EndpointId {
        let body = format!(r#"{{"url":"{url}"}}"#);
        let made: Endpoint = call::<CreateEndpoint>(&self.session(), &[], &body).await;
        made.endpoint_id
    }

    pub(super) async fn is_enabled(&self, endpoint_id: EndpointId) -> bool {
        let endpoint: Endpoint =
            call::<GetEndpoint>(&self.session(), &[&endpoint_id.to_string()], "").await;
        endpoint.enabled
    }

    /// Records bookings, as many at a time as there are.
    pub(super) async fn book(&self, count: usize) {
        let session = self.session();
        let mut outcomes = Vec::new();
        for _ in 0..count {
            outcomes.push(submit::<CreateBooking>(&session, &[], BOOKING));
        }
        for outcome in outcomes {
            Service::outcome(outcome).await.unwrap();
        }
    }

    pub(super) async fn event(&self, event_id: &str) -> EventWithAttempts {
        call::<GetEvent>(&self.session(), &[event_id], "").await
    }

    pub(super) fn advance(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::AcqRel);
    }

    pub(super) fn set(&self, at: Timestamp) {
        self.clock.store(at.ms(), Ordering::Release);
    }
}

pub(super) fn request(path: &[&str], body: &str) -> Request {
    Request {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        body: body.as_bytes().to_vec(),
        ..Request::default()
    }
}

pub(super) fn submit<O: Operation>(
    session: &Session,
    path: &[&str],
    body: &str,
) -> oneshot::Receiver<Outcome> {
    match ops::prepare::<O>(session, &request(path, body)).unwrap() {
        Action::Write(writing) => session.service.submit(writing.command).unwrap(),
        Action::Read(_) => panic!("{} reads", O::ROUTE.id),
    }
}

pub(super) async fn call<O: Operation>(session: &Session, path: &[&str], body: &str) -> O::Output {
    let finished = match ops::prepare::<O>(session, &request(path, body)).unwrap() {
        Action::Read(read) => ops::finish::<O>(&read(session).unwrap()),
        Action::Write(writing) => {
            let answer = session.service.submit_patiently(writing.command).await;
            ops::finish_write::<O>(answer.unwrap()).unwrap()
        }
    };
    serde_json::from_slice(&finished.body).unwrap()
}

pub(super) async fn outcome(courier: &Courier, event_id: &str) -> DeliveryStatus {
    let event_id = EventId::parse(event_id).unwrap();
    let outcome = courier.outcome_of(event_id, PATIENCE).await.unwrap();
    outcome.expect("an outcome was due").retry_status
}
