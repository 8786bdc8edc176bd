//! What a running service shows when its database changes under it.

use std::sync::Barrier;

use super::*;

#[test]
fn nothing_is_shown_while_nobody_can_know_whether_erasures_are_owed() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let (service, _) = Service::open(ServiceConfig::of(db.as_path().into())).unwrap();
    assert!(service.reader().is_ok());
    let list = service.erasures().path();
    std::fs::create_dir(list).unwrap();
    let rollback = service.unknown_loss().unwrap();
    service.log.guard().say("log", Some(&rollback));
    for _ in 0..3 {
        let refused = service.reader().err().map(|error| error.code);
        assert_eq!(refused.as_deref(), Some("erasures_pending"));
    }
    assert!(service.owes_erasures());
    // It is looked up again whenever the database changes.
    std::fs::remove_dir(list).unwrap();
    service.log.guard().say("log", None);
    assert!(service.reader().is_ok());
    assert!(!service.owes_erasures());
}

#[cfg(unix)]
#[test]
fn a_database_that_is_removed_or_replaced_takes_no_writes_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let [db, aside] = ["b.db", "aside.db"].map(|name| folder.path().join(name));
    let (service, _) = Service::open(ServiceConfig::of(db.as_path().into())).unwrap();
    let health = || {
        service.watch_storage();
        let refused = service.storage().not_ready();
        refused.map(|error| error.code.into_owned())
    };
    assert_eq!(health(), None);
    std::fs::rename(&db, &aside).unwrap();
    assert_eq!(health().as_deref(), Some("storage_failing"));
    std::fs::write(&db, "").unwrap();
    assert_eq!(health().as_deref(), Some("storage_failing"));
    assert!(service.store.checker().is_err());
    assert_eq!(std::fs::read(&db).unwrap(), b"", "nobody opened it");
    std::fs::rename(&aside, &db).unwrap();
    assert_eq!(health(), None);
}

#[test]
fn a_change_of_the_guard_is_looked_up_once_however_many_read() {
    const READERS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let (service, _) = Service::open(ServiceConfig::of(db.as_path().into())).unwrap();
    let rollback = service.unknown_loss().unwrap();
    let together = Barrier::new(READERS);
    for round in 0..200 {
        service
            .log
            .guard()
            .say("log", Some(&rollback).filter(|_| round % 2 == 0));
        std::thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    together.wait();
                    // Nothing is owed, so nobody is refused.
                    for _ in 0..3 {
                        assert!(service.reader().is_ok(), "in round {round}");
                    }
                });
            }
        });
    }
}
