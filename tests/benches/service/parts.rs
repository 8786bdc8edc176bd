//! The parts of the benchmark, each with the floors that its results are compared with.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::cases::{self, Sample, measure};
use crate::hashing::LedgerHashing;
use crate::load::Limit;
use crate::postgres::postgres;
use crate::process::{Maker, Process, Server, counterpart};
use crate::receiver::Receiver;
use crate::report::{Aim, Floor, Report, median};
use crate::rows::Rows;
use crate::webhooks::webhooks;
use crate::{Fallible, hashing, instructions};

/// A part, which measures and reports.
pub type Part = fn(&Bench, &mut Report) -> Fallible<()>;

/// All parts by name, in the order of the table.
pub const PARTS: [(&str, Part); 7] = [
    ("bookings", bookings),
    ("webhooks", webhooks),
    ("postgres", postgres),
    ("ledger", ledger),
    ("slow", slow),
    ("growth", growth),
    ("instructions", instructions),
];

const THIRD: Aim = Aim {
    ratio: 1.0 / 3.0,
    text: "1/3",
};
pub const HALF: Aim = Aim {
    ratio: 0.5,
    text: "1/2",
};
/// Bookings in one transaction of bare SQLite: as many as one commit of the server can carry.
const GROUPS: [usize; 2] = [128, 256];
/// Bookings whose rows are inserted into a bare database.
pub const ROWS_BOOKINGS: usize = 20_000;
/// The most memory that an idle server should use, MiB.
const IDLE_MIB: f64 = 30.0;
/// How long a server is left idle before its memory is read.
const REST: Duration = Duration::from_secs(1);
/// How much a booking may slow down in a large database: the variation of this machine from one moment to another.
const FLAT: Aim = Aim {
    ratio: 0.8,
    text: "0.8",
};
/// Bookings in the verified ledger; half of them are protected.
const LEDGER: u64 = 20_000;
/// Bookings in one measurement while the database grows.
const WINDOW: u64 = 10_000;

/// The settings and processes that all parts need.
pub struct Bench {
    /// Concurrent clients.
    pub concurrency: usize,
    /// How long one load runs.
    pub seconds: Duration,
    /// Repetitions of each measurement.
    pub repeat: usize,
    large: bool,
    /// Makes servers.
    pub maker: Maker,
    empty: Process,
}

impl Bench {
    /// Builds and starts what every part needs.
    pub fn new(
        concurrency: usize,
        seconds: Duration,
        repeat: usize,
        commit_delay: Duration,
        large: bool,
    ) -> Fallible<Self> {
        let maker = Maker::new(commit_delay)?;
        let log = std::env::temp_dir().join(format!("bookguard-bench-{}.log", std::process::id()));
        let empty = Process::start(counterpart(&["empty"])?, &log)?;
        fs::remove_file(&log)?;
        Ok(Self {
            concurrency,
            seconds,
            repeat,
            large,
            maker,
            empty,
        })
    }

    /// The conditions under which the figures were measured.
    pub fn title(&self) -> Fallible<String> {
        let cores = std::thread::available_parallelism()?;
        let flush = flush_time(&self.maker)?;
        let delay = match self.maker.commit_delay.as_millis() {
            0 => String::new(),
            ms => format!(", every commit {ms} ms longer"),
        };
        Ok(format!(
            "Bookguard, {} clients, {cores} cores, SQLite synchronous=FULL (a flush here: {flush:.0} µs{delay}), \
             medians of {} × {:?}",
            self.concurrency, self.repeat, self.seconds
        ))
    }

    /// The limit of one load.
    pub fn limit(&self) -> Limit {
        Limit::time(self.seconds)
    }

    /// Measures the empty handler for half as long as a load.
    fn nothing(&self, concurrency: usize) -> Fallible<Sample> {
        measure(&self.empty, || {
            cases::nothing(self.empty.addr, concurrency, Limit::time(self.seconds / 2))
        })
    }
}

/// Measures how long 4 KiB take to reach the disk, in microseconds.
fn flush_time(maker: &Maker) -> Fallible<f64> {
    let folder = maker.folder()?;
    let mut file = fs::File::create(folder.path().join("flush"))?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

/// Makes a floor from the rates of its samples.
pub fn floor(name: &str, samples: &[Sample], aim: Option<Aim>) -> Floor {
    Floor {
        name: name.to_owned(),
        rates: samples.iter().map(|sample| sample.rate).collect(),
        aim,
    }
}

/// Measures bookings created, protected and read, each right after the empty handler.
fn bookings(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    std::thread::sleep(REST);
    let idle = server.process.memory("VmRSS")?;
    let keys = cases::partners(server.process.addr, bench.concurrency, None)?;
    let (addr, limit) = (server.process.addr, bench.limit());
    let mut floors: [Vec<Sample>; 3] = Default::default();
    let mut results: [Vec<Sample>; 3] = Default::default();
    for _ in 0..bench.repeat {
        let mut made = Vec::new();
        for case in 0..3 {
            floors[case].push(bench.nothing(bench.concurrency)?);
            let result = measure(&server.process, || {
                let before = std::mem::take(&mut made);
                let (timing, after) = match case {
                    0 => cases::create(&[addr], &keys, bench.concurrency, limit)?,
                    1 => cases::protect(&[addr], before, limit)?,
                    _ => cases::read(&[addr], before, limit)?,
                };
                made = after;
                Ok(timing)
            })?;
            results[case].push(result);
        }
    }
    report.part("bookings");
    report.rate("empty poem handler", &floors.concat(), None);
    let names = ["created", "protected", "read"];
    for ((name, samples), (floors, aim)) in
        names
            .iter()
            .zip(&results)
            .zip(floors.iter().zip([Some(THIRD), None, None]))
    {
        report.rate(
            name,
            samples,
            Some(&floor("empty poem handler", floors, aim)),
        );
    }
    bare_rows(bench, &server, &results[0], report)?;
    std::thread::sleep(REST);
    report.value("idle memory after the start", idle, "MiB", Some(IDLE_MIB));
    report.value(
        "idle memory after these loads",
        server.process.memory("VmRSS")?,
        "MiB",
        None,
    );
    Ok(())
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
            aim: None,
        };
        report.plain("created", &rates, Some(&floor));
    }
    Ok(())
}

/// Measures bare cryptography, and the check of a whole ledger compared with its hashing.
fn ledger(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    let addr = server.process.addr;
    let keys = cases::partners(addr, bench.concurrency, None)?;
    let (_, made) = cases::create(&[addr], &keys, 4 * bench.concurrency, Limit::turns(LEDGER))?;
    cases::protect(&[addr], made, Limit::turns(LEDGER / 2))?;
    let hashing = LedgerHashing::of(&server.db)?;
    let (mut floors, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..bench.repeat {
        floors.push(hashing.per_second());
        rates.push(verify(bench, &server)?);
    }
    report.part("ledger");
    let floor = Floor {
        name: "bare hashing of the same entries".to_owned(),
        rates: floors,
        aim: Some(HALF),
    };
    report.plain("entries verified", &rates, Some(&floor));
    report.plain("bare SHA-256 of 64 bytes", &[hashing::sha256()], None);
    report.plain(
        "bare HMAC-SHA256 of 350 bytes",
        &[hashing::hmac_sha256()],
        None,
    );
    report.plain("bare Ed25519 signatures", &[hashing::ed25519()], None);
    Ok(())
}

/// Returns the entries per second of `bookguard ledger verify`.
fn verify(bench: &Bench, server: &Server) -> Fallible<f64> {
    let mut command = bench.maker.program();
    command
        .args(["ledger", "verify", "--output", "json", "--db"])
        .arg(&server.db);
    let output = command.output()?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    match (
        answer["verified"].as_bool(),
        answer["entriesPerSecond"].as_f64(),
    ) {
        (Some(true), Some(rate)) => Ok(rate),
        _ => Err(format!("the ledger does not verify: {answer}").into()),
    }
}

/// Measures with commits that take a millisecond longer, which group commit must hide.
fn slow(bench: &Bench, report: &mut Report) -> Fallible<()> {
    if !bench.maker.commit_delay.is_zero() {
        return Ok(());
    }
    let server = bench.maker.server_with(Duration::from_millis(1))?;
    report.part("every commit 1 ms longer");
    for concurrency in [bench.concurrency, 256] {
        let keys = cases::partners(server.process.addr, concurrency, None)?;
        let (mut floors, mut results) = (Vec::new(), Vec::new());
        for _ in 0..bench.repeat {
            floors.push(bench.nothing(concurrency)?);
            results.push(measure(&server.process, || {
                Ok(cases::create(&[server.process.addr], &keys, concurrency, bench.limit())?.0)
            })?);
        }
        let floor = floor("empty poem handler", &floors, None);
        report.rate(
            &format!("created, {concurrency} clients"),
            &results,
            Some(&floor),
        );
    }
    Ok(())
}

/// Measures the same work in a small and in a large database, each right after the empty handler.
fn growth(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    let addr = server.process.addr;
    let keys = cases::partners(addr, bench.concurrency, None)?;
    let mut sizes = vec![10_000, 100_000];
    if bench.large {
        sizes.push(1_000_000);
    }
    report.part("the database grows");
    let mut held = 0;
    let mut small: Option<Vec<f64>> = None;
    for size in sizes {
        cases::create(
            &[addr],
            &keys,
            4 * bench.concurrency,
            Limit::turns(size - held),
        )?;
        held = size;
        let (mut relative, mut results) = (Vec::new(), Vec::new());
        for _ in 0..bench.repeat {
            let nothing = bench.nothing(bench.concurrency)?;
            let sample = measure(&server.process, || {
                Ok(cases::create(&[addr], &keys, bench.concurrency, Limit::turns(WINDOW))?.0)
            })?;
            relative.push(nothing.rate);
            results.push(sample);
            held += WINDOW;
        }
        let what = format!("created, {} thousand in the file", size / 1000);
        report.rate(
            &what,
            &results,
            Some(&Floor {
                name: "empty poem handler".into(),
                rates: relative,
                aim: None,
            }),
        );
        let rates: Vec<f64> = results.iter().map(|sample| sample.rate).collect();
        match &small {
            None => small = Some(rates),
            Some(small) => {
                let floor = Floor {
                    name: "created, 10 thousand in the file".into(),
                    rates: small.clone(),
                    aim: Some(FLAT),
                };
                report.plain(&what, &rates, Some(&floor));
            }
        }
    }
    Ok(())
}

/// Measures the instructions of the server alone, if they can be counted.
fn instructions(bench: &Bench, report: &mut Report) -> Fallible<()> {
    report.part("instructions of the server");
    let event = match instructions::event() {
        Ok(event) => event,
        Err(why) => {
            report.note(
                "thousands per booking",
                &format!("not available here: {why}"),
            );
            return Ok(());
        }
    };
    let time = Duration::from_secs(4);
    let server = bench.maker.server()?;
    let receiver = Receiver::start()?;
    for concurrency in [16, 64, 256] {
        let aim = |limit| (concurrency == 64).then_some(limit);
        let addr = server.process.addr;
        let limit = Limit::time(Duration::from_secs(1));
        let count = |process: &Process, work: &dyn Fn() -> Fallible<u64>| {
            Ok::<f64, Box<dyn std::error::Error + Send + Sync>>(
                instructions::per_operation(process, event, time, work)? / 1000.0,
            )
        };
        let empty = count(&bench.empty, &|| {
            Ok(cases::nothing(bench.empty.addr, concurrency, limit)?.turns)
        })?;
        report.value(
            &format!("empty handler, {concurrency} clients"),
            empty,
            "k",
            None,
        );
        let keys = cases::partners(addr, concurrency, None)?;
        let created = count(&server.process, &|| {
            Ok(cases::create(&[addr], &keys, concurrency, limit)?.0.turns)
        })?;
        report.value(
            &format!("created, {concurrency} clients"),
            created,
            "k",
            aim(180.0),
        );
        let keys = cases::partners(addr, concurrency, Some(receiver.addr))?;
        let delivered = count(&server.process, &|| {
            Ok(cases::deliver_all(&server, &keys, concurrency, &receiver, limit)?.turns)
        })?;
        report.value(
            &format!("created and delivered, {concurrency} clients"),
            delivered,
            "k",
            aim(400.0),
        );
    }
    Ok(())
}
