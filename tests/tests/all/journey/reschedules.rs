//! An event is moved: both sides have agreed, the terms are compiled again, a step that was reached is kept, and anybody can
//! recompute it.

use bookguard_core::limits::DAY_MS;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

/// 2031-06-01T00:00:00Z: between the refund tiers of `firm` for the sample booking.
const BETWEEN_MS: i64 = 1_938_038_400_000;

async fn booked(server: &TestServer, acme: &Partner) -> String {
    let zone = json!({"policyId": "firm", "timeZone": "America/New_York"});
    let made = acme
        .post("/v1/bookings", &samples::booking_with(zone))
        .await;
    server.set_clock(BETWEEN_MS);
    made.string("bookingId")
}

#[tokio::test]
async fn a_moved_event_keeps_the_step_that_was_reached_and_the_terms_before() {
    with_partner_on_every_engine(async |server, acme| {
        let id = booked(&server, &acme).await;
        let path = format!("/v1/bookings/{id}");
        let before = acme.evaluation(&id, "").await;

        let mut dry = samples::new_date();
        dry["dryRun"] = json!(true);
        let mut shown = acme.reschedule(&id, &dry).await.ok(200);
        assert_eq!(shown["dryRun"], true);
        let untouched = acme.booking(&id).await;
        assert_eq!(untouched["eventDate"], "2031-06-20T23:00:00.000Z");

        let once = acme.post_once(&format!("{path}/reschedule"), "once", &samples::new_date()).await;
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
        let again = acme.post_once(&format!("{path}/reschedule"), "once", &samples::new_date()).await;
        assert_eq!(again.body, once.body);

        let booking = acme.booking(&id).await;
        assert_eq!(booking["eventDate"], moved["eventDate"]);
        assert_eq!(booking["rescheduledAt"], moved["rescheduledAt"]);
        assert_eq!(booking["policy"], untouched["policy"]);
        let list = acme.get("/v1/bookings?eventFrom=2031-10-01T00:00:00Z").await.ok(200);
        assert_eq!(list["data"], json!([booking]));
        let list = acme.get("/v1/bookings?eventTo=2031-10-01T00:00:00Z").await.ok(200);
        assert_eq!(list["data"], json!([]));
        // The specification has no event for a reschedule.
        assert_eq!(acme.events(&id).await.len(), 1);

        let after = acme.evaluation(&id, "").await;
        assert_eq!(after["explanation"]["code"], "RESCHEDULE_FLOOR");
        assert_eq!(after["refund"], before["refund"]);
        assert_eq!(after["schedule"], moved["schedule"]);
        let shown = acme.verified_packet(&id).await;
        assert_eq!(shown.list("formerTerms").len(), 1);
        let kinds = kinds(&shown);
        assert_eq!(kinds, ["booking.created", "booking.rescheduled"]);
    })
    .await;
}

fn kinds(packet: &Value) -> Vec<&str> {
    let entries = packet.list("entries");
    entries
        .iter()
        .map(|entry| entry["body"].text("kind"))
        .collect()
}

#[tokio::test]
async fn what_came_before_a_move_is_neither_asked_about_nor_a_date_to_cancel_on() {
    with_partner_on_every_engine(async |server, acme| {
        let id = booked(&server, &acme).await;
        acme.reschedule(&id, &samples::new_date()).await.ok(200);
        server.advance(DAY_MS);
        let path = format!("/v1/bookings/{id}");
        let code = "effective_at_before_reschedule";
        let asked = format!("{path}/policy-evaluation?matrix=true&asOf=");
        let reply = acme.get(&format!("{asked}2031-05-31T23:59:59Z")).await;
        reply.refused(400, code);
        assert_eq!(reply.json()["details"][0]["pointer"], "?asOf");
        let done = acme.get(&format!("{asked}2031-06-01T00:00:00Z")).await;
        done.ok(200);

        let mut cancel = samples::cancellation();
        cancel["effectiveAt"] = json!("2031-05-31T23:59:59Z");
        let reply = acme.post(&format!("{path}/cancel"), &cancel).await;
        reply.refused(400, code);
        assert_eq!(reply.json()["details"][0]["pointer"], "/effectiveAt");
        assert_eq!(acme.booking(&id).await["status"], "created");
        let effective = format!("{path}/policy-evaluation?canceledBy=organizer&effectiveAt=");
        let reply = acme.get(&format!("{effective}2031-05-31T23:59:59Z")).await;
        reply.refused(400, code);
        reply.faulty(&[("?effectiveAt", code)]);
        let both = format!("{effective}2031-06-01T00:00:00Z&asOf=2031-06-01T00:00:00Z&matrix=true");
        let conflict = ("?effectiveAt", "parameters_conflict");
        acme.get(&both).await.faulty(&[conflict, conflict]);
        let quote = acme
            .get(&format!("{effective}2031-06-01T00:00:00Z&matrix=false"))
            .await
            .ok(200);
        quote.holds(json!({"evaluationStatus": "provisional", "simulated": true}));
        cancel["effectiveAt"] = json!("2031-06-01T00:00:00Z");
        let resolution = acme.cancel(&id, &cancel).await;
        assert_eq!(resolution["status"], "final");
        for member in ["refund", "resolutionPath", "assumptions", "policy"] {
            assert_eq!(quote[member], resolution["evaluation"][member], "{member}");
        }
        // Once it is canceled, every question is answered with what was recorded.
        let recorded = acme.get(&format!("{asked}2031-05-31T23:59:59Z")).await;
        let recorded = recorded.ok(200);
        assert_eq!(recorded, resolution["evaluation"]);
    })
    .await;
}

#[tokio::test]
async fn a_moved_booking_is_protected_moved_again_canceled_and_proven() {
    with_partner_on_every_engine(async |server, acme| {
        let id = booked(&server, &acme).await;
        acme.reschedule(&id, &samples::new_date()).await.ok(200);
        acme.protect(&id).await;
        server.advance(DAY_MS);
        let before = acme.evaluation(&id, "").await;
        assert_eq!(before["penalty"]["minorUnits"], 62_525);
        // A local date is read in the booking's time zone, which has winter time then.
        let winter = json!({"eventDate": "2031-12-20T19:00", "agreedBy": ["talent", "partner", "organizer"]});
        let moved = acme.reschedule(&id, &winter).await.ok(200);
        assert_eq!(moved["eventDate"], "2031-12-21T00:00:00.000Z");
        assert_eq!(moved["reached"], before["penalty"], "what the first move had reached still counts");
        assert_eq!(moved["agreedBy"], json!(["organizer", "talent", "partner"]));
        let again = acme.protect(&id).await;
        assert_eq!(again["protectedAt"], "2031-06-01T00:00:00.000Z");

        let open = acme.verified_packet(&id).await;
        assert_eq!(open.list("formerTerms").len(), 2);
        let resolution = acme.cancel(&id, &samples::cancellation()).await;
        let evaluation = &resolution["evaluation"];
        assert_eq!(resolution["evidenceGrade"], "ledger_anchored");
        assert_eq!(evaluation["explanation"]["code"], "RESCHEDULE_FLOOR");
        assert_eq!(evaluation["penalty"]["minorUnits"], 62_525);
        assert_eq!(evaluation["anchorUtc"], moved["eventDate"]);
        let refused = acme.reschedule(&id, &samples::new_date()).await;
        refused.refused(409, "booking_canceled");
        let closed = acme.verified_packet(&id).await;
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
