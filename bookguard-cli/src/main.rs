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

use std::process::ExitCode;

use clap::FromArgMatches as _;
use mimalloc::MiMalloc;

use args::GlobalArgs;
use exit::Exit;
use output::Screen;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    bookguard_server::logging::listen();
    let declared = commands::declared();
    let words: Vec<_> = std::env::args_os().collect();
    let matches = commands::shape_for(&declared, &words).get_matches_from(words);
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
