//! The HTTP client of the command line: TLS as webhooks use it, and no redirects.

use std::error::Error as _;

use reqwest::{Client, ClientBuilder};

use crate::failure::Failure;

/// Builds a client with these settings.
///
/// # Errors
/// [`Failure::Unexpected`] if TLS cannot be set up, because the system has no certificates of authorities.
pub(crate) fn client(
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
    settings(builder)
        .build()
        .map_err(|e| Failure::Unexpected(format!("no HTTP client can be made: {e}")))
}

/// The innermost cause, which is the informative one. The outer ones only repeat the address, and with it a proxy's
/// credentials.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else {
        return "the request failed".to_owned();
    };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
