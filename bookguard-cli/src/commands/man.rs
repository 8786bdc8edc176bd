//! `man`: writes the manual pages, one for each command, from the declarations that `--help` shows.

use std::fs;
use std::path::PathBuf;

use clap::Args;
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
    let written = fs::create_dir_all(&folder)
        .and_then(|()| clap_mangen::generate_to(shape(&declared()), &folder));
    let name = folder.display().to_string();
    written.map_err(|e| {
        Failure::Unexpected(format!("the pages cannot be written into {name}: {e}"))
    })?;
    call.screen.said(&json!({"folder": name}), |_| {
        format!("wrote the manual pages; read one with: man -l {name}/bookguard.1")
    })
}
