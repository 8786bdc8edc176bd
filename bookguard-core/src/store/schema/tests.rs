//! Upgrades by steps that no program has yet: what they do, what they refuse, and what a kill leaves behind.

#![cfg(all(feature = "sqlite", feature = "postgres"))]

mod killed;
mod released;

use std::path::Path;
use std::thread;

use bookguard_test_postgres::{Postgres, database_of};

use super::*;
use crate::guard::Guard;
use crate::key_file::{self, LedgerKey};
use crate::log::Log;
use crate::store::Store;
use crate::store::fsck::{self, tests::fixture};
use crate::store::tests::on_every_engine;

/// A step that only expands: a table, a column that is filled for every row, and an index.
const EXPANDING: &str = "CREATE TABLE future (id INTEGER NOT NULL PRIMARY KEY, what TEXT NOT NULL) STRICT;\n\
     ALTER TABLE booking ADD COLUMN note TEXT;\n\
     UPDATE booking SET note = body;\n\
     INSERT INTO future (id, what) SELECT COUNT(*), 'bookings' FROM booking;\n\
     CREATE INDEX booking_by_note ON booking (note);";

/// The shipped steps and a further one.
fn and(sql: &'static str, contracts: bool) -> Vec<SchemaStep> {
    let oldest_reader = match contracts {
        true => known() + 1,
        false => STEPS[STEPS.len() - 1].oldest_reader,
    };
    let mut steps = STEPS.to_vec();
    steps.push(SchemaStep { sql, oldest_reader });
    steps
}

/// The number that this query returns, if the schema has what it names.
fn number(database: &Database, sql: &'static str) -> Option<i64> {
    let store = Store::open(database, false).unwrap();
    let rows = store.reader().unwrap().one(Statement::new(sql, vec![]));
    rows.ok().map(|rows| rows.rows[0].int(0).unwrap())
}

/// Whether the step is there as a whole (`true`), or not at all.
fn is_expanded(database: &Database) -> bool {
    let found = look(database).unwrap().unwrap();
    let there = found.version == known() + 1;
    let column = number(database, "SELECT COUNT(*) FROM booking WHERE note IS NULL");
    let table = number(database, "SELECT COUNT(*) FROM future");
    assert_eq!(column, there.then_some(0), "{found:?}");
    assert_eq!(table.is_some(), there, "{found:?}");
    there
}

/// Requires that the ledger check has no findings.
fn clean(database: &Database, key: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let guard = Guard::open(folder.path().join("b.seen")).unwrap();
    let log = Log::new(LedgerKey::load(key).unwrap().unwrap(), guard);
    fsck::tests::is_clean(database, &log);
}

/// The files in a folder whose names hold this text.
fn files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).unwrap();
    let all = all.map(|file| file.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_string_lossy().contains(part))
        .collect()
}

#[test]
fn no_step_lets_in_older_programs_than_the_step_before_it() {
    let mut before = 1;
    for (version, step) in (1..).zip(STEPS) {
        assert!(
            (before..=version).contains(&step.oldest_reader),
            "{version}"
        );
        before = step.oldest_reader;
    }
}

#[test]
fn who_may_use_a_database_is_decided_by_its_version_and_its_oldest_reader() {
    let (older, newer) = (
        |found, known| Err(StoreError::Older { found, known }),
        |found, known| Err(StoreError::Newer { found, known }),
    );
    for (version, oldest_reader, known, expected) in [
        (3, 1, 3, Ok(())),
        (3, 3, 3, Ok(())),
        (3, 2, 2, Ok(())),
        (3, 1, 1, Ok(())),
        (3, 2, 1, newer(3, 1)),
        (3, 3, 2, newer(3, 2)),
        (2, 1, 3, older(2, 3)),
    ] {
        let schema = Schema {
            version,
            oldest_reader,
        };
        assert_eq!(schema.require(known), expected, "{schema:?} {known}");
    }
}

#[test]
fn a_program_goes_on_after_a_step_that_expands_and_not_after_one_that_contracts() {
    on_every_engine(|database| {
        assert_eq!(upgrade(database).unwrap(), None, "there is nothing yet");
        Store::open(database, true).unwrap();
        let same = upgrade(database).unwrap().unwrap();
        assert_eq!((same.from, same.to, same.copy), (known(), known(), None));
        let steps = and(EXPANDING, false);
        let done = upgrade_by(database, &steps).unwrap().unwrap();
        assert_eq!((done.from, done.to), (known(), known() + 1));
        assert_eq!(done.copy, None, "there was no ledger to keep");
        assert!(is_expanded(database));
        let again = upgrade_by(database, &steps).unwrap().unwrap();
        assert_eq!((again.from, again.to), (known() + 1, known() + 1));
        // This program knows less, and neither downgrades nor fails.
        assert_eq!(upgrade(database).unwrap().unwrap().to, known() + 1);
        let mut contracted = steps;
        contracted.push(SchemaStep {
            sql: "DROP TABLE future;",
            oldest_reader: known() + 1,
        });
        upgrade_by(database, &contracted).unwrap();
        let (found, known) = (known() + 2, known());
        let newer = Some(StoreError::Newer { found, known });
        assert_eq!(Store::open(database, true).err(), newer);
        assert_eq!(upgrade(database).err(), newer);
    });
}

#[test]
fn a_step_that_fails_leaves_the_database_as_it_was() {
    on_every_engine(|database| {
        Store::open(database, true).unwrap();
        let broken = and(
            "CREATE TABLE future (id INTEGER NOT NULL PRIMARY KEY) STRICT;\nINSERT INTO nowhere (id) VALUES (1);",
            false,
        );
        let why = upgrade_by(database, &broken).unwrap_err().to_string();
        assert!(why.contains("nowhere"), "{why}");
        assert_eq!(look(database).unwrap().unwrap().version, known());
        assert_eq!(number(database, "SELECT COUNT(*) FROM future"), None);
        upgrade_by(database, &and(EXPANDING, false)).unwrap();
        assert!(is_expanded(database));
    });
}

#[test]
fn of_several_that_upgrade_at_once_one_does_it() {
    on_every_engine(|database| {
        Store::open(database, true).unwrap();
        let upgrading: Vec<_> = (0..6)
            .map(|_| {
                let database = database.clone();
                thread::spawn(move || upgrade_by(&database, &and(EXPANDING, false)))
            })
            .collect();
        let done = upgrading.into_iter().map(|done| {
            let done = done.join().unwrap().unwrap().unwrap();
            assert_eq!(done.to, known() + 1);
            done.from < done.to
        });
        assert_eq!(done.filter(|did| *did).count(), 1);
        assert!(is_expanded(database));
    });
}

#[test]
fn a_file_is_copied_before_and_the_copy_is_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    fixture::everything(&file);
    let database = Database::from(file.as_path());
    let draft = folder
        .path()
        .join("b.db.schema-1.20260101T000000.000Z.0011.part");
    std::fs::write(&draft, "of an upgrade that was killed").unwrap();
    let done = upgrade_by(&database, &and(EXPANDING, false));
    let copy = done.unwrap().unwrap().copy.unwrap();
    assert!(!draft.exists());
    assert_eq!(
        files(folder.path(), ".schema-"),
        std::slice::from_ref(&copy)
    );
    let name = copy.file_name().unwrap().to_string_lossy().into_owned();
    assert!(
        name.starts_with(&format!("b.db.schema-{}.20", known())),
        "{name}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = copy.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let key = key_file::default_path(Some(&file));
    assert!(is_expanded(&database) && !is_expanded(&copy.as_path().into()));
    clean(&database, &key);
    clean(&copy.as_path().into(), &key);
    let shown = upgrade_by(&database, &and(EXPANDING, false)).unwrap();
    assert_eq!(shown.unwrap().copy, None);
    assert_eq!(files(folder.path(), ".part").len(), 0);
}

#[test]
fn a_step_that_fails_leaves_no_copy_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    fixture::everything(&file);
    let database = Database::from(file.as_path());
    let broken = and("INSERT INTO nowhere (id) VALUES (1);", false);
    let why = upgrade_by(&database, &broken).unwrap_err().to_string();
    assert!(why.contains("nowhere"), "{why}");
    assert_eq!(files(folder.path(), ".schema-"), Vec::<PathBuf>::new());
    clean(&database, &key_file::default_path(Some(&file)));
}

#[test]
fn an_upgrade_on_a_server_lets_others_work_while_it_waits_for_a_table() {
    let Some(postgres) = Postgres::shared() else {
        return;
    };
    let url = postgres.fresh_database();
    let database = Database::from(url.as_str());
    let store = Store::open(&database, true).unwrap();
    let long = postgres.hold(database_of(&url), "SELECT COUNT(*) FROM booking");
    let upgrading = {
        let database = database.clone();
        thread::spawn(move || upgrade_by(&database, &and(EXPANDING, false)))
    };
    let waits = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut met = 0;
    while met < 3 {
        assert!(!upgrading.is_finished());
        met += usize::from(postgres.sql(database_of(&url), waits) != "0");
        // As a node writes and reads: neither gives up.
        let mut writer = store.writer().unwrap();
        writer.begin(&[]).unwrap();
        writer.commit(&[]).unwrap();
        let sql = "SELECT COUNT(*) FROM booking";
        let read = store.reader().unwrap().one(Statement::new(sql, vec![]));
        assert_eq!(read.unwrap().rows[0].int(0), Ok(0));
    }
    drop(long);
    let done = upgrading.join().unwrap().unwrap().unwrap();
    assert_eq!((done.from, done.to), (known(), known() + 1));
    assert!(is_expanded(&database));
    postgres.drop_database(&url);
}
