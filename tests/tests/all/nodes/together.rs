//! A change on one node applies on the others: keys, partners, endpoints. And every node must be given the log's key.

use bookguard_core::limits::KEY_CACHE_MS;
use bookguard_core::service::RegistrationMode;
use bookguard_server::config::Config;
use bookguard_test_postgres::{Postgres, database_of};
use bookguard_tests::engine::{TestDatabase, on_postgres};
use bookguard_tests::program::{Serving, bookguard};
use bookguard_tests::receiver::Receiver;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::nodes::refusals::{nothing_was_made, refuses};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_revoked_on_one_node_dies_on_the_others_within_five_seconds() {
    const { assert!(KEY_CACHE_MS < 5_000) };
    on_postgres(async |engine| {
        let server = TestServer::open(engine).await;
        let second = server.second_node().await;
        let acme = server.partner("Acme").await;
        let made = acme.post("/v1/api-keys", &json!({})).await;
        let (id, key) = (made.string("apiKeyId"), made.string("apiKey"));
        let here = server.caller().with_key(&key);
        let there = here.at(&second.url());
        let status = async |caller: &bookguard_tests::caller::Caller| {
            caller.get("/v1/partners/me").await.status
        };
        // A key made on one node is valid on every other at once. From here on both nodes have it cached.
        assert_eq!((status(&here).await, status(&there).await), (200, 200));
        let revoked = acme.delete(&format!("/v1/api-keys/{id}")).await;
        assert!(revoked.status < 300, "{}", revoked.text());
        assert_eq!(status(&here).await, 401, "where it was revoked, at once");
        server.advance(KEY_CACHE_MS - 1);
        assert_eq!(status(&there).await, 200, "still remembered elsewhere");
        server.advance(1);
        assert_eq!(status(&there).await, 401);
        second.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partner_approved_on_one_node_is_let_in_on_the_others() {
    on_postgres(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            registration: RegistrationMode::Approval,
            ..config
        })
        .await;
        let second = server.second_node().await;
        let there = server.caller().at(&second.url());
        let pending = there
            .post("/v1/partners/register", &samples::partner("Acme"))
            .await;
        let partner = pending.string("partnerId");
        let approve = server
            .database()
            .command(format!("partners approve {partner}"));
        let approved = approve.run().await;
        let key = approved.string("apiKey");
        for caller in [server.caller(), there] {
            caller.with_key(&key).get("/v1/partners/me").await.ok(200);
        }
        second.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_made_or_deleted_on_one_node_counts_for_bookings_on_the_others_at_once() {
    on_postgres(async |engine| {
        let server = TestServer::open(engine).await;
        let second = server.second_node().await;
        let acme = server.partner("Acme").await;
        let there = acme.at(&second.url());
        let receiver = Receiver::start().await;
        let book = async || {
            let made = there.post("/v1/bookings", &samples::booking()).await;
            let booking = made.string("bookingId");
            let events = format!("/v1/bookings/{booking}/webhook-events");
            there.get(&events).await.ok(200)["webhookEvents"][0]["status"].clone()
        };
        let endpoint = json!({"url": receiver.url()});
        let made = acme.post("/v1/webhook-endpoints", &endpoint).await;
        let taken = book().await;
        let is_sent = ["pending", "delivered"].map(Value::from).contains(&taken);
        assert!(is_sent, "{taken}");
        receiver.wait_for(1).await;
        let path = format!("/v1/webhook-endpoints/{}", made.string("endpointId"));
        acme.delete(&path).await;
        assert_eq!(book().await, "no_endpoints");
        second.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_is_given_the_key_that_the_first_has_made_and_none_makes_another() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let on = |database: &TestDatabase, folder: &TempDir| {
            let url = database.url();
            let line = bookguard(format!("serve --listen 127.0.0.1:0 --db {url}"));
            line.in_folder(folder.path())
        };
        let serve = |folder: &TempDir| on(&database, folder);
        let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let one = Serving::of(serve(&first)).await;
        let said = one.until_said("began the ledger").await;
        let told = said.contains("made its key bookguard.key") && said.contains("every other node");
        assert!(told, "{said}");
        let told = &["bookguard.key is missing", "BOOKGUARD_LEDGER_KEY"];
        refuses(serve(&second), told).await;
        nothing_was_made(&second);

        let text = std::fs::read_to_string(first.path().join("bookguard.key")).unwrap();
        let secret = text.trim().splitn(5, '+').last().unwrap();
        let line = serve(&second).env("BOOKGUARD_LEDGER_KEY", text.trim());
        let two = Serving::of(line).await;
        let key = two.caller().get("/v1/ledger/key").await.text();
        assert_eq!(key, one.caller().get("/v1/ledger/key").await.text());
        // An intact key of another log, and a key file that was truncated.
        let other = TempDir::new().unwrap();
        let other_database = TestDatabase::new(engine);
        let third = Serving::of(on(&other_database, &other)).await;
        third.kill().await;
        let foreign = std::fs::read_to_string(other.path().join("bookguard.key")).unwrap();
        let cut = &text[..text.len() - 9];
        for (value, words) in [
            (
                foreign.as_str(),
                &["another key", "BOOKGUARD_LEDGER_KEY"][..],
            ),
            (
                cut,
                &["BOOKGUARD_LEDGER_KEY does not hold a complete ledger key"],
            ),
            (
                &format!("\"{text}\""),
                &["BOOKGUARD_LEDGER_KEY does not hold a complete"],
            ),
        ] {
            let ran = refuses(serve(&second).env("BOOKGUARD_LEDGER_KEY", value), words).await;
            for part in value.split('+').filter(|part| part.len() > 20) {
                assert!(!ran.stderr.contains(part.trim()), "{ran:?}");
            }
        }
        let (code, stderr) = two.terminate().await;
        assert_eq!(code, Some(0));
        assert!(!stderr.contains(secret), "{stderr}");
        for made in std::fs::read_dir(second.path()).unwrap() {
            let made = std::fs::read(made.unwrap().path()).unwrap();
            assert!(!String::from_utf8_lossy(&made).contains(secret));
        }
        one.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_at_once_on_an_empty_database_all_come_up_when_they_have_one_key() {
    let Some(postgres) = block_in_place(Postgres::shared) else {
        return;
    };
    let url = block_in_place(|| postgres.fresh_database());
    let folder = TempDir::new().unwrap();
    // All nodes use one key file that does not exist yet, for example on a shared disk.
    let serve = || {
        let line = bookguard(format!("serve --listen 127.0.0.1:0 --db {url}"));
        Serving::of(line.in_folder(folder.path()))
    };
    let nodes = tokio::join!(serve(), serve(), serve());
    let mut keys = Vec::new();
    for node in [nodes.0, nodes.1, nodes.2] {
        keys.push(node.caller().get("/v1/ledger/key").await.text());
        node.stop().await;
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
    let logs = block_in_place(|| postgres.sql(database_of(&url), "SELECT count(*) FROM head"));
    assert_eq!(logs, "1");
    block_in_place(|| postgres.drop_database(&url));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_finds_a_log_begun_in_the_same_moment_finds_the_key_it_was_begun_with() {
    let Some(postgres) = block_in_place(Postgres::shared) else {
        return;
    };
    let url = block_in_place(|| postgres.fresh_database());
    let folder = TempDir::new().unwrap();
    let serve = || {
        let line = bookguard(format!("serve --listen 127.0.0.1:0 --db {url}"));
        Serving::of(line.in_folder(folder.path()))
    };
    assert_eq!(serve().await.terminate().await.0, Some(0));
    let key = folder.path().join("bookguard.key");
    let aside = folder.path().join("aside");
    std::fs::rename(&key, &aside).unwrap();

    // The node gets as far as asking whether there is a log. The key appears first, and the answer after it.
    let lock = "LOCK TABLE head IN ACCESS EXCLUSIVE MODE";
    let held = block_in_place(|| postgres.hold(database_of(&url), lock));
    let appears = async {
        let asks =
            "SELECT count(*) FROM pg_locks WHERE relation = 'head'::regclass AND NOT granted";
        until("the node asks for the head", async || {
            let asking = block_in_place(|| postgres.sql(database_of(&url), asks));
            (asking == "1").then_some(())
        })
        .await;
        std::fs::rename(&aside, &key).unwrap();
        block_in_place(|| drop(held));
    };
    let (node, ()) = tokio::join!(serve(), appears);
    node.stop().await;
    block_in_place(|| postgres.drop_database(&url));
}
