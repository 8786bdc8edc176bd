//! Events missed while a receiver was down are sent again, without a request for each event.

use std::collections::BTreeSet;

use bookguard_core::limits::{DAY_MS, RECOVERED};
use bookguard_core::model::Timestamp;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{on_every_engine, on_postgres};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

const SECOND: i64 = 1000;
const RECOVER: &str = "/v1/webhook-events/recover";

fn time(ms: i64) -> String {
    Timestamp::from_ms(ms).to_string()
}

/// Returns the body of a recovery of everything so far, changed by `more`.
fn since_ever(more: Value) -> Value {
    let mut body = json!({"since": "2020-01-01T00:00:00Z"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn recover(partner: &Partner, more: Value) -> Value {
    partner.post(RECOVER, &since_ever(more)).await.ok(202)
}

async fn shown(partner: &Partner, recovery: &Value) -> Value {
    let id = recovery.text("recoveryId");
    let path = format!("/v1/webhook-recoveries/{id}");
    partner.get(&path).await.ok(200)
}

/// Returns the recovery once it has finished.
async fn finished(partner: &Partner, recovery: &Value) -> Value {
    until("the end of the recovery", async || {
        let shown = shown(partner, recovery).await;
        (shown["status"] == "finished").then_some(shown)
    })
    .await
}

/// Returns the numbers of events examined, events recovered, deliveries, and events that no endpoint takes.
fn counts(recovery: &Value) -> [u64; 4] {
    ["examined", "recovered", "deliveries", "noEndpoints"]
        .map(|name| recovery[name].as_u64().unwrap())
}

/// Events that one recovery examines in three steps.
const MANY: usize = 2 * RECOVERED + 1;

/// Returns how many of the partner's events have this status.
async fn count_in(partner: &Partner, status: &str) -> usize {
    let (mut after, mut count) = (0, 0);
    loop {
        let path = format!("/v1/webhook-events?status={status}&limit=100&after={after}");
        let log = partner.get(&path).await.ok(200);
        count += log.list("data").len();
        after = log.number("nextAfter");
        if log["hasMore"] == false {
            return count;
        }
    }
}

#[tokio::test]
async fn a_recovery_delivers_failed_and_unsent_events_as_its_dry_run_said() {
    with_partner_on_every_engine(async |server, acme| {
        let early = acme.book().await;
        server.advance(DAY_MS);
        let (receiver, endpoint) = acme.receiving(Answer::Status(413)).await;
        let given_up = acme.book().await;
        let event = acme.event_that_is(&given_up, "failed").await;
        assert!(event["nextAttemptAt"].is_null(), "{event}");
        receiver.answer(Answer::Status(200));
        let fine = acme.book().await;
        acme.event_that_is(&fine, "delivered").await;
        receiver.answer(Answer::Status(500));
        let waiting = acme.book().await;
        acme.event_that_is(&waiting, "failed").await;
        // Longer than any delivery is retried automatically.
        server.advance(30 * DAY_MS);

        let counted = recover(&acme, json!({"dryRun": true})).await;
        counted.holds(json!({"dryRun": true, "status": "finished"}));
        assert_eq!(counts(&counted), [4, 3, 3, 0]);
        for (booking, status) in [(&early, "no_endpoints"), (&given_up, "failed")] {
            let event = acme.event_that_is(booking, status).await;
            assert!(
                event["nextAttemptAt"].is_null(),
                "nothing happened: {event}"
            );
        }
        // Ids made in the same millisecond have no order.
        server.advance(1);
        let real = recover(&acme, json!({})).await;
        real.holds(json!({"dryRun": false, "status": "finished"}));
        assert_eq!(counts(&real), counts(&counted));
        assert_eq!(shown(&acme, &real).await, real);
        // The receiver still fails: each delivery starts a new retry schedule, however old the event is.
        for booking in [&early, &given_up, &waiting] {
            let event = until("another attempt", async || {
                let event = acme.events(booking).await.remove(0);
                let failed = event["deliveries"][0]["lastStatusCode"] == 500;
                (failed && event["nextAttemptAt"].is_string()).then_some(event)
            });
            let next = event.await.text("nextAttemptAt").to_owned();
            let wait = Timestamp::parse(&next).unwrap().ms() - server.now_ms();
            assert!((4 * SECOND..=6 * SECOND).contains(&wait), "{wait}");
        }
        receiver.answer(Answer::Status(200));
        server.advance(7 * SECOND);
        for booking in [&early, &given_up, &fine, &waiting] {
            let event = acme.event_that_is(booking, "delivered").await;
            assert_eq!(event["retryCount"], 0, "no manual retry");
            assert_eq!(event["deliveries"][0]["endpointId"], endpoint.as_str());
        }
        let nothing = recover(&acme, json!({})).await;
        assert_eq!(counts(&nothing), [4, 0, 0, 0]);
        let list = acme.get("/v1/webhook-recoveries?limit=2").await.ok(200);
        assert_eq!(list["data"], json!([nothing, real]));
        let cursor = list.text("nextCursor");
        let path = format!("/v1/webhook-recoveries?limit=2&cursor={cursor}");
        let rest = acme.get(&path).await.ok(200);
        rest.holds(json!({"data": [counted], "hasMore": false}));
        server.close().await.verify(4).await;
    })
    .await;
}

#[tokio::test]
async fn a_recovery_selects_by_time_status_and_endpoint_even_for_a_new_endpoint() {
    with_partner_on_every_engine(async |server, acme| {
        let receiver = Receiver::start().await;
        let mut times = Vec::new();
        let mut bookings = Vec::new();
        for _ in 0..3 {
            times.push(server.now_ms());
            bookings.push(acme.book().await);
            server.advance(DAY_MS);
        }
        let only = |from: usize, to: usize| {
            json!({"since": time(times[from]), "until": time(times[to]), "dryRun": true})
        };
        acme.endpoint(&receiver.url()).await;
        for (body, expected) in [
            (json!({"dryRun": true}), [3, 3, 3, 0]),
            (only(1, 2), [2, 2, 2, 0]),
            (only(0, 1), [2, 2, 2, 0]),
            (json!({"statuses": ["failed"], "dryRun": true}), [3, 0, 0, 0]),
            (json!({"statuses": ["no_endpoints"], "dryRun": true}), [3, 3, 3, 0]),
            (json!({"since": time(times[2] + 1), "dryRun": true}), [0, 0, 0, 0]),
        ] {
            assert_eq!(counts(&recover(&acme, body.clone()).await), expected, "{body}");
        }
        let mut second = only(1, 1);
        second["since"] = time(times[1] - 1).into();
        second["dryRun"] = false.into();
        assert_eq!(counts(&recover(&acme, second).await), [1, 1, 1, 0]);
        acme.event_that_is(&bookings[1], "delivered").await;
        assert_eq!(receiver.wait_for(1).await[0].string("bookingId"), bookings[1]);

        // A new endpoint for one event type has received nothing, so its events are recovered even if delivered elsewhere.
        let other = Receiver::start().await;
        let made = acme.new_endpoint(json!({"url": other.url(), "events": ["booking.created"]})).await;
 let endpoint = made.text("endpointId");
        acme.protect(&bookings[0]).await;
        let body = json!({"endpointId": endpoint});
        assert_eq!(counts(&recover(&acme, body.clone()).await), [4, 3, 3, 1]);
        let received = other.wait_for(3).await;
        let got: BTreeSet<String> = received.iter().map(|one| one.string("bookingId")).collect();
        assert_eq!(got, bookings.iter().cloned().collect());
        until("its deliveries to end", async || {
            let left = recover(&acme, json!({"endpointId": endpoint, "dryRun": true})).await;
            (counts(&left) == [4, 0, 0, 1]).then_some(())
        })
        .await;
        assert_eq!(other.received().len(), 3);
        server.close().await.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn a_disabled_endpoint_is_refused_by_name_and_passed_over_otherwise() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(413)).await;
        let booking = acme.book().await;
        acme.event_that_is(&booking, "failed").await;
        acme.change_endpoint(&endpoint, json!({"enabled": false}))
            .await;
        let body = since_ever(json!({"endpointId": endpoint}));
        let refused = acme.post(RECOVER, &body).await;
        refused.refused(409, "endpoint_disabled");
        assert_eq!(counts(&recover(&acme, json!({})).await), [1, 0, 0, 1]);
        // A new endpoint receives what the disabled one did not accept.
        let (heir, _) = acme.receiving(Answer::Status(200)).await;
        assert_eq!(counts(&recover(&acme, json!({})).await), [1, 1, 1, 0]);
        assert_eq!(heir.wait_for(1).await[0].string("bookingId"), booking);
        acme.change_endpoint(&endpoint, json!({"enabled": true}))
            .await;
        receiver.answer(Answer::Status(200));
        assert_eq!(counts(&recover(&acme, body.clone()).await), [1, 1, 1, 0]);
        acme.event_that_is(&booking, "delivered").await;
        acme.delete_endpoint(&endpoint).await;
        let refused = acme.post(RECOVER, &body).await;
        let expected = [("/endpointId".to_owned(), "endpoint_unknown".to_owned())];
        assert_eq!((refused.status, refused.details()), (400, expected.into()));
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn many_events_are_refilled_in_steps_and_each_arrives_once() {
    with_partner_on_every_engine(async |server, acme| {
        acme.book_many(MANY, &json!({})).await;
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        let counted = recover(&acme, json!({"dryRun": true})).await;
        assert_eq!(
            counted["status"], "running",
            "more than one step: {counted}"
        );
        let counted = finished(&acme, &counted).await;
        let many = MANY as u64;
        assert_eq!(counts(&counted), [many, many, many, 0]);
        assert_eq!(count_in(&acme, "no_endpoints").await, MANY);

        let real = recover(&acme, json!({})).await;
        assert_eq!(real["status"], "running", "{real}");
        let real = finished(&acme, &real).await;
        assert_eq!(counts(&real), counts(&counted));
        real.holds(json!({"throughSeq": MANY, "reachedSeq": MANY}));
        arrived_once(&receiver, MANY).await;
        // A delivery is recorded only after it has arrived.
        until("the last delivery to be recorded", async || {
            (count_in(&acme, "delivered").await == MANY).then_some(())
        })
        .await;
        server.close().await.verify(MANY).await;
    })
    .await;
}

/// Waits until `count` events have arrived and asserts that none came twice.
async fn arrived_once(receiver: &Receiver, count: usize) {
    let received = receiver.wait_for(count).await;
    let events: BTreeSet<String> = received.iter().map(|one| one.string("eventId")).collect();
    assert_eq!((events.len(), received.len()), (count, count));
}

#[tokio::test]
async fn two_nodes_take_one_recovery_to_its_end_and_no_event_goes_out_twice() {
    on_postgres(async |engine| {
        let server = TestServer::open(engine).await;
        let second = server.second_node().await;
        let acme = server.partner("Acme").await;
        acme.book_many(MANY, &json!({})).await;
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        let real = recover(&acme, json!({})).await;
        let there = acme.on(&second.url());
        let real = finished(&there, &real).await;
        let many = MANY as u64;
        assert_eq!(counts(&real), [many, many, many, 0]);
        assert_eq!(shown(&acme, &real).await, real);
        arrived_once(&receiver, MANY).await;
        second.stop().await;
        server.close().await.verify(MANY).await;
    })
    .await;
}

#[tokio::test]
async fn nobody_sees_begins_or_names_anything_of_another_partners() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let (ours, theirs) = (Receiver::start().await, Receiver::start().await);
        acme.book().await;
        let untouched = other.book().await;
        let endpoint = acme.endpoint(&ours.url()).await;
        let foreign = other.endpoint(&theirs.url()).await;
        let real = recover(&acme, json!({})).await;
        assert_eq!(counts(&real), [1, 1, 1, 0]);
        ours.wait_for(1).await;
        other.event_that_is(&untouched, "no_endpoints").await;

        let id = real.text("recoveryId");
        let unknown = format!("rec_{}", id[4..].chars().rev().collect::<String>());
        let get = async |id: &str| {
            let path = format!("/v1/webhook-recoveries/{id}");
            other.get(&path).await
        };
        let answers = [get(id).await, get(&unknown).await, get("x").await];
        assert!(
            answers
                .iter()
                .all(|reply| reply.status == 404 && reply.body == answers[0].body)
        );
        let list = other.get("/v1/webhook-recoveries").await.ok(200);
        assert_eq!(list["data"], json!([]));
        let unknown = format!("end_{}", foreign[4..].chars().rev().collect::<String>());
        let named = async |id: &str| -> Reply {
            let body = since_ever(json!({"endpointId": id}));
            acme.post(RECOVER, &body).await
        };
        let answers = [
            named(&foreign).await,
            named(&unknown).await,
            named("x").await,
        ];
        assert!(
            answers
                .iter()
                .all(|reply| reply.status == 400 && reply.body == answers[0].body)
        );
        named(&endpoint).await.ok(202);
        let list = acme.get("/v1/webhook-recoveries").await.ok(200);
        assert_eq!(list.list("data").len(), 2);
        server.close().await.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn a_repeated_request_begins_one_recovery() {
    with_partner_on_every_engine(async |_server, acme| {
        acme.book().await;
        let body = since_ever(json!({}));
        let first = acme.post_once(RECOVER, "once", &body).await;
        let again = acme.post_once(RECOVER, "once", &body).await;
        assert_eq!(
            (first.status, again.status, &first.body),
            (202, 202, &again.body)
        );
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        let location = first.header("location").unwrap();
        assert_eq!(again.header("location"), Some(location));
        assert_eq!(acme.get(location).await.ok(200), first.json());
        let other = since_ever(json!({"dryRun": true}));
        let reused = acme.post_once(RECOVER, "once", &other).await;
        reused.refused(422, "idempotency_key_reused");
        let list = acme.get("/v1/webhook-recoveries").await.ok(200);
        assert_eq!(list.list("data").len(), 1);
    })
    .await;
}
