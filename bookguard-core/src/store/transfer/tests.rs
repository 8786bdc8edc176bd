//! Moves a database with everything in it: what arrives, what is refused, and what every failure leaves behind.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::*;
use crate::guard::Guard;
use crate::key_file::{self, LedgerKey, LedgerKeySource};
use crate::service::{Service, ServiceConfig};
use crate::store::conn::{Row, Rows};
use crate::store::fsck::{self, tests::fixture};
use crate::tests::is_long;

/// A folder with a database that has rows in every table, and its key.
struct Bench {
    folder: TempDir,
    key: LedgerKey,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("old.db");
        fixture::everything(&db);
        let key = LedgerKey::load(&key_file::default_path(Some(&db)));
        Self {
            folder,
            key: key.unwrap().unwrap(),
        }
    }

    fn db(&self, name: &str) -> Database {
        self.path(name).into()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn go(&self, from: &str, to: &str) -> Result<Transferred, TransferError> {
        self.transfer(&self.db(from), &self.db(to))
    }

    fn transfer(&self, from: &Database, to: &Database) -> Result<Transferred, TransferError> {
        transfer(from, to, &self.log(), &mut || Ok(()), &mut |_, _| {})
    }

    fn log(&self) -> Log {
        let guard = Guard::open(self.path("b.seen"));
        Log::new(self.key.clone(), guard.unwrap())
    }

    /// Requires that the ledger check has no findings.
    fn clean(&self, name: &str) {
        self.is_clean(&self.db(name));
    }

    fn is_clean(&self, database: &Database) {
        fsck::tests::is_clean(database, &self.log());
    }
}

/// Every row of every table.
fn rows(database: &Database) -> Vec<Vec<Row>> {
    let store = Store::open(database, false).unwrap();
    let mut conn = store.reader().unwrap();
    let all = TABLES.iter().map(|table| {
        let mut rows = Vec::new();
        let read: Result<(), StoreError> = table.read(&mut *conn, |page| {
            rows.extend(page);
            Ok(true)
        });
        read.unwrap();
        rows
    });
    all.collect()
}

/// Whether a target holds nothing, or nothing but the mark of a move that has not ended.
fn is_vacant(database: &Database) -> bool {
    let head = Store::open(database, false).unwrap().head().unwrap();
    // The first table is that of the head.
    let others = rows(database).split_off(1);
    head.is_none_or(|head| head.arriving_from().is_some()) && others.iter().all(Vec::is_empty)
}

/// A whole move over two connections.
fn carry_all(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    errand: &TransferJob<'_>,
) -> Result<CopiedTables, Trouble> {
    let departing = set_out(source, errand)?;
    carry(source, target, errand, departing, &mut |_, _| {})
}

fn code<T: std::fmt::Debug>(refused: Result<T, TransferError>) -> String {
    match refused.unwrap_err() {
        TransferError::Refused(error) => error.code.into_owned(),
        other => panic!("{other:?}"),
    }
}

/// Changes a database behind the service's back.
fn change(database: &Database, statement: Statement<'_>) {
    let store = Store::open(database, false).unwrap();
    store.writer().unwrap().one(statement).unwrap();
}

fn sql(text: &'static str) -> Statement<'static> {
    Statement::new(text, vec![])
}

/// A row that no log describes, and so a database that holds more than a log.
const ROW: &str = "INSERT INTO policy (hash, body) VALUES (x'00', '{}')";

fn job<'a>(log: &'a Log, from: &'a str, place: &'a str) -> TransferJob<'a> {
    TransferJob { log, from, place }
}

#[test]
fn a_move_carries_everything_and_the_log_continues_in_one_place() {
    let bench = Bench::new();
    let before = rows(&bench.db("old.db"));
    let empty: Vec<&str> = (TABLES.iter().zip(&before))
        .filter_map(|(table, rows)| rows.is_empty().then_some(table.name))
        .collect();
    assert_eq!(empty, [""; 0], "a table without rows would prove nothing");
    let mut steps = Vec::new();
    let moved = transfer(
        &bench.db("old.db"),
        &bench.db("new.db"),
        &bench.log(),
        &mut || Ok(()),
        &mut |done, total| steps.push((done, total)),
    )
    .unwrap();
    assert_eq!(rows(&bench.db("new.db")), before);
    assert_eq!(rows(&bench.db("old.db")), before);
    let counted: Vec<u64> = moved.tables.iter().map(|(_, rows)| *rows).collect();
    let held: Vec<u64> = before.iter().map(|rows| rows.len() as u64).collect();
    assert_eq!((counted, moved.size, moved.again), (held, 45, false));
    assert_eq!(steps.first(), Some(&(0, moved.rows() * 2)));
    assert_eq!(steps.last(), Some(&(moved.rows() * 2, moved.rows() * 2)));
    assert!(steps.is_sorted() && moved.rows_per_second() > 0.0);
    let place = moved_to(&bench.db("old.db")).unwrap().unwrap();
    assert!(
        place.ends_with("new.db") && place.starts_with('/'),
        "{place}"
    );
    assert_eq!(moved_to(&bench.db("new.db")).unwrap(), None);
    for name in ["old.db", "new.db"] {
        bench.clean(name);
    }
    bench.go("new.db", "third.db").unwrap();
    assert_eq!(rows(&bench.db("third.db")), before);
}

#[test]
fn a_backup_begun_while_the_log_moves_is_marked_as_moved() {
    // Right after the last entry, nobody has the write turn yet.
    for is_at_the_last_entry in [true, false] {
        let bench = Bench::new();
        let copy = bench.path("copy.db");
        let (db, file) = (bench.db("old.db"), copy.clone());
        let (told, ended) = std::sync::mpsc::channel();
        let backup = Cell::new(Some(move || {
            let made = crate::store::backup::backup(&db, &file, 0, &mut |_, _| {});
            let _ = told.send(());
            made
        }));
        let running = Cell::new(None);
        let begin = || {
            if let Some(backup) = backup.take() {
                running.set(Some(std::thread::spawn(backup)));
                let waits = ended.recv_timeout(Duration::from_millis(200));
                assert!(waits.is_err(), "the backup did not wait for the move");
            }
        };
        transfer(
            &bench.db("old.db"),
            &bench.db("new.db"),
            &bench.log(),
            &mut || {
                if is_at_the_last_entry {
                    begin();
                }
                Ok(())
            },
            &mut |_, _| begin(),
        )
        .unwrap();
        let made = running.take().unwrap().join().unwrap().unwrap();
        assert_eq!(made.size, 45);
        assert!(moved_to(&copy.as_path().into()).unwrap().is_some());
        let left = std::fs::read_dir(bench.folder.path()).unwrap();
        let mut left = left.map(|file| file.unwrap().file_name().into_string().unwrap());
        assert!(!left.any(|name| name.ends_with(".moving")));
    }
}

#[test]
fn both_files_are_whole_without_their_write_ahead_logs() {
    let bench = Bench::new();
    // Whoever has a file open keeps its log from being removed at the end.
    let open = ["old.db", "new.db"].map(|name| Store::open(&bench.db(name), true).unwrap());
    let readers = open.each_ref().map(|store| store.reader().unwrap());
    bench.go("old.db", "new.db").unwrap();
    for name in ["old.db-wal", "new.db-wal"] {
        let log = bench.path(name).metadata().unwrap();
        assert_eq!(log.len(), 0, "{name}");
    }
    drop(readers);
}

#[cfg(feature = "postgres")]
#[test]
fn everything_arrives_on_the_other_engine_and_comes_back() {
    let Some(postgres) = bookguard_test_postgres::Postgres::shared() else {
        return;
    };
    let bench = Bench::new();
    let before = rows(&bench.db("old.db"));
    let url = postgres.fresh_database();
    let server = Database::from(url.as_str());
    let go = |from: &Database, to: &Database| bench.transfer(from, to);
    let there = go(&bench.db("old.db"), &server).unwrap();
    assert_eq!(rows(&server), before);
    bench.is_clean(&server);
    assert_eq!(code(go(&bench.db("old.db"), &server)), "target_not_empty");
    let back = go(&server, &bench.db("new.db")).unwrap();
    assert_eq!((there.tables, there.root), (back.tables, back.root));
    assert_eq!(rows(&bench.db("new.db")), before);
    bench.clean("new.db");
    assert_eq!(code(go(&server, &bench.db("x.db"))), "ledger_moved");
    // An address may contain what no mark holds, so it is given again.
    assert_eq!(
        code(reopen(&bench.db("old.db"), Some(&server), false, None)),
        "target_written"
    );
    assert!(
        reopen(&server, None, false, None)
            .unwrap()
            .moved_to
            .ends_with("new.db")
    );
    assert_eq!(moved_to(&server).unwrap(), None);
    assert_eq!(moved_to(&bench.db("new.db")).unwrap(), Some(place(&server)));
    assert!(
        reopen(&bench.db("old.db"), Some(&server), false, None)
            .unwrap()
            .seen
    );
    assert_eq!(moved_to(&server).unwrap(), Some(place(&bench.db("old.db"))));
    postgres.drop_database(&url);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    let path = |name: &str| bench.path(name);
    let before = rows(&bench.db("old.db"));
    assert_eq!(code(bench.go("old.db", "old.db")), "same_database");
    assert_eq!(code(bench.go("old.db", "./old.db")), "same_database");
    std::os::unix::fs::symlink(path("old.db"), path("link.db")).unwrap();
    assert_eq!(code(bench.go("old.db", "link.db")), "same_database");
    // Another name of the same file, which the path does not show.
    std::fs::hard_link(path("old.db"), path("hard.db")).unwrap();
    assert_eq!(code(bench.go("old.db", "hard.db")), "hard_linked");
    std::fs::remove_file(path("hard.db")).unwrap();
    // A log that was begun but has no entry.
    let clock = Arc::new(std::sync::atomic::AtomicI64::new(fixture::START_MS));
    let (service, closing) = fixture::open(&path("begun.db"), &clock).unwrap();
    drop(service);
    closing.wait();
    assert_eq!(code(bench.go("old.db", "begun.db")), "target_not_empty");
    // No log, but a row.
    Store::open(&bench.db("some.db"), true).unwrap();
    change(&bench.db("some.db"), sql(ROW));
    assert_eq!(code(bench.go("old.db", "some.db")), "target_not_empty");
    Store::open(&bench.db("empty.db"), true).unwrap();
    assert_eq!(code(bench.go("empty.db", "new.db")), "nothing_to_move");
    let guard = Guard::open(path("other.seen")).unwrap();
    let other = Log::new(LedgerKey::generate(), guard);
    let wrong = transfer(
        &bench.db("old.db"),
        &bench.db("new.db"),
        &other,
        &mut || Ok(()),
        &mut |_, _| {},
    );
    assert_eq!(code(wrong), "wrong_ledger_key");
    let missing = bench.go("nowhere.db", "new.db").unwrap_err();
    assert!(matches!(missing, TransferError::Failed(why) if why.contains("there is no database")));
    assert!(!path("new.db").exists() && !path("nowhere.db").exists());
    assert_eq!(rows(&bench.db("old.db")), before);
    assert_eq!(moved_to(&bench.db("old.db")).unwrap(), None);
    // An empty database is as good as a new one.
    bench.go("old.db", "empty.db").unwrap();
    bench.clean("empty.db");
}

#[test]
fn an_empty_log_of_the_same_key_makes_way_for_the_one_that_is_moved() {
    let bench = Bench::new();
    let old = bench.db("old.db");
    let stored = Store::open(&old, false).unwrap().head().unwrap().unwrap();
    let (_, public) = stored.vkey.split_once('+').unwrap();
    let begun = bench.db("begun.db");
    let there = Store::open(&begun, true).unwrap();
    let vkey = format!("another+{public}");
    there.begin_log("another", &vkey, "signed").unwrap();
    change(&begun, sql(ROW));
    assert_eq!(code(bench.go("old.db", "begun.db")), "target_not_empty");
    change(&begun, sql("DELETE FROM policy"));
    bench.go("old.db", "begun.db").unwrap();
    bench.clean("begun.db");
    // Nor is it served if that move is killed.
    let second = bench.db("second.db");
    let there = Store::open(&second, true).unwrap();
    there.begin_log("another", &vkey, "signed").unwrap();
    reopen(&old, None, false, None).unwrap();
    stop_before_the_end(&bench, &second);
    is_not_served(&bench, &second);
}

#[test]
fn a_database_that_was_moved_goes_to_the_same_place_again_or_nowhere() {
    let bench = Bench::new();
    bench.go("old.db", "new.db").unwrap();
    assert_eq!(code(bench.go("old.db", "new.db")), "target_not_empty");
    assert_eq!(code(bench.go("old.db", "other.db")), "ledger_moved");
    let new = bench.path("new.db");
    let aside = bench.path("aside.db");
    std::fs::rename(&new, &aside).unwrap();
    // Nobody knows what was written there.
    assert_eq!(code(bench.go("old.db", "new.db")), "target_not_seen");
    Store::open(&bench.db("new.db"), true).unwrap();
    assert_eq!(code(bench.go("old.db", "new.db")), "target_not_seen");
    for beside in ["db-wal", "db-shm"] {
        let _ = std::fs::remove_file(new.with_extension(beside));
    }
    std::fs::rename(&aside, &new).unwrap();
    let back = || reopen(&bench.db("old.db"), None, false, None);
    let opened = back().unwrap();
    assert!(
        opened.moved_to.ends_with("new.db") && opened.seen,
        "{opened:?}"
    );
    assert_eq!(moved_to(&bench.db("old.db")).unwrap(), None);
    assert_eq!(code(back()), "not_moved");
    assert!(!bench.go("old.db", "other.db").unwrap().again);
}

#[test]
fn a_move_is_taken_back_only_if_nothing_was_written_there_and_nothing_can_be() {
    let bench = Bench::new();
    let (old, new) = (bench.db("old.db"), bench.db("new.db"));
    let path = |name: &str| bench.path(name);
    bench.go("old.db", "new.db").unwrap();
    let back = |unseen| reopen(&old, None, unseen, None);
    // Whatever was written there, an entry or not. A flag for an unseen place changes nothing.
    #[rustfmt::skip]
    let cases = [
        ("UPDATE head SET size = size + 1", "UPDATE head SET size = size - 1"),
        ("UPDATE head SET vkey = 'x' || vkey", "UPDATE head SET vkey = substr(vkey, 2)"),
        ("UPDATE head SET moved_to = '/elsewhere.db'", "UPDATE head SET moved_to = NULL"),
        ("UPDATE event SET retries = retries + 1", "UPDATE event SET retries = retries - 1"),
        (ROW, "DELETE FROM policy WHERE hash = x'00'"),
    ];
    for (changed, undo) in cases {
        change(&new, sql(changed));
        assert_eq!(code(back(true)), "target_written", "{changed}");
        assert!(moved_to(&old).unwrap().is_some(), "{changed}");
        change(&new, sql(undo));
    }
    assert_eq!(
        code(reopen(&old, Some(&bench.db("other.db")), true, None)),
        "other_target"
    );
    std::fs::rename(path("new.db"), path("away.db")).unwrap();
    assert_eq!(code(back(false)), "target_not_seen");
    std::fs::rename(path("away.db"), path("new.db")).unwrap();
    // Killed after the new database was closed and before the old one was opened. Both are closed, and the same command
    // continues.
    let here = place(&old);
    change(&new, mark(Some(&here)));
    assert!(back(false).unwrap().seen);
    assert_eq!(
        (moved_to(&old).unwrap(), moved_to(&new).unwrap()),
        (None, Some(here))
    );
    bench.clean("old.db");
    // The other place is gone, and the operator vouches for that.
    bench.go("old.db", "gone.db").unwrap();
    std::fs::remove_file(path("gone.db")).unwrap();
    assert!(!back(true).unwrap().seen);
    assert_eq!(moved_to(&old).unwrap(), None);
    // It is empty: what was moved there is gone.
    Store::open(&bench.db("empty.db"), true).unwrap();
    let empty = place(&bench.db("empty.db"));
    change(&old, mark(Some(&empty)));
    assert_eq!(code(back(false)), "target_not_seen");
    assert!(back(true).unwrap().seen);
    assert_eq!(moved_to(&old).unwrap(), None);
}

/// Stops a move after the source was marked and before the target is committed, as a kill does.
fn stop_before_the_end(bench: &Bench, to: &Database) {
    let old = bench.db("old.db");
    let mut source = Store::open(&old, false).unwrap().mover().unwrap();
    let mut target = Store::open(to, true).unwrap().mover().unwrap();
    let (log, from, there) = (bench.log(), place(&old), place(to));
    let errand = job(&log, &from, &there);
    let departing = set_out(&mut *source, &errand).unwrap();
    let progress = &mut |_, _| {};
    copied(&mut *source, &mut *target, &errand, departing, progress).unwrap();
    source.commit(&[mark(Some(&there))]).unwrap();
    target.rollback();
}

/// Asserts that nothing opens this database, with the log's key and a guard that knows nothing of the log.
fn is_not_served(bench: &Bench, database: &Database) {
    let old = bench.db("old.db");
    let key = key_file::default_path(old.file());
    let opened = Service::open(ServiceConfig {
        ledger_key: Some(LedgerKeySource::File(key)),
        guard_file: Some(bench.path("own.seen")),
        ..ServiceConfig::of(database.clone())
    });
    let why = opened.map(drop).unwrap_err().to_string();
    for word in [place(&old), database.to_string(), "--reopen".to_owned()] {
        assert!(why.contains(&word), "{word} is not in: {why}");
    }
    assert!(is_vacant(database));
}

/// Asserts what can be done after a move that was killed before its end.
fn ends_in_either_way(bench: &Bench, to: &Database) {
    let old = bench.db("old.db");
    let before = rows(&old);
    let go = || bench.transfer(&old, to);
    let back = || reopen(&old, Some(to), false, None).unwrap();
    stop_before_the_end(bench, to);
    assert_eq!(moved_to(&old).unwrap(), Some(place(to)));
    is_not_served(bench, to);
    // A ledger that was never there is neither moved on nor taken back.
    let on = bench.transfer(to, &bench.db("on.db"));
    assert_eq!(code(on), "nothing_to_move");
    assert_eq!(code(reopen(to, None, true, None)), "not_moved");
    std::fs::copy(old.file().unwrap(), bench.path("copy.db")).unwrap();
    let reopened = bench.db("copy.db");
    change(&reopened, mark(None));
    assert_eq!(code(bench.transfer(&reopened, to)), "target_not_empty");
    // Taken back: the target stays closed, and can be moved to again.
    assert!(back().seen);
    assert_eq!(moved_to(&old).unwrap(), None);
    is_not_served(bench, to);
    assert!(!go().unwrap().again);
    assert_eq!(rows(to), before);
    bench.is_clean(to);
    assert!(back().seen);
}

#[test]
fn nobody_begins_a_ledger_where_a_move_was_killed_before_its_end() {
    let bench = Bench::new();
    let new = bench.db("new.db");
    ends_in_either_way(&bench, &new);
    // Simply begun again.
    let third = bench.db("third.db");
    stop_before_the_end(&bench, &third);
    is_not_served(&bench, &third);
    assert!(bench.go("old.db", "third.db").unwrap().again);
    bench.clean("third.db");
}

#[cfg(feature = "postgres")]
#[test]
fn nobody_begins_a_ledger_on_a_server_where_a_move_was_killed_before_its_end() {
    let Some(postgres) = bookguard_test_postgres::Postgres::shared() else {
        return;
    };
    let url = postgres.fresh_database();
    ends_in_either_way(&Bench::new(), &url.as_str().into());
    postgres.drop_database(&url);
}

#[test]
fn an_empty_target_does_not_show_what_was_written_there() {
    let bench = Bench::new();
    let old = bench.db("old.db");
    let stored = Store::open(&old, false).unwrap().head().unwrap().unwrap();
    let (_, public) = stored.vkey.split_once('+').unwrap();
    let renamed = format!("another+{public}");
    let foreign = "another+00000000+AAAA";
    let (unseen, written) = (
        ("target_not_seen", "target_not_seen"),
        ("target_written", "target_not_empty"),
    );
    for (name, begun, refused) in [
        ("nothing.db", None, unseen),
        ("begun.db", Some(stored.vkey.as_str()), unseen),
        ("renamed.db", Some(renamed.as_str()), unseen),
        ("foreign.db", Some(foreign), unseen),
        ("written.db", Some(stored.vkey.as_str()), written),
    ] {
        // The moved ledger was lost there, and another database is in its place.
        let to = bench.db(name);
        let there = Store::open(&to, true).unwrap();
        if let Some(vkey) = begun {
            let (origin, _) = vkey.split_once('+').unwrap();
            there.begin_log(origin, vkey, "signed").unwrap();
        }
        if refused == written {
            change(&to, sql(ROW));
        }
        let marked = place(&to);
        change(&old, mark(Some(&marked)));
        let back = reopen(&old, None, false, None);
        assert_eq!(code(back), refused.0, "{name}");
        assert_eq!(code(bench.go("old.db", name)), refused.1, "{name}");
        if refused == written {
            continue;
        }
        // Another ledger goes on as it is.
        let is_foreign = begun == Some(foreign);
        let opened = reopen(&old, None, true, None).unwrap();
        assert_eq!(opened.seen, !is_foreign, "{name}");
        if is_foreign {
            assert_eq!(moved_to(&to).unwrap(), None);
            continue;
        }
        is_not_served(&bench, &to);
        assert!(!bench.go("old.db", name).unwrap().again, "{name}");
        bench.clean(name);
        reopen(&old, None, false, None).unwrap();
    }
}

#[test]
fn a_target_at_another_address_must_hold_what_was_moved() {
    let bench = Bench::new();
    let (old, away) = (bench.db("old.db"), bench.db("away.db"));
    let path = |name: &str| bench.path(name);
    bench.go("old.db", "new.db").unwrap();
    std::fs::rename(path("new.db"), path("away.db")).unwrap();
    Store::open(&bench.db("empty.db"), true).unwrap();
    let back = |to: &Database, vouched| reopen(&old, Some(to), vouched, None);
    assert_eq!(code(back(&away, false)), "other_target");
    assert_eq!(code(back(&bench.db("empty.db"), true)), "other_target");
    assert!(is_vacant(&bench.db("empty.db")));
    change(&away, sql("UPDATE event SET retries = retries + 1"));
    assert_eq!(code(back(&away, true)), "other_target");
    change(&away, sql("UPDATE event SET retries = retries - 1"));
    assert!(back(&away, true).unwrap().seen);
    assert_eq!(
        (moved_to(&old).unwrap(), moved_to(&away).unwrap()),
        (None, Some(place(&old)))
    );
}

#[test]
fn a_rolled_back_database_is_not_moved_and_a_moved_one_remembers_its_head() {
    let bench = Bench::new();
    std::fs::copy(bench.path("old.db"), bench.path("older.db")).unwrap();
    bench.go("old.db", "new.db").unwrap();
    let seen = bench.log().guard().latest().unwrap();
    assert_eq!(seen.size, 45, "what was moved was seen");
    let more = PublishedHead {
        size: seen.size + 1,
        ..PublishedHead::clone(&seen)
    };
    bench.log().note(Some(&seen), more);
    assert_eq!(code(bench.go("older.db", "other.db")), "ledger_rolled_back");
    assert!(!bench.path("other.db").exists());
    assert_eq!(moved_to(&bench.db("older.db")).unwrap(), None);
}

#[test]
fn a_source_that_contradicts_itself_is_not_moved() {
    #[rustfmt::skip]
    let damages = [
        ("UPDATE entry SET leaf = x'00' WHERE idx = 2", "its entries give"),
        ("DELETE FROM entry WHERE idx = 4", "its entries give"),
        ("UPDATE tile SET hashes = zeroblob(160) WHERE level = 0", "tiles do not give"),
        ("UPDATE head SET size = 4", "its entries give"),
    ];
    let bench = Bench::new();
    for (n, (damage, words)) in damages.into_iter().enumerate() {
        let (from, to) = (format!("damaged-{n}.db"), format!("new-{n}.db"));
        std::fs::copy(bench.path("old.db"), bench.path(&from)).unwrap();
        change(&bench.db(&from), sql(damage));
        // Into a database that was there, or a file that is made.
        let was_there = n % 2 == 1;
        if was_there {
            Store::open(&bench.db(&to), true).unwrap();
        }
        let refused = bench.go(&from, &to).unwrap_err();
        assert!(
            matches!(&refused, TransferError::NotVerified(why) if why.contains(words)),
            "{damage}: {refused:?}"
        );
        assert_eq!(bench.path(&to).exists(), was_there, "{damage}");
        assert!(
            !was_there || rows(&bench.db(&to)).iter().all(Vec::is_empty),
            "{damage}"
        );
        assert_eq!(moved_to(&bench.db(&from)).unwrap(), None, "{damage}");
    }
}

/// A connection with a fault.
struct Faulty {
    inner: Box<dyn Conn>,
    /// The steps of both connections so far: whether each begins or ends a transaction.
    steps: Arc<Mutex<Vec<bool>>>,
    /// The step that fails.
    fail_at: usize,
    /// Whether every later step fails too.
    lasting: bool,
    /// Whether a COMMIT that fails takes effect anyway, as if only its answer were lost.
    commit_happens: bool,
    /// Alters the text of statements on their way.
    altered: fn(&Statement<'_>) -> &'static str,
}

impl Faulty {
    fn step(&self, begins_or_ends: bool) -> Result<(), StoreError> {
        let mut steps = self.steps.lock().unwrap();
        let step = steps.len();
        steps.push(begins_or_ends);
        if step == self.fail_at || (self.lasting && step > self.fail_at) {
            return Err(StoreError::Full);
        }
        Ok(())
    }
}

impl Conn for Faulty {
    fn run(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        self.step(false)?;
        let altered: Vec<_> = (statements.iter())
            .map(|statement| Statement {
                sql: (self.altered)(statement),
                args: statement.args.clone(),
            })
            .collect();
        self.inner.run(&altered)
    }
    fn begin(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        self.step(true)?;
        self.inner.begin(statements)
    }
    fn commit(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Rows>, StoreError> {
        let failed = self.step(true);
        if failed.is_ok() || self.commit_happens {
            let results = self.inner.commit(statements)?;
            return failed.map(|()| results);
        }
        failed.map(|()| Vec::new())
    }
    fn rollback(&mut self) {
        self.inner.rollback();
    }
}

/// Both ends of a transfer, one of which fails at that step.
fn ends(bench: &Bench, to: &str, fail_at: usize, commit_happens: bool) -> [Faulty; 2] {
    let steps: Arc<Mutex<Vec<bool>>> = Arc::default();
    ["old.db", to].map(|name| Faulty {
        inner: (Store::open(&bench.db(name), true).unwrap().mover()).unwrap(),
        steps: Arc::clone(&steps),
        fail_at,
        lasting: false,
        commit_happens,
        altered: |statement| statement.sql,
    })
}

/// Fails at a step of a move. Returns what then was uncertain, and the steps: whether each begins or ends a transaction.
fn fail(
    bench: &Bench,
    fail_at: usize,
    commit_happens: bool,
    lasting: bool,
) -> (Option<&'static str>, Vec<bool>) {
    let old = bench.db("old.db");
    let before = rows(&old);
    let to = format!("{commit_happens}-{lasting}-{fail_at}.db");
    let (from, place) = (place(&old), place(&bench.db(&to)));
    let [mut source, mut target] = ends(bench, &to, fail_at, commit_happens);
    target.lasting = lasting;
    let log = bench.log();
    let carried = carry_all(&mut source, &mut target, &job(&log, &from, &place));
    let steps = source.steps.lock().unwrap().clone();
    drop((source, target));
    let marked = moved_to(&old).unwrap();
    let there = rows(&bench.db(&to));
    assert_eq!(rows(&old), before, "step {fail_at}");
    let nothing = is_vacant(&bench.db(&to));
    assert!(nothing || there == before, "step {fail_at}: half of it");
    assert!(
        nothing || marked.is_some(),
        "step {fail_at}: two that go on"
    );
    let unclear = match carried {
        Ok(_) => {
            assert!(!nothing && marked.is_some(), "step {fail_at}");
            None
        }
        Err(Trouble::Marking(_)) => {
            assert_eq!((nothing, marked.is_some()), (true, commit_happens));
            Some("marking")
        }
        Err(Trouble::Committing(_)) => {
            assert_eq!((nothing, marked.is_some()), (!commit_happens, true));
            Some("committing")
        }
        Err(_) => {
            assert!(nothing && marked.is_none(), "step {fail_at}");
            assert!(fail_at < steps.len(), "it failed by itself");
            None
        }
    };
    if marked.is_some() {
        // Whatever happened, asking again reports it or does it.
        match bench.go("old.db", &to) {
            Ok(moved) => assert!(moved.again && nothing),
            refused => assert_eq!((&*code(refused), nothing), ("target_not_empty", false)),
        }
        bench.clean(&to);
        reopen(&old, None, false, None).unwrap();
    }
    (unclear, steps)
}

#[test]
fn a_move_that_fails_at_any_step_leaves_exactly_one_ledger() {
    let bench = Bench::new();
    let (unclear, steps) = fail(&bench, usize::MAX, false, false);
    assert_eq!(unclear, None);
    let last = steps.len() - 8;
    // In each part of a move the tables come one after another, each with one step or two: every fifth step is each of these in turn.
    // Few steps begin or end a transaction, and each of these is a kind of its own.
    let some = (0..last).filter(|at| is_long() || at % 5 == 0 || steps[*at]);
    for fail_at in some {
        assert_eq!(fail(&bench, fail_at, false, false).0, None, "{fail_at}");
    }
    // Only of the last few does it matter whether a commit happens, and whether its target answers again: then it tells what became
    // of the commit.
    for (commit_happens, lasting, expected) in [
        (false, false, &["marking"][..]),
        (true, false, &["marking"]),
        (false, true, &["marking", "committing"]),
        (true, true, &["marking", "committing"]),
    ] {
        let unclear = (last..steps.len())
            .filter_map(|fail_at| fail(&bench, fail_at, commit_happens, lasting).0);
        assert_eq!(unclear.collect::<Vec<_>>(), expected);
    }
}

#[cfg(feature = "postgres")]
#[test]
fn an_unknown_commit_is_awaited_before_it_is_reported() {
    let Some(postgres) = bookguard_test_postgres::Postgres::shared() else {
        return;
    };
    let bench = Bench::new();
    let source = Store::open(&bench.db("old.db"), false).unwrap();
    let stored = source.head().unwrap().unwrap();
    // A transaction that replaces the mark, and one where there is none, in each of its two ends.
    for (announced, happens) in [(true, false), (true, true), (false, false), (false, true)] {
        let url = postgres.fresh_database();
        let store = Store::open(&url.as_str().into(), true).unwrap();
        let mut lost = store.mover().unwrap();
        if announced {
            let log = bench.log();
            let errand = job(&log, "here", "there");
            announce(&mut *lost, &errand, &stored).unwrap();
        } else {
            lost.begin(&[]).unwrap();
        }
        let mut head = Vec::new();
        (TABLES[0].read(&mut *source.reader().unwrap(), |rows| {
            head = rows;
            Ok::<_, StoreError>(true)
        }))
        .unwrap();
        TABLES[0].write(&mut *lost, &head).unwrap();
        let (store, stored) = (store.clone(), stored.clone());
        let asking = std::thread::spawn(move || arrived(&mut *store.mover().unwrap(), &stored));
        let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let name = bookguard_test_postgres::database_of(&url).to_owned();
        while postgres.sql(&name, waiting).trim() != "1" {
            assert!(!asking.is_finished(), "it did not wait");
        }
        match happens {
            true => drop(lost.commit(&[]).unwrap()),
            false => lost.rollback(),
        }
        assert_eq!(asking.join().unwrap(), Ok(happens));
        drop(lost);
        postgres.drop_database(&url);
    }
}

#[test]
fn a_copy_that_is_not_the_original_is_noticed() {
    let bench = Bench::new();
    // An engine that silently stores something else than it was given.
    let lies: [fn(&Statement<'_>) -> &'static str; 2] = [
        |statement| match statement.sql.starts_with("INSERT INTO answer") {
            true => Box::leak(statement.sql.replacen("$2,", "$2 + 1,", 1).into_boxed_str()),
            false => statement.sql,
        },
        // What is left of the statement stores nothing.
        |statement| match statement.sql.split_once("VALUES") {
            Some((into, _)) if into.starts_with("INSERT INTO attempt") => {
                &statement.sql[into.len()..]
            }
            _ => statement.sql,
        },
    ];
    for (n, lie) in lies.into_iter().enumerate() {
        let to = format!("lied-{n}.db");
        let [mut source, target] = ends(&bench, &to, usize::MAX, false);
        let mut target = Faulty {
            altered: lie,
            ..target
        };
        let log = bench.log();
        let errand = job(&log, "here", "there");
        let carried = carry_all(&mut source, &mut target, &errand);
        assert!(
            matches!(&carried, Err(Trouble::Differs(_))),
            "{n}: {carried:?}"
        );
        drop((source, target));
        assert!(is_vacant(&bench.db(&to)));
        assert_eq!(moved_to(&bench.db("old.db")).unwrap(), None);
    }
}

#[test]
fn a_source_that_was_moved_elsewhere_while_its_turn_was_waited_for_stays_there() {
    let bench = Bench::new();
    let [mut source, mut target] = ends(&bench, "late.db", usize::MAX, false);
    source.begin(&[]).unwrap();
    source.commit(&[mark(Some("elsewhere"))]).unwrap();
    let log = bench.log();
    let errand = job(&log, "old", "late");
    let carried = carry_all(&mut source, &mut target, &errand);
    assert!(
        matches!(&carried, Err(Trouble::Moved(to)) if to == "elsewhere"),
        "{carried:?}"
    );
    // A transfer that failed does not remove another's mark either.
    let stored = head(&mut source).unwrap().unwrap();
    assert!(!unmark(&mut source, &mut target, &errand, &stored).unwrap());
    drop((source, target));
    assert!(rows(&bench.db("late.db")).iter().all(Vec::is_empty));
    let marked = moved_to(&bench.db("old.db")).unwrap();
    assert_eq!(marked.as_deref(), Some("elsewhere"));
}

#[test]
fn the_wait_for_a_busy_source_is_bounded() {
    let bench = Bench::new();
    let mut other = (Store::open(&bench.db("old.db"), false).unwrap().writer()).unwrap();
    other.begin(&[]).unwrap();
    let refused = bench.go("old.db", "new.db").unwrap_err();
    assert!(
        matches!(&refused, TransferError::Failed(why) if why.contains("write lock")),
        "{refused:?}"
    );
    other.rollback();
    bench.go("old.db", "new.db").unwrap();
}
