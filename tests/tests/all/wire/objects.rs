//! Bodies that are not JSON objects, and bodies that are not bookings.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

use crate::wire::bodies::assert_helpful;

#[tokio::test]
async fn every_operation_with_a_body_refuses_anything_but_a_json_object() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let before = acme.caller.get("/v1/ledger/checkpoint").await.text();
        let deep_arrays = format!("{{\"talent\":{}", "[".repeat(60_000));
        let deep_objects = "{\"a\":".repeat(12_000);
        let closed = format!(
            "{{\"metadata\":{}1{}}}",
            "[".repeat(30_000),
            "]".repeat(30_000)
        );
        let bodies: Vec<(&[u8], &str)> = vec![
            (b"{", "invalid_json"),
            (b"{\"name\":}", "invalid_json"),
            (b"{'name':1}", "invalid_json"),
            (b"{\"name\":\"x\",}", "invalid_json"),
            (b"{} {}", "invalid_json"),
            (b"{}x", "invalid_json"),
            (b"// a comment\n{}", "invalid_json"),
            (b"\xef\xbb\xbf{}", "invalid_json"),
            (b"{\"name\":\"\xff\"}", "invalid_json"),
            (b"{\"name\":\"\xed\xa0\xbc\"}", "invalid_json"),
            (b"{\"name\":\"a\x00b\"}", "invalid_json"),
            (b"{\"name\":\"a\nb\"}", "invalid_json"),
            (b"{\"name\":\"\\x\"}", "invalid_json"),
            (b"{\"name\":\"\\u12\"}", "invalid_json"),
            (b"{\x00}", "invalid_json"),
            (b"\xff\xfe{\x00}\x00", "invalid_json"),
            (b"{\"bookingValue\":NaN}", "invalid_json"),
            (b"{\"bookingValue\":Infinity}", "invalid_json"),
            (b"{\"bookingValue\":01}", "invalid_json"),
            (b"{\"bookingValue\":1.}", "invalid_json"),
            (b"{\"bookingValue\":.5}", "invalid_json"),
            (b"{\"bookingValue\":+1}", "invalid_json"),
            (b"{\"bookingValue\":0x10}", "invalid_json"),
            (b"{\"bookingValue\":1_000}", "invalid_json"),
            (deep_arrays.as_bytes(), "invalid_json"),
            (deep_objects.as_bytes(), "invalid_json"),
            (b"[]", "wrong_type"),
            (b"[{}]", "wrong_type"),
            (b"null", "wrong_type"),
            (b"true", "wrong_type"),
            (b"1e400", "wrong_type"),
            (b"\"{}\"", "wrong_type"),
        ];
        for (method, path) in [
            ("POST", "/v1/partners/register"),
            ("PATCH", "/v1/partners/me"),
            ("PUT", "/v1/policies/house"),
            ("POST", "/v1/api-keys"),
            ("POST", "/v1/bookings"),
            ("POST", "/v1/webhook-endpoints"),
            ("POST", "/v1/webhook-events/recover"),
        ] {
            let send = |body: Vec<u8>| acme.caller.send_json(method, path, body);
            for (body, code) in &bodies {
                let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
                let reply = send(body.to_vec()).await;
                assert_eq!(reply.status, 400, "{path}: {shown}: {}", reply.text());
                assert_eq!(reply.code(), *code, "{path}: {shown}: {}", reply.text());
            }
            // A bomb that is JSON after all is read without being built.
            let reply = send(closed.clone().into_bytes()).await;
            assert_eq!(reply.status, 400, "{path}: {}", reply.text());
            for blank in ["", " ", "\r\n\t "] {
                let reply = send(blank.into()).await;
                if path == "/v1/api-keys" {
                    reply.ok(201);
                } else {
                    assert_eq!(
                        (reply.status, reply.code().as_str()),
                        (400, "body_required"),
                        "{path}"
                    );
                }
            }
        }
        // Operations without a body take none, or an empty object.
        let booking = acme.book().await;
        let protect = format!("/v1/bookings/{booking}/protect");
        for body in ["[]", "{\"a\":1}", "null", "x", "{"] {
            let reply = acme.caller.post_text(&protect, body).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "unexpected_body"),
                "{body}"
            );
        }
        let got = acme
            .caller
            .get(&format!("/v1/bookings/{booking}"))
            .await
            .ok(200);
        assert_eq!(got["protected"], false);
        acme.caller.post_text(&protect, "{}").await.ok(200);
        assert_ne!(
            before,
            acme.caller.get("/v1/ledger/checkpoint").await.text()
        );
    })
    .await;
}

#[tokio::test]
async fn wrong_members_of_the_other_bodies_are_named_too() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let register = |name: &str, value: Value| {
            let mut body = samples::partner("Acme");
            body[name] = value;
            ("/v1/partners/register", body)
        };
        let key = |name: &str, value: Value| ("/v1/api-keys", json!({ name: value }));
        let endpoint = |name: &str, value: Value| {
            let mut body = json!({"url": "https://hooks.example.com/"});
            body[name] = value;
            ("/v1/webhook-endpoints", body)
        };
        let recover = |name: &str, value: Value| {
            let mut body = json!({"since": "2020-01-01T00:00:00Z"});
            body[name] = value;
            ("/v1/webhook-events/recover", body)
        };
        for ((path, body), pointer, code) in [
            (
                register("name", json!("x".repeat(201))),
                "/name",
                "too_long",
            ),
            (
                register("name", json!("a\u{0}b")),
                "/name",
                "control_character",
            ),
            (
                register("businessType", json!({})),
                "/businessType",
                "wrong_type",
            ),
            (
                register("contactEmail", json!("nobody")),
                "/contactEmail",
                "invalid_email",
            ),
            (
                register("contactEmail", json!("a b@example.com")),
                "/contactEmail",
                "invalid_email",
            ),
            (
                register("contactEmail", json!("a@b@example.com")),
                "/contactEmail",
                "invalid_email",
            ),
            (
                register("contactEmail", json!("a@example.com\nBcc: b@example.com")),
                "/contactEmail",
                "control_character",
            ),
            (
                register("website", json!("javascript:alert(1)")),
                "/website",
                "invalid_uri",
            ),
            (
                register("website", json!("example.com")),
                "/website",
                "invalid_uri",
            ),
            (register("website", json!(null)), "/website", "null"),
            (
                register("contactemail", json!("x")),
                "/contactemail",
                "unknown_field",
            ),
            (
                register("status", json!("approved")),
                "/status",
                "unknown_field",
            ),
            (key("name", json!(5)), "/name", "wrong_type"),
            (key("scopes", json!("*")), "/scopes", "wrong_type"),
            (key("scopes", json!([])), "/scopes", "empty"),
            (
                key("scopes", json!(["bookings:raed"])),
                "/scopes/0",
                "unknown_scope",
            ),
            (key("scopes", json!(["*", 5])), "/scopes/1", "wrong_type"),
            (key("scopes", json!(vec!["*"; 33])), "/scopes", "too_many"),
            (key("scope", json!(["*"])), "/scope", "unknown_field"),
            (
                endpoint("url", json!("not an address")),
                "/url",
                "invalid_url",
            ),
            (
                endpoint("url", json!("ftp://example.com/")),
                "/url",
                "invalid_url",
            ),
            (
                endpoint("url", json!("https://user:pass@example.com/")),
                "/url",
                "invalid_url",
            ),
            (
                endpoint("url", json!("https://169.254.169.254/latest")),
                "/url",
                "blocked_address",
            ),
            (
                endpoint("url", json!("https://10.0.0.1/")),
                "/url",
                "blocked_address",
            ),
            (
                endpoint("url", json!("https://[::ffff:169.254.169.254]/")),
                "/url",
                "blocked_address",
            ),
            (
                endpoint(
                    "url",
                    json!("https://example.com/".to_owned() + &"x".repeat(2048)),
                ),
                "/url",
                "too_long",
            ),
            (
                endpoint("events", json!(["booking.creatd"])),
                "/events/0",
                "not_allowed",
            ),
            (endpoint("events", json!([])), "/events", "empty"),
            (
                endpoint("events", json!("booking.created")),
                "/events",
                "wrong_type",
            ),
            (
                endpoint("description", json!("x".repeat(2001))),
                "/description",
                "too_long",
            ),
            (endpoint("secret", json!("x")), "/secret", "unknown_field"),
            (
                endpoint("rateLimitPerSecond", json!(0)),
                "/rateLimitPerSecond",
                "out_of_range",
            ),
            (
                endpoint("rateLimitPerSecond", json!(1001)),
                "/rateLimitPerSecond",
                "out_of_range",
            ),
            (
                endpoint("ownSecret", json!("yes")),
                "/ownSecret",
                "wrong_type",
            ),
            (
                recover("since", json!("2 hours ago")),
                "/since",
                "invalid_date",
            ),
            (
                recover("since", json!("2999-01-01T00:00:00Z")),
                "/since",
                "invalid_range",
            ),
            (
                recover("until", json!("2020-01-01T00:00:00Z")),
                "/since",
                "invalid_range",
            ),
            (
                recover("statuses", json!(["delivered"])),
                "/statuses/0",
                "not_allowed",
            ),
            (recover("statuses", json!([])), "/statuses", "empty"),
            (
                recover("endpointId", json!("end_0")),
                "/endpointId",
                "endpoint_unknown",
            ),
            (recover("dryrun", json!(true)), "/dryrun", "unknown_field"),
        ] {
            let reply = acme.caller.post(path, &body).await;
            assert_eq!(reply.status, 400, "{body}: {}", reply.text());
            assert_eq!(
                reply.details(),
                [(pointer.to_owned(), code.to_owned())],
                "{body}"
            );
            assert_helpful(&reply, pointer);
        }
        let wrong = acme
            .caller
            .post("/v1/api-keys", &json!({"scopes": ["bookings:raed"]}))
            .await;
        assert!(
            wrong.text().contains("Did you mean \\\"bookings:read\\\""),
            "{}",
            wrong.text()
        );
    })
    .await;
}
