//! The results of a manual retry: delivered, failed, pending, or nothing to do; and where attempts end.

use std::collections::BTreeSet;

use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

/// A partner whose receiver fails, a booking, and its event, which failed once.
async fn failing(engine: Engine) -> (TestServer, Partner, Receiver, String, Value) {
    let (server, acme) = TestServer::with_partner(engine).await;
    let (receiver, _) = acme.receiving(Answer::Status(500)).await;
    let booking = acme.book().await;
    let event = acme.event_that_is(&booking, "failed").await;
    (server, acme, receiver, booking, event)
}

fn result(event: &Value, status: &str, count: u32) -> Value {
    json!({"eventId": event["eventId"], "retryStatus": status, "retryCount": count})
}

#[tokio::test]
async fn a_failed_event_is_retried_until_it_is_delivered_and_then_no_more() {
    on_every_engine(async |engine| {
        let (_server, acme, receiver, booking, event) = failing(engine).await;
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
    with_partner_on_every_engine(async |_server, acme| {
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "no_endpoints").await;
        assert_eq!(event["deliveries"], json!([]));
        let refused = acme.retry(&event).await;
        refused.refused(409, "no_endpoints");
        let receiver = Receiver::start().await;
        let other = format!("{}?other", receiver.url());
        let other_types = json!({"url": other, "events": ["booking.protected"]});
        let done = acme.post("/v1/webhook-endpoints", &other_types).await;
        done.ok(201);
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
async fn what_failed_at_a_deleted_endpoint_counts_until_another_has_the_event() {
    on_every_engine(async |engine| {
        let (server, acme, _receiver, booking, event) = failing(engine).await;
        acme.delete_endpoint(event["deliveries"][0].text("endpointId"))
            .await;
        let refused = acme.retry(&event).await;
        refused.refused(409, "no_endpoints");
        refused.says(&["takes events of type booking.created"]);
        let (_heir, _) = acme.receiving(Answer::Status(200)).await;
        let retried = acme.retry(&event).await.ok(200);
        assert_eq!(retried, result(&event, "delivered", 1));
        acme.event_that_is(&booking, "delivered").await;
        for (status, count) in [("failed", 0), ("delivered", 1)] {
            let path = format!("/v1/webhook-events?status={status}");
            let log = acme.get(&path).await.ok(200);
            assert_eq!(log.list("data").len(), count, "{status}");
        }
        let activity = acme.get("/v1/activity").await.ok(200);
        activity["hours"][23].holds(json!({"delivered": 1, "failed": 0}));
        let refused = acme.retry(&event).await;
        refused.refused(409, "event_already_delivered");
        // The packet shows both deliveries as they ended.
        let packet = acme.verified_packet(&booking).await;
        let deliveries = packet.list("deliveries").iter();
        let ends: BTreeSet<_> = deliveries.map(|one| one.text("status")).collect();
        assert_eq!(ends, BTreeSet::from(["delivered", "failed"]));
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_retry_whose_outcome_is_not_known_in_time_is_pending() {
    on_every_engine(async |engine| {
        let (_server, acme, receiver, booking, event) = failing(engine).await;
        receiver.answer(Answer::Silence);
        // The server waits ten seconds before it answers `pending`; only this test takes that long.
        let retried = acme.retry(&event).await.ok(200);
        assert_eq!(retried, result(&event, "pending", 1));
        let tried = acme.event(&event).await;
        tried["deliveries"][0]
            .holds(json!({"status": "failed", "progress": "under_way", "nextAttemptAt": null}));
        receiver.answer(Answer::Status(200));
        acme.event_that_is(&booking, "delivered").await;
    })
    .await;
}

#[tokio::test]
async fn a_retry_repeated_under_its_key_is_answered_the_same_and_sends_nothing() {
    on_every_engine(async |engine| {
        let (_server, acme, receiver, _, event) = failing(engine).await;
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

#[tokio::test]
async fn a_delivery_is_attempted_500_times_and_the_latest_attempts_are_shown() {
    on_every_engine(async |engine| {
        let (server, acme, receiver, booking, event) = failing(engine).await;
        // As after many recoveries: attempts 2 to 498 used up no step of the schedule.
        server.database().tamper(
            "INSERT INTO attempt (event_id, endpoint_id, number, body) \
             WITH RECURSIVE made(number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM made WHERE number < 498) \
             SELECT event_id, endpoint_id, made.number, \
                 replace(body, ',\"url\":', ',\"uncharged\":true,\"url\":') FROM attempt, made; \
             UPDATE delivery SET attempts = 498",
        );
        acme.retry(&event).await.ok(200);
        let next = acme.event(&event).await;
        assert!(next["nextAttemptAt"].is_string(), "{next}");
        acme.retry(&event).await.ok(200);
        let last = acme.event(&event).await;
        last.holds(json!({"nextAttemptAt": null, "status": "failed"}));
        let numbers = last["attempts"].as_array().unwrap().iter();
        let numbers: Vec<_> = numbers.map(|attempt| attempt["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (481..=500).collect::<Vec<_>>());
        let listed = acme.event_that_is(&booking, "failed").await;
        listed["deliveries"][0].holds(json!({"attempts": 500, "lastStatusCode": 500}));

        let refused = acme.retry(&event).await;
        refused.refused(409, "too_many_retries");
        server.advance(1000);
        let everything = json!({"since": "2026-01-01T00:00:00Z"});
        let recovery = acme.post("/v1/webhook-events/recover", &everything).await.ok(202);
        recovery.holds(json!({"examined": 1, "recovered": 0, "noEndpoints": 1}));
        assert_eq!(receiver.received().len(), 3);

        let packet = acme.verified_packet(&booking).await;
        let delivery = &packet["deliveries"][0];
        assert_eq!(delivery["attempts"], 500);
        assert_eq!(delivery["history"].as_array().unwrap().len(), 20);
        let entries = packet["entries"].as_array().unwrap().len();
        assert_eq!(entries, 2, "the creation, and that the delivery was given up");
        server.close().await.verify(1).await;
    })
    .await;
}
