//! What was released stays as it is: `tests/frozen.sha256` lists vectors and databases with their digests, as `sha256sum` writes and reads
//! them. A listed file may neither change nor vanish. With `UPDATE=1` new ones join the list; a release demands that none is missing.

use std::collections::BTreeMap;
use std::fs;

use sha2::{Digest as _, Sha256};

use super::files;
use crate::documents::repository;

const LIST: &str = "tests/frozen.sha256";
const FOLDERS: [&str; 2] = ["tests/vectors", "tests/tests/all/upgrade/fixtures"];
/// It grows with the packets that it lists.
const INDEX: &str = "tests/vectors/packets/index.json";
/// What the folders hold; README.md explains them, and may change.
const EXTENSIONS: [&str; 6] = ["json", "pem", "sql", "tsr", "txt", "vkey"];

/// Digests by path.
type Digests = BTreeMap<String, String>;

fn present() -> Digests {
    let mut found = Digests::new();
    for folder in FOLDERS {
        let root = repository().join(folder);
        for path in EXTENSIONS
            .iter()
            .flat_map(|extension| files(&root, extension))
        {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            let digest = Sha256::digest(fs::read(&path).unwrap());
            let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            found.insert(format!("{folder}/{name}"), digest);
        }
    }
    found.remove(INDEX).expect("the packets are listed");
    found
}

fn listed(text: &str) -> Digests {
    let lines = text.lines().map(|line| {
        let (digest, name) = line.split_once("  ").expect("a digest, two spaces, a path");
        (name.to_owned(), digest.to_owned())
    });
    lines.collect()
}

/// The listed files that are not as they were.
fn changed<'a>(listed: &'a Digests, present: &Digests) -> Vec<&'a str> {
    let other = |(name, digest): &(&String, &String)| present.get(*name) != Some(*digest);
    let found = listed.iter().filter(other);
    found.map(|(name, _)| &**name).collect()
}

#[test]
fn what_was_released_stays_as_it_is() {
    let list = repository().join(LIST);
    let mut kept = listed(&fs::read_to_string(&list).unwrap_or_default());
    let present = present();
    assert!(present.len() > 300, "the files were not found");
    let changed = changed(&kept, &present);
    assert!(
        changed.is_empty(),
        "these were released, so they cannot change; what is new goes into a new file: {changed:#?}. If they were never released, \
         delete {LIST} and run this test with UPDATE=1"
    );
    if std::env::var_os("UPDATE").is_some() {
        kept.extend(present);
        let lines = kept
            .iter()
            .map(|(name, digest)| format!("{digest}  {name}\n"));
        fs::write(list, lines.collect::<String>()).unwrap();
    } else {
        assert!(
            !kept.is_empty(),
            "{LIST} is missing; run this test with UPDATE=1"
        );
    }
}

#[test]
fn a_change_and_a_loss_are_noticed_and_an_addition_is_free() {
    let released = listed("aa  one\nbb  two\n");
    for (present, expected) in [
        ("aa  one\nbb  two\n", vec![]),
        ("aa  one\nbb  two\ncc  three\n", vec![]),
        ("aa  one\nbc  two\n", vec!["two"]),
        ("bb  two\ncc  three\n", vec!["one"]),
    ] {
        assert_eq!(changed(&released, &listed(present)), expected, "{present}");
    }
}
