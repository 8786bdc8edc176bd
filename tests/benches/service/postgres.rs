//! The service on PostgreSQL, with one node and with two, compared with SQLite and with the bare client in the same run.
//!
//! Everything runs on this one machine: the load, the nodes and the server share its cores. The result of two nodes
//! therefore shows the cost of taking turns, not what two machines would reach.

use crate::Fallible;
use crate::cases::{self, Made, Sample, measure_all};
use crate::cluster::{Cluster, Nodes};
use crate::load::Limit;
use crate::parts::{Bench, HALF, ROWS_BOOKINGS, floor};
use crate::process::{Process, Target};
use crate::receiver::Receiver;
use crate::recovery;
use crate::report::{Aim, Floor, Report, median};
use crate::webhooks::bare_client;

/// Bookings in one transaction of the bare client.
const GROUP: usize = 128;
/// Enough clients to fill every batch of two nodes.
const MANY: usize = 1_024;
/// The most bookings in one commit.
const BATCH: f64 = bookguard_core::limits::BATCH as f64;
/// Two nodes must not be slower than one.
const SAME: Aim = Aim {
    ratio: 1.0,
    text: "1",
};
const CASES: [&str; 3] = ["created", "protected", "read"];

/// Measures bookings on SQLite, on one node and on two in turn; then webhooks, and the cost of a turn.
pub fn postgres(bench: &Bench, report: &mut Report) -> Fallible<()> {
    report.part("PostgreSQL");
    let Some(cluster) = Cluster::start()? else {
        report.note(
            "one node and two",
            "not measured: PostgreSQL is not installed",
        );
        return Ok(());
    };
    let one = cluster.nodes(&bench.maker, 1)?;
    let two = cluster.nodes(&bench.maker, 2)?;
    bookings(bench, report, &cluster, [&one, &two])?;
    webhooks(bench, report, &cluster)?;
    recovery::of_nodes(bench, report, &cluster)?;
    turns(bench, report, [&one, &two])
}

/// The processes that a load is measured on.
struct Place<'a> {
    processes: &'a [Process],
    cluster: Option<&'a Cluster>,
    keys: Vec<String>,
    /// The bookings that were created and are still to be used.
    made: Vec<Made>,
    samples: [Vec<Sample>; 3],
}

impl<'a> Place<'a> {
    fn new(
        bench: &Bench,
        processes: &'a [Process],
        cluster: Option<&'a Cluster>,
    ) -> Fallible<Self> {
        Ok(Self {
            processes,
            cluster,
            keys: cases::partners(processes[0].addr, bench.concurrency, None)?,
            made: Vec::new(),
            samples: Default::default(),
        })
    }

    fn run(&mut self, case: usize, concurrency: usize, limit: Limit) -> Fallible<()> {
        let addrs: Vec<_> = self.processes.iter().map(|process| process.addr).collect();
        if let Some(cluster) = self.cluster {
            cluster.checkpoint();
        }
        let (made, keys) = (&mut self.made, &self.keys);
        let sample = measure_all(self.processes, self.cluster, || {
            let before = std::mem::take(made);
            let (timing, after) = match case {
                0 => cases::create(&addrs, keys, concurrency, limit)?,
                1 => cases::protect(&addrs, before, limit)?,
                _ => cases::read(&addrs, before, limit)?,
            };
            *made = after;
            Ok(timing)
        })?;
        self.samples[case].push(sample);
        Ok(())
    }
}

fn bookings(
    bench: &Bench,
    report: &mut Report,
    cluster: &Cluster,
    nodes: [&Nodes; 2],
) -> Fallible<()> {
    let sqlite = bench.maker.server()?;
    let mut places = [
        Place::new(bench, std::slice::from_ref(&sqlite.process), None)?,
        Place::new(bench, &nodes[0].processes, Some(cluster))?,
        Place::new(bench, &nodes[1].processes, Some(cluster))?,
    ];
    let mut floors = Inserts::prepare(bench, cluster)?;
    for _ in 0..bench.repeat {
        for case in 0..CASES.len() {
            for place in &mut places {
                place.run(case, bench.concurrency, bench.limit())?;
            }
            if case == 0 {
                floors.measure(nodes[0])?;
            }
        }
    }
    let [sqlite, one, two] = places;
    for (case, name) in CASES.into_iter().enumerate() {
        let (created, aims) = (case == 0, [Some(HALF), Some(SAME)]);
        let aims = if created { aims } else { [None, None] };
        report.rate(&format!("{name}, SQLite"), &sqlite.samples[case], None);
        let beside = floor("SQLite", &sqlite.samples[case], aims[0]);
        let what = format!("{name}, one node");
        report.rate(&what, &one.samples[case], Some(&beside));
        let beside = floor("one node", &one.samples[case], aims[1]);
        let what = format!("{name}, two nodes");
        report.rate(&what, &two.samples[case], Some(&beside));
    }
    floors.report(report, &one.samples[0]);
    Ok(())
}

/// The bare client's rates, on the database of a node that was stopped.
struct Inserts {
    nodes: Nodes,
    grouped: Vec<f64>,
    single: Vec<f64>,
}

impl Inserts {
    /// Takes the empty tables of a new node.
    fn prepare(bench: &Bench, cluster: &Cluster) -> Fallible<Self> {
        let mut nodes = cluster.nodes(&bench.maker, 1)?;
        nodes.processes.clear();
        Ok(Self {
            nodes,
            grouped: Vec::new(),
            single: Vec::new(),
        })
    }

    /// Inserts the rows of these nodes' database.
    fn measure(&mut self, nodes: &Nodes) -> Fallible<()> {
        let rows = nodes.asked.rows(ROWS_BOOKINGS, GROUP)?;
        let Nodes {
            asked: bare, url, ..
        } = &self.nodes;
        self.grouped.push(bare.insert(&rows, GROUP)?);
        self.single.push(bare.insert_single(url, rows)?);
        Ok(())
    }

    fn report(self, report: &mut Report, created: &[Sample]) {
        let rates: Vec<f64> = created.iter().map(|sample| sample.rate).collect();
        let floors = [
            (
                format!("its 3 rows by the bare client, groups of {GROUP}"),
                self.grouped,
            ),
            (
                "single-row commits of the bare client".to_owned(),
                self.single,
            ),
        ];
        for (name, rates_of_floor) in floors {
            let floor = Floor {
                name,
                rates: rates_of_floor,
                ..Floor::default()
            };
            report.plain("created, one node", &rates, Some(&floor));
        }
    }
}

/// Measures a backlog drained, and bookings created and delivered, each right after a bare client.
fn webhooks(bench: &Bench, report: &mut Report, cluster: &Cluster) -> Fallible<()> {
    let nodes = cluster.nodes(&bench.maker, 1)?;
    let (receiver, concurrency, limit) = (Receiver::start()?, bench.concurrency, bench.limit());
    let keys = cases::partners(nodes.addrs()[0], concurrency, Some(receiver.addr))?;
    cases::deliver_one_by_one(&nodes, &keys, 1, &receiver, Limit::turns(1))?;
    let body = String::from_utf8(receiver.body())?;
    let mut floors: [Vec<Sample>; 2] = Default::default();
    let mut results: [Vec<Sample>; 2] = Default::default();
    for _ in 0..bench.repeat {
        for case in 0..results.len() {
            let bare = bare_client(&receiver, concurrency, bench.seconds / 2, &body)?;
            floors[case].push(bare);
            let backlog = match case {
                0 => cases::pile_up(&nodes, &keys, concurrency, &receiver, limit)?,
                _ => 0,
            };
            results[case].push(measure_all(
                &nodes.processes,
                Some(cluster),
                || match case {
                    0 => cases::drain(&nodes, &receiver, backlog),
                    _ => cases::deliver_all(&nodes, &keys, concurrency, &receiver, limit),
                },
            )?);
        }
    }
    let names = [
        "backlog drained, one node",
        "created and delivered, all at once, one node",
    ];
    for ((name, samples), floors) in names.into_iter().zip(&results).zip(&floors) {
        report.rate(name, samples, Some(&floor("bare client", floors, None)));
    }
    Ok(())
}

/// Measures the write turn: with one booking in it, handed over between two nodes, and with as many bookings as arrive.
///
/// Nodes with work do nothing but take turns, so a turn lasts from one commit to the next. Turns with few and with many
/// bookings together give its fixed cost and its cost per booking.
fn turns(bench: &Bench, report: &mut Report, nodes: [&Nodes; 2]) -> Fallible<()> {
    let cases = [
        ("one node, one client", nodes[0], 1),
        ("two nodes, a client each", nodes[1], 2),
        ("one node, many clients", nodes[0], MANY),
        ("two nodes, many clients", nodes[1], MANY),
    ];
    let mut turns: [Vec<Turn>; 4] = Default::default();
    for _ in 0..bench.repeat {
        for ((_, nodes, clients), turns) in cases.iter().zip(&mut turns) {
            turns.push(Turn::measure(bench, nodes, *clients)?);
        }
    }
    let middle = |turns: &[Turn], of: fn(&Turn) -> f64| median(turns.iter().map(of).collect());
    for ((name, ..), turns) in cases.iter().zip(&turns) {
        let (time, bookings) = (middle(turns, |t| t.micros), middle(turns, |t| t.bookings));
        report.value(&format!("a turn, {name}"), time, "µs", None);
        report.value(&format!("bookings in it, {name}"), bookings, "", None);
    }
    for (name, few, many) in [("one node", 0, 2), ("two nodes", 1, 3)] {
        let (few, many) = (&turns[few], &turns[many]);
        let least = middle(few, |t| t.micros);
        let more = middle(many, |t| t.bookings) - middle(few, |t| t.bookings);
        let each = ((middle(many, |t| t.micros) - least) / more.max(1.0)).max(0.0);
        let limit = BATCH * 1e6 / (least + each * (BATCH - 1.0));
        let what = format!("each booking more in a turn, {name}");
        report.value(&what, each, "µs", None);
        let what = format!("bookings per second in full turns, {name}");
        report.value(&what, limit, "", None);
    }
    Ok(())
}

/// The turns of one load.
struct Turn {
    /// The duration of one turn including its handover, microseconds.
    micros: f64,
    bookings: f64,
}

impl Turn {
    fn measure(bench: &Bench, nodes: &Nodes, clients: usize) -> Fallible<Self> {
        let addrs = nodes.addrs();
        let keys = cases::partners(addrs[0], clients.min(bench.concurrency), None)?;
        let before = nodes.transactions()?;
        let (timing, _) = cases::create(&addrs, &keys, clients, bench.limit())?;
        let turns = (nodes.transactions()? - before - 1).max(1) as f64;
        Ok(Self {
            micros: timing.elapsed.as_secs_f64() * 1e6 / turns,
            bookings: timing.turns as f64 / turns,
        })
    }
}
