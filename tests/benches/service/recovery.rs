//! How soon after kill -9 a server's pending webhooks go out: from a new process, and from another node.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::cases;
use crate::cluster::Cluster;
use crate::load::Limit;
use crate::parts::Bench;
use crate::process::Target;
use crate::receiver::Receiver;
use crate::report::{Report, median};

/// Webhooks that the killed server holds.
const HELD: u64 = 2_000;
/// The most seconds from the kill until the last webhook arrives.
const SOON_S: f64 = 5.0;
/// How long the benchmark waits for it.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the benchmark looks.
const LOOK: Duration = Duration::from_millis(1);

/// Seconds from the kill until the first webhook arrived, and until the last did.
struct Recovery {
    first: f64,
    last: f64,
}

impl Recovery {
    fn watch(receiver: &Receiver, killed: Instant, held: usize) -> Fallible<Self> {
        let after = |count: usize| -> Fallible<f64> {
            while receiver.bookings() < count {
                if killed.elapsed() > PATIENCE {
                    let came = receiver.bookings();
                    return Err(format!("of {held} webhooks only {came} came").into());
                }
                std::thread::sleep(LOOK);
            }
            Ok(killed.elapsed().as_secs_f64())
        };
        Ok(Self {
            first: after(1)?,
            last: after(held)?,
        })
    }

    fn report(report: &mut Report, place: &str, of: &[Self]) {
        let middle = |part: fn(&Self) -> f64| median(of.iter().map(part).collect());
        let what = format!("kill -9 until the first of {HELD} webhooks, {place}");
        report.value(&what, middle(|r| r.first), "s", None);
        let what = format!("kill -9 until the last of {HELD} webhooks, {place}");
        report.value(&what, middle(|r| r.last), "s", Some(SOON_S));
    }
}

/// Creates bookings whose webhooks are not answered.
fn hold(bench: &Bench, target: &impl Target, receiver: &Receiver) -> Fallible<usize> {
    let server = target.addrs()[0];
    let keys = cases::partners(server, bench.concurrency, Some(receiver.addr))?;
    receiver.forget();
    receiver.open(false);
    let (_, made) = cases::create(&[server], &keys, bench.concurrency, Limit::turns(HELD))?;
    Ok(made.iter().map(cases::Made::len).sum())
}

/// Measures a server on a file that is killed and started again.
pub fn of_a_file(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let mut times = Vec::new();
    for _ in 0..bench.repeat {
        let (mut server, receiver) = (bench.maker.server()?, Receiver::start()?);
        let held = hold(bench, &server, &receiver)?;
        server.process.kill()?;
        let killed = Instant::now();
        receiver.open(true);
        bench.maker.restart(&mut server)?;
        times.push(Recovery::watch(&receiver, killed, held)?);
    }
    Recovery::report(report, "started again", &times);
    Ok(())
}

/// Measures the only node on a server, killed and started again, and one of two nodes, killed.
pub fn of_nodes(bench: &Bench, report: &mut Report, cluster: &Cluster) -> Fallible<()> {
    for (place, count) in [("one node started again", 1), ("the other node", 2)] {
        let mut times = Vec::new();
        for _ in 0..bench.repeat {
            let (mut nodes, receiver) = (cluster.nodes(&bench.maker, count)?, Receiver::start()?);
            let held = hold(bench, &nodes, &receiver)?;
            nodes.processes[0].kill()?;
            let killed = Instant::now();
            receiver.open(true);
            if count == 1 {
                nodes.add(&bench.maker)?;
            }
            times.push(Recovery::watch(&receiver, killed, held)?);
        }
        Recovery::report(report, place, &times);
    }
    Ok(())
}
