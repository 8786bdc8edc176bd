//! Overload: rate limits that recover with time, and a writer with more work than it accepts.

use std::sync::Arc;

use bookguard_core::engine::answers::ForgetAnswers;
use bookguard_core::limits::{INBOX, KEYS_PER_PARTNER};
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use serde_json::json;

#[tokio::test]
async fn a_partner_that_asks_too_often_waits_whatever_key_it_shows_and_others_do_not() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            rate_limit_per_second: 2,
            rate_limit_burst: 3,
            ..config
        });
        let server = server.await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let mut keys = Vec::new();
        for _ in 1..KEYS_PER_PARTNER {
            server.advance(60_000);
            let made = acme.post("/v1/api-keys", &json!({})).await;
            keys.push(made.string("apiKey"));
        }
        server.advance(60_000);
        let mut remaining = Vec::new();
        for _ in 0..3 {
            let reply = acme.get("/v1/partners/me").await;
            assert_eq!(
                reply.header("ratelimit-policy"),
                Some("\"partner\";q=3;w=2")
            );
            remaining.push(reply.header("ratelimit").unwrap().to_owned());
        }
        assert_eq!(
            remaining,
            [
                "\"partner\";r=2;t=1",
                "\"partner\";r=1;t=1",
                "\"partner\";r=0;t=2"
            ]
        );
        let refused = acme.post("/v1/bookings", &samples::booking()).await;
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (429, Some("1"))
        );
        other.get("/v1/partners/me").await.ok(200);
        for key in &keys {
            let refused = acme.with_key(key).get("/v1/partners/me").await;
            assert_eq!(refused.status, 429, "another key is no other partner");
        }
        // Open routes are not limited by key.
        acme.get("/v1/health").await.ok(200);
        server.advance(500);
        acme.get("/v1/partners/me").await.ok(200);
        assert_eq!(acme.get("/v1/partners/me").await.status, 429);
        server.advance(60_000);
        let bookings = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(
            bookings.list("data").len(),
            0,
            "what was refused was not done"
        );
    })
    .await;
}

#[tokio::test]
async fn registrations_are_rationed_by_address() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            registrations_per_minute: 2,
            ..config
        });
        let server = server.await;
        let register = async |name: &str| {
            let body = samples::partner(name);
            server.caller().post("/v1/partners/register", &body).await
        };
        let first = register("A").await;
        assert_eq!(
            (first.status, first.header("ratelimit")),
            (201, Some("\"registration\";r=1;t=30"))
        );
        register("B").await.ok(201);
        let refused = register("C").await;
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (429, Some("30"))
        );
        server.advance(30_000);
        register("D").await.ok(201);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_inbox_is_503_busy_and_nothing_is_half_done() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        // While this test holds the write turn, the writer takes no more batches from its inbox.
        let turn = server.database().hold_turn();
        let service = Arc::clone(server.running().service());
        assert_eq!(fill(&service), "busy");
        let refused = acme.post("/v1/bookings", &samples::booking()).await;
        refused.refused(503, "busy");
        assert_eq!(refused.header("retry-after"), Some("1"));
        // Reads still work.
        acme.get("/v1/bookings").await.ok(200);
        drop(turn);
        drop(service);
        let made = until("room in the inbox", async || {
            let reply = acme.post("/v1/bookings", &samples::booking()).await;
            (reply.status == 201).then_some(reply)
        });
        made.await;
        let bookings = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(bookings.list("data").len(), 1);
    })
    .await;
}

/// Submits commands until the inbox stays full, and returns the refusal's code. The inbox stays full only after the writer
/// has taken its batch, so more commands than the inbox holds are accepted first.
fn fill(service: &bookguard_core::service::Service) -> String {
    let (mut accepted, mut refusals) = (0, 0);
    loop {
        match service.submit(service.envelope(ForgetAnswers)) {
            Ok(_) => (accepted, refusals) = (accepted + 1, 0),
            Err(error) if accepted > INBOX && refusals >= 200 => return error.code.into_owned(),
            Err(_) => {
                refusals += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}
