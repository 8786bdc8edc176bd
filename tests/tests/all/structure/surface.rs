//! The public modules of each crate: a new public module must be intended.

use super::sources;

/// Returns the public modules of a crate's root, each with the feature that enables it.
fn public_modules(package: &str) -> Vec<(String, Option<String>)> {
    let root = &sources(package)["lib.rs"];
    let mut found = Vec::new();
    let mut feature = None;
    for line in root.lines() {
        if let Some(name) = line.strip_prefix("#[cfg(feature = \"") {
            feature = name.split('"').next().map(str::to_owned);
        } else if let Some(module) = line.strip_prefix("pub mod ") {
            found.push((module.trim_end_matches(';').to_owned(), feature.take()));
        } else {
            feature = None;
        }
    }
    found
}

#[test]
fn without_features_the_library_shows_what_a_receiver_needs() {
    let modules = public_modules("bookguard-core");
    let always = modules.iter().filter(|(_, feature)| feature.is_none());
    let always: Vec<_> = always.map(|(module, _)| &**module).collect();
    assert_eq!(
        always,
        ["error", "evidence", "ledger", "model", "policy", "webhook"]
    );
    for (module, feature) in &modules {
        let known = feature
            .as_deref()
            .is_none_or(|feature| ["internals", "openapi", "store"].contains(&feature));
        assert!(known, "{module} is behind {feature:?}");
    }
}

#[test]
fn without_features_an_error_is_no_answer_of_the_service() {
    let text = &sources("bookguard-core")["error.rs"];
    let mut blocks = text.split("\nimpl Error {\n");
    let mut before = blocks.next().unwrap();
    let mut shown = Vec::new();
    for block in blocks {
        let (methods, _) = block.split_once("\n}\n").unwrap();
        if !before.ends_with("#[cfg(feature = \"internals\")]") {
            let names = methods
                .lines()
                .filter_map(|line| line.strip_prefix("    pub fn "));
            shown.extend(names.filter_map(|name| name.split('(').next()));
        }
        before = block;
    }
    assert_eq!(
        shown,
        ["new", "invalid", "conflict", "internal", "fault", "faults"]
    );
}

#[test]
fn the_server_shows_what_the_command_line_needs() {
    let modules = public_modules("bookguard-server");
    let names: Vec<_> = modules.iter().map(|(module, _)| &**module).collect();
    assert_eq!(
        names,
        [
            "config", "courier", "logging", "mcp", "tls", "watch", "witness"
        ]
    );
    let command_line = sources("bookguard-cli").into_values().collect::<String>();
    for name in names {
        let used = command_line.contains(&format!("bookguard_server::{name}"));
        assert!(
            used,
            "{name} is public and the command line does not use it"
        );
    }
}
