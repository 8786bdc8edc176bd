//! Kill -9 in the middle of a load, again and again on the same database: what was answered stays, what was owed is sent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bookguard_core::clock::Clock;
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::limits::LEASE_MS;
use bookguard_core::webhook::verify;
use bookguard_server::Server;
use bookguard_server::config::Config;
use bookguard_server::courier::address::AddressRules;
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::{Site, on_every_engine};
use bookguard_tests::house::Partner;
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::Serving;
use bookguard_tests::receiver::Receiver;
use bookguard_tests::samples;
use bookguard_tests::waiting::until;
use serde_json::Value;
use tokio::task::JoinSet;

/// How often the server is killed.
const KILLS: usize = 25;
/// Clients that write at the same time.
const CLIENTS: usize = 12;

/// What was answered before the server died.
#[derive(Default)]
struct Answered {
    /// Bookings answered 201.
    bookings: BTreeSet<String>,
    /// Bookings answered as protected.
    protected: BTreeSet<String>,
    /// Idempotency keys of bookings that were not answered.
    unknown: Vec<String>,
}

impl Answered {
    fn extend(&mut self, more: Self) {
        self.bookings.extend(more.bookings);
        self.protected.extend(more.protected);
        self.unknown.extend(more.unknown);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_and_what_was_owed_is_delivered() {
    on_every_engine(async |engine| {
        let site = Site::new(engine);
        let receiver = Receiver::start().await;
        let mut server = Serving::start(&site, &["--dev"]).await;
        let acme = Partner::register(&server.caller(), "Acme").await;
        acme.endpoint(&receiver.url()).await;
        let mut answered = Answered::default();
        let mut in_flight = 0;
        for kill in 0..KILLS {
            let caller = acme.caller.at(server.url());
            check(&caller, &answered).await;
            in_flight += repeat(&caller, &mut answered).await;
            // Each time at another point: after as few answers as two, and as many as sixty.
            let enough = 2 + (kill * 17) % 59;
            answered.extend(load_until_killed(server, &caller, kill, enough).await);
            server = Serving::start(&site, &["--dev"]).await;
        }
        let caller = acme.caller.at(server.url());
        check(&caller, &answered).await;
        in_flight += repeat(&caller, &mut answered).await;
        let all = all_bookings(&caller)
            .await
            .into_keys()
            .collect::<BTreeSet<_>>();
        assert_eq!(
            all, answered.bookings,
            "each request happened once, also those that were repeated"
        );
        assert!(all.len() > 300 && answered.protected.len() > 100);
        assert!(
            in_flight > KILLS,
            "requests were in flight when the server died: {in_flight}"
        );
        server.kill().await;
        site.verify(all.len()).await;
        delivered_in_the_end(&site, &acme, &receiver, &answered).await;
        site.verify(all.len()).await;
    })
    .await;
}

/// Repeats what was in flight when the server died, under the same keys, as a partner would; how much that was.
async fn repeat(caller: &Caller, answered: &mut Answered) -> usize {
    let unknown = std::mem::take(&mut answered.unknown);
    for key in &unknown {
        let reply = caller
            .post_once("/v1/bookings", key, &samples::booking())
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        let new = answered.bookings.insert(reply.string("bookingId"));
        assert!(
            new,
            "a repetition was answered with another request's booking"
        );
    }
    unknown.len()
}

/// Every booking that was answered 201 is there, protected if that was answered, and none of its events is lost.
async fn check(caller: &Caller, answered: &Answered) {
    let shown = all_bookings(caller).await;
    for id in &answered.bookings {
        let booking = shown
            .get(id)
            .unwrap_or_else(|| panic!("{id} was answered 201 and is gone"));
        let protected = booking["protected"] == true;
        assert!(
            protected || !answered.protected.contains(id),
            "{id} was answered as protected"
        );
    }
}

/// Every booking of the partner, by id.
async fn all_bookings(caller: &Caller) -> BTreeMap<String, Value> {
    let mut shown = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let page = caller
            .get(&format!("/v1/bookings?limit=100{cursor}"))
            .await
            .ok(200);
        for booking in page["data"].as_array().unwrap() {
            shown.insert(
                booking["bookingId"].as_str().unwrap().to_owned(),
                booking.clone(),
            );
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return shown,
        }
    }
}

/// Clients write without a pause; once there were enough answers the server is killed under them.
async fn load_until_killed(
    server: Serving,
    caller: &Caller,
    round: usize,
    enough: usize,
) -> Answered {
    let count = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let name = format!("{round}-{client}");
        clients.spawn(write_until_gone(caller.clone(), name, Arc::clone(&count)));
    }
    until("enough answers", async || {
        (count.load(Ordering::Acquire) >= enough).then_some(())
    })
    .await;
    server.kill().await;
    let mut all = Answered::default();
    for one in clients.join_all().await {
        all.extend(one);
    }
    all
}

/// Records bookings and protects every other, until the server is gone.
async fn write_until_gone(caller: Caller, name: String, count: Arc<AtomicUsize>) -> Answered {
    let mut answered = Answered::default();
    for n in 0.. {
        let key = format!("{name}-{n}");
        let request = caller
            .request("POST", "/v1/bookings")
            .header("content-type", "application/json")
            .header("idempotency-key", &key)
            .body(samples::booking().to_string());
        let reply = match caller.try_send(request).await {
            Ok(reply) => reply,
            Err(error) => {
                // Whether it was done is not known, unless it never left.
                answered
                    .unknown
                    .extend((!error.is_connect()).then_some(key));
                break;
            }
        };
        assert_eq!(reply.status, 201, "{}", reply.text());
        let id = reply.string("bookingId");
        answered.bookings.insert(id.clone());
        count.fetch_add(1, Ordering::AcqRel);
        if n % 2 == 0 {
            let protect = caller.request("POST", &format!("/v1/bookings/{id}/protect"));
            let Ok(reply) = caller.try_send(protect).await else {
                break;
            };
            assert_eq!(reply.status, 200, "{}", reply.text());
            answered.protected.insert(id);
        }
    }
    answered
}

/// A server whose clock stands after every lease takes up what the killed ones held; then nothing is owed any more,
/// and the receiver has had every event, genuine, at least once.
async fn delivered_in_the_end(
    site: &Site,
    acme: &Partner,
    receiver: &Receiver,
    answered: &Answered,
) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let later = i64::try_from(now).unwrap() + LEASE_MS + 1;
    let server = Server::start(Config {
        listen: "127.0.0.1:0".to_owned(),
        rate_limit_per_second: 0,
        webhooks: AddressRules::dev(),
        clock: Clock::Set(Arc::new(AtomicI64::new(later))),
        ledger_key: site.ledger_key().map(LedgerKeySource::File),
        ..Config::of(site.db().clone())
    });
    let server = server.await.unwrap();
    let caller = acme.caller.at(&server.url());
    let acme = Partner {
        caller,
        ..acme.clone()
    };
    check(&acme.caller, answered).await;
    let mut numbers = BTreeSet::new();
    let mut events = BTreeSet::new();
    let bookings = all_bookings(&acme.caller).await;
    for (id, booking) in &bookings {
        let owed = until("every event delivered", async || {
            let events = acme.events(id).await;
            for event in &events {
                let status = event["status"].as_str().unwrap();
                assert!(["delivered", "pending"].contains(&status), "{event}");
            }
            events
                .iter()
                .all(|event| event["status"] == "delivered")
                .then_some(events)
        });
        let all = owed.await;
        assert_eq!(
            all.len(),
            if booking["protected"] == true { 2 } else { 1 },
            "{id}"
        );
        for event in &all {
            numbers.insert(event["seq"].as_u64().unwrap());
            events.insert(event["eventId"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(
        numbers,
        (1..=events.len() as u64).collect(),
        "numbered without gaps"
    );
    let mut received = BTreeSet::new();
    for webhook in receiver.received() {
        verify(
            [&acme.secret()],
            webhook.header("x-service-signature"),
            &webhook.body,
        )
        .unwrap();
        received.insert(webhook.string("eventId"));
    }
    assert_eq!(received, events, "every event and nothing else");
    let vkey = acme.caller.get("/v1/ledger/key").await.text();
    let mirror = Mirror::download(&acme.caller, &vkey).await;
    assert_eq!(mirror.entries().len(), events.len(), "one fact, one event");
    server.stop().await;
}
