//! Runs a second implementation of the log-backed map (tests/verifiers/map.py) on the vectors, and on a real log: it finds each
//! entry that commits to a map, makes that map anew from the entries before it, and compares.

use std::time::Duration;

use bookguard_tests::engine::Engine;
use bookguard_tests::program::bookguard;
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use tokio::process::Command;

use super::{is_there, repository};

/// Runs it; returns what it prints, and whether it is content.
async fn judged(arguments: [&str; 2]) -> (bool, String) {
    let mut command = Command::new("python3");
    command.arg(repository().join("tests/verifiers/map.py"));
    let ran = command.args(arguments).kill_on_drop(true).output().await;
    let ran = ran.unwrap();
    let printed = [ran.stdout, ran.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    (ran.status.success(), printed)
}

#[tokio::test]
async fn another_program_makes_the_same_maps_and_proofs() {
    if is_there("python3", &["--version"]).await {
        let vectors = repository().join("tests/vectors/map.json");
        let (content, printed) = judged(["vectors", vectors.to_str().unwrap()]).await;
        assert!(content, "{printed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_the_log_can_make_each_of_its_maps() {
    if !is_there("python3", &["--version"]).await {
        return;
    }
    let server = TestServer::with(Engine::Sqlite, |mut config| {
        config.map_interval = Duration::from_secs(60);
        config
    })
    .await;
    let acme = server.partner("Acme").await;
    for round in 0..3 {
        let booking = acme.book().await;
        for _ in 0..8 {
            acme.book().await;
        }
        acme.protect(&booking).await;
        server.advance(60_000);
        until(&format!("map {round}"), async || {
            let packet = acme.packet(&booking).await.text();
            packet.contains("\"completeness\"").then_some(())
        })
        .await;
    }
    let folder = server.folder().join("mirror");
    let url = format!("{}/v1/ledger/", server.running().url());
    let vkey = server.vkey().await;
    let folder = folder.to_str().unwrap();
    let line = bookguard(["ledger", "mirror", &url, folder, "--key", vkey.trim()]);
    line.run().await.ended(0, &[]);
    let (content, printed) = judged(["log", folder]).await;
    let told = content && printed.starts_with("3 maps of 33 entries");
    assert!(told, "{printed}");
}
