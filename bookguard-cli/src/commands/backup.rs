//! `backup`: copies a database file into another file, while it stays in use.
//!
//! The store does it; here it is asked for and shown.

use std::path::Path;

use bookguard_core::key_file::{self, LedgerKeySource};
use bookguard_core::store::backup::{self, BackedUp, BackupError};
use serde_json::json;

use crate::args::{Format, GlobalArgs};
use crate::failure::Failure;
use crate::output::bar::Bar;
use crate::output::table::grouped;
use crate::output::{self, Screen};
use crate::settings::{self, Where, environment};

/// Makes a backup.
///
/// # Errors
/// [`Failure::Usage`] on a server, [`Failure::Refused`] for a file that is there or a database that is none,
/// [`Failure::Unexpected`] for everything that failed.
pub fn run(place: &GlobalArgs, file: &Path, screen: &Screen) -> Result<(), Failure> {
    let Where::Database { config, .. } = settings::place(place, &environment)? else {
        return Err(Failure::Usage(
            "\"backup\" works only on the database itself: run it where the database is, with --db PATH and without --url or \
             BOOKGUARD_URL"
                .to_owned(),
        ));
    };
    let mut bar = Bar::new();
    let made = backup::backup(&config.db, file, &mut |done, total| bar.draw(done, total));
    bar.clear();
    let made = made.map_err(|error| match error {
        BackupError::Refused(error) => error.into(),
        BackupError::Failed(why) => Failure::Unexpected(why),
    })?;
    let key = config
        .ledger_key
        .unwrap_or_else(|| LedgerKeySource::File(key_file::default_path(config.db.file())));
    match screen.format {
        Format::Json => screen.json(
            &json!({
                "file": file,
                "bytes": made.bytes,
                "origin": made.origin,
                "treeSize": made.size,
                "rootHash": made.root.to_base64(),
                "seconds": made.elapsed.as_secs_f64(),
                "ledgerKey": key.path(),
            })
            .to_string(),
        ),
        Format::Table => output::print(&told(&made, file, &key)),
    }
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
