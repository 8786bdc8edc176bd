//! Files that a node keeps beside its database: damaged, cut, or another program's.

use std::fs;
use std::path::PathBuf;
use std::slice;
use std::sync::LazyLock;

use bookguard_core::erasure_list::{ErasureList, ListedErasure};
use bookguard_core::guard::Guard;
use bookguard_core::ledger::Hash;
use bookguard_core::ledger::rollback::PublishedHead;
use sha2::{Digest as _, Sha256};

/// The folder of this process. `tests/fuzz/run` removes the one above it.
pub static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("kept-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
});

static ADDED: LazyLock<ListedErasure> =
    LazyLock::new(|| serde_json::from_slice(include_bytes!("../corpus/erasures/one")).unwrap());

/// The list: both of its readers agree. What is added is found again after what was there; a line that was not written to its end is
/// gone, and damage is never passed over.
pub fn erasures(bytes: &[u8]) {
    let list = ErasureList::beside(&FOLDER.join("b.key.seen"));
    fs::write(list.path(), bytes).unwrap();
    let all = || {
        let mut found = Vec::new();
        let take = |one| {
            found.push(one);
            Ok(())
        };
        list.each::<String>(take).map(|()| found)
    };
    let before = all();
    match &before {
        Ok(found) => assert_eq!(list.last().as_ref().map(Option::as_ref), Ok(found.last())),
        Err(why) => assert!(why.contains("is damaged"), "{why}"),
    }
    list.add(slice::from_ref(&ADDED)).unwrap();
    assert_eq!(list.last().as_ref().map(Option::as_ref), Ok(Some(&*ADDED)));
    match before {
        Ok(mut found) => {
            found.push(ADDED.clone());
            assert_eq!(all(), Ok(found));
        }
        Err(_) => assert!(all().is_err()),
    }
}

/// The guard's file, as it is; or up to two slots, each a line without the format and the digest, after the line `slots`. A guard that opens knows a
/// head, moves to a later one of that log and to no earlier one, and knows it when it is opened again.
pub fn guards(bytes: &[u8]) {
    let path = FOLDER.join("b.seen");
    let file = match bytes.strip_prefix(b"slots\n") {
        None => bytes.to_vec(),
        Some(lines) => lines
            .split(|byte| *byte == b'\n')
            .take(2)
            .flat_map(slot)
            .collect(),
    };
    fs::write(&path, file).unwrap();
    let open = || Guard::open(path.clone());
    let guard = match open() {
        Ok(guard) => guard,
        Err(why) => {
            assert!(why.contains("b.seen"), "{why}");
            return;
        }
    };
    let seen = guard.latest().expect("a guard that opens knows a head");
    // A log's name has at most 255 bytes; no key has a longer one.
    let (Some(size), true) = (seen.size.checked_add(1), seen.origin.len() <= 255) else {
        return;
    };
    let later = PublishedHead {
        size,
        root: Hash::of(b"root"),
        ..(*seen).clone()
    };
    guard.note(None, later.clone());
    assert_eq!(open().unwrap().latest().as_deref(), Some(&later));
    guard.note(None, (*seen).clone());
    assert_eq!(open().unwrap().latest().as_deref(), Some(&later));
}

fn slot(words: &[u8]) -> Vec<u8> {
    let mut bytes = [b"bookguard.seen/1 ", words, b" "].concat();
    let digest = hex::encode(Sha256::digest(&bytes));
    bytes.extend(&digest.as_bytes()[..32]);
    bytes.resize(512, b' ');
    bytes
}
