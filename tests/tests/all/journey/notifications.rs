//! Notifications as evidence: the outcome of each delivery is an entry of its booking, and is in its packet.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_core::limits::DAY_MS;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::with_partner_on_every_engine;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the outcomes of deliveries that the packet's entries record, in order.
fn recorded(packet: &Value) -> Vec<Value> {
    let entries = packet.list("entries").iter();
    let settled = entries.filter(|entry| entry["body"]["kind"] == "webhook.settled");
    let value = |entry: &Value| match entry.list("disclosures").as_slice() {
        [only] if only["name"] == "notification" => only["value"].clone(),
        other => panic!("{other:?}"),
    };
    settled.map(value).collect()
}

#[tokio::test]
async fn an_accepted_delivery_is_recorded_with_the_digests_of_request_and_answer() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, endpoint) = acme.receiving(Answer::Status(200)).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "delivered").await;
        let packet = acme.verified_packet(&booking).await;
        let sent = receiver.wait_for(1).await.remove(0);
        let expected = json!({
            "eventId": event["eventId"], "type": "booking.created", "seq": 1, "bodySha256": digest(&sent.body),
            "endpointId": endpoint, "outcome": "delivered", "settledAt": "2026-09-21T14:13:20.000Z", "attempts": 1,
            "statusCode": 200, "responseSha256": digest(b"ok")
        });
        assert_eq!(recorded(&packet), std::slice::from_ref(&expected));
        let delivery = &packet["deliveries"][0];
        delivery.holds(json!({"status": "delivered", "recorded": [expected]}));
        let text = packet["summary"]["timeline"][1].text("text");
        let told = format!("accepted the notification of the recorded booking (status 200, after 1 attempt): event 1, endpoint {endpoint}.");
        assert!(text.ends_with(&told), "{text}");
        assert_eq!(packet["summary"]["timeline"][1]["entry"], 1);
        // The address may hold a token, so it is not recorded.
        assert!(!packet["entries"].to_string().contains("127.0.0.1"));
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_given_up_delivery_is_recorded_once_and_again_when_accepted_later() {
    with_partner_on_every_engine(async |server, acme| {
        let (receiver, _) = acme.receiving(Answer::Status(413)).await;
        let booking = acme.book().await;
        let event = acme.event_that_is(&booking, "failed").await;
        let outcomes = |packet: &Value| -> Vec<Value> {
            let summary =
                |n: &Value| json!([n["outcome"], n["attempts"], n["error"], n["statusCode"]]);
            recorded(packet).iter().map(summary).collect()
        };
        let given_up = json!(["given_up", 1, "payload_too_large", 413]);
        let told = outcomes(&acme.verified_packet(&booking).await);
        assert_eq!(told, std::slice::from_ref(&given_up));
        // Retries that fail do not record a second `given_up`.
        receiver.answer(Answer::Status(500));
        assert_eq!(acme.retry(&event).await.string("retryStatus"), "failed");
        receiver.answer(Answer::Status(413));
        assert_eq!(acme.retry(&event).await.string("retryStatus"), "failed");
        let still = acme.verified_packet(&booking).await;
        assert_eq!(
            (outcomes(&still), &still["deliveries"][0]["attempts"]),
            (vec![given_up.clone()], &json!(3))
        );
        // A cancellation in the meantime does not stop earlier notifications.
        acme.cancel(&booking, &json!({"canceledBy": "organizer"}))
            .await;
        receiver.answer(Answer::Status(204));
        assert_eq!(acme.retry(&event).await.string("retryStatus"), "delivered");
        until("both events to have ended", async || {
            let packet = acme.verified_packet(&booking).await;
            (recorded(&packet).len() == 3).then_some(())
        })
        .await;
        let whole = acme.verified_packet(&booking).await;
        assert!(
            outcomes(&whole).contains(&json!(["delivered", 4, null, 204])),
            "{whole}"
        );
        assert_eq!(whole["deliveries"][0].list("recorded").len(), 2);
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_schedule_is_recorded_and_the_end_of_an_endpoint_is_not() {
    with_partner_on_every_engine(async |server, acme| {
        let (mut ids, mut receivers) = (Vec::new(), Vec::new());
        for _failing_deleted_disabled in 0..3 {
            let receiver = Receiver::answering(Answer::Status(503)).await;
            ids.push(acme.endpoint(&receiver.url()).await);
            receivers.push(receiver);
        }
        let booking = acme.book().await;
        let attempts = async |endpoint: &str, count: u64| {
            let what = format!("attempt {count} at {endpoint}");
            until(&what, async || {
                let event = acme.events(&booking).await.remove(0);
                let deliveries = event.list("deliveries");
                let of = deliveries
                    .iter()
                    .find(|delivery| delivery["endpointId"] == *endpoint)?
                    .clone();
                (of["attempts"] == count).then_some(of)
            })
            .await
        };
        for id in &ids {
            attempts(id, 1).await;
        }
        acme.delete_endpoint(&ids[1]).await;
        acme.change_endpoint(&ids[2], json!({"enabled": false})).await;
        for count in 2..=10 {
            // What is recorded once stays, so it is enough to look before the last attempt.
            if count == 10 {
                assert_eq!(recorded(&acme.verified_packet(&booking).await), [] as [Value; 0]);
            }
            let event = acme.events(&booking).await.remove(0);
            server.advance(server.until_next_attempt(&event));
            attempts(&ids[0], count).await;
        }
        let packet = acme.verified_packet(&booking).await;
        let ends = recorded(&packet);
        assert_eq!(ends.len(), 1, "{ends:?}");
        ends[0].holds(json!({"endpointId": ids[0], "outcome": "given_up", "attempts": 10, "error": "http_5xx"}));
        assert_eq!(packet.list("deliveries").len(), 3);
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn whoever_gets_a_packet_learns_scheme_and_host_of_the_receiver_and_no_token() {
    with_partner_on_every_engine(async |server, acme| {
        let receiver = Receiver::answering(Answer::Status(500)).await;
        let address = receiver.url();
        let host = address.strip_suffix("/hook").unwrap();
        let url = format!("{address}/s3cret?token=s3cret");
        let endpoint = acme.endpoint(&url).await;
        let booking = acme.book().await;
        acme.event_that_is(&booking, "failed").await;
        let packet = acme.verified_packet(&booking).await;
        assert_eq!(packet["deliveries"][0]["url"], host);
        assert!(!packet.to_string().contains("s3cret"), "{packet}");
        let told = format!("at {host} was not accepted");
        let summary = packet["summary"].to_string();
        assert!(summary.contains(&told), "{summary}");
        // An address that the endpoint gets later was not told of it.
        let next = Receiver::start().await;
        let named = async |url: &str, shown: &str| {
            let packet = acme.verified_packet(&booking).await;
            assert_eq!(packet["deliveries"][0]["url"], shown);
            let event = acme.events(&booking).await.remove(0);
            assert_eq!(event["deliveries"][0]["url"], url);
        };
        acme.change_endpoint(&endpoint, json!({"url": next.url()}))
            .await;
        named(&url, host).await;
        server.advance(6_000);
        acme.event_that_is(&booking, "delivered").await;
        let elsewhere = json!({"url": "http://127.0.0.1:9/"});
        acme.change_endpoint(&endpoint, elsewhere).await;
        named(&next.url(), next.url().strip_suffix("/hook").unwrap()).await;
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_was_wrong_once_is_a_warning_and_the_log_never_runs_backwards() {
    with_partner_on_every_engine(async |server, acme| {
        let receiver = Receiver::start().await;
        // An endpoint and a booking are made with the clock a day ahead. Then the clock is corrected.
        server.advance(DAY_MS);
        acme.endpoint(&receiver.url()).await;
        let early = acme.book().await;
        acme.event_that_is(&early, "delivered").await;
        server.advance(-DAY_MS);
        let late = acme.book().await;
        let protected = acme.protect(&late).await;
        assert_eq!(protected["protectedAt"], "2026-09-21T14:13:20.000Z");
        acme.event_that_is(&late, "delivered").await;
        let packet = acme.verified_packet(&late).await;
        assert_eq!(packet["booking"]["createdAt"], "2026-09-21T14:13:20.000Z");
        for entry in packet.list("entries") {
            let leaf = STANDARD.decode(entry.text("leaf")).unwrap();
            let leaf: Value = serde_json::from_slice(&leaf).unwrap();
            assert_eq!(leaf["t"], "2026-09-22T14:13:20.000Z", "the log's last time");
        }
        let database = server.close().await;
        let report = database.verify(2).await;
        let warnings = report["warnings"].to_string();
        assert!(
            warnings.contains("the endpoint was made after the event"),
            "{report}"
        );
        assert!(warnings.contains("A clock that was wrong"), "{report}");
    })
    .await;
}
