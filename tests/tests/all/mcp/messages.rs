//! Messages that no proper client sends, over HTTP and to the bridge.

use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::Serving;
use bookguard_tests::test_server::{TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::BOUND;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::mcp::client::{post, request};
use crate::mcp::story::{local, remote};

/// Returns the lines of a table: the expected result and a message. `DEEP` in a message stands for deeply nested JSON.
fn messages(table: &str) -> Vec<(&str, String)> {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let messages = lines.map(|line| line.split_once(" <- ").unwrap());
    messages
        .map(|(expected, message)| (expected, message.replace("DEEP", &deep)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_messages_are_answered_with_an_error_of_the_protocol() {
    with_partner_on_every_engine(async |server, acme| {
        let mut remote = remote(&server, &acme).talk();
        let mut local = local(&server, &acme).talk();
        for (expected, message) in messages(include_str!("hostile.txt")) {
            let (id, code) = expected.split_once(' ').unwrap();
            let [id, code] = [id, code].map(|text| serde_json::from_str::<Value>(text).unwrap());
            let shown = &message[..message.len().min(200)];
            let over_http = post(&acme.caller, message.clone()).await;
            let answer = over_http.json();
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&id, &code),
                "{shown}"
            );
            for bridge in [&mut remote, &mut local] {
                bridge.tell("").await;
                bridge.tell(&message).await;
                let line = bridge.line().await.unwrap();
                assert_eq!(line, over_http.text(), "{shown}");
            }
        }
        for (code, message) in messages(include_str!("refused.txt")) {
            let shown = &message[..message.len().min(200)];
            let over_http = post(&acme.caller, message.clone()).await;
            let result = &over_http.ok(200)["result"];
            assert_eq!(result["isError"], true, "{shown}");
            let body: Value = serde_json::from_str(result["content"][0].text("text")).unwrap();
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
            // Notifications get no answer, however wrong they are, and neither do answers; the next request does.
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
        // Over HTTP each request is answered separately: the id of an answer is not taken for a request's.
        let answer = post(&acme.caller, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#).await;
        assert_eq!((answer.status, &answer.json()["id"]), (400, &Value::Null));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_ours_is_logged_under_the_request_s_id_and_told_to_nobody() {
    let database = TestDatabase::new(Engine::Sqlite);
    let serving = Serving::start(&database, &[]).await;
    let acme = serving.partner("Acme").await;
    acme.book().await;
    let broken = Connection::open(database.file()).unwrap();
    broken.execute("UPDATE event SET body = x'7b'", ()).unwrap();
    let params = json!({"name": "list_webhook_events"});
    let reply = post(&acme.caller, request(1, "tools/call", params).to_string()).await;
    let result = reply.ok(200)["result"].clone();
    assert_eq!(result["isError"], true);
    let told = result["content"][0].text("text");
    assert!(
        told.contains(r#""code":"internal""#) && !told.contains("evt_"),
        "{told}"
    );
    let id = reply.header("x-request-id").unwrap();
    serving.until_said(id).await;
    serving.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_holds_up_no_server_that_stops() {
    with_partner_on_every_engine(async |server, acme| {
        let params = json!({"name": "list_webhook_events", "arguments": {"wait": 30}});
        let call = request(1, "tools/call", params).to_string();
        let ask = acme
            .request("POST", "/mcp")
            .header("content-type", "application/json");
        let waiting = tokio::spawn({
            let caller = acme.caller.clone();
            async move { caller.try_send(ask.body(call)).await }
        });
        // Both end, whichever comes first.
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
        // The latest version has no handshake: each request carries all of it, also in its headers.
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
        // The server card says the same to clients that have not connected yet.
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
        let named = card.text("name").split_once('/').unwrap().1;
        assert_eq!(server["name"], named);
    })
    .await;
}
