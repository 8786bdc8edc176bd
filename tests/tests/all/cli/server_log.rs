//! What a server logs, what it never logs, and that a log nobody reads holds up nothing.

use bookguard_core::limits::LOG_LINES;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::Serving;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::Partner;
use serde_json::{Value, json};

/// In every text that the journey sends, in some spelling.
const MARK: &str = "Zq7Mark";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The lines of a log, each a JSON object.
fn lines(log: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    log.lines().map(read).collect()
}

/// The lines about requests that took this route.
fn of_route<'a>(lines: &'a [Value], route: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["route"] == route).collect()
}

/// Uses the service with marked values wherever a caller can put one. Returns the secrets that it was given.
async fn journey(acme: &Partner, receiver: &Receiver) -> Vec<String> {
    let marked = |path: &str| path.replace('*', MARK);
    let hook = marked(&format!("{}/*?token=*", receiver.url()));
    let endpoint = json!({"url": hook, "description": MARK, "ownSecret": true});
    let endpoint = acme.new_endpoint(endpoint).await;
    let party = json!({"id": MARK, "name": MARK});
    let members = json!({"talent": party, "organizer": party, "metadata": {MARK: MARK}});
    let booking = acme.book_with(members).await;
    let once = samples::booking();
    let once = acme.post_once("/v1/bookings", MARK, &once).await;
    once.ok(201);
    acme.protect(&booking).await;
    let shares = format!("/v1/bookings/{booking}/shares");
    let share = acme.post(&shares, &json!({"note": MARK})).await.ok(201);
    let (_, token) = share.text("url").rsplit_once("/s/").unwrap();
    assert_eq!(acme.get(&format!("/s/{token}")).await.status, 200);
    let key = json!({"name": MARK, "scopes": ["bookings:read"]});
    let key = acme.post("/v1/api-keys", &key).await;
    let mut secrets = vec![acme.key.clone(), acme.secret.clone(), token.to_owned()];
    secrets.extend([key.string("apiKey"), endpoint.text("secret").to_owned()]);
    // What is refused.
    for path in [
        "/*",
        "/v1/bookings/*",
        "/v1/bookings?limit=*",
        "/v1/bookings?cursor=*",
        "/s/*",
        "/v1/ledger/*",
        "/v1/*?*=*",
    ] {
        let reply = acme.get(&marked(path)).await;
        assert!(reply.status >= 400, "{reply:?}");
    }
    for body in [
        r#"{"talent": "*"#,
        r#""*""#,
        r#"{"*": ["*"], "currency": "*", "eventDate": "*"}"#,
    ] {
        let reply = acme.post_text("/v1/bookings", marked(body)).await;
        assert_eq!(reply.status, 400, "{reply:?}");
    }
    let stranger = acme.caller.with_key(&format!("bgk_{MARK}"));
    assert_eq!(stranger.get("/v1/bookings").await.status, 401);
    for name in "authorization cookie user-agent accept referer traceparent".split(' ') {
        let request = acme.request("GET", "/v1/bookings");
        acme.send(request.header(name, MARK)).await;
    }
    let odd = acme.send(acme.request(MARK, "/v1/bookings")).await;
    odd.refused(405, "method_not_allowed");
    let tool = json!({"jsonrpc": "2.0", "id": MARK, "method": "tools/call", "params": {"name": "get_booking",
        "arguments": {"bookingId": MARK, MARK: MARK}}});
    let call = acme.request("POST", "/mcp").body(tool.to_string());
    let call = call.header("content-type", "application/json");
    let call = call.header("accept", "application/json, text/event-stream");
    acme.send(call).await;
    for received in receiver.wait_for(3).await {
        for name in ["x-service-signature", "webhook-signature"] {
            secrets.push(received.header(name).to_owned());
        }
    }
    secrets
}

/// What the operator did.
struct Operated {
    key: String,
    operator_key_id: String,
    /// Its records, oldest first.
    done: Vec<Value>,
}

/// Changes the partner as the operator, with marked values.
async fn operate(database: &TestDatabase, url: String, acme: &Partner) -> Operated {
    let made = database.command(["operator-keys", "create", "--name", MARK]);
    let made = made.run().await.json();
    let key = made.text("operatorKey").to_owned();
    let operator = Caller::of_operator(url).with_key(&key);
    let at = format!("/v1/partners/{}", acme.id);
    let edited = json!({"name": MARK.repeat(2)});
    operator.patch(&at, &edited).await.ok(200);
    let done = async |what: &str| operator.post_nothing(&format!("{at}/{what}")).await.ok(200);
    for _ in 0..2 {
        done("suspend").await;
    }
    let unknown = format!("{}/suspend", at.replace("ptn_", "ptn_f"));
    assert!(operator.post_nothing(&unknown).await.status >= 400);
    done("reinstate").await;
    let mut done = operator.rows("/v1/audit?limit=3").await;
    done.retain(|record| record["actor"]["kind"] == "operator_key");
    done.reverse();
    Operated {
        key,
        operator_key_id: made.text("operatorKeyId").to_owned(),
        done,
    }
}

/// Asks for a booking within a trace.
async fn traced(acme: &Partner) -> Reply {
    let booking = acme.book().await;
    let request = acme.request("GET", &format!("/v1/bookings/{booking}"));
    let request = request.header("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01"));
    acme.send(request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_callers_send_or_must_not_know_is_logged() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let receiver = Receiver::answering(Answer::Status(503)).await;
        let flags = ["--dev", "--log-level", "debug", "--log-requests", "true"];
        let flags = [&flags[..], &["--operator-listen", "127.0.0.1:0"]].concat();
        let mut server = Serving::start(&database, &flags).await;
        let operator_url = server.operator_url().await;
        let acme = server.partner(MARK).await;
        let secrets = journey(&acme, &receiver).await;
        let asked = traced(&acme).await;
        let operated = operate(&database, operator_url, &acme).await;
        if engine == Engine::Sqlite {
            let damage = format!("UPDATE event SET body = CAST('{{\"{MARK}' AS BLOB)");
            database.tamper(&damage);
            acme.get("/v1/webhook-events").await.refused(500, "internal");
        }
        let log = server.stop().await;
        let lower = log.to_lowercase();
        let Operated { key, operator_key_id, done } = operated;
        let secrets = secrets.into_iter().chain([key]).collect::<Vec<_>>();
        for secret in secrets.iter().map(String::as_str).chain([MARK]) {
            assert!(!lower.contains(&secret.to_lowercase()), "{secret} is in {log}");
        }

        let lines = lines(&log);
        // One line of each change that the operator made, and none of what changed nothing or was refused.
        let told: Vec<_> = lines.iter().filter(|line| !line["audit_id"].is_null()).collect();
        for line in &told {
            line.holds(json!({
                "level": "info", "partner_id": acme.id, "operator_key_id": operator_key_id, "status": 200,
            }));
        }
        let told: Vec<_> = told.iter().map(|line| (line.text("action"), line.text("audit_id"))).collect();
        let done: Vec<_> = done.iter().map(|record| (record.text("action"), record.text("auditId"))).collect();
        assert_eq!(done.len(), 3);
        assert_eq!(told, done);
        let shown = of_route(&lines, "/v1/bookings/{bookingId}");
        let traced = shown.iter().find(|line| line["trace_id"] == TRACE).unwrap();
        traced.holds(json!({
            "level": "info", "message": "request", "method": "GET", "status": 200, "partner_id": acme.id,
            "request_id": asked.header("x-request-id").unwrap(),
        }));
        assert!(traced["duration_ms"].as_f64().unwrap() > 0.0);
        assert_eq!(of_route(&lines, "/s/{token}").len(), 2, "{log}");
        let unknown = lines.iter().filter(|line| line["status"] == 404 && line["route"].is_null());
        assert!(unknown.count() >= 2, "{log}");
        let said = |word: &str| lines.iter().filter(|line| line["message"] == word).count();
        assert_eq!((said("started"), said("stopped")), (1, 1), "{log}");
        assert!(lines.iter().any(|line| line["method"] == "_OTHER" && line["status"] == 405));
        if engine == Engine::Sqlite {
            let faults = of_route(&lines, "/v1/webhook-events");
            let fault = faults.last().unwrap();
            fault.holds(json!({"level": "error", "status": 500, "code": "internal"}));
            assert!(fault["cause"].as_str().is_some_and(|cause| !cause.is_empty()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_holds_up_no_request_and_tells_what_it_lost() {
    // More than the server's queue and a pipe hold.
    const REQUESTS: usize = LOG_LINES + 600;
    let database = TestDatabase::new(Engine::Sqlite);
    let line = database.command("serve --listen 127.0.0.1:0 --log-requests true");
    let mut server = Serving::unread(line).await;
    let caller = server.caller();
    for _ in 0..REQUESTS {
        assert_eq!(caller.get("/livez").await.status, 200);
    }
    server.read();
    server.until_said("lines of the log were lost").await;
    let log = server.stop().await;
    let lines = lines(&log);
    let lost: u64 = lines.iter().filter_map(|line| line["lost"].as_u64()).sum();
    let kept = of_route(&lines, "/livez").len();
    assert!(lost > 0);
    assert_eq!(kept + usize::try_from(lost).unwrap(), REQUESTS, "{lost}");
    assert_eq!(lines.last().unwrap()["message"], "stopped");
}

#[tokio::test]
async fn by_default_requests_that_are_fine_or_wait_for_news_have_no_line() {
    let database = TestDatabase::new(Engine::Sqlite);
    let line = database.command("serve --listen 127.0.0.1:0 --log-format text");
    let server = Serving::of(line.env("BOOKGUARD_SLOW_REQUEST_MILLISECONDS", "900")).await;
    let acme = server.partner("Acme").await;
    let nothing_new = acme.get("/v1/webhook-events?wait=1").await.ok(200);
    assert!(nothing_new.list("data").is_empty());
    let log = server.stop().await;
    let ends: Vec<_> = log.lines().map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(
        ends,
        [Some("began"), Some("started"), Some("stopped")],
        "{log}"
    );
}

#[tokio::test]
async fn the_level_changes_while_the_server_runs() {
    let database = TestDatabase::new(Engine::Sqlite);
    let file = database.folder().join("b.toml");
    std::fs::write(&file, "log_requests = true\nlog_level = \"warn\"\n").unwrap();
    let line = database.command("serve --listen 127.0.0.1:0");
    let server = Serving::of(line.arg("--config").arg(&file)).await;
    server.caller().get("/livez").await;
    assert_eq!(server.stderr(), "");
    std::fs::write(&file, "log_requests = true\n").unwrap();
    server.signal("HUP").await;
    server.until_said("the configuration was reloaded").await;
    server.caller().get("/livez").await;
    let log = server.stop().await;
    assert_eq!(of_route(&lines(&log), "/livez").len(), 1, "{log}");
}
