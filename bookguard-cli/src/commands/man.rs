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
    let page = Man::new(command.clone()).source(format!("bookguard {VERSION}"));
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // What follows the commands has one heading, which says nothing.
    let text = text.replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    let text = text.replace("\nExit codes: ", "\n.SH \"EXIT STATUS\"\n");
    fs::write(folder.join(page.get_filename()), text)
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
        let source = format!("\"bookguard {VERSION}\"");
        for name in ["bookguard.1", "bookguard-backup.1"] {
            let text = page(name);
            let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
            assert!(title.contains(&source), "{title}");
        }
        let text = page("bookguard.1");
        assert!(text.contains(".SH \"EXIT STATUS\"\n0 ok, "), "{text}");
        assert!(!text.contains("EXTRA"), "{text}");
    }
}
