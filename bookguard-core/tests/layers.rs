//! Layers point one way: what a module imports is in its own layer or below it.
//!
//! A layer is a line of the table; modules of one line may know each other. A new module has to be put somewhere.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// From the ground up.
const LAYERS: [&[&str]; 9] = [
    &["entropy", "limits", "private", "text"],
    // Pure: nouns, policies, the ledger's bytes, packets, signatures, and the error they are refused with.
    &[
        "error", "evidence", "input", "ledger", "model", "policy", "webhook",
    ],
    &["clock", "engine/lease", "engine/waiting"],
    // What a batch sees, asks and causes, and the store that loads and writes it.
    &[
        "engine/batch",
        "engine/change",
        "engine/command",
        "engine/needs",
        "guard",
        "key_file",
        "log",
        "store",
    ],
    &[
        "engine/answers",
        "engine/chain",
        "engine/decide",
        "engine/presence",
        "packets",
        "policy_cache",
        "storage",
    ],
    &["engine/outbox", "engine/writer"],
    &["service"],
    &["operation", "session"],
    &["features"],
];

/// What no rule may know: clocks, dice, and everything that does I/O.
const FORBIDDEN_IN_RULES: [&str; 7] = [
    "clock",
    "entropy",
    "operation",
    "service",
    "session",
    "store",
    "engine/writer",
];

/// Each source file's path below `src`, with the modules it imports from this crate.
fn imports() -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "lib.rs" && !is_test(name) {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(name.to_owned(), imported(&text));
            }
        }
    }
    found
}

fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

fn imported(text: &str) -> Vec<String> {
    let text = text
        .split("\n#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or(text);
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = code.collect();
    let code = code.join("\n");
    let mut modules = Vec::new();
    for after in code.split("crate::").skip(1) {
        let is_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let mut words = after
            .split("::")
            .map(|word| -> String { word.chars().take_while(is_word).collect() });
        let first = words.next().unwrap_or_default();
        modules.push(match first.as_str() {
            "engine" => format!("engine/{}", words.next().unwrap_or_default()),
            _ => first,
        });
    }
    modules
}

/// The module of the table that a file is of; none for a file that only names modules.
fn module(file: &str) -> Option<String> {
    let file = file.trim_end_matches(".rs");
    let mut parts = file.split('/');
    match (parts.next()?, parts.next()) {
        ("engine", None) => None,
        ("engine", Some(part)) => Some(format!("engine/{part}")),
        (module, _) => Some(module.to_owned()),
    }
}

fn layer(module: &str) -> usize {
    let found = LAYERS.iter().position(|layer| layer.contains(&module));
    found.unwrap_or_else(|| panic!("{module} is in no layer: put it into the table"))
}

#[test]
fn no_module_imports_from_a_layer_above_it() {
    let files = imports();
    assert!(files.len() > 100, "the sources were not found");
    for (file, modules) in files {
        let Some(own) = module(&file) else { continue };
        for imported in modules {
            assert!(
                layer(&imported) <= layer(&own),
                "{file} imports {imported}, which is above {own}"
            );
        }
    }
}

#[test]
fn rules_know_no_clock_no_dice_and_nothing_that_does_io() {
    let is_rule = |file: &str| file.starts_with("features/") && file.ends_with("/rule.rs");
    let rules: Vec<_> = imports()
        .into_iter()
        .filter(|(file, _)| is_rule(file))
        .collect();
    assert!(rules.len() > 8, "the rules were not found");
    for (file, modules) in rules {
        for forbidden in FORBIDDEN_IN_RULES {
            let known = modules.iter().any(|module| module == forbidden);
            assert!(!known, "{file} is a rule and imports {forbidden}");
        }
    }
}
