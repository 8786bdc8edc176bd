//! Many concurrent deliveries: how long one takes while another partner's receiver hangs, and what remains of thousands
//! when the server is killed while sending them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_server::config::Config;
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::is_long;
use bookguard_tests::load::{Addresses, Load};
use bookguard_tests::program::Serving;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until_within;
use tokio::sync::Mutex;

/// Both tests need the machine to themselves.
static MACHINE: Mutex<()> = Mutex::const_new(());
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Partners, each with an endpoint of its own; the first one's receiver is the one that hangs.
const NEIGHBOURS: usize = 20;
/// Bookings of each other partner in a round.
fn bookings() -> usize {
    if is_long() { 12 } else { 6 }
}
/// The first partner books once per this many bookings of the others. In a round that is more than may be in flight for it.
const EVERY: usize = 4;
/// A delivery time that is always allowed, whatever the round without the hanging receiver took. Anything below it is noise of
/// the machine; what a hanging neighbour could cause is far above it.
const FLOOR: Duration = Duration::from_millis(300);
/// Attempts to find a pair of rounds that passes. A lack of isolation shows in every pair, a busy machine does not.
const PAIRS: usize = 3;

struct Neighbourhood {
    partners: Vec<(Partner, Receiver)>,
}

impl Neighbourhood {
    async fn of(server: &TestServer) -> Self {
        let mut partners = Vec::new();
        for n in 0..NEIGHBOURS {
            let partner = server.partner(&format!("Partner {n}")).await;
            let receiver = Receiver::start().await;
            partner.endpoint(&receiver.url()).await;
            partners.push((partner, receiver));
        }
        Self { partners }
    }

    /// Runs a round and returns the 99th percentile of the times from a booking of the others to its webhook.
    async fn round(&self, answer: Answer) -> Duration {
        let (hanging, others) = self.partners.split_first().unwrap();
        let earlier: Vec<usize> = self.partners.iter().map(|(_, r)| r.count()).collect();
        hanging.1.answer(answer);
        let mut began = BTreeMap::new();
        let mut backlog = 0;
        for (n, (partner, _)) in (0..bookings()).flat_map(|_| others).enumerate() {
            if n % EVERY == 0 {
                hanging.0.book().await;
                backlog += 1;
            }
            let now = Instant::now();
            began.insert(partner.book().await, now);
        }
        let mut took = Vec::new();
        for ((_, receiver), earlier) in others.iter().zip(&earlier[1..]) {
            let received = receiver.wait_for(earlier + bookings()).await;
            for webhook in &received[*earlier..] {
                let began = began[&webhook.string("bookingId")];
                took.push(webhook.at.duration_since(began));
            }
        }
        assert_eq!(took.len(), began.len());
        // Answers what hangs, so that the next round starts like this one.
        hanging.1.answer(Answer::Status(200));
        hanging.1.wait_for(earlier[0] + backlog).await;
        took.sort_unstable();
        took[took.len() * 99 / 100]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_hangs_delays_nobody_elses_deliveries() {
    let _machine = MACHINE.lock().await;
    on_every_engine(async |engine| {
        // With the system's clock, deliveries that time out are retried on schedule.
        let server = TestServer::with(engine, |config| Config {
            clock: Clock::System,
            ..config
        });
        let server = server.await;
        let neighbourhood = Neighbourhood::of(&server).await;
        let mut told = Vec::new();
        let held = loop {
            let without = neighbourhood.round(Answer::Status(200)).await;
            let with = neighbourhood.round(Answer::Silence).await;
            told.push((without, with));
            if with <= FLOOR.max(2 * without) {
                break true;
            }
            if told.len() == PAIRS {
                break false;
            }
        };
        println!("p99 without and with a receiver that hangs: {told:?}");
        assert!(held, "{told:?}");
        server.close().await;
    })
    .await;
}

/// The least number of deliveries.
fn deliveries() -> usize {
    if is_long() { 10_000 } else { 2_000 }
}
/// How many have arrived when the server is killed.
fn before() -> usize {
    if is_long() { 2_000 } else { 800 }
}
/// Endpoints, all of one partner: the most that one may have.
const ENDPOINTS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_loses_no_delivery_and_repeats_only_those_in_flight() {
    let _machine = MACHINE.lock().await;
    on_every_engine(async |engine| killed_in_the_middle(engine).await).await;
}

async fn killed_in_the_middle(engine: Engine) {
    let database = TestDatabase::new(engine);
    let receiver = Receiver::start().await;
    let server = Serving::start(&database, &["--dev"]).await;
    let acme = server.partner("Acme").await;
    for n in 0..ENDPOINTS {
        acme.endpoint(&format!("{}/{n}", receiver.url())).await;
    }
    let addresses = Addresses::of([server.url()]);
    let mut load = Load::start(4, &acme.caller, &addresses);
    let began = Instant::now();
    // Each answer awaited keeps the clients writing.
    while receiver.count() < before() {
        let took = began.elapsed();
        assert!(took < PATIENCE, "too few were delivered in {took:?}");
        load.answers(1).await;
    }
    server.kill().await;
    // Once the server's connections are closed, the receiver has read everything that was sent.
    until_within(PATIENCE, "the end of its connections", async || {
        (receiver.connections() == 0).then_some(())
    })
    .await;
    let (sent, recorded) = (receiver.count(), database.count(DELIVERED));
    let in_flight = sent - recorded;

    let server = Serving::start(&database, &["--dev"]).await;
    addresses.set(0, server.url());
    while database.count(OWED) < deliveries() {
        load.answers(1).await;
    }
    let told = load.finish().await;
    let owed = database.count(OWED);
    until_within(PATIENCE, "all to be delivered", async || {
        let may_be = receiver.count() >= owed;
        (may_be && database.count(DELIVERED) == owed).then_some(())
    })
    .await;
    server.stop().await;

    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    for webhook in receiver.received() {
        let event = webhook.string("eventId");
        *times.entry((webhook.path, event)).or_default() += 1;
    }
    assert_eq!(times.len(), owed, "none was lost");
    assert!(owed >= deliveries(), "{owed}");
    let repeated: usize = times.values().map(|times| times - 1).sum();
    // Attempts that took longer than the deadline were retried, so they may come again too.
    let again = database.count("SELECT COUNT(*) FROM attempt WHERE number > 1");
    println!(
        "{sent} were sent when it was killed, {in_flight} of them in flight; {repeated} came again"
    );
    assert!(
        repeated <= in_flight + again,
        "{repeated} {in_flight} {again}"
    );
    assert!(in_flight < before() / 2, "most were recorded: {in_flight}");
    assert!(told.broken > 0, "requests were in flight too");
    database.verify(told.bookings.len()).await;
}

const OWED: &str = "SELECT COUNT(*) FROM delivery";
const DELIVERED: &str = "SELECT COUNT(*) FROM delivery WHERE phase = 1";
