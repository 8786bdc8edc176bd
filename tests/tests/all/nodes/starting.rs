//! A node that starts before its server or with a wrong clock, and reads while every connection is in use.

use bookguard_test_postgres::{Options, Postgres};
use bookguard_tests::engine::{TestDatabase, on_every_engine, on_postgres};
use bookguard_tests::program::Serving;
use bookguard_tests::test_server::{TestServer, until_logged};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::block_in_place;

use crate::nodes::refusals::{ends, serve};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_for_a_server_that_is_not_there_yet() {
    let Some(postgres) = block_in_place(|| Postgres::start(&Options::default())) else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let url = block_in_place(|| postgres.fresh_database());
    block_in_place(|| postgres.stop());
    // The address of a listener comes first, so that the test sees when the node has tried.
    let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = first.local_addr().unwrap();
    let both = url.replacen('@', &format!("@{address},"), 1);
    let line = serve(&both, &folder).env("BOOKGUARD_DATABASE_WAIT_SECONDS", "60");
    let (node, ()) = tokio::join!(Serving::of(line), async {
        drop(first.accept().await.unwrap());
        drop(first);
        block_in_place(|| postgres.start_again());
    });
    let said = node.until_said("waiting for it").await;
    let told = said.matches("waiting for it, 60 s at most").count();
    assert_eq!(told, 1, "{said}");
    node.caller().get("/v1/health").await.ok(200);
    node.stop().await;
}

#[tokio::test]
async fn the_wait_for_a_missing_database_server_ends_as_configured() {
    let folder = TempDir::new().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://me:s3cret@{}/b", gone.local_addr().unwrap());
    drop(gone);
    let line = serve(&url, &folder);
    let ran = ends(line, 7, "unreachable", &["cannot be reached"]).await;
    assert!(!ran.stderr.contains("waiting"), "{ran:?}");
    let patient = serve(&url, &folder).env("BOOKGUARD_DATABASE_WAIT_SECONDS", "1");
    let ran = patient.run().await;
    ran.ended(7, &[]);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let [first, last] = lines[..] else {
        panic!("two lines: {ran:?}")
    };
    let told = ["cannot be reached", "(waiting for it, 1 s at most)"];
    assert!(told.iter().all(|told| first.contains(told)), "{first}");
    assert!(last.ends_with("(unreachable)"), "{last}");
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_differs_from_the_server_s_is_told_of_and_a_right_one_is_not() {
    on_postgres(async |engine| {
        // The test server's clock is set to a fixed day, far from the database server's.
        let server = TestServer::open(engine).await;
        until_logged("the database server's; set both by NTP").await;
        server.close().await;
        let database = TestDatabase::new(engine);
        let node = Serving::start(&database, &[]).await;
        node.caller().get("/v1/health").await.ok(200);
        let (_, said) = node.terminate().await;
        assert!(!said.contains("clock"), "{said}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_without_a_free_connection_is_refused_and_the_next_is_answered() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        acme.get("/v1/bookings").await.ok(200);
        let service = server.running().service();
        // The last reader asked for waits in vain, because every connection is in use.
        let held: Vec<_> =
            block_in_place(|| std::iter::from_fn(|| service.reader().ok()).collect());
        assert!(held.len() >= 4, "{}", held.len());
        let refused = acme.get("/v1/bookings").await;
        refused.refused(503, "unavailable");
        assert_eq!(server.caller().get("/v1/health").await.status, 503);
        drop(held);
        acme.get("/v1/bookings").await.ok(200);
        server.caller().get("/v1/health").await.ok(200);
    })
    .await;
}
