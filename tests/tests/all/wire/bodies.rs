//! Faulty JSON: each kind of fault is named by pointer, code and fix, all faults at once, and nothing is written. Unusual
//! but valid JSON is kept exactly.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::json;

use crate::fields::tables::{rows, with};

#[tokio::test]
async fn each_kind_of_fault_is_answered_with_its_place_code_and_fix() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let before = acme.get("/v1/ledger/checkpoint").await.text();
        for (faults, members) in rows(include_str!("faults.txt")) {
            let body = with(&samples::booking().to_string(), members);
            let reply = acme.post_text("/v1/bookings", body).await;
            let faults: Vec<_> = faults.iter().map(|(at, code)| (&**at, &**code)).collect();
            reply.faulty(&faults).refused(400, faults[0].1);
        }
        let list = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(list["data"], json!([]));
        let after = server.caller().get("/v1/ledger/checkpoint").await.text();
        assert_eq!(after, before, "the log did not grow");
    })
    .await;
}

#[tokio::test]
async fn what_is_unusual_but_right_is_kept_exactly() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        for line in include_str!("kept.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let (members, shown) = line.split_once(" => ").unwrap();
            let body = with(&samples::booking().to_string(), members);
            let made = acme.post_text("/v1/bookings", body).await.ok(201);
            let path = format!("/v1/bookings/{}", made["bookingId"].as_str().unwrap());
            let got = acme.get(&path).await.text();
            assert!(got.contains(shown), "{members}: {got}");
        }
    })
    .await;
}

#[tokio::test]
async fn all_faults_are_said_at_once_with_what_was_meant() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let body = r#"{"talent":{"id":"","nmae":"x"},"organiser":{},"eventType":7,"eventDate":"soon",
            "bookingValue":1.005,"currency":"EURO","metadata":{"a":1},"eventType":"again","amountPaid":-1}"#;
        let reply = acme.post_text("/v1/bookings", body).await;
        reply.refused(400, "invalid_request").faulty(&[
            ("/eventType", "duplicate_key"),
            ("/talent/id", "empty"),
            ("/talent/name", "missing_field"),
            ("/talent/nmae", "unknown_field"),
            ("/organizer", "missing_field"),
            ("/eventType", "wrong_type"),
            ("/eventDate", "invalid_date"),
            ("/currency", "currency_unknown"),
            ("/amountPaid", "amount_negative"),
            ("/metadata/a", "wrong_type"),
            ("/organiser", "unknown_field"),
        ]);
        for meant in ["Did you mean \\\"organizer\\\"?", "Did you mean \\\"name\\\"?"] {
            assert!(reply.text().contains(meant), "{meant}: {}", reply.text());
        }
        let empty = acme.post_text("/v1/bookings", "{}").await;
        let required = ["/talent", "/organizer", "/eventType", "/eventDate", "/bookingValue"];
        empty.faulty(&required.map(|at| (at, "missing_field")));
    })
    .await;
}

#[tokio::test]
async fn a_booking_is_recorded_only_for_the_partner_of_the_key() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let other = server.partner("Other").await;
        for id in [&other.id, "ptn_00000000000000000000000000000000", "x"] {
            let body = samples::booking_with(json!({"partnerId": id}));
            let reply = acme.post("/v1/bookings", &body).await;
            reply.refused(403, "partner_mismatch");
        }
        let own = acme.book_with(json!({"partnerId": acme.id})).await;
        assert_eq!(acme.booking(&own).await["partnerId"], acme.id.as_str());
    })
    .await;
}
