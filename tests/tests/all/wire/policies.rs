//! Refusals of invalid policies wherever they are sent, of invalid ids, and of decisions that a partner cannot make. The
//! faults of a policy are listed in `fields/Policy.txt`.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

#[tokio::test]
async fn an_invalid_policy_is_refused_with_place_and_fix_wherever_it_is_sent() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let policy = json!({"policyId": "house", "organizer": {"late": {"refundBps": 10_001}}, "graec": {}});
        let faults = [("/organizer/late/refundBps", "out_of_range"), ("/graec", "unknown_field")];
        acme.put("/v1/policies/house", &policy).await.faulty(&faults);
        let within = faults.map(|(at, code)| (format!("/policy{at}"), code));
        let within = [0, 1].map(|n| (&*within[n].0, within[n].1));
        let booking = samples::booking_with(json!({ "policy": policy }));
        acme.post("/v1/bookings", &booking).await.faulty(&within);
        let check = acme.post("/v1/policies/validate", &policy).await.ok(200);
        check.holds(json!({"valid": false, "normalized": null, "policyHash": null, "english": [], "warnings": []}));
        for (error, (pointer, code)) in check.list("errors").iter().zip(faults) {
            error.holds(json!({"pointer": pointer, "code": code}));
        }
        let mut other = samples::policy(0);
        other["policyId"] = "other".into();
        let reply = acme.put("/v1/policies/house", &other).await;
        reply.faulty(&[("/policyId", "policy_id_mismatch")]);
        let list = acme.get("/v1/policies").await.ok(200);
        assert_eq!(list["data"], json!([]), "nothing was kept");
    })
    .await;
}

#[tokio::test]
async fn what_is_no_policy_at_all_is_said_to_be_none() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        // A megabyte is more than a request may have.
        let mut large = samples::policy(0);
        large["name"] = "n".repeat(1024 * 1024).into();
        let reply = acme.put("/v1/policies/house", &large).await;
        reply.refused(413, "body_too_large");
        // A check answers 200 for any JSON, and refuses only what is not JSON.
        for (body, code) in [("{", "invalid_json"), ("", "body_required")] {
            let reply = acme.post_text("/v1/policies/validate", body).await;
            reply.refused(400, code);
        }
        for (body, code) in [
            ("[]", "wrong_type"),
            ("7", "wrong_type"),
            ("{}", "missing_field"),
        ] {
            let check = acme.post_text("/v1/policies/validate", body).await.ok(200);
            assert_eq!(check["errors"][0]["code"], code, "{body}");
        }
        let long = "a".repeat(65);
        for id in [
            "House", "-x", "_x", "a.b", "%00", "a%20b", "é", "..%2fx", &long,
        ] {
            let path = format!("/v1/policies/{id}");
            let reply = acme.put(&path, &samples::policy(0)).await;
            reply.refused(400, "bad_policy_id");
            acme.get(&path).await.refused(404, "not_found");
        }
    })
    .await;
}

#[tokio::test]
async fn a_check_shows_what_a_good_policy_says_and_its_hash() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let templates = acme.get("/v1/policy-templates").await.ok(200);
        let templates = templates.list("data");
        assert_eq!(templates.len(), 15);
        for template in templates {
            let check = acme.post("/v1/policies/validate", &template["policy"]);
            check.await.ok(200).holds(json!({
                "valid": true, "errors": [], "english": template["english"], "policyHash": template["policyHash"],
                "normalized": template["policy"]
            }));
        }
        let firm = templates.iter().find(|t| t["policyId"] == "firm").unwrap();
        assert_eq!(firm["defaultFor"], json!(["*", "rental", "stay"]));
        // A template can be stored under a name of the partner's own.
        let mut mine = firm["policy"].clone();
        mine["policyId"] = "my-firm".into();
        assert_eq!(acme.put_policy("my-firm", &mine).await, 1);
        let taken = acme.put("/v1/policies/firm", &firm["policy"]).await;
        taken.refused(409, "policy_id_reserved");
        taken.says(&["my-firm"]);
        let mut early = samples::policy(0);
        early["version"] = 2.into();
        let early = acme.put("/v1/policies/new", &early).await;
        early.refused(409, "policy_version_conflict");
        // Version 0 is for a policy that is not there yet; sent again, it gets the same answer.
        let mut first = samples::policy(0);
        first["version"] = 0.into();
        assert_eq!(acme.put_policy("new", &first).await, 1);
        assert_eq!(acme.put_policy("new", &first).await, 1);
        first["name"] = "Another".into();
        let taken = acme.put("/v1/policies/new", &first).await;
        taken.refused(409, "policy_version_conflict");
        taken.says(&["already"]);
    })
    .await;
}

#[tokio::test]
async fn a_check_shows_the_schedule_that_a_booking_gets() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        acme.decide(json!({"timeZone": "Asia/Tokyo"})).await;
        let firm = acme.rows("/v1/policy-templates").await;
        let firm = firm.iter().find(|t| t["policyId"] == "firm").unwrap();
        let check = async |query: &str| {
            let path = format!("/v1/policies/validate{query}");
            acme.post(&path, &firm["policy"]).await
        };
        let query = "?eventDate=2031-06-20T19:00&bookingValue=1250.5&currency=EUR";
        let checked = check(query).await.ok(200);
        let booking = samples::booking_with(json!({
            "policyId": "firm", "eventDate": "2031-06-20T19:00", "bookingValue": 1250.5, "currency": "EUR",
            "timeZone": null,
        }));
        let booking = acme.post("/v1/bookings", &booking).await.ok(201);
        let evaluation = acme.evaluation(booking.text("bookingId"), "").await;
        assert_eq!(checked["schedule"], evaluation["schedule"]);
        assert_eq!(check("").await.ok(200)["schedule"], Value::Null);
        let refused = check("?eventDate=soon&currency=eur").await;
        refused.faulty(&[("?eventDate", "invalid_date"), ("?currency", "currency_unknown")]);
        for (value, code, fix) in [
            ("ten", "amount_not_a_number", "Send a number from 0 with at most 2 decimals (EUR)."),
            ("1.005", "amount_precision", "Send a number from 0 with at most 2 decimals (EUR)."),
            ("99999999999999", "amount_too_large", "Send at most 9999999999999.99 (EUR)."),
        ] {
            let query = format!("?eventDate=2031-06-20&bookingValue={value}&currency=EUR");
            let refused = check(&query).await;
            refused.faulty(&[("?bookingValue", code)]);
            refused.says(&[fix]);
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_partner_cannot_decide_is_named() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let before = acme.get("/v1/partners/me").await.ok(200);
        let refused = async |changes: Value, pointer: &str, code: &str| {
            let reply = acme.patch("/v1/partners/me", &changes).await;
            reply.faulty(&[(pointer, code)]);
        };
        let default = |event_type: &str, id: &str| json!({"defaultPolicies": {event_type: id}});
        let (unknown, at) = (default("a/b~c", "none"), "/defaultPolicies/a~1b~0c");
        refused(unknown, at, "policy_unknown").await;
        let misspelt = json!({"timeZone": "Europe/Berlln"});
        refused(misspelt, "/timeZone", "time_zone_unknown").await;
        assert_eq!(acme.get("/v1/partners/me").await.ok(200), before);
        // A hundred defaults and no more, even across several requests.
        let hundred = (0..100).map(|n| (format!("t{n}"), json!("firm")));
        let hundred: serde_json::Map<String, Value> = hundred.collect();
        acme.decide(json!({ "defaultPolicies": hundred })).await;
        refused(default("one more", "firm"), "/defaultPolicies", "too_many").await;
        // An empty change is accepted.
        let me = acme.decide(json!({})).await;
        assert_eq!(me["defaultPolicies"].as_object().unwrap().len(), 100);
    })
    .await;
}

/// Deadlines beyond both ends of the calendar give a refusal or an evaluation, never a panic.
#[tokio::test]
async fn the_longest_durations_meet_the_farthest_events() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let longest = "P999W9999DT99999H9999M";
        let extreme = json!({
            "claimWindow": longest,
            "backdateTolerance": "PT99999H9999M",
            "grace": {"within": longest, "minNotice": longest},
            "organizer": {
                "tiers": [{"before": longest, "cutoffTime": "23:59", "outcome": {"refundBps": 1}}],
                "late": {"refundBps": 0}
            }
        });
        acme.put_policy("extreme", &extreme).await;
        for date in [
            "9999-12-31T23:59:59Z",
            "2026-09-21T14:13:21Z",
            "0001-01-01T00:00:00Z",
            "1970-01-01T00:00:00Z",
        ] {
            let booking = samples::booking_with(json!({"policyId": "extreme", "eventDate": date}));
            let made = acme.post("/v1/bookings", &booking).await;
            if made.status == 400 {
                assert!(!made.details().is_empty(), "{date}: {}", made.text());
                continue;
            }
            acme.evaluation(&made.string("bookingId"), "").await;
        }
    })
    .await;
}
