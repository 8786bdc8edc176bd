//! Old events counted and pruned by hand, also by a command that is killed meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use bookguard_core::clock::Clock;
use bookguard_core::limits::{DAY_MS, PRUNED};
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::bookguard;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

/// Starts a server whose clock is a hundred days behind and which prunes nothing.
async fn long_ago(engine: Engine) -> TestServer {
    let then = Clock::System.now().ms() - 100 * DAY_MS;
    TestServer::with(engine, |config| Config {
        clock: Clock::Set(Arc::new(AtomicI64::new(then))),
        retention_days: 0,
        ..config
    })
    .await
}

/// Runs `webhook-events prune` with these flags.
async fn prune(database: &TestDatabase, flags: &str) -> Value {
    let line = database.command("webhook-events prune").args(flags);
    line.run().await.json()
}

/// Returns whether it was a dry run, and the numbers of events and attempts found and of waiting events.
fn counted(report: &Value) -> (bool, u64, u64, u64) {
    let [events, attempts, waiting] =
        ["events", "attempts", "waiting"].map(|name| report.number(name));
    (report["dryRun"] == true, events, attempts, waiting)
}

#[tokio::test]
async fn what_would_be_pruned_is_counted_and_then_it_is_pruned() {
    on_every_engine(async |engine| {
        let server = long_ago(engine).await;
        let acme = server.partner("Acme").await;
        let (receiver, failing) = (Receiver::start().await, Receiver::start().await);
        failing.answer(Answer::Status(500));
        acme.endpoint(&receiver.url()).await;
        let told = acme.book().await;
        acme.protect(&told).await;
        let off = acme.endpoint(&failing.url()).await;
        acme.book().await;
        until("every attempt to be recorded", async || {
            let log = acme.get("/v1/webhook-events").await.ok(200);
            let attempts = log.list("data").iter().flat_map(|event| {
                let deliveries = event.list("deliveries");
                deliveries.iter().map(|d| d.number("attempts"))
            });
            (attempts.collect::<Vec<_>>() == [1, 1, 1, 1]).then_some(())
        })
        .await;
        acme.change_endpoint(&off, json!({"enabled": false})).await;
        let database = server.close().await;

        let dry = prune(&database, "--dry-run").await;
        assert_eq!(counted(&dry), (true, 2, 2, 1));
        let received = receiver.received();
        let bytes = received[..2].iter().map(|hook| hook.body.len());
        assert_eq!(dry["payloadBytes"], bytes.sum::<usize>());
        for (flags, expected) in [
            // Nothing was done.
            ("--dry-run", (true, 2, 2, 1)),
            ("--older-than 101d", (false, 0, 0, 0)),
            ("", (false, 2, 2, 1)),
            // What waits is met again.
            ("", (false, 0, 0, 1)),
        ] {
            let report = prune(&database, flags).await;
            assert_eq!(counted(&report), expected, "{flags}");
        }
        let line = "webhook-events prune --dry-run --output table";
        let table = database.command(line).run().await;
        table.said(&["0 events", "1 more of that age would be kept"]);
        database.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_passed_over_and_counted() {
    on_every_engine(async |engine| {
        let server = long_ago(engine).await;
        let acme = server.partner("Acme").await;
        for _ in 0..3 {
            acme.book().await;
        }
        let database = server.close().await;
        database.tamper("UPDATE event SET body = NULL WHERE seq = 2");
        let done = prune(&database, "").await;
        assert_eq!(counted(&done), (false, 2, 0, 0));
        assert_eq!(done["unreadable"], 1);
        let records = "SELECT COUNT(*) FROM audit WHERE action = 'pruneWebhookEvents'";
        assert_eq!(database.count(records), 1);
        let line = "webhook-events prune --output table";
        let table = database.command(line).run().await;
        // The log tells of the damage on standard error.
        for words in ["0 events", "1 more of that age cannot be read"] {
            assert!(table.stdout.contains(words), "{table:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn pruning_by_hand_needs_the_database_and_an_age() {
    let database = TestServer::open(Engine::Sqlite).await.close().await;
    for (flags, days, why) in [
        (
            "--older-than 90h",
            "90",
            "--older-than is \"90h\"; it must be a number of days",
        ),
        ("--older-than 0", "90", "1 to 36500"),
        ("", "0", "retention_days is 0"),
        ("", "36501", "BOOKGUARD_RETENTION_DAYS is 36501"),
    ] {
        let line = database.command("webhook-events prune").args(flags);
        let line = line.env("BOOKGUARD_RETENTION_DAYS", days);
        line.run().await.ended(2, &[why]);
    }
    let remote = bookguard("webhook-events prune --url http://127.0.0.1:1");
    let remote = remote.env("BOOKGUARD_API_KEY", "bgk_x").run().await;
    remote.ended(2, &["on the database itself"]);
}

#[tokio::test]
async fn pruning_that_is_killed_goes_on_where_it_was() {
    on_every_engine(async |engine| {
        let server = long_ago(engine).await;
        let acme = server.partner("Acme").await;
        // Three commits, so that there is time to kill it after the first.
        let all = 2 * PRUNED + 90;
        acme.book_many(all, &json!({})).await;
        let database = server.close().await;
        let pruned = || database.count("SELECT COUNT(*) FROM event WHERE pruned_ms IS NOT NULL");
        let line = database.command("webhook-events prune");
        line.killed_when(|| pruned() > 0).await;
        let there = pruned();
        // Each commit is there completely or not at all.
        assert!([PRUNED, 2 * PRUNED, all].contains(&there), "{there}");
        database.verify(all).await;
        prune(&database, "").await;
        assert_eq!(pruned(), all);
        database.verify(all).await;
    })
    .await;
}
