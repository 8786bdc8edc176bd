//! docs/reference/settings.md is what the configuration file and the flags say of themselves. This holds the page against them,
//! and with `UPDATE=1` writes it anew. docs/cli.md names every command.

use std::fmt::Write as _;

use bookguard_server::config::Settings;
use clap::{Arg, CommandFactory as _};

use crate::commands::Cli;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/settings.md");

const HEAD: &str = "\
# Settings

Flags win over the environment, the environment over the configuration file (`--config`, TOML). The file has the names in the first
column. The environment variable of `public_url` is `BOOKGUARD_PUBLIC_URL`, and so for all; one that is set to nothing counts as not
set. Lists are arrays in the file and separated by commas in the environment; a flag of a list may be given several times.
[Operate](../operate.md) explains what belongs together.

This page is made from the code: `UPDATE=1 cargo test -p bookguard-cli reference` rewrites it.

";

/// The names of the configuration file's keys, as its reader lists them to somebody who has written another.
fn keys() -> Vec<String> {
    let refused = serde_json::from_str::<Settings>("{\"\": 0}")
        .unwrap_err()
        .to_string();
    let (_, known) = refused.split_once("expected one of ").unwrap();
    let names = known.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// The flag of a setting: it has the setting's name, and is one of `serve` or of every command.
fn flag(key: &str) -> Arg {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve").unwrap();
    let mut flags = cli.get_arguments().chain(serve.get_arguments());
    let flag = flags.find(|arg| arg.get_id() == key);
    flag.unwrap_or_else(|| panic!("{key} has no flag")).clone()
}

/// Takes `[name: …]` out of a help text.
fn take(help: &mut String, name: &str) -> Option<String> {
    let (before, rest) = help.split_once(&format!("[{name}: "))?;
    let (inside, after) = rest.split_once(']').unwrap();
    let (inside, rest) = (inside.to_owned(), format!("{}{}", before.trim_end(), after));
    *help = rest;
    Some(inside)
}

fn row(key: &str) -> String {
    let flag = flag(key);
    let mut help = flag.get_help().unwrap().to_string();
    let variable = take(&mut help, "env").unwrap_or_else(|| panic!("{key} names no variable"));
    let default = take(&mut help, "default").unwrap_or_else(|| "none".to_owned());
    let (variable, note) = variable.split_once(", ").unwrap_or((&variable, ""));
    assert_eq!(variable, format!("BOOKGUARD_{}", key.to_uppercase()));
    let note = match note {
        "" | "separated by commas" => String::new(),
        note => format!(" The variable {}.", note.trim_start_matches("which ")),
    };
    let help = help.trim_end_matches('.').replace('|', "\\|");
    let flag = flag.get_long().unwrap();
    format!("| `{key}`<br>`--{flag}` | {default} | {help}.{note} |\n")
}

#[test]
fn the_page_of_settings_says_what_the_flags_say() {
    let mut page = HEAD.to_owned();
    page.push_str("| setting | default | meaning |\n|---|---|---|\n");
    for key in keys() {
        let _ = write!(page, "{}", row(&key));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let there = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        there == page,
        "docs/reference/settings.md is not what the flags say; `UPDATE=1 cargo test -p bookguard-cli reference` rewrites it"
    );
}

#[test]
fn every_command_is_in_the_page_of_the_command_line() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("## Commands").unwrap();
    let cli = Cli::command();
    for command in cli.get_subcommands() {
        let name = command.get_name();
        let row = table.lines().find(|line| {
            let line = line.replace(['`', ','], " ");
            line.starts_with('|') && line.split(' ').any(|word| word == name)
        });
        let row = row.unwrap_or_else(|| panic!("docs/cli.md has no command {name}"));
        for part in command.get_subcommands().map(clap::Command::get_name) {
            let mut words = row.split(|c: char| !c.is_alphanumeric() && c != '-');
            let named = words.any(|word| word == part);
            assert!(named, "docs/cli.md has no command {name} {part}");
        }
    }
}
