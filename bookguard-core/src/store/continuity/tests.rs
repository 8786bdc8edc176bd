//! Which heads a node accepts as the continuation of the log it knew. The cases are written as a database would show
//! them.

#![cfg(feature = "sqlite")]

use std::path::Path;

use super::*;
use crate::engine::answers::ForgetAnswers;
use crate::engine::command::Envelope;
use crate::features::ledger::accept_rollback;
use crate::guard::Guard;
use crate::key_file::LedgerKey;
use crate::ledger::{Tree, leaf_hash};
use crate::model::Timestamp;
use crate::service::{Service, ServiceConfig};
use crate::store::conn::Statement;
use crate::store::{Store, head};

/// A database whose log continued twice after losses, its key, and the three heads its guard saw under the three names.
struct Bench {
    folder: tempfile::TempDir,
    store: Store,
    key: LedgerKey,
    heads: Vec<PublishedHead>,
}

fn noted(path: &Path, seen: PublishedHead) {
    let guard = Guard::open(path.to_owned()).unwrap();
    guard.note(None, seen);
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("b.db");
        let (service, closing) = Service::open(ServiceConfig::of(db.as_path().into())).unwrap();
        let mut heads = Vec::new();
        for entries in [3, 7] {
            let mut seen = service.head().unwrap().seen();
            seen.size += entries;
            noted(service.guard_file(), seen.clone());
            heads.push(seen);
            // A batch reads the file. A reader uses what this process knows.
            let forget = Envelope::new(Timestamp::EPOCH, ForgetAnswers);
            assert!(service.submit_and_wait(forget).is_err());
            let rollback = service.rollback().unwrap().unwrap();
            assert_eq!(rollback.cause, RollbackCause::Behind);
            let accept = accept_rollback(&service, rollback).unwrap();
            service.submit_and_wait(accept).unwrap();
        }
        heads.push(service.head().unwrap().seen());
        drop(service);
        closing.wait();
        let key = LedgerKey::load(&folder.path().join("b.db.key"));
        Self {
            store: Store::open(&db.as_path().into(), false).unwrap(),
            key: key.unwrap().unwrap(),
            folder,
            heads,
        }
    }

    fn log(&self) -> Log {
        let file = self.folder.path().join("other.seen");
        Log::new(self.key.clone(), Guard::open(file).unwrap())
    }

    /// How the database lacks the head `seen`.
    fn cause(&self, seen: &PublishedHead) -> Option<RollbackCause> {
        let mut conn = self.store.reader().unwrap();
        let stored = head(&mut *conn).unwrap().unwrap();
        let rollback = self.log().check(&mut *conn, None, Some(seen), &stored);
        rollback.unwrap().map(|rollback| {
            assert_eq!((&rollback.found, &rollback.seen), (&stored.seen(), seen));
            rollback.cause
        })
    }

    fn change(&self, sql: &'static str) {
        let mut conn = self.store.writer().unwrap();
        conn.write(&[Statement::new(sql, vec![])]).unwrap();
    }
}

#[test]
fn a_node_that_knew_any_of_the_names_follows_the_log_to_its_present_one() {
    let bench = Bench::new();
    assert_eq!(bench.heads[2].size, 2);
    for seen in &bench.heads {
        assert_eq!(bench.cause(seen), None, "{seen:?}");
    }
    // A guard that has seen more than was accepted has lost more.
    let causes = [
        RollbackCause::OtherLog,
        RollbackCause::OtherLog,
        RollbackCause::Behind,
    ];
    assert_eq!(bench.heads.len(), causes.len());
    for (seen, cause) in bench.heads.iter().zip(causes) {
        let mut more = seen.clone();
        more.size += 1;
        assert_eq!(bench.cause(&more), Some(cause), "{more:?}");
    }
    let stranger = PublishedHead {
        origin: "bookguard-0000000000000000".to_owned(),
        ..bench.heads[0].clone()
    };
    assert_eq!(bench.cause(&stranger), Some(RollbackCause::OtherLog));
}

#[test]
fn under_one_name_the_head_seen_must_be_part_of_the_one_found() {
    let bench = Bench::new();
    let now = bench.heads[2].clone();
    let mut tree = Tree::empty();
    let empty = PublishedHead {
        size: 0,
        root: tree.root(),
        ..now.clone()
    };
    assert_eq!(bench.cause(&empty), None);
    let mut conn = bench.store.reader().unwrap();
    let first = read_tile(&mut *conn, 0, 0).unwrap().unwrap();
    tree.append([Hash::try_from(&first[..32]).unwrap()]);
    let before = PublishedHead {
        size: 1,
        root: tree.root(),
        ..now.clone()
    };
    assert_eq!(bench.cause(&before), None);
    #[rustfmt::skip]
    let cases = [
        (PublishedHead { size: 3, ..now.clone() }, RollbackCause::Behind),
        (PublishedHead { root: leaf_hash(b"another"), ..now.clone() }, RollbackCause::Forked),
        (PublishedHead { root: leaf_hash(b"another"), ..before }, RollbackCause::Forked),
    ];
    for (seen, cause) in cases {
        assert_eq!(bench.cause(&seen), Some(cause), "{seen:?}");
    }
    // Of a backup that was restored without a guard, nobody knows more.
    let mut conn = bench.store.reader().unwrap();
    let stored = head(&mut *conn).unwrap().unwrap();
    for size in [1, now.size] {
        let seen = PublishedHead::at_least(&now.origin, size);
        let rollback = bench.log().check(&mut *conn, None, Some(&seen), &stored);
        let rollback = rollback.unwrap().unwrap();
        assert_eq!(rollback.cause, RollbackCause::GuardLost, "{size}");
        assert_eq!((&rollback.found, &rollback.seen), (&now, &now));
    }
}

#[test]
fn a_continuation_that_was_made_up_leads_nowhere() {
    for sql in [
        "UPDATE entry SET facts = replace(facts, 'bookguard-', 'bookguard_')",
        "UPDATE entry SET seed = zeroblob(32)",
        "UPDATE entry SET leaf = CAST(replace(CAST(leaf AS TEXT), '\"seq\":0', '\"seq\":1') AS BLOB)",
        "UPDATE entry SET kind = 'booking.created'",
        "UPDATE entry SET idx = idx + 7",
        "UPDATE tile SET hashes = zeroblob(64)",
        "DELETE FROM entry WHERE idx = 1",
        "UPDATE head SET checkpoint = replace(checkpoint, 'a', 'b')",
        "UPDATE head SET origin = 'bookguard-0000000000000000'",
        "UPDATE head SET size = 1",
    ] {
        let bench = Bench::new();
        assert_eq!(bench.cause(&bench.heads[1]), None);
        bench.change(sql);
        let cause = bench.cause(&bench.heads[1]);
        assert_eq!(cause, Some(RollbackCause::OtherLog), "{sql}");
    }
    // An entry lost on the way cannot be skipped.
    let bench = Bench::new();
    bench.change("DELETE FROM entry WHERE idx = 0");
    assert_eq!(bench.cause(&bench.heads[1]), None);
    assert_eq!(bench.cause(&bench.heads[0]), Some(RollbackCause::OtherLog));
}

#[test]
fn a_log_without_a_memory_takes_what_it_finds() {
    let bench = Bench::new();
    let mut conn = bench.store.reader().unwrap();
    let stored = head(&mut *conn).unwrap().unwrap();
    let log = bench.log();
    assert_eq!(log.check(&mut *conn, None, None, &stored), Ok(None));
    assert_eq!(log.publish(&mut *conn, None, &stored), Ok(None));
    assert_eq!(log.guard().seen().as_deref(), Some(&bench.heads[2]));
    assert_eq!(
        log.signer(&stored.origin).unwrap().verifier().to_string(),
        stored.vkey
    );
    assert!(log.signer("no name").is_err());
}
