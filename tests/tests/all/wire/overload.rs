//! Overload: rate limits that recover with time, a writer with more work than it accepts, and more files at once than fit.

use std::sync::Arc;

use bookguard_core::engine::answers::ForgetAnswers;
use bookguard_core::limits::{
    ANSWER_BYTES, FILE_BYTES, FILE_PART_BYTES, INBOX, KEYS_PER_PARTNER, UPLOAD_BYTES,
};
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::raw::Raw;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until;
use serde_json::json;

#[tokio::test]
async fn a_partner_that_asks_too_often_waits_whatever_key_it_shows_and_others_do_not() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            rate_limit_per_second: 2,
            rate_limit_burst: 3,
            ..config
        });
        let server = server.await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let mut keys = Vec::new();
        for _ in 1..KEYS_PER_PARTNER {
            server.advance(60_000);
            let made = acme.post("/v1/api-keys", &json!({})).await;
            keys.push(made.string("apiKey"));
        }
        server.advance(60_000);
        let mut remaining = Vec::new();
        for _ in 0..3 {
            let reply = acme.get("/v1/partners/me").await;
            let policy = reply.header("ratelimit-policy");
            assert_eq!(policy, Some("\"partner\";q=3;w=2"));
            remaining.push(reply.header("ratelimit").unwrap().to_owned());
        }
        let expected = ["r=2;t=1", "r=1;t=1", "r=0;t=2"].map(|left| format!("\"partner\";{left}"));
        assert_eq!(remaining, expected);
        let refused = acme.post("/v1/bookings", &samples::booking()).await;
        refused.headed(429, "retry-after", "1");
        other.get("/v1/partners/me").await.ok(200);
        for key in &keys {
            let refused = acme.with_key(key).get("/v1/partners/me").await;
            assert_eq!(refused.status, 429, "another key of the same partner");
        }
        // Open routes are not limited by key.
        acme.get("/v1/health").await.ok(200);
        server.advance(500);
        acme.get("/v1/partners/me").await.ok(200);
        assert_eq!(acme.get("/v1/partners/me").await.status, 429);
        server.advance(60_000);
        let bookings = acme.get("/v1/bookings").await.ok(200);
        let done = bookings.list("data").len();
        assert_eq!(done, 0, "what was refused was not done");
    })
    .await;
}

#[tokio::test]
async fn registrations_are_rationed_by_address() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            registrations_per_minute: 2,
            ..config
        });
        let server = server.await;
        let register = async |name: &str| {
            let body = samples::partner(name);
            server.caller().post("/v1/partners/register", &body).await
        };
        let first = register("A").await;
        first.headed(201, "ratelimit", "\"registration\";r=1;t=30");
        register("B").await.ok(201);
        let refused = register("C").await;
        refused.headed(429, "retry-after", "30");
        server.advance(30_000);
        register("D").await.ok(201);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_inbox_is_503_busy_and_nothing_is_half_done() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        // While this test holds the write turn, the writer takes no more batches from its inbox.
        let turn = server.database().hold_turn();
        let service = Arc::clone(server.running().service());
        assert_eq!(fill(&service), "busy");
        let refused = acme.post("/v1/bookings", &samples::booking()).await;
        refused.refused(503, "busy");
        assert_eq!(refused.header("retry-after"), Some("1"));
        // Reads still work.
        acme.get("/v1/bookings").await.ok(200);
        drop(turn);
        drop(service);
        until("room in the inbox", async || {
            let reply = acme.post("/v1/bookings", &samples::booking()).await;
            (reply.status == 201).then_some(())
        })
        .await;
        let bookings = acme.get("/v1/bookings").await.ok(200);
        assert_eq!(bookings.list("data").len(), 1);
    })
    .await;
}

/// Submits commands until the inbox stays full, and returns the refusal's code. The inbox stays full only after the writer
/// has taken its batch, so more commands than the inbox holds are accepted first.
fn fill(service: &bookguard_core::service::Service) -> String {
    let (mut accepted, mut refusals) = (0, 0);
    loop {
        match service.submit(service.envelope(ForgetAnswers)) {
            Ok(_) => (accepted, refusals) = (accepted + 1, 0),
            Err(error) if accepted > INBOX && refusals >= 200 => return error.code.into_owned(),
            Err(_) => {
                refusals += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}

/// Uploads of the largest file, as many as there is room for, in twos of a partner, of which this much is sent.
async fn fill_room(
    server: &TestServer,
    file: &[u8],
    sent: usize,
    begin: impl FnOnce(),
) -> Vec<Raw> {
    let mut begun = Vec::new();
    for n in 0..(UPLOAD_BYTES / FILE_BYTES).div_ceil(2) {
        let partner = server.partner(&format!("Partner {n}")).await;
        for _ in 0..2 {
            begun.push(connect(server, &partner, file).await);
        }
    }
    begun.truncate(UPLOAD_BYTES / FILE_BYTES);
    begin();
    for raw in &mut begun {
        raw.send(&file[..sent]).await;
    }
    begun
}

/// An upload of which the head is sent.
async fn connect(server: &TestServer, partner: &Partner, file: &[u8]) -> Raw {
    let asked = format!("PUT {}", slot(partner, file).await);
    ask(server, partner, &asked, file.len()).await
}

/// A connection on which the head of a request is sent, whose body has this many bytes.
async fn ask(server: &TestServer, partner: &Partner, asked: &str, bytes: usize) -> Raw {
    let key = &partner.key;
    let head = format!(
        "{asked} HTTP/1.1\r\nhost: h\r\nx-api-key: {key}\r\ncontent-length: {bytes}\r\n\r\n"
    );
    Raw::sending(server.running().addr(), head).await
}

/// The path of the file of a new item.
async fn slot(partner: &Partner, file: &[u8]) -> String {
    let items = format!("/v1/bookings/{}/evidence/items", partner.book().await);
    let item = partner.post(&items, &samples::item_with_file(file)).await;
    format!("{items}/{}/file", item.string("itemId"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_files_at_once_than_there_is_room_for_all_arrive() {
    let server = TestServer::open(Engine::Sqlite).await;
    let other = server.partner("Other").await;
    let file = vec![7; FILE_BYTES];
    let mut late = connect(&server, &other, &file).await;
    let mut turn = None;
    // They cannot be stored while this test holds the write turn, so they fill the room.
    let begin = || turn = Some(server.database().hold_turn());
    let mut begun = fill_room(&server, &file, FILE_BYTES, begin).await;
    tokio::join!(late.send(&file), async { drop(turn) });
    begun.push(late);
    for mut raw in begun {
        let reply = raw.reply(false).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_leave_memory_for_others() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let other = server.partner("Other").await;
    let file = vec![7; FILE_BYTES];
    let mut paths = Vec::new();
    for partner in [&acme, &other] {
        let path = slot(partner, &file).await;
        let mut raw = ask(&server, partner, &format!("PUT {path}"), file.len()).await;
        raw.send(&file).await;
        assert_eq!(raw.reply(false).await.status, 200);
        paths.push(path);
    }
    let get = async |partner, path: &str| ask(&server, partner, &format!("GET {path}"), 0).await;
    // Of a file, four parts are in memory.
    let share = ANSWER_BYTES / 6 / (4 * FILE_PART_BYTES);
    let mut unread = Vec::new();
    while unread.len() <= share {
        server.advance(1_000);
        let mut raw = get(&acme, &paths[0]).await;
        if raw.reply(true).await.status == 503 {
            break;
        }
        unread.push(raw);
    }
    assert_eq!(unread.len(), share);
    let refused = acme.get(&paths[0]).await;
    refused.refused(503, "too_many_unread_answers");
    assert_eq!(refused.header("retry-after"), Some("2"));
    acme.get("/v1/partners/me").await.ok(200);
    let mut others = get(&other, &paths[1]).await;
    assert_eq!(others.reply(false).await.body, file);
    drop(unread);
    let room = until("room for an answer", async || {
        let mut raw = get(&acme, &paths[0]).await;
        (raw.reply(true).await.status == 200).then_some(())
    });
    room.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_stall_do_not_keep_the_room_from_others() {
    let server = TestServer::open(Engine::Sqlite).await;
    let other = server.partner("Other").await;
    let file = vec![7; FILE_BYTES];
    let path = slot(&other, &file).await;
    let _stalled = fill_room(&server, &file, FILE_BYTES - 1, || ()).await;
    let put = other.request("PUT", &path).body(file);
    other.send(put).await.ok(200);
}
