//! What is said to policies that are none, to ids that are none, and to what a partner cannot decide.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};

use crate::wire::bodies::assert_helpful;

/// A policy with one member written otherwise, or added.
fn policy(name: &str, value: Value) -> Value {
    let mut policy = samples::policy(0);
    policy[name] = value;
    policy
}

/// A policy with so many tiers, each a deadline of its own.
fn tiers(count: usize) -> Value {
    let tier = |n| json!({"before": format!("P{n}D"), "outcome": {"refundBps": 0}});
    let tiers: Vec<Value> = (0..count).rev().map(tier).collect();
    json!({"tiers": tiers, "late": {"refundBps": 0}})
}

/// Faulty policies, each with the pointer and the code of its only fault.
fn faulty() -> Vec<(Value, &'static str, &'static str)> {
    let late = |outcome: Value| policy("organizer", json!({ "late": outcome }));
    let tier = |before: &str| {
        let tiers = json!([{"before": before, "outcome": {"refundBps": 0}}]);
        policy(
            "organizer",
            json!({"tiers": tiers, "late": {"refundBps": 0}}),
        )
    };
    vec![
        (policy("organizer", json!(null)), "/organizer", "null"),
        (policy("organizer", json!([])), "/organizer", "wrong_type"),
        (
            policy("organizer", json!({})),
            "/organizer/late",
            "missing_field",
        ),
        (
            policy("organizer", tiers(17)),
            "/organizer/tiers",
            "too_many",
        ),
        (
            policy("organizer", tiers(1000)),
            "/organizer/tiers",
            "too_many",
        ),
        (tier("P10000D"), "/organizer/tiers/0/before", "bad_duration"),
        (
            tier("P99999999999999999999D"),
            "/organizer/tiers/0/before",
            "bad_duration",
        ),
        (
            tier("PT9999999H"),
            "/organizer/tiers/0/before",
            "bad_duration",
        ),
        (tier("P1M"), "/organizer/tiers/0/before", "bad_duration"),
        (tier("P1Y"), "/organizer/tiers/0/before", "bad_duration"),
        (tier("-P1D"), "/organizer/tiers/0/before", "bad_duration"),
        (tier("P"), "/organizer/tiers/0/before", "bad_duration"),
        (
            tier("P1D\u{0}"),
            "/organizer/tiers/0/before",
            "bad_duration",
        ),
        (
            policy("claimWindow", json!("P999W9999DT99999H99999M")),
            "/claimWindow",
            "bad_duration",
        ),
        (
            policy("backdateTolerance", json!("P1D")),
            "/backdateTolerance",
            "bad_duration",
        ),
        (
            policy("timeZone", json!("Europe/Berlln")),
            "/timeZone",
            "time_zone_unknown",
        ),
        (
            policy("timeZone", json!("UTC+25")),
            "/timeZone",
            "time_zone_unknown",
        ),
        (
            policy("timeZone", json!("../../etc/localtime")),
            "/timeZone",
            "time_zone_unknown",
        ),
        (
            policy("timeZone", json!("x".repeat(50_000))),
            "/timeZone",
            "time_zone_unknown",
        ),
        (
            policy("anchorTime", json!("24:00")),
            "/anchorTime",
            "bad_time",
        ),
        (
            policy("currency", json!("USDD")),
            "/currency",
            "currency_unknown",
        ),
        (
            policy("currency", json!("XAU")),
            "/currency",
            "currency_has_no_minor_unit",
        ),
        (
            policy("rounding", json!("up_or_down")),
            "/rounding",
            "not_allowed",
        ),
        (policy("deposit", json!({})), "/deposit", "bad_deposit"),
        (policy("name", json!("n".repeat(121))), "/name", "too_long"),
        (
            policy("name", json!("a\u{1b}[2J")),
            "/name",
            "control_character",
        ),
        (policy("version", json!(0)), "/version", "out_of_range"),
        (
            policy("version", json!(4_294_967_296_u64)),
            "/version",
            "out_of_range",
        ),
        (policy("version", json!("1")), "/version", "wrong_type"),
        (policy("graec", json!({})), "/graec", "unknown_field"),
        (
            policy("policyId", json!("other")),
            "/policyId",
            "policy_id_mismatch",
        ),
        (
            policy("policyId", json!("House")),
            "/policyId",
            "bad_policy_id",
        ),
        (late(json!({})), "/organizer/late", "bad_outcome"),
        (
            late(json!({"refundBps": 10_001})),
            "/organizer/late/refundBps",
            "out_of_range",
        ),
        (
            late(json!({"refundBps": -1})),
            "/organizer/late/refundBps",
            "out_of_range",
        ),
        (
            late(json!({"refundBps": 0.5})),
            "/organizer/late/refundBps",
            "out_of_range",
        ),
        (
            late(json!({"penaltyAmount": "1.00"})),
            "/currency",
            "policy_currency_missing",
        ),
        (
            late(json!({"lesserOf": [{"refundBps": 1}]})),
            "/organizer/late/lesserOf",
            "too_few",
        ),
        (
            late(json!({"lesserOf": vec![json!({"refundBps": 1}); 5]})),
            "/organizer/late/lesserOf",
            "too_many",
        ),
    ]
}

#[tokio::test]
async fn an_invalid_policy_is_refused_with_place_and_fix_wherever_it_is_sent() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        for (policy, pointer, code) in faulty() {
            let reply = acme.caller.put("/v1/policies/house", &policy).await;
            let expected = (pointer.to_owned(), code.to_owned());
            assert_eq!(
                (reply.status, reply.details()),
                (400, vec![expected]),
                "{policy:.200}"
            );
            assert_eq!(reply.code(), code);
            assert_helpful(&reply, pointer);
            // The same on a booking, and in a check, where nothing else says which policy it is.
            let mut whole = policy.clone();
            if !code.starts_with("policy_id") && code != "bad_policy_id" {
                whole["policyId"] = "house".into();
                let booking = samples::booking_with(json!({ "policy": whole }));
                let reply = acme.caller.post("/v1/bookings", &booking).await;
                let expected = (format!("/policy{pointer}"), code.to_owned());
                assert_eq!(
                    (reply.status, reply.details()),
                    (400, vec![expected]),
                    "{policy:.200}"
                );
            }
            let check = acme
                .caller
                .post("/v1/policies/validate", &whole)
                .await
                .ok(200);
            if code != "policy_id_mismatch" {
                assert_eq!(check["valid"], false);
                let error = &check["errors"][0];
                assert_eq!(
                    (&error["pointer"], &error["code"]),
                    (&json!(pointer), &json!(code))
                );
                assert!(check["normalized"].is_null() && check["policyHash"].is_null());
                assert_eq!(
                    (&check["english"], &check["warnings"]),
                    (&json!([]), &json!([]))
                );
            }
        }
        let list = acme.caller.get("/v1/policies").await.ok(200);
        assert_eq!(list["data"], json!([]), "nothing was kept");
    })
    .await;
}

#[tokio::test]
async fn what_is_no_policy_at_all_is_said_to_be_none() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let put = async |body: Vec<u8>| {
            acme.caller
                .send_json("PUT", "/v1/policies/house", body)
                .await
        };
        for (body, code) in [
            ("", "body_required"),
            ("{", "invalid_json"),
            ("{\"organizer\":}", "invalid_json"),
            ("[]", "wrong_type"),
            ("null", "wrong_type"),
            ("{}", "missing_field"),
            (
                "{\"organizer\":{\"late\":{\"refundBps\":0}},\"organizer\":{}}",
                "duplicate_key",
            ),
        ] {
            let reply = put(body.into()).await;
            assert_eq!((reply.status, reply.code().as_str()), (400, code), "{body}");
        }
        let broken = put(b"{\n  \"organizer\": {,}\n}".to_vec()).await;
        assert!(
            broken.text().contains("line 2 column 17"),
            "{}",
            broken.text()
        );
        // A megabyte is more than a request may be; sixty thousand characters of one are a policy of too long a name.
        let large = serde_json::to_vec(&policy("name", json!("n".repeat(1024 * 1024)))).unwrap();
        let reply = put(large).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (413, "body_too_large")
        );
        let deep = format!(
            "{{\"organizer\":{}{}}}",
            "[".repeat(30_000),
            "]".repeat(30_000)
        );
        assert_eq!(put(deep.into_bytes()).await.status, 400);
        // A check answers whatever is JSON.
        for (body, status, code) in [
            ("{", 400, "invalid_json"),
            ("", 400, "body_required"),
            ("[]", 200, "wrong_type"),
            ("7", 200, "wrong_type"),
            ("{}", 200, "missing_field"),
        ] {
            let reply = acme.caller.post_text("/v1/policies/validate", body).await;
            assert_eq!(reply.status, status, "{body}: {}", reply.text());
            match status {
                200 => assert_eq!(reply.json()["errors"][0]["code"], code, "{body}"),
                _ => assert_eq!(reply.code(), code, "{body}"),
            }
        }
        for id in [
            "House",
            "-x",
            "_x",
            "a.b",
            "%00",
            "a%20b",
            "é",
            "..%2fx",
            &"a".repeat(65),
        ] {
            let path = format!("/v1/policies/{id}");
            let reply = acme.caller.put(&path, &samples::policy(0)).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "bad_policy_id"),
                "{id}"
            );
            assert_eq!(acme.caller.get(&path).await.status, 404, "{id}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_check_shows_what_a_good_policy_says_and_its_hash() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let templates = acme.caller.get("/v1/policy-templates").await.ok(200);
        let templates = templates["data"].as_array().unwrap();
        assert_eq!(templates.len(), 15);
        for template in templates {
            let check = acme
                .caller
                .post("/v1/policies/validate", &template["policy"])
                .await
                .ok(200);
            assert_eq!(
                (&check["valid"], &check["errors"]),
                (&json!(true), &json!([]))
            );
            for name in ["english", "policyHash"] {
                assert_eq!(check[name], template[name], "{}", template["policyId"]);
            }
            assert_eq!(check["normalized"], template["policy"]);
        }
        let firm = templates.iter().find(|t| t["policyId"] == "firm").unwrap();
        assert_eq!(firm["defaultFor"], json!(["*", "rental", "stay"]));
        // A template is a good beginning, under a name of one's own.
        let mut mine = firm["policy"].clone();
        mine["policyId"] = "my-firm".into();
        assert_eq!(acme.put_policy("my-firm", &mine).await, 1);
        let taken = acme.caller.put("/v1/policies/firm", &firm["policy"]).await;
        assert_eq!(
            (taken.status, taken.code().as_str()),
            (409, "policy_id_reserved")
        );
        assert!(taken.text().contains("my-firm"), "{}", taken.text());
        let early = acme
            .caller
            .put("/v1/policies/new", &policy("version", json!(2)))
            .await;
        assert_eq!(
            (early.status, early.code().as_str()),
            (409, "policy_version_conflict")
        );
    })
    .await;
}

#[tokio::test]
async fn invalid_versions_and_cursors_are_told_apart_from_missing_ones() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        acme.put_policy("house", &samples::policy(0)).await;
        for (path, status, code) in [
            ("/v1/policies/house?version=1", 200, ""),
            ("/v1/policies/house?version=2", 404, "not_found"),
            ("/v1/policies/house?version=4294967295", 404, "not_found"),
            ("/v1/policies/house?version=0", 400, "out_of_range"),
            ("/v1/policies/house?version=4294967296", 400, "out_of_range"),
            ("/v1/policies/house?version=-1", 400, "out_of_range"),
            ("/v1/policies/house?version=", 400, "out_of_range"),
            (
                "/v1/policies/house?version=1&version=1",
                400,
                "duplicate_query_parameter",
            ),
            (
                "/v1/policies/house?vresion=1",
                400,
                "unknown_query_parameter",
            ),
            ("/v1/policies/none/versions", 404, "not_found"),
            (
                "/v1/policies/house/versions?cursor=x",
                400,
                "cursor_invalid",
            ),
            ("/v1/policies/house/versions?cursor=1", 200, ""),
            ("/v1/policies?cursor=House", 400, "cursor_invalid"),
            ("/v1/policies?cursor=zzz", 200, ""),
            ("/v1/policies?limit=101", 400, "out_of_range"),
        ] {
            let reply = acme.caller.get(path).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (status, code),
                "{path}"
            );
        }
    })
    .await;
}

async fn patch(acme: &Partner, body: &Value, pointer: &str, code: &str) {
    let reply = acme.caller.patch("/v1/partners/me", body).await;
    let expected = (pointer.to_owned(), code.to_owned());
    assert_eq!(
        (reply.status, reply.details()),
        (400, vec![expected]),
        "{body:.200}"
    );
    assert_helpful(&reply, pointer);
}

#[tokio::test]
async fn what_a_partner_cannot_decide_is_named() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        acme.put_policy("house", &samples::policy(0)).await;
        let before = acme.caller.get("/v1/partners/me").await.ok(200);
        let default =
            |event_type: &str, policy: Value| json!({"defaultPolicies": {event_type: policy}});
        let many: serde_json::Map<String, Value> =
            (0..101).map(|n| (format!("t{n}"), json!("firm"))).collect();
        for (body, pointer, code) in [
            (
                default("concert", json!("huose")),
                "/defaultPolicies/concert",
                "policy_unknown",
            ),
            (
                default("a/b~c", json!("none")),
                "/defaultPolicies/a~1b~0c",
                "policy_unknown",
            ),
            (
                default("concert", json!("Firm")),
                "/defaultPolicies/concert",
                "bad_policy_id",
            ),
            (
                default("concert", json!(1)),
                "/defaultPolicies/concert",
                "wrong_type",
            ),
            (
                default("concert", json!({})),
                "/defaultPolicies/concert",
                "wrong_type",
            ),
            (default("", json!("firm")), "/defaultPolicies/", "bad_key"),
            (
                default("--", json!("firm")),
                "/defaultPolicies/--",
                "bad_key",
            ),
            (
                default("🎸", json!("firm")),
                "/defaultPolicies/🎸",
                "bad_key",
            ),
            (
                json!({"defaultPolicies": {"Live Music": "firm", "live-music": null}}),
                "/defaultPolicies/live-music",
                "duplicate_key",
            ),
            (json!({"defaultPolicies": null}), "/defaultPolicies", "null"),
            (
                json!({"defaultPolicies": []}),
                "/defaultPolicies",
                "wrong_type",
            ),
            (
                json!({ "defaultPolicies": many }),
                "/defaultPolicies",
                "too_many",
            ),
            (
                json!({"timeZone": "Europe/Berlln"}),
                "/timeZone",
                "time_zone_unknown",
            ),
            (
                json!({"timeZone": "+02:00"}),
                "/timeZone",
                "time_zone_unknown",
            ),
            (json!({"timeZone": 1}), "/timeZone", "wrong_type"),
            (json!({"name": "Other"}), "/name", "unknown_field"),
            (json!({"status": "active"}), "/status", "unknown_field"),
            (
                json!({"defaultPolicy": "firm"}),
                "/defaultPolicy",
                "unknown_field",
            ),
        ] {
            patch(&acme, &body, pointer, code).await;
        }
        assert_eq!(acme.caller.get("/v1/partners/me").await.ok(200), before);
        // A hundred and no more, however many requests it takes.
        let hundred: serde_json::Map<String, Value> = many.into_iter().take(100).collect();
        acme.caller
            .patch("/v1/partners/me", &json!({ "defaultPolicies": hundred }))
            .await
            .ok(200);
        patch(
            &acme,
            &default("one more", json!("firm")),
            "/defaultPolicies",
            "too_many",
        )
        .await;
        // Nothing to change is not a fault.
        let me = acme
            .caller
            .patch("/v1/partners/me", &json!({}))
            .await
            .ok(200);
        assert_eq!(me["defaultPolicies"].as_object().unwrap().len(), 100);
    })
    .await;
}

/// Deadlines beyond the calendar's ends, on events at both: no panic, and an evaluation.
#[tokio::test]
async fn the_longest_durations_meet_the_farthest_events() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
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
            let made = acme.caller.post("/v1/bookings", &booking).await;
            if made.status == 400 {
                assert!(!made.details().is_empty(), "{date}: {}", made.text());
                continue;
            }
            let path = format!(
                "/v1/bookings/{}/policy-evaluation",
                made.string("bookingId")
            );
            acme.caller.get(&path).await.ok(200);
        }
    })
    .await;
}
