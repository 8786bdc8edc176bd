//! Unverified endpoints: what they get until their first delivery is accepted, and that no address is registered twice.

use bookguard_core::limits::UNVERIFIED_MS;
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

async fn verifying(engine: Engine) -> TestServer {
    TestServer::with(engine, |config| Config {
        verifies_endpoints: true,
        ..config
    })
    .await
}

/// Returns the endpoint once this many attempts in a row have failed.
async fn failed(acme: &Partner, endpoint: &str, failures: u64) -> Value {
    until("the failures", async || {
        let shown = acme.endpoint_shown(endpoint).await;
        (shown["failures"] == failures).then_some(shown)
    })
    .await
}

#[tokio::test]
async fn an_endpoint_gets_one_delivery_at_a_time_until_it_has_accepted_one() {
    on_every_engine(async |engine| {
        let server = verifying(engine).await;
        let acme = server.partner("Acme").await;
        let (receiver, endpoint) = acme.receiving(Answer::Status(500)).await;
        assert!(acme.endpoint_shown(&endpoint).await["unverifiedSince"].is_string());
        let mut bookings = Vec::new();
        for _ in 0..6 {
            bookings.push(acme.book().await);
        }
        for attempt in 1..=2 {
            let after = failed(&acme, &endpoint, attempt).await;
            assert!(after["unverifiedSince"].is_string() && after["nextProbeAt"].is_string());
            // Another partner's delivery, due in the meantime, arrives: so this endpoint was passed over.
            let witness = Receiver::start().await;
            let other = server.partner("Witness").await;
            other.endpoint(&witness.url()).await;
            let seen = other.book().await;
            other.event_that_is(&seen, "delivered").await;
            assert_eq!(receiver.count() as u64, attempt);
            server.advance(UNVERIFIED_MS);
        }
        receiver.answer(Answer::Status(200));
        for booking in &bookings {
            let event = until("a delivery", async || {
                server.advance(500);
                let event = acme.events(booking).await.remove(0);
                (event["status"] == "delivered").then_some(event)
            });
            event.await;
        }
        let after = acme.endpoint_shown(&endpoint).await;
        assert!(after["unverifiedSince"].is_null() && after["nextProbeAt"].is_null());

        // A new address is unverified again.
        let victim = Receiver::answering(Answer::Status(404)).await;
        // By then the cached address of the endpoint has expired.
        server.advance(4_000);
        let moved = json!({"url": victim.url()});
        let moved = acme.change_endpoint(&endpoint, moved).await;
        assert!(moved["unverifiedSince"].is_string());
        let mut later = Vec::new();
        for _ in 0..3 {
            later.push(acme.book().await);
        }
        failed(&acme, &endpoint, 1).await;
        assert_eq!(victim.count(), 1);

        // So is the first address again.
        let before = receiver.count();
        server.advance(4_000);
        let back = json!({"url": receiver.url()});
        let back = acme.change_endpoint(&endpoint, back).await;
        assert!(back["unverifiedSince"].is_string());
        // A change of address does not shorten the pause.
        server.advance(9_999);
        assert_eq!(receiver.count(), before);
        server.advance(1);
        until("a delivery", async || {
            (receiver.count() > before).then_some(())
        })
        .await;
        for booking in &later {
            until("a delivery", async || {
                server.advance(1_000);
                let event = acme.events(booking).await.remove(0);
                (event["status"] == "delivered").then_some(())
            })
            .await;
        }
        assert!(acme.endpoint_shown(&endpoint).await["unverifiedSince"].is_null());
        assert_eq!(victim.count(), 1);

        // Deleting an endpoint and adding it again does not shorten the pause either.
        let hook = json!({"url": format!("{}/again", victim.url())});
        let first = acme.new_endpoint(hook.clone()).await;
        assert!(first["nextProbeAt"].is_null());
        acme.delete_endpoint(first.text("endpointId")).await;
        let second = acme.new_endpoint(hook).await;
        assert!(second["nextProbeAt"].is_string(), "{second}");
        acme.delete_endpoint(second.text("endpointId")).await;
        server.close().await.verify(6 + 2 + 3).await;
    })
    .await;
}

#[tokio::test]
async fn an_address_has_one_endpoint_of_a_partner() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let first = acme.endpoint("http://127.0.0.1:9/hook?a=b").await;
        let hook = "http://127.0.0.1:9/hook?a=b";
        let refused = async |url: &str| {
            let reply = acme
                .post("/v1/webhook-endpoints", &json!({"url": url}))
                .await;
            reply.refused(409, "duplicate_endpoint");
            reply.says(&[&first]);
        };
        for same in [
            hook,
            "HTTP://127.1:9/x/../hook?a=b",
            "http://0x7f000001:9/hook?a=b",
        ] {
            refused(same).await;
        }
        // Another partner may register the same address, and this partner a different one.
        other.endpoint(hook).await;
        let second = acme.endpoint("http://127.0.0.1:9/hook?a=c").await;
        let path = format!("/v1/webhook-endpoints/{second}");
        let moved = acme.patch(&path, &json!({"url": hook})).await;
        moved.refused(409, "duplicate_endpoint");
        // An endpoint may keep its own address. A disabled endpoint still occupies its address, because it can be enabled
        // again; a deleted one does not.
        acme.change_endpoint(&first, json!({"url": hook})).await;
        acme.change_endpoint(&first, json!({"enabled": false}))
            .await;
        refused(hook).await;
        acme.delete_endpoint(&first).await;
        acme.endpoint(hook).await;
        // Of several concurrent requests exactly one succeeds.
        let url = json!({"url": "http://127.0.0.1:9/once"});
        let make = || acme.post("/v1/webhook-endpoints", &url);
        let made = tokio::join!(make(), make(), make(), make());
        let statuses = [made.0.status, made.1.status, made.2.status, made.3.status];
        let made = statuses.iter().filter(|status| **status == 201).count();
        assert_eq!(made, 1, "{statuses:?}");
        server.close().await;
    })
    .await;
}
