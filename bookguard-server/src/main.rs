//! The server as a program of its own, for deployments without the command line: `bookguard-server [file.toml]`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use bookguard_server::config::{Config, Settings};
use bookguard_server::{LAST_WORK, run, signals};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bookguard_server::logging::listen();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let runtime = Runtime::new().map_err(|e| format!("cannot start threads: {e}"));
    let ran = runtime.and_then(|runtime| {
        let ran = runtime.block_on(serve(&arguments));
        // The look-up of a host name that was given up may take much longer.
        runtime.shutdown_timeout(LAST_WORK);
        ran
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bookguard-server: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: &[OsString]) -> Result<(), String> {
    let file = match arguments {
        [] => None,
        [file] if !file.to_string_lossy().starts_with('-') => Some(Path::new(file)),
        _ => return Err("usage: bookguard-server [configuration file]".to_owned()),
    };
    let load = || Config::load(file, Settings::default(), Settings::default());
    let ran = run(load()?, signals()?, load, |_| {}).await;
    ran.map_err(|why| why.to_string())
}
