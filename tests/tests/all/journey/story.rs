//! The whole story in one go: every step uses the previous step's answer, as a partner's program would.

use bookguard_core::evidence;
use bookguard_core::webhook::{StandardHeaders, verify, verify_standard};
use bookguard_server::config::Config;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::mirror::{Mirror, leaf_hex};
use bookguard_tests::receiver::{Answer, Received};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

#[tokio::test]
async fn from_registration_to_evidence_that_verifies_without_the_service() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            public_url: Some("https://bookings.example.com".to_owned()),
            ..config
        });
        let server = server.await;
        let acme = registered(&server).await;
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        let vkey = server.vkey().await;
        let empty = Mirror::download(&server.caller(), &vkey).await;
        assert_eq!(empty.entries().len(), 0);

        let id = booked(&acme).await;
        let created = Mirror::download(&server.caller(), &vkey).await;
        created.extends(&empty);
        // The log now holds the booking and the delivery of its event, and nothing else.
        acme.event_that_is(&id, "delivered").await;
        server.advance(60_000);
        let receipt = protected(&acme, &id).await;

        let webhooks = receiver.wait_for(2).await;
        genuine(&server, &acme, &webhooks);
        told(&webhooks, &acme, &id);
        listed(&acme, &id, &webhooks).await;
        evaluated(&acme, &id).await;

        let mirror = Mirror::download(&server.caller(), &vkey).await;
        mirror.extends(&created);
        assert_eq!(
            mirror.entries().len(),
            4,
            "two facts, and that each was told"
        );
        let index = receipt.number("leafIndex") as usize;
        assert_eq!(receipt["leafHash"], leaf_hex(&mirror.entries()[index]));
        assert_eq!((index, &receipt["treeSize"]), (2, &json!(3)));
        assert_eq!(receipt["rootHash"], mirror.root_hex_at(3));
        let head = server.running().service().clone();
        let head = tokio::task::spawn_blocking(move || head.head())
            .await
            .unwrap();
        assert_eq!(receipt["logOrigin"], head.unwrap().origin);
        for entry in mirror.entries() {
            let text = String::from_utf8(entry.clone()).unwrap();
            for private in ["Owls", "Acme", &id[4..], &acme.id[4..], "1250.5"] {
                assert!(!text.contains(private), "{private} in {text}");
            }
        }

        let packet = acme.packet(&id).await;
        server.close().await;
        holds_without_the_service(&packet, &vkey, &id);
    })
    .await;
}

async fn registered(server: &TestServer) -> Partner {
    let acme = server.partner("Acme Ltd").await;
    assert!(
        acme.id.starts_with("ptn_")
            && acme.key.starts_with("bgk_")
            && acme.secret.starts_with("whsec_")
    );
    let me = acme.get("/v1/partners/me").await.ok(200);
    let mut expected = samples::partner("Acme Ltd");
    expected["partnerId"] = json!(acme.id);
    expected["status"] = json!("active");
    expected["createdAt"] = json!("2026-09-21T14:13:20.000Z");
    expected["quota"] = json!({
        "bookings": {"used": 0, "limit": 100_000_000}, "bytes": {"used": 0, "limit": 128_i64 << 30},
        "eventsPerDay": {"used": 0, "limit": 50_000_000}, "endpoints": {"used": 0, "limit": 20},
        "fileBytes": {"used": 0, "limit": 1 << 30},
    });
    assert_eq!(me, expected);
    acme
}

async fn booked(acme: &Partner) -> String {
    let made = acme.post("/v1/bookings", &samples::booking()).await;
    let id = made.string("bookingId");
    assert_eq!(
        made.header("location"),
        Some(format!("/v1/bookings/{id}").as_str())
    );
    let answered = json!({
        "bookingId": id, "partnerId": acme.id, "status": "created", "createdAt": "2026-09-21T14:13:20.000Z"
    });
    assert_eq!(made.ok(201), answered);
    let shown = acme.booking(&id).await;
    let mut expected = samples::booking();
    expected["bookingId"] = json!(id);
    expected["partnerId"] = json!(acme.id);
    expected["eventDate"] = json!("2031-06-20T23:00:00.000Z");
    expected["status"] = json!("created");
    expected["protected"] = json!(false);
    expected["createdAt"] = answered["createdAt"].clone();
    expected["policy"] = shown["policy"].clone();
    assert_eq!(shown, expected);
    assert_eq!(shown["policy"]["policyId"], "talent_standard");
    id
}

async fn protected(acme: &Partner, id: &str) -> Value {
    let answer = acme.protect(id).await;
    answer.holds(json!({"bookingId": id, "protected": true}));
    assert_eq!(answer["protectedAt"], "2026-09-21T14:14:20.000Z");
    // Protecting again changes nothing.
    assert_eq!(acme.protect(id).await["protectedAt"], answer["protectedAt"]);
    let shown = acme.booking(id).await;
    shown.holds(json!({"status": "protected", "protected": true}));
    assert_eq!(shown["protectedAt"], answer["protectedAt"]);
    answer["receipt"].clone()
}

/// Asserts that both signatures of every webhook verify, and fail for anything else.
fn genuine(server: &TestServer, acme: &Partner, webhooks: &[Received]) {
    let secret = acme.secret();
    let now = server.now_ms() / 1000;
    for webhook in webhooks {
        let signature = webhook.header("x-service-signature");
        verify([&secret], signature, &webhook.body).unwrap();
        let standard = StandardHeaders {
            id: webhook.header("webhook-id"),
            timestamp: webhook.header("webhook-timestamp"),
            signature: webhook.header("webhook-signature"),
        };
        verify_standard([&secret], standard, &webhook.body, now, None).unwrap();
        assert_eq!(webhook.header("webhook-id"), webhook.string("eventId"));
        assert_eq!(webhook.header("content-type"), "application/json");
        let mut forged = webhook.body.clone();
        forged[10] ^= 1;
        verify([&secret], signature, &forged).unwrap_err();
        verify_standard([&secret], standard, &forged, now, None).unwrap_err();
        verify_standard([&secret], standard, &webhook.body, now + 301, None).unwrap_err();
    }
}

/// Asserts that the bodies report what happened, in the specification's words.
fn told(webhooks: &[Received], acme: &Partner, id: &str) {
    let url = format!("https://bookings.example.com/v1/bookings/{id}/evidence");
    for (seq, (kind, at, payload)) in (1..).zip([
        (
            "booking.created",
            "2026-09-21T14:13:20.000Z",
            json!({"partnerId": acme.id, "bookingValue": 1250.5, "currency": "USD"}),
        ),
        (
            "booking.protected",
            "2026-09-21T14:14:20.000Z",
            json!({"partnerId": acme.id, "protected": true, "evidencePacketUrl": url}),
        ),
    ]) {
        let body = webhooks
            .iter()
            .map(Received::json)
            .find(|body| body["type"] == kind);
        let body = body.unwrap();
        let expected = json!({
            "eventId": body["eventId"], "type": kind, "bookingId": id, "timestamp": at, "status": "pending",
            "payload": payload, "seq": seq
        });
        assert_eq!(body, expected);
        assert!(body.text("eventId").starts_with("evt_"));
    }
}

/// Asserts that the listing agrees with what was received, oldest first.
async fn listed(acme: &Partner, id: &str, webhooks: &[Received]) {
    let events = until("both events delivered", async || {
        let events = acme.events(id).await;
        events
            .iter()
            .all(|event| event["status"] == "delivered")
            .then_some(events)
    });
    let events = events.await;
    let kinds: Vec<_> = events.iter().map(|event| event.text("type")).collect();
    assert_eq!(kinds, ["booking.created", "booking.protected"]);
    for event in &events {
        let eventid = event.text("eventId");
        let webhook = webhooks
            .iter()
            .find(|w| w.string("eventId") == eventid)
            .unwrap();
        assert_eq!(event["signature"], webhook.header("x-service-signature"));
        let whole = acme.get(&format!("/v1/webhook-events/{eventid}")).await;
        assert_eq!(whole.string("body").as_bytes(), webhook.body);
        let body = webhook.json();
        for name in ["type", "bookingId", "timestamp", "payload", "seq"] {
            assert_eq!(event[name], body[name], "{name}");
        }
        event.holds(json!({"retryCount": 0, "nextAttemptAt": null}));
        let single = acme.get(&format!("/v1/webhook-events/{eventid}")).await;
        let single = single.ok(200);
        let attempt = &single["attempts"][0];
        attempt.holds(json!({"delivered": true, "statusCode": 200}));
        attempt.holds(json!({"number": 1, "responseHead": "ok"}));
    }
}

async fn evaluated(acme: &Partner, id: &str) {
    let path = format!("/v1/bookings/{id}/policy-evaluation");
    let evaluation = acme.get(&path).await.ok(200);
    assert_eq!(evaluation["bookingId"], id);
    assert_eq!(evaluation["evaluationStatus"], "evaluated");
    assert_eq!(evaluation["resolutionPath"], "full_refund");
    assert_eq!(evaluation["evaluatedAt"], "2026-09-21T14:14:20.000Z");
    assert_eq!(evaluation["refund"]["minorUnits"], 125_050);
    // On the day of the event nothing is refunded.
    let late =
        format!("{path}?asOf=2031-06-20T12:00:00Z&canceledBy=organizer&reason=changed_plans");
    let late = acme.get(&late).await.ok(200);
    late.holds(json!({"simulated": true, "resolutionPath": "no_refund"}));
    let by_talent = acme.get(&format!("{path}?canceledBy=talent")).await.ok(200);
    assert_eq!(by_talent["refund"]["minorUnits"], 125_050);
    // Evaluating changes nothing.
    assert_eq!(acme.get(&path).await.ok(200), evaluation);
    assert_eq!(acme.events(id).await.len(), 2);
}

/// Verifies offline: with nothing but the packet's bytes and the log's verifier key.
fn holds_without_the_service(packet: &Reply, vkey: &str, id: &str) {
    assert_eq!(
        (packet.status, packet.header("content-type")),
        (200, Some("application/json"))
    );
    let report = evidence::verify(&packet.body, vkey);
    assert!(report.verified(), "{report}");
    assert_eq!(report.booking_id.unwrap().to_string(), id);
    assert_eq!(report.ledger.unwrap().tree_size, 4);
    let shown = packet.json();
    assert_eq!(shown["type"], "bookguard.evidence/1");
    assert_eq!(shown["booking"]["status"], "protected");
    assert_eq!(shown.list("entries").len(), 4);
    for delivery in shown.list("deliveries") {
        assert_eq!(delivery["recorded"][0]["outcome"], "delivered");
    }
    // A changed delivery outcome is detected.
    let untold = packet
        .text()
        .replace("\"outcome\":\"delivered\"", "\"outcome\":\"given_up\"");
    let report = evidence::verify(untold.as_bytes(), vkey);
    assert!(untold != packet.text() && !report.verified());
    // So are a changed byte in each quarter and a changed amount.
    for at in [1, 2, 3].map(|quarter| quarter * packet.body.len() / 4) {
        let mut tampered = packet.body.clone();
        tampered[at] ^= 1;
        assert!(!evidence::verify(&tampered, vkey).verified(), "byte {at}");
    }
    let cheaper = packet.text().replacen("1250.5", "1150.5", 1);
    let report = evidence::verify(cheaper.as_bytes(), vkey);
    assert!(!report.verified() && report.failures().count() > 0);
    let other = "example.com/log+7db0e2a1+AeTFbmWP1l9FsVkfX2mEl5ZzIkRtZyEMJvpFgvO7JFEN";
    assert!(!evidence::verify(&packet.body, other).verified());
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    with_partner_on_every_engine(async |mut server, acme| {
        let vkey = server.vkey().await;
        let booking = acme.book().await;
        let receipt = acme.protect(&booking).await;
        let path = format!("/v1/bookings/{booking}");
        let shown = acme.get(&path).await;
        let events = acme.events(&booking).await;
        let before = Mirror::download(&server.caller(), &vkey).await;
        server.restart().await;
        let caller = acme.at(&server.running().url());
        assert_eq!(caller.get(&path).await.body, shown.body);
        assert_eq!(
            caller
                .post_nothing(&format!("{path}/protect"))
                .await
                .ok(200)["protectedAt"],
            receipt["protectedAt"]
        );
        let again = caller.get(&format!("{path}/webhook-events")).await.ok(200);
        assert_eq!(again["webhookEvents"], json!(events));
        let done = caller.post("/v1/bookings", &samples::booking()).await;
        done.ok(201);
        let after = Mirror::download(&server.caller(), &vkey).await;
        after.extends(&before);
        assert_eq!(after.entries().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_log_of_more_than_one_tile_is_mirrored_whole() {
    with_partner_on_every_engine(async |server, acme| {
        let vkey = server.vkey().await;
        let mut earlier = Mirror::download(&server.caller(), &vkey).await;
        for upto in [1, 2, 255, 256, 257, 300] {
            let missing = upto - earlier.entries().len();
            acme.book_many(missing, &json!({})).await;
            let now = Mirror::download(&server.caller(), &vkey).await;
            now.extends(&earlier);
            assert_eq!(now.entries().len(), upto);
            earlier = now;
        }
        let full = server.caller().get("/v1/ledger/tile/0/000").await;
        assert_eq!(
            (full.body.len(), full.header("cache-control")),
            (256 * 32, Some("public, max-age=86400"))
        );
        let partial = server.caller().get("/v1/ledger/tile/0/001.p/44").await;
        assert_eq!(
            (partial.body.len(), partial.header("cache-control")),
            (44 * 32, Some("public, max-age=60"))
        );
        // Nothing beyond the checkpoint is served; what it covers stays available at every width.
        for (path, status) in [
            ("0/001.p/45", 404),
            ("0/001.p/1", 200),
            ("0%2F001.p%2f1", 200),
            ("0/001", 404),
            ("1/000.p/1", 200),
            ("1/000", 404),
        ] {
            let reply = server
                .caller()
                .get(&format!("/v1/ledger/tile/{path}"))
                .await;
            assert_eq!(reply.status, status, "{path}");
        }
    })
    .await;
}
