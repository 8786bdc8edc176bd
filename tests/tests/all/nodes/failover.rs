//! The primary is gone for good and its synchronous standby takes over: every answered booking exists.

use bookguard_test_postgres::{Options, Postgres, database_of};
use bookguard_tests::caller::Reply;
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
async fn nodes_follow_to_the_promoted_standby_with_everything_that_was_answered() {
    let Some(primary) = block_in_place(|| Postgres::start(&Options::default())) else {
        return;
    };
    let (url, standby) = block_in_place(|| (primary.fresh_database(), primary.standby()));
    let database = TestDatabase::at(both(&primary, &standby, database_of(&url)));
    let nodes = [
        Serving::start(&database, &[]).await,
        Serving::start(&database, &[]).await,
    ];
    let acme = Partner::register(&nodes[0].caller(), "Acme").await;
    let vkey = acme.get("/v1/ledger/key").await.text();
    let addresses = Addresses::of(nodes.iter().map(Serving::url));
    let mut load = Load::start(8, &acme.caller, &addresses);
    load.answers(100).await;
    let before = Mirror::download(&acme.caller, &vkey).await;
    load.answers(20).await;
    block_in_place(|| primary.crash());
    // No write succeeds for a while, and every caller is told.
    load.refusals(8).await;
    block_in_place(|| standby.promote());
    load.answers(100).await;
    let told = load.finish().await;
    for node in &nodes {
        told.check_all(&acme.at(node.url())).await;
    }
    let after = Mirror::download(&acme.caller, &vkey).await;
    after.extends(&before);
    after.chains();
    for node in nodes {
        node.stop().await;
    }
    database.verify(told.bookings.len()).await;
}

/// Returns a URL that names both servers.
fn both(primary: &Postgres, standby: &Postgres, database: &str) -> String {
    let (first, second) = (primary.port(), standby.port());
    format!(
        "postgres://{}@127.0.0.1:{first},127.0.0.1:{second}/{database}?target_session_attrs=read-write",
        bookguard_test_postgres::USER
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_standby_has_is_not_answered_as_done_nor_as_already_done() {
    let Some(primary) = block_in_place(|| Postgres::start(&Options::default())) else {
        return;
    };
    let (url, standby) = block_in_place(|| (primary.fresh_database(), primary.standby()));
    let server = TestServer::on(TestDatabase::at(url.as_str()), |config| config).await;
    let acme = server.partner("Acme").await;
    let protect = format!("/v1/bookings/{}/protect", acme.book().await);
    let again = not_without(&standby, &primary, 201, || {
        let acme = acme.caller.clone();
        async move {
            let booking = samples::booking();
            acme.post_once("/v1/bookings", "waiting", &booking).await
        }
    });
    assert_eq!(again.await.header("idempotent-replayed"), Some("true"));
    let again = not_without(&standby, &primary, 200, || {
        let (acme, protect) = (acme.caller.clone(), protect.clone());
        async move { acme.post_nothing(&protect).await }
    });
    assert_eq!(again.await.header("idempotent-replayed"), None);
    let bookings = acme.get("/v1/bookings").await.ok(200);
    assert_eq!(bookings.list("data").len(), 2);
    server.close().await.verify(2).await;
}

/// Asks while the standby is gone, once more, and again until it is back and the answer has this status. No answer may say before
/// that it is done. Returns the last answer.
async fn not_without<F>(
    standby: &Postgres,
    primary: &Postgres,
    status: u16,
    ask: impl Fn() -> F,
) -> Reply
where
    F: Future<Output = Reply> + Send + 'static,
{
    block_in_place(|| standby.stop());
    let asked = tokio::spawn(ask());
    // When the wait for the standby is canceled, PostgreSQL still reports the commit as done, with only a warning.
    let cancel =
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("a commit that waits for the standby", async || {
        let canceled = block_in_place(|| primary.sql("postgres", cancel));
        (canceled != "0").then_some(())
    })
    .await;
    let reply = asked.await.unwrap();
    reply.refused(503, "unavailable");
    // A repeated request is not answered as done either, although the primary has what it asks for.
    let asked = tokio::spawn(ask());
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("the repetition to wait for the standby", async || {
        assert!(!asked.is_finished(), "it was answered without the standby");
        let waiting = block_in_place(|| primary.sql("postgres", waits));
        (waiting != "0").then_some(())
    })
    .await;
    block_in_place(|| standby.start_again());
    let reply = asked.await.unwrap();
    assert!([status, 503].contains(&reply.status), "{}", reply.text());
    until("the standby to take part again", async || {
        let reply = ask().await;
        (reply.status == status).then_some(reply)
    })
    .await
}
