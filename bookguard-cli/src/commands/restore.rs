//! `restore`: puts a backup in the place of a database file, after it was checked.
//!
//! The store does it; this file keeps servers away meanwhile, and shows what was lost and what to do next.

use std::path::{Path, PathBuf};

use bookguard_core::Error;
use bookguard_core::store::backup::{self, Restored};
use clap::Args;
use serde_json::{Value, json};

use super::accept_rollback::{head, lost};
use super::backup::{Ending, Progress, check_of, held, members};
use super::declare::{Call, CliCommand, alone};
use crate::failure::Failure;
use crate::text::plain;

#[derive(Debug, Args)]
struct RestoreArgs {
    /// The backup
    file: PathBuf,
}

pub(super) fn command() -> CliCommand {
    let about = "Check a backup, and put it in the place of the database; what was there stays under another name";
    alone("restore", about, run).with::<RestoreArgs>()
}

/// Restores a backup.
///
/// # Errors
/// [`Failure::Usage`] for a server's address; [`Failure::Refused`] while a server runs on the database, or if its ledger was
/// moved; [`Failure::NotVerified`] for a backup that does not verify; [`Failure::Unexpected`] for everything that failed. The
/// database is then as it was.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let RestoreArgs { file } = call.args()?;
    let config = call.config()?;
    let mut ending = Ending::new()?;
    let place = config.db.file();
    if let Some(place) = place.filter(|place| bookguard_server::runs_on(place)) {
        return Err(Error::conflict(
            "server_running",
            format!("A server runs on {}. Stop it first.", place.display()),
        )
        .into());
    }
    // Held until the end, so that no server starts meanwhile.
    let _lock = place.map(bookguard_server::lock).transpose();
    let _lock = _lock.map_err(Failure::Unexpected)?;
    let check = check_of(&config);
    let (from, db) = (file.clone(), config.db.clone());
    let work = move |progress: Progress<'_>| backup::restore(&from, &db, &check, progress);
    let Some(done) = ending.while_working(work).await else {
        return Err(Failure::Unexpected(
            "stopped before the backup was in its place; the database is as it was".to_owned(),
        ));
    };
    let done = done?;
    let mut value = members(&done.made, place.unwrap_or(&file));
    value["backup"] = json!(file);
    value["replaced"] = json!(done.replaced);
    value["uncompared"] = json!(done.uncompared);
    value["lost"] = done.lost().map_or(
        Value::Null,
        |lost| json!({"found": head(&lost.found), "seen": head(&lost.seen)}),
    );
    value["upgraded"] = done.upgraded.as_ref().map_or(
        Value::Null,
        |upgraded| json!({"from": upgraded.from, "to": upgraded.to}),
    );
    value["guard"] = json!(known(&done));
    value["next"] = json!(next(&done, place.unwrap_or(&file)));
    call.screen.said(&value, |_| {
        let mut lines = vec![held(&done.made, place.unwrap_or(&file))];
        if let Some(replaced) = &done.replaced {
            lines.push(format!("The old database is now {}.", replaced.display()));
        }
        if let Some(why) = &done.uncompared {
            let why = plain(why);
            lines.push(format!("It does not show what it had published: {why}."));
        }
        if let Some(upgraded) = &done.upgraded {
            lines.push(format!(
                "In its place, {upgraded}; the backup is as it was."
            ));
        }
        lines.push(match done.lost() {
            Some(loss) => lost(loss),
            None => format!("Guard: {}.", plain(&known(&done))),
        });
        lines.push(next(&done, place.unwrap_or(&file)));
        lines.join("\n")
    })
}

/// What the guard knows of the backup.
fn known(done: &Restored) -> String {
    let (guard, made) = (&done.report.guard, &done.made);
    match &guard.seen {
        Some(seen) if done.lost().is_none() && !done.is_guarded() => format!(
            "{} knows {} entries of log {}, and the backup holds {} of log {}: it is not known whether entries were lost",
            guard.file.display(),
            seen.size,
            seen.origin,
            made.size,
            made.origin
        ),
        _ => guard.to_string(),
    }
}

/// What to do after this.
fn next(done: &Restored, database: &Path) -> String {
    if let Some(to) = &done.moved_to {
        return format!(
            "This backup was made after its ledger had been moved to {to}, so it takes no writes. Restore a backup of that database \
             instead. If there is none, take the move back: `bookguard transfer --reopen --risk-two-histories --from {}`.",
            database.display()
        );
    }
    let next = match done.lost() {
        Some(_) => {
            "If there is no newer backup, accept the loss with `bookguard ledger accept-rollback`: until then, a server refuses \
             every write, and every read if values were erased since the backup. Then start the server."
        }
        None if !done.is_guarded() => {
            "A server takes no writes until you have decided. If you have a copy of the guard file that knows everything in \
             this backup, put it in its place (guard_file) and restore again. If not, let the log continue under a new name with \
             `bookguard ledger accept-rollback`. Only if you are certain that nothing was published after this backup, remove \
             the guard file instead."
        }
        None => {
            "No loss is known: neither the guard nor a database that was in this place knows more than this backup. But if one \
             of them was an older copy itself, a server would publish different entries under numbers already used. Then put \
             the latest guard file in its place and restore again; if you have none, first let the log continue under a new \
             name with `bookguard ledger accept-rollback --guard-lost`. What no entry records is as it was when the backup was \
             made: legal holds, keys, endpoints, quotas, suspensions, settings. Make those changes again, then start the server."
        }
    };
    next.to_owned()
}
