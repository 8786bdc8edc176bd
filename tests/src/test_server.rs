//! A server in this process, on a temporary database, its clock set by hand.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bookguard_core::clock::Clock;
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::webhook::Secret;
use bookguard_server::Server;
use bookguard_server::config::Config;
use bookguard_server::courier::address::AddressRules;

use crate::caller::Caller;
use crate::engine::{Engine, TestDatabase};
use crate::samples;

/// When every server begins: 2026-09-21T14:13:20Z.
pub const START_MS: i64 = 1_790_000_000_000;

/// A server and all it stands on.
pub struct TestServer {
    server: Option<Server>,
    database: TestDatabase,
    clock: Arc<AtomicI64>,
    config: Config,
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
    /// What its webhooks are signed with.
    pub secret: String,
    /// Calls with that key.
    pub caller: Caller,
}

impl TestServer {
    /// A server without rate limits, whose webhooks may go to this machine.
    pub async fn open(engine: Engine) -> Self {
        Self::with(engine, |config| config).await
    }

    /// The same with some of it otherwise.
    pub async fn with(engine: Engine, adjust: impl FnOnce(Config) -> Config) -> Self {
        Self::on(TestDatabase::new(engine), adjust).await
    }

    /// The same on a database that is there.
    pub async fn on(database: TestDatabase, adjust: impl FnOnce(Config) -> Config) -> Self {
        let clock = Arc::new(AtomicI64::new(START_MS));
        let config = adjust(Config {
            listen: "127.0.0.1:0".to_owned(),
            rate_limit_per_second: 0,
            registrations_per_minute: 0,
            webhooks: AddressRules::dev(),
            // Tests of what failing receivers get would wait for their turn; verification has tests of its own.
            verifies_endpoints: false,
            clock: Clock::Set(Arc::clone(&clock)),
            ledger_key: database.ledger_key().map(LedgerKeySource::File),
            report: |line| println!("server: {line}"),
            ..Config::of(database.db().clone())
        });
        let server = Server::start(config.clone()).await;
        Self {
            server: Some(server.unwrap_or_else(|why| panic!("{why}"))),
            database,
            clock,
            config,
        }
    }

    /// One more server on the same database, key and clock, where the engine takes more than one.
    pub async fn second_node(&self) -> Server {
        self.second_node_with(|config| config).await
    }

    /// The same with some of it otherwise.
    pub async fn second_node_with(&self, adjust: impl FnOnce(Config) -> Config) -> Server {
        let server = Server::start(adjust(self.config.clone())).await;
        server.unwrap_or_else(|why| panic!("{why}"))
    }

    /// The server.
    pub fn running(&self) -> &Server {
        self.server
            .as_ref()
            .expect("a test server runs except while it restarts")
    }

    /// What the server was started with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The database and the folder beside it.
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// A place for files of the test's own.
    pub fn folder(&self) -> &Path {
        self.database.folder()
    }

    /// Moves the clock on.
    pub fn advance(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::AcqRel);
    }

    /// Now.
    pub fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::Acquire)
    }

    /// Somebody without a key.
    pub fn caller(&self) -> Caller {
        Caller::new(self.running().url())
    }

    /// Registers a partner.
    pub async fn partner(&self, name: &str) -> Partner {
        Partner::register(&self.caller(), name).await
    }

    /// Stops the server in order and starts it again on the same database; callers made before are of no use then.
    pub async fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        let server = Server::start(self.config.clone()).await;
        self.server = Some(server.unwrap_or_else(|why| panic!("{why}")));
    }

    /// Stops the server in order and gives back what it stood on.
    pub async fn close(mut self) -> TestDatabase {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        self.database
    }
}

impl Partner {
    /// Registers where registration is open.
    pub async fn register(caller: &Caller, name: &str) -> Self {
        let reply = caller
            .post("/v1/partners/register", &samples::partner(name))
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        let key = reply.string("apiKey");
        Self {
            id: reply.string("partnerId"),
            key_id: reply.string("apiKeyId"),
            secret: reply.string("signingSecret"),
            caller: caller.with_key(&key),
            key,
        }
    }

    /// What its webhooks are verified with.
    pub fn secret(&self) -> Secret {
        Secret::new(self.secret.clone())
    }

    /// A caller with a further key of these scopes.
    pub async fn scoped(&self, scopes: &[&str]) -> Caller {
        let body = serde_json::json!({"name": "scoped", "scopes": scopes});
        let reply = self.caller.post("/v1/api-keys", &body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        self.caller.with_key(&reply.string("apiKey"))
    }

    /// Records the sample booking; its id.
    pub async fn book(&self) -> String {
        let reply = self.caller.post("/v1/bookings", &samples::booking()).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.string("bookingId")
    }

    /// Puts a policy; the version it has then.
    pub async fn put_policy(&self, policy_id: &str, policy: &serde_json::Value) -> u64 {
        let path = format!("/v1/policies/{policy_id}");
        let version = self.caller.put(&path, policy).await.ok(200)["version"].clone();
        version.as_u64().expect("a version is a number")
    }

    /// Protects a booking.
    pub async fn protect(&self, booking_id: &str) -> serde_json::Value {
        let path = format!("/v1/bookings/{booking_id}/protect");
        self.caller.post_nothing(&path).await.ok(200)
    }

    /// Cancels a booking; its resolution.
    pub async fn cancel(&self, booking_id: &str, body: &serde_json::Value) -> serde_json::Value {
        let path = format!("/v1/bookings/{booking_id}/cancel");
        self.caller.post(&path, body).await.ok(201)
    }

    /// Books and cancels so that a person has to decide; the resolution's id.
    pub async fn leave_open(&self) -> String {
        let booking = self.book().await;
        let resolution = self.cancel(&booking, &samples::open_cancellation()).await;
        assert_eq!(resolution["status"], "pending_review", "{resolution}");
        let id = resolution["resolutionId"].as_str();
        id.expect("a resolution has an id").to_owned()
    }

    /// Adds a webhook endpoint for every type; its id.
    pub async fn endpoint(&self, url: &str) -> String {
        let body = serde_json::json!({"url": url});
        let reply = self.caller.post("/v1/webhook-endpoints", &body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.string("endpointId")
    }

    /// The events of a booking.
    pub async fn events(&self, booking_id: &str) -> Vec<serde_json::Value> {
        let path = format!("/v1/bookings/{booking_id}/webhook-events");
        let body = self.caller.get(&path).await.ok(200);
        body["webhookEvents"]
            .as_array()
            .expect("an array of events")
            .clone()
    }
}
