//! The ledger key and the log it belongs to: who may begin a log, who may go on with it, and what is left of a key
//! that came second.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(target_os = "linux")]
use std::io::Write as _;
use std::ops::Deref;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

use bookguard_core::key_file::{LedgerKey, LedgerKeySource};
use bookguard_core::service::{Closing, OpenError, Service, ServiceConfig};

/// A node; closed when it is dropped.
struct Node {
    service: Option<Arc<Service>>,
    closing: Option<Closing>,
}

impl Deref for Node {
    type Target = Service;

    fn deref(&self) -> &Service {
        self.service.as_ref().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.service.take());
        self.closing.take().unwrap().wait();
    }
}

impl Node {
    fn vkey(&self) -> String {
        self.head().unwrap().vkey
    }

    fn origin(&self) -> String {
        self.head().unwrap().origin
    }
}

type Opened = Result<Node, OpenError>;

fn open(db: &Path, key: Option<LedgerKeySource>) -> Opened {
    let opened = Service::open(ServiceConfig {
        ledger_key: key,
        ..ServiceConfig::of(db.into())
    });
    opened.map(|(service, closing)| Node {
        service: Some(service),
        closing: Some(closing),
    })
}

/// Opens one database under each of the keys, all at the same moment.
fn open_together(db: &Path, keys: Vec<Option<LedgerKeySource>>) -> Vec<Opened> {
    let start = Barrier::new(keys.len());
    std::thread::scope(|scope| {
        let opening: Vec<_> = keys
            .into_iter()
            .map(|key| {
                scope.spawn(|| {
                    start.wait();
                    open(db, key)
                })
            })
            .collect();
        opening
            .into_iter()
            .map(|opening| opening.join().unwrap())
            .collect()
    })
}

fn key_text(folder: &Path) -> String {
    let path = folder.join("made.key");
    LedgerKey::generate().save(&path).unwrap();
    std::fs::read_to_string(path).unwrap()
}

/// The part of a key that nobody may see.
fn secret(text: &str) -> &str {
    text.trim().splitn(5, '+').last().unwrap()
}

fn as_text(text: &str) -> Option<LedgerKeySource> {
    let source = LedgerKeySource::from_variable(text.into());
    assert!(source.path().is_none());
    Some(source)
}

fn as_file(path: &Path) -> Option<LedgerKeySource> {
    Some(LedgerKeySource::file(path.to_owned()).unwrap())
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into())
        .filter(|name: &PathBuf| name.extension().is_some_and(|end| end == "key"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_key_given_as_text_begins_the_log_and_is_never_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = key_text(tempfile::tempdir().unwrap().path());
    let db = folder.path().join("b.db");
    let service = open(&db, as_text(&text)).unwrap();
    assert_eq!(service.begun(), None, "there is no file to keep a copy of");
    let vkey = service.vkey();
    drop(service);
    assert!(names(folder.path()).is_empty());
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let secret = secret(&text).as_bytes();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret));
    }
    // Text and file are the same key.
    let file = folder.path().join("given.key");
    std::fs::write(&file, &text).unwrap();
    assert_eq!(open(&db, as_file(&file)).unwrap().vkey(), vkey);
}

#[test]
fn a_node_without_the_log_s_key_refuses_and_leaves_no_key_behind() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let first = open(&db, None).unwrap();
    assert!(first.begun().unwrap().contains("b.db.key; keep a copy"));
    let elsewhere = folder.path().join("node2.key");
    let without = open(&db, as_file(&elsewhere)).err().unwrap();
    assert!(
        without.contains("node2.key is missing")
            && without.contains(&first.origin())
            && without.contains("BOOKGUARD_LEDGER_KEY"),
        "{without}"
    );
    let text = key_text(tempfile::tempdir().unwrap().path());
    let other = open(&db, as_text(&text)).err().unwrap();
    assert!(
        other.contains("another key") && other.contains(&first.origin()),
        "{other}"
    );
    assert!(!other.contains(secret(&text)));
    let cut = &text[..text.len() - 9];
    let broken = open(&db, as_text(cut)).err().unwrap();
    assert!(
        broken.contains("BOOKGUARD_LEDGER_KEY does not hold a complete ledger key"),
        "{broken}"
    );
    for part in cut.split('+').filter(|part| part.len() > 7) {
        assert!(!broken.contains(part), "{broken}");
    }
    assert_eq!(names(folder.path()), [PathBuf::from("b.db.key")]);
}

#[test]
fn a_key_or_a_guard_that_cannot_be_used_makes_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let text = key_text(elsewhere.path());
    let nonsense = elsewhere.path().join("nonsense");
    std::fs::write(&nonsense, "This is something else.").unwrap();
    let guarded = ServiceConfig {
        guard_file: Some(nonsense.clone()),
        ..ServiceConfig::of(db.as_path().into())
    };
    #[rustfmt::skip]
    let cases = [
        (open(&db, as_text(&text[..text.len() - 9])).err(), "BOOKGUARD_LEDGER_KEY does not hold a complete ledger key"),
        (open(&db, as_file(&nonsense)).err(), "nonsense is not a ledger key"),
        (Service::open(guarded).err(), "nonsense is not a guard file"),
    ];
    for (refused, words) in cases {
        let refused = refused.unwrap();
        assert!(refused.contains(words), "{refused}");
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "{refused}");
    }
    assert!(open(&db, as_text(&text)).is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_that_comes_through_a_pipe_begins_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer
        .write_all(key_text(elsewhere.path()).as_bytes())
        .unwrap();
    drop(writer);
    let pipe = format!("/dev/fd/{}", reader.as_raw_fd());
    let opened = Service::open(ServiceConfig {
        ledger_key: as_file(Path::new(&pipe)),
        guard_file: Some(folder.path().join("guard")),
        ..ServiceConfig::of(folder.path().join("b.db").as_path().into())
    });
    let (service, closing) = opened.unwrap();
    drop(service);
    closing.wait();
}

#[test]
fn two_nodes_that_begin_at_once_with_one_key_both_come_up() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let text = key_text(tempfile::tempdir().unwrap().path());
        let db = folder.path().join("b.db");
        let opened = open_together(&db, vec![as_text(&text), as_text(&text)]);
        let [one, two] = [&opened[0], &opened[1]].map(|node| node.as_ref().unwrap());
        assert_eq!(one.vkey(), two.vkey());
    }
}

#[test]
fn two_nodes_that_begin_at_once_and_make_the_key_in_one_place_share_it() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let opened = open_together(&folder.path().join("b.db"), vec![None, None]);
        let [one, two] = [&opened[0], &opened[1]].map(|node| node.as_ref().unwrap());
        assert_eq!(one.vkey(), two.vkey());
        assert_eq!(names(folder.path()), [PathBuf::from("b.db.key")]);
    }
}

#[test]
fn of_two_nodes_that_begin_at_once_with_different_keys_exactly_one_comes_up() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let keys = ["one.key", "two.key"].map(|name| folder.path().join(name));
        let opened = open_together(
            &folder.path().join("b.db"),
            keys.iter().map(|key| as_file(key)).collect(),
        );
        let (up, refused): (Vec<_>, Vec<_>) = opened.iter().partition(|node| node.is_ok());
        assert_eq!((up.len(), refused.len()), (1, 1));
        let why = refused[0].as_ref().err().unwrap();
        assert!(why.contains("(log bookguard-"), "{why}");
        // Only the log's own key is left, so that the other node is started again with a copy of it.
        assert_eq!(names(folder.path()).len(), 1, "{:?}", names(folder.path()));
    }
}
