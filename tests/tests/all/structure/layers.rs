//! Layers point one way: a module may import modules of the lines above its own, and none of its own line.
//!
//! Only files of one folder that are named together may import each other. A new module must be added to a line.

use std::fs;

use super::{repository, sources};

/// A crate's modules: a line for each layer, the lowest first; a `+` joins modules that are named together. In `folders`, each file is a
/// module of its own.
struct Layers {
    package: &'static str,
    folders: &'static [&'static str],
    lines: &'static str,
}

const CORE: Layers = Layers {
    package: "bookguard-core",
    folders: &["engine", "features"],
    lines: "
        # Pure: identifiers and values, policies, the ledger's bytes, packets, signatures.
        limits lines schema text version
        model
        error ledger
        input
        policy
        webhook
        evidence
        # What a node has besides its database.
        clock entropy private packets policy_cache
        engine/lease engine/waiting erasure_list guard key_file seal
        log
        # A batch's questions, data and effects, and the store that loads and writes them.
        engine/batch+engine/change+engine/command+engine/needs
        engine/answers engine/chain engine/decide engine/outbox store
        engine/presence storage
        engine/writer
        service
        session
        operation
        features/activity features/api_keys features/attempts features/audit features/cosignatures features/epochs features/health \
            features/ledger features/operator_keys features/policies features/retention features/timestamps
        features/console features/partners features/system
        features/endpoints features/operator_sessions
        features/deliveries
        features/bookings features/events
        features/cancellations
        features/erasures features/evaluations features/holds
        features/endings features/items features/key_notices features/recoveries features/reschedules
        features/acceptances
        features/evidence
        features/shares
    ",
};

const SERVER: Layers = Layers {
    package: "bookguard-server",
    folders: &[],
    lines: "
        apart causes media
        key_uses meter metrics negotiation pages payer rate skew test_runtime tls under_way watch
        answers cosigning courier mapping refusal retention stamping traces uploads
        housekeeping observer
        logging
        incoming proxies readers
        auth config router
        app probes
        connections
        api scrape
        mcp
        console documents
        server
        witness
    ",
};

const CLI: Layers = Layers {
    package: "bookguard-cli",
    folders: &[],
    lines: "
        args exit text
        failure
        files http output profiles
        consent settings
        target
        commands
        main reference
    ",
};

/// The pure modules: they do no I/O, and may import nothing of the crate but each other.
const PURE: [&str; 10] = [
    "error", "evidence", "input", "ledger", "limits", "model", "policy", "schema", "text",
    "webhook",
];

/// Modules that no rule may import: clocks, randomness, and everything that does I/O.
const FORBIDDEN_IN_RULES: &str = "clock entropy operation service session store engine/writer";

/// Paths that mean I/O, clocks, randomness or waiting.
const IO: &str = "std::env std::fs std::net std::process std::thread Instant::now SystemTime::now .elapsed() getrandom r2d2 rusqlite \
    tokio .await";

impl Layers {
    /// The lines of the table without its remarks.
    fn layers(&self) -> impl Iterator<Item = &'static str> {
        let lines = self.lines.lines();
        lines.filter(|line| !line.trim_start().starts_with('#'))
    }

    /// Returns each file with its module and the modules it imports.
    fn imports(&self) -> Vec<(String, String, Vec<String>)> {
        let files = sources(self.package).into_iter();
        let files = files.filter(|(file, _)| file != "lib.rs");
        let found = files.filter_map(|(file, text)| {
            let module = self.module(file.trim_end_matches(".rs"))?;
            let imported = self.imported(&file, &text);
            Some((file, module, imported))
        });
        found.collect()
    }

    /// Returns the module of the table that a path belongs to; `None` for a file that only declares a folder's modules.
    fn module(&self, path: &str) -> Option<String> {
        let mut parts = path.split('/');
        let first = parts.next()?;
        if !self.folders.contains(&first) {
            return Some(first.to_owned());
        }
        Some(format!("{first}/{}", parts.next()?))
    }

    fn imported(&self, file: &str, text: &str) -> Vec<String> {
        // In a file directly below such a folder, `super` is the folder.
        let folder = file
            .split_once('/')
            .filter(|(folder, rest)| self.folders.contains(folder) && !rest.contains('/'));
        // Where something is visible is not an import.
        let mut text = text.replace("(in crate::", "(in ");
        if let Some((folder, _)) = folder {
            text = text.replace("super::", &format!("crate::{folder}::"));
        }
        let word = |text: &str| -> String {
            let is_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            text.chars().take_while(is_word).collect()
        };
        let mut modules = Vec::new();
        for after in text.split("crate::").skip(1) {
            assert!(
                !after.starts_with('{'),
                "{file}: one `use crate::…` for each module, so that it can be read here"
            );
            let path: Vec<String> = after.splitn(3, "::").take(2).map(word).collect();
            modules.extend(self.module(&path.join("/")));
        }
        modules
    }

    /// Returns the line and group of a module.
    fn place(&self, module: &str) -> (usize, usize) {
        let mut groups = self.layers().enumerate().flat_map(|(line, groups)| {
            let groups = groups.split_whitespace().enumerate();
            groups.map(move |(group, names)| (line, group, names))
        });
        let found = groups.find(|(.., names)| names.split('+').any(|name| name == module));
        let (line, group, _) = found.unwrap_or_else(|| {
            let package = self.package;
            panic!("{package}: {module} is in no layer: put it into the table")
        });
        (line, group)
    }
}

#[test]
fn no_module_imports_its_own_layer_or_one_above_it() {
    for layers in [CORE, SERVER, CLI] {
        let mut wrong = Vec::new();
        for (file, module, imported) in layers.imports() {
            let (line, group) = layers.place(&module);
            for other in imported {
                let there = layers.place(&other);
                if other != module && there.0 >= line && there != (line, group) {
                    wrong.push(format!("{}: {file} imports {other}", layers.package));
                }
            }
        }
        assert!(wrong.is_empty(), "upwards or across:\n{}", wrong.join("\n"));
    }
}

#[test]
fn modules_named_together_are_files_of_one_folder() {
    for names in CORE.layers().flat_map(str::split_whitespace) {
        let split = |name: &'static str| name.split_once('/').map(|(folder, _)| folder);
        let folders: Vec<_> = names.split('+').map(split).collect();
        assert!(folders.len() == 1 || folders[0].is_some(), "{names}");
        assert!(
            folders.iter().all(|folder| *folder == folders[0]),
            "{names}"
        );
    }
}

#[test]
fn what_is_pure_does_no_io_and_imports_nothing_that_does() {
    let texts = sources(CORE.package);
    for (file, module, imported) in CORE.imports() {
        let rule = file.starts_with("features/")
            && (file.ends_with("/rule.rs") || file.contains("/rule/"));
        let value = ["batch", "change", "command", "needs", "chain", "decide"]
            .map(|part| format!("engine/{part}"));
        let decides = file.starts_with("features/") && texts[&file].contains("\nimpl Command for ");
        assert!(
            rule || !decides,
            "{file} decides, so it is a rule.rs or in its folder"
        );
        if PURE.contains(&&*module) {
            let impure = imported.iter().find(|other| !PURE.contains(&&***other));
            assert_eq!(impure, None, "{file} is pure");
        } else if rule {
            let forbidden = |other: &str| FORBIDDEN_IN_RULES.split(' ').any(|it| it == other);
            let known = imported.iter().find(|other| forbidden(other));
            assert_eq!(known, None, "{file} is a rule");
        } else if !value.contains(&module) {
            continue;
        }
        let io = IO.split(' ').find(|io| texts[&file].contains(io));
        assert_eq!(io, None, "{file} is pure");
    }
}

/// Only the nightly fuzzing compiles its program, which takes files of the server one by one.
#[test]
fn files_that_are_fuzzed_import_only_what_is_fuzzed_with_them() {
    let path = repository().join("tests/fuzz/src/main.rs");
    let main = fs::read_to_string(path).unwrap();
    let root: Vec<&str> = (main.lines())
        .filter(|line| !line.starts_with(' '))
        .collect();
    let root = root.join("\n");
    let has = |text: &str, name: &str| {
        let declared = [
            format!("mod {name};"),
            format!("mod {name} {{"),
            format!("::{name};"),
        ];
        declared.iter().any(|it| text.contains(it))
    };
    let server = sources("bookguard-server");
    let (mut files, mut missing) = (0, Vec::new());
    for block in main
        .split("#[path = \"../../../bookguard-server/src")
        .skip(1)
    {
        let (folder, rest) = block.split_once('"').unwrap();
        let block = rest.split("\n}\n").next().unwrap();
        let taken = block.lines().map(str::trim);
        for name in taken.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
            let file = format!("{folder}/{name}.rs");
            let file = file.trim_start_matches('/');
            for (start, place) in [("crate::", root.as_str()), ("super::", block)] {
                for after in server[file].split(start).skip(1) {
                    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                    let head = &after[..end.unwrap()];
                    if !has(place, head) {
                        missing.push(format!("{file} imports {start}{head}"));
                    }
                }
            }
            files += 1;
        }
    }
    assert!(files > 8, "{files}");
    assert!(
        missing.is_empty(),
        "not in tests/fuzz/src/main.rs: {missing:?}"
    );
}
