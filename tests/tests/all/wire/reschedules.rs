//! Every code with which a change of date is refused, caused over HTTP; none of them changes anything.

use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

use crate::wire::bodies::assert_helpful;

/// 2031-06-01T00:00:00Z: between the tiers of `firm` for the sample booking.
const BETWEEN_MS: i64 = 1_938_038_400_000;
/// 2031-06-20T23:00:00Z: the sample booking's event starts.
const EVENT_MS: i64 = 1_939_762_800_000;
const DAY_MS: i64 = 86_400_000;

struct Fixture {
    server: TestServer,
    acme: Partner,
    booking: String,
}

impl Fixture {
    async fn open(engine: Engine) -> Self {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let body = samples::booking_with(json!({"policyId": "firm"}));
        let made = acme.caller.post("/v1/bookings", &body).await;
        let booking = made.string("bookingId");
        server.advance(BETWEEN_MS - server.now_ms());
        Self {
            server,
            acme,
            booking,
        }
    }

    async fn reschedule(&self, body: &Value) -> Reply {
        let path = format!("/v1/bookings/{}/reschedule", self.booking);
        self.acme.caller.post(&path, body).await
    }

    /// Refused with this status and code at this place, and everything is as before.
    async fn refused(&self, body: &Value, status: u16, code: &str, at: Option<&str>) {
        let path = format!("/v1/bookings/{}", self.booking);
        let before = self.acme.caller.get(&path).await.ok(200);
        let log = self.acme.caller.get("/v1/ledger/checkpoint").await.text();
        let reply = self.reschedule(body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{body}: {}",
            reply.text()
        );
        let places: Vec<String> = reply.details().into_iter().map(|(at, _)| at).collect();
        assert_eq!(
            places,
            at.map(str::to_owned).into_iter().collect::<Vec<_>>(),
            "{body}"
        );
        assert_helpful(&reply, code);
        assert_eq!(self.acme.caller.get(&path).await.ok(200), before);
        let after = self.acme.caller.get("/v1/ledger/checkpoint").await.text();
        assert_eq!(after, log);
    }
}

/// The sample's new date with this member otherwise.
fn with(name: &str, value: Value) -> Value {
    let mut body = samples::new_date();
    body[name] = value;
    body
}

#[tokio::test]
async fn an_invalid_date_is_refused_with_code_and_pointer() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        for (name, value, code) in [
            ("eventDate", json!("soon"), "invalid_date"),
            ("eventDate", json!(7), "wrong_type"),
            ("eventDate", Value::Null, "null"),
            (
                "eventDate",
                json!("2031-05-31T23:59:59Z"),
                "event_date_passed",
            ),
            (
                "eventDate",
                json!("0001-01-01T00:00:00Z"),
                "event_date_passed",
            ),
            ("timeZone", json!("America/New_Yrok"), "time_zone_unknown"),
            ("timeZone", json!("x".repeat(65)), "too_long"),
            ("agreedBy", json!([]), "agreement_missing"),
            ("agreedBy", json!(["organizer"]), "agreement_missing"),
            (
                "agreedBy",
                json!(["partner", "talent"]),
                "agreement_missing",
            ),
            ("agreedBy", json!("organizer"), "wrong_type"),
            ("at", json!("2031-06-01"), "invalid_date"),
            ("at", json!("2031-06-01T00:05:01Z"), "rescheduled_in_future"),
            ("at", json!("9999-12-31T23:59:59Z"), "rescheduled_in_future"),
            (
                "at",
                json!("2026-09-21T14:13:19Z"),
                "rescheduled_before_booking",
            ),
            (
                "at",
                json!("2031-05-21T00:00:00Z"),
                "backdated_across_deadline",
            ),
            ("dryRun", json!("yes"), "wrong_type"),
            ("reason", json!("rain"), "unknown_field"),
        ] {
            let at = format!("/{name}");
            fixture
                .refused(&with(name, value), 400, code, Some(&at))
                .await;
        }
        let both = with("agreedBy", json!(["organizer", "mutual"]));
        fixture
            .refused(&both, 400, "not_allowed", Some("/agreedBy/1"))
            .await;
        // The booking has only the offset of its former date, and clocks change.
        let local = with("eventDate", json!("2031-10-20T19:00:00"));
        fixture
            .refused(&local, 400, "time_zone_required", Some("/timeZone"))
            .await;
        let same = with("eventDate", json!("2031-06-20T19:00:00-04:00"));
        fixture
            .refused(&same, 409, "event_date_unchanged", None)
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_booking_that_can_no_longer_be_moved_is_refused() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let made = fixture.reschedule(&samples::new_date()).await.ok(200);
        // As often as it is repeated, it is the one recorded.
        fixture.server.advance(DAY_MS);
        let mut again = fixture.reschedule(&samples::new_date()).await.ok(200);
        assert_eq!(again["receipt"]["treeSize"], made["receipt"]["treeSize"]);
        again["receipt"] = made["receipt"].clone();
        assert_eq!(again, made);
        let earlier = json!({
            "eventDate": "2031-12-20T19:00:00-05:00", "agreedBy": ["talent", "organizer"], "at": "2031-05-31T23:59:59Z"
        });
        fixture.refused(&earlier, 400, "rescheduled_out_of_order", Some("/at")).await;
        for month in 1..20 {
            let date = format!("{}-{:02}-20T19:00:00Z", 2032 + month / 12, month % 12 + 1);
            fixture.reschedule(&with("eventDate", json!(date))).await.ok(200);
        }
        let once_more = with("eventDate", json!("2040-01-01T19:00:00Z"));
        fixture.refused(&once_more, 409, "too_many_reschedules", None).await;

        let mut fixture = fixture;
        fixture.booking = fixture.acme.book().await;
        fixture.acme.cancel(&fixture.booking, &samples::cancellation()).await;
        fixture.refused(&samples::new_date(), 409, "booking_canceled", None).await;

        fixture.booking = fixture.acme.book().await;
        fixture.server.advance(EVENT_MS - fixture.server.now_ms() + 30 * DAY_MS);
        fixture.refused(&samples::new_date(), 409, "claim_window_closed", None).await;
    })
    .await;
}
