//! Every code with which a cancellation or a decision is refused, caused over HTTP; none of them changes anything.

use bookguard_server::config::Config;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

use crate::wire::bodies::assert_helpful;

/// 2031-06-20T23:00:00Z: the sample booking's event starts.
const EVENT_MS: i64 = 1_939_762_800_000;
const DAY_MS: i64 = 86_400_000;

struct Fixture {
    server: TestServer,
    acme: Partner,
}

impl Fixture {
    async fn open(engine: Engine) -> Self {
        let server = TestServer::with(engine, |config| Config {
            library_policies: false,
            ..config
        });
        let server = server.await;
        let acme = server.partner("Acme").await;
        Self { server, acme }
    }

    async fn book(&self, members: Value) -> String {
        let body = samples::booking_with(members);
        let made = self.acme.caller.post("/v1/bookings", &body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.string("bookingId")
    }

    async fn firm(&self) -> String {
        self.book(json!({"policyId": "firm"})).await
    }

    async fn cancel(&self, booking: &str, body: &Value) -> Reply {
        let path = format!("/v1/bookings/{booking}/cancel");
        self.acme.caller.post(&path, body).await
    }

    /// Refused with this status and code at this place, and everything is as before.
    async fn refused(&self, booking: &str, body: Value, status: u16, code: &str, at: Option<&str>) {
        let path = format!("/v1/bookings/{booking}");
        let before = self.acme.caller.get(&path).await.ok(200);
        let log = self.acme.caller.get("/v1/ledger/checkpoint").await.text();
        let reply = self.cancel(booking, &body).await;
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
        if status == 400 && at.is_some() {
            assert_helpful(&reply, code);
        }
        assert_eq!(self.acme.caller.get(&path).await.ok(200), before);
        assert_eq!(
            self.acme.caller.get("/v1/ledger/checkpoint").await.text(),
            log
        );
    }
}

#[tokio::test]
async fn an_invalid_cancellation_is_refused_with_code_and_pointer() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let firm = fixture.firm().await;
        let by = |members: Value| {
            let mut body = json!({"canceledBy": "organizer"});
            body.as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            body
        };
        for (body, code, at) in [
            (
                by(json!({"effectiveAt": "2026-09-21T14:18:21Z"})),
                "effective_at_in_future",
                "/effectiveAt",
            ),
            (
                by(json!({"effectiveAt": "2026-09-21T14:13:19Z"})),
                "effective_at_before_booking",
                "/effectiveAt",
            ),
            (
                by(json!({"effectiveAt": "9999-12-31T23:59:59Z"})),
                "effective_at_in_future",
                "/effectiveAt",
            ),
            (
                by(json!({"effectiveAt": "yesterday"})),
                "invalid_date",
                "/effectiveAt",
            ),
            (
                by(json!({"reason": "no_show"})),
                "no_show_before_event",
                "/reason",
            ),
            (by(json!({"reason": "bored"})), "not_allowed", "/reason"),
            (
                by(json!({"agreedRefund": 5})),
                "agreed_refund_not_mutual",
                "/agreedRefund",
            ),
            (by(json!({"note": "x".repeat(2_001)})), "too_long", "/note"),
            (by(json!({"note": "a\u{0}b"})), "control_character", "/note"),
            (
                by(json!({"evidence": [{"kind": "a", "sha256": "abc"}]})),
                "bad_digest",
                "/evidence/0/sha256",
            ),
            (by(json!({"evidence": {}})), "wrong_type", "/evidence"),
            (
                by(json!({"expected": {"refundMinorUnits": 1.5}})),
                "out_of_range",
                "/expected/refundMinorUnits",
            ),
            (
                by(json!({"expected": {"refund": 1}})),
                "unknown_field",
                "/expected/refund",
            ),
            (
                by(json!({"expected": {"resolutionPath": "all"}})),
                "not_allowed",
                "/expected/resolutionPath",
            ),
            (by(json!({"canceledBy": null})), "null", "/canceledBy"),
            (
                json!({"canceledBy": "Organizer"}),
                "not_allowed",
                "/canceledBy",
            ),
            (
                json!({"canceledBy": "mutual"}),
                "agreed_refund_required",
                "/agreedRefund",
            ),
            (
                json!({"canceledBy": "mutual", "agreedRefund": 1250.51}),
                "agreed_refund_exceeds_paid",
                "/agreedRefund",
            ),
            (
                json!({"canceledBy": "mutual", "agreedRefund": 0.001}),
                "amount_precision",
                "/agreedRefund",
            ),
            (
                json!({"canceledBy": "mutual", "agreedRefund": -1}),
                "amount_negative",
                "/agreedRefund",
            ),
            (
                json!({"canceledBy": "mutual", "agreedRefund": 1e300}),
                "amount_too_large",
                "/agreedRefund",
            ),
            (
                json!({"canceledBy": "mutual", "agreedRefund": "1"}),
                "wrong_type",
                "/agreedRefund",
            ),
        ] {
            fixture.refused(&firm, body, 400, code, Some(at)).await;
        }
        let bare = fixture.book(json!({})).await;
        fixture
            .refused(&bare, by(json!({})), 400, "policy_missing", None)
            .await;
        let wrong = by(json!({"expected": {"refundMinorUnits": 1}}));
        fixture
            .refused(&firm, wrong, 409, "quote_changed", None)
            .await;

        fixture
            .server
            .advance(EVENT_MS - fixture.server.now_ms() + 30 * DAY_MS);
        fixture
            .refused(&firm, by(json!({})), 409, "claim_window_closed", None)
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_another_currency_is_refused_when_booking() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let fixed = json!({"policyId": "p", "currency": "EUR", "organizer": {"late": {"penaltyAmount": "50.00"}}});
        for (members, code) in [
            (json!({"policy": fixed}), "policy_currency_mismatch"),
            (json!({"policyId": "firm", "currency": "XAU"}), "currency_has_no_minor_unit"),
            (json!({"policyId": "firm", "currency": "EURO"}), "currency_unknown"),
        ] {
            let reply = fixture.acme.caller.post("/v1/bookings", &samples::booking_with(members)).await;
            assert_eq!((reply.status, reply.code().as_str()), (400, code), "{}", reply.text());
        }
    })
    .await;
}

#[tokio::test]
async fn an_invalid_decision_is_refused_with_code_and_pointer() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let firm = fixture.firm().await;
        let pending = fixture
            .cancel(&firm, &samples::open_cancellation())
            .await
            .ok(201);
        let path = format!(
            "/v1/resolutions/{}",
            pending["resolutionId"].as_str().unwrap()
        );
        let with = |name: &str, value: Value| {
            let mut body = samples::decision();
            body[name] = value;
            body
        };
        for (body, code, at) in [
            (
                with("refund", json!(1250.51)),
                "refund_exceeds_paid",
                "/refund",
            ),
            (with("refund", json!(0.001)), "amount_precision", "/refund"),
            (with("refund", json!(-1)), "amount_negative", "/refund"),
            (with("refund", json!("1")), "wrong_type", "/refund"),
            (with("refund", json!(null)), "null", "/refund"),
            (with("decidedBy", json!("")), "empty", "/decidedBy"),
            (
                with("decidedBy", json!("x".repeat(201))),
                "too_long",
                "/decidedBy",
            ),
            (
                with("rationale", json!("x".repeat(2_001))),
                "too_long",
                "/rationale",
            ),
            (with("reason", json!("x")), "unknown_field", "/reason"),
        ] {
            let reply = fixture
                .acme
                .caller
                .post(&format!("{path}/decide"), &body)
                .await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, code),
                "{}",
                reply.text()
            );
            assert_eq!(reply.details()[0].0, at);
            assert_helpful(&reply, code);
        }
        assert_eq!(fixture.acme.caller.get(&path).await.ok(200), pending);

        let other = fixture.firm().await;
        let settled = fixture
            .cancel(&other, &samples::cancellation())
            .await
            .ok(201);
        let path = format!(
            "/v1/resolutions/{}/decide",
            settled["resolutionId"].as_str().unwrap()
        );
        let reply = fixture.acme.caller.post(&path, &samples::decision()).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (409, "resolution_final")
        );
        assert_eq!(reply.json()["resolutionId"], settled["resolutionId"]);
    })
    .await;
}

#[tokio::test]
async fn questions_to_a_policy_that_make_no_sense_are_refused_by_parameter() {
    on_every_engine(async |engine| {
        let fixture = Fixture::open(engine).await;
        let firm = fixture.firm().await;
        let path = format!("/v1/bookings/{firm}/policy-evaluation");
        for (query, code, at) in [
            ("matrix=yes", "not_allowed", "?matrix"),
            ("evidence=21", "out_of_range", "?evidence"),
            ("evidence=-1", "out_of_range", "?evidence"),
            ("evidence=%2B1", "out_of_range", "?evidence"),
            (
                "agreedRefund=1",
                "agreed_refund_not_mutual",
                "?agreedRefund",
            ),
            (
                "agreedRefund=1&canceledBy=talent&matrix=false",
                "agreed_refund_not_mutual",
                "?agreedRefund",
            ),
            (
                "agreedRefund=1.001&canceledBy=mutual",
                "amount_precision",
                "?agreedRefund",
            ),
            (
                "agreedRefund=x&canceledBy=mutual",
                "amount_not_a_number",
                "?agreedRefund",
            ),
            (
                "canceledBy=mutual",
                "agreed_refund_required",
                "?agreedRefund",
            ),
            (
                "canceledBy=mutual&agreedRefund=1250.51",
                "agreed_refund_exceeds_paid",
                "?agreedRefund",
            ),
            (
                "asOf=2020-01-01T00:00:00Z",
                "effective_at_before_booking",
                "?asOf",
            ),
            (
                "reason=no_show&matrix=true",
                "no_show_before_event",
                "?reason",
            ),
        ] {
            let reply = fixture.acme.caller.get(&format!("{path}?{query}")).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, code),
                "{query}"
            );
            assert_helpful(&reply, code);
            assert_eq!(reply.details()[0].0, at);
        }
        let agreed = format!("{path}?canceledBy=mutual&agreedRefund=100.10");
        let agreed = fixture.acme.caller.get(&agreed).await.ok(200);
        assert_eq!(agreed["refund"]["minorUnits"], 10_010);
        for (evidence, path_of) in [("0", "manual_review"), ("1", "full_refund")] {
            let storm = format!("{path}?reason=force_majeure&evidence={evidence}");
            let storm = fixture.acme.caller.get(&storm).await.ok(200);
            assert_eq!(storm["resolutionPath"], path_of);
        }
    })
    .await;
}
