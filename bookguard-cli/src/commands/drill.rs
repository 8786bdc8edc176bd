//! `drill`: tampers with copies of a database in every known way, and shows what notices each.
//!
//! The core has the list of ways and changes the copies. `scene` records what they are done to, and what those outside keep of it:
//! packets, a mirror, a witness and a time-stamp, all made by the mechanisms themselves. `judge` runs the same mechanisms after each
//! way. Invariants: the database is only read; every cell is what a mechanism said; no network is used; nothing is left behind.

mod judge;
mod scene;
mod show;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bookguard_core::clock::Clock;
use bookguard_core::key_file::LedgerKey;
use bookguard_core::limits::DAY_MS;
use bookguard_core::store::backup;
use bookguard_core::store::drill::{Backup, DrillCopy, Scene, WAYS, Way};
use bookguard_core::store::{Database, Store, transfer};
use bookguard_server::config::Config;
use clap::Args;
use tokio::task::block_in_place;

use super::backup::check_of;
use super::declare::{Call, CliCommand, alone};
use super::demo::scratch;
use super::verify::conclude;
use crate::failure::Failure;
use crate::output::bar::Bar;
use crate::output::say;
use judge::Judged;

/// From this size on, the cost is said beforehand.
const LARGE: u64 = 64 << 20;

#[derive(Debug, Args)]
struct DrillArgs {
    /// Tamper with a small database that is made for it, not with copies of yours
    #[arg(long)]
    demo: bool,
    /// Tamper only in this way, named as in the JSON output; may be given several times
    #[arg(long)]
    way: Vec<String>,
}

pub(super) fn command() -> CliCommand {
    let about = "Tamper with copies of a database in every known way, and show what notices each (exit code 6: not as documented)";
    alone("drill", about, run).with::<DrillArgs>()
}

/// The files of one service, or of one attacker.
struct Files {
    db: PathBuf,
    key: PathBuf,
    guard: PathBuf,
}

impl Files {
    fn within(folder: &Path) -> Self {
        Self {
            db: folder.join("bookguard.db"),
            key: folder.join("bookguard.db.key"),
            guard: folder.join("bookguard.db.key.seen"),
        }
    }
}

/// # Errors
/// [`Failure::NotVerified`] if something is not noticed by what should notice it, or the database does not verify before anything
/// is done to it; [`Failure::Usage`] on a server or for a way that does not exist; [`Failure::Unexpected`] for files and disks.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let DrillArgs { demo, way } = call.args()?;
    let ways = chosen(&way)?;
    let began = Instant::now();
    let mut signals = bookguard_server::signals().map_err(Failure::Unexpected)?;
    let scratch = scratch("bookguard-drill-")?;
    let config = (!demo).then(|| call.config()).transpose()?;
    let drilled = tokio::select! {
        drilled = drill(scratch.path(), config.as_ref(), &ways) => drilled,
        _ = signals.recv() => Err(Failure::Unexpected("the drill was interrupted; nothing is left of its copies".to_owned())),
    };
    drop(scratch);
    let rows = drilled?;
    let seconds = began.elapsed().as_secs_f64();
    let wrong = rows.iter().filter(|row| !row.as_expected()).count();
    call.screen.said(&show::json(&rows, seconds), |style| {
        show::table(&rows, seconds, style)
    })?;
    conclude(
        wrong == 0,
        &format!(
            "{wrong} of {} ways were not noticed as documented.",
            rows.len()
        ),
    )
}

/// The ways of these names; all if there are none.
fn chosen(names: &[String]) -> Result<Vec<&'static Way>, Failure> {
    if names.is_empty() {
        return Ok(WAYS.iter().collect());
    }
    let way = |name: &String| {
        WAYS.iter().find(|way| way.name == name).ok_or_else(|| {
            let all: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
            Failure::Usage(format!(
                "there is no way \"{name}\"; the ways are {}",
                all.join(", ")
            ))
        })
    };
    names.iter().map(way).collect()
}

async fn drill(
    folder: &Path,
    config: Option<&Config>,
    ways: &[&'static Way],
) -> Result<Vec<Judged>, Failure> {
    let whole = folder.join("whole");
    fs::create_dir(&whole).map_err(|e| unwritable(&e))?;
    let files = Files::within(&whole);
    if let Some(config) = config {
        block_in_place(|| copied(config, &files))?;
    }
    let bytes = fs::metadata(&files.db).map_or(0, |file| file.len());
    let (scene, outside) = scene::recorded(&files, &whole).await?;
    let began = Instant::now();
    let clean = judge::verify(&copy(&whole, folder, "clean", scene)?).await?;
    if let Some(why) = clean {
        return Err(Failure::NotVerified(format!(
            "The database does not verify before anything is done to it: {why}. `bookguard ledger verify` says more."
        )));
    }
    if bytes > LARGE {
        say(&format!(
            "The database has {} MiB. Each of the {} ways copies and checks it, which takes about {:.0} s, and the copies take {} MiB in {}.",
            bytes >> 20,
            ways.len(),
            began.elapsed().as_secs_f64() * 2.0,
            (bytes >> 20) * 6,
            folder.display(),
        ));
    }
    // Services complain about the damage; the table says what each noticed.
    bookguard_server::logging::hush();
    let mut bar = Bar::new();
    let mut rows = Vec::with_capacity(ways.len());
    for (done, way) in (0..).zip(ways) {
        bar.draw(done, ways.len() as u64);
        let own = copy(&whole, folder, "own", scene)?;
        let theirs = match way.by.is_elsewhere() {
            true => Some(copy(&whole, folder, "theirs", scene)?),
            false => None,
        };
        let judged = judge::way(way, &own, theirs.as_ref(), &outside, folder).await;
        bar.clear();
        rows.push(judged?);
    }
    bar.clear();
    Ok(rows)
}

/// A fresh copy of the whole in a folder of its own.
fn copy(whole: &Path, folder: &Path, name: &str, scene: Scene) -> Result<DrillCopy, Failure> {
    // A service that the last way damaged may take a moment to let go of its files.
    let places = (0_u32..).map(|n| folder.join(format!("{name}-{n}")));
    let mut free = places.filter(|place| {
        let _ = fs::remove_dir_all(place);
        !place.exists()
    });
    let place = free.next().unwrap_or_else(|| folder.join(name));
    let (from, to) = (Files::within(whole), Files::within(&place));
    fs::create_dir(&place)
        .and_then(|()| fs::copy(whole.join(Backup::Last.file()), &to.db))
        .and_then(|_| fs::copy(&from.key, &to.key))
        .and_then(|_| fs::copy(whole.join(Backup::GUARD), &to.guard))
        .map_err(|e| unwritable(&e))?;
    Ok(DrillCopy {
        db: to.db,
        key: to.key,
        guard: to.guard,
        backups: whole.to_owned(),
        scene,
    })
}

/// Copies the database and its key, whichever engine it is on.
fn copied(config: &Config, to: &Files) -> Result<(), Failure> {
    let source = check_of(config).ledger_key;
    let key = LedgerKey::find(&source).map_err(Failure::Unexpected)?;
    let key = key.ok_or_else(|| {
        let why = match Store::look(&config.db) {
            Err(why) => format!("{}: {why}", config.db),
            Ok(_) => format!(
                "{source} is missing, and the drill signs with a copy of it: name the key with --ledger-key"
            ),
        };
        Failure::Usage(format!(
            "{why}. Without a database, `bookguard drill --demo` makes one"
        ))
    })?;
    match &config.db {
        db @ Database::File(_) => {
            Bar::during(|draw| backup::backup(db, &to.db, config.min_free_disk, draw))?;
        }
        db @ Database::Postgres(_) => {
            let to = Database::File(to.db.clone());
            Bar::during(|draw| transfer::copy_into(db, &to, draw))?;
        }
    }
    key.save(&to.key).map(drop).map_err(Failure::Unexpected)
}

/// The time of the drill, a year ago for a clock that is behind.
fn year_ago() -> Clock {
    let ms = Clock::System.now().ms() - 365 * DAY_MS;
    Clock::Set(std::sync::Arc::new(ms.into()))
}

fn unwritable(error: &std::io::Error) -> Failure {
    Failure::Unexpected(format!(
        "the copies cannot be written: {error}. They are in the temporary directory, which TMPDIR names"
    ))
}
