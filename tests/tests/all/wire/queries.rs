//! Query parameters and idempotency keys: their faults, and the effect of valid ones.

use bookguard_core::limits::IDEMPOTENCY_TTL_MS;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::json;

use crate::fields::tables::rows;

#[tokio::test]
async fn wrong_query_parameters_are_named() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book_with(json!({"policyId": "firm"})).await;
        acme.put_policy("house", &samples::policy(0)).await;
        let booking = format!("/v1/bookings/{booking}");
        for (faults, path) in rows(include_str!("queries.txt")) {
            let path = path.replace("BOOKING", &booking);
            let path = path.replace("LONG", &"%F0%9F%8E%B8".repeat(101));
            let named = faults.iter().map(|(name, code)| (format!("?{name}"), code));
            let named: Vec<_> = named.collect();
            let named: Vec<_> = named.iter().map(|(at, code)| (&**at, &***code)).collect();
            acme.get(&path).await.faulty(&named);
        }
        let meant = acme.get("/v1/bookings?limt=5").await.text();
        assert!(meant.contains("Did you mean \\\"limit\\\"?"), "{meant}");
        let reasons = "Send one of: credit_not_processed, duplicate, fraud";
        let place = "Send it to /v1/bookings/{bookingId}/evidence/dispute.";
        for (asked, fix) in [
            (
                "/dispute?for=adyen&reason=general",
                "Send one of: stripe, card.",
            ),
            (
                "/dispute?for=card&reason=generic",
                "credit_not_processed, duplicate, fraud",
            ),
            ("/dispute?for=card", reasons),
            ("?for=card", place),
        ] {
            let reply = acme.get(&format!("{booking}/evidence{asked}")).await;
            reply.says(&[fix]);
        }
        for broken in ["?limit=%", "?limit=%4", "?limit=%zz", "?%ff=1"] {
            let reply = acme.get(&format!("/v1/bookings{broken}")).await;
            reply.refused(400, "invalid_query");
        }
        let long = format!("/v1/bookings?a={}", "x".repeat(5000));
        assert_eq!(acme.get(&long).await.code(), "query_too_long");
        for path in [
            "/v1/policies/house?version=2",
            "/v1/policies/house?version=4294967295",
            "/v1/policies/none/versions",
        ] {
            let unknown = acme.get(path).await;
            unknown.refused(404, "not_found").says(&["your own."]);
        }
        for path in ["/v1/policies/firm", "/v1/policies/firm/versions"] {
            let library = acme.get(path).await;
            library.refused(404, "not_found");
            library.says(&["of the library", "/v1/policy-templates"]);
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_asked_rightly_is_answered() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book_with(json!({"policyId": "firm"})).await;
        acme.put_policy("house", &samples::policy(0)).await;
        let date = "?eventTo=2032-01-01T00:00:00%2B01:00";
        for fine in ["?", "?limit=1", "?%6Cimit=1", "?limit=1&", date] {
            let list = acme.get(&format!("/v1/bookings{fine}")).await.ok(200);
            assert_eq!(list.list("data").len(), 1, "{fine}");
        }
        for (path, rows) in [
            ("/v1/policies/house/versions?cursor=1", 0),
            ("/v1/policies?cursor=zzz", 0),
            ("/v1/policies", 1),
        ] {
            let list = acme.get(path).await.ok(200);
            assert_eq!(list.list("data").len(), rows, "{path}");
        }
        let agreed = acme
            .evaluation(&booking, "canceledBy=mutual&agreedRefund=100.10")
            .await;
        assert_eq!(agreed["refund"]["minorUnits"], 10_010);
        for (evidence, path) in [("0", "manual_review"), ("1", "full_refund")] {
            let storm = format!("reason=force_majeure&evidence={evidence}");
            let storm = acme.evaluation(&booking, &storm).await;
            assert_eq!(storm["resolutionPath"], path);
        }
    })
    .await;
}

#[tokio::test]
async fn idempotency_keys_are_visible_ascii_of_at_most_255() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let post = async |keys: &[&[u8]]| {
            let mut request = acme
                .request("POST", "/v1/bookings")
                .header("content-type", "application/json");
            for key in keys {
                let value = reqwest::header::HeaderValue::from_bytes(key).unwrap();
                request = request.header("idempotency-key", value);
            }
            let body = samples::booking().to_string();
            acme.send(request.body(body)).await
        };
        let most = [b'k'; 255];
        for bad in [
            &[&b""[..]][..],
            &[&[b'k'; 256]],
            &["clé".as_bytes()],
            &[b"\xff"],
            &[b"two words"],
            &[b"a\tb"],
            &[b"a", b"b"],
            &[b"a", b"a"],
        ] {
            let reply = post(bad).await;
            reply.faulty(&[("Idempotency-Key", "idempotency_key_invalid")]);
        }
        let twice = post(&[b"a", b"a"]).await;
        twice.says(&["was sent more than once"]);
        let list = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(list.list("data").len(), 0);
        post(&[&most]).await.ok(201);
        let again = post(&[&most]).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
    })
    .await;
}

#[tokio::test]
async fn a_repetition_is_answered_with_the_same_bytes_for_a_day_and_happens_once() {
    on_every_engine(async |engine| {
        let (mut server, acme) = TestServer::with_partner(engine).await;
        let body = samples::booking();
        let first = acme.post_once("/v1/bookings", "order-1", &body).await;
        first.ok(201);
        assert_eq!(first.header("idempotent-replayed"), None);
        // Up to the end of the key's lifetime, and after a restart.
        server.advance(IDEMPOTENCY_TTL_MS);
        server.restart().await;
        let caller = acme.at(&server.running().url());
        let again = caller.post_once("/v1/bookings", "order-1", &body).await;
        again.replays(&first);
        assert_eq!(again.header("location"), first.header("location"));
        // The same JSON in other bytes is another request: requests are compared by their bytes.
        let spaced = format!(" {body}");
        let request = caller
            .request("POST", "/v1/bookings")
            .header("content-type", "application/json")
            .header("idempotency-key", "order-1");
        let other = caller.send(request.body(spaced)).await;
        other.refused(422, "idempotency_key_reused");
        // Keys of the same name of different partners are independent.
        let second = server.partner("Second").await;
        let theirs = second.post_once("/v1/bookings", "order-1", &body).await;
        assert_eq!(theirs.header("idempotent-replayed"), None);
        theirs.ok(201);
        server.advance(1);
        let late = caller.post_once("/v1/bookings", "order-1", &body).await;
        assert_eq!(
            (late.status, late.header("idempotent-replayed")),
            (201, None)
        );
        assert_ne!(late.body, first.body);
    })
    .await;
}

#[tokio::test]
async fn every_post_repeats_safely_and_refusals_are_not_remembered() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let protect = format!("/v1/bookings/{booking}/protect");
        let endpoint = json!({"url": "http://127.0.0.1:9/"});
        for (path, body) in [
            ("/v1/partners/register", samples::partner("Twice")),
            ("/v1/api-keys", json!({"name": "Twice"})),
            ("/v1/webhook-endpoints", endpoint),
            (&protect, json!({})),
        ] {
            let key = format!("key of {path}").replace(' ', "-");
            let refused = acme.post_once(path, &key, &json!({"surprise": 1})).await;
            assert_eq!(refused.status, 400, "{path}");
            let first = acme.post_once(path, &key, &body).await;
            assert!(first.status < 300, "{path}: {}", first.text());
            let again = acme.post_once(path, &key, &body).await;
            again.replays(&first);
            let reused = acme
                .post_once("/v1/bookings", &key, &samples::booking())
                .await;
            // Registration is open to everybody, so its idempotency keys are kept by address.
            let expected = if path.ends_with("register") { 201 } else { 422 };
            assert_eq!(reused.status, expected, "{path}: {}", reused.text());
        }
        let keys = acme.get("/v1/api-keys").await.ok(200);
        assert_eq!(keys.list("data").len(), 2);

        // What was done is answered the same, even if it would be refused by now.
        let path = "/v1/api-keys";
        let soon = json!({"expiresAt": "2026-09-21T14:13:23Z"});
        let first = acme.post_once(path, "soon", &soon).await;
        first.ok(201);
        server.advance(5_000);
        acme.post_once(path, "soon", &soon).await.replays(&first);
        for (key, body) in [
            ("another", soon),
            ("soon", json!({"expiresAt": "2026-09-21T14:13:24Z"})),
        ] {
            let refused = acme.post_once(path, key, &body).await;
            refused.refused(400, "expiry_out_of_range");
        }
    })
    .await;
}
