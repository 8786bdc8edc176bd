//! Compares deliveries with the interface document's `webhooks`.

use std::collections::BTreeSet;

use bookguard_core::limits::DAY_MS;
use bookguard_core::model::Timestamp;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::interface::assert_schema;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

#[tokio::test]
async fn every_documented_webhook_is_sent_as_it_is_documented() {
    on_every_engine(async |engine| {
        let (mut server, acme) = TestServer::with_partner(engine).await;
        let receiver = Receiver::answering(Answer::Status(204)).await;
        let endpoint = acme.endpoint(&receiver.url()).await;
        // It hears of everything that endpoints must list, and another one is suspended in the end.
        let listing = Receiver::answering(Answer::Status(204)).await;
        let listed = "booking.rescheduled terms.accepted resolution.decided endpoint.suspended api_key.expiring";
        let listed: Vec<&str> = listed.split(' ').collect();
        let body = json!({"url": listing.url(), "events": listed});
        acme.new_endpoint(body).await;
        let path = format!("/v1/webhook-endpoints/{endpoint}/test");
        acme.post_nothing(&path).await.ok(200);
        // Two resolutions: a pending one that a person must decide, and the decided one that replaces it.
        let resolution = acme.leave_open().await;
        let path = format!("/v1/resolutions/{resolution}/decide");
        acme.post(&path, &samples::decision()).await.ok(201);
        let booking = acme.book().await;
        acme.protect(&booking).await;
        let moved = acme.reschedule(&booking, &samples::new_date()).await;
        moved.ok(200);
        let path = format!("/v1/bookings/{booking}/disclosure");
        let told = acme.get(&path).await.ok(200);
        let accepted = samples::acceptance(told.text("disclosureHash"));
        let path = format!("/v1/bookings/{booking}/acceptances");
        acme.post(&path, &accepted).await.ok(201);
        acme.cancel(&booking, &samples::cancellation()).await;
        // While a secret is being replaced there are two signatures.
        let rotation = json!({"overlapSeconds": 3600});
        acme.post("/v1/partners/me/rotate-secret", &rotation)
            .await
            .ok(200);
        server.advance(4_000);
        acme.book().await;
        let mut all = receiver.wait_for(8).await;
        let expires_at = Timestamp::from_ms(server.now_ms() + 12 * DAY_MS).to_string();
        let key = json!({"expiresAt": expires_at});
        acme.post("/v1/api-keys", &key).await.ok(201);
        suspend(&server, &acme).await;
        // A server looks for keys that will expire at its start, and each minute.
        server.advance(6 * DAY_MS);
        server.restart().await;
        all.extend(listing.wait_for(5).await);

        let document = bookguard_server::openapi();
        let webhooks = document["webhooks"].as_object().unwrap();
        let mut sent = BTreeSet::new();
        for received in all {
            let body = received.json();
            let event_type = body.text("type").to_owned();
            let place = format!("/webhooks/{event_type}/post");
            let schema = format!("{place}/requestBody/content/application~1json/schema");
            assert_schema(&schema, &body);
            let operation = document.pointer(&place).unwrap();
            for parameter in operation.list("parameters") {
                let shared = parameter["$ref"].as_str().unwrap().trim_start_matches('#');
                let name = document.pointer(shared).unwrap().text("name");
                let value = Value::from(received.header(name));
                assert_schema(&format!("{shared}/schema"), &value);
            }
            assert_eq!(received.header("content-type"), "application/json");
            sent.insert(event_type);
        }
        let documented: BTreeSet<String> = webhooks.keys().cloned().collect();
        assert_eq!(sent, documented);
    })
    .await;
}

/// Adds an endpoint that fails until it is suspended.
async fn suspend(server: &TestServer, acme: &Partner) {
    let failing = Receiver::answering(Answer::Status(500)).await;
    let body = json!({"url": failing.url(), "events": ["booking.created"]});
    let endpoint = acme.new_endpoint(body).await.text("endpointId").to_owned();
    for failures in 1..=10 {
        acme.book().await;
        until("a failure", async || {
            let shown = acme.endpoint_shown(&endpoint).await;
            (shown.number("failures") >= failures).then_some(())
        })
        .await;
    }
    server.advance(5 * 24 * 3600 * 1000);
    until("a suspended endpoint", async || {
        let shown = acme.endpoint_shown(&endpoint).await;
        (shown["status"] == "suspended").then_some(())
    })
    .await;
}
