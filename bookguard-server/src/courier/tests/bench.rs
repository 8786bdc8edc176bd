//! A whole node for tests: a service on a database of its own, its outbox, a partner.
//!
//! Calls to the database run on a thread that may block, because a PostgreSQL connection drives a runtime of its own.

use std::sync::atomic::{AtomicI64, Ordering};

use bookguard_core::clock::Clock;
use bookguard_core::engine::command::{CommandOutcome, Envelope};
use bookguard_core::features::bookings::CreateBooking;
use bookguard_core::features::endpoints::{CreateEndpoint, GetEndpoint};
use bookguard_core::features::events::{EventWithAttempts, GetEvent, RetryStatus, retry_outcome};
use bookguard_core::features::partners::RegisterPartner;
use bookguard_core::features::partners::Registration;
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::model::{Endpoint, EndpointId, Scopes, Timestamp};
use bookguard_core::operation::{self, Action, Finished, Operation, Request};
use bookguard_core::service::ServiceConfig;
use bookguard_core::session::{Authority, Operator, Session};
use bookguard_core::store::Database;
use bookguard_core::webhook::Secret;
use bookguard_test_postgres::Postgres;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::super::*;
use super::receiver::{PATIENCE, Receiver, Reply};

pub(super) const START_MS: i64 = 1_790_000_000_000;
pub(super) const BOOKING: &str = r#"{"talent":{"id":"t1","name":"The Night Owls"},"organizer":{"id":"o1","name":"Acme Events"},
    "eventType":"concert","eventDate":"2027-06-20T19:00:00-04:00","bookingValue":1200.50}"#;

/// One process: a service, its outbox, and the deliveries for its courier.
pub(super) struct Node {
    pub service: Arc<Service>,
    pub outbox: Arc<Outbox>,
    pub deliveries: Option<UnboundedReceiver<Vec<LeasedDelivery>>>,
}

/// A database for any number of nodes, and a folder for its key. Both are removed when this is dropped.
pub(super) struct SharedDatabase {
    pub folder: TempDir,
    db: Database,
    server: Option<(&'static Postgres, String)>,
}

impl SharedDatabase {
    pub(super) fn file() -> SharedDatabase {
        let folder = tempfile::tempdir().unwrap();
        SharedDatabase {
            db: folder.path().join("b.db").into(),
            folder,
            server: None,
        }
    }

    /// A database on PostgreSQL, if it is installed.
    pub(super) async fn server() -> Option<SharedDatabase> {
        waiting(|| {
            let postgres = Postgres::shared()?;
            let url = postgres.fresh_database();
            Some(SharedDatabase {
                db: url.as_str().into(),
                folder: tempfile::tempdir().unwrap(),
                server: Some((postgres, url)),
            })
        })
        .await
    }
}

impl Drop for SharedDatabase {
    fn drop(&mut self) {
        if let Some((postgres, url)) = self.server.take()
            && !std::thread::panicking()
        {
            postgres.drop_database(&url);
        }
    }
}

/// Runs work on a thread that may block.
pub(super) async fn waiting<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

impl Node {
    pub(super) async fn open(place: &SharedDatabase, clock: &Arc<AtomicI64>) -> Node {
        let (outbox, deliveries) = Outbox::new();
        let outbox = Arc::new(outbox);
        let key = place.folder.path().join("ledger.key");
        let config = ServiceConfig {
            ledger_key: Some(LedgerKeySource::File(key)),
            clock: Clock::Set(Arc::clone(clock)),
            outbox: Some(Arc::clone(&outbox)),
            verifies_endpoints: false,
            ..ServiceConfig::of(place.db.clone())
        };
        let (service, _) = waiting(|| Service::open(config)).await.unwrap();
        Node {
            service,
            outbox,
            deliveries: Some(deliveries),
        }
    }

    pub(super) fn courier(&mut self, claims: bool) -> Courier {
        let settings = CourierConfig {
            claims,
            ..CourierConfig::new(AddressRules::dev())
        };
        Courier::start(
            Arc::clone(&self.service),
            Arc::clone(&self.outbox),
            self.deliveries.take().unwrap(),
            settings,
        )
        .unwrap()
    }

    /// Returns the deliveries that wait for the courier. It still gets them, and all later ones.
    pub(super) async fn peek(&mut self) -> Vec<LeasedDelivery> {
        let mut deliveries = self.deliveries.take().unwrap();
        let waiting = deliveries.recv().await.unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(waiting.clone()).unwrap();
        tokio::spawn(async move {
            while let Some(more) = deliveries.recv().await {
                if sender.send(more).is_err() {
                    return;
                }
            }
        });
        self.deliveries = Some(receiver);
        waiting
    }
}

/// A node, its clock, and a partner for tests.
pub(super) struct Bench {
    pub clock: Arc<AtomicI64>,
    pub node: Node,
    partner: Authority,
    pub secret: Secret,
    pub place: SharedDatabase,
}

impl Bench {
    pub(super) async fn new() -> Bench {
        Bench::on(SharedDatabase::file()).await
    }

    pub(super) async fn on(place: SharedDatabase) -> Bench {
        let clock = Arc::new(AtomicI64::new(START_MS));
        let node = Node::open(&place, &clock).await;
        let (partner, secret) = register(&node).await;
        Bench {
            clock,
            node,
            place,
            partner,
            secret,
        }
    }

    /// Registers another partner.
    pub(super) async fn other_partner(&self) -> Session {
        let (authority, _) = register(&self.node).await;
        session(&self.node.service, authority)
    }

    pub(super) fn session(&self) -> Session {
        self.session_on(&self.node)
    }

    /// A session of the partner on another node.
    pub(super) fn session_on(&self, node: &Node) -> Session {
        session(&node.service, self.partner.clone())
    }

    /// Opens another node on the same database, with this clock.
    pub(super) async fn other_node(&self, clock: &Arc<AtomicI64>) -> Node {
        Node::open(&self.place, clock).await
    }

    pub(super) async fn endpoint(&self, url: &str) -> EndpointId {
        endpoint_of(&self.session(), url).await
    }

    /// A receiver that replies like this, and its endpoint.
    pub(super) async fn receiver(&self, replies: &[Reply]) -> (Receiver, EndpointId) {
        let receiver = Receiver::start(replies).await;
        let endpoint_id = self.endpoint(&receiver.url).await;
        (receiver, endpoint_id)
    }

    pub(super) async fn is_enabled(&self, endpoint_id: EndpointId) -> bool {
        let endpoint: Endpoint =
            call::<GetEndpoint>(&self.session(), &[&endpoint_id.to_string()], "").await;
        endpoint.enabled
    }

    /// Records `count` bookings.
    pub(super) async fn book(&self, count: usize) {
        book(&self.session(), count).await;
    }

    pub(super) async fn event(&self, event_id: &str) -> EventWithAttempts {
        call::<GetEvent>(&self.session(), &[event_id], "").await
    }

    /// Requires that the ledger check finds nothing.
    pub(super) async fn is_clean(&self) {
        let service = Arc::clone(&self.node.service);
        let report = waiting(move || service.verify_ledger(false, |_, _| {})).await;
        assert_eq!(report.unwrap().findings, []);
    }

    /// The endpoints that have deliveries due at `now` that no node holds.
    pub(super) fn due(&self, now: Timestamp) -> Vec<EndpointId> {
        let mut reader = self.node.service.reader().unwrap();
        let page = reader.endpoints_with_due(now, None).unwrap();
        let due = page.due.into_iter();
        due.map(|(endpoint_id, ..)| endpoint_id).collect()
    }

    pub(super) fn advance(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::AcqRel);
    }

    pub(super) fn set(&self, at: Timestamp) {
        self.clock.store(at.ms(), Ordering::Release);
    }
}

fn session(service: &Arc<Service>, authority: Authority) -> Session {
    Session {
        service: Arc::clone(service),
        authority,
        address: None,
    }
}

async fn register(node: &Node) -> (Authority, Secret) {
    let address = "127.0.0.1".to_owned();
    let anonymous = session(&node.service, Authority::Anonymous { address });
    let body = r#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
    let registered: Registration = call::<RegisterPartner>(&anonymous, &[], body).await;
    let partner = Authority::Partner {
        partner_id: registered.partner_id,
        api_key_id: registered.api_key_id.unwrap(),
        scopes: Scopes::all(),
        suspended: false,
        signed_in: None,
    };
    (partner, Secret::new(registered.signing_secret.unwrap()))
}

pub(super) async fn endpoint_of(session: &Session, url: &str) -> EndpointId {
    let body = format!(r#"{{"url":"{url}"}}"#);
    let made = call::<CreateEndpoint>(session, &[], &body).await;
    made.endpoint.endpoint_id
}

pub(super) async fn book(session: &Session, count: usize) {
    let mut outcomes = Vec::new();
    for _ in 0..count {
        outcomes.push(submit::<CreateBooking>(session, &[], BOOKING).await);
    }
    for outcome in outcomes {
        Service::outcome(outcome).await.unwrap();
    }
}

pub(super) fn request(path: &[&str], body: &str) -> Request {
    Request {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        body: body.as_bytes().to_vec(),
        ..Request::default()
    }
}

/// An operation that is prepared but not written.
enum Prepared<T> {
    Read(Finished),
    Write(Envelope<T>),
}

async fn prepare<O: Operation>(
    session: &Session,
    path: &[&str],
    body: &str,
) -> Prepared<O::Output> {
    let request = request(path, body);
    let session = self::session(&session.service, session.authority.clone());
    waiting(
        move || match operation::prepare::<O>(&session, &request).unwrap() {
            Action::Read { read, .. } => Prepared::Read(read(&session).unwrap()),
            Action::Watch(_) => unreachable!("nothing asked for here waits"),
            Action::Write(writing) => Prepared::Write(writing.command),
        },
    )
    .await
}

pub(super) async fn submit<O: Operation + 'static>(
    session: &Session,
    path: &[&str],
    body: &str,
) -> oneshot::Receiver<CommandOutcome<O::Output>> {
    match prepare::<O>(session, path, body).await {
        Prepared::Write(command) => session.service.submit(command).unwrap(),
        Prepared::Read(_) => panic!("{} reads", O::ROUTE.id),
    }
}

pub(super) async fn call<O: Operation + 'static>(
    session: &Session,
    path: &[&str],
    body: &str,
) -> O::Output {
    let finished = match prepare::<O>(session, path, body).await {
        Prepared::Read(finished) => finished,
        Prepared::Write(command) => {
            let answer = session.service.submit_patiently(command).await;
            operation::finish_write::<O>(answer.unwrap())
        }
    };
    serde_json::from_slice(&finished.body).unwrap()
}

/// Waits for the outcome of a manual retry as the operator would.
pub(super) async fn outcome_of(
    courier: &Courier,
    event_id: EventId,
    patience: Duration,
) -> Result<Option<RetryResult>, Error> {
    let look = async |event_id| {
        let operator = Authority::Administrator {
            by: Operator::Here { user: None },
            partner_id: None,
        };
        let session = session(&courier.context.service, operator);
        waiting(move || retry_outcome(&session, &event_id)).await
    };
    courier.outcome_of(event_id, patience, look).await
}

async fn outcome(courier: &Courier, event_id: &str) -> RetryStatus {
    let event_id = EventId::parse(event_id).unwrap();
    let outcome = outcome_of(courier, event_id, PATIENCE).await.unwrap();
    outcome.expect("an outcome was due").retry_status
}

pub(super) async fn is_delivered(courier: &Courier, event_id: &str) {
    let outcome = outcome(courier, event_id).await;
    assert_eq!(outcome, RetryStatus::Delivered, "{event_id}");
}

pub(super) async fn has_failed(courier: &Courier, event_id: &str) {
    let outcome = outcome(courier, event_id).await;
    assert_eq!(outcome, RetryStatus::Failed, "{event_id}");
}

/// Stops the courier. The receiver must have had nothing more than the test took.
pub(super) async fn ends(courier: &Courier, receiver: &Receiver) {
    courier.stop(PATIENCE).await;
    assert_eq!(receiver.surplus().await, 0);
}
