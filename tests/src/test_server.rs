//! A server in this process, on a temporary database, its clock set by hand.

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::lines::{Line, LineSubscriber, Threshold};
use bookguard_core::webhook::Secret;
use bookguard_server::Server;
use bookguard_server::config::Config;
use bookguard_server::courier::address::AddressRules;

use bookguard_core::evidence;
use bookguard_core::model::Timestamp;
use serde_json::{Value, json};
use tracing::Level;

use crate::caller::{Caller, Reply};
use crate::engine::{Engine, TestDatabase, on_every_engine};
use crate::json::Members as _;
use crate::load::at_once;
use crate::program::{Arguments, CommandLine, bookguard};
use crate::receiver::{Answer, Receiver};
use crate::samples;
use crate::waiting::until;

/// The time at which every server's clock begins: 2026-09-21T14:13:20Z.
pub const START_MS: i64 = 1_790_000_000_000;

/// What the servers of this process have logged.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn hear(line: Line) {
    println!("server: {line:?}");
    logged().push(line.message);
}

fn logged() -> MutexGuard<'static, Vec<String>> {
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a server of this process has logged a line with these words.
pub async fn until_logged(words: &str) {
    let has = || logged().iter().any(|line| line.contains(words));
    until(words, async || has().then_some(())).await;
}

/// A running server with its database and clock.
pub struct TestServer {
    server: Option<Server>,
    database: TestDatabase,
    clock: Arc<AtomicI64>,
    config: Config,
}

/// Runs a test on every engine, with a server and a registered partner.
pub async fn with_partner_on_every_engine(body: impl AsyncFn(TestServer, Partner)) {
    on_every_engine(async |engine| {
        let (server, partner) = TestServer::with_partner(engine).await;
        // On the heap, because the futures of tests are large.
        Box::pin(body(server, partner)).await;
    })
    .await;
}

/// A registered partner.
#[derive(Debug, Clone)]
pub struct Partner {
    /// The partner's id.
    pub id: String,
    /// The id of its first key.
    pub key_id: String,
    /// Its first key: all scopes.
    pub key: String,
    /// The secret that signs its webhooks.
    pub secret: String,
    /// A caller with that key.
    pub caller: Caller,
}

impl TestServer {
    /// A server without rate limits, whose webhooks may go to this machine.
    pub async fn open(engine: Engine) -> Self {
        Self::with(engine, |config| config).await
    }

    /// The same server, and a registered partner.
    pub async fn with_partner(engine: Engine) -> (Self, Partner) {
        let server = Self::open(engine).await;
        let partner = server.partner("Acme").await;
        (server, partner)
    }

    /// The same server with a changed configuration.
    pub async fn with(engine: Engine, adjust: impl FnOnce(Config) -> Config) -> Self {
        Self::on(TestDatabase::new(engine), adjust).await
    }

    /// The same with an operator interface, and its URL.
    pub async fn operated(engine: Engine, adjust: impl FnOnce(Config) -> Config) -> (Self, String) {
        let server = Self::with(engine, |config| {
            adjust(Config {
                operator_listen: Some("127.0.0.1:0".to_owned()),
                ..config
            })
        });
        let server = server.await;
        let url = server.running().operator_url();
        (server, url.expect("it has an operator interface"))
    }

    /// Makes a key of the operator.
    pub async fn operator_key(&self, name: &str) -> Value {
        let line = format!("operator-keys create --name {name}");
        self.database().command(line.as_str()).run().await.json()
    }

    /// The same server on an existing database.
    pub async fn on(database: TestDatabase, adjust: impl FnOnce(Config) -> Config) -> Self {
        // Only the first of this process succeeds, and it hears all servers.
        let subscriber = LineSubscriber::new(Threshold::new(Level::INFO), hear);
        let _ = tracing::subscriber::set_global_default(subscriber);
        let clock = Arc::new(AtomicI64::new(START_MS));
        let config = adjust(Config {
            listen: "127.0.0.1:0".to_owned(),
            rate_limit_per_second: 0,
            registrations_per_minute: 0,
            webhooks: AddressRules::dev(),
            // Otherwise tests with failing receivers would wait for their turn; verification has its own tests.
            verifies_endpoints: false,
            // Entries of the log's own would disturb tests that count them; those of the map have their own tests.
            map_interval: Duration::from_secs(100 * 365 * 24 * 3600),
            clock: Clock::Set(Arc::clone(&clock)),
            ledger_key: database.ledger_key().map(LedgerKeySource::File),
            ..Config::of(database.db().clone())
        });
        Self {
            server: Some(started(config.clone()).await),
            database,
            clock,
            config,
        }
    }

    /// A second server on the same database, key and clock, if the engine allows it.
    pub async fn second_node(&self) -> Server {
        self.second_node_with(|config| config).await
    }

    /// A second server on the same database, key and clock, with a changed configuration.
    pub async fn second_node_with(&self, adjust: impl FnOnce(Config) -> Config) -> Server {
        started(adjust(self.config.clone())).await
    }

    /// The server.
    pub fn running(&self) -> &Server {
        self.server
            .as_ref()
            .expect("a test server runs except while it restarts")
    }

    /// The configuration with which the server was started.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The database and the folder beside it.
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// A path for a file of the test.
    pub fn folder(&self) -> &Path {
        self.database.folder()
    }

    /// Moves the clock forward.
    pub fn advance(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::AcqRel);
    }

    /// Sets the clock to this instant.
    pub fn set_clock(&self, ms: i64) {
        self.clock.store(ms, Ordering::Release);
    }

    /// Milliseconds from now until the next automatic attempt of an event.
    pub fn until_next_attempt(&self, event: &Value) -> i64 {
        let at = Timestamp::parse(event.text("nextAttemptAt"));
        at.expect("instants are written so").ms() - self.now_ms()
    }

    /// The log's verifier key.
    pub async fn vkey(&self) -> String {
        self.caller().get("/v1/ledger/key").await.text()
    }

    /// The current time, in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::Acquire)
    }

    /// A caller without a key.
    pub fn caller(&self) -> Caller {
        Caller::new(self.running().url())
    }

    /// Registers a partner.
    pub async fn partner(&self, name: &str) -> Partner {
        Partner::register(&self.caller(), name).await
    }

    /// Stops the server gracefully and starts it again on the same database; callers made before no longer work.
    pub async fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        self.server = Some(started(self.config.clone()).await);
    }

    /// Stops the server gracefully and returns its database.
    pub async fn close(mut self) -> TestDatabase {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        self.database
    }
}

async fn started(config: Config) -> Server {
    let server = Server::start(config).await;
    server.unwrap_or_else(|why| panic!("{why}"))
}

/// A partner calls with its first key.
impl Deref for Partner {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Partner {
    /// Registers a partner; registration must be open.
    pub async fn register(caller: &Caller, name: &str) -> Self {
        let body = samples::partner(name);
        let reply = caller.post("/v1/partners/register", &body).await;
        let registered = reply.ok(201);
        let text = |name| registered.text(name).to_owned();
        Self {
            id: text("partnerId"),
            key_id: text("apiKeyId"),
            secret: text("signingSecret"),
            caller: caller.with_key(registered.text("apiKey")),
            key: text("apiKey"),
        }
    }

    /// Two time zones to change between.
    pub const ZONES: [&str; 2] = ["Europe/Berlin", "Europe/Vienna"];

    /// Changes the time zone until the day's changes of settings are used up, and returns how often that was done.
    pub async fn change_until_refused(&self) -> usize {
        let body = |n| json!({"timeZone": Self::ZONES[n % 2]});
        self.patch_until_refused("/v1/partners/me", body).await
    }

    /// Changes an endpoint until the day's changes are used up, and returns how often that was done.
    pub async fn change_endpoint_until_refused(&self, endpoint: &str) -> usize {
        let path = format!("/v1/webhook-endpoints/{endpoint}");
        let body = |n| json!({"rateLimitPerSecond": 1 + n % 2});
        self.patch_until_refused(&path, body).await
    }

    async fn patch_until_refused(&self, path: &str, body: impl Fn(usize) -> Value) -> usize {
        let mut changed = 0;
        loop {
            let reply = self.patch(path, &body(changed)).await;
            if reply.status != 200 {
                reply.refused(409, "quota_exceeded");
                return changed;
            }
            changed += 1;
        }
    }

    /// The same partner, calling another server.
    #[must_use]
    pub fn on(&self, url: &str) -> Self {
        Self {
            caller: self.caller.at(url),
            ..self.clone()
        }
    }

    /// `bookguard` with these arguments, on the partner's server and with its key.
    pub fn command(&self, args: impl Arguments) -> CommandLine {
        let line = bookguard(args).env("BOOKGUARD_URL", self.caller.base());
        line.env("BOOKGUARD_API_KEY", &self.key)
    }

    /// The secret that verifies its webhooks.
    pub fn secret(&self) -> Secret {
        Secret::new(self.secret.clone())
    }

    /// A caller with a new key of these scopes.
    pub async fn scoped(&self, scopes: &[&str]) -> Caller {
        let body = json!({"name": "scoped", "scopes": scopes});
        let made = self.post("/v1/api-keys", &body).await.ok(201);
        self.with_key(made.text("apiKey"))
    }

    /// Records the sample booking and returns its id.
    pub async fn book(&self) -> String {
        self.book_with(json!({})).await
    }

    /// Records the sample booking with these members replaced and returns its id.
    pub async fn book_with(&self, members: Value) -> String {
        let body = samples::booking_with(members);
        let made = self.post("/v1/bookings", &body).await.ok(201);
        made.text("bookingId").to_owned()
    }

    /// Records this many sample bookings with these members replaced, from a dozen clients.
    pub async fn book_many(&self, count: usize, members: &Value) {
        let clients = at_once((0..12).map(|client| {
            let (partner, members) = (self.clone(), members.clone());
            async move {
                for _ in (client..count).step_by(12) {
                    partner.book_with(members.clone()).await;
                }
            }
        }));
        clients.await;
    }

    /// Reads a booking.
    pub async fn booking(&self, booking_id: &str) -> Value {
        let path = format!("/v1/bookings/{booking_id}");
        self.get(&path).await.ok(200)
    }

    /// Evaluates a booking's policy with this query.
    pub async fn evaluation(&self, booking_id: &str, query: &str) -> Value {
        let path = format!("/v1/bookings/{booking_id}/policy-evaluation?{query}");
        self.get(&path).await.ok(200)
    }

    /// The evidence packet of a booking.
    pub async fn packet(&self, booking_id: &str) -> Reply {
        self.get(&format!("/v1/bookings/{booking_id}/evidence"))
            .await
    }

    /// The evidence packet of a booking, after verifying it with nothing but the log's key.
    pub async fn verified_packet(&self, booking_id: &str) -> Value {
        let packet = self.packet(booking_id).await;
        let vkey = self.get("/v1/ledger/key").await.text();
        let report = evidence::verify(&packet.body, &vkey);
        assert!(report.verified(), "{report}");
        packet.ok(200)
    }

    /// Puts a policy and returns its version.
    pub async fn put_policy(&self, policy_id: &str, policy: &Value) -> u64 {
        let path = format!("/v1/policies/{policy_id}");
        self.put(&path, policy).await.ok(200).number("version")
    }

    /// Changes the partner's decisions about bookings and returns the partner.
    pub async fn decide(&self, changes: Value) -> Value {
        self.patch("/v1/partners/me", &changes).await.ok(200)
    }

    /// Protects a booking.
    pub async fn protect(&self, booking_id: &str) -> Value {
        let path = format!("/v1/bookings/{booking_id}/protect");
        self.post_nothing(&path).await.ok(200)
    }

    /// Moves the event to another date.
    pub async fn reschedule(&self, booking_id: &str, body: &Value) -> Reply {
        let path = format!("/v1/bookings/{booking_id}/reschedule");
        self.post(&path, body).await
    }

    /// Cancels a booking and returns its resolution.
    pub async fn cancel(&self, booking_id: &str, body: &Value) -> Value {
        let path = format!("/v1/bookings/{booking_id}/cancel");
        self.post(&path, body).await.ok(201)
    }

    /// Records a booking and cancels it so that a person has to decide; returns the resolution's id.
    pub async fn leave_open(&self) -> String {
        let booking = self.book().await;
        let resolution = self.cancel(&booking, &samples::open_cancellation()).await;
        assert_eq!(resolution["status"], "pending_review", "{resolution}");
        resolution.text("resolutionId").to_owned()
    }

    /// Adds a webhook endpoint for every type and returns its id.
    pub async fn endpoint(&self, url: &str) -> String {
        let made = self.new_endpoint(json!({"url": url})).await;
        made.text("endpointId").to_owned()
    }

    /// Adds an endpoint for every type, whose receiver answers so, and returns both.
    pub async fn receiving(&self, answer: Answer) -> (Receiver, String) {
        let receiver = Receiver::answering(answer).await;
        let endpoint = self.endpoint(&receiver.url()).await;
        (receiver, endpoint)
    }

    /// Adds a webhook endpoint.
    pub async fn new_endpoint(&self, body: Value) -> Value {
        self.post("/v1/webhook-endpoints", &body).await.ok(201)
    }

    /// Reads a webhook endpoint.
    pub async fn endpoint_shown(&self, endpoint_id: &str) -> Value {
        let path = format!("/v1/webhook-endpoints/{endpoint_id}");
        self.get(&path).await.ok(200)
    }

    /// Changes a webhook endpoint and returns it.
    pub async fn change_endpoint(&self, endpoint_id: &str, changes: Value) -> Value {
        let path = format!("/v1/webhook-endpoints/{endpoint_id}");
        self.patch(&path, &changes).await.ok(200)
    }

    /// Deletes a webhook endpoint and returns it as it was.
    pub async fn delete_endpoint(&self, endpoint_id: &str) -> Value {
        let path = format!("/v1/webhook-endpoints/{endpoint_id}");
        self.delete(&path).await.ok(200)
    }

    /// The events of a booking.
    pub async fn events(&self, booking_id: &str) -> Vec<Value> {
        let path = format!("/v1/bookings/{booking_id}/webhook-events");
        self.get(&path).await.ok(200).list("webhookEvents").clone()
    }

    /// Every event of the partner, oldest first.
    pub async fn all_events(&self) -> Vec<Value> {
        let (mut events, mut after) = (Vec::new(), 0);
        loop {
            let path = format!("/v1/webhook-events?limit=100&after={after}");
            let page = self.get(&path).await.ok(200);
            events.extend(page.list("data").iter().cloned());
            after = page.number("nextAfter");
            if page["hasMore"] == false {
                return events;
            }
        }
    }

    /// Waits until the first event of a booking has this status, and returns it.
    pub async fn event_that_is(&self, booking_id: &str, status: &str) -> Value {
        until(&format!("an event that is {status}"), async || {
            let event = self.events(booking_id).await.remove(0);
            (event["status"] == status).then_some(event)
        })
        .await
    }

    /// Reads an event, with its attempts.
    pub async fn event(&self, event: &Value) -> Value {
        let path = format!("/v1/webhook-events/{}", event.text("eventId"));
        self.get(&path).await.ok(200)
    }

    /// Retries an event.
    pub async fn retry(&self, event: &Value) -> Reply {
        let path = format!("/v1/webhook-events/{}/retry", event.text("eventId"));
        self.post_nothing(&path).await
    }
}
