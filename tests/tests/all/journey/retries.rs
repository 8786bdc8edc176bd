//! The results of a manual retry: delivered, failed, pending, or nothing to do.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

fn result(event: &Value, status: &str, count: u32) -> Value {
    json!({"eventId": event["eventId"], "retryStatus": status, "retryCount": count})
}

#[tokio::test]
async fn a_failed_event_is_retried_until_it_is_delivered_and_then_no_more() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let receiver = Receiver::answering(Answer::Status(500)).await;
        acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "failed").await;
        let retried = acme.retry(&event).await.ok(200);
        assert_eq!(retried, result(&event, "failed", 1));
        let waiting = acme.event_that_is(&booking, "failed").await;
        assert!(
            waiting["nextAttemptAt"].is_string(),
            "the automatic attempts go on: {waiting}"
        );
        receiver.answer(Answer::Status(200));
        let retried = acme.retry(&event).await.ok(200);
        assert_eq!(retried, result(&event, "delivered", 2));
        let done = acme.event_that_is(&booking, "delivered").await;
        done.holds(json!({"retryCount": 2, "nextAttemptAt": null}));
        let refused = acme.retry(&event).await;
        refused.refused(409, "event_already_delivered");
        assert_eq!(receiver.received().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn an_event_without_endpoints_goes_to_those_that_exist_now() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "no_endpoints").await;
        assert_eq!(event["deliveries"], json!([]));
        let refused = acme.retry(&event).await;
        refused.refused(409, "no_endpoints");
        let receiver = Receiver::start().await;
        let other = format!("{}?other", receiver.url());
        let other_types = json!({"url": other, "events": ["booking.protected"]});
        acme.post("/v1/webhook-endpoints", &other_types)
            .await
            .ok(201);
        assert_eq!(acme.retry(&event).await.code(), "no_endpoints");
        acme.endpoint(&receiver.url()).await;
        let retried = acme.retry(&event).await.ok(200);
        assert_eq!(retried, result(&event, "delivered", 1));
        let received = receiver.received();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].string("eventId"), event.text("eventId"));
    })
    .await;
}

#[tokio::test]
async fn a_retry_whose_outcome_is_not_known_in_time_is_pending() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let receiver = Receiver::answering(Answer::Status(500)).await;
        acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "failed").await;
        receiver.answer(Answer::Silence);
        // The server waits ten seconds before it answers `pending`; only this test takes that long.
        let retried = acme.retry(&event).await.ok(200);
        assert_eq!(retried, result(&event, "pending", 1));
        receiver.answer(Answer::Status(200));
        acme.event_that_is(&booking, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn a_retry_repeated_under_its_key_is_answered_the_same_and_sends_nothing() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let receiver = Receiver::answering(Answer::Status(500)).await;
        acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "failed").await;
        receiver.answer(Answer::Status(200));
        let path = format!("/v1/webhook-events/{}/retry", event.text("eventId"));
        let once = async || acme.post_once(&path, "retry-1", &json!({})).await;
        let (first, again) = (once().await, once().await);
        assert_eq!(first.ok(200), result(&event, "delivered", 1));
        again.replays(&first);
        assert_eq!(receiver.received().len(), 2);
    })
    .await;
}
