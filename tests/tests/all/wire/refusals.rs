//! Operations that a booking's state or a rule forbids, over HTTP: the code, the member at fault, and that nothing changed.
//! The rules have tables in `features/*/rule/tests.rs`; here is one case of each kind for each operation.

use bookguard_core::limits::DAY_MS;
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

/// 2031-06-20T23:00:00Z: the start of the sample booking's event.
const EVENT_MS: i64 = 1_939_762_800_000;
const FUTURE: &str = "9999-12-31T23:59:59Z";

struct Fixture {
    server: TestServer,
    acme: Partner,
    booking: String,
}

impl Fixture {
    /// A booking under `firm`; there are no default policies, so a booking that names none has none.
    async fn open(engine: Engine) -> Self {
        let server = TestServer::with(engine, |config| Config {
            library_policies: false,
            ..config
        });
        let server = server.await;
        let acme = server.partner("Acme").await;
        let booking = acme.book_with(json!({"policyId": "firm"})).await;
        Self {
            server,
            acme,
            booking,
        }
    }

    /// Returns what can be seen of the booking and of the log.
    async fn seen(&self) -> (Value, Value, String) {
        let told = self
            .acme
            .get(&format!("/v1/bookings/{}/disclosure", self.booking))
            .await;
        let log = self.acme.get("/v1/ledger/checkpoint").await.text();
        (self.acme.booking(&self.booking).await, told.json(), log)
    }

    /// Asserts a refusal with this status, code and member, that nothing changed, and returns the refusal.
    async fn refused(
        &self,
        what: &str,
        body: Value,
        status: u16,
        code: &str,
        at: Option<&str>,
    ) -> Value {
        let before = self.seen().await;
        let path = format!("/v1/bookings/{}/{what}", self.booking);
        let reply = self.acme.post(&path, &body).await;
        reply.refused(status, code);
        if let Some(at) = at {
            reply.faulty(&[(at, code)]);
        }
        assert_eq!(self.seen().await, before, "{what} {body}");
        reply.json()
    }
}

#[tokio::test]
async fn a_cancellation_that_cannot_be_changes_nothing() {
    on_every_engine(async |engine| {
        let mut fixture = Fixture::open(engine).await;
        let agreed = |refund: f64| json!({"canceledBy": "mutual", "agreedRefund": refund});
        let by = |member: &str, value: Value| json!({"canceledBy": "organizer", member: value});
        for (body, code, at) in [
            (by("note", json!("a\u{0}b")), "control_character", "/note"),
            (
                by("effectiveAt", json!(FUTURE)),
                "effective_at_in_future",
                "/effectiveAt",
            ),
            (
                agreed(1250.51),
                "agreed_refund_exceeds_paid",
                "/agreedRefund",
            ),
            (agreed(1e300), "amount_too_large", "/agreedRefund"),
        ] {
            fixture.refused("cancel", body, 400, code, Some(at)).await;
        }
        let wrong = by("expected", json!({"refundMinorUnits": 1}));
        fixture
            .refused("cancel", wrong, 409, "quote_changed", None)
            .await;
        let plain = samples::cancellation();
        let firm = std::mem::replace(&mut fixture.booking, fixture.acme.book().await);
        // Without a policy a booking has no terms to show either.
        let path = format!("/v1/bookings/{}/cancel", fixture.booking);
        let reply = fixture.acme.post(&path, &plain).await;
        reply.refused(400, "policy_missing");
        fixture.booking = firm;
        fixture.server.set_clock(EVENT_MS + 30 * DAY_MS);
        fixture
            .refused("cancel", plain, 409, "claim_window_closed", None)
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_decision_that_cannot_be_changes_nothing() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let acme = &fixture.acme;
        let pending = acme
            .cancel(&fixture.booking, &samples::open_cancellation())
            .await;
        let path = format!("/v1/resolutions/{}", pending.text("resolutionId"));
        let decide = format!("{path}/decide");
        for (name, value, code) in [
            ("refund", json!(1250.51), "refund_exceeds_paid"),
            ("refund", json!(0.001), "amount_precision"),
            ("rationale", json!(""), "empty"),
        ] {
            let mut body = samples::decision();
            body[name] = value;
            let reply = acme.post(&decide, &body).await;
            reply.faulty(&[(&format!("/{name}"), code)]);
        }
        assert_eq!(acme.get(&path).await.ok(200), pending);
    })
    .await;
}

#[tokio::test]
async fn a_date_that_cannot_be_changes_nothing() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let with = |name: &str, value: Value| {
            let mut body = samples::new_date();
            body[name] = value;
            body
        };
        for (name, value, code, at) in [
            ("eventDate", json!("soon"), "invalid_date", ""),
            (
                "eventDate",
                json!("0001-01-01T00:00:00Z"),
                "event_date_passed",
                "",
            ),
            (
                "agreedBy",
                json!(["organizer", "mutual"]),
                "not_allowed",
                "/agreedBy/1",
            ),
            ("at", json!(FUTURE), "rescheduled_in_future", ""),
            // The booking knows only the offset of its former date, and offsets change with daylight saving time.
            (
                "eventDate",
                json!("2031-10-20T19:00:00"),
                "time_zone_required",
                "/timeZone",
            ),
        ] {
            let own = format!("/{name}");
            let at: &str = if at.is_empty() { &own } else { at };
            let body = with(name, value);
            fixture
                .refused("reschedule", body, 400, code, Some(at))
                .await;
        }
        let same = with("eventDate", json!("2031-06-20T19:00:00-04:00"));
        fixture
            .refused("reschedule", same, 409, "event_date_unchanged", None)
            .await;
    })
    .await;
}

#[tokio::test]
async fn an_acceptance_that_cannot_be_changes_nothing() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let (_, told, _) = fixture.seen().await;
        let with = |name: &str, value: Value| {
            let mut body = samples::acceptance(told.text("disclosureHash"));
            body[name] = value;
            body
        };
        for (name, value, code) in [
            ("ip", json!("a".repeat(2_000)), "invalid_address"),
            (
                "at",
                json!("2026-09-21T14:18:20.001Z"),
                "accepted_in_future",
            ),
            ("at", json!("0001-01-01T00:00:00Z"), "accepted_before_terms"),
        ] {
            let at = format!("/{name}");
            fixture
                .refused("acceptances", with(name, value), 400, code, Some(&at))
                .await;
        }
        let other = with(
            "disclosureHash",
            json!(format!("sha256:{}", "ab".repeat(32))),
        );
        let refusal = fixture
            .refused("acceptances", other, 409, "disclosure_changed", None)
            .await;
        assert_eq!(refusal["disclosureHash"], told["disclosureHash"]);
    })
    .await;
}
