//! A partner's quotas: new rows beyond them are refused, and everything that exists keeps working.

use bookguard_core::limits::DAY_MS;
use bookguard_core::model::Quota;
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The default quota of bookings.
const GIVEN: u64 = 5;

/// Sets a partner's own quota and returns the resulting quota.
async fn set(server: &TestServer, partner: &Partner, flags: &str) -> Value {
    let line = format!("partners quota {} {flags}", partner.id);
    let line = server.database().command(line);
    let line = line.env("BOOKGUARD_QUOTA_BOOKINGS", GIVEN.to_string());
    line.json().await["quota"].clone()
}

async fn quota(partner: &Partner) -> Value {
    partner.get("/v1/partners/me").await.ok(200)["quota"].clone()
}

async fn used(partner: &Partner, part: &str) -> String {
    quota(partner).await[part]["used"].to_string()
}

/// Asserts that a booking is refused as `quota_exceeded`, with these words.
async fn refused(partner: &Partner, words: &[&str]) {
    let path = "/v1/bookings";
    let reply = partner.post(path, &samples::booking()).await;
    let told = (reply.status, reply.code());
    assert_eq!(told, (409, "quota_exceeded".to_owned()), "{}", reply.text());
    for word in words {
        reply.says(&[word]);
    }
}

#[tokio::test]
async fn beyond_a_quota_only_new_things_are_refused() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            quota: Quota {
                bookings: Some(GIVEN),
                ..Quota::GENEROUS
            },
            ..config
        });
        let server = server.await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let post = async || {
            let booking = samples::booking();
            acme.post_once("/v1/bookings", "once", &booking).await
        };
        let first = post().await.ok(201);
        let id = first.text("bookingId");

        // Exactly as many succeed as fit, even if many requests arrive at once and on two nodes.
        let second_node = match server.database().db().file() {
            Some(_) => None,
            None => Some(server.second_node().await),
        };
        let url = second_node
            .as_ref()
            .map_or(server.running().url(), |node| node.url());
        let mut asking = JoinSet::new();
        for caller in vec![[acme.caller.clone(), acme.at(&url)]; 12].concat() {
            asking.spawn(async move { caller.post("/v1/bookings", &samples::booking()).await });
        }
        let replies = asking.join_all().await;
        let made = replies.iter().filter(|reply| reply.status == 201).count();
        assert_eq!(made as u64, GIVEN - 1);
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.refused(409, "quota_exceeded");
        }
        refused(&acme, &["bookings is 5, and it has used 5", "operator"]).await;
        assert_eq!(
            quota(&acme).await["bookings"],
            json!({"used": 5, "limit": 5})
        );

        // Idempotent requests are still answered, and existing bookings can be protected and canceled.
        assert_eq!(post().await.ok(201), first);
        acme.protect(id).await;
        acme.cancel(id, &samples::cancellation()).await;
        other.book().await;
        assert_eq!(
            quota(&other).await["bookings"],
            json!({"used": 1, "limit": 5})
        );

        // Only the operator can raise a quota.
        let raise = json!({"quota": {"bookings": {"limit": 9}}});
        let reply = acme.patch("/v1/partners/me", &raise).await;
        reply.refused(400, "unknown_field");
        let path = format!("/v1/partners/{}/quota", acme.id);
        assert_eq!(acme.patch(&path, &json!({"bookings": 9})).await.status, 404);
        let raised = set(&server, &acme, "--bookings 6").await;
        assert_eq!(raised["bookings"], json!({"used": 5, "limit": 6}));
        assert_eq!(
            set(&server, &acme, "").await["bookings"],
            raised["bookings"],
            "only shown"
        );
        let sixth = acme.book().await;
        refused(&acme, &["bookings is 6"]).await;
        let without = set(&server, &acme, "--bookings 0").await;
        assert_eq!(without["bookings"], json!({"used": 6}));

        let bytes = used(&acme, "bytes").await;
        set(&server, &acme, &format!("--bytes {bytes}")).await;
        refused(&acme, &["bytes of bookings", &bytes]).await;
        set(&server, &acme, "--bytes 1GiB").await;

        let events = used(&acme, "eventsPerDay").await;
        assert_eq!(events, "8", "6 bookings, a protection, a resolution");
        set(&server, &acme, &format!("--events-per-day {events}")).await;
        refused(&acme, &["events a day is 8", "next day begins at"]).await;
        acme.protect(&sixth).await;
        assert_eq!(used(&acme, "eventsPerDay").await, "9");
        server.advance(DAY_MS);
        acme.book().await;
        assert_eq!(used(&acme, "eventsPerDay").await, "1");

        set(&server, &acme, "--endpoints 1").await;
        acme.endpoint("http://127.0.0.1:9/a").await;
        let body = json!({"url": "http://127.0.0.1:9/b"});
        let reply = acme.post("/v1/webhook-endpoints", &body).await;
        reply.refused(409, "quota_exceeded");

        for (flag, said, code) in [
            ("--bookings", "many", 2),
            ("--bytes", "lots", 2),
            ("--endpoints", "21", 5),
        ] {
            let args = format!("partners quota {} {flag} {said}", acme.id);
            let ran = server.database().command(args).run().await;
            ran.ended(code, &[]);
        }
        server.database().verify(8).await;
        let database = server.database();
        for column in ["bookings", "bytes", "day", "day_events"] {
            database.tamper(&format!("UPDATE partner SET {column} = {column} - 1"));
            let found = database.command("ledger verify").patiently().run().await;
            let field = format!("field {column}");
            assert!(found.stdout.contains(&field), "{found:?}");
            database.tamper(&format!("UPDATE partner SET {column} = {column} + 1"));
        }
    })
    .await;
}
