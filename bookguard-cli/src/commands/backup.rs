//! `backup`: copies a database file into another file while it stays in use.
//!
//! The store does it; this file asks for it and shows the result.

use std::path::{Path, PathBuf};

use bookguard_core::key_file::{self, LedgerKeySource};
use bookguard_core::store::backup::{self, BackedUp, BackupError};
use clap::Args;
use serde_json::json;

use super::declare::{Call, CliCommand, alone};
use crate::failure::Failure;
use crate::output::bar::Bar;
use crate::output::table::grouped;
use crate::settings::{self, Where, environment};
use crate::target::only_here;

#[derive(Debug, Args)]
struct BackupArgs {
    /// The file to make; the ledger's key is not in it
    file: PathBuf,
}

pub(super) fn command() -> CliCommand {
    let about = "Copy a database into one file, even while a server runs on it";
    alone("backup", about, |call| Box::pin(async move { run(call) })).with::<BackupArgs>()
}

/// Makes a backup.
///
/// # Errors
/// [`Failure::Usage`] on a server, [`Failure::Refused`] for a file that exists or a database that cannot be copied,
/// [`Failure::Unexpected`] for everything that failed.
fn run(call: Call<'_>) -> Result<(), Failure> {
    let BackupArgs { file } = call.args()?;
    let Where::Database { config, .. } = settings::place(call.place, &environment)? else {
        return Err(only_here("backup"));
    };
    let mut bar = Bar::new();
    let made = backup::backup(&config.db, &file, &mut |done, total| bar.draw(done, total));
    bar.clear();
    let made = made.map_err(|error| match error {
        BackupError::Refused(error) => error.into(),
        BackupError::Failed(why) => Failure::Unexpected(why),
    })?;
    let key = config
        .ledger_key
        .unwrap_or_else(|| LedgerKeySource::File(key_file::default_path(config.db.file())));
    let value = json!({
        "file": file,
        "bytes": made.bytes,
        "origin": made.origin,
        "treeSize": made.size,
        "rootHash": made.root.to_base64(),
        "seconds": made.elapsed.as_secs_f64(),
        "ledgerKey": key.path(),
    });
    call.screen.said(&value, |_| told(&made, &file, &key))
}

fn told(made: &BackedUp, file: &Path, key: &LedgerKeySource) -> String {
    let flag = key.path().map_or_else(String::new, |path| {
        format!(" --ledger-key {}", path.display())
    });
    format!(
        "{file}: {} bytes in {:.2} s.\n\
         The ledger {} with {} entries and the root {}.\n\
         Keep {key} in another place: it is not in the backup, and the backup is useless without it. To check the backup:\n  \
         bookguard ledger verify --backup --db {file}{flag}",
        grouped(made.bytes),
        made.elapsed.as_secs_f64(),
        made.origin,
        grouped(made.size),
        made.root.to_base64(),
        file = file.display(),
    )
}
