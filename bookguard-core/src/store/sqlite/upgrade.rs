//! Upgrades the schema of a database file, after copying the file beside itself; and of a copy that is being restored.

use std::path::{Path, PathBuf};

use super::connection::{
    Sqlite, Writer, open_checker, open_own, open_to_write, open_writer, script,
};
use super::identity::require_one_name;
use super::names::{immutable, is_sealed, undo_unfinished, with_end};
use super::{Use, free_bytes, size};
use crate::clock::Clock;
use crate::limits::DISK_RESERVE;
use crate::private;
use crate::store::backup::{self, BackupError};
use crate::store::conn::{Conn as _, Statement, StoreError, in_transaction};
use crate::store::schema::{self, Schema, SchemaStep, Upgraded};
use crate::store::{Database, head_of_any_schema};

/// What the file says about its schema. Returns `None` if the file does not exist or has no tables.
pub(in crate::store) fn schema(path: &Path) -> Result<Option<Schema>, StoreError> {
    // Whatever else is there, opening it as a database says best what is wrong with it.
    if !path.is_file() {
        return Ok(None);
    }
    let reading = if is_sealed(path) {
        immutable(path)
    } else {
        undo_unfinished(path)?;
        path.to_owned()
    };
    let mut checker = open_own(&reading)?;
    let sql = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'schema_version'";
    if checker.count(sql, vec![])? == 0 {
        return Ok(None);
    }
    schema::found(&mut checker).map(Some)
}

/// Applies the steps that the file lacks. Whoever writes meanwhile waits for the write turn, also while the file is
/// copied, so that the copy holds everything that was written under the old schema.
pub(in crate::store) fn upgrade(path: &Path, steps: &[SchemaStep]) -> Result<Upgraded, StoreError> {
    require_one_name(path)?;
    let mut writer = open_writer(path, false)?;
    if writer.connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(StoreError::ReadOnly);
    }
    in_transaction(&mut writer, |writer| {
        let to = steps.len() as i64;
        let from = schema::found(writer)?.version;
        if from >= to {
            // Another process was faster.
            return Ok(Upgraded::already(from));
        }
        let begun = head_of_any_schema(writer)?;
        let copy = begun.map(|_| keep(path, from)).transpose()?;
        if let Err(error) = schema::apply(writer, from, steps, script) {
            // The database stays as it is. Only a commit that fails may show later, so then the copy stays.
            copy.iter().for_each(|copy| backup::remove(copy));
            return Err(error);
        }
        Ok(Upgraded { from, to, copy })
    })
}

/// Applies the steps that a copy lacks, whose original stays. Nobody else uses the copy, and it is worth nothing until this is
/// done. Returns `None` if it lacks none.
pub(in crate::store) fn upgrade_copy(path: &Path) -> Result<Option<Upgraded>, StoreError> {
    let from = schema::found(&mut open_checker(&immutable(path))?)?.version;
    if from >= schema::known() {
        return Ok(None);
    }
    let mut writer = copy_writer(path)?;
    schema::apply(&mut writer, from, &schema::STEPS, script)?;
    writer.commit(&[])?;
    Ok(Some(Upgraded {
        from,
        to: schema::known(),
        copy: None,
    }))
}

/// Changes such a copy, durably.
pub(in crate::store) fn change_copy(path: &Path, change: Statement<'_>) -> Result<(), StoreError> {
    copy_writer(path)?.commit(&[change]).map(drop)
}

/// Changes such a copy once it is the database, durably. A kill leaves it as it was, or changed.
pub(in crate::store) fn change_placed(
    path: &Path,
    change: Statement<'_>,
) -> Result<(), StoreError> {
    let mut writer = begun(path, "PRAGMA synchronous = FULL")?;
    writer.commit(&[change]).map(drop)
}

/// A transaction that writes such a copy.
fn copy_writer(path: &Path) -> Result<Writer, StoreError> {
    // So nothing is left beside the file, whose name changes.
    begun(
        path,
        "PRAGMA temp_store = MEMORY; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = FULL;",
    )
}

/// A transaction over a connection with these settings.
fn begun(path: &Path, settings: &str) -> Result<Writer, StoreError> {
    let connection = open_to_write(path, false)?;
    connection.execute_batch(settings)?;
    let mut writer = Sqlite::writing(Box::new(connection));
    writer.begin(&[])?;
    Ok(writer)
}

/// Copies the file beside itself, under a name with its schema and the time, and verifies the copy. Called under the
/// write turn, so nobody else makes such a copy.
fn keep(path: &Path, version: i64) -> Result<PathBuf, StoreError> {
    let time = backup::in_name(Clock::System.now());
    let copy = with_end(path, &format!(".schema-{version}.{time}"));
    let cannot = |why: String| {
        StoreError::Failed(format!(
            "the schema was not upgraded, because the file cannot be copied first: {why}"
        ))
    };
    forget_drafts(path);
    backup::room(size(path), DISK_RESERVE, free_bytes(path)).map_err(|why| {
        cannot(format!(
            "{why}; free some space, or move the database with its key to a larger disk"
        ))
    })?;
    let database = Database::File(path.to_owned());
    backup::backup_of((&database, Use::Held), &copy, DISK_RESERVE, &mut |_, _| {}).map_err(
        |error| match error {
            BackupError::Refused(error) => cannot(error.message),
            BackupError::Failed(why)
            | BackupError::Unchecked(why)
            | BackupError::NotVerified(why) => cannot(why),
        },
    )?;
    verify(path, &copy, version).map_err(|why| {
        // It would be taken for one that can be relied on.
        let _ = std::fs::remove_file(&copy);
        cannot(format!(
            "the copy is not sound ({why}). Check the disk and the database: `bookguard ledger verify`"
        ))
    })?;
    Ok(copy)
}

/// Removes the unfinished copies of upgrades that were killed.
fn forget_drafts(path: &Path) {
    let Some(name) = path.file_name() else {
        return;
    };
    let begins = format!("{}.schema-", name.to_string_lossy());
    let beside = std::fs::read_dir(private::folder(path))
        .into_iter()
        .flatten();
    for file in beside.flatten() {
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&begins) && name.ends_with(".part") {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// Fails unless the copy is sound and has the head and the schema of the database.
fn verify(path: &Path, copy: &Path, version: i64) -> Result<(), String> {
    let checked = (|| {
        let mut here = open_checker(path)?;
        let mut there = open_checker(&immutable(copy))?;
        let same = head_of_any_schema(&mut here)? == head_of_any_schema(&mut there)?;
        let same = same && schema::found(&mut there)?.version == version;
        let faults = there.faults()?;
        Ok((same, faults.into_iter().next()))
    })();
    match checked.map_err(|error: StoreError| error.to_string())? {
        (_, Some(fault)) => Err(fault),
        (false, None) => Err("it does not hold what the database holds".to_owned()),
        (true, None) => Ok(()),
    }
}
