//! `migrate`: brings the schema of a database up to date, as a server does at its start.
//!
//! The store does it; this file asks for it and shows the result.

use bookguard_core::service::OpenError;
use bookguard_core::store::schema::{self, Upgraded};
use bookguard_core::store::{Database, StoreError};
use clap::Args;
use serde_json::json;
use tokio::task::block_in_place;

use super::declare::{Call, CliCommand, alone};
use crate::failure::Failure;

#[derive(Debug, Args)]
struct MigrateArgs {
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn command() -> CliCommand {
    let about = "Upgrade the schema of a database, as `serve` does at its start";
    alone("migrate", about, async |call| run(call)).with::<MigrateArgs>()
}

/// Upgrades a database.
///
/// # Errors
/// [`Failure::Usage`] on a server, [`Failure::Unreachable`] if the database's server cannot be reached, `hard_linked`,
/// [`Failure::Unexpected`] for everything else that failed.
fn run(call: Call<'_>) -> Result<(), Failure> {
    let MigrateArgs { dry_run } = call.args()?;
    let config = call.config()?;
    let db = &config.db;
    let upgraded = block_in_place(|| match dry_run {
        true => would(db),
        false => schema::upgrade(db),
    });
    let upgraded = upgraded.map_err(|error| OpenError::of(db, &error))?;
    let Some(Upgraded { from, to, copy }) = upgraded else {
        return Err(Failure::Unexpected(format!(
            "there is no Bookguard database at {db}. If there was one, or a ledger was moved there, bring that back; for a new ledger, \
             `bookguard serve --db {db}` makes one"
        )));
    };
    let value = json!({"from": from, "to": to, "dryRun": dry_run, "copy": copy});
    call.screen.said(&value, |_| match (from < to, dry_run, copy) {
        (false, ..) => format!("{db} has schema {from} already: nothing to do."),
        (true, true, _) if db.file().is_some() => {
            format!("{db} would be upgraded from schema {from} to {to}, after a copy of it was made beside it.")
        }
        (true, true, _) => format!("{db} would be upgraded from schema {from} to {to}."),
        (true, false, None) => format!("{db} was upgraded from schema {from} to {to}."),
        (true, false, Some(copy)) => format!(
            "{db} was upgraded from schema {from} to {to}. As it was before, it is kept as {}: delete that file once you are \
             sure that you will not go back.",
            copy.display()
        ),
    })
}

/// What an upgrade would do.
fn would(db: &Database) -> Result<Option<Upgraded>, StoreError> {
    let found = schema::look(db)?;
    found.map_or(Ok(None), |found| {
        let from = found.version;
        let (to, copy) = (schema::known().max(from), None);
        if from == to {
            found.require(schema::known())?;
        }
        Ok(Some(Upgraded { from, to, copy }))
    })
}
