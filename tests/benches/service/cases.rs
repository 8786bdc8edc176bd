//! The cases: bookings created, protected and read, and their webhooks delivered.
//!
//! Each case is a load of clients and what they do. Every partner has one webhook endpoint at most, and there are enough
//! partners to have one delivery in flight per client.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bookguard_core::limits::IN_FLIGHT_PER_ENDPOINT;

use crate::Fallible;
use crate::cluster::Cluster;
use crate::http::{self, Connection};
use crate::load::{self, Client, Limit, Timing};
use crate::process::{Process, Target};
use crate::receiver::{Receiver, Watcher, booking_id};

/// The booking of every request: only the members that the interface requires.
pub const BOOKING: &str = r#"{"talent":{"id":"tal_81723","name":"The Night Owls"},"organizer":{"id":"org_5521","name":"Acme Events GmbH"},"eventType":"concert","eventDate":"2031-06-20T19:00:00-04:00","bookingValue":1200.50,"currency":"USD"}"#;

/// How long deliveries may take to end before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the benchmark looks whether they have.
const LOOK: Duration = Duration::from_millis(4);

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Operations per second.
    pub rate: f64,
    /// Median latency, milliseconds.
    pub p50: f64,
    /// 99th percentile of the latency, milliseconds.
    pub p99: f64,
    /// Processor time of the measured process, microseconds per operation.
    pub cpu_us: f64,
    /// Processor time of the PostgreSQL server, microseconds per operation; NaN without one.
    pub database_us: f64,
    /// The peak memory of the measured process during the load, MiB.
    pub peak: f64,
}

/// Measures `work` on one process.
pub fn measure(process: &Process, work: impl FnOnce() -> Fallible<Timing>) -> Fallible<Sample> {
    measure_all(std::slice::from_ref(process), None, work)
}

/// Measures `work` on several processes and on the server they share.
pub fn measure_all(
    processes: &[Process],
    cluster: Option<&Cluster>,
    work: impl FnOnce() -> Fallible<Timing>,
) -> Fallible<Sample> {
    let used = || -> Fallible<(Duration, Option<Duration>)> {
        let own = processes.iter().map(Process::processor_time);
        let shared = cluster.map(Cluster::processor_time).transpose()?;
        Ok((own.sum::<Fallible<_>>()?, shared))
    };
    processes.iter().for_each(Process::forget_peak);
    let before = used()?;
    let timing = work()?;
    let after = used()?;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / timing.turns.max(1) as f64;
    let shared = after.1.zip(before.1).map(|(after, before)| after - before);
    let peaks = processes.iter().map(|process| process.memory("VmHWM"));
    Ok(Sample {
        rate: timing.rate(),
        p50: timing.percentile(50),
        p99: timing.percentile(99),
        cpu_us: each(after.0 - before.0),
        database_us: shared.map_or(f64::NAN, each),
        peak: peaks.sum::<Fallible<_>>()?,
    })
}

/// Registers as many partners as `clients` need, with an endpoint each if there is a receiver, and returns their keys.
pub fn partners(
    server: SocketAddr,
    clients: usize,
    endpoint: Option<SocketAddr>,
) -> Fallible<Vec<String>> {
    let body = r#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
    let register = |_| -> Fallible<String> {
        let made = http::call(server, "POST", "/v1/partners/register", None, Some(body))?;
        let key = made["apiKey"].as_str().ok_or("no key")?.to_owned();
        if let Some(receiver) = endpoint {
            let body = format!(r#"{{"url":"http://{receiver}/hook"}}"#);
            let path = "/v1/webhook-endpoints";
            http::call(server, "POST", path, Some(&key), Some(&body))?;
        }
        Ok(key)
    };
    (0..clients.div_ceil(IN_FLIGHT_PER_ENDPOINT))
        .map(register)
        .collect()
}

/// Makes `count` clients that use the keys in turn.
fn clients<C>(count: usize, keys: &[String], new: impl Fn(&str) -> C) -> Vec<C> {
    keys.iter()
        .cycle()
        .take(count)
        .map(|key| new(key))
        .collect()
}

/// The bookings that a client has created.
pub struct Made {
    key: String,
    bookings: Vec<(String, Instant)>,
}

impl Made {
    /// The number of bookings.
    pub fn len(&self) -> usize {
        self.bookings.len()
    }
}

struct Create {
    request: Vec<u8>,
    made: Made,
}

impl Client for Create {
    async fn turn(&mut self, connection: &mut Connection) -> Fallible<bool> {
        let began = Instant::now();
        let answer = connection.exchange(&self.request).await?;
        http::expect(&answer, 201..202)?;
        let id = booking_id(answer.body).ok_or("a booking without an id")?;
        self.made.bookings.push((id.to_owned(), began));
        Ok(true)
    }
}

fn creators(count: usize, keys: &[String]) -> Vec<Create> {
    clients(count, keys, |key| Create {
        request: http::request("POST", "/v1/bookings", Some(key), Some(BOOKING)),
        made: Made {
            key: key.to_owned(),
            bookings: Vec::new(),
        },
    })
}

/// Creates bookings.
pub fn create(
    servers: &[SocketAddr],
    keys: &[String],
    count: usize,
    limit: Limit,
) -> Fallible<(Timing, Vec<Made>)> {
    let (timing, clients) = load::run(servers, limit, creators(count, keys))?;
    let made = clients.into_iter().map(|client| client.made);
    Ok((timing, made.collect()))
}

/// Sends the same requests to a handler that does nothing.
pub fn nothing(server: SocketAddr, count: usize, limit: Limit) -> Fallible<Timing> {
    Ok(load::run(&[server], limit, creators(count, &["none".to_owned()]))?.0)
}

/// A client that does one operation on each booking in turn.
struct Visit {
    made: Made,
    /// The index of the next booking.
    next: usize,
    /// Whether to start over after the last booking.
    again: bool,
    method: &'static str,
    suffix: &'static str,
    request: String,
}

impl Client for Visit {
    async fn turn(&mut self, connection: &mut Connection) -> Fallible<bool> {
        if self.again && self.next >= self.made.bookings.len() {
            self.next = 0;
        }
        let Some((id, _)) = self.made.bookings.get(self.next) else {
            return Ok(false);
        };
        self.next += 1;
        let (method, suffix, key) = (self.method, self.suffix, &self.made.key);
        self.request.clear();
        write!(
            self.request,
            "{method} /v1/bookings/{id}{suffix} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {key}\r\n\r\n"
        )?;
        let answer = connection.exchange(self.request.as_bytes()).await?;
        http::expect(&answer, 200..201)?;
        Ok(true)
    }
}

fn visit(
    servers: &[SocketAddr],
    made: Vec<Made>,
    limit: Limit,
    protect: bool,
) -> Fallible<(Timing, Vec<Made>)> {
    let visitor = |made| Visit {
        made,
        next: 0,
        again: !protect,
        method: if protect { "POST" } else { "GET" },
        suffix: if protect { "/protect" } else { "" },
        request: String::new(),
    };
    let (timing, clients) = load::run(servers, limit, made.into_iter().map(visitor).collect())?;
    let made = clients.into_iter().map(|client| client.made);
    Ok((timing, made.collect()))
}

/// Protects the created bookings, until the limit or until all are protected.
pub fn protect(
    servers: &[SocketAddr],
    made: Vec<Made>,
    limit: Limit,
) -> Fallible<(Timing, Vec<Made>)> {
    visit(servers, made, limit, true)
}

/// Reads the created bookings over and over.
pub fn read(
    servers: &[SocketAddr],
    made: Vec<Made>,
    limit: Limit,
) -> Fallible<(Timing, Vec<Made>)> {
    visit(servers, made, limit, false)
}

/// A client that creates a booking and waits until its webhook has arrived.
struct Deliver {
    create: Create,
    watcher: Watcher,
}

impl Client for Deliver {
    async fn turn(&mut self, connection: &mut Connection) -> Fallible<bool> {
        self.create.turn(connection).await?;
        let made = self.create.made.bookings.last();
        let (id, _) = made.ok_or("nothing was created")?;
        self.watcher.came(id).await?;
        Ok(true)
    }
}

/// Creates bookings; each client waits for the webhook of its previous one first.
pub fn deliver_one_by_one(
    target: &impl Target,
    keys: &[String],
    count: usize,
    receiver: &Receiver,
    limit: Limit,
) -> Fallible<Timing> {
    receiver.forget();
    let clients = creators(count, keys).into_iter();
    let clients = clients.map(|create| Deliver {
        create,
        watcher: receiver.watcher(),
    });
    let (timing, _) = load::run(&target.addrs(), limit, clients.collect())?;
    settled(target)?;
    Ok(timing)
}

/// Creates bookings at full speed; the clock stops when every webhook has arrived and is settled in the database.
pub fn deliver_all(
    target: &impl Target,
    keys: &[String],
    count: usize,
    receiver: &Receiver,
    limit: Limit,
) -> Fallible<Timing> {
    receiver.forget();
    let began = Instant::now();
    let (_, made) = create(&target.addrs(), keys, count, limit)?;
    delivered(target, receiver, bookings(&made))?;
    let elapsed = began.elapsed();
    let taken = made
        .iter()
        .flat_map(|made| &made.bookings)
        .map(|(id, began)| {
            let came = receiver.came(id).unwrap_or(*began);
            came - *began
        });
    Ok(Timing::of(elapsed, taken))
}

/// Creates bookings while the receiver answers no webhook.
pub fn pile_up(
    target: &impl Target,
    keys: &[String],
    count: usize,
    receiver: &Receiver,
    limit: Limit,
) -> Fallible<usize> {
    receiver.forget();
    receiver.open(false);
    let (_, made) = create(&target.addrs(), keys, count, limit)?;
    Ok(bookings(&made))
}

/// Lets the receiver answer; the clock stops when every webhook has arrived and is settled. The latencies are those of
/// the single attempts.
pub fn drain(target: &impl Target, receiver: &Receiver, backlog: usize) -> Fallible<Timing> {
    let began = Instant::now();
    receiver.open(true);
    delivered(target, receiver, backlog)?;
    let elapsed = began.elapsed();
    Ok(Timing::of(elapsed, target.last_attempts(backlog)?))
}

fn bookings(made: &[Made]) -> usize {
    made.iter().map(Made::len).sum()
}

fn delivered(target: &impl Target, receiver: &Receiver, bookings: usize) -> Fallible<()> {
    let began = Instant::now();
    while receiver.bookings() < bookings {
        if began.elapsed() > PATIENCE {
            let came = receiver.bookings();
            return Err(format!("of {bookings} webhooks only {came} came").into());
        }
        std::thread::sleep(LOOK);
    }
    settled(target)
}

fn settled(target: &impl Target) -> Fallible<()> {
    let began = Instant::now();
    while !target.is_settled()? {
        if began.elapsed() > PATIENCE {
            return Err("deliveries came and were not settled".into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
