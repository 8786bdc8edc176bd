//! The HTTP client of the command line: TLS as webhooks use it, and no redirects.

use std::error::Error as _;

use bookguard_server::config;
use reqwest::{Client, ClientBuilder};
use url::Url;

use crate::failure::Failure;

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// Builds a client with these settings. If what it calls is on this machine, a proxy from the environment cannot reach that.
///
/// # Errors
/// [`Failure::Unexpected`] if TLS cannot be set up, because the system has no certificates of authorities.
pub(crate) fn client(
    is_here: bool,
    settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, Failure> {
    let tls = bookguard_server::tls::system_trust()
        .map_err(|e| Failure::Unexpected(format!("TLS cannot be set up: {e}")))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "it is given TLS on the next line"
    )]
    let builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none());
    let builder = match is_here {
        true => settings(builder).no_proxy(),
        false => settings(builder),
    };
    let built = builder.build();
    built.map_err(|e| Failure::Unexpected(format!("no HTTP client can be made: {e}")))
}

/// The innermost cause, which is the informative one. The outer ones only repeat the address, and with it a proxy's
/// credentials.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let innermost = causes.last().map(|cause| in_words(cause.to_string()));
    innermost.unwrap_or_else(|| "the request failed".to_owned())
}

/// What the TLS library says of an answer in clear, in words for people.
fn in_words(cause: String) -> String {
    match cause.contains("InvalidContentType") {
        true => "it speaks plain http, so its address begins with http://, not https://".to_owned(),
        false => cause,
    }
}

/// Reads the address of a server.
///
/// # Errors
/// [`Failure::Usage`] for an invalid address.
pub(crate) fn base_url(address: &str) -> Result<Url, Failure> {
    let has_credentials = |url: Url| !url.username().is_empty() || url.password().is_some();
    if Url::parse(address).is_ok_and(has_credentials) {
        return Err(Failure::Usage("the server's address holds a name or password; keys come from BOOKGUARD_API_KEY or --api-key-file".to_owned()));
    }
    let url = config::base_url(
        "the server's address",
        "https://bookings.example.com",
        address,
    );
    url.map_err(Failure::Usage)
}

/// Whether the address is one of this machine's own.
pub(crate) fn on_this_machine(url: &Url) -> bool {
    url.host().is_some_and(|host| config::is_loopback(&host))
}
