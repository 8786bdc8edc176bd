//! Keys, scopes, other partners, other sites.

use bookguard_core::limits::SHARE_REQUESTS_PER_MINUTE;
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::Answer;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use serde_json::{Map, Value, json};

use crate::mcp::client::{Client, post, request};
use crate::mcp::story::{local, on_every_way, remote};

const UNAUTHORIZED: &str = r#"{"error":"Unauthorized","message":"Missing or invalid x-api-key"}"#;

/// Returns arguments for a tool: those it requires, and every id it takes.
fn arguments(tool: &Value, ids: &Map<String, Value>) -> Value {
    let mut arguments = match tool.text("name") {
        "add_evidence_item" => samples::item(),
        "create_booking" => samples::booking(),
        "cancel_booking" => samples::cancellation(),
        "export_dispute" => json!({"for": "stripe", "reason": "general"}),
        _ => json!({}),
    };
    for (name, id) in ids {
        if tool["inputSchema"]["properties"][name].is_object() {
            arguments[name] = id.clone();
        }
    }
    arguments
}

fn ids(booking: &str, event: &Value) -> Map<String, Value> {
    [
        ("bookingId".to_owned(), booking.into()),
        ("eventId".to_owned(), event.clone()),
    ]
    .into_iter()
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_another_partner_s_is_unknown_to_every_tool() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (owner, other) = (server.partner("Owner").await, server.partner("Other").await);
        let (_receiver, _) = owner.receiving(Answer::Status(200)).await;
        let booking = owner.book().await;
        let event = owner.events(&booking).await[0]["eventId"].clone();
        let theirs = ids(&booking, &event);
        let nobodys = ids(
            "bkg_0199aaaa00007000800000000000aaaa",
            &"evt_0199aaaa00007000800000000000aaaa".into(),
        );
        on_every_way(&server, &other, async |client, way| {
            let mut walked = 0;
            for tool in client.tools.clone() {
                let name = tool.text("name");
                let asked = arguments(&tool, &theirs);
                if asked == arguments(&tool, &nobodys) {
                    continue;
                }
                walked += 1;
                let foreign = client.call_anyhow(name, asked).await;
                let unknown = client.call_anyhow(name, arguments(&tool, &nobodys)).await;
                assert!(foreign.refused, "{way} {name}: {}", foreign.text);
                assert_eq!(foreign.text, unknown.text, "{way} {name}");
                // An unknown id in a filter is a fault of the request, not a missing object.
                let error = match name {
                    "list_webhook_events" => "Bad Request",
                    _ => "Not Found",
                };
                assert_eq!(foreign.refusal()["error"], error, "{way} {name}");
            }
            assert_eq!(
                walked, 11,
                "every tool but create_booking and list_bookings takes an id"
            );
            let read = client
                .read(&format!("bookguard://bookings/{booking}/evidence"))
                .await;
            let unknown = client.read("bookguard://bookings/bkg_x/evidence").await;
            let elsewhere = client.read("bookguard://elsewhere").await;
            assert_eq!((&read, &read), (&unknown, &elsewhere));
            assert_eq!(read.unwrap_err()["code"], -32002);
            let list = client.call("list_bookings", json!({})).await.ok();
            assert_eq!(list["data"], json!([]));
            let listed = client.ask("resources/list", json!({})).await;
            assert_eq!(listed["result"]["resources"], json!([]), "{way}");
            let log = client.call("list_webhook_events", json!({})).await.ok();
            assert_eq!(log["data"], json!([]));
        })
        .await;
        assert_eq!(
            owner.events(&booking).await.len(),
            1,
            "nothing happened to it"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_is_the_partner_s_own_on_every_way() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let mut arguments = samples::booking();
        arguments["idempotencyKey"] = "the-one".into();
        on_every_way(&server, &acme, async |client, way| {
            let booking = client.call("create_booking", arguments.clone()).await.ok();
            let this = json!({"bookingId": booking["bookingId"]});
            let mut theirs = match way {
                "http" => Client::over_http(&other.caller).await,
                "remote" => Client::over_bridge(remote(&server, &other)).await,
                _ => Client::over_bridge(local(&server, &other)).await,
            };
            let another = theirs.call("create_booking", arguments.clone()).await.ok();
            assert_ne!(booking, another, "{way}");
            let that = json!({"bookingId": another["bookingId"]});
            client.call("get_booking", this).await.ok();
            theirs.call("get_booking", that).await.ok();
            theirs.end().await;
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_may_only_read_is_refused_by_every_tool_that_writes() {
    with_partner_on_every_engine(async |_server, acme| {
        let booking = acme.book().await;
        let event = acme.events(&booking).await[0]["eventId"].clone();
        let reading = ["bookings:read", "evidence:read", "webhooks:read"];
        let reader = acme.scoped(&reading).await;
        let mut client = Client::over_http(&reader).await;
        for tool in client.tools.clone() {
            let name = tool.text("name");
            let called = client
                .call(name, arguments(&tool, &ids(&booking, &event)))
                .await;
            match tool["annotations"]["readOnlyHint"] == true {
                true => drop(called.ok()),
                false => assert_eq!(called.code(), "insufficient_scope", "{name}"),
            }
        }
        let refused = reader.post("/v1/bookings", &samples::booking()).await;
        let called = client.call("create_booking", samples::booking()).await;
        assert_eq!(called.text, refused.text());
        // Reading a resource needs the scope of its tool; verifying a packet that the caller sends needs none.
        let mut writer = Client::over_http(&acme.scoped(&["bookings:write"]).await).await;
        let refused = writer
            .read(&format!("bookguard://bookings/{booking}/evidence"))
            .await;
        assert_eq!(refused.unwrap_err()["data"]["code"], "insufficient_scope");
        let verify = json!({"bookingId": booking});
        assert_eq!(
            writer.call("verify_evidence", verify).await.code(),
            "insufficient_scope"
        );
        let listed = writer.ask("resources/list", json!({})).await;
        assert_eq!(listed["error"]["data"]["code"], "insufficient_scope");
        let done = writer.call("verify_evidence", json!({"packet": {}})).await;
        done.ok();
        let events = acme.events(&booking).await;
        assert_eq!(events.len(), 1, "nothing was written");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_tools_are_listed_and_a_wrong_key_is_refused() {
    with_partner_on_every_engine(async |server, acme| {
        let stranger = server.caller();
        let revoked = acme.new_key(&json!({"name": "r"})).await;
        let gone = stranger.with_key(revoked.text("apiKey"));
        let path = format!("/v1/api-keys/{}", revoked.text("apiKeyId"));
        Client::over_http(&gone).await;
        acme.delete(&path).await.ok(200);
        let wrong = stranger.with_key("bgk_wrong");
        for (method, params, open) in [
            ("ping", json!({}), true),
            ("tools/list", json!({}), true),
            ("resources/list", json!({}), true),
            ("resources/templates/list", json!({}), true),
            ("tools/call", json!({"name": "list_bookings"}), false),
            ("tools/call", json!({"name": "no_such_tool"}), false),
            (
                "resources/read",
                json!({"uri": "bookguard://bookings/x/evidence"}),
                false,
            ),
        ] {
            let message = request(1, method, params).to_string();
            let looked = post(&stranger, message.clone()).await;
            match open {
                true => assert!(looked.ok(200)["result"].is_object(), "{method}"),
                false => assert_eq!((looked.status, looked.text().as_str()), (401, UNAUTHORIZED)),
            }
            for caller in [&wrong, &gone] {
                let refused = post(caller, message.clone()).await;
                assert_eq!(
                    (refused.status, refused.text().as_str()),
                    (401, UNAUTHORIZED),
                    "{method}"
                );
                assert_eq!(refused.header("www-authenticate"), Some("ApiKey"));
            }
        }
        // A network may ask so often without a key; the clock stands still meanwhile.
        let ping = request(1, "ping", json!({})).to_string();
        let mut asked = 0;
        let refused = loop {
            let reply = post(&stranger, ping.clone()).await;
            if reply.status != 200 {
                break reply;
            }
            asked += 1;
            assert!(asked <= SHARE_REQUESTS_PER_MINUTE);
        };
        refused.refused(429, "rate_limited");
        post(&acme.caller, ping.clone()).await.ok(200);
        server.advance(60_000);
        post(&stranger, ping).await.ok(200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bridge_without_a_key_lists_and_says_what_it_lacks() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let url = server.running().url();
        let line = bookguard_tests::program::bookguard("mcp").env("BOOKGUARD_URL", &url);
        let mut client = Client::over_bridge(line).await;
        let refused = client
            .ask("tools/call", json!({"name": "list_bookings"}))
            .await;
        assert_eq!(refused["error"]["message"], "Missing or invalid x-api-key");
        client.end().await;
        let lost = server.running().url();
        server.close().await;
        let line = bookguard_tests::program::bookguard("mcp").env("BOOKGUARD_URL", lost);
        let mut bridge = line.talk();
        bridge.tell(request(1, "ping", json!({})).to_string()).await;
        let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
        let why = answer["error"].text("message");
        assert!(
            answer["id"] == 1 && why.contains("cannot be reached"),
            "{answer}"
        );
        assert_eq!(bridge.end().await.code, Some(0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_do_not_reach_it() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            public_url: Some("https://bookings.example.com".to_owned()),
            ..config
        })
        .await;
        let acme: Partner = server.partner("Acme").await;
        for (header, value, code) in [
            ("host", "bookings.example.com", ""),
            ("host", "evil.example.com", "host_not_allowed"),
            ("origin", "https://bookings.example.com", ""),
            ("origin", "https://evil.example.com", "origin_not_allowed"),
            ("origin", "null", "origin_not_allowed"),
        ] {
            let ask = acme.request("POST", "/mcp").header(header, value);
            let ask = ask.header("content-type", "application/json");
            let reply = acme
                .send(ask.body(request(1, "ping", json!({})).to_string()))
                .await;
            match code {
                "" => drop(reply.ok(200)),
                code => {
                    reply.refused(403, code);
                    assert!(reply.string("message").contains("--public-url"));
                }
            }
        }
    })
    .await;
}
