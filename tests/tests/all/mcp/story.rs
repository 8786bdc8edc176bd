//! The whole story of a booking in tools: over HTTP, through the bridge to a server, and through the bridge to its database.

use bookguard_core::clock::Clock;
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, bookguard};
use bookguard_tests::receiver::Answer;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::mcp::client::{Client, post, request};

/// Returns the command line of a bridge to the running server, as this partner.
pub fn remote(server: &TestServer, partner: &Partner) -> CommandLine {
    bookguard("mcp")
        .env("BOOKGUARD_URL", server.running().url())
        .env("BOOKGUARD_API_KEY", &partner.key)
}

/// Returns the command line of a bridge to the server's database, for this partner.
pub fn local(server: &TestServer, partner: &Partner) -> CommandLine {
    let line = server.database().command("mcp --dev");
    line.arg("--partner").arg(&partner.id)
}

/// Runs `body` with a client of each transport.
pub async fn on_every_way(
    server: &TestServer,
    partner: &Partner,
    body: impl AsyncFn(&mut Client, &str),
) {
    let mut client = Client::over_http(&partner.caller).await;
    body(&mut client, "http").await;
    for (line, way) in [
        (remote(server, partner), "remote"),
        (local(server, partner), "local"),
    ] {
        let mut client = Client::over_bridge(line).await;
        body(&mut client, way).await;
        client.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_booking_goes_from_the_first_call_to_evidence_that_verifies() {
    with_partner_on_every_engine(async |server, acme| {
        on_every_way(&server, &acme, async |client, way| {
            let mut arguments = samples::booking();
            arguments["idempotencyKey"] = format!("booking-{way}").into();
            let booking = client.call("create_booking", arguments.clone()).await.ok();
            let again = client.call("create_booking", arguments).await.ok();
            assert_eq!(booking, again, "the same key is the same booking");
            let id = booking.text("bookingId");
            protect_and_read(client, id).await;
            cancel_as_shown(client, id).await;
            evidence(&server, client, id).await;
        })
        .await;
        server.close().await;
    })
    .await;
}

async fn protect_and_read(client: &mut Client, id: &str) {
    let receipt = client
        .call("protect_booking", json!({"bookingId": id}))
        .await
        .ok();
    let again = client
        .call("protect_booking", json!({"bookingId": id}))
        .await
        .ok();
    assert_eq!(receipt, again);
    let booking = client.call("get_booking", json!({"bookingId": id})).await;
    let booking = booking.ok();
    booking.holds(json!({"status": "protected", "bookingId": id}));
    let arguments = json!({"status": "protected", "limit": 1});
    let list = client.call("list_bookings", arguments).await.ok();
    assert_eq!(list["data"][0]["bookingId"], id, "the newest");
}

/// A cancellation does what was shown, or nothing.
async fn cancel_as_shown(client: &mut Client, id: &str) {
    let question = json!({"bookingId": id, "canceledBy": "organizer", "reason": "changed_plans", "matrix": true});
    let shown = client.call("evaluate_policy", question).await.ok();
    let expected = json!({
        "refundMinorUnits": shown["refund"]["minorUnits"],
        "penaltyMinorUnits": shown["penalty"]["minorUnits"],
        "compensationMinorUnits": shown["compensation"]["minorUnits"],
        "resolutionPath": shown["resolutionPath"],
        "policyHash": shown["policy"]["policyHash"],
    });
    let mut cancellation = samples::cancellation();
    cancellation["bookingId"] = id.into();
    cancellation["expected"] = expected.clone();
    cancellation["expected"]["refundMinorUnits"] = 1.into();
    let refused = client.call("cancel_booking", cancellation.clone()).await;
    assert_eq!(refused.code(), "quote_changed");
    let fresh = &refused.refusal()["evaluation"];
    assert_eq!(fresh["refund"], shown["refund"]);
    cancellation["expected"] = expected;
    let resolution = client.call("cancel_booking", cancellation.clone()).await;
    let resolution = resolution.ok();
    assert_eq!(resolution["evaluation"]["refund"], shown["refund"]);
    let again = client.call("cancel_booking", cancellation).await.ok();
    assert_eq!(resolution["resolutionId"], again["resolutionId"]);
    assert_eq!(again["evaluation"]["replayed"], true, "canceled once");
    let evaluated = client
        .call("evaluate_policy", json!({"bookingId": id}))
        .await
        .ok();
    assert_eq!(evaluated["evaluationStatus"], "final");
}

async fn evidence(server: &TestServer, client: &mut Client, id: &str) {
    let packet = client.call("get_evidence", json!({"bookingId": id})).await;
    let packet = packet.ok();
    let resource = client
        .read(&format!("bookguard://bookings/{id}/evidence"))
        .await
        .unwrap();
    assert_eq!(resource["mimeType"], "application/json");
    let read: Value = serde_json::from_str(resource.text("text")).unwrap();
    assert_eq!(read.list("entries").len(), packet.list("entries").len());
    let verified = async |client: &mut Client, arguments: Value| {
        let report = client.call("verify_evidence", arguments).await.ok();
        let failed = report.list("checks").iter();
        let failed = failed.filter(|check| check["passed"] == false).count();
        assert_eq!(report["verified"] == true, failed == 0, "{report}");
        report["verified"] == true
    };
    assert!(verified(client, json!({"bookingId": id})).await);
    assert!(verified(client, json!({"packet": packet})).await);
    let key = server.vkey().await;
    assert!(verified(client, json!({"packet": packet, "ledgerKey": key})).await);
    let foreign = "example.com/log+7db0e2a1+AeTFbmWP1l9FsVkfX2mEl5ZzIkRtZyEMJvpFgvO7JFEN";
    assert!(!verified(client, json!({"packet": packet, "ledgerKey": foreign})).await);
    for (pointer, value) in [
        ("/booking/bookingValue", json!(1)),
        ("/booking/talent/name", json!("Somebody Else")),
        ("/resolution/evaluation/refund/minorUnits", json!(1)),
        ("/summary", json!({})),
    ] {
        let mut tampered = packet.clone();
        *tampered.pointer_mut(pointer).unwrap() = value;
        assert!(
            !verified(client, json!({"packet": tampered})).await,
            "{pointer}"
        );
    }
    assert!(!verified(client, json!({"packet": {}})).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tool_answers_is_the_operation_s_own_answer_to_the_byte() {
    #[derive(serde::Deserialize)]
    struct Answer {
        result: CallResult,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CallResult {
        content: Vec<Value>,
        structured_content: Box<RawValue>,
        is_error: bool,
    }

    with_partner_on_every_engine(async |server, acme| {
        let id = acme.book().await;
        let read = acme.get(&format!("/v1/bookings/{id}")).await.text();
        let params = json!({"name": "get_booking", "arguments": {"bookingId": id}});
        let answer = post(&acme.caller, request(1, "tools/call", params).to_string());
        let answer: Answer = serde_json::from_str(&answer.await.text()).unwrap();
        let result = answer.result;
        assert_eq!(result.structured_content.get(), read);
        assert_eq!(result.content, [json!({"type": "text", "text": read})]);
        assert!(!result.is_error);
        server.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_evidence_of_bookings_is_listed_in_pages_newest_first() {
    with_partner_on_every_engine(async |server, acme| {
        let mut expected = Vec::new();
        for _ in 0..26 {
            server.advance(1);
            let id = acme.book().await;
            expected.insert(0, format!("bookguard://bookings/{id}/evidence"));
        }
        on_every_way(&server, &acme, async |client, way| {
            let mut found = Vec::new();
            let mut params = json!({});
            loop {
                let page = client.ask("resources/list", params).await["result"].clone();
                for resource in page.list("resources") {
                    found.push(resource.text("uri").to_owned());
                }
                match page["nextCursor"].as_str() {
                    Some(cursor) => params = json!({"cursor": cursor}),
                    None => break,
                }
            }
            assert_eq!(found, expected, "{way}");
            client.read(&found[25]).await.unwrap();
            let wrong = client.ask("resources/list", json!({"cursor": "x"})).await;
            assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_listed_and_delivered_once_more() {
    on_every_engine(async |engine| {
        // The bridge to the database leaves deliveries to this server, so both must use the same clock.
        let server = TestServer::with(engine, |config| Config {
            clock: Clock::System,
            ..config
        });
        let server = server.await;
        let acme = server.partner("Acme").await;
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        receiver.answer(Answer::Status(500));
        on_every_way(&server, &acme, async |client, _| {
            let id = acme.book().await;
            let events = json!({"bookingId": id, "type": "booking.created", "limit": 5});
            let event = until("the first attempt", async || {
                let log = acme
                    .get(&format!("/v1/webhook-events?bookingId={id}"))
                    .await;
                let event = log.ok(200)["data"][0].clone();
                (event["deliveries"][0]["attempts"] == 1).then_some(event)
            })
            .await;
            let listed = client.call("list_webhook_events", events).await.ok();
            assert_eq!(listed["data"], json!([event]));
            let before = receiver.count();
            receiver.answer_next([Answer::Status(200)]);
            let retry = json!({"eventId": event["eventId"]});
            let retried = client.call("retry_webhook_event", retry).await.ok();
            assert_eq!(retried["retryStatus"], "delivered", "{retried}");
            assert_eq!(receiver.wait_for(before + 1).await.len(), before + 1);
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_lists_the_same_tools_in_order_and_says_what_they_do() {
    with_partner_on_every_engine(async |server, acme| {
        let mut client = Client::over_http(&server.caller()).await;
        let first = client.tools.clone();
        for tool in &first {
            client.schemas_of(tool.text("name"));
        }
        on_every_way(&server, &acme, async |client, way| {
            assert_eq!(client.tools, first, "{way}");
        })
        .await;
        let names: Vec<&str> = first.iter().map(|tool| tool.text("name")).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        let hinted = |hint: &str| -> Vec<&str> {
            let tools = first
                .iter()
                .filter(|tool| tool["annotations"][hint] == true);
            tools.map(|tool| tool.text("name")).collect()
        };
        assert_eq!(hinted("destructiveHint"), ["cancel_booking"]);
        let writing = [
            "add_evidence_item",
            "cancel_booking",
            "create_booking",
            "protect_booking",
            "retry_webhook_event",
        ];
        assert_eq!(hinted("openWorldHint"), writing);
        assert_eq!(hinted("readOnlyHint").len(), names.len() - writing.len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_the_one_over_http_word_for_word() {
    with_partner_on_every_engine(async |_server, acme| {
        let id = acme.book().await;
        // Numbers with more digits than a double holds are refused, not rounded.
        let precise = r#"{"talent":{"id":"t","name":"T"},"organizer":{"id":"o"},"eventType":"x","bookingValue":0.1000000000000000000001,"eventDate":7,"surplus":null}"#;
        let over_http = acme.post_text("/v1/bookings", precise).await;
        assert_eq!(over_http.status, 400);
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"create_booking","arguments":{precise}}}}}"#
        );
        let answer = crate::mcp::client::post(&acme.caller, call).await.ok(200);
        assert_eq!(answer["result"]["isError"], true);
        assert_eq!(answer["result"]["content"][0]["text"], over_http.text());
        let mut client = Client::over_http(&acme.caller).await;
        // A query parameter over HTTP is an argument of the tool.
        let argued = |text: String| text.replace(r#"":"?"#, r#"":"/"#);
        let refused = acme.get("/v1/bookings?limit=1000&cursor=x").await;
        let called = client.call_anyhow("list_bookings", json!({"limit": 1000, "cursor": "x"})).await;
        assert_eq!(called.text, argued(refused.text()));
        let refused = acme.get(&format!("/v1/bookings/{id}?x=1")).await;
        let called = client.call_anyhow("get_booking", json!({"bookingId": id, "x": 1})).await;
        assert_eq!(called.text, argued(refused.text()));
        assert!(!called.text.contains("query parameter"), "{}", called.text);
        // A key that was used for another request.
        let mut arguments = samples::booking();
        arguments["idempotencyKey"] = "the-one".into();
        client.call("create_booking", arguments.clone()).await.ok();
        arguments["eventType"] = "another".into();
        let called = client.call("create_booking", arguments).await;
        assert_eq!(called.refusal()["error"], "Unprocessable Entity");
    })
    .await;
}
