//! What Bookguard costs, compared with the least that its work can cost: `cargo bench --profile dist -p bookguard-tests`.
//!
//! The server runs as it is shipped, on a SQLite file whose every commit is flushed, and is driven over
//! kept-alive connections. Right before each result, its floor is measured on the same machine: an HTTP handler that
//! does nothing under the same driver, bare SQLite with the same rows, a bare HTTP client with the same receiver, or
//! bare hashing. The rates vary with the state of the machine, the ratios much less. Figures are medians.
//!
//! `CPU ×` is the server's processor time for each request as a multiple of the empty handler's, and `ratio` its requests per
//! second as a share of the handler's. After the table, figures are listed that have changed by more than 5 % since
//! `tests/benches/baseline.json` was saved. The baseline's latencies, memory and start are those of one machine.
//!
//! For comparison, Svix's server (as of August 2026, its queue in memory, PostgreSQL 15), driven beside the same handler in
//! one run: created 0.036 of the handler's requests per second at 43 times its processor time; created and delivered 0.016 at
//! 95 times; at 20 a second, answers took 2.5 ms (p50) and 5.1 ms (p99).
//!
//! | environment | meaning and default |
//! |---|---|
//! | `BOOKGUARD_BENCH_CONCURRENCY` | concurrent clients; 64 |
//! | `BOOKGUARD_BENCH_SECONDS` | duration of one load; 2 |
//! | `BOOKGUARD_BENCH_REPEAT` | repetitions of each measurement; 3 |
//! | `BOOKGUARD_BENCH_FSYNC_MS` | milliseconds added to every commit, as on a slower disk; 0 |
//! | `BOOKGUARD_BENCH_LARGE` | `1`: also grow the database to a million bookings |
//! | `BOOKGUARD_BENCH_SAVE` | `1`: save the results as the baseline |
//! | `BOOKGUARD_BENCH_ONLY` | parts, comma-separated: `costs`, `webhooks`, `postgres`, `ledger`, `evidence`, `growth`, `instructions` |
//! | `BOOKGUARD_BENCH_BIN` | the server to measure, instead of the one built from this source |
//! | `BOOKGUARD_BENCH_DIR` | parent folder of the SQLite files, for example on another disk |

#[path = "service/baseline.rs"]
mod baseline;
#[path = "service/cases.rs"]
mod cases;
#[path = "service/cluster.rs"]
mod cluster;
#[path = "service/costs.rs"]
mod costs;
#[path = "service/counterparts.rs"]
mod counterparts;
#[path = "service/evidence.rs"]
mod evidence;
#[path = "service/hashing.rs"]
mod hashing;
#[path = "service/http.rs"]
mod http;
#[path = "service/inserts.rs"]
mod inserts;
#[path = "service/instructions.rs"]
mod instructions;
#[path = "service/load.rs"]
mod load;
#[path = "service/paced.rs"]
mod paced;
#[path = "service/parts.rs"]
mod parts;
#[path = "service/postgres.rs"]
mod postgres;
#[path = "service/process.rs"]
mod process;
#[path = "service/receiver.rs"]
mod receiver;
#[path = "service/recovery.rs"]
mod recovery;
#[path = "service/report.rs"]
mod report;
#[path = "service/rows.rs"]
mod rows;
#[path = "service/webhooks.rs"]
mod webhooks;

use std::process::ExitCode;
use std::time::Duration;

use parts::{Bench, PARTS};
use process::CHILD;
use report::Report;

/// The bare client and the empty handler run in this program, under the server's own allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A result whose error ends the benchmark with a sentence.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((first, rest)) if first == CHILD => counterparts::become_counterpart(rest),
        // Only `cargo bench` passes this flag; a test run that compiles every target must not start minutes of load.
        _ if !arguments.iter().any(|argument| argument == "--bench") => {
            println!("a benchmark; run it with: cargo bench --profile dist -p bookguard-tests");
            Ok(())
        }
        _ => run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the benchmark broke off: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Fallible<()> {
    let bench = Bench::new(
        setting("CONCURRENCY", 64)?,
        Duration::from_secs_f64(setting("SECONDS", 2.0)?),
        setting("REPEAT", 3)?,
        Duration::from_millis(setting("FSYNC_MS", 0)?),
        setting("LARGE", 0)? == 1,
    )?;
    let only: String = setting("ONLY", String::new())?;
    if let Some(unknown) = only
        .split(',')
        .find(|name| !name.is_empty() && !PARTS.iter().any(|(known, _)| known == name))
    {
        return Err(format!("BOOKGUARD_BENCH_ONLY names {unknown}, which is not a part").into());
    }
    let mut report = Report::default();
    for (name, part) in PARTS {
        if only.is_empty() || only.split(',').any(|wanted| wanted == name) {
            eprintln!("measuring: {name}");
            part(&bench, &mut report)?;
        }
    }
    let figures = report.print(&bench.title()?);
    if setting("SAVE", 0)? == 1 {
        baseline::save(figures)
    } else {
        baseline::compare(&figures)
    }
}

/// Reads a setting of this benchmark from the environment.
fn setting<T: std::str::FromStr>(name: &str, default: T) -> Fallible<T> {
    let name = format!("BOOKGUARD_BENCH_{name}");
    match std::env::var(&name) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{name} is \"{text}\", which it cannot be").into()),
        Err(_) => Ok(default),
    }
}
