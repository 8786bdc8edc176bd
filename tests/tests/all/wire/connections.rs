//! More connections than the server has room for, and clients behind proxies.

use std::net::SocketAddr;

use bookguard_server::config::TrustedProxies;
use bookguard_server::config::{Config, Connections, Settings};
use bookguard_tests::engine::Engine;
use bookguard_tests::raw::{Raw, RawReply};
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;

const LIMITS: Connections = Connections {
    all: 8,
    per_address: 4,
    reserve: 8,
};

/// Starts a server with low connection limits. The database does not matter here, so it runs on SQLite only.
async fn crowded() -> (TestServer, SocketAddr) {
    let server = TestServer::with(Engine::Sqlite, |config| Config {
        connections: Some(LIMITS),
        // The upper half of 127.0.0.0/24 are trusted proxies.
        trusted_proxies: trusting("127.0.0.128/25"),
        registrations_per_minute: 2,
        ..config
    });
    let server = server.await;
    let addr = server.running().addr();
    (server, addr)
}

fn trusting(subnet: &str) -> TrustedProxies {
    let settings = Settings {
        trusted_proxies: Some(vec![subnet.to_owned()]),
        ..Settings::default()
    };
    settings.resolve().unwrap().trusted_proxies
}

/// Returns a connection from 127.0.0.`n` that has had one answer, so that the server has accepted it.
async fn known(n: u8, addr: SocketAddr) -> Raw {
    let mut raw = Raw::connect_from([127, 0, 0, n].into(), addr).await;
    assert_eq!(ask(&mut raw, "/v1/health").await.status, 200);
    raw
}

async fn ask(raw: &mut Raw, path: &str) -> RawReply {
    raw.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"))
        .await;
    raw.reply(false).await
}

/// The head of a registration with these header lines, whose body has this many bytes.
fn registration(headers: &str, bytes: usize) -> String {
    format!(
        "POST /v1/partners/register HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}\
         content-length: {bytes}\r\n\r\n"
    )
}

/// Sends a request without its body, which is in progress once the server asks for the body.
async fn begin(raw: &mut Raw, body: &str) {
    let head = registration("expect: 100-continue\r\n", body.len());
    raw.send(head).await;
    assert_eq!(raw.reply(false).await.status, 100);
}

/// Registers a partner through a peer, 127.0.0.`peer`, with these header lines.
async fn register(addr: SocketAddr, peer: u8, headers: &str) -> RawReply {
    let body = samples::partner("Acme").to_string();
    let mut raw = Raw::connect_from([127, 0, 0, peer].into(), addr).await;
    raw.send(registration(headers, body.len()) + &body).await;
    raw.reply(false).await
}

#[tokio::test]
async fn idle_connections_of_one_address_keep_nobody_out() {
    let (_house, addr) = crowded().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(Raw::connect_from([127, 0, 0, 1].into(), addr).await);
    }
    let mut others = Vec::new();
    for n in 2..6 {
        others.push(known(n, addr).await);
    }
    // The address made room with its own oldest connections, not with anybody else's.
    for (index, raw) in idle.iter_mut().enumerate() {
        if index < 16 {
            assert!(raw.closed().await, "{index}");
        } else {
            assert_eq!(ask(raw, "/v1/health").await.status, 200, "{index}");
        }
    }
    for other in &mut others {
        assert_eq!(ask(other, "/v1/health").await.status, 200);
    }
}

#[tokio::test]
async fn a_full_server_closes_the_longest_idle_connection_and_no_request() {
    let (_house, addr) = crowded().await;
    let body = samples::partner("Slow").to_string();
    let mut slow = known(1, addr).await;
    begin(&mut slow, &body).await;
    let mut waiting = Vec::new();
    for n in 2..9 {
        waiting.push(known(n, addr).await);
        // The server orders idle connections by the millisecond.
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    // A new request ends a connection's idle time.
    assert_eq!(ask(&mut waiting[0], "/v1/health").await.status, 200);
    let mut newcomer = known(20, addr).await;
    assert!(waiting[1].closed().await);
    for index in [0, 2, 3, 4, 5, 6] {
        assert_eq!(ask(&mut waiting[index], "/v1/health").await.status, 200);
    }
    assert_eq!(ask(&mut newcomer, "/v1/health").await.status, 200);
    slow.send(&body).await;
    assert_eq!(slow.reply(false).await.status, 201);
}

#[tokio::test]
async fn the_health_check_is_answered_under_full_load() {
    let (_house, addr) = crowded().await;
    let body = samples::partner("Slow").to_string();
    let mut busy = Vec::new();
    for n in 1..9 {
        let mut raw = known(n, addr).await;
        begin(&mut raw, &body).await;
        busy.push(raw);
    }
    for n in 1..30 {
        let mut raw = known(n, addr).await;
        assert!(raw.closed().await, "the reserve is for one request each");
    }
    let mut raw = Raw::connect_from([127, 0, 0, 30].into(), addr).await;
    let refused = ask(&mut raw, "/v1/bookings").await;
    refused.refused(503, "too_many_connections");
    assert!(refused.header("retry-after").is_some());
    assert!(raw.closed().await);
    // Silent connections in the reserve are closed to make room there.
    let mut silent = Vec::new();
    for n in 40..60 {
        silent.push(Raw::connect_from([127, 0, 0, n].into(), addr).await);
    }
    known(60, addr).await;
    // No request in progress was lost.
    for (index, raw) in busy.iter_mut().enumerate() {
        raw.send(&body).await;
        // Each request comes from its own address, so the limit of two registrations a minute does not apply.
        assert_eq!(raw.reply(false).await.status, 201, "{index}");
    }
    known(61, addr).await;
}

#[tokio::test]
async fn a_proxy_s_connections_are_not_one_client_s() {
    let (_house, addr) = crowded().await;
    let mut proxied = Vec::new();
    for _ in 0..8 {
        proxied.push(known(200, addr).await);
    }
    for raw in &mut proxied {
        assert_eq!(ask(raw, "/v1/health").await.status, 200);
    }
}

#[tokio::test]
async fn a_registration_happens_once_from_all_addresses_of_a_network() {
    let (_house, addr) = crowded().await;
    let register = async |from: &str| {
        let key = "idempotency-key: 0b8c6a52-5f0e-4a3f-8f0e-6c1d2e3f4a5b";
        let headers = format!("{key}\r\nx-forwarded-for: {from}\r\n");
        let reply = register(addr, 200, &headers).await;
        assert_eq!(reply.status, 201, "{from}");
        reply.body
    };
    let first = register("2001:db8::1").await;
    assert_eq!(register("2001:db8::2").await, first);
    // Whoever guesses the key elsewhere learns nothing.
    for other in ["2001:db8:0:1::1", "203.0.113.1"] {
        assert_ne!(register(other).await, first, "{other}");
    }
}

#[tokio::test]
async fn clients_named_by_a_trusted_proxy_have_their_own_limits() {
    let (_house, addr) = crowded().await;
    for (peer, headers, status) in [
        (200, "x-forwarded-for: 203.0.113.1\r\n", 201),
        (200, "x-forwarded-for: 203.0.113.1\r\n", 201),
        (200, "x-forwarded-for: 203.0.113.1\r\n", 429),
        // Entries that the client sent before the proxy's, a second proxy, and a port change nothing.
        (200, "x-forwarded-for: 203.0.113.9, 203.0.113.1\r\n", 429),
        (
            201,
            "x-forwarded-for: 203.0.113.9\r\nx-forwarded-for: 203.0.113.1:5, 127.0.0.201\r\n",
            429,
        ),
        (200, "x-forwarded-for: 203.0.113.2\r\n", 201),
        // IPv6 addresses are counted by their /64.
        (200, "x-forwarded-for: 2001:db8::1\r\n", 201),
        (200, "x-forwarded-for: 2001:db8::2\r\n", 201),
        (200, "x-forwarded-for: 2001:db8::3\r\n", 429),
        // A client that is not a trusted proxy counts by its own address, whatever it sends.
        (1, "x-forwarded-for: 203.0.113.3\r\n", 201),
        (1, "x-forwarded-for: 203.0.113.4\r\n", 201),
        (1, "x-forwarded-for: 203.0.113.5\r\n", 429),
    ] {
        let reply = register(addr, peer, headers).await;
        assert_eq!(reply.status, status, "{peer} {headers}");
    }
}
