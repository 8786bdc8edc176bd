//! What a request costs: processor time as a multiple of an empty handler's, and requests per second as a share of its.
//!
//! Each load follows a load of the handler with the same clients: created, protected, read, created and delivered, on SQLite
//! with few clients and with many, with a slower flush, and on one node of PostgreSQL. Other figures are not rates: the time
//! to answer a single request, the bytes of a booking, memory and start.

use std::time::Duration;

use crate::Fallible;
use crate::cases::{self, Sample, measure_all};
use crate::cluster::Cluster;
use crate::load::{Limit, Timing};
use crate::paced;
use crate::parts::{Bench, ROWS_BOOKINGS, floor};
use crate::process::{Process, Server, Target};
use crate::receiver::Receiver;
use crate::report::{Aim, Floor, Report, median};
use crate::rows::{self, Rows};
use crate::webhooks::{CALM, LONGER};

const CASES: [&str; 4] = ["created", "protected", "read", "created and delivered"];
/// Enough clients to fill every batch.
const MANY: usize = 256;
const THIRD: Aim = Aim {
    ratio: 1.0 / 3.0,
    text: "1/3",
};
/// Bookings in one transaction of bare SQLite: as many as one commit of the server can carry.
const GROUPS: [usize; 2] = [128, 256];
/// The most memory that an idle server should use, MiB.
const IDLE_MIB: f64 = 30.0;
/// How long a server is left idle before its memory is read.
const REST: Duration = Duration::from_secs(1);
/// Bookings whose bytes are counted.
const PLAIN: u64 = 10_000;

/// Measures all cases.
pub fn costs(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    std::thread::sleep(REST);
    let idle = server.process.memory("VmRSS")?;
    let place = Place::of(&server);
    report.part("costs on SQLite");
    let created = place.measure(bench, report, bench.concurrency, CASES.len())?;
    place.measure(bench, report, MANY, CASES.len())?;
    bare_rows(bench, &server, &created, report)?;
    std::thread::sleep(REST);
    let start = server.process.started.as_secs_f64() * 1e3;
    report.value("start", start, "ms", None);
    report.value("idle memory after the start", idle, "MiB", Some(IDLE_MIB));
    let after = server.process.memory("VmRSS")?;
    report.value("idle memory after these loads", after, "MiB", None);
    plain(bench, report)?;

    if bench.maker.commit_delay.is_zero() {
        report.part("costs, every commit 1 ms longer");
        let slow = bench.maker.server_with(Duration::from_millis(1))?;
        for concurrency in [bench.concurrency, MANY] {
            Place::of(&slow).measure(bench, report, concurrency, 1)?;
        }
    }

    report.part("costs on PostgreSQL, one node");
    let Some(cluster) = Cluster::start()? else {
        report.note("costs", "not measured: PostgreSQL is not installed");
        return Ok(());
    };
    let nodes = cluster.nodes(&bench.maker, 1)?;
    let place = Place {
        target: &nodes,
        processes: &nodes.processes,
        cluster: Some(&cluster),
    };
    place.measure(bench, report, bench.concurrency, CASES.len())?;
    Ok(())
}

/// The target and the processes that a load is measured on.
struct Place<'a, T> {
    target: &'a T,
    processes: &'a [Process],
    cluster: Option<&'a Cluster>,
}

impl<'a> Place<'a, Server> {
    fn of(server: &'a Server) -> Self {
        Self {
            target: server,
            processes: std::slice::from_ref(&server.process),
            cluster: None,
        }
    }
}

impl<T: Target> Place<'_, T> {
    /// Measures the first `count` cases and returns the samples of the creations.
    fn measure(
        &self,
        bench: &Bench,
        report: &mut Report,
        concurrency: usize,
        count: usize,
    ) -> Fallible<Vec<Sample>> {
        let (addrs, limit, receiver) = (self.target.addrs(), bench.limit(), Receiver::start()?);
        let keys = cases::partners(addrs[0], concurrency, None)?;
        let hooked = cases::partners(addrs[0], concurrency, Some(receiver.addr))?;
        let mut floors: [Vec<Sample>; CASES.len()] = Default::default();
        let mut results: [Vec<Sample>; CASES.len()] = Default::default();
        for _ in 0..bench.repeat {
            let mut made = Vec::new();
            for case in 0..count {
                if let Some(cluster) = self.cluster {
                    cluster.checkpoint();
                }
                floors[case].push(bench.nothing(concurrency)?);
                results[case].push(measure_all(self.processes, self.cluster, || {
                    let before = std::mem::take(&mut made);
                    let (timing, after) = match case {
                        0 => cases::create(&addrs, &keys, concurrency, limit)?,
                        1 => cases::protect(&addrs, before, limit)?,
                        2 => cases::read(&addrs, before, limit)?,
                        _ => {
                            let (target, receiver) = (self.target, &receiver);
                            return cases::deliver_all(
                                target,
                                &hooked,
                                concurrency,
                                receiver,
                                limit,
                            );
                        }
                    };
                    made = after;
                    Ok(timing)
                })?);
            }
        }
        let clients = |what: &str| format!("{what}, {concurrency} clients");
        report.rate(&clients("empty poem handler"), &floors.concat(), None);
        for case in 0..count {
            let fast = case == 0 && self.cluster.is_none() && concurrency == bench.concurrency;
            let aim = Some(THIRD).filter(|_| fast && count > 1);
            let floor = floor("empty poem handler", &floors[case], aim);
            report.rate(&clients(CASES[case]), &results[case], Some(&floor));
        }
        let [created, ..] = results;
        Ok(created)
    }
}

/// Measures bare SQLite and compares the creations with it.
fn bare_rows(
    bench: &Bench,
    server: &Server,
    created: &[Sample],
    report: &mut Report,
) -> Fallible<()> {
    let rows = Rows::of(&server.db, ROWS_BOOKINGS)?;
    let rates: Vec<f64> = created.iter().map(|sample| sample.rate).collect();
    for group in GROUPS {
        let mut floors = Vec::new();
        for _ in 0..bench.repeat {
            let folder = bench.maker.folder()?;
            floors.push(rows.insert(
                &folder.path().join("bare.db"),
                group,
                bench.maker.commit_delay,
            )?);
        }
        let floor = Floor {
            name: format!("its 3 rows in bare SQLite, groups of {group}"),
            rates: floors,
            ..Floor::default()
        };
        report.plain("created", &rates, Some(&floor));
    }
    Ok(())
}

/// Measures an otherwise idle server: how soon it answers, and how much its file grows.
fn plain(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    let addr = server.process.addr;
    let keys = cases::partners(addr, 1, None)?;
    paced::create(addr, &keys, CALM, bench.seconds / 2)?;
    let (mut halves, mut hundredths) = (Vec::new(), Vec::new());
    for _ in 0..bench.repeat {
        let time = bench.seconds * LONGER;
        let noted = paced::create(addr, &keys, CALM, time)?;
        let answers = noted.iter().flatten().map(paced::Noted::answer);
        let timing = Timing::of(time, answers);
        halves.push(timing.percentile(50));
        hundredths.push(timing.percentile(99));
    }
    let pace = format!("{CALM} a second");
    let what = format!("answered at {pace}, p50");
    report.value(&what, median(halves), "ms", None);
    let what = format!("answered at {pace}, p99");
    report.value(&what, median(hundredths), "ms", None);
    let bytes = || -> Fallible<f64> {
        let size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        Ok(rows::open(&server.db)?.query_row(size, [], |row| row.get(0))?)
    };
    let before = bytes()?;
    cases::create(&[addr], &keys, bench.concurrency, Limit::turns(PLAIN))?;
    let each = (bytes()? - before) / PLAIN as f64;
    report.value("bytes of a plain booking", each, "B", None);
    Ok(())
}
