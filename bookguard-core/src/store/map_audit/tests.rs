use tempfile::tempdir;

use super::*;
use crate::evidence::HandmadeLog;
use crate::ledger::{Tree, leaf_hash};

/// Some streams of a few entries each, with a true map after every tenth entry, except that the one in the entry `lie` is false.
fn log(size: usize, lie: Option<usize>) -> Vec<Vec<u8>> {
    let mut log = HandmadeLog::default();
    for index in 0..size {
        if index % 10 != 9 {
            log = log.entry((index % 37) as u8);
            continue;
        }
        let mut epoch = log.epoch(index);
        if lie == Some(index) {
            epoch.map_root = Hash([1; 32]);
        }
        log = log.says(&epoch);
    }
    log.0
}

fn root(log: &[Vec<u8>]) -> Hash {
    let mut tree = Tree::empty();
    tree.append(log.iter().map(|leaf| leaf_hash(leaf)));
    tree.root()
}

#[test]
fn an_audit_goes_on_from_where_its_file_is() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let log = log(300, None);
    for (from, to) in [(0, 1), (1, 8), (8, 9), (9, 95), (95, 95), (95, 300)] {
        let mut file = AuditFile::open(&path, "log.example").unwrap();
        assert_eq!(
            (file.audited().size, file.audited().root),
            (from as u64, root(&log[..from]))
        );
        let taken = file.take(&log[from..to], (root(&log[..to]), "a note"));
        assert_eq!(taken, Ok(None));
    }
    let file = AuditFile::open(&path, "log.example").unwrap();
    let expected = AuditedTo {
        size: 300,
        covered: 299,
        maps: 30,
    };
    assert_eq!(
        (file.to(), file.note(), file.fault()),
        (expected, "a note", None)
    );
    let Err(other) = AuditFile::open(&path, "other.example") else {
        panic!("it is another log's")
    };
    assert!(other.to_string().contains("log.example"), "{other}");
}

#[test]
fn a_lie_stays_and_nothing_is_kept_of_its_step() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let log = log(60, Some(49));
    let mut file = AuditFile::open(&path, "log.example").unwrap();
    assert_eq!(file.take(&log[..45], (root(&log[..45]), "first")), Ok(None));
    let lie = file.take(&log[45..], (root(&log), "second"));
    let expected = MapFault::Map {
        index: 49,
        covered: 39,
    };
    assert_eq!(lie, Ok(Some(expected.clone())));
    drop(file);
    let file = AuditFile::open(&path, "log.example").unwrap();
    assert_eq!(
        (file.audited().size, file.audited().root),
        (45, root(&log[..45]))
    );
    assert_eq!(file.note(), "second");
    assert_eq!(file.fault(), Some(expected.to_string().as_str()));
}

#[test]
fn a_file_is_made_whole_or_not_at_all() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("made.audit");
    let own = ["audited", "map_page"];
    let cut = "CREATE TABLE audited (id INTEGER PRIMARY KEY) STRICT; CREATE";
    assert!(sqlite::open_other(&path, own, cut).is_err());
    assert!(AuditFile::open(&path, "log.example").is_ok());
}

#[test]
fn what_is_no_file_of_an_audit_is_left_alone() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("b.db");
    crate::store::Store::open(&crate::store::Database::File(path.clone()), true).unwrap();
    assert_eq!(
        AuditFile::open(&path, "log.example").err(),
        Some(StoreError::Foreign)
    );
    std::fs::write(&path, "no database").unwrap();
    assert!(AuditFile::open(&path, "log.example").is_err());
}
