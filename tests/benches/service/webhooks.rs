//! Webhooks: how fast a backlog goes out, how soon a single one arrives, and how a hanging receiver affects the others.

use crate::cases::{self, Sample, measure};
use crate::load::{Limit, Timing};
use crate::paced::{self, From};
use crate::parts::{Bench, floor};
use crate::process::counterpart;
use crate::receiver::Receiver;
use crate::report::{Aim, Report, median};
use crate::{Fallible, recovery};

use std::time::Duration;

const SIX_TENTHS: Aim = Aim {
    ratio: 0.6,
    text: "0.6",
};
const FIFTH: Aim = Aim {
    ratio: 0.2,
    text: "1/5",
};
/// Bookings a second at which none waits for another.
pub const CALM: u32 = 20;
/// How much longer a paced load runs than one at full speed: a 99th percentile needs some hundred turns.
pub const LONGER: u32 = 5;
/// The aim for the time from an answer to its webhook, milliseconds.
const SOON_MS: f64 = 0.5;
/// Receivers, one of which hangs.
const RECEIVERS: usize = 20;
/// Bookings a second for all of them together.
const BUSY: u32 = 400;
/// The most that the hanging receiver may slow down the others, as a factor.
const APART: f64 = 2.0;

/// Measures all cases, each right after its floor.
pub fn webhooks(bench: &Bench, report: &mut Report) -> Fallible<()> {
    report.part("webhooks");
    at_full_speed(bench, report)?;
    for endpoints in [1, 100] {
        to_endpoints(bench, report, endpoints)?;
    }
    soon(bench, report)?;
    apart(bench, report)?;
    recovery::of_a_file(bench, report)
}

/// Measures a backlog drained, and bookings created and delivered.
fn at_full_speed(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    let receiver = Receiver::start()?;
    let concurrency = bench.concurrency;
    let keys = cases::partners(server.process.addr, concurrency, Some(receiver.addr))?;
    // One delivery, to get the body that the bare client posts.
    cases::deliver_one_by_one(&server, &keys, 1, &receiver, Limit::turns(1))?;
    let body = String::from_utf8(receiver.body())?;
    let mut floors: [Vec<Sample>; 3] = Default::default();
    let mut results: [Vec<Sample>; 3] = Default::default();
    for _ in 0..bench.repeat {
        for case in 0..3 {
            let time = bench.seconds / 2;
            floors[case].push(bare_client(&receiver, concurrency, time, &body)?);
            let limit = bench.limit();
            let result = match case {
                0 => {
                    let backlog = cases::pile_up(&server, &keys, concurrency, &receiver, limit)?;
                    measure(&server.process, || {
                        cases::drain(&server, &receiver, backlog)
                    })?
                }
                1 => measure(&server.process, || {
                    cases::deliver_all(&server, &keys, concurrency, &receiver, limit)
                })?,
                _ => measure(&server.process, || {
                    cases::deliver_one_by_one(&server, &keys, concurrency, &receiver, limit)
                })?,
            };
            results[case].push(result);
        }
    }
    report.rate("bare client", &floors.concat(), None);
    let names = [
        ("backlog drained (latency: one attempt)", Some(SIX_TENTHS)),
        ("created and delivered, all at once", Some(FIFTH)),
        ("created and delivered, client waits for its own", None),
    ];
    for (((name, aim), samples), floors) in names.into_iter().zip(&results).zip(&floors) {
        report.rate(name, samples, Some(&floor("bare client", floors, aim)));
    }
    Ok(())
}

/// Measures a backlog drained to `endpoints` endpoints, compared with a bare client that has as many requests in flight as
/// they may have together.
fn to_endpoints(bench: &Bench, report: &mut Report, endpoints: usize) -> Fallible<()> {
    let server = bench.maker.server()?;
    let receiver = Receiver::start()?;
    let in_flight = endpoints * bookguard_core::limits::IN_FLIGHT_PER_ENDPOINT;
    let keys = cases::partners(server.process.addr, in_flight, Some(receiver.addr))?;
    cases::deliver_one_by_one(&server, &keys, 1, &receiver, Limit::turns(1))?;
    let body = String::from_utf8(receiver.body())?;
    let clients = bench.concurrency.max(endpoints);
    let (mut floors, mut results) = (Vec::new(), Vec::new());
    for _ in 0..bench.repeat {
        let (number, time) = (in_flight.min(bench.concurrency), bench.seconds / 2);
        floors.push(bare_client(&receiver, number, time, &body)?);
        let backlog = cases::pile_up(&server, &keys, clients, &receiver, bench.limit())?;
        results.push(measure(&server.process, || {
            cases::drain(&server, &receiver, backlog)
        })?);
    }
    let name = match endpoints {
        1 => "backlog drained to one endpoint".to_owned(),
        n => format!("backlog drained to {n} endpoints"),
    };
    let floor = floor("bare client, as many in flight", &floors, Some(SIX_TENTHS));
    report.rate(&name, &results, Some(&floor));
    Ok(())
}

/// Measures the time from an answer to its webhook on an otherwise idle server.
fn soon(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    let receiver = Receiver::start()?;
    let keys = cases::partners(server.process.addr, 1, Some(receiver.addr))?;
    let (mut bare, mut answered, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    let (addr, time) = (server.process.addr, bench.seconds * LONGER);
    // Once before the measurement, so that connections are open.
    paced::create(addr, &keys, CALM, bench.seconds / 2)?;
    let body = String::from_utf8(receiver.body())?;
    for _ in 0..bench.repeat {
        bare.push(counterpart_client(
            "pace",
            &receiver,
            CALM as usize,
            time / 2,
            &body,
        )?);
        let noted = paced::create(addr, &keys, CALM, time)?;
        let noted = || noted.iter().flatten();
        answered.push(sample(&paced::timing(&receiver, noted(), From::Answered)?));
        asked.push(sample(&paced::timing(&receiver, noted(), From::Asked)?));
    }
    let pace = format!("{CALM} a second");
    let what = format!("bare client's request, there and back, {pace}");
    report.rate(&what, &bare, None);
    report.rate(&format!("created until received, {pace}"), &asked, None);
    report.rate(&format!("answered until received, {pace}"), &answered, None);
    let p50 = median(answered.iter().map(|sample| sample.p50).collect());
    let what = format!("half of them, answered until received, {pace}");
    report.value(&what, p50, "ms", Some(SOON_MS));
    Ok(())
}

/// Measures how a receiver that takes requests and never answers affects the others.
fn apart(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    let (receiver, other) = (Receiver::start()?, Receiver::start()?);
    let addr = server.process.addr;
    let one_each = |count: usize, receiver: &Receiver| {
        let clients = count * bookguard_core::limits::IN_FLIGHT_PER_ENDPOINT;
        cases::partners(addr, clients, Some(receiver.addr))
    };
    let mut keys = one_each(RECEIVERS - 1, &receiver)?;
    keys.extend(one_each(1, &other)?);
    let time = bench.seconds * LONGER;
    paced::create(addr, &keys, BUSY, bench.seconds / 2)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..bench.repeat {
        for (open, results) in [(true, &mut without), (false, &mut with)] {
            other.open(open);
            receiver.forget();
            let noted = paced::create(addr, &keys, BUSY, time)?;
            let others = noted.iter().take(RECEIVERS - 1).flatten();
            results.push(sample(&paced::timing(&receiver, others, From::Asked)?));
        }
    }
    let name = format!("created until received, {RECEIVERS} endpoints, {BUSY} a second");
    report.rate(&name, &without, None);
    report.rate("the same, while one of them hangs: the others", &with, None);
    let pairs = without.iter().zip(&with);
    let slower = median(
        pairs
            .map(|(without, with)| with.p99 / without.p99)
            .collect(),
    );
    let what = "their 99th percentile, so many times as long";
    report.value(what, slower, "×", Some(APART));
    Ok(())
}

/// Makes a sample with only the times.
fn sample(timing: &Timing) -> Sample {
    Sample {
        rate: timing.rate(),
        p50: timing.percentile(50),
        p99: timing.percentile(99),
        cpu_us: f64::NAN,
        database_us: f64::NAN,
        peak: f64::NAN,
    }
}

/// Measures a bare client's rate, in a process of its own.
pub fn bare_client(
    receiver: &Receiver,
    concurrency: usize,
    time: Duration,
    body: &str,
) -> Fallible<Sample> {
    counterpart_client("post", receiver, concurrency, time, body)
}

fn counterpart_client(
    role: &str,
    receiver: &Receiver,
    number: usize,
    time: Duration,
    body: &str,
) -> Fallible<Sample> {
    let url = format!("http://{}/hook", receiver.addr);
    let (number, time) = (number.to_string(), time.as_millis().to_string());
    let output = counterpart(&[role, &url, &number, &time, body])?.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let said = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = said
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [rate, p50, p99] = numbers[..] else {
        return Err(format!("the bare client said {said}").into());
    };
    receiver.forget();
    Ok(Sample {
        rate,
        p50,
        p99,
        ..sample(&Timing::default())
    })
}
