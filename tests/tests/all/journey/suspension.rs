//! Endpoints that only fail: the warning, the suspension, the probes, and the deliveries that waited.

use bookguard_core::limits::{DAY_MS, HOUR_MS};
use bookguard_core::model::Timestamp;
use bookguard_server::Server;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

const SECOND: i64 = 1000;

/// A partner whose only endpoint is about to be suspended.
struct Fixture {
    server: TestServer,
    /// A second node if the engine supports one: either node may settle a delivery.
    other_node: Option<Server>,
    acme: Partner,
    receiver: Receiver,
    endpoint: String,
    bookings: Vec<String>,
    /// The failed attempts at the time of the suspension, with no delivery leased any more.
    tried: usize,
}

impl Fixture {
    async fn set(engine: Engine) -> Self {
        let server = TestServer::open(engine).await;
        let other_node = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(server.second_node().await),
        };
        let acme = server.partner("Acme").await;
        let (receiver, endpoint) = acme.receiving(Answer::Status(200)).await;
        Self {
            server,
            other_node,
            acme,
            receiver,
            endpoint,
            bookings: Vec::new(),
            tried: 0,
        }
    }

    async fn shown(&self) -> Value {
        self.acme.endpoint_shown(&self.endpoint).await
    }

    /// Returns the endpoint once it has this status and number of failures.
    async fn that_is(&self, status: &str, failures: usize) -> Value {
        until(&format!("an endpoint that is {status}"), async || {
            let shown = self.shown().await;
            let found = shown["status"] == status && shown["failures"] == failures;
            found.then_some(shown)
        })
        .await
    }

    async fn change(&self, body: Value) -> Value {
        self.acme.change_endpoint(&self.endpoint, body).await
    }

    async fn book(&mut self) -> String {
        let booking = self.acme.book().await;
        self.bookings.push(booking.clone());
        booking
    }

    /// Makes ten bookings whose deliveries fail, and fail again five days later.
    async fn suspend(&mut self) {
        self.receiver.answer(Answer::Status(500));
        for n in 1..=10 {
            self.book().await;
            let status = if n < 10 { "active" } else { "failing" };
            self.that_is(status, n).await;
        }
        self.server.advance(5 * DAY_MS);
        until("an endpoint that is suspended", async || {
            (self.shown().await["status"] == "suspended").then_some(())
        })
        .await;
        // Each node still attempts what it had leased before it learned of the suspension; a leased delivery has no next
        // attempt.
        for booking in &self.bookings {
            until("a delivery that waits", async || {
                let event = self.acme.events(booking).await.remove(0);
                event["nextAttemptAt"].is_string().then_some(())
            })
            .await;
        }
        self.tried = self.receiver.received().len();
        assert!((11..=14).contains(&self.tried), "{}", self.tried);
        let suspended = self.that_is("suspended", self.tried).await;
        assert_eq!(suspended["enabled"], true);
        assert_eq!(self.milliseconds_to_the_next_try().await, HOUR_MS);
        // The stored state of a suspended endpoint passes the check of the database.
        self.server.database().verify(self.bookings.len()).await;
    }

    async fn milliseconds_to_the_next_try(&self) -> i64 {
        let shown = self.shown().await;
        let at = shown.text("nextProbeAt");
        Timestamp::parse(at).unwrap().ms() - self.server.now_ms()
    }

    /// Asserts that every waiting delivery has arrived, each with one request after the first `tried` ones.
    async fn end(self, tried: usize) {
        for booking in &self.bookings {
            self.acme.event_that_is(booking, "delivered").await;
        }
        assert_eq!(self.receiver.received().len(), tried + self.bookings.len());
        let back = self.that_is("active", 0).await;
        assert!(back["failingSince"].is_null() && back["nextProbeAt"].is_null());
        if let Some(node) = self.other_node {
            node.stop().await;
        }
        let database = self.server.close().await;
        database.verify(self.bookings.len()).await;
    }
}

#[tokio::test]
async fn the_first_success_of_a_suspended_endpoint_releases_everything_that_waits() {
    on_every_engine(async |engine| {
        let mut fixture = Fixture::set(engine).await;
        fixture.suspend().await;

        // A new event waits, and shows until when.
        let waiting = fixture.book().await;
        let event = fixture.acme.event_that_is(&waiting, "pending").await;
        assert_eq!(event["nextAttemptAt"], fixture.shown().await["nextProbeAt"]);

        // Nothing is tried before the probe is due, even when the same scan finds deliveries due for another endpoint.
        let other = Receiver::answering(Answer::Status(500)).await;
        fixture.acme.endpoint(&other.url()).await;
        let both = fixture.book().await;
        other.wait_for(1).await;
        fixture.acme.event_that_is(&both, "failed").await;
        other.answer(Answer::Status(200));
        fixture.server.advance(HOUR_MS - 1);
        other.wait_for(2).await;
        assert_eq!(fixture.receiver.received().len(), fixture.tried);

        // A single probe is sent; its failure uses up no attempt of the schedule.
        fixture.server.advance(1);
        let tried = fixture.tried + 1;
        fixture.receiver.wait_for(tried).await;
        fixture.that_is("suspended", tried).await;
        let pause = fixture.milliseconds_to_the_next_try().await;
        assert!((HOUR_MS..HOUR_MS + 60 * SECOND).contains(&pause), "{pause}");
        fixture.receiver.answer(Answer::Status(200));
        fixture.server.advance(pause);
        fixture.end(tried).await;
    })
    .await;
}

#[tokio::test]
async fn a_suspended_endpoint_is_resumed_by_its_partner_at_once() {
    on_every_engine(async |engine| {
        let mut fixture = Fixture::set(engine).await;
        fixture.suspend().await;
        fixture.book().await;
        // A manual retry is sent even while the endpoint is suspended.
        let event = fixture
            .acme
            .event_that_is(&fixture.bookings[0], "failed")
            .await;
        let retried = fixture.acme.retry(&event).await.ok(200);
        assert_eq!(retried["retryStatus"], "failed");
        let tried = fixture.tried + 1;
        fixture.that_is("suspended", tried).await;
        assert_eq!(fixture.receiver.received().len(), tried);

        // The delivery whose failure caused the suspension still has five minutes of its schedule to wait, the others are due
        // at once.
        fixture.server.advance(HOUR_MS / 2);
        fixture.receiver.answer(Answer::Status(200));
        let back = fixture.change(json!({"enabled": true})).await;
        back.holds(json!({"status": "active", "failures": 0}));
        fixture.end(tried).await;
    })
    .await;
}

#[tokio::test]
async fn a_new_address_is_tried_at_once_and_waiting_deliveries_survive_a_suspension() {
    on_every_engine(async |engine| {
        let mut fixture = Fixture::set(engine).await;
        fixture.suspend().await;
        // Far longer than any schedule: waiting deliveries do not expire.
        fixture.server.advance(30 * DAY_MS);
        let tried = fixture.tried + 1;
        fixture.that_is("suspended", tried).await;
        // By then no node has the old address cached.
        fixture.server.advance(4 * SECOND);
        let elsewhere = Receiver::start().await;
        let dead = std::mem::replace(&mut fixture.receiver, elsewhere);
        fixture.change(json!({"url": fixture.receiver.url()})).await;
        assert_eq!(dead.received().len(), tried);
        fixture.end(0).await;
    })
    .await;
}
