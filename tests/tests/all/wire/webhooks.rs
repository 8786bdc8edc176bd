//! Compares deliveries with the interface document's `webhooks`.

use std::collections::BTreeSet;

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::interface::assert_schema;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

#[tokio::test]
async fn every_documented_webhook_is_sent_as_it_is_documented() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let receiver = Receiver::answering(Answer::Status(204)).await;
        let endpoint = acme.endpoint(&receiver.url()).await;
        let path = format!("/v1/webhook-endpoints/{endpoint}/test");
        acme.post_nothing(&path).await.ok(200);
        // Two resolutions: a pending one that a person must decide, and the decided one that replaces it.
        let resolution = acme.leave_open().await;
        let path = format!("/v1/resolutions/{resolution}/decide");
        acme.post(&path, &samples::decision()).await.ok(201);
        let booking = acme.book().await;
        acme.protect(&booking).await;
        acme.cancel(&booking, &samples::cancellation()).await;
        // While a secret is being replaced there are two signatures.
        let rotation = json!({"overlapSeconds": 3600});
        acme.post("/v1/partners/me/rotate-secret", &rotation)
            .await
            .ok(200);
        server.advance(4_000);
        acme.book().await;

        let document = bookguard_server::openapi();
        let webhooks = document["webhooks"].as_object().unwrap();
        let mut sent = BTreeSet::new();
        for received in receiver.wait_for(8).await {
            let body = received.json();
            let event_type = body.text("type").to_owned();
            let place = format!("/webhooks/{event_type}/post");
            assert_schema(
                &format!("{place}/requestBody/content/application~1json/schema"),
                &body,
            );
            for parameter in document
                .pointer(&format!("{place}/parameters"))
                .unwrap()
                .as_array()
                .unwrap()
            {
                let shared = parameter["$ref"].as_str().unwrap().trim_start_matches('#');
                let name = document.pointer(shared).unwrap().text("name");
                assert_schema(
                    &format!("{shared}/schema"),
                    &Value::from(received.header(name)),
                );
            }
            assert_eq!(received.header("content-type"), "application/json");
            sent.insert(event_type);
        }
        let documented: BTreeSet<String> = webhooks.keys().cloned().collect();
        assert_eq!(sent, documented);
    })
    .await;
}
