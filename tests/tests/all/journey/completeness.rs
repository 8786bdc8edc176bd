//! The ledger commits to a map of its entries, and packets show that they lack none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bookguard_core::evidence::{Report, verify};
use bookguard_core::features::epochs;
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, on_every_engine, on_postgres};
use bookguard_tests::is_long;
use bookguard_tests::test_server::{Partner, START_MS, TestServer};
use bookguard_tests::waiting::until;
use serde_json::json;

const SECOND: i64 = 1_000;
const INTERVAL: i64 = 60 * SECOND;

fn mapped_often(mut config: Config) -> Config {
    config.map_interval = Duration::from_millis(INTERVAL.unsigned_abs());
    config
}

async fn mapped(engine: Engine) -> TestServer {
    TestServer::with(engine, mapped_often).await
}

async fn report(server: &TestServer, packet: &[u8]) -> Report {
    let report = verify(packet, &server.vkey().await);
    assert!(report.verified(), "{report}");
    report
}

/// The packet of a booking once it shows that it is complete.
async fn complete(partner: &Partner, booking: &str) -> Vec<u8> {
    until("a packet that shows that it is complete", async || {
        let packet = partner.packet(booking).await;
        let is_complete = packet.ok(200).get("completeness").is_some();
        is_complete.then_some(packet.body)
    })
    .await
}

/// `ledger verify` finds nothing; returns the number of entries.
async fn verifies(server: &TestServer) -> u64 {
    let service = Arc::clone(server.running().service());
    let check = move || service.verify_ledger(false, |_, _| {});
    let checked = tokio::task::spawn_blocking(check).await.unwrap().unwrap();
    assert_eq!(checked.findings, []);
    checked.entries
}

/// Whether an epoch is due.
async fn is_due(server: &TestServer) -> bool {
    let service = Arc::clone(server.running().service());
    let due = tokio::task::spawn_blocking(move || epochs::due(&service, INTERVAL));
    due.await.unwrap().unwrap().is_some()
}

#[tokio::test]
async fn a_packet_says_that_it_is_complete_once_the_ledger_is_mapped_with_all_of_it() {
    on_every_engine(async |engine| {
        let server = mapped(engine).await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        acme.book_many(40, &json!({})).await;
        let early = acme.packet(&booking).await;
        let said = report(&server, &early.body).await;
        assert!(
            said.complete.is_none() && said.to_string().contains("Not yet shown"),
            "{said}"
        );
        server.advance(INTERVAL);
        let packet = complete(&acme, &booking).await;
        let said = report(&server, &packet).await;
        let found = said.complete.clone().unwrap();
        assert_eq!((found.at.ms(), found.tree_size), (START_MS, 41));
        assert!(said.to_string().contains("Nothing recorded by"), "{said}");
        // What was recorded since is not mapped yet.
        acme.protect(&booking).await;
        let later = acme.packet(&booking).await;
        assert!(report(&server, &later.body).await.complete.is_none());
        // The shorter packet still is what it was: complete by then.
        assert_eq!(report(&server, &packet).await.complete, said.complete);
        server.advance(INTERVAL);
        let later = complete(&acme, &booking).await;
        let found = report(&server, &later).await.complete.unwrap();
        assert_eq!((found.at.ms(), found.tree_size), (START_MS + INTERVAL, 43));
        // An epoch alone is not a reason for another one.
        server.advance(100 * INTERVAL);
        assert!(!is_due(&server).await);
        assert_eq!(verifies(&server).await, 44);
    })
    .await;
}

#[tokio::test]
async fn a_cached_packet_is_replaced_when_it_can_show_that_it_is_complete() {
    let server = mapped(Engine::Sqlite).await;
    let acme = server.partner("Acme").await;
    let booking = acme.book().await;
    let first = acme.packet(&booking).await;
    let tag = |reply: &bookguard_tests::caller::Reply| reply.header("etag").map(str::to_owned);
    assert_eq!(tag(&first), tag(&acme.packet(&booking).await));
    server.advance(INTERVAL);
    complete(&acme, &booking).await;
    let shown = acme.packet(&booking).await;
    assert_ne!(tag(&first), tag(&shown));
    // Later epochs alone change nothing that it says.
    acme.book().await;
    server.advance(INTERVAL);
    let other = acme.book().await;
    server.advance(INTERVAL);
    complete(&acme, &other).await;
    assert_eq!(tag(&shown), tag(&acme.packet(&booking).await));
}

#[tokio::test]
async fn of_two_nodes_one_records_an_epoch() {
    on_postgres(async |engine| {
        let server = mapped(engine).await;
        let second = server.second_node().await;
        let acme = server.partner("Acme").await;
        for _ in 0..5 {
            let booking = acme.book().await;
            server.advance(INTERVAL);
            complete(&acme, &booking).await;
        }
        second.stop().await;
        assert_eq!(verifies(&server).await, 10);
        let sql = "SELECT COUNT(*) FROM entry WHERE kind = 'log.mapped'";
        assert_eq!(server.database().count(sql), 5);
    })
    .await;
}

#[tokio::test]
async fn a_database_from_before_the_map_catches_up_in_steps() {
    // As after an upgrade: entries that nothing has mapped, more than one epoch covers.
    let server = mapped(Engine::Sqlite).await;
    let acme = server.partner("Acme").await;
    let service = Arc::clone(server.running().service());
    let booking = acme.book().await;
    let step = move |limit: u64| {
        let due = epochs::due_by(&service, INTERVAL, limit).unwrap();
        due.map(|epoch| (epoch.covers(), epoch.is_behind))
    };
    for _ in 0..9 {
        acme.book().await;
    }
    let found = tokio::task::spawn_blocking(move || (step(10), step(4), step(11)));
    assert_eq!(
        found.await.unwrap(),
        (Some((10, false)), Some((4, true)), None)
    );
    server.advance(INTERVAL);
    complete(&acme, &booking).await;
    assert_eq!(verifies(&server).await, 11);
}

/// With `LONG=1`, epochs of as many streams as one may add to a small map; without, of a few. Prints what they cost.
#[tokio::test]
async fn an_epoch_takes_a_short_turn() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner("Acme").await;
        let streams = if is_long() { 4_096 } else { 64 };
        for round in 0..3 {
            acme.book_many(streams, &json!({})).await;
            let service = Arc::clone(server.running().service());
            let began = Instant::now();
            let due = tokio::task::spawn_blocking({
                let service = Arc::clone(&service);
                move || epochs::due_by(&service, 0, 4_096)
            });
            let epoch = due.await.unwrap().unwrap().unwrap();
            let made = began.elapsed();
            let pages = epoch.pages();
            let began = Instant::now();
            let recorded = service.submit_patiently(epochs::record(&service, epoch));
            recorded.await.unwrap();
            let turn = began.elapsed();
            println!("{engine:?}, epoch {round}: {streams} streams, {pages} pages; made in {made:?}, recorded in {turn:?}");
            assert!(turn < Duration::from_secs(5), "{turn:?}");
        }
        verifies(&server).await;
    })
    .await;
}

#[tokio::test]
async fn a_map_that_is_wrong_is_found_and_no_packet_relies_on_it() {
    let server = mapped(Engine::Sqlite).await;
    let acme = server.partner("Acme").await;
    let booking = acme.book().await;
    acme.book_many(20, &json!({})).await;
    server.advance(INTERVAL);
    complete(&acme, &booking).await;
    server.database().tamper(
        "UPDATE map_page SET body = (SELECT body FROM map_page ORDER BY id LIMIT 1 OFFSET 1) WHERE id = x'00'",
    );
    // The cached packet is used up.
    server.advance(10 * INTERVAL);
    let packet = acme.packet(&booking).await;
    assert!(
        [200, 500, 503].contains(&packet.status),
        "{}",
        packet.text()
    );
    if packet.status == 200 {
        assert!(report(&server, &packet.body).await.complete.is_none());
    }
    let service = Arc::clone(server.running().service());
    let check = move || service.verify_ledger(false, |_, _| {});
    let checked = tokio::task::spawn_blocking(check).await.unwrap().unwrap();
    assert!(
        checked.findings.iter().any(|one| one.what == "map"),
        "{:?}",
        checked.findings
    );
}

#[tokio::test]
async fn a_log_that_continues_after_a_loss_maps_what_it_has() {
    let server = mapped(Engine::Sqlite).await;
    let acme = server.partner("Acme").await;
    let booking = acme.book().await;
    server.advance(INTERVAL);
    complete(&acme, &booking).await;
    let database = server.close().await;
    let kept = database.folder().join("kept.db");
    std::fs::copy(database.file(), &kept).unwrap();

    let server = TestServer::on(database, mapped_often).await;
    let acme = acme.on(&server.running().url());
    let lost = acme.book().await;
    acme.protect(&booking).await;
    server.advance(3 * INTERVAL);
    complete(&acme, &lost).await;
    assert_eq!(verifies(&server).await, 5);
    let database = server.close().await;
    std::fs::copy(&kept, database.file()).unwrap();
    let accepted = database.command("ledger accept-rollback --yes").run().await;
    accepted.ended(0, &[]);

    // Two entries, and the one that says how the log continues. The map goes on from what the file held.
    let server = TestServer::on(database, mapped_often).await;
    let acme = acme.on(&server.running().url());
    let new = acme.book().await;
    server.advance(3 * INTERVAL);
    complete(&acme, &new).await;
    let packet = complete(&acme, &booking).await;
    assert_eq!(
        report(&server, &packet).await.complete.unwrap().tree_size,
        4
    );
    assert_eq!(verifies(&server).await, 5);
}
