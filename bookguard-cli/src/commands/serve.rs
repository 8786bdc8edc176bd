//! `bookguard serve`: runs the server with the command line's settings, until it is stopped.

use super::declare::{Call, CliCommand, alone};
use crate::args::{Format, SettingFlags};
use crate::failure::Failure;
use crate::output;
use crate::settings::{self, environment};

pub(super) fn command() -> CliCommand {
    let serve = alone("serve", "Run the server", |call| Box::pin(run(call)));
    serve.with::<SettingFlags<false>>()
}

/// Serves until SIGTERM or SIGINT, then shuts down gracefully; each further signal ends a wait. SIGHUP reloads the
/// configuration.
///
/// # Errors
/// [`Failure::Usage`] for an invalid setting, [`Failure::Unreachable`] if the database server stays unreachable,
/// [`Failure::Unexpected`] with a sentence for the operator otherwise.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let (place, flags) = (call.place, call.args::<SettingFlags<false>>()?);
    let named = [&place.url, &place.partner, &place.profile];
    if named.into_iter().any(Option::is_some) || place.api_key_file.is_some() {
        return Err(Failure::Usage(
            "serve is a server itself: --url, --profile, --partner and --api-key-file are for commands that call one".to_owned(),
        ));
    }
    let config = settings::config(place, Some(&flags), &environment)?;
    // Signals are handled before anything is opened, so that none finds a half-open server.
    let signals = bookguard_server::signals().map_err(Failure::Unexpected)?;
    let reload = || {
        let config = settings::config(place, Some(&flags), &environment);
        config.map_err(|failure| failure.text(Format::Table).unwrap_or_default())
    };
    bookguard_server::run(config, signals, reload, |server| {
        // If standard output is closed, the server runs all the same.
        let _ = output::print(&format!("listening on {}", server.url()));
        if let Some(metrics) = server.metrics_url() {
            let _ = output::print(&format!("metrics at {metrics}"));
        }
    })
    .await?;
    Ok(())
}
