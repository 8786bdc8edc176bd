//! Query parameters and idempotency keys: what is wrong with them, and what the right ones bring.

use bookguard_core::limits::IDEMPOTENCY_TTL_MS;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::json;

#[tokio::test]
async fn wrong_query_parameters_are_named() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        let evaluation = format!("/v1/bookings/{booking}/policy-evaluation");
        for (path, details) in [
            ("/v1/bookings?limit=0", vec![("?limit", "out_of_range")]),
            ("/v1/bookings?limit=101", vec![("?limit", "out_of_range")]),
            ("/v1/bookings?limit=-1", vec![("?limit", "out_of_range")]),
            ("/v1/bookings?limit=1e1", vec![("?limit", "out_of_range")]),
            ("/v1/bookings?limit=", vec![("?limit", "out_of_range")]),
            (
                "/v1/bookings?limit=99999999999999999999",
                vec![("?limit", "out_of_range")],
            ),
            (
                "/v1/bookings?limit=5&limit=5",
                vec![("?limit", "duplicate_query_parameter")],
            ),
            (
                "/v1/bookings?Limit=5",
                vec![("?Limit", "unknown_query_parameter")],
            ),
            ("/v1/bookings?cursor=x", vec![("?cursor", "cursor_invalid")]),
            (
                "/v1/bookings?cursor=ptn_00000000000000000000000000000000",
                vec![("?cursor", "cursor_invalid")],
            ),
            ("/v1/bookings?status=done", vec![("?status", "not_allowed")]),
            (
                "/v1/bookings?eventFrom=2031",
                vec![("?eventFrom", "invalid_date")],
            ),
            // A plus that was not encoded is a space.
            (
                "/v1/bookings?eventTo=2031-01-01T00:00:00+01:00",
                vec![("?eventTo", "invalid_date")],
            ),
            (
                "/v1/bookings?limt=5&a=b&status=x",
                vec![
                    ("?limt", "unknown_query_parameter"),
                    ("?a", "unknown_query_parameter"),
                ],
            ),
            (
                "/v1/bookings?status=x&eventFrom=y&eventTo=z",
                vec![
                    ("?status", "not_allowed"),
                    ("?eventFrom", "invalid_date"),
                    ("?eventTo", "invalid_date"),
                ],
            ),
            (
                "/v1/bookings?limit=0&cursor=x",
                vec![("?limit", "out_of_range"), ("?cursor", "cursor_invalid")],
            ),
            ("/v1/bookings?limit=%2B5", vec![("?limit", "out_of_range")]),
            ("EVALUATION?asOf=now", vec![("?asOf", "invalid_date")]),
            (
                "EVALUATION?canceledBy=nobody&reason=none",
                vec![("?canceledBy", "not_allowed"), ("?reason", "not_allowed")],
            ),
            (
                "/v1/webhook-events?after=-1&wait=31&type=booking&status=lost&limit=0",
                vec![
                    ("?limit", "out_of_range"),
                    ("?after", "out_of_range"),
                    ("?wait", "out_of_range"),
                    ("?type", "not_allowed"),
                    ("?status", "not_allowed"),
                ],
            ),
            (
                "/v1/webhook-events?after=18446744073709551616&wait=+1",
                vec![("?after", "out_of_range"), ("?wait", "out_of_range")],
            ),
            (
                "/v1/health?verbose",
                vec![("?verbose", "unknown_query_parameter")],
            ),
        ] {
            let reply = acme
                .caller
                .get(&path.replace("EVALUATION", &evaluation))
                .await;
            assert_eq!(reply.status, 400, "{path}: {}", reply.text());
            let expected = details
                .iter()
                .map(|(p, c)| ((*p).to_owned(), (*c).to_owned()));
            assert_eq!(reply.details(), expected.collect::<Vec<_>>(), "{path}");
        }
        let meant = acme.caller.get("/v1/bookings?limt=5").await.text();
        assert!(meant.contains("Did you mean \\\"limit\\\"?"), "{meant}");
        for broken in ["?limit=%", "?limit=%4", "?limit=%zz", "?%ff=1"] {
            let reply = acme.caller.get(&format!("/v1/bookings{broken}")).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "invalid_query"),
                "{broken}"
            );
        }
        let long = format!("/v1/bookings?a={}", "x".repeat(5000));
        assert_eq!(acme.caller.get(&long).await.code(), "query_too_long");
        for fine in [
            "?",
            "?limit=1",
            "?%6Cimit=1",
            "?limit=1&",
            "?eventTo=2032-01-01T00:00:00%2B01:00",
        ] {
            let list = acme
                .caller
                .get(&format!("/v1/bookings{fine}"))
                .await
                .ok(200);
            assert_eq!(list["data"].as_array().unwrap().len(), 1, "{fine}");
        }
    })
    .await;
}

#[tokio::test]
async fn idempotency_keys_are_visible_ascii_of_at_most_255() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let post = async |keys: &[&[u8]]| {
            let mut request = acme
                .caller
                .request("POST", "/v1/bookings")
                .header("content-type", "application/json");
            for key in keys {
                let value = reqwest::header::HeaderValue::from_bytes(key).unwrap();
                request = request.header("idempotency-key", value);
            }
            let body = samples::booking().to_string();
            acme.caller.send(request.body(body)).await
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
            assert_eq!(reply.status, 400, "{bad:?}: {}", reply.text());
            let expected = (
                "Idempotency-Key".to_owned(),
                "idempotency_key_invalid".to_owned(),
            );
            assert_eq!(reply.details(), [expected]);
        }
        let list = acme.caller.get("/v1/bookings").await.ok(200);
        assert_eq!(list["data"].as_array().unwrap().len(), 0);
        post(&[&most]).await.ok(201);
        assert_eq!(
            post(&[&most]).await.header("idempotent-replayed"),
            Some("true")
        );
    })
    .await;
}

#[tokio::test]
async fn a_repetition_is_answered_with_the_same_bytes_for_a_day_and_happens_once() {
    on_every_engine(async |engine| {
        let mut server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let body = samples::booking();
        let first = acme
            .caller
            .post_once("/v1/bookings", "order-1", &body)
            .await;
        first.ok(201);
        assert_eq!(first.header("idempotent-replayed"), None);
        // Long after, and after a restart.
        server.advance(IDEMPOTENCY_TTL_MS);
        server.restart().await;
        let caller = acme.caller.at(&server.running().url());
        let again = caller.post_once("/v1/bookings", "order-1", &body).await;
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.header("location"), first.header("location"));
        // Same meaning in other bytes is another request: what was signed off is the bytes.
        let spaced = format!(" {body}");
        let request = caller
            .request("POST", "/v1/bookings")
            .header("content-type", "application/json")
            .header("idempotency-key", "order-1");
        let other = caller.send(request.body(spaced)).await;
        assert_eq!(
            (other.status, other.code().as_str()),
            (422, "idempotency_key_reused")
        );
        // Another partner's key of the same name is another key.
        let second = server.partner("Second").await;
        let theirs = second
            .caller
            .post_once("/v1/bookings", "order-1", &body)
            .await;
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
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        for (path, body) in [
            (
                "/v1/partners/register".to_owned(),
                samples::partner("Twice"),
            ),
            ("/v1/api-keys".to_owned(), json!({"name": "Twice"})),
            (
                "/v1/webhook-endpoints".to_owned(),
                json!({"url": "http://127.0.0.1:9/"}),
            ),
            (format!("/v1/bookings/{booking}/protect"), json!({})),
        ] {
            let key = format!("key of {path}").replace(' ', "-");
            let refused = acme
                .caller
                .post_once(&path, &key, &json!({"surprise": 1}))
                .await;
            assert_eq!(refused.status, 400, "{path}");
            let first = acme.caller.post_once(&path, &key, &body).await;
            assert!(first.status < 300, "{path}: {}", first.text());
            let again = acme.caller.post_once(&path, &key, &body).await;
            assert_eq!(
                (again.status, &again.body),
                (first.status, &first.body),
                "{path}"
            );
            assert_eq!(again.header("idempotent-replayed"), Some("true"));
            let reused = acme
                .caller
                .post_once("/v1/bookings", &key, &samples::booking())
                .await;
            // Registration is anybody's: its keys are kept by address.
            let expected = if path.ends_with("register") { 201 } else { 422 };
            assert_eq!(reused.status, expected, "{path}: {}", reused.text());
        }
        let keys = acme.caller.get("/v1/api-keys").await.ok(200);
        assert_eq!(keys["data"].as_array().unwrap().len(), 2);
    })
    .await;
}
