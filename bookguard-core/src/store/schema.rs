//! The versions of the schema: which there are, which one a database has, and how it gets to a later one.
//!
//! A database says its version, and the oldest version whose programs may still read and write it. So a node goes on
//! beside newer ones while every step since its own has only expanded the schema. Invariants: a database is
//! upgraded only by [`upgrade`], in one transaction, under the write turn; every batch reads the version under its own
//! turn. So no batch writes in the way of one schema what is in another.

use std::fmt;
use std::path::PathBuf;

use super::Database;
use super::conn::{Conn, Rows, Statement, StoreError, args};
#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
use super::no_engine;
#[cfg(feature = "postgres")]
use super::postgres;
#[cfg(feature = "sqlite")]
use super::sqlite;

/// A step from one version of the schema to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaStep {
    /// The script, in SQLite's dialect.
    pub sql: &'static str,
    /// The oldest version whose programs may use the database after the step. A step that only expands (new tables and
    /// indexes, new columns that may be null or have a default) names the same as the step before it. A step that takes
    /// something away names the first version that does without.
    pub oldest_reader: i64,
}

const fn step(sql: &'static str, oldest_reader: i64) -> SchemaStep {
    SchemaStep { sql, oldest_reader }
}

/// The steps, oldest first. Their count is the version that this program knows.
pub const STEPS: [SchemaStep; 9] = [
    step(include_str!("schema/001.sql"), 1),
    // Programs of version 1 would change things without recording them in the audit.
    step(include_str!("schema/002.sql"), 2),
    // Programs of version 2 cannot read events of types that endpoints list, nor events without a booking.
    step(include_str!("schema/003.sql"), 3),
    // Programs of version 3 do without sessions of the console: a key that they revoke ends its sessions all the same.
    step(include_str!("schema/004.sql"), 3),
    // Programs of version 4 would cancel bookings without noting which wait for a person.
    step(include_str!("schema/005.sql"), 5),
    // Programs of version 5 would take entries that commit to stamps for damage.
    step(include_str!("schema/006.sql"), 6),
    // Programs of version 6 would take erased values and entries that commit to maps for damage, prune what a legal hold keeps, and
    // answer again with erased values.
    step(include_str!("schema/007.sql"), 7),
    // Programs of version 7 would write to a database although a node has noted that it lacks published entries.
    step(include_str!("schema/008.sql"), 8),
    // Programs of version 8 cannot read pages of the map in which values wait.
    step(include_str!("schema/009.sql"), 9),
];

/// What a database says of its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Its version; 0 if there are no tables yet.
    pub version: i64,
    /// The oldest version whose programs may use it.
    pub oldest_reader: i64,
}

/// What became of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgraded {
    /// The version before.
    pub from: i64,
    /// The version now, which is the same if there was nothing to do.
    pub to: i64,
    /// The copy of the file as it was before, if a file was changed.
    pub copy: Option<PathBuf>,
}

impl Upgraded {
    /// There was nothing to do.
    pub(super) fn already(version: i64) -> Self {
        Self {
            from: version,
            to: version,
            copy: None,
        }
    }
}

impl fmt::Display for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, copy } = self;
        write!(
            f,
            "the database's schema was brought from version {from} to {to}"
        )?;
        match copy {
            Some(copy) => write!(
                f,
                "; a copy of the file as it was before is {}",
                copy.display()
            ),
            None => Ok(()),
        }
    }
}

/// The version that this program knows.
pub const fn known() -> i64 {
    STEPS.len() as i64
}

/// What the database says about its schema. Returns `None` if the database does not exist or has no tables. Changes nothing.
///
/// # Errors
/// As listed by [`StoreError`].
pub fn look(database: &Database) -> Result<Option<Schema>, StoreError> {
    match database {
        #[cfg(feature = "sqlite")]
        Database::File(path) => sqlite::schema(path),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => postgres::schema(url),
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        other => Err(no_engine(other)),
    }
}

/// Brings the schema of a database up to date. Returns `None` if the database does not exist or has no tables.
///
/// # Errors
/// As listed by [`StoreError`]; the database is then as it was.
pub fn upgrade(database: &Database) -> Result<Option<Upgraded>, StoreError> {
    upgrade_by(database, &STEPS)
}

/// As [`upgrade`], as a program would that knows these steps.
///
/// # Errors
/// As for [`upgrade`].
pub fn upgrade_by(
    database: &Database,
    steps: &[SchemaStep],
) -> Result<Option<Upgraded>, StoreError> {
    let to = steps.len() as i64;
    let Some(found) = look(database)? else {
        return Ok(None);
    };
    if found.version >= to {
        found.require(to)?;
        return Ok(Some(Upgraded::already(found.version)));
    }
    let upgraded = match database {
        #[cfg(feature = "sqlite")]
        Database::File(path) => sqlite::upgrade(path, steps),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => postgres::upgrade(url, steps),
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        other => Err(no_engine(other)),
    }?;
    if upgraded.from < upgraded.to {
        let (from, to) = (upgraded.from, upgraded.to);
        tracing::info!(from, to, "{upgraded}");
    }
    Ok(Some(upgraded))
}

impl Schema {
    /// Fails unless a program that knows the schema up to `known` may use the database.
    ///
    /// # Errors
    /// [`StoreError::Older`] or [`StoreError::Newer`].
    pub fn require(self, known: i64) -> Result<(), StoreError> {
        let found = self.version;
        if found < known {
            return Err(StoreError::Older { found, known });
        }
        if known < self.oldest_reader {
            return Err(StoreError::Newer { found, known });
        }
        Ok(())
    }
}

/// The query whose answer [`require_same`] reads.
pub(super) fn version_statement() -> Statement<'static> {
    Statement::new(
        "SELECT COALESCE(MAX(version), 0) FROM schema_version",
        vec![],
    )
}

/// The rows that the steps leave in the table of versions: each version, and the oldest one whose programs may use it. Version
/// 1 was made before there were others.
pub(super) fn written() -> impl Iterator<Item = (i64, Option<i64>)> {
    let oldest = |(version, step): (i64, &SchemaStep)| {
        (version, (version > 1).then_some(step.oldest_reader))
    };
    (1..).zip(&STEPS).map(oldest)
}

/// Fails unless this program may use the database with the version that was read.
pub(super) fn require_same(version: &Rows, conn: &mut dyn Conn) -> Result<(), StoreError> {
    let version = version.rows.first().map_or(Ok(0), |row| row.int(0))?;
    if version == known() {
        return Ok(());
    }
    found(conn)?.require(known())
}

/// Why a batch could not begin: statements also fail if a step took away what they name.
pub(super) fn cause(conn: &mut dyn Conn, error: StoreError) -> StoreError {
    let StoreError::Failed(_) = error else {
        return error;
    };
    match found(conn).and_then(|found| found.require(known())) {
        Err(newer @ StoreError::Newer { .. }) => newer,
        _ => error,
    }
}

/// What a database with the table of versions says of its schema.
pub(super) fn found(conn: &mut dyn Conn) -> Result<Schema, StoreError> {
    // Version 1 has no column `oldest_reader`: the name then means the outer one, which is null. A version without the
    // number can be used by its own programs only.
    let rows = conn.one(Statement::new(
        "SELECT latest.version, (SELECT oldest_reader FROM schema_version WHERE version = latest.version) \
         FROM (SELECT COALESCE(MAX(version), 0) AS version, CAST(NULL AS BIGINT) AS oldest_reader FROM schema_version) latest",
        vec![],
    ))?;
    let Some(row) = rows.rows.first() else {
        return Err(StoreError::Corrupt("the schema has no version".to_owned()));
    };
    let version = row.int(0)?;
    Ok(Schema {
        version,
        oldest_reader: row.maybe_int(1)?.unwrap_or(version),
    })
}

/// Makes the tables in the open transaction if there are none, and otherwise fails unless this program may use them.
/// `script` runs a whole script written in SQLite's dialect.
pub(super) fn make<C: Conn>(conn: &mut C, script: Script<C>) -> Result<(), StoreError> {
    let table =
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL PRIMARY KEY) STRICT";
    script(conn, table)?;
    let found = found(conn)?;
    match found.version {
        0 => apply(conn, 0, &STEPS, script),
        _ => found.require(known()),
    }
}

/// Applies the steps after version `from` in the open transaction.
pub(super) fn apply<C: Conn>(
    conn: &mut C,
    from: i64,
    steps: &[SchemaStep],
    script: Script<C>,
) -> Result<(), StoreError> {
    for (version, step) in (1_i64..).zip(steps).filter(|(version, _)| *version > from) {
        script(conn, step.sql)?;
        // Version 1 was made before there were others.
        let row = if version == 1 {
            let sql = "INSERT INTO schema_version (version) VALUES ($1)";
            Statement::new(sql, args![version])
        } else {
            let sql = "INSERT INTO schema_version (version, oldest_reader) VALUES ($1, $2)";
            Statement::new(sql, args![version, step.oldest_reader])
        };
        if version == 2 {
            let sql = "ALTER TABLE schema_version ADD COLUMN oldest_reader INTEGER";
            script(conn, sql)?;
        }
        conn.one(row)?;
    }
    Ok(())
}

/// Runs a whole script.
pub(super) type Script<C> = fn(&mut C, &str) -> Result<(), StoreError>;

#[cfg(test)]
mod tests;
