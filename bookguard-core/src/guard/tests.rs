//! What the guard remembers, also when others share its file or the file cannot be used.

use std::cell::RefCell;
use std::fs;

use super::*;
use crate::ledger::leaf_hash;
use crate::lines::{Line, LineSubscriber, Threshold, hear_here};

thread_local! {
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Hears this thread for as long as it lives.
    static HEARD: tracing::subscriber::DefaultGuard = {
        let hear = |line: Line| SAID.with_borrow_mut(|said| said.push(line.message));
        let subscriber = LineSubscriber::new(Threshold::new(tracing::Level::INFO), hear);
        hear_here(subscriber)
    };
}

fn said() -> Vec<String> {
    SAID.take()
}

fn head(origin: &str, size: u64) -> PublishedHead {
    PublishedHead {
        origin: origin.to_owned(),
        size,
        root: leaf_hash(&size.to_be_bytes()),
    }
}

fn open(path: &Path) -> Guard {
    HEARD.with(|_| Guard::open(path.to_owned()).unwrap())
}

fn in_file(path: &Path) -> PublishedHead {
    PublishedHead::clone(&open(path).seen().unwrap())
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("b.key.seen")
    }
}

#[test]
fn the_file_stands_beside_the_key_or_the_database() {
    for (key, db, path) in [
        (Some("k/b.key"), Some("b.db"), "k/b.key.seen"),
        (Some("k/b.key"), None, "k/b.key.seen"),
        (None, Some("b.db"), "b.db.seen"),
        (None, None, "bookguard.seen"),
    ] {
        let path_of = default_path(key.map(Path::new), db.map(Path::new));
        assert_eq!(path_of, Path::new(path));
    }
}

#[test]
fn a_guard_that_is_there_is_used_however_the_key_is_given() {
    /// Where each guard is, and what it saw.
    type Case<'a> = (&'a [(&'a str, &'a str, u64)], Option<&'a str>, &'a str);
    let (default, other) = (Some("b.db.key"), Some("elsewhere.key"));
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        (&[], None, "b.db.seen"),
        (&[], default, "b.db.key.seen"),
        (&[], other, "elsewhere.key.seen"),
        // The key moved from its file into the environment, or to another file, or back.
        (&[("b.db.key.seen", "log", 5)], None, "b.db.key.seen"),
        (&[("b.db.key.seen", "log", 5)], other, "b.db.key.seen"),
        (&[("b.db.seen", "log", 5)], default, "b.db.seen"),
        (&[("b.db.seen", "log", 5)], other, "b.db.seen"),
        (&[("b.db.seen", "log", 5), ("b.db.key.seen", "log", 5)], None, "b.db.seen"),
        (&[("b.db.seen", "log", 5), ("b.db.key.seen", "log", 5)], default, "b.db.key.seen"),
        (&[("b.db.seen", "log", 5), ("b.db.key.seen", "log", 9)], None, "b.db.key.seen"),
        (&[("b.db.seen", "log", 9), ("b.db.key.seen", "log", 5)], default, "b.db.seen"),
        (&[("elsewhere.key.seen", "log", 5), ("b.db.seen", "other", 9)], other, "elsewhere.key.seen"),
    ];
    for (there, key, chosen) in cases {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, origin, size) in *there {
            open(&at(name)).note(None, head(origin, *size));
        }
        let key = key.map(at);
        let path = default_path(key.as_deref(), Some(&at("b.db")));
        assert_eq!(path, at(chosen), "{there:?} {key:?}");
    }
    // By another name of the database, its guard is the same.
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real.db"), "").unwrap();
        std::os::unix::fs::symlink(at("real.db"), at("b.db")).unwrap();
        let real = at("real.db").canonicalize().unwrap();
        let beside = real.with_extension("db.seen");
        assert_eq!(default_path(None, Some(&at("b.db"))), beside);
        assert_eq!(default_path(None, Some(&real)), beside);
        open(&at("b.db.key.seen")).note(None, head("log", 5));
        let path = default_path(None, Some(&at("b.db")));
        assert_eq!(path, at("b.db.key.seen"));
    }
    // A damaged one is not passed over: it refuses the start and says so.
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("b.db.key.seen");
    fs::write(&damaged, "x").unwrap();
    let path = default_path(None, Some(&folder.path().join("b.db")));
    assert_eq!(path, damaged);
    // What lies in the working folder says nothing about a server's database with a key from elsewhere.
    let all = |key| places(key, None);
    assert_eq!(all(Some(Path::new("k/b.key"))), [Path::new("k/b.key.seen")]);
    assert!(all(None).contains(&"bookguard.key.seen".into()));
    assert!(all(Some(Path::new("bookguard.key"))).contains(&"bookguard.seen".into()));
}

#[test]
fn a_head_that_was_noted_is_there_after_a_kill() {
    let place = Place::new();
    let guard = open(&place.file());
    assert_eq!(guard.latest(), None);
    assert!(!place.file().exists(), "nothing was seen yet");
    for size in [0, 1, 5, 300] {
        guard.note(None, head("log", size));
        // Neither flushed nor shut down in order: another process reads what this one wrote.
        assert_eq!(in_file(&place.file()), head("log", size));
    }
    assert!(guard.is_dirty());
    guard.sync();
    assert!(!guard.is_dirty());
    assert_eq!(said(), [""; 0]);
}

#[test]
fn it_never_moves_backwards() {
    let place = Place::new();
    let guard = open(&place.file());
    guard.note(None, head("log", 9));
    let known = Some(Arc::new(head("log", 9)));
    assert_eq!(guard.note(None, head("log", 9)), None);
    assert_eq!(guard.note(None, head("log", 8)), known);
    let forked = PublishedHead {
        root: leaf_hash(b"other"),
        ..head("log", 9)
    };
    assert_eq!(guard.note(None, forked), known);
    assert_eq!(in_file(&place.file()), head("log", 9));
    guard.note(None, head("other", 50));
    guard.note(Some(&head("third", 9)), head("other", 50));
    assert_eq!(in_file(&place.file()), head("log", 9));
    guard.note(Some(&head("log", 7)), head("next", 3));
    assert_eq!(in_file(&place.file()), head("next", 3));
    let lines = said();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("the ledger continues as next: the loss of entries of log log"),
        "{lines:?}"
    );
    guard.note(Some(&head("next", 3)), head("next", 4));
    assert_eq!(*guard.seen().unwrap(), head("next", 4));
    // That more may have been published, it takes over.
    let unknown = |size| PublishedHead::at_least("next", size);
    guard.note(None, unknown(3));
    assert_eq!(*guard.seen().unwrap(), head("next", 4));
    guard.note(None, unknown(4));
    assert_eq!(in_file(&place.file()), unknown(4));
    assert_eq!(*guard.latest().unwrap(), unknown(4));
}

#[test]
fn processes_that_share_the_file_keep_the_greater_of_what_they_saw() {
    let place = Place::new();
    let (server, command) = (open(&place.file()), open(&place.file()));
    server.note(None, head("log", 10));
    assert_eq!(*command.latest().unwrap(), head("log", 10));
    command.note(None, head("log", 12));
    // The first to commit may be the last to write.
    server.note(None, head("log", 11));
    assert_eq!(in_file(&place.file()), head("log", 12));
    assert_eq!(*server.seen().unwrap(), head("log", 12));
    for size in 13..40 {
        let (one, other) = if size % 3 == 0 {
            (&server, &command)
        } else {
            (&command, &server)
        };
        one.note(None, head("log", size));
        assert_eq!(*other.latest().unwrap(), head("log", size));
    }
    // One process accepts a loss. The other still works under the old name.
    command.note(Some(&head("log", 39)), head("next", 20));
    assert_eq!(said().len(), 1);
    server.note(None, head("log", 40));
    assert_eq!(said(), [""; 0]);
    server.say("next", None);
    assert_eq!(
        said().len(),
        1,
        "each process says it, once the database shows it"
    );
    assert_eq!(*server.seen().unwrap(), head("next", 20));
    assert_eq!(in_file(&place.file()), head("next", 20));
}

#[test]
fn threads_that_note_at_once_leave_the_greatest() {
    let place = Place::new();
    let guards: Vec<Guard> = (0..4).map(|_| open(&place.file())).collect();
    std::thread::scope(|scope| {
        for (first, guard) in (0..).zip(&guards) {
            scope.spawn(move || {
                for size in (first..400).step_by(4) {
                    guard.note(None, head("log", size));
                }
            });
        }
    });
    assert_eq!(in_file(&place.file()), head("log", 399));
}

#[test]
fn a_torn_write_leaves_what_was_seen_before_it() {
    let place = Place::new();
    let guard = open(&place.file());
    for size in 1..6 {
        guard.note(None, head("log", size));
    }
    let bytes = fs::read(place.file()).unwrap();
    for cut in 1..512 {
        let mut torn = bytes.clone();
        let newest = bytes.windows(6).position(|w| w == b"/1 5 5").unwrap();
        let slot = newest / 512 * 512;
        torn[slot + cut..slot + 512].fill(0);
        fs::write(place.file(), &torn).unwrap();
        assert_eq!(in_file(&place.file()), head("log", 4), "cut at {cut}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_was_removed_or_replaced_gets_what_the_process_knows() {
    type Look = fn(&Guard);
    let looks: [Look; 3] = [
        Guard::sync,
        |guard| drop(guard.note(None, head("log", 9))),
        |guard| {
            guard.latest();
            guard.sync();
        },
    ];
    for look in looks {
        for (there, known) in [(None, 9), (Some(4), 9), (Some(9), 9), (Some(12), 12)] {
            let place = Place::new();
            let guard = open(&place.file());
            guard.note(None, head("log", 9));
            match there {
                None => fs::remove_file(place.file()).unwrap(),
                Some(size) => {
                    let other = place.0.path().join("other.seen");
                    open(&other).note(None, head("log", size));
                    fs::rename(other, place.file()).unwrap();
                }
            }
            look(&guard);
            assert_eq!(in_file(&place.file()), head("log", known), "{there:?}");
            assert_eq!(*guard.seen().unwrap(), head("log", known), "{there:?}");
            let lines = said();
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(
                lines[0].contains("b.key.seen was removed or replaced"),
                "{lines:?}"
            );
            // From then on it is the file as any other.
            guard.note(None, head("log", 20));
            guard.sync();
            assert_eq!(in_file(&place.file()), head("log", 20), "{there:?}");
            assert_eq!(said(), [""; 0]);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_file_whose_folder_is_gone_is_written_once_the_folder_is_back() {
    let place = Place::new();
    let path = place.0.path().join("folder").join("b.key.seen");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let guard = open(&path);
    guard.note(None, head("log", 1));
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    guard.sync();
    guard.note(None, head("log", 2));
    guard.sync();
    let lines = said();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("was removed or replaced"), "{lines:?}");
    assert!(lines[1].contains("cannot be written"), "{lines:?}");
    fs::create_dir(path.parent().unwrap()).unwrap();
    guard.sync();
    assert_eq!(in_file(&path), head("log", 2));
}

#[test]
fn a_damaged_file_refuses_the_start_and_names_the_way_out() {
    let place = Place::new();
    for (bytes, wrong) in [
        ("", "is empty"),
        ("x", "is damaged"),
        ("\0\0\0\0", "is damaged"),
        ("bookguard.seen/1 no slot", "is damaged"),
    ] {
        fs::write(place.file(), bytes).unwrap();
        let why = Guard::open(place.file()).err().unwrap();
        for word in [
            "b.key.seen",
            wrong,
            "put the copy in its place",
            "remove the file",
        ] {
            assert!(why.contains(word), "{word}: {why}");
        }
    }
    // Nobody is told to remove what else the service cannot do without.
    for other in [
        "PRIVATE+KEY+log+00000000+AAAA",
        "SQLite format 3\0",
        "{\"log\":\"log.example\"}\n",
    ] {
        fs::write(place.file(), other).unwrap();
        let why = Guard::open(place.file()).err().unwrap();
        assert!(why.contains("b.key.seen is not a guard file"), "{why}");
        assert!(!why.contains("remove"), "{why}");
    }
    fs::remove_file(place.file()).unwrap();
    fs::create_dir(place.file()).unwrap();
    let why = Guard::open(place.file()).err().unwrap();
    assert!(why.contains("b.key.seen cannot be read"), "{why}");
}

#[test]
fn an_unwritable_guard_file_is_reported_once() {
    let place = Place::new();
    let path = place.0.path().join("folder").join("b.key.seen");
    let guard = open(&path);
    for size in 1..4 {
        guard.note(None, head("log", size));
        assert_eq!(*guard.seen().unwrap(), head("log", size), "memory goes on");
    }
    let lines = said();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for word in [
        "b.key.seen cannot be written",
        "Writes are still taken",
        "--guard-file",
    ] {
        assert!(lines[0].contains(word), "{word}: {lines:?}");
    }
    fs::create_dir(path.parent().unwrap()).unwrap();
    // The head did not move, but is written anyway.
    guard.note(None, head("log", 3));
    assert_eq!(in_file(&path), head("log", 3));
    assert_eq!(said(), [""; 0]);
}

#[test]
fn a_rollback_is_said_when_it_begins_and_when_it_ends() {
    let place = Place::new();
    let guard = open(&place.file());
    let rollback = Rollback {
        found: head("log", 4),
        seen: head("log", 9),
        cause: RollbackCause::Behind,
        is_noted: false,
    };
    guard.say("log", None);
    guard.say("log", Some(&rollback));
    guard.say("log", Some(&rollback));
    let lines = said();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for word in [
        "holds 4 entries of log log, but 9 were published",
        "b.key.seen",
        "Every write is refused",
        "accept-rollback",
    ] {
        assert!(lines[0].contains(word), "{word}: {lines:?}");
    }
    guard.say("log", None);
    guard.say("log", None);
    assert_eq!(said(), ["the ledger is whole again: writes are taken"]);
}

#[test]
fn a_loss_is_certain_only_if_the_guard_is_this_ledgers() {
    let place = Place::new();
    let lost = |cause, seen: PublishedHead| Rollback {
        found: head("old", 4),
        seen,
        cause,
        is_noted: false,
    };
    let unknown = PublishedHead::at_least("old", 4);
    let guard = open(&place.file());
    guard.note(None, head("new", 9));
    #[rustfmt::skip]
    let cases = [
        (lost(RollbackCause::Behind, head("old", 9)), true),
        (lost(RollbackCause::Forked, head("old", 3)), true),
        (lost(RollbackCause::GuardLost, head("old", 4)), false),
        (lost(RollbackCause::Behind, unknown), false),
        // As the list of erasures shows it.
        (lost(RollbackCause::GuardLost, PublishedHead::at_least("old", 6)), true),
        (lost(RollbackCause::GuardLost, PublishedHead::at_least("foreign", 6)), false),
        (lost(RollbackCause::OtherLog, head("new", 9)), true),
        (lost(RollbackCause::OtherLog, head("foreign", 9)), false),
    ];
    for (rollback, is_certain) in cases {
        assert_eq!(guard.is_certain(&rollback), is_certain, "{rollback:?}");
    }
    // A head that only the file has may be another service's.
    let guard = open(&place.file());
    let of_the_file = lost(RollbackCause::OtherLog, head("new", 9));
    assert!(!guard.is_certain(&of_the_file));
    guard.say("new", None);
    assert!(guard.is_certain(&of_the_file));
    // The key is the same under every name.
    let of = |key: &str| {
        let guard = open(&place.file());
        guard.belongs_to(Some(key.to_owned()));
        guard
    };
    let more = head("new", 10);
    of("own").note(None, more.clone());
    let of_the_file = lost(RollbackCause::OtherLog, more);
    assert!(of("own").is_certain(&of_the_file));
    assert!(!of("other").is_certain(&of_the_file));
}

#[cfg(unix)]
#[test]
fn the_guard_of_another_service_is_not_taken_for_a_continuation() {
    let foreign = |place: &Place| {
        let other = place.0.path().join("other.seen");
        open(&other).note(None, head("foreign", 50));
        other
    };
    type Put = fn(&Path, &Path);
    let puts: [Put; 2] = [
        |from, to| fs::rename(from, to).unwrap(),
        // The file stays, with other bytes.
        |from, to| fs::write(to, fs::read(from).unwrap()).unwrap(),
    ];
    for put in puts {
        let place = Place::new();
        let guard = open(&place.file());
        guard.note(None, head("log", 4));
        let aside = place.0.path().join("aside");
        fs::copy(place.file(), &aside).unwrap();
        guard.note(None, head("log", 9));
        put(&foreign(&place), &place.file());
        assert_eq!(*guard.latest().unwrap(), head("foreign", 50));
        // The database goes on as before, and is not the log that the file names.
        guard.say("log", None);
        assert_eq!(
            guard.note(Some(&head("log", 9)), head("log", 10)),
            Some(Arc::new(head("foreign", 50)))
        );
        assert_eq!(in_file(&place.file()), head("foreign", 50));
        put(&aside, &place.file());
        guard.latest();
        guard.sync();
        assert_eq!(*guard.seen().unwrap(), head("log", 9));
        assert_eq!(in_file(&place.file()), head("log", 9));
        let lines = said();
        assert!(
            lines
                .iter()
                .all(|line| line.contains("removed or replaced")),
            "{lines:?}"
        );
        // A log without entries continues none.
        let empty = place.0.path().join("empty.seen");
        open(&empty).note(None, head("empty", 0));
        put(&empty, &place.file());
        assert_eq!(*guard.latest().unwrap(), head("log", 9));
        guard.sync();
        assert_eq!(in_file(&place.file()), head("log", 9));
        // One that the database was found to continue is followed, and said to be.
        put(&foreign(&place), &place.file());
        guard.latest();
        said();
        guard.say("foreign", None);
        let lines = said();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("continues as foreign"), "{lines:?}");
    }
}
