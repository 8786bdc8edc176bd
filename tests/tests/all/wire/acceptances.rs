//! Every code with which an acceptance is refused, caused over HTTP; none of them changes anything.

use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

use crate::wire::bodies::assert_helpful;

struct Fixture {
    server: TestServer,
    acme: Partner,
    booking: String,
}

impl Fixture {
    async fn open(engine: Engine) -> Self {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        Self {
            server,
            acme,
            booking,
        }
    }

    async fn disclosure(&self) -> Value {
        let path = format!("/v1/bookings/{}/disclosure", self.booking);
        self.acme.caller.get(&path).await.ok(200)
    }

    /// An acceptance of the text in force, with this member otherwise.
    async fn with(&self, name: &str, value: Value) -> Value {
        let told = self.disclosure().await;
        let mut body = samples::acceptance(told["disclosureHash"].as_str().unwrap());
        body[name] = value;
        body
    }

    async fn accept(&self, body: &Value) -> Reply {
        let path = format!("/v1/bookings/{}/acceptances", self.booking);
        self.acme.caller.post(&path, body).await
    }

    /// Refused with this status and code at this place, and everything is as before.
    async fn refused(&self, body: &Value, status: u16, code: &str, at: Option<&str>) -> Reply {
        let before = self.disclosure().await;
        let log = self.acme.caller.get("/v1/ledger/checkpoint").await.text();
        let reply = self.accept(body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{body}: {}",
            reply.text()
        );
        let places: Vec<String> = reply.details().into_iter().map(|(at, _)| at).collect();
        let expected: Vec<String> = at.map(str::to_owned).into_iter().collect();
        assert_eq!(places, expected, "{body}");
        assert_helpful(&reply, code);
        assert_eq!(self.disclosure().await, before);
        let after = self.acme.caller.get("/v1/ledger/checkpoint").await.text();
        assert_eq!(after, log);
        reply
    }
}

#[tokio::test]
async fn an_invalid_acceptance_is_refused_with_code_and_pointer() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        for (name, value, code) in [
            ("party", json!("mutual"), "not_allowed"),
            ("party", Value::Null, "null"),
            ("method", json!("m".repeat(65)), "too_long"),
            ("method", json!("a\u{0}b"), "control_character"),
            ("at", json!("2026-09-21"), "invalid_date"),
            (
                "at",
                json!("2026-09-21T14:18:20.001Z"),
                "accepted_in_future",
            ),
            (
                "at",
                json!("2026-09-21T14:08:19.999Z"),
                "accepted_before_terms",
            ),
            ("at", json!("0001-01-01T00:00:00Z"), "accepted_before_terms"),
            ("ip", json!("203.0.113.7:443"), "invalid_address"),
            ("ip", json!("a".repeat(2_000)), "invalid_address"),
            ("userAgent", json!("u".repeat(1_001)), "too_long"),
            ("disclosureHash", json!("sha256:00"), "bad_digest"),
            ("disclosureHash", json!(7), "wrong_type"),
            ("signature", json!("x"), "unknown_field"),
        ] {
            let body = fixture.with(name, value).await;
            let at = format!("/{name}");
            fixture.refused(&body, 400, code, Some(&at)).await;
        }
        let other = json!(format!("sha256:{}", "ab".repeat(32)));
        let body = fixture.with("disclosureHash", other).await;
        let reply = fixture
            .refused(&body, 409, "disclosure_changed", None)
            .await;
        let told = fixture.disclosure().await;
        assert_eq!(reply.json()["disclosureHash"], told["disclosureHash"]);
    })
    .await;
}

#[tokio::test]
async fn a_booking_whose_terms_nobody_can_accept_any_more_is_refused() {
    on_every_engine(async |engine| {
        let mut fixture = Fixture::open(engine).await;
        let shown = fixture.with("party", json!("talent")).await;
        let path = format!("/v1/bookings/{}/reschedule", fixture.booking);
        let moved = fixture.acme.caller.post(&path, &samples::new_date()).await;
        moved.ok(200);
        fixture
            .refused(&shown, 409, "disclosure_changed", None)
            .await;
        for n in 0..50 {
            let body = fixture.with("method", json!(format!("checkbox {n}"))).await;
            fixture.accept(&body).await.ok(201);
        }
        let body = fixture.with("method", json!("once more")).await;
        fixture
            .refused(&body, 409, "too_many_acceptances", None)
            .await;

        fixture.booking = fixture.acme.book().await;
        fixture
            .acme
            .cancel(&fixture.booking, &samples::cancellation())
            .await;
        let body = fixture.with("party", json!("talent")).await;
        fixture.refused(&body, 409, "booking_canceled", None).await;
        fixture.server.close().await;
    })
    .await;
}
