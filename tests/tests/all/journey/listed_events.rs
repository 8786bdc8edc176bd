//! Events of types that an endpoint must list: made only while one does, and then delivered like any other.

use bookguard_core::limits::DAY_MS;
use std::collections::BTreeSet;

use bookguard_tests::json::{Members as _, only};
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

const LISTED: [&str; 3] = [
    "booking.rescheduled",
    "terms.accepted",
    "resolution.decided",
];

/// Moves a booking, records an acceptance of its terms, and has its cancellation decided.
async fn live_through(acme: &Partner, booking: &str) {
    let moved = acme.reschedule(booking, &samples::new_date()).await;
    moved.ok(200);
    let path = format!("/v1/bookings/{booking}/disclosure");
    let told = acme.get(&path).await.ok(200);
    let accepted = samples::acceptance(told.text("disclosureHash"));
    let path = format!("/v1/bookings/{booking}/acceptances");
    acme.post(&path, &accepted).await.ok(201);
    let open = acme.cancel(booking, &samples::open_cancellation()).await;
    let path = format!("/v1/resolutions/{}/decide", open.text("resolutionId"));
    acme.post(&path, &samples::decision()).await.ok(201);
}

/// The types of the events in a list.
fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event.text("type")).collect()
}

async fn log(acme: &Partner, query: &str) -> Vec<Value> {
    let path = format!("/v1/webhook-events?after=0&{query}");
    acme.get(&path).await.ok(200).list("data").clone()
}

#[tokio::test]
async fn a_listed_event_is_made_and_delivered_while_an_endpoint_lists_it() {
    with_partner_on_every_engine(async |server, acme| {
        let (standard, _) = acme.receiving(Answer::Status(204)).await;
        let unheard = acme.book().await;
        live_through(&acme, &unheard).await;
        let specified = [
            "booking.created",
            "resolution.created",
            "resolution.created",
        ];
        assert_eq!(types(&log(&acme, "").await), specified);

        let listing = Receiver::answering(Answer::Status(204)).await;
        let body = json!({"url": listing.url(), "events": LISTED});
        let listing_id = acme.new_endpoint(body).await.text("endpointId").to_owned();
        let booking = acme.book().await;
        live_through(&acme, &booking).await;
        let hooks = listing.wait_for(3).await;
        let events = acme.events(&booking).await;
        let all = [
            "booking.created",
            "booking.rescheduled",
            "terms.accepted",
            "resolution.created",
            "resolution.created",
            "resolution.decided",
        ];
        assert_eq!(types(&events), all);
        let seqs: Vec<u64> = events.iter().map(|event| event.number("seq")).collect();
        assert_eq!(seqs, [4, 5, 6, 7, 8, 9]);
        let bodies: Vec<Value> = hooks.iter().map(|hook| hook.json()).collect();
        for word in LISTED {
            let of_type = |event: &&Value| event["type"] == word;
            let event = events.iter().find(of_type).unwrap();
            let body = bodies.iter().find(of_type).unwrap();
            for name in ["eventId", "bookingId", "timestamp", "payload", "seq"] {
                assert_eq!(body[name], event[name], "{word} {name}");
            }
            let delivery = only(event.list("deliveries"));
            assert_eq!(delivery["endpointId"], listing_id.as_str());
            let found = log(&acme, &format!("type={word}")).await;
            assert_eq!(types(&found), [word]);
        }
        let sent =
            |name: &str| &events.iter().find(|event| event["type"] == name).unwrap()["payload"];
        assert_eq!(
            sent("booking.rescheduled")["eventDate"],
            "2031-10-20T23:00:00.000Z"
        );
        assert_eq!(
            sent("booking.rescheduled")["previousEventDate"],
            samples::booking()["eventDate"]
        );
        assert_eq!(sent("terms.accepted")["party"], "organizer");
        assert!(sent("terms.accepted")["ip"].is_null(), "no personal data");
        assert!(sent("resolution.decided")["supersedes"].is_string());
        let of_standard: Vec<Value> = standard
            .wait_for(6)
            .await
            .iter()
            .map(|h| h.json())
            .collect();
        assert!(
            of_standard
                .iter()
                .all(|body| specified.contains(&body.text("type")))
        );

        // Neither the ledger nor a packet knows of them.
        let packet = acme.verified_packet(&booking).await;
        let shown: BTreeSet<&str> = packet
            .list("deliveries")
            .iter()
            .map(|d| d.text("type"))
            .collect();
        assert_eq!(
            shown,
            BTreeSet::from(["booking.created", "resolution.created"])
        );

        // While the only endpoint that lists them is disabled, they are not made.
        acme.change_endpoint(&listing_id, json!({"enabled": false}))
            .await;
        let unheard = acme.book().await;
        live_through(&acme, &unheard).await;
        assert_eq!(types(&acme.events(&unheard).await), specified);
        server.database().verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn a_listed_event_is_retried_recovered_and_triggered_like_any_other() {
    with_partner_on_every_engine(async |server, acme| {
        let missing = acme.command("trigger booking.rescheduled").run().await;
        missing.ended(2, &["no enabled endpoint lists"]);
        let about_none = acme.command("trigger endpoint.suspended").run().await;
        about_none.ended(2, &["only events about bookings: booking.created"]);
        let listing = Receiver::answering(Answer::Status(500)).await;
        let body = json!({"url": listing.url(), "events": LISTED});
        acme.new_endpoint(body).await;
        for (n, word) in LISTED.into_iter().enumerate() {
            let made = acme.command(format!("trigger {word}")).json().await;
            assert_eq!(made["type"], word);
            listing.wait_for(n + 1).await;
        }
        let moved = log(&acme, "type=booking.rescheduled").await;
        let moved = only(&moved);
        until("a failed delivery", async || {
            let event = acme.event(moved).await;
            (event["status"] == "failed").then_some(())
        })
        .await;
        listing.answer(Answer::Status(204));
        let retried = acme.retry(moved).await.ok(200);
        assert_eq!(retried["retryStatus"], "delivered");
        // A new endpoint may have those that it lists.
        let later = Receiver::answering(Answer::Status(204)).await;
        let body = json!({"url": later.url(), "events": ["terms.accepted"]});
        let later_id = acme.new_endpoint(body).await.text("endpointId").to_owned();
        let body = json!({"since": "2020-01-01T00:00:00Z", "endpointId": later_id});
        let recovered = acme.post("/v1/webhook-events/recover", &body).await.ok(202);
        assert_eq!(recovered["recovered"], 1, "{recovered}");
        let hooks = later.wait_for(1).await;
        assert_eq!(hooks[0].json()["type"], "terms.accepted");
        server.database().verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn a_suspension_is_told_to_the_partners_other_endpoints() {
    with_partner_on_every_engine(async |server, acme| {
        let failing = Receiver::answering(Answer::Status(500)).await;
        let listing = Receiver::answering(Answer::Status(500)).await;
        let types = ["booking.created", "endpoint.suspended"];
        let body = json!({"url": failing.url(), "events": types});
        let failing_id = acme.new_endpoint(body).await.text("endpointId").to_owned();
        let body = json!({"url": listing.url(), "events": ["endpoint.suspended"]});
        acme.new_endpoint(body).await;
        let status = async |wanted: &str, failures: u64| {
            until(&format!("an endpoint that is {wanted}"), async || {
                let shown = acme.endpoint_shown(&failing_id).await;
                let is_so = shown["status"] == wanted && shown.number("failures") >= failures;
                is_so.then_some(shown)
            })
            .await
        };
        for n in 1..=10 {
            acme.book().await;
            status(if n < 10 { "active" } else { "failing" }, n).await;
        }
        assert_eq!(log(&acme, "type=endpoint.suspended").await.len(), 0);
        server.advance(5 * DAY_MS);
        let suspended = status("suspended", 11).await;

        listing.wait_for(1).await;
        let event = log(&acme, "type=endpoint.suspended").await;
        let event = only(&event);
        assert_eq!(
            (&event["bookingId"], &event["seq"]),
            (&Value::Null, &json!(11))
        );
        let payload = &event["payload"];
        assert_eq!(
            (
                &payload["endpointId"],
                &payload["url"],
                &payload["failingSince"]
            ),
            (
                &suspended["endpointId"],
                &suspended["url"],
                &suspended["failingSince"]
            )
        );
        assert_eq!(
            (&payload["failures"], &payload["partnerId"]),
            (&json!(11), &json!(acme.id))
        );
        let shown = acme.event(event).await;
        assert_eq!(
            shown.list("deliveries").len(),
            1,
            "the suspended one hears nothing"
        );
        for (line, says) in [
            (
                "webhook-events list --after 10 --output table",
                "endpoint.suspended",
            ),
            (
                &format!(
                    "webhook-events get {} --output table",
                    event.text("eventId")
                ),
                "endpoint.suspended",
            ),
        ] {
            acme.command(line).run().await.said(&[says]);
        }
        until("a failed delivery", async || {
            let event = acme.event(event).await;
            (event["status"] == "failed").then_some(())
        })
        .await;
        listing.answer(Answer::Status(204));
        let retried = acme.retry(event).await.ok(200);
        assert_eq!(retried["retryStatus"], "delivered");
        let local = Receiver::answering(Answer::Status(204)).await;
        let line = format!(
            "listen --after 10 --output table --forward-to {}",
            local.url()
        );
        let mut listening = acme.command(line).start();
        let posted = listening.line().await;
        // What the service delivered is another matter.
        let parts: Vec<&str> = posted.split("  ").collect();
        assert_eq!(
            (parts[0], parts[2], parts.len()),
            ("11", "endpoint.suspended", 5),
            "{posted}"
        );
        assert!(parts[4].starts_with("204 in "), "{posted}");
        let body = local.wait_for(1).await[0].json();
        assert_eq!(
            (&body["bookingId"], &body["payload"]),
            (&Value::Null, payload)
        );
        server.database().verify(10).await;
    })
    .await;
}
