//! What no proper client would send: over HTTP, and to the bridge.

use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::program::Serving;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::{BOUND, until};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::mcp::client::{post, request};
use crate::mcp::story::{local, remote};

/// Messages, and the id and code of the error each is answered with.
fn hostile() -> Vec<(String, Value, i64)> {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"get_booking","arguments":{arguments}}}}}"#
        )
    };
    vec![
        ("nonsense".to_owned(), Value::Null, -32700),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"ping""#.to_owned(),
            Value::Null,
            -32700,
        ),
        (
            r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#.to_owned(),
            Value::Null,
            -32600,
        ),
        ("[]".to_owned(), Value::Null, -32600),
        (r#"{"id":7,"method":"ping"}"#.to_owned(), json!(7), -32600),
        (
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":{deep}}}}}"#),
            json!(7),
            -32600,
        ),
        (
            request(7, "no/such/method", json!({})).to_string(),
            json!(7),
            -32601,
        ),
        (
            request(7, "prompts/get", json!({"name": "x"})).to_string(),
            json!(7),
            -32601,
        ),
        (
            request(7, "prompts/list", json!({})).to_string(),
            json!(7),
            -32601,
        ),
        (
            request(
                7,
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
            )
            .to_string(),
            json!(7),
            -32601,
        ),
        (
            request(7, "initialize", json!({"protocolVersion": 7})).to_string(),
            json!(7),
            -32602,
        ),
        (
            request(7, "resources/read", json!({"uri": {}})).to_string(),
            json!(7),
            -32602,
        ),
        (
            request(7, "tools/call", json!({})).to_string(),
            json!(7),
            -32602,
        ),
        (
            request(7, "tools/call", json!({"name": "no_such_tool"})).to_string(),
            json!(7),
            -32602,
        ),
        (call("[]"), json!(7), -32602),
        (call("7"), json!(7), -32602),
    ]
}

/// Calls that are refused by what they ask, not by how.
fn refused() -> Vec<(String, &'static str)> {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let call = |name: &str, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
        )
    };
    vec![
        (call("get_booking", "{}"), "missing_field"),
        (call("get_booking", r#"{"bookingId":null}"#), "null"),
        (
            call("get_booking", &format!(r#"{{"bookingId":{deep}}}"#)),
            "wrong_type",
        ),
        (
            call("get_booking", r#"{"bookingId":"../../partners/me"}"#),
            "not_found",
        ),
        (
            call("create_booking", &format!(r#"{{"talent":{deep}}}"#)),
            "invalid_request",
        ),
        (
            call("verify_evidence", &format!(r#"{{"packet":{deep}}}"#)),
            "wrong_type",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_messages_are_answered_with_an_error_of_the_protocol() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let mut remote = remote(&server, &acme).talk();
        let mut local = local(&server, &acme).talk();
        for (message, id, code) in hostile() {
            let shown = &message[..message.len().min(200)];
            let over_http = post(&acme.caller, message.clone()).await;
            let answer = over_http.json();
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&id, &json!(code)),
                "{shown}"
            );
            for bridge in [&mut remote, &mut local] {
                bridge.tell("").await;
                bridge.tell(&message).await;
                let line = bridge.line().await.unwrap();
                assert_eq!(line, over_http.text(), "{shown}");
            }
        }
        for (message, code) in refused() {
            let shown = &message[..message.len().min(200)];
            let over_http = post(&acme.caller, message.clone()).await;
            let result = &over_http.ok(200)["result"];
            assert_eq!(result["isError"], true, "{shown}");
            let body: Value =
                serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(body["code"], code, "{shown}: {body}");
            for bridge in [&mut remote, &mut local] {
                bridge.tell(&message).await;
                assert_eq!(bridge.line().await.unwrap(), over_http.text(), "{shown}");
            }
        }
        for mut bridge in [remote, local] {
            bridge.tell(b"\xff\xfe\x00").await;
            let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
            assert_eq!(answer["error"]["code"], -32700);
            bridge.tell(vec![b'x'; 9 * 1024 * 1024]).await;
            let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
            assert_eq!(answer["error"]["code"], -32600);
            // A notification has no answer, however wrong it is, nor has an answer; what comes next does.
            for silent in [
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
                r#"{"jsonrpc":"2.0","method":"x","params":5}"#,
                r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            ] {
                bridge.tell(silent).await;
            }
            bridge.tell(request(8, "ping", json!({})).to_string()).await;
            let answer: Value = serde_json::from_str(&bridge.line().await.unwrap()).unwrap();
            assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 8, "result": {}}));
            let ended = bridge.end().await;
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
        }
        // Over HTTP each request is answered by itself: an answer's id is not taken for that of a request.
        let answer = post(&acme.caller, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#).await;
        assert_eq!((answer.status, &answer.json()["id"]), (400, &Value::Null));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_ours_is_logged_under_the_request_s_id_and_told_to_nobody() {
    let database = TestDatabase::new(Engine::Sqlite);
    let serving = Serving::start(&database, &[]).await;
    let acme = Partner::register(&serving.caller(), "Acme").await;
    acme.book().await;
    let broken = Connection::open(database.file()).unwrap();
    broken.execute("UPDATE event SET body = x'7b'", ()).unwrap();
    let params = json!({"name": "list_webhook_events"});
    let reply = post(&acme.caller, request(1, "tools/call", params).to_string()).await;
    let result = reply.ok(200)["result"].clone();
    assert_eq!(result["isError"], true);
    let told = result["content"][0]["text"].as_str().unwrap();
    assert!(
        told.contains(r#""code":"internal""#) && !told.contains("evt_"),
        "{told}"
    );
    let id = reply.header("x-request-id").unwrap();
    until("the log to name the request", async || {
        serving.stderr().contains(id).then_some(())
    })
    .await;
    serving.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_holds_up_no_server_that_stops() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let params = json!({"name": "list_webhook_events", "arguments": {"wait": 30}});
        let call = request(1, "tools/call", params).to_string();
        let ask = acme
            .caller
            .request("POST", "/mcp")
            .header("content-type", "application/json");
        let waiting = tokio::spawn({
            let caller = acme.caller.clone();
            async move { caller.try_send(ask.body(call)).await }
        });
        // Whether it came before or after, both end.
        let stopped = timeout(BOUND, server.close()).await;
        assert!(stopped.is_ok(), "the server did not stop");
        drop(timeout(BOUND, waiting).await.unwrap().unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_revision_that_is_announced_is_spoken() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let stranger = server.caller();
        let hello = |revision: &str| {
            let client = json!({"name": "test", "version": "1"});
            let params =
                json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
            request(1, "initialize", params).to_string()
        };
        for (asked, agreed) in [
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2024-11-05", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ] {
            let answer = post(&stranger, hello(asked)).await.ok(200);
            assert_eq!(answer["result"]["protocolVersion"], agreed, "{asked}");
        }
        // The latest has no handshake: each request says all of it, in its headers too.
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let ask = async |header: &str| {
            let message = request(1, "server/discover", json!({"_meta": meta}));
            let ask = stranger
                .request("POST", "/mcp")
                .header("mcp-protocol-version", header);
            let ask = ask
                .header("content-type", "application/json")
                .header("mcp-method", "server/discover");
            stranger.send(ask.body(message.to_string())).await
        };
        let found = ask("2026-07-28").await.ok(200)["result"]["supportedVersions"].clone();
        assert_eq!(found, json!(bookguard_server::mcp::PROTOCOL_VERSIONS));
        assert_eq!(ask("2025-11-25").await.status, 400);
        for (header, status) in [
            ("2025-06-18", 200),
            ("2025-11-25", 200),
            ("2025-03-26", 400),
            ("2024-11-05", 400),
            ("9999-01-01", 400),
        ] {
            let ask = stranger
                .request("POST", "/mcp")
                .header("mcp-protocol-version", header);
            let ask = ask.header("content-type", "application/json");
            let reply = stranger
                .send(ask.body(request(7, "tools/list", json!({})).to_string()))
                .await;
            assert_eq!(reply.status, status, "{header}");
            let answer = reply.json();
            assert_eq!(
                (&answer["id"], answer["error"].is_object()),
                (&json!(7), status == 400)
            );
        }
        // The server card says the same, to who has not connected yet.
        let card = stranger.get("/mcp/server-card").await.ok(200);
        assert_eq!(card["remotes"][0]["supportedProtocolVersions"], found);
        assert_eq!(
            card["remotes"][0]["url"],
            format!("{}/mcp", server.running().url())
        );
        let server =
            post(&stranger, hello("2025-11-25")).await.ok(200)["result"]["serverInfo"].clone();
        for name in ["title", "version"] {
            assert_eq!(card[name], server[name], "{name}");
        }
        let named = card["name"].as_str().unwrap().split_once('/').unwrap().1;
        assert_eq!(server["name"], named);
    })
    .await;
}
