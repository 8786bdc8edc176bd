//! `man`: writes the manual pages, one for each command, from the declarations that `--help` shows.

use std::path::{Path, PathBuf};
use std::{fs, io};

use bookguard_core::version::VERSION;
use clap::Args;
use clap_mangen::Man;
use serde_json::json;

use super::declare::{Call, CliCommand, alone};
use super::{declared, shape};
use crate::failure::Failure;
use crate::files::named;

#[derive(Debug, Args)]
struct ManArgs {
    /// The folder to write the pages into; it is made if it is not there
    #[arg(value_parser = named())]
    folder: PathBuf,
}

pub(super) fn command() -> CliCommand {
    let about = "Write the manual pages into a folder";
    alone("man", about, async |call| run(call)).with::<ManArgs>()
}

fn run(call: Call<'_>) -> Result<(), Failure> {
    let ManArgs { folder } = call.args()?;
    let name = folder.display().to_string();
    if folder.exists() && !folder.is_dir() {
        let why = format!("{name} is a file, and the pages need a folder: name another");
        return Err(Failure::Usage(why));
    }
    let mut whole = shape(&declared()).disable_help_subcommand(true);
    whole.build();
    let written = fs::create_dir_all(&folder).and_then(|()| write(&whole, &folder));
    written.map_err(|e| {
        Failure::Unexpected(format!("the pages cannot be written into {name}: {e}"))
    })?;
    call.screen.said(&json!({"folder": name}), |_| {
        format!("wrote the manual pages; read one with: man -l {name}/bookguard.1")
    })
}

/// Writes the pages of a command and of those within it.
fn write(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for inner in command.get_subcommands() {
        write(inner, folder)?;
    }
    let page = page(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // What follows the commands has one heading, which says nothing.
    let text = text.replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    let text = text.replace("\nExit codes: ", "\n.SH \"EXIT STATUS\"\n");
    fs::write(folder.join(page.get_filename()), text)
}

/// The page of a command that was built. Its title is the program's, and its own name stands between: long names in both corners of a
/// line would run into each other.
fn page(command: &clap::Command) -> Man {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let name = name.to_owned();
    // A page's own synopsis names every flag that all commands share.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    Man::new(command.clone().override_usage(usage))
        .title("bookguard")
        // Nothing else keeps the place of a date that nobody knows here; `ops/package` sets it.
        .date("\"\"")
        .source(format!("bookguard {VERSION}"))
        .manual(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_names_the_program_and_its_exit_status() {
        let folder = tempfile::tempdir().unwrap();
        let mut whole = shape(&declared());
        whole.build();
        write(&whole, folder.path()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for (name, command) in [
            ("bookguard.1", "bookguard"),
            ("bookguard-backup.1", "\"bookguard backup\""),
        ] {
            let text = page(name);
            let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
            let told = format!(".TH bookguard 1 \"\" \"bookguard {VERSION}\" {command}");
            assert_eq!(title, told);
        }
        let text = page("bookguard-evidence-verify.1");
        let synopsis = "\n.SH SYNOPSIS\n\\fBbookguard evidence verify\\fR [OPTIONS] \\-\\-key <VKEY|@FILE> <PACKET|\\->\n";
        assert!(text.contains(synopsis), "{text}");
        let text = page("bookguard.1");
        assert!(text.contains(".SH \"EXIT STATUS\"\n0 ok, "), "{text}");
        assert!(!text.contains("EXTRA"), "{text}");
        // The corners hold the title and the section.
        let room = 80 - 2 * "bookguard(1) ".len();
        for page in fs::read_dir(folder.path()).unwrap() {
            let name = page.unwrap().file_name().into_string().unwrap();
            assert!(name.trim_end_matches(".1").len() <= room, "{name}");
        }
    }
}
