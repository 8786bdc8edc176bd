//! The parts of the benchmark, each with the floors that its results are compared with.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cases::{self, Sample, measure};
use crate::costs::costs;
use crate::evidence::evidence;
use crate::hashing::LedgerHashing;
use crate::load::Limit;
use crate::postgres::postgres;
use crate::process::{Maker, Process, Server, counterpart};
use crate::receiver::Receiver;
use crate::report::{Aim, Floor, Report, median};
use crate::webhooks::webhooks;
use crate::{Fallible, hashing, instructions};

/// A part, which measures and reports.
pub type Part = fn(&Bench, &mut Report) -> Fallible<()>;

/// All parts by name, in the order of the table.
pub const PARTS: [(&str, Part); 7] = [
    ("costs", costs),
    ("webhooks", webhooks),
    ("postgres", postgres),
    ("ledger", ledger),
    ("evidence", evidence),
    ("growth", growth),
    ("instructions", instructions),
];

pub const HALF: Aim = Aim {
    ratio: 0.5,
    text: "1/2",
};
/// Bookings whose rows are inserted into a bare database.
pub const ROWS_BOOKINGS: usize = 20_000;
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
    /// The limit of one load.
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
    pub fn nothing(&self, concurrency: usize) -> Fallible<Sample> {
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
        cpu_us: samples.iter().map(|sample| sample.cpu_us).collect(),
        aim,
    }
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
        ..Floor::default()
    };
    report.plain("entries verified", &rates, Some(&floor));
    let rates = audit(bench, &server)?;
    report.plain("entries of a mirrored log read, maps audited", &rates, None);
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

/// Returns the entries per second of new monitors that read the whole log from a mirror's folder and make every map anew.
fn audit(bench: &Bench, server: &Server) -> Fallible<Vec<f64>> {
    let ledger = |arguments: &[&OsStr]| -> Fallible<String> {
        let mut command = bench.maker.program();
        let output = command.arg("ledger").args(arguments).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("ledger {arguments:?}: {why}").into());
        }
        Ok(String::from_utf8(output.stdout)?)
    };
    let key = ledger(&["key".as_ref(), "--db".as_ref(), server.db.as_ref()])?;
    let key = key.trim();
    let folder = server.folder.path();
    let log = format!("http://{}", server.process.addr);
    let mirror = folder.join("mirror");
    let follow = |how: &str, log: &OsStr, to: &Path| {
        ledger(&[
            how.as_ref(),
            log,
            to.as_ref(),
            "--key".as_ref(),
            key.as_ref(),
        ])
    };
    follow("mirror", log.as_ref(), &mirror)?;
    let checkpoint = fs::read_to_string(mirror.join("checkpoint"))?;
    let size = checkpoint
        .lines()
        .nth(1)
        .ok_or("a checkpoint has no size")?;
    let size: f64 = size.parse()?;
    let mut rates = Vec::new();
    for turn in 0..bench.repeat {
        let began = Instant::now();
        follow(
            "monitor",
            mirror.as_ref(),
            &folder.join(format!("monitor-{turn}")),
        )?;
        rates.push(size / began.elapsed().as_secs_f64());
    }
    Ok(rates)
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
        let more = Limit::turns(size - held);
        cases::create(&[addr], &keys, 4 * bench.concurrency, more)?;
        held = size;
        let (mut floors, mut results) = (Vec::new(), Vec::new());
        for _ in 0..bench.repeat {
            floors.push(bench.nothing(bench.concurrency)?);
            let sample = measure(&server.process, || {
                Ok(cases::create(&[addr], &keys, bench.concurrency, Limit::turns(WINDOW))?.0)
            })?;
            results.push(sample);
            held += WINDOW;
        }
        let what = format!("created, {} thousand in the file", size / 1000);
        let beside = floor("empty poem handler", &floors, None);
        report.rate(&what, &results, Some(&beside));
        let rates: Vec<f64> = results.iter().map(|sample| sample.rate).collect();
        match &small {
            None => small = Some(rates),
            Some(small) => {
                let floor = Floor {
                    name: "created, 10 thousand in the file".into(),
                    rates: small.clone(),
                    aim: Some(FLAT),
                    ..Floor::default()
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
        let what = format!("empty handler, {concurrency} clients");
        report.value(&what, empty, "k", None);
        let keys = cases::partners(addr, concurrency, None)?;
        let created = count(&server.process, &|| {
            Ok(cases::create(&[addr], &keys, concurrency, limit)?.0.turns)
        })?;
        let what = format!("created, {concurrency} clients");
        report.value(&what, created, "k", aim(180.0));
        let keys = cases::partners(addr, concurrency, Some(receiver.addr))?;
        let delivered = count(&server.process, &|| {
            Ok(cases::deliver_all(&server, &keys, concurrency, &receiver, limit)?.turns)
        })?;
        let what = format!("created and delivered, {concurrency} clients");
        report.value(&what, delivered, "k", aim(400.0));
    }
    Ok(())
}
