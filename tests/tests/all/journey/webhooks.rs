//! Deliveries that succeed, fail, wait for their next attempt, and end.

use bookguard_core::limits::HOUR_MS;
use std::collections::BTreeSet;

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::json;

const SECOND: i64 = 1000;

#[tokio::test]
async fn a_failed_delivery_is_tried_again_on_schedule_until_it_is_given_up() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, _) = acme.receiving(Answer::Status(503)).await;
        let booking = acme.book().await;
        let waits = [
            5,
            300,
            1800,
            2 * 3600,
            5 * 3600,
            10 * 3600,
            14 * 3600,
            20 * 3600,
            24 * 3600,
        ];
        for (made, wait) in (1..).zip(waits) {
            let event = until("the next failure", async || {
                let event = acme.event_that_is(&booking, "failed").await;
                (event["deliveries"][0]["attempts"] == made).then_some(event)
            });
            let event = event.await;
            let ms = server.until_next_attempt(&event);
            let (low, high) = (wait * 800, wait * 1200);
            assert!(
                (low..=high).contains(&ms),
                "after attempt {made}: {ms} ms, not {wait} s ± 20 %"
            );
            assert_eq!(event["deliveries"][0]["lastStatusCode"], 503);
            server.advance(ms);
        }
        receiver.wait_for(10).await;
        let event = until("the end", async || {
            let event = acme.event_that_is(&booking, "failed").await;
            (event["deliveries"][0]["attempts"] == 10).then_some(event)
        });
        let event = event.await;
        assert!(event["nextAttemptAt"].is_null(), "{event}");
        let event = acme.event(&event).await;
        let records = event.list("attempts");
        assert_eq!(records.len(), 10);
        for (number, record) in (1..).zip(records) {
            record.holds(json!({"number": number, "error": "http_5xx"}));
        }
        // Each attempt sends the same bytes, signed with its own time.
        let received = receiver.received();
        assert_eq!(
            received
                .iter()
                .map(|one| &one.body)
                .collect::<BTreeSet<_>>()
                .len(),
            1
        );
        let stamps: BTreeSet<_> = received
            .iter()
            .map(|one| one.header("webhook-timestamp").to_owned())
            .collect();
        assert_eq!(stamps.len(), 10);
    })
    .await;
}

#[tokio::test]
async fn what_a_receiver_answers_decides_what_comes_next() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let later = |status, header| Answer::Headed(status, header);
        for (answer, error, wait) in [
            (Answer::Status(500), "http_5xx", Some((4, 6))),
            (Answer::Status(404), "http_4xx", Some((4, 6))),
            (
                later(302, "location: http://127.0.0.1:9/\r\n"),
                "redirect_refused",
                Some((4, 6)),
            ),
            (
                later(429, "retry-after: 120\r\n"),
                "throttled",
                Some((120, 120)),
            ),
            (
                later(503, "retry-after: 7200\r\n"),
                "http_5xx",
                Some((7200, 7200)),
            ),
            (
                later(503, "retry-after: 999999999\r\n"),
                "http_5xx",
                Some((86400, 86400)),
            ),
            (later(500, "retry-after: 120\r\n"), "http_5xx", Some((4, 6))),
            (Answer::Close, "connection_reset", Some((4, 6))),
            (Answer::Status(413), "payload_too_large", None),
            (Answer::Status(410), "gone", None),
        ] {
            let acme = server.partner("Acme").await;
            let (receiver, _) = acme.receiving(answer.clone()).await;
            let booking = acme.book().await;
            let event = acme.event_that_is(&booking, "failed").await;
            assert_eq!(event["deliveries"][0]["lastError"], error, "{answer:?}");
            match wait {
                None => {
                    assert!(event["nextAttemptAt"].is_null(), "{answer:?}: {event}");
                    assert_eq!(event["deliveries"][0]["progress"], "ended");
                }
                Some((low, high)) => {
                    assert_eq!(event["deliveries"][0]["progress"], "scheduled");
                    let ms = server.until_next_attempt(&event);
                    assert!(
                        (low * SECOND..=high * SECOND).contains(&ms),
                        "{answer:?}: {ms} ms"
                    );
                }
            }
            assert_eq!(receiver.received().len(), 1, "{answer:?}");
        }
        // Nothing listens at this address.
        let acme = server.partner("Acme").await;
        let gone = Receiver::start().await.url();
        acme.endpoint(&gone).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "failed").await;
        assert_eq!(event["deliveries"][0]["lastError"], "connection_refused");
        let event = acme.event(&event).await;
        let records = event.list("attempts");
        records[0].holds(json!({"phase": "connect", "statusCode": null}));
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_receives_its_types_and_an_event_takes_its_worst_delivery_status() {
    with_partner_on_every_engine(async |server, acme| {
        let (all, some) = (Receiver::start().await, Receiver::start().await);
        acme.endpoint(&all.url()).await;
        let body =
            json!({"url": some.url(), "events": ["booking.protected"], "description": "second"});
        let made = acme.post("/v1/webhook-endpoints", &body).await.ok(201);
        made.holds(json!({"events": body["events"], "description": body["description"]}));
        some.answer(Answer::Status(500));
        let booking = acme.book().await;
        acme.event_that_is(&booking, "delivered").await;
        acme.protect(&booking).await;
        let protected = until("a delivery and a failure", async || {
            let event = acme.events(&booking).await.remove(1);
            let mut statuses: Vec<_> = event
                .list("deliveries")
                .iter()
                .map(|d| d["status"].to_string())
                .collect();
            statuses.sort();
            (statuses == ["\"delivered\"", "\"failed\""]).then_some(event)
        });
        assert_eq!(protected.await["status"], "failed");
        some.answer(Answer::Status(204));
        server.advance(6 * SECOND);
        let whole = until("both deliveries", async || {
            let event = acme.events(&booking).await.remove(1);
            (event["status"] == "delivered").then_some(event)
        });
        whole.await;
        assert_eq!((all.received().len(), some.received().len()), (2, 2));
        let (mine, theirs) = (&all.received()[1], &some.received()[1]);
        assert_eq!(mine.body, theirs.body, "the same bytes to every endpoint");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_endpoint_receives_nothing_more_and_what_waited_is_given_up() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(500)).await;
        let booking = acme.book().await;
        acme.event_that_is(&booking, "failed").await;
        let path = format!("/v1/webhook-endpoints/{endpoint}");
        let ended = acme.delete(&path).await.ok(200);
        ended.holds(json!({"endpointId": endpoint, "enabled": false}));
        acme.get(&path).await.refused(404, "not_found");
        let again = acme.delete(&path).await.ok(200);
        for member in ["endpointId", "url", "enabled", "status"] {
            assert_eq!(again[member], ended[member], "{member}");
        }
        let rival = server.partner("Rival").await;
        rival.delete(&path).await.refused(404, "not_found");
        let list = acme.get("/v1/webhook-endpoints").await.ok(200);
        assert_eq!(list["data"], json!([]));
        let event = acme.event_that_is(&booking, "failed").await;
        assert!(event["nextAttemptAt"].is_null(), "{event}");
        server.advance(HOUR_MS);
        let later = acme.book().await;
        acme.event_that_is(&later, "no_endpoints").await;
        // A delivery to another endpoint shows that the courier has looked for work since.
        let (other, _) = acme.receiving(Answer::Status(200)).await;
        acme.book().await;
        other.wait_for(1).await;
        assert_eq!(receiver.received().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn events_of_a_partner_are_numbered_without_gaps() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        for _ in 0..5 {
            let booking = acme.book().await;
            other.book().await;
            acme.protect(&booking).await;
            acme.protect(&booking).await;
        }
        let received = receiver.wait_for(10).await;
        let numbers: BTreeSet<u64> = received
            .iter()
            .map(|one| one.json().number("seq"))
            .collect();
        assert_eq!(numbers, (1..=10).collect());
    })
    .await;
}

#[tokio::test]
async fn a_dead_receiver_does_not_hold_up_a_living_one() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (slow, quick) = (server.partner("Slow").await, server.partner("Quick").await);
        let (dead, alive) = (Receiver::start().await, Receiver::start().await);
        dead.answer(Answer::Silence);
        slow.endpoint(&dead.url()).await;
        quick.endpoint(&alive.url()).await;
        for _ in 0..30 {
            slow.book().await;
        }
        for _ in 0..30 {
            quick.book().await;
        }
        alive.wait_for(30).await;
        assert!(
            dead.received().len() <= 8,
            "no more than the endpoint's places are taken"
        );
        dead.answer(Answer::Status(200));
        dead.wait_for(30).await;
    })
    .await;
}

#[tokio::test]
async fn undelivered_events_are_delivered_after_a_restart() {
    with_partner_on_every_engine(async |mut server, acme| {
        let (receiver, _) = acme.receiving(Answer::Status(500)).await;
        let booking = acme.book().await;
        acme.event_that_is(&booking, "failed").await;
        receiver.answer(Answer::Status(200));
        server.restart().await;
        server.advance(6 * SECOND);
        let received = receiver.wait_for(2).await;
        assert_eq!(received[0].body, received[1].body);
    })
    .await;
}
