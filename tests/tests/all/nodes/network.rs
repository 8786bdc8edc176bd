//! A connection to the server that breaks at the worst moment, falls silent, or is slow.

use std::time::{Duration, Instant};

use bookguard_server::Server;
use bookguard_server::config::Config;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{TestDatabase, on_postgres};
use bookguard_tests::json::Members as _;
use bookguard_tests::load::{Addresses, Load, at_once};
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::Serving;
use bookguard_tests::proxy::{Proxy, Rule};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::{until, until_within};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::nodes::refusals::serve;

/// Longer than a node waits for a silent server.
const SILENCE: Duration = Duration::from_secs(60);

/// Two nodes: one close to the server, one behind a bad network.
struct Pair {
    server: TestServer,
    acme: Partner,
    proxy: Proxy,
    far: Server,
}

impl Pair {
    async fn open(engine: bookguard_tests::engine::Engine) -> Self {
        let (server, acme) = TestServer::with_partner(engine).await;
        let proxy = Proxy::before(&server.database().url()).await;
        let far = server
            .second_node_with(|config| Config {
                db: proxy.url().into(),
                ..config
            })
            .await;
        Self {
            server,
            acme,
            proxy,
            far,
        }
    }

    fn near(&self) -> &Caller {
        &self.acme.caller
    }

    fn far(&self) -> Caller {
        self.acme.at(&self.far.url())
    }

    async fn bookings(&self) -> usize {
        let list = self.near().get("/v1/bookings?limit=100").await.ok(200);
        list.list("data").len()
    }

    /// Stops both nodes and checks the database that they leave.
    async fn close(self) {
        let bookings = self.bookings().await;
        self.far.stop().await;
        let database = self.server.close().await;
        database.verify(bookings).await;
    }
}

async fn book(caller: &Caller, key: &str) -> Reply {
    caller
        .post_once("/v1/bookings", key, &samples::booking())
        .await
}

/// Has the rule meet a booking's commit, and returns its key and the bookings made before. The node commits other things too, such as
/// which keys were used.
async fn cut(pair: &Pair, rule: Rule) -> (String, usize) {
    let mut made = 0;
    loop {
        let key = format!("lost-{made}");
        pair.proxy.set(rule);
        let reply = book(&pair.far(), &key).await;
        assert_eq!(pair.proxy.rule(), Rule::Pass, "a commit was on its way");
        if reply.status != 201 {
            unavailable(&reply);
            return (key, pair.bookings().await);
        }
        made += 1;
    }
}

fn unavailable(reply: &Reply) {
    reply.refused(503, "unavailable");
    assert!(reply.header("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_repeated_to_whoever_asks_again() {
    on_postgres(async |engine| {
        let pair = Pair::open(engine).await;
        book(&pair.far(), "before").await.ok(201);
        // The node cannot know whether the commit was done, so it does not claim success.
        let (lost, bookings) = cut(&pair, Rule::CutAfterCommit).await;
        for caller in [pair.far(), pair.near().clone()] {
            let again = book(&caller, &lost).await;
            assert_eq!(again.status, 201, "{}", again.text());
            assert_eq!(again.header("idempotent-replayed"), Some("true"));
        }
        assert_eq!(pair.bookings().await, bookings, "it was done");
        pair.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_does_not_arrive_leaves_nothing_behind() {
    on_postgres(async |engine| {
        let pair = Pair::open(engine).await;
        book(&pair.far(), "before").await.ok(201);
        let (lost, bookings) = cut(&pair, Rule::CutBeforeCommit).await;
        let again = book(&pair.far(), &lost).await;
        assert_eq!(again.status, 201, "{}", again.text());
        assert_eq!(again.header("idempotent-replayed"), None);
        assert_eq!(pair.bookings().await, bookings + 1);
        pair.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_vanishes_in_its_turn_does_not_keep_the_others_from_theirs() {
    on_postgres(async |engine| {
        let pair = Pair::open(engine).await;
        pair.proxy.set(Rule::HoldCommit);
        let far = pair.far();
        let held = tokio::spawn(async move { book(&far, "held").await });
        // The far node holds the write turn and has gone silent; the server ends its session after a while.
        let mut asked = 0;
        let made = until_within(SILENCE, "the near node's turn", async || {
            asked += 1;
            let reply = book(pair.near(), &format!("near-{asked}")).await;
            if reply.status == 201 {
                return Some(reply);
            }
            let known = ["unavailable", "busy"].contains(&reply.code().as_str());
            assert!(known && reply.status == 503, "{}", reply.text());
            None
        });
        made.await;
        let held = held.await.unwrap();
        unavailable(&held);
        pair.proxy.set(Rule::Pass);
        let again = until("the far node's turn", async || {
            let reply = book(&pair.far(), "held").await;
            (reply.status == 201).then_some(reply)
        });
        let again = again.await;
        let replayed = again.header("idempotent-replayed");
        assert_eq!(replayed, None, "it was not done before");
        pair.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_database_server_is_reported_and_used_again_later() {
    on_postgres(async |engine| {
        let pair = Pair::open(engine).await;
        book(&pair.far(), "before").await.ok(201);
        pair.proxy.set(Rule::Hold);
        let (reader, writer) = (pair.far(), pair.far());
        let replies = at_once([
            tokio::spawn(async move { reader.get("/v1/bookings").await }),
            tokio::spawn(async move { book(&writer, "silent").await }),
        ]);
        for reply in replies.await {
            unavailable(&reply.unwrap());
        }
        pair.proxy.set(Rule::Pass);
        until_within(SILENCE, "both to be taken up again", async || {
            let written = book(&pair.far(), "silent").await.status == 201;
            let read = pair.far().get("/v1/bookings").await.status == 200;
            (written && read).then_some(())
        })
        .await;
        pair.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_told_twice_to_end_does_not_wait_for_a_silent_database_server() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let proxy = Proxy::before(&database.url()).await;
        let folder = TempDir::new().unwrap();
        let node = Serving::of(serve(proxy.url(), &folder)).await;
        proxy.set(Rule::Hold);
        // From now on, a read is under way.
        let asked = node.caller().get("/readyz").await;
        asked.refused(503, "unavailable");
        let began = Instant::now();
        node.signal("TERM").await;
        let address = node.url().trim_start_matches("http://").to_owned();
        until("the first signal to be taken", async || {
            TcpStream::connect(&address).await.is_err().then_some(())
        })
        .await;
        let (code, said) = node.terminate().await;
        assert_eq!(code, Some(0), "{said}");
        assert!(began.elapsed() < Duration::from_secs(15), "{said}");
        assert!(said.contains("did not close in time"), "{said}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_makes_answers_late_and_not_wrong() {
    on_postgres(async |engine| {
        let pair = Pair::open(engine).await;
        pair.proxy.set(Rule::Late(Duration::from_millis(100)));
        let replies = at_once((0..20).map(|n| {
            let caller = pair.far();
            async move { book(&caller, &format!("late-{n}")).await }
        }));
        for reply in replies.await {
            reply.ok(201);
        }
        pair.far().get("/v1/bookings").await.ok(200);
        assert_eq!(pair.bookings().await, 20);
        pair.proxy.set(Rule::Pass);
        pair.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_again_and_again_under_load_lose_and_fork_nothing() {
    on_postgres(async |engine| {
        let pair = Pair::open(engine).await;
        let vkey = pair.near().get("/v1/ledger/key").await.text();
        let addresses = Addresses::of([pair.server.running().url(), pair.far.url()]);
        let mut load = Load::start(8, pair.near(), &addresses);
        let mut mirror = Mirror::download(pair.near(), &vkey).await;
        for cut in 0..12 {
            load.answers(5 + (cut * 7) % 23).await;
            match cut % 3 {
                0 => pair.proxy.cut(),
                1 => pair.proxy.set(Rule::CutBeforeCommit),
                _ => pair.proxy.set(Rule::CutAfterCommit),
            }
            until("the next commit", async || {
                (pair.proxy.rule() == Rule::Pass).then_some(())
            })
            .await;
            if cut % 4 == 3 {
                let later = Mirror::download(pair.near(), &vkey).await;
                later.extends(&mirror);
                mirror = later;
            }
        }
        load.answers(20).await;
        let told = load.finish().await;
        assert!(told.unavailable > 0, "clients were told");
        for caller in [pair.near(), &pair.far()] {
            told.check_all(caller).await;
        }
        let last = Mirror::download(&pair.far(), &vkey).await;
        last.extends(&mirror);
        last.chains();
        pair.far.stop().await;
        let database = pair.server.close().await;
        database.verify(told.bookings.len()).await;
    })
    .await;
}
