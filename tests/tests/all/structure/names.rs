//! One name, one thing: types that are visible beyond their own folder have distinct names.

use std::collections::BTreeMap;

use super::sources;

/// The tags of ids have the names of the types they identify.
const TAGS: &str = "bookguard-core/model/id.rs";

/// Returns the name of a type that a line declares for use beyond its folder.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line
        .strip_prefix("pub(crate) ")
        .or(line.strip_prefix("pub "))?;
    let (kind, rest) = line.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    ["struct", "enum", "type", "trait"]
        .contains(&kind)
        .then_some(name)
}

#[test]
fn a_type_known_beyond_its_folder_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in ["bookguard-core", "bookguard-server", "bookguard-cli"] {
        for (file, text) in sources(package) {
            let place = format!("{package}/{file}");
            if place == TAGS {
                continue;
            }
            for name in text.lines().filter_map(declared) {
                let known = places.entry(name.to_owned()).or_default();
                known.push(place.clone());
            }
        }
    }
    assert!(places.len() > 300, "the types were not found");
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "one name for several types: {places:#?}");
}
