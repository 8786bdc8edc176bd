//! The server under the nodes crashes, is restarted, or ends their sessions: the nodes report it and recover by themselves.

use bookguard_test_postgres::{Options, Postgres, database_of};
use bookguard_tests::engine::TestDatabase;
use bookguard_tests::json::Members as _;
use bookguard_tests::load::{Addresses, Load};
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::Serving;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until;
use tokio::task::block_in_place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_under_load_loses_nothing_that_was_answered() {
    let Some(postgres) = block_in_place(|| Postgres::start(&Options::default())) else {
        return;
    };
    let url = block_in_place(|| postgres.fresh_database());
    let database = TestDatabase::at(url.as_str());
    let nodes = [
        Serving::start(&database, &[]).await,
        Serving::start(&database, &[]).await,
    ];
    let acme = Partner::register(&nodes[0].caller(), "Acme").await;
    let vkey = acme.get("/v1/ledger/key").await.text();
    let addresses = Addresses::of(nodes.iter().map(Serving::url));
    let mut mirror = Mirror::download(&acme.caller, &vkey).await;
    let mut load = Load::start(8, &acme.caller, &addresses);
    for end in ["crash", "stop", "crash"] {
        load.answers(40).await;
        block_in_place(|| match end {
            "crash" => postgres.crash(),
            _ => postgres.stop(),
        });
        load.refusals(8).await;
        for path in ["/v1/bookings", "/v1/health"] {
            let reply = acme.get(path).await;
            assert_eq!(reply.status, 503, "{path}: {}", reply.text());
        }
        block_in_place(|| postgres.start_again());
        load.answers(40).await;
        load.told().check(&acme.at(nodes[1].url())).await;
        let later = Mirror::download(&acme.caller, &vkey).await;
        later.extends(&mirror);
        mirror = later;
    }
    let told = load.finish().await;
    for node in &nodes {
        let caller = acme.at(node.url());
        told.check_all(&caller).await;
        caller.get("/v1/health").await.ok(200);
        // The operator is told, without any password.
        node.until_said("writes fail: ").await;
    }
    // The one whose reads were asked for.
    nodes[0].until_said("reads work again after ").await;
    mirror.chains();
    for node in nodes {
        node.stop().await;
    }
    database.verify(told.bookings.len()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_ended_by_an_administrator_are_opened_again() {
    let Some(postgres) = block_in_place(Postgres::shared) else {
        return;
    };
    let url = block_in_place(|| postgres.fresh_database());
    let server = TestServer::on(TestDatabase::at(url.as_str()), |config| config).await;
    let acme = server.partner("Acme").await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    for round in 0..5 {
        let ended = block_in_place(|| postgres.sql(database_of(&url), end));
        assert_ne!(ended, "0", "round {round}: there were sessions");
        // Reads are repeated by the node itself; a write may fail when its session ends.
        acme.get("/v1/bookings").await.ok(200);
        let key = format!("round-{round}");
        let made = until("a booking", async || {
            let reply = acme
                .post_once("/v1/bookings", &key, &samples::booking())
                .await;
            assert!([201, 503].contains(&reply.status), "{}", reply.text());
            (reply.status == 201).then_some(())
        });
        made.await;
    }
    let list = acme.get("/v1/bookings").await.ok(200);
    assert_eq!(list.list("data").len(), 5);
    let database = server.close().await;
    database.verify(5).await;
    block_in_place(|| postgres.drop_database(&url));
}
