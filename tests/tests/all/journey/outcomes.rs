//! Every outcome of a cancellation, over HTTP, and cancellations in currencies with every number of decimals.

use std::collections::BTreeSet;

use bookguard_core::policy::{EvaluationStatus, ResolutionPath};
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::{TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

/// A policy with a full refund until eight weeks before the event, half until four weeks before, then none, and a
/// non-refundable deposit of a tenth.
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

#[tokio::test]
async fn every_status_and_every_path_can_come_out() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            library_policies: false,
            ..config
        });
        let server = server.await;
        let acme = server.partner("Acme").await;
        let paid = acme.book_with(json!({"policy": policy()})).await;
        acme.protect(&paid).await;
        let unpaid = json!({"policy": policy(), "amountPaid": 0, "bookingValue": 100});
        let unpaid = acme.book_with(unpaid).await;
        acme.protect(&unpaid).await;
        let free = acme
            .book_with(json!({"policyId": "firm", "amountPaid": 0}))
            .await;
        let bare = acme.book_with(json!({})).await;
        let canceled = acme.book_with(json!({"policyId": "firm"})).await;
        acme.cancel(&canceled, &samples::cancellation()).await;
        let mut seen = (BTreeSet::new(), BTreeSet::new());
        let bookings = [
            ("paid", &paid),
            ("unpaid", &unpaid),
            ("free", &free),
            ("bare", &bare),
            ("canceled", &canceled),
        ];
        for line in include_str!("outcomes.txt").lines().skip(1) {
            let mut columns = line.split(' ');
            let [booking, query, status, path] = [(); 4].map(|()| columns.next().unwrap());
            let (_, booking) = bookings.iter().find(|(name, _)| *name == booking).unwrap();
            let answer = acme.evaluation(booking, query.trim_matches('-')).await;
            answer.holds(json!({"evaluationStatus": status, "resolutionPath": path}));
            let came =
                ["refund", "penalty", "balanceDue", "compensation"].map(|name| {
                    match &answer[name] {
                        Value::Null => "null".to_owned(),
                        sum => sum["minorUnits"].to_string(),
                    }
                });
            assert_eq!(
                came.to_vec(),
                columns.collect::<Vec<_>>(),
                "{line}: {answer}"
            );
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
    with_partner_on_every_engine(async |_server, acme| {
        for line in include_str!("currencies.txt").lines().skip(1) {
            let columns: Vec<&str> = line.split(' ').collect();
            let [currency, value, share, agreed, refund, penalty, back, kept] = columns[..] else {
                panic!("{line}")
            };
            let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            let request = match agreed {
                "-" => json!({"canceledBy": "organizer"}),
                agreed => json!({"canceledBy": "mutual", "agreedRefund": number(agreed)}),
            };
            let policy =
                json!({"policyId": "p", "organizer": {"late": {"refundBps": number(share)}}});
            let booking =
                json!({"currency": currency, "bookingValue": number(value), "policy": policy});
            let booking = acme.book_with(booking).await;
            acme.protect(&booking).await;
            let resolution = acme.cancel(&booking, &request).await;
            let sums =
                ["refund", "penalty"].map(|name| &resolution["evaluation"][name]["minorUnits"]);
            assert_eq!(
                sums,
                [&number(refund), &number(penalty)],
                "{line}: {resolution}"
            );
            let words = format!("Refund {currency} {back}, kept {currency} {kept}");
            assert!(resolution.text("summary").contains(&words), "{resolution}");
            acme.verified_packet(&booking).await;
        }
    })
    .await;
}
