//! Checks that docs/reference/settings.md matches the table of settings, or rewrites the page with `UPDATE=1`. Also checks
//! that docs/cli.md names every command, and which of them ask.

use std::collections::BTreeSet;

use bookguard_server::config::Settings;
use bookguard_server::config::settings::Setting;

use crate::commands::{declared, shape};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/settings.md");

const HEAD: &str = "\
# Settings

Flags win over the environment, the environment over the configuration file (`--config`, TOML). The file has the names in the first
column. The environment variable of `public_url` is `BOOKGUARD_PUBLIC_URL`, and so for all; an empty one counts as not
set, and `serve` and `doctor` warn of one that no setting has. Lists are arrays in the file and separated by commas in the environment; a flag of
a list may be given several times.
[Operate](../operate.md) explains which of them belong together. When a running server gets SIGHUP, it applies the settings that are marked
with it here; all others take effect at the next start.

This page is made from the code: `UPDATE=1 cargo test -p bookguard-cli reference` rewrites it.

";

fn row(setting: &Setting) -> String {
    let flag = setting.flag();
    let cli = shape(&declared());
    let serve = cli.find_subcommand("serve").unwrap();
    let mut flags = cli.get_arguments().chain(serve.get_arguments());
    assert!(flags.any(|arg| arg.get_long() == Some(&*flag)), "--{flag}");
    let default = setting.without().unwrap_or_else(|| "none".to_owned());
    let note = setting.variable_may;
    let note = note.map_or_else(String::new, |may| format!(" The variable may {may}."));
    let about = setting.about().replace('|', "\\|");
    let reloaded = match setting.is_reloaded {
        true => "<br>SIGHUP",
        false => "",
    };
    format!(
        "| `{}`<br>`--{flag}`{reloaded} | {default} | {about}.{note} |\n",
        setting.name
    )
}

#[test]
fn the_page_of_settings_says_what_their_table_says() {
    let mut page = HEAD.to_owned();
    page.push_str("| setting | default | meaning |\n|---|---|---|\n");
    page.extend(Settings::ALL.iter().map(row));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let there = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        there == page,
        "docs/reference/settings.md is not what the settings say; `UPDATE=1 cargo test -p bookguard-cli reference` rewrites it"
    );
}

fn page_of_the_command_line() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    std::fs::read_to_string(page).unwrap()
}

/// The commands that have `--yes`.
fn asking(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
    for inner in command.get_subcommands() {
        let path = format!("{path} {}", inner.get_name());
        let path = path.trim_start();
        let mut flags = inner.get_arguments();
        if flags.any(|arg| arg.get_long() == Some("yes")) {
            found.insert(path.to_owned());
        }
        asking(inner, path, found);
    }
}

#[test]
fn the_page_of_the_command_line_lists_the_commands_that_ask() {
    let page = page_of_the_command_line();
    let (_, section) = page.split_once("## What asks first\n\n").unwrap();
    let (list, _) = section.split_once("\n\n").unwrap();
    let quoted = list.split('`').skip(1).step_by(2);
    let listed = quoted.filter(|text| !text.starts_with("--"));
    // `transfer` asks only with `--reopen`.
    let listed = listed.map(|text| text.split(" --").next().unwrap().to_owned());
    let mut found = BTreeSet::new();
    asking(&shape(&declared()), "", &mut found);
    assert_eq!(listed.collect::<BTreeSet<_>>(), found);
}

#[test]
fn every_command_is_in_the_page_of_the_command_line() {
    let page = page_of_the_command_line();
    let (_, table) = page.split_once("## Commands").unwrap();
    let cli = shape(&declared());
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
