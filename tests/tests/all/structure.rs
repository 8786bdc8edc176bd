//! The layout of the code, read from its sources: layers point one way, little is public, a name means one thing, and every
//! operation is offered everywhere. And the files of released versions, which stay as they are.

mod frozen;
mod layers;
mod names;
mod operations;
mod sql;
mod surface;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::documents::repository;

/// Returns a crate's source files by their paths below `src`, without comments and tests.
fn sources(package: &str) -> BTreeMap<String, String> {
    let root = repository().join(package).join("src");
    let mut found = BTreeMap::new();
    for path in files(&root, "rs") {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        if !(name.ends_with("tests.rs") || name.contains("/tests/") || name.contains("fixture")) {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(name.to_owned(), code(&text));
        }
    }
    assert!(found.len() > 30, "the sources of {package} were not found");
    found
}

fn code(text: &str) -> String {
    let own = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
    let lines = own
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns every file below a folder that has this extension.
fn files(root: &Path, extension: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found
}
