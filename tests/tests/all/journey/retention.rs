//! Old events lose their payload and attempts, and nothing else; events with waiting deliveries lose nothing.

use bookguard_core::limits::DAY_MS;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::Answer;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Returns the event once it is pruned.
async fn pruned(partner: &Partner, event_id: &str) -> Value {
    let path = format!("/v1/webhook-events/{event_id}");
    until("the event to be pruned", async || {
        let event = partner.get(&path).await.ok(200);
        event["prunedAt"].is_string().then_some(event)
    })
    .await
}

/// Moves the clock forward and restarts the server, which looks for old events when it starts.
async fn later(server: &mut TestServer, days: i64, partner: &mut Partner) {
    server.advance(days * DAY_MS);
    server.restart().await;
    *partner = partner.on(&server.running().url());
}

fn id(event: &Value) -> &str {
    event.text("eventId")
}

#[tokio::test]
async fn old_events_lose_payload_and_attempts_and_stay_what_they_were() {
    with_partner_on_every_engine(async |mut server, mut acme| {
        let quiet = acme.book().await;
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        let told = acme.book().await;
        let delivered = acme.event_that_is(&told, "delivered").await;
        let unheard = acme.event_that_is(&quiet, "no_endpoints").await;
        // This delivery fails, and waits for an endpoint that its partner has disabled.
        let (failing, off) = acme.receiving(Answer::Status(500)).await;
        let open = acme.book().await;
        let waiting = acme.event_that_is(&open, "failed").await;
        acme.change_endpoint(&off, json!({"enabled": false})).await;

        server.advance(60 * DAY_MS);
        let young = acme.book().await;
        acme.event_that_is(&young, "delivered").await;
        later(&mut server, 31, &mut acme).await;

        let event = pruned(&acme, id(&delivered)).await;
        assert_eq!(event["payload"], Value::Null);
        assert!(event.get("signature").is_none(), "{event}");
        assert!(event.get("body").is_none(), "{event}");
        assert_eq!(event["prunedAt"], "2026-12-21T14:13:20.000Z");
        assert_eq!(event["attempts"], json!([]));
        let body = &receiver.received()[0].body;
        let digest = Sha256::digest(body);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(event["bodySha256"], digest);
        for name in [
            "eventId",
            "type",
            "bookingId",
            "timestamp",
            "status",
            "seq",
            "retryCount",
        ] {
            assert_eq!(event[name], delivered[name], "{name}");
        }
        let delivery = &event["deliveries"][0];
        delivery.holds(json!({"status": "delivered", "attempts": 1}));
        pruned(&acme, id(&unheard)).await;

        // The event that waits is complete, and so is the recent one.
        for (booking, kept) in [(&open, true), (&young, true), (&told, false)] {
            let event = &acme.events(booking).await[0];
            assert_eq!(event["payload"].is_object(), kept, "{event}");
            assert_eq!(event["signature"].is_string(), kept, "{event}");
            assert_eq!(event.get("prunedAt").is_none(), kept, "{event}");
        }
        let log = acme.get("/v1/webhook-events").await.ok(200);
        let log = log.list("data").clone();
        let numbers: Vec<u64> = log.iter().map(|e| e.number("seq")).collect();
        assert_eq!(numbers, [1, 2, 3, 4], "no gap");
        let found = acme.get("/v1/webhook-events?status=delivered").await;
        let found = found.ok(200);
        assert_eq!(found["data"][0]["eventId"], delivered["eventId"]);

        for event in [&delivered, &unheard] {
            let refused = acme.retry(event).await;
            refused.refused(409, "event_pruned");
            refused.says(&["2026-12-21T14:13:20.000Z"]);
        }
        proven(&acme, &told).await;
        assert_eq!(receiver.received().len(), 3, "nothing was sent again");

        // Once the event is delivered nothing keeps it; the scan after the next restart prunes it.
        failing.answer(Answer::Status(200));
        acme.change_endpoint(&off, json!({"enabled": true})).await;
        acme.event_that_is(&open, "delivered").await;
        later(&mut server, 0, &mut acme).await;
        pruned(&acme, id(&waiting)).await;
        let still = &acme.events(&young).await[0];
        assert!(still["payload"].is_object(), "{still}");
        server.close().await.verify(4).await;
    })
    .await;
}

/// Asserts that the packet of a booking with pruned events verifies and keeps the outcomes of their deliveries.
async fn proven(acme: &Partner, booking: &str) {
    let packet = acme.verified_packet(booking).await;
    packet["deliveries"][0].holds(json!({"status": "delivered", "attempts": 1, "history": []}));
}

#[tokio::test]
async fn an_event_that_was_made_while_the_clock_was_far_behind_is_pruned_too() {
    with_partner_on_every_engine(async |mut server, mut acme| {
        let first = acme.event_that_is(&acme.book().await, "no_endpoints").await;
        later(&mut server, 91, &mut acme).await;
        pruned(&acme, id(&first)).await;
        server.advance(-100 * DAY_MS);
        let behind = acme.event_that_is(&acme.book().await, "no_endpoints").await;
        later(&mut server, 100, &mut acme).await;
        pruned(&acme, id(&behind)).await;
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_a_deleted_endpoint_is_given_up_with_its_event() {
    with_partner_on_every_engine(async |mut server, mut acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(500)).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "failed").await;
        acme.delete_endpoint(&endpoint).await;
        later(&mut server, 91, &mut acme).await;
        let event = pruned(&acme, id(&event)).await;
        assert_eq!(event["status"], "failed");
        assert_eq!(event["nextAttemptAt"], Value::Null);
        // A replacement endpoint does not receive an event whose payload is gone.
        acme.endpoint(&receiver.url()).await;
        acme.retry(&event).await.refused(409, "event_pruned");
        server.close().await.verify(1).await;
    })
    .await;
}
