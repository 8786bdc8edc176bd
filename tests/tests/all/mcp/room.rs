//! The limits on what may be sent: large messages, slow messages, faulty calls.

use bookguard_core::limits::{BODY_BYTES, FAULTS, PACKET_BYTES};
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::raw::{Raw, exchange};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

use crate::mcp::client::{post, request};
use crate::mcp::story::{local, remote};

fn call(name: &str, arguments: &Value) -> String {
    request(
        1,
        "tools/call",
        json!({"name": name, "arguments": arguments}),
    )
    .to_string()
}

/// Returns the head of a message from this partner.
fn head(partner: &Partner, framing: &str) -> String {
    let key = &partner.key;
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n{framing}\r\n\r\n"
    )
}

fn chunked(partner: &Partner, message: &str) -> String {
    let head = head(partner, "transfer-encoding: chunked");
    format!("{head}{:x}\r\n{message}\r\n0\r\n\r\n", message.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_bounded_and_the_larger_ones_need_a_key() {
    with_partner_on_every_engine(async |server, acme| {
        let stranger = server.caller();
        let verify = |size: usize| {
            let packet = json!({"packet": {"filler": "x".repeat(size)}});
            request(
                1,
                "tools/call",
                json!({"name": "verify_evidence", "arguments": packet}),
            )
            .to_string()
        };
        let verified = post(&acme.caller, verify(PACKET_BYTES - 100)).await.ok(200);
        assert_eq!(verified["result"]["structuredContent"]["verified"], false);
        let status = async |caller, message| post(caller, message).await.status;
        assert_eq!(
            status(&acme.caller, verify(PACKET_BYTES + BODY_BYTES)).await,
            413
        );
        let small = request(1, "ping", json!({"x": "x".repeat(8000)})).to_string();
        assert_eq!(status(&stranger, small.clone()).await, 200);
        let larger = post(&stranger, small.replace("xx", "xxx")).await;
        larger.refused(413, "body_too_large");
        assert!(larger.string("message").contains("x-api-key"));
        // Only a packet that is to be verified may be large.
        let padded = request(1, "ping", json!({"x": "x".repeat(BODY_BYTES)})).to_string();
        assert_eq!(status(&acme.caller, padded).await, 413);
        let booking =
            json!({"name": "create_booking", "arguments": {"eventType": "x".repeat(BODY_BYTES)}});
        let answer = post(&acme.caller, request(1, "tools/call", booking).to_string())
            .await
            .ok(200);
        assert!(answer.to_string().contains("body_too_large"), "{answer}");
        let plain = acme
            .request("POST", "/mcp")
            .header("content-type", "text/plain");
        assert_eq!(acme.send(plain.body("{}")).await.status, 415);
        for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
            let refused = acme.send(acme.request(method, "/mcp")).await;
            assert_eq!(
                (refused.status, refused.header("allow")),
                (405, Some("POST")),
                "{method}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_messages_have_few_places_and_a_partner_has_a_share_of_them() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let verify = call(
            "verify_evidence",
            &json!({"packet": {"filler": "x".repeat(BODY_BYTES)}}),
        );
        let mut arriving = Vec::new();
        for _ in 0..2 {
            let mut raw = Raw::connect(server.running().addr()).await;
            raw.send(head(
                &acme,
                "content-length: 4000000\r\nexpect: 100-continue",
            ))
            .await;
            // Once the body is asked for, the message has its slot, and with this much sent there is time for the rest.
            assert_eq!(raw.reply(true).await.status, 100);
            raw.send(" ".repeat(3_999_999)).await;
            arriving.push(raw);
        }
        let refused = post(&acme.caller, verify.clone()).await;
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (503, Some("1"))
        );
        let refused = exchange(server.running().addr(), chunked(&acme, &verify)).await;
        assert_eq!(refused.status, 503);
        // Small messages never wait, however they are sent, and other partners are not kept out.
        let list = call("list_bookings", &json!({}));
        post(&acme.caller, list.clone()).await.ok(200);
        let small = exchange(server.running().addr(), chunked(&acme, &list)).await;
        assert_eq!(small.status, 200);
        post(&other.caller, verify.clone()).await.ok(200);
        let large = exchange(server.running().addr(), chunked(&other, &verify)).await;
        assert_eq!(large.status, 200);
        drop(arriving);
        until("a place to be free again", async || {
            let reply = post(&acme.caller, verify.clone()).await;
            (reply.status == 200).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_do_not_arrive_keep_no_place_from_anybody() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let mut stalled = Vec::new();
        let mut partners = Vec::new();
        for n in 0..5 {
            partners.push(server.partner(&n.to_string()).await);
        }
        for partner in &partners[..4] {
            for framing in ["content-length: 1000000", "transfer-encoding: chunked"] {
                let mut raw = Raw::connect(server.running().addr()).await;
                raw.send(head(partner, &format!("{framing}\r\nexpect: 100-continue")))
                    .await;
                assert_eq!(raw.reply(true).await.status, 100);
                let part = match framing.starts_with("content") {
                    true => "0123456789".to_owned(),
                    // More than other requests may have; otherwise it would not be a large message.
                    false => format!("{:x}\r\n{}", 1_000_000, " ".repeat(BODY_BYTES + 10)),
                };
                raw.send(part).await;
                stalled.push(raw);
            }
        }
        // All of them are in progress, and a fifth partner's is still answered.
        let verify = call(
            "verify_evidence",
            &json!({"packet": {"filler": "x".repeat(BODY_BYTES)}}),
        );
        post(&partners[4].caller, verify).await.ok(200);
        for mut raw in stalled {
            let late = raw.reply(false).await;
            let text = String::from_utf8_lossy(&late.body).into_owned();
            assert_eq!((late.status, text.contains("body_too_slow")), (408, true));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_hold_neither_places_nor_turns() {
    with_partner_on_every_engine(async |server, acme| {
        let wait = call("list_webhook_events", &json!({"wait": 30}));
        let mut waiting = Vec::new();
        for message in [wait.clone(), format!("{wait}{}", " ".repeat(BODY_BYTES))] {
            for _ in 0..3 {
                let mut raw = Raw::connect(server.running().addr()).await;
                raw.send(chunked(&acme, &message)).await;
                waiting.push(raw);
            }
        }
        let verify = call(
            "verify_evidence",
            &json!({"packet": {"filler": "x".repeat(BODY_BYTES)}}),
        );
        // Answered before the stalled messages time out; otherwise `until` gives up.
        for message in [call("list_bookings", &json!({})), verify] {
            until("an answer beside those that wait", async || {
                let reply = exchange(server.running().addr(), chunked(&acme, &message)).await;
                (reply.status == 200).then_some(())
            })
            .await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_argument_faults_are_listed_and_only_packets_may_be_large() {
    with_partner_on_every_engine(async |_server, acme| {
        let members = (0..4000).map(|n| (format!("m{n}"), json!([])));
        let many = call("get_booking", &Value::Object(members.collect()));
        let answer = post(&acme.caller, many).await.ok(200);
        let text = answer["result"]["content"][0].text("text");
        let refusal: Value = serde_json::from_str(text).unwrap();
        assert_eq!(refusal.list("details").len(), FAULTS);
        let large = "x".repeat(BODY_BYTES);
        for (tool, arguments) in [
            ("get_booking", json!({"bookingId": large})),
            ("list_bookings", json!({"other": large})),
            ("cancel_booking", json!({"bookingId": "x", "note": large})),
        ] {
            let answer = post(&acme.caller, call(tool, &arguments)).await.ok(200);
            let text = answer["result"]["content"][0].text("text");
            let refusal: Value = serde_json::from_str(text).unwrap();
            assert_eq!(refusal["code"], "body_too_large", "{tool}");
        }
        let bad_limit = post(&acme.caller, call("list_bookings", &json!({"limit": 0}))).await;
        bad_limit.says(&[r#"\"pointer\":\"/limit\""#]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_comes_to_no_operation_counts_and_a_good_one_counts_once() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            rate_limit_per_second: 1,
            rate_limit_burst: 4,
            ..config
        })
        .await;
        // The clock does not move, so the allowance does not recover.
        for (what, message) in [
            ("good", call("list_bookings", &json!({}))),
            ("missing", call("get_booking", &json!({}))),
            ("unknown tool", call("no_such_tool", &json!({}))),
            (
                "too large",
                call("get_booking", &json!({"bookingId": "x".repeat(BODY_BYTES)})),
            ),
            (
                "no resource",
                request(1, "resources/read", json!({"uri": "x:y"})).to_string(),
            ),
        ] {
            let acme = server.partner("Acme").await;
            for n in 0..6 {
                let reply = post(&acme.caller, message.clone()).await;
                let told = reply.text().contains("rate_limited");
                assert_eq!(told, n >= 4, "{what} {n}: {}", reply.text());
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_do_not_make_a_bridge_deaf() {
    with_partner_on_every_engine(async |server, acme| {
        for line in [remote(&server, &acme), local(&server, &acme)] {
            let mut bridge = line.talk();
            for _ in 0..20 {
                bridge
                    .tell(call("list_webhook_events", &json!({"wait": 2})))
                    .await;
            }
            bridge.tell(request(9, "ping", json!({})).to_string()).await;
            // Twelve are refused at once; the ping is answered before the eight that wait.
            let mut refused = 0;
            for _ in 0..13 {
                let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
                match answer["id"] == 9 {
                    true => assert_eq!(answer["result"], json!({})),
                    false => {
                        let why = answer["error"]["message"].as_str().expect("a refusal");
                        assert!(why.contains("already waiting"), "{answer}");
                        refused += 1;
                    }
                }
            }
            assert_eq!(refused, 12);
            for _ in 0..8 {
                let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
                assert!(answer["result"].is_object(), "{answer}");
            }
            let ended = bridge.end().await;
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_ends_once_it_is_canceled() {
    with_partner_on_every_engine(async |server, acme| {
        for line in [remote(&server, &acme), local(&server, &acme)] {
            let mut bridge = line.talk();
            let waiting = |seconds: u8| json!({"name": "list_webhook_events", "arguments": {"after": "latest", "wait": seconds}});
            let canceled = |id: Value| {
                let params = json!({"requestId": id, "reason": "enough"});
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            };
            for id in 1..=8 {
                let call = request(id, "tools/call", waiting(30));
                bridge.tell(call.to_string()).await;
            }
            // Another request's, and one that nobody made.
            for id in [json!(9), json!("1")] {
                bridge.tell(canceled(id).to_string()).await;
            }
            for id in 1..=8 {
                bridge.tell(canceled(json!(id)).to_string()).await;
            }
            // Their places are free, and none of them is answered.
            for id in 11..=18 {
                let call = request(id, "tools/call", waiting(1));
                bridge.tell(call.to_string()).await;
            }
            for _ in 11..=18 {
                let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
                assert!(answer["id"].as_u64() > Some(10), "{answer}");
                assert!(answer["result"].is_object(), "{answer}");
            }
            // A write is not canceled.
            let booking = samples::booking();
            let create = json!({"name": "create_booking", "arguments": booking});
            let create = request(20, "tools/call", create).to_string();
            bridge.tell(create).await;
            bridge.tell(canceled(json!(20)).to_string()).await;
            let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
            answer.holds(json!({"id": 20}));
            assert!(answer["result"]["structuredContent"]["bookingId"].is_string());
            let ended = bridge.end().await;
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_with_a_key_counts_once_whether_or_not_it_is_a_call() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            rate_limit_per_second: 1,
            rate_limit_burst: 3,
            ..config
        });
        let server = server.await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let list = request(1, "tools/list", json!({})).to_string();
        let resources = request(1, "resources/list", json!({})).to_string();
        let faulty = "{".to_owned();
        for (message, answered) in [
            (list.clone(), 200),
            (resources, 200),
            (call("list_bookings", &json!({})), 200),
            (faulty, 400),
        ] {
            server.advance(60_000);
            for _ in 0..3 {
                assert_eq!(post(&acme.caller, message.clone()).await.status, answered);
            }
            let over = post(&acme.caller, list.clone()).await;
            assert_eq!(
                (over.status, over.header("retry-after")),
                (429, Some("1")),
                "{message}"
            );
            // Requests and messages are counted together.
            assert_eq!(acme.get("/v1/bookings").await.status, 429, "{message}");
        }
        server.advance(60_000);
        for _ in 0..3 {
            acme.get("/v1/bookings").await.ok(200);
        }
        assert_eq!(post(&acme.caller, list.clone()).await.status, 429);
        // Other partners are not refused for it, nor is a caller without a key.
        assert_eq!(post(&other.caller, list.clone()).await.status, 200);
        assert_eq!(post(&server.caller(), list).await.status, 200);
    })
    .await;
}
