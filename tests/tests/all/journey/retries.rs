//! What a manual retry comes to: delivered, failed, not known yet, or nothing to do.

use bookguard_tests::caller::Reply;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

use crate::journey::webhooks::event_that_is;

async fn retry(partner: &Partner, event: &Value) -> Reply {
    let id = event["eventId"].as_str().unwrap();
    partner
        .caller
        .post_nothing(&format!("/v1/webhook-events/{id}/retry"))
        .await
}

fn result(event: &Value, status: &str, count: u32) -> Value {
    json!({"eventId": event["eventId"], "retryStatus": status, "retryCount": count})
}

#[tokio::test]
async fn a_failed_event_is_retried_until_it_is_delivered_and_then_no_more() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let receiver = Receiver::start().await;
        receiver.answer(Answer::Status(500));
        acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let event = event_that_is(&acme, &booking, "failed").await;
        assert_eq!(
            retry(&acme, &event).await.ok(200),
            result(&event, "failed", 1)
        );
        let waiting = event_that_is(&acme, &booking, "failed").await;
        assert!(
            waiting["nextAttemptAt"].is_string(),
            "the automatic attempts go on: {waiting}"
        );
        receiver.answer(Answer::Status(200));
        assert_eq!(
            retry(&acme, &event).await.ok(200),
            result(&event, "delivered", 2)
        );
        let done = event_that_is(&acme, &booking, "delivered").await;
        assert_eq!(
            (&done["retryCount"], &done["nextAttemptAt"]),
            (&json!(2), &Value::Null)
        );
        let refused = retry(&acme, &event).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "event_already_delivered")
        );
        assert_eq!(receiver.received().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn an_event_without_endpoints_goes_to_those_that_exist_now() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        let event = event_that_is(&acme, &booking, "no_endpoints").await;
        assert_eq!(event["deliveries"], json!([]));
        let refused = retry(&acme, &event).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "no_endpoints")
        );
        let receiver = Receiver::start().await;
        let other = format!("{}?other", receiver.url());
        let other_types = json!({"url": other, "events": ["booking.protected"]});
        acme.caller
            .post("/v1/webhook-endpoints", &other_types)
            .await
            .ok(201);
        assert_eq!(retry(&acme, &event).await.code(), "no_endpoints");
        acme.endpoint(&receiver.url()).await;
        assert_eq!(
            retry(&acme, &event).await.ok(200),
            result(&event, "delivered", 1)
        );
        let received = receiver.received();
        assert_eq!(received.len(), 1);
        assert_eq!(
            received[0].string("eventId"),
            event["eventId"].as_str().unwrap()
        );
    })
    .await;
}

#[tokio::test]
async fn an_event_whose_endpoints_are_all_deleted_has_nowhere_to_go() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let receiver = Receiver::start().await;
        receiver.answer(Answer::Status(500));
        let endpoint = acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let event = event_that_is(&acme, &booking, "failed").await;
        acme.caller
            .delete(&format!("/v1/webhook-endpoints/{endpoint}"))
            .await
            .ok(200);
        let refused = retry(&acme, &event).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "no_endpoints")
        );
    })
    .await;
}

#[tokio::test]
async fn a_retry_whose_outcome_is_not_known_in_time_is_pending() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let receiver = Receiver::start().await;
        receiver.answer(Answer::Status(500));
        acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let event = event_that_is(&acme, &booking, "failed").await;
        receiver.answer(Answer::Silence);
        // Ten seconds of the product's own patience: this one test takes as long.
        assert_eq!(
            retry(&acme, &event).await.ok(200),
            result(&event, "pending", 1)
        );
        receiver.answer(Answer::Status(200));
        event_that_is(&acme, &booking, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn a_retry_repeated_under_its_key_is_answered_the_same_and_sends_nothing() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let receiver = Receiver::start().await;
        receiver.answer(Answer::Status(500));
        acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let event = event_that_is(&acme, &booking, "failed").await;
        receiver.answer(Answer::Status(200));
        let path = format!(
            "/v1/webhook-events/{}/retry",
            event["eventId"].as_str().unwrap()
        );
        let once = async || acme.caller.post_once(&path, "retry-1", &json!({})).await;
        let (first, again) = (once().await, once().await);
        assert_eq!(first.ok(200), result(&event, "delivered", 1));
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(receiver.received().len(), 2);
    })
    .await;
}
