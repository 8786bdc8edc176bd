//! Every way a cancellation can come out, asked over HTTP; and cancellations in money of every number of decimals.

use std::collections::BTreeSet;

use bookguard_core::evidence;
use bookguard_core::policy::{EvaluationStatus, ResolutionPath};
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

/// All back until four weeks ahead, then half, then nothing; a deposit of a tenth is kept from the organizer.
fn policy() -> Value {
    json!({
        "policyId": "house",
        "deposit": {"bps": 1000, "nonRefundable": true},
        "organizer": {
            "tiers": [
                {"before": "P8W", "outcome": {"refundBps": 10000}},
                {"before": "P4W", "outcome": {"refundBps": 5000}}
            ],
            "late": {"refundBps": 0},
            "noShow": {"manual": true}
        },
        "talent": {"cancel": {"refundBps": 10000, "compensationBps": 500}}
    })
}

async fn book(acme: &Partner, members: Value) -> String {
    let body = samples::booking_with(members);
    let made = acme.caller.post("/v1/bookings", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.string("bookingId")
}

#[tokio::test]
async fn every_status_and_every_path_can_come_out() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            library_policies: false,
            ..config
        });
        let server = server.await;
        let acme = server.partner("Acme").await;
        let paid = book(&acme, json!({"policy": policy()})).await;
        acme.protect(&paid).await;
        let unpaid = json!({"policy": policy(), "amountPaid": 0, "bookingValue": 100});
        let unpaid = book(&acme, unpaid).await;
        acme.protect(&unpaid).await;
        let free = book(&acme, json!({"policyId": "firm", "amountPaid": 0})).await;
        let bare = book(&acme, json!({})).await;
        let canceled = book(&acme, json!({"policyId": "firm"})).await;
        acme.cancel(&canceled, &samples::cancellation()).await;
        let mut seen = (BTreeSet::new(), BTreeSet::new());
        for (booking, query, status, path, sums) in [
            (
                &paid,
                "asOf=2031-01-01T00:00:00Z",
                "evaluated",
                "partial_refund",
                json!([112_545, 12_505, 0, 0]),
            ),
            (
                &paid,
                "asOf=2031-05-01T00:00:00Z",
                "evaluated",
                "partial_refund",
                json!([62_525, 62_525, 0, 0]),
            ),
            (
                &paid,
                "asOf=2031-06-20T23:00:00Z",
                "evaluated",
                "no_refund",
                json!([0, 125_050, 0, 0]),
            ),
            (
                &paid,
                "asOf=2031-06-20T23:00:01Z",
                "review_required",
                "manual_review",
                json!([null, null, null, null]),
            ),
            (
                &paid,
                "asOf=2031-07-04T23:00:01Z",
                "closed",
                "none",
                json!([null, null, null, null]),
            ),
            (
                &paid,
                "canceledBy=talent",
                "evaluated",
                "refund_with_compensation",
                json!([125_050, 0, 0, 6_253]),
            ),
            (
                &paid,
                "canceledBy=partner",
                "evaluated",
                "full_refund",
                json!([125_050, 0, 0, 0]),
            ),
            (
                &paid,
                "canceledBy=partner&reason=non_payment",
                "evaluated",
                "partial_refund",
                json!([112_545, 12_505, 0, 0]),
            ),
            (
                &paid,
                "canceledBy=mutual&agreedRefund=0.5",
                "evaluated",
                "mutual_agreement",
                json!([50, 125_000, 0, 0]),
            ),
            (
                &unpaid,
                "asOf=2031-05-01T00:00:00Z",
                "evaluated",
                "balance_due",
                json!([0, 5_000, 5_000, 0]),
            ),
            (
                &free,
                "asOf=2031-01-01T00:00:00Z",
                "provisional",
                "no_money_due",
                json!([0, 0, 0, 0]),
            ),
            (
                &bare,
                "",
                "not_evaluable",
                "none",
                json!([null, null, null, null]),
            ),
            (
                &canceled,
                "",
                "final",
                "full_refund",
                json!([125_050, 0, 0, 0]),
            ),
        ] {
            let asked = format!("/v1/bookings/{booking}/policy-evaluation?{query}");
            let answer = acme.caller.get(&asked).await.ok(200);
            assert_eq!(
                (&answer["evaluationStatus"], &answer["resolutionPath"]),
                (&json!(status), &json!(path)),
                "{query}: {answer}"
            );
            let came: Vec<&Value> = ["refund", "penalty", "balanceDue", "compensation"]
                .iter()
                .map(|name| match &answer[*name] {
                    Value::Null => &Value::Null,
                    sum => &sum["minorUnits"],
                })
                .collect();
            assert_eq!(json!(came), sums, "{query}: {answer}");
            seen.0.insert(status);
            seen.1.insert(path);
        }
        let statuses = EvaluationStatus::WORDS.iter().map(|(word, _)| *word);
        let paths = ResolutionPath::WORDS.iter().map(|(word, _)| *word);
        assert_eq!(seen, (statuses.collect(), paths.collect()));
    })
    .await;
}

#[tokio::test]
async fn money_of_every_number_of_decimals_is_canceled_and_recomputed_to_the_last_unit() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let vkey = server.caller().get("/v1/ledger/key").await.text();
        let later =
            |share: u32| json!({"policyId": "p", "organizer": {"late": {"refundBps": share}}});
        for (currency, value, policy, request, sums, words) in [
            (
                "JPY",
                json!(33_333),
                later(5000),
                json!({"canceledBy": "organizer"}),
                [16_667, 16_666],
                "Refund JPY 16667, kept JPY 16666",
            ),
            (
                "JPY",
                json!(33_333),
                later(0),
                json!({"canceledBy": "mutual", "agreedRefund": 1}),
                [1, 33_332],
                "Refund JPY 1, kept JPY 33332",
            ),
            (
                "KWD",
                json!(1234.567),
                later(2500),
                json!({"canceledBy": "organizer"}),
                [308_642, 925_925],
                "Refund KWD 308.642, kept KWD 925.925",
            ),
            (
                "KWD",
                json!(0.001),
                later(5000),
                json!({"canceledBy": "mutual", "agreedRefund": 0.001}),
                [1, 0],
                "Refund KWD 0.001, kept KWD 0.000",
            ),
            (
                "CLF",
                json!(1234.5678),
                later(3333),
                json!({"canceledBy": "organizer"}),
                [4_114_814, 8_230_864],
                "Refund CLF 411.4814, kept CLF 823.0864",
            ),
            (
                "CLF",
                json!(1),
                later(0),
                json!({"canceledBy": "mutual", "agreedRefund": 0.3333}),
                [3_333, 6_667],
                "Refund CLF 0.3333, kept CLF 0.6667",
            ),
        ] {
            let booking = json!({"currency": currency, "bookingValue": value, "policy": policy});
            let booking = book(&acme, booking).await;
            acme.protect(&booking).await;
            let resolution = acme.cancel(&booking, &request).await;
            let evaluation = &resolution["evaluation"];
            let [refund, penalty] =
                ["refund", "penalty"].map(|name| &evaluation[name]["minorUnits"]);
            assert_eq!(
                [refund, penalty],
                [&json!(sums[0]), &json!(sums[1])],
                "{resolution}"
            );
            let summary = resolution["summary"].as_str().unwrap();
            assert!(summary.contains(words), "{summary}");
            let packet = acme
                .caller
                .get(&format!("/v1/bookings/{booking}/evidence"))
                .await;
            let report = evidence::verify(&packet.body, &vkey);
            assert!(report.verified(), "{report}");
        }
    })
    .await;
}
