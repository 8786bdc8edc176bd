//! `bookguard serve`: the server under the command line's settings, until it is told to stop.

use bookguard_server::courier::address::AddressRules;

use super::declare::{Call, CliCommand, alone};
use crate::args::{Format, SettingFlags};
use crate::failure::Failure;
use crate::output;
use crate::settings::{self, environment};

pub(super) fn command() -> CliCommand {
    let serve = alone("serve", "Run the server", |call| Box::pin(run(call)));
    serve.with::<SettingFlags<false>>()
}

/// Serves until SIGTERM or SIGINT, then ends in order; at once when told a second time. SIGHUP reads the configuration anew.
///
/// # Errors
/// [`Failure::Usage`] for a setting that makes no sense, [`Failure::Unreachable`] when the database's server stays
/// away, [`Failure::Unexpected`] with the operator's sentence otherwise.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let (place, flags) = (call.place, call.args::<SettingFlags<false>>()?);
    if place.url.is_some() || place.partner.is_some() || place.api_key_file.is_some() {
        return Err(Failure::Usage(
            "serve is a server itself: --url, --partner and --api-key-file are for commands that call one".to_owned(),
        ));
    }
    let config = settings::config(place, Some(&flags), &environment)?;
    if config.webhooks == AddressRules::dev() {
        output::say(
            "DEVELOPMENT MODE (--dev): webhooks may go to this machine and over plain http. Never in production.",
        );
    }
    // Watched before anything is opened, so that no signal finds a half-open server.
    let signals = bookguard_server::signals().map_err(Failure::Unexpected)?;
    let reload = || {
        let config = settings::config(place, Some(&flags), &environment);
        config.map_err(|failure| failure.text(Format::Table).unwrap_or_default())
    };
    bookguard_server::run(config, signals, reload, |server| {
        // Whoever started the server may not read what it says; it serves all the same.
        let _ = output::print(&format!("listening on {}", server.url()));
    })
    .await?;
    Ok(())
}
