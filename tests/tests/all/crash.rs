//! Kill -9 during a load, repeatedly on the same database: every answered write is kept, and every due delivery is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_core::limits::{FILE_BYTES, IN_FLIGHT_PER_NEW_ENDPOINT, LEASE_MS};
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine, on_postgres};
use bookguard_tests::is_long;
use bookguard_tests::json::Members as _;
use bookguard_tests::load::{Addresses, Confirmed, Load, at_once};
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::Serving;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::{until, until_within};

/// How often a server is killed.
fn kills() -> usize {
    if is_long() { 50 } else { 10 }
}

/// Clients that write at the same time.
const CLIENTS: usize = 12;
/// A server that maps the ledger all the time.
const MAPPED: &[&str] = &["--dev", "--map-interval-seconds", "1"];
/// The most time that thousands of deliveries may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_and_what_was_owed_is_delivered() {
    on_every_engine(async |engine| killed_again_and_again(engine, 1).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_killed_in_turn_fork_nothing_and_lose_nothing() {
    on_postgres(async |engine| killed_again_and_again(engine, 2).await).await;
}

async fn killed_again_and_again(engine: Engine, count: usize) {
    let database = TestDatabase::new(engine);
    let receiver = Receiver::start().await;
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(Serving::start(&database, MAPPED).await);
    }
    let addresses = Addresses::of(nodes.iter().map(Serving::url));
    let acme = Partner::register(&nodes[0].caller(), "Acme").await;
    acme.endpoint(&receiver.url()).await;
    let vkey = acme.get("/v1/ledger/key").await.text();
    let mut mirror = Mirror::download(&acme.caller, &vkey).await;
    let mut load = Load::start(CLIENTS, &acme.caller, &addresses);
    for kill in 0..kills() {
        // Each kill comes at another point, after two to sixty answers.
        load.answers(2 + (kill * 17) % 59).await;
        // The nodes are killed in turn, and every fifth time all at once.
        let killed: Vec<usize> = match kill % 5 {
            4 => (0..count).collect(),
            _ => vec![kill % count],
        };
        for node in killed {
            nodes.remove(node).kill().await;
            nodes.insert(node, Serving::start(&database, MAPPED).await);
            addresses.set(node, nodes[node].url());
        }
        let caller = acme.at(nodes[kill % count].url());
        load.told().check(&caller).await;
        if kill % 5 == 4 {
            let later = Mirror::download(&caller, &vkey).await;
            later.extends(&mirror);
            mirror = later;
        }
    }
    until("maps of the ledger among what was written", async || {
        let maps = database.count("SELECT COUNT(*) FROM entry WHERE kind = 'log.mapped'");
        (maps > 3).then_some(())
    })
    .await;
    let told = load.finish().await;
    for (done, least) in [
        (told.bookings.len(), 12),
        (told.protected.len(), 4),
        (told.canceled.len(), 2),
    ] {
        assert!(
            done > least * kills(),
            "{done} is not {least} for each kill"
        );
    }
    let broken = told.broken;
    assert!(
        broken > kills() / count,
        "in flight when the server died: {broken}"
    );
    for node in nodes {
        node.kill().await;
    }
    database.verify(told.bookings.len()).await;
    delivered_in_the_end(database, &acme, &receiver, &told, &mirror).await;
}

/// Starts a server whose clock is past every lease and which takes over the killed servers' deliveries. In the end none is
/// due, and the receiver has every event, genuine, at least once.
async fn delivered_in_the_end(
    database: TestDatabase,
    acme: &Partner,
    receiver: &Receiver,
    told: &Confirmed,
    earlier: &Mirror,
) {
    let later = Clock::System.now().ms() + LEASE_MS + 1;
    let server = TestServer::on(database, |config| Config {
        clock: Clock::Set(Arc::new(AtomicI64::new(later))),
        ..config
    })
    .await;
    let acme = acme.on(&server.running().url());
    let bookings = told.check_all(&acme.caller).await;
    until_within(PATIENCE, "every event delivered", async || {
        let left = "SELECT COUNT(*) FROM delivery WHERE phase <> 1";
        (server.database().count(left) == 0).then_some(())
    })
    .await;
    let (mut numbers, mut events) = (BTreeSet::new(), BTreeSet::new());
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for event in acme.all_events().await {
        assert_eq!(event["status"], "delivered", "{event}");
        numbers.insert(event.number("seq"));
        events.insert(event.text("eventId").to_owned());
        *made.entry(event.text("bookingId").to_owned()).or_default() += 1;
    }
    let mut canceled = 0;
    for (id, booking) in &bookings {
        let is_canceled = usize::from(booking["status"] == "canceled");
        let more = is_canceled + usize::from(booking["protected"] == true);
        assert_eq!(made.get(id), Some(&(1 + more)), "{id}");
        canceled += is_canceled;
    }
    assert_eq!(made.len(), bookings.len(), "no event of another booking");
    let expected: BTreeSet<u64> = (1..=events.len() as u64).collect();
    assert_eq!(numbers, expected, "numbered without gaps");
    let mut received = BTreeSet::new();
    for webhook in receiver.received() {
        webhook.body_verifies(&acme.secret()).unwrap();
        received.insert(webhook.string("eventId"));
    }
    assert_eq!(received, events, "every event and nothing else");
    let mirror = Mirror::download(&acme.caller, &server.vkey().await).await;
    // The chain of the log's own maps.
    let stream = "\"stream\":\"c3hEd-Jl-3HeP3CERv8uYg\"";
    let is_map = |leaf: &&Vec<u8>| String::from_utf8_lossy(leaf).contains(stream);
    let maps = mirror.entries().iter().filter(is_map).count();
    assert_eq!(
        mirror.entries().len() - maps,
        2 * events.len() + canceled,
        "one fact, one event, which ends once however often it was sent; a cancellation and what it came to are two"
    );
    mirror.extends(earlier);
    mirror.chains();
    server.close().await.verify(bookings.len()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_sends_what_it_held_when_it_was_killed() {
    on_every_engine(async |engine| {
        let killed = Killed::in_the_middle(engine, 1).await;
        let server = Serving::start(&killed.database, &["--dev"]).await;
        killed.goes_out_from(server).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_node_held_goes_out_from_another_within_seconds() {
    on_postgres(async |engine| {
        let mut killed = Killed::in_the_middle(engine, 2).await;
        let other = killed.others.remove(0);
        killed.goes_out_from(other).await;
    })
    .await;
}

/// Deliveries of a killed node: some were being attempted and the others waited in its memory, all under leases of a minute.
struct Killed {
    database: TestDatabase,
    receiver: Receiver,
    acme: Partner,
    others: Vec<Serving>,
    at: Instant,
}

/// How many deliveries the killed node holds.
const HELD: usize = 30;

impl Killed {
    async fn in_the_middle(engine: Engine, nodes: usize) -> Self {
        let database = TestDatabase::new(engine);
        let receiver = Receiver::answering(Answer::Silence).await;
        let mut others = Vec::new();
        for _ in 0..nodes {
            others.push(Serving::start(&database, &["--dev"]).await);
        }
        let server = others.remove(0);
        let acme = server.partner("Acme").await;
        acme.endpoint(&receiver.url()).await;
        for _ in 0..HELD {
            acme.book().await;
        }
        receiver.wait_for(IN_FLIGHT_PER_NEW_ENDPOINT).await;
        server.kill().await;
        receiver.answer(Answer::Status(200));
        let at = Instant::now();
        Self {
            database,
            receiver,
            acme,
            others,
            at,
        }
    }

    async fn goes_out_from(self, server: Serving) {
        let caller = self.acme.at(server.url());
        let path = "/v1/webhook-events?status=delivered&limit=100";
        until("all to be delivered", async || {
            let log = caller.get(path).await.ok(200);
            (log.list("data").len() == HELD).then_some(())
        })
        .await;
        let lease = Duration::from_millis(LEASE_MS.unsigned_abs());
        assert!(self.at.elapsed() < lease / 2, "{:?}", self.at.elapsed());
        // Only deliveries that the killed node had sent come twice.
        let received = self.receiver.received().len();
        assert_eq!(received, HELD + IN_FLIGHT_PER_NEW_ENDPOINT);
        server.stop().await;
        self.database.command("ledger verify").run().await.json();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_goes_on_where_a_killed_server_left_it() {
    on_every_engine(async |engine| {
        // Far more than are recovered before the test holds the write turn.
        let events = if is_long() { 2_000 } else { 1_000 };
        let database = TestDatabase::new(engine);
        let server = Serving::start(&database, &["--dev"]).await;
        let acme = server.partner("Acme").await;
        let clients = (0..CLIENTS).map(|client| {
            let acme = acme.clone();
            async move {
                for _ in (client..events).step_by(CLIENTS) {
                    acme.book().await;
                }
            }
        });
        at_once(clients).await;
        let receiver = Receiver::answering(Answer::Silence).await;
        acme.endpoint(&receiver.url()).await;
        let body = serde_json::json!({"since": "2020-01-01T00:00:00Z"});
        let begun = acme.post("/v1/webhook-events/recover", &body).await;
        // While the test holds the write turn, no node can continue the recovery.
        let turn = database.hold_turn();
        let path = begun.header("location").unwrap().to_owned();
        let left = acme.get(&path).await.ok(200);
        assert_eq!(left["status"], "running", "{left}");
        let examined = left.number("examined");
        assert!((1..events as u64).contains(&examined), "{left}");
        server.kill().await;
        drop(turn);
        let sent = receiver.received().len();
        receiver.answer(Answer::Status(200));

        let server = Serving::start(&database, &["--dev"]).await;
        let caller = acme.at(server.url());
        let over = until("the end of the recovery", async || {
            let shown = caller.get(&path).await.ok(200);
            (shown["status"] == "finished").then_some(shown)
        })
        .await;
        for count in ["examined", "recovered", "deliveries"] {
            assert_eq!(over[count], events, "{over}");
        }
        let arrived = || -> BTreeSet<String> {
            let received = receiver.received();
            received.iter().map(|one| one.string("eventId")).collect()
        };
        // On PostgreSQL, the killed server's deliveries go out once another node knows that it is gone.
        until_within(PATIENCE, "every event", async || {
            (receiver.count() >= events && arrived().len() == events).then_some(())
        })
        .await;
        server.stop().await;
        // Only deliveries in flight when the server was killed may come twice, and none comes more often.
        let twice = receiver.received().len() - events;
        assert!(
            sent <= IN_FLIGHT_PER_NEW_ENDPOINT && twice <= sent,
            "{twice} of {sent} came twice"
        );
        database.verify(events).await;
    })
    .await;
}

/// How often a file meets the same kill.
fn rounds() -> usize {
    if is_long() { 2 } else { 1 }
}

/// A server with an evidence item of the largest file, that file, which was not sent yet, and its path on the server.
async fn with_a_file_to_send(engine: Engine) -> (TestDatabase, Serving, Partner, Vec<u8>, String) {
    let database = TestDatabase::new(engine);
    let server = Serving::start(&database, &[]).await;
    let acme = Partner::register(&server.caller(), "Acme").await;
    let items = format!("/v1/bookings/{}/evidence/items", acme.book().await);
    let file: Vec<u8> = (0..FILE_BYTES).map(|n| (n >> 8) as u8).collect();
    let item = acme.post(&items, &samples::item_with_file(&file)).await;
    let path = format!("{items}/{}/file", item.string("itemId"));
    (database, server, acme, file, path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_upload_was_killed_is_absent_or_whole_and_can_be_sent_again() {
    on_every_engine(async |engine| {
        let (database, mut server, acme, file, path) = with_a_file_to_send(engine).await;
        let parts = || database.count("SELECT COUNT(*) FROM file_part");
        let mut stored = parts();
        for kill in 1..=2 * rounds() {
            let caller = acme.at(server.url());
            let put = caller.request("PUT", &path).body(file.clone());
            let sent = async move { caller.try_send(put).await.map(|reply| reply.status) };
            let sent = tokio::spawn(sent);
            until("some more parts", async || {
                (sent.is_finished() || parts() >= (stored + 7).min(40)).then_some(())
            })
            .await;
            server.kill().await;
            let answered = sent.await.unwrap();
            server = Serving::start(&database, &[]).await;
            stored = parts();
            let found = acme.at(server.url()).get(&path).await;
            match found.status {
                200 => assert_eq!(found.body, file),
                // What was answered is kept.
                status => assert_eq!((status, answered.is_err()), (404, true), "{kill}"),
            }
        }
        let caller = acme.at(server.url());
        let put = caller.request("PUT", &path).body(file.clone());
        caller.send(put).await.ok(200);
        assert_eq!(caller.get(&path).await.body, file);
        server.stop().await;
        database.verify(1).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_deletion_was_killed_is_absent_or_whole_and_counts_accordingly() {
    on_every_engine(async |engine| {
        let (database, mut server, acme, file, path) = with_a_file_to_send(engine).await;
        let parts = || database.count("SELECT COUNT(*) FROM file_part");
        for waits in [false, true].repeat(rounds()) {
            let caller = acme.at(server.url());
            let put = caller.request("PUT", &path).body(file.clone());
            caller.send(put).await.ok(200);
            let whole = parts();
            let delete = caller.request("DELETE", &path);
            let sent = async move { caller.try_send(delete).await.map(|reply| reply.status) };
            let sent = tokio::spawn(sent);
            if waits {
                until("the deletion", async || {
                    (sent.is_finished() || parts() < whole).then_some(())
                })
                .await;
            }
            server.kill().await;
            let answered = sent.await.unwrap();
            server = Serving::start(&database, &[]).await;
            let caller = acme.at(server.url());
            let found = caller.get(&path).await;
            let account = caller.get("/v1/partners/me").await.ok(200);
            let used = &account["quota"]["fileBytes"]["used"];
            match found.status {
                200 => {
                    assert!(answered.is_err() && !waits, "{answered:?}");
                    assert_eq!((&found.body, parts()), (&file, whole));
                    assert_eq!(*used, file.len());
                }
                status => assert_eq!((status, parts(), used.as_u64()), (404, 0, Some(0))),
            }
        }
        server.stop().await;
        database.verify(1).await;
    })
    .await;
}
