//! A server's reaction to signals.
#![cfg(unix)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::program::Serving;
use bookguard_tests::raw::Raw;
use bookguard_tests::samples;
use bookguard_tests::waiting::until;

async fn said(server: &Serving, what: &str) {
    until(what, async || server.stderr().contains(what).then_some(())).await;
}

fn address(server: &Serving) -> SocketAddr {
    let address = server.url().strip_prefix("http://").unwrap();
    address.parse().unwrap()
}

/// Registers a partner as `client`, as a proxy on this machine would forward it, and returns the status.
async fn register(server: &Serving, client: &str) -> u16 {
    let body = samples::partner("Acme").to_string();
    let mut raw = Raw::connect(address(server)).await;
    raw.send(format!(
        "POST /v1/partners/register HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         x-forwarded-for: {client}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    raw.reply(false).await.status
}

#[tokio::test]
async fn sighup_reloads_the_trusted_proxies_and_ends_nothing() {
    let database = TestDatabase::new(Engine::Sqlite);
    let file = database.folder().join("bookguard.toml");
    std::fs::write(&file, "").unwrap();
    let line = database.command("serve --listen 127.0.0.1:0");
    let line = line.env("BOOKGUARD_REGISTRATIONS_PER_MINUTE", "1");
    let server = Serving::of(line.arg("--config").arg(&file)).await;
    assert_eq!(register(&server, "203.0.113.1").await, 201);
    assert_eq!(register(&server, "203.0.113.2").await, 429);
    std::fs::write(&file, "trusted_proxies = [\"127.0.0.1\"]\n").unwrap();
    server.signal("HUP").await;
    said(&server, "the configuration was reloaded").await;
    assert_eq!(register(&server, "203.0.113.2").await, 201);
    assert_eq!(register(&server, "203.0.113.2").await, 429);
    // Invalid settings change nothing.
    std::fs::write(&file, "trusted_proxies = [\"nginx\"]\n").unwrap();
    server.signal("HUP").await;
    said(&server, "not reloaded").await;
    assert!(server.stderr().contains("nginx"), "{}", server.stderr());
    assert_eq!(register(&server, "203.0.113.3").await, 201);
    server.stop().await;
}

#[tokio::test]
async fn a_server_told_to_end_a_second_time_waits_for_nobody() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &[]).await;
    let acme = server.partner("Acme").await;
    acme.book().await;
    // The server would wait for this request, which never completes.
    let mut slow = Raw::connect(address(&server)).await;
    slow.send(
        "POST /v1/partners/register HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: 900\r\n\r\n",
    )
    .await;
    assert_eq!(slow.reply(false).await.status, 100);
    server.signal("TERM").await;
    until("a server that takes no more connections", async || {
        let gone = tokio::net::TcpStream::connect(address(&server)).await;
        gone.is_err().then_some(())
    })
    .await;
    let told = Instant::now();
    let (code, said) = server.terminate().await;
    // A single signal would have left it waiting for ten seconds.
    assert!(
        told.elapsed() < Duration::from_secs(7),
        "{:?}",
        told.elapsed()
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("second signal"), "{said}");
    assert!(!database.folder().join("bookguard.db-wal").exists());
    let report = database.command("ledger verify").run().await.json();
    assert_eq!(report["bookings"], 1);
}
