//! The `bookguard` command line: parses it, runs the command, reports errors, and exits with the right code.

mod args;
mod commands;
mod consent;
mod exit;
mod failure;
mod files;
mod http;
mod output;
mod profiles;
#[cfg(test)]
mod reference;
mod settings;
mod target;
mod text;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use mimalloc::MiMalloc;

use args::{Format, GlobalArgs};
use exit::Exit;
use failure::Failure;
use output::Screen;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    bookguard_server::logging::listen();
    let declared = commands::declared();
    let words: Vec<_> = std::env::args_os().collect();
    let shape = commands::shape_for(&declared, &words);
    let matches = shape
        .try_get_matches_from(&words)
        .unwrap_or_else(|error| misread(&error, &words));
    let place = GlobalArgs::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let errors = output::error_format(place.output);
    let screen = Screen::new(&place);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            output::say(&format!(
                "error: cannot start threads: {error} (unexpected)"
            ));
            return Exit::Unexpected.into();
        }
    };
    let ran = runtime.block_on(commands::run(&declared, &place, &screen, &matches));
    // The look-up of a host name that was given up may take much longer.
    runtime.shutdown_timeout(bookguard_server::LAST_WORK);
    match ran {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            if let Some(text) = failure.text(errors) {
                output::say(&text);
            }
            failure.exit().into()
        }
    }
}

/// Ends the process with what is wrong with the command line, or with the help that was asked for. Programs read an error as JSON here
/// too, although the flag that says so is in the line that could not be read.
fn misread(error: &clap::Error, words: &[OsString]) -> ! {
    if !error.use_stderr() {
        // Help and the version are an answer, which may not arrive.
        let shown = error.print().and_then(|()| io::stdout().flush());
        let exit = match shown.map_err(Failure::from) {
            Ok(()) => Exit::Ok,
            Err(failure) => {
                if let Some(text) = failure.text(Format::Table) {
                    output::say(&text);
                }
                failure.exit()
            }
        };
        std::process::exit(exit as i32);
    }
    let asks = |two: &[OsString]| two[0] == "--output" && two[1] == "json";
    let wants_json = words.windows(2).any(asks) || words.iter().any(|it| it == "--output=json");
    if !wants_json {
        error.exit();
    }
    let text = error.to_string();
    let why = Failure::Usage(text.trim_start_matches("error: ").trim_end().to_owned());
    output::say(&why.text(Format::Json).unwrap_or_default());
    std::process::exit(why.exit() as i32);
}
