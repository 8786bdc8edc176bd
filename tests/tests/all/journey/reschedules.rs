//! An event is moved: both sides agreed, the terms are compiled anew, what was reached stays, and everybody can recompute it.

use bookguard_core::evidence;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

/// 2031-06-01T00:00:00Z: between the tiers of `firm` for the sample booking.
const BETWEEN_MS: i64 = 1_938_038_400_000;
const DAY_MS: i64 = 86_400_000;

async fn booked(server: &TestServer, acme: &Partner) -> String {
    let zone = json!({"policyId": "firm", "timeZone": "America/New_York"});
    let made = acme
        .caller
        .post("/v1/bookings", &samples::booking_with(zone))
        .await;
    server.advance(BETWEEN_MS - server.now_ms());
    made.string("bookingId")
}

/// What verifies from here on is only the packet's bytes and the log's public key.
async fn packet(server: &TestServer, acme: &Partner, id: &str) -> Value {
    let vkey = server.caller().get("/v1/ledger/key").await.text();
    let packet = acme
        .caller
        .get(&format!("/v1/bookings/{id}/evidence"))
        .await;
    let report = evidence::verify(&packet.body, &vkey);
    assert!(report.verified(), "{report}");
    packet.json()
}

#[tokio::test]
async fn a_moved_event_keeps_the_step_that_was_reached_and_the_terms_before() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let id = booked(&server, &acme).await;
        let path = format!("/v1/bookings/{id}");
        let before = acme.caller.get(&format!("{path}/policy-evaluation")).await.ok(200);

        let mut dry = samples::new_date();
        dry["dryRun"] = json!(true);
        let mut shown = acme.caller.post(&format!("{path}/reschedule"), &dry).await.ok(200);
        assert_eq!(shown["dryRun"], true);
        let untouched = acme.caller.get(&path).await.ok(200);
        assert_eq!(untouched["eventDate"], "2031-06-20T23:00:00.000Z");

        let once = acme.caller.post_once(&format!("{path}/reschedule"), "once", &samples::new_date()).await;
        let moved = once.ok(200);
        shown.as_object_mut().unwrap().remove("dryRun");
        shown["receipt"] = moved["receipt"].clone();
        assert_eq!(moved, shown);
        let expected = json!({
            "bookingId": id, "eventDate": "2031-10-20T23:00:00.000Z", "timeZone": "America/New_York",
            "previousEventDate": "2031-06-20T19:00:00-04:00", "rescheduledAt": "2031-06-01T00:00:00.000Z",
            "at": "2031-06-01T00:00:00.000Z", "agreedBy": ["organizer", "talent"], "reached": before["penalty"],
            "schedule": moved["schedule"], "receipt": moved["receipt"]
        });
        assert_eq!(moved, expected);
        let again = acme.caller.post_once(&format!("{path}/reschedule"), "once", &samples::new_date()).await;
        assert_eq!(again.body, once.body);

        let booking = acme.caller.get(&path).await.ok(200);
        assert_eq!(booking["eventDate"], moved["eventDate"]);
        assert_eq!(booking["rescheduledAt"], moved["rescheduledAt"]);
        assert_eq!(booking["policy"], untouched["policy"]);
        let list = acme.caller.get("/v1/bookings?eventFrom=2031-10-01T00:00:00Z").await.ok(200);
        assert_eq!(list["data"], json!([booking]));
        let list = acme.caller.get("/v1/bookings?eventTo=2031-10-01T00:00:00Z").await.ok(200);
        assert_eq!(list["data"], json!([]));
        // No event of the specification tells of it.
        assert_eq!(acme.events(&id).await.len(), 1);

        let after = acme.caller.get(&format!("{path}/policy-evaluation")).await.ok(200);
        assert_eq!(after["explanation"]["code"], "RESCHEDULE_FLOOR");
        assert_eq!(after["refund"], before["refund"]);
        assert_eq!(after["schedule"], moved["schedule"]);
        let shown = packet(&server, &acme, &id).await;
        assert_eq!(shown["formerTerms"].as_array().unwrap().len(), 1);
        let kinds = kinds(&shown);
        assert_eq!(kinds, ["booking.created", "booking.rescheduled"]);
    })
    .await;
}

fn kinds(packet: &Value) -> Vec<&str> {
    let entries = packet["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["body"]["kind"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_moved_booking_is_protected_moved_again_canceled_and_proven() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let id = booked(&server, &acme).await;
        let path = format!("/v1/bookings/{id}");
        let reschedule = format!("{path}/reschedule");
        acme.caller.post(&reschedule, &samples::new_date()).await.ok(200);
        acme.protect(&id).await;
        server.advance(DAY_MS);
        // A local date is read on the booking's clocks, in winter now.
        let winter = json!({"eventDate": "2031-12-20T19:00", "agreedBy": ["talent", "partner", "organizer"]});
        let moved = acme.caller.post(&reschedule, &winter).await.ok(200);
        assert_eq!(moved["eventDate"], "2031-12-21T00:00:00.000Z");
        assert_eq!(moved["reached"]["minorUnits"], 0, "by the schedule in force then");
        assert_eq!(moved["agreedBy"], json!(["organizer", "talent", "partner"]));
        let again = acme.protect(&id).await;
        assert_eq!(again["protectedAt"], "2031-06-01T00:00:00.000Z");

        let open = packet(&server, &acme, &id).await;
        assert_eq!(open["formerTerms"].as_array().unwrap().len(), 2);
        let resolution = acme.cancel(&id, &samples::cancellation()).await;
        let evaluation = &resolution["evaluation"];
        assert_eq!(resolution["evidenceGrade"], "ledger_anchored");
        assert_eq!(evaluation["explanation"]["code"], "RESCHEDULE_FLOOR");
        assert_eq!(evaluation["penalty"]["minorUnits"], 62_525);
        assert_eq!(evaluation["anchorUtc"], moved["eventDate"]);
        let refused = acme.caller.post(&reschedule, &samples::new_date()).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "booking_canceled"));
        let closed = packet(&server, &acme, &id).await;
        let expected = [
            "booking.created",
            "booking.rescheduled",
            "booking.protected",
            "booking.rescheduled",
            "booking.canceled",
            "resolution.created",
        ];
        assert_eq!(kinds(&closed), expected);
        assert_eq!(closed["resolution"], resolution);
    })
    .await;
}
