//! `transfer`: moves everything to another database, with a progress bar; and undoes a move that failed.
//!
//! The store decides what may be moved and how; this file calls it and shows the result.

use std::path::{Path, PathBuf};

use bookguard_core::features::epochs;
use bookguard_core::guard::Guard;
use bookguard_core::key_file::{LedgerKey, LedgerKeySource};
use bookguard_core::ledger::rollback::entries;
use bookguard_core::log::Log;
use bookguard_core::service::{Service, ServiceConfig};
use bookguard_core::store::backup::BackupCheck;
use bookguard_core::store::transfer::{self, TransferError, Transferred};
use bookguard_core::store::{Database, Store};
use clap::Args;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::declare::{Call, CliCommand, alone};
use crate::args::GlobalArgs;
use crate::consent;
use crate::failure::Failure;
use crate::output::Screen;
use crate::output::bar::Bar;
use crate::output::table::{Style, counted, grouped};
use crate::settings::{self, environment};

pub(super) fn command() -> CliCommand {
    let about = "Move everything to another database, from a file to PostgreSQL or back";
    alone("transfer", about, async |call| run(call)).with::<TransferArgs>()
}

/// The arguments of `transfer`.
#[derive(Debug, Args)]
struct TransferArgs {
    /// The database to move: a file, or postgres://…; from then on it only answers reads [env: BOOKGUARD_TRANSFER_FROM]
    #[arg(long, value_name = "DATABASE")]
    from: Option<Database>,
    /// Where to: an empty database, or a file yet to be made; with --reopen, where it was moved to, if its address needs a
    /// password [env: BOOKGUARD_TRANSFER_TO]
    #[arg(long, value_name = "DATABASE")]
    to: Option<Database>,
    /// Undo a failed move: the source takes writes again and the target takes none, if nothing was
    /// written there
    #[arg(long)]
    reopen: bool,
    /// Answer the question of --reopen with yes
    #[arg(long, requires = "reopen")]
    yes: bool,
    /// Reopen even if the other database cannot be examined, or is named with --to by another address: if it was ever
    /// written, one ledger has two histories
    #[arg(long, requires = "reopen")]
    risk_two_histories: bool,
}

/// Moves a database, or undoes a move.
///
/// # Errors
/// [`Failure::Usage`]; [`Failure::Refused`] if these databases cannot be moved; [`Failure::NotVerified`] for a damaged
/// source or a copy that differs; [`Failure::Unexpected`] for everything that failed.
fn run(call: Call<'_>) -> Result<(), Failure> {
    let (place, screen) = (call.place, call.screen);
    let args = &call.args::<TransferArgs>()?;
    if place.settings.has("db") || place.url.is_some() || place.partner.is_some() {
        return Err(Failure::Usage(
            "transfer works on the databases that --from and --to name; it takes no --db, --url or --partner".to_owned(),
        ));
    }
    let from = named(&args.from, "--from", "BOOKGUARD_TRANSFER_FROM")?;
    if args.reopen {
        return reopen(place, &from, args, screen);
    }
    let to = named(&args.to, "--to", "BOOKGUARD_TRANSFER_TO")?;
    go(place, &from, &to, screen)
}

/// The database named by a flag or by the environment, where an address may hold a password.
fn named(flag: &Option<Database>, name: &str, variable: &str) -> Result<Database, Failure> {
    let database = flag.clone();
    let database = database.or_else(|| environment(variable).map(Database::from));
    let database = database.ok_or_else(|| {
        Failure::Usage(format!(
            "which database? name it with {name}, or in {variable}: a file, or postgres://…"
        ))
    })?;
    database.check().map_err(Failure::Usage)?;
    Ok(database)
}

/// Where to find the key and the guard of the ledger that is, or was, in this database.
fn key_and_guard(place: &GlobalArgs, from: &Database) -> Result<BackupCheck, Failure> {
    let config = settings::config(place, None, &environment)?;
    let (key, guard) = (config.ledger_key, config.guard_file);
    Ok(BackupCheck::new(from, key, guard))
}

fn go(place: &GlobalArgs, from: &Database, to: &Database, screen: &Screen) -> Result<(), Failure> {
    let BackupCheck {
        ledger_key: at,
        guard_file: guard,
    } = key_and_guard(place, from)?;
    let key = LedgerKey::find(&at).map_err(Failure::Unexpected)?;
    let key = key.ok_or_else(|| no_key(from, &at))?;
    let mut record_last = || record_last(from, &at, &guard);
    let opened = Guard::open(guard.clone()).map_err(Failure::Unexpected)?;
    let log = Log::new(key, opened);
    let moved = Bar::during(|draw| {
        block_in_place(|| transfer::transfer(from, to, &log, &mut record_last, draw))
    })?;
    screen.said(&described(&moved, from, to, &at), |style| {
        in_words(&moved, from, to, &at, style)
    })
}

/// Records the log's last entry in its present place.
fn record_last(from: &Database, at: &LedgerKeySource, guard: &Path) -> Result<(), String> {
    let (service, closing) = Service::open(ServiceConfig {
        create: false,
        upgrade: false,
        ledger_key: Some(at.clone()),
        guard_file: Some(guard.to_owned()),
        ..ServiceConfig::of(from.clone())
    })
    .map_err(|e| e.to_string())?;
    let recorded = epochs::record_last(&service).map_err(|e| e.message);
    drop(service);
    closing.wait();
    recorded
}

/// Why the key was not found: perhaps there is no such database either.
fn no_key(from: &Database, at: &LedgerKeySource) -> Failure {
    if let Err(why) = block_in_place(|| Store::look(from)) {
        return Failure::Unexpected(format!("{from}: {why}"));
    }
    Failure::Unexpected(format!(
        "{from}: {at} is missing, and the ledger cannot continue anywhere without it; restore the file or name it with \
         --ledger-key"
    ))
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Refused(error) => error.into(),
            TransferError::NotVerified(why) => Self::NotVerified(why),
            TransferError::Failed(why) => Self::Unexpected(why),
        }
    }
}

fn described(moved: &Transferred, from: &Database, to: &Database, key: &LedgerKeySource) -> Value {
    let tables: serde_json::Map<String, Value> = (moved.tables.iter())
        .map(|(name, rows)| ((*name).to_owned(), json!(rows)))
        .collect();
    json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "origin": moved.origin,
        "treeSize": moved.size,
        "rootHash": moved.root,
        "tables": tables,
        "rows": moved.rows(),
        "rowsPerSecond": moved.rows_per_second().round() as u64,
        "seconds": moved.elapsed.as_secs_f64(),
        "ledgerKey": key.path().map(absolute),
    })
}

fn in_words(
    moved: &Transferred,
    from: &Database,
    to: &Database,
    key: &LedgerKeySource,
    style: Style,
) -> String {
    let mut lines = Vec::new();
    if moved.again {
        lines.push(format!(
            "An earlier move to {to} had already marked {from}; this one started from the beginning."
        ));
    }
    lines.push(format!(
        "{} rows of {} tables moved and compared in {:.2} s ({} rows/s).",
        grouped(moved.rows()),
        moved.tables.len(),
        moved.elapsed.as_secs_f64(),
        grouped(moved.rows_per_second().round() as u64)
    ));
    lines.push(format!(
        "The ledger {} has {} and the root {} in both.{}",
        moved.origin,
        counted(moved.size, "entry"),
        moved.root,
        match moved.size {
            0 => "",
            _ => " The last one is a map that was recorded for the move: older backups lack it.",
        }
    ));
    lines.push(style.good(&format!(
        "Moved: the ledger continues in {to}; {from} takes no more writes."
    )));
    lines.push(format!(
        "Servers on {from} still answer reads, with the data as of the move; stop them once the new servers run."
    ));
    let key = key.path().map_or_else(String::new, |path| {
        format!(" --ledger-key {}", absolute(path).display())
    });
    lines.push(format!(
        "The ledger key was not moved. It stays the same: every server on the new database needs it, with the guard file \
         beside it. Now:\n  \
         bookguard ledger verify --db {to}{key}\n  \
         bookguard serve --db {to}{key}"
    ));
    lines.join("\n")
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn reopen(
    place: &GlobalArgs,
    database: &Database,
    args: &TransferArgs,
    screen: &Screen,
) -> Result<(), Failure> {
    let to = args.to.clone();
    let to = to.or_else(|| environment("BOOKGUARD_TRANSFER_TO").map(Database::from));
    let unseen = args.risk_two_histories;
    let moved_to = block_in_place(|| transfer::moved_to(database))?;
    if let Some(place) = &moved_to {
        let risk = if unseen {
            format!(
                " If {place} cannot be examined, this continues all the same: if anything was ever written there, or ever is, \
                 one ledger has two histories, and partners will see both."
            )
        } else {
            String::new()
        };
        consent::ask(
            &format!(
                "The ledger of {database} was moved to {place}. If nothing was written there since, {database} takes writes \
                 again and {place} takes none.{risk}"
            ),
            args.yes,
        )?;
    }
    // If the ledger was not moved, the store refuses in the same words, whether or not the user was asked.
    let guard = Guard::open(key_and_guard(place, database)?.guard_file);
    let published = guard.map_err(Failure::Unexpected)?.seen();
    let opened =
        block_in_place(|| transfer::reopen(database, to.as_ref(), unseen, published.as_deref()))?;
    let (database, place) = (database.to_string(), opened.moved_to);
    let lacking = opened.lacking.first();
    let value = json!({
        "reopened": database,
        "wasMovedTo": place,
        "closed": opened.seen,
        "takesWrites": lacking.is_none(),
    });
    let outcome = lacking.map_or_else(
        || format!("{database} takes writes again"),
        |lost| {
            format!(
                "{database} is open again, but takes no writes yet: {} of log {} were published, and it lacks some of them. Bring back \
                 a database that holds them; or accept the loss with `bookguard ledger accept-rollback`",
                entries(lost.size),
                lost.origin
            )
        },
    );
    screen.said(&value, |_| match opened.seen {
        true => format!("{outcome}. Its ledger continues here, and {place} is closed."),
        false => format!(
            "{outcome}. {place} could not be examined and is not closed: never serve it or a copy of it."
        ),
    })
}
