//! Where the server is and how to speak to it: a connection URI, with the parameters that concern TLS read here.
//!
//! TLS is used when the address asks for it, and then always checks the server's certificate and name: `sslmode` is
//! `disable` (also when nothing is said), `require`, `verify-ca` or `verify-full`, of which the last three mean the
//! same. `prefer` and `allow` would go on in the clear where somebody in between says so, and are refused.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::conn::StoreError;
use crate::store::database::PostgresUrl;

/// How long one server of the address may take to accept, when the address does not say.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A checked address.
pub(super) struct Address {
    shown: String,
    pub config: Config,
    /// What to make TLS connections with, when the address asks for them.
    pub tls: Option<MakeRustlsConnect>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    /// Errors: [`StoreError::Failed`] with what is wrong in the address, never with what may be a password.
    pub fn parse(url: &PostgresUrl) -> Result<Self, StoreError> {
        let wrong = |why: &str| {
            StoreError::Failed(format!(
                "the address of the PostgreSQL server cannot be used: {why}; write it like postgres://user:password@host:5432/database"
            ))
        };
        let (bare, parameters) = url.reveal().split_once('?').unwrap_or((url.reveal(), ""));
        let mut mode = None;
        let mut roots = None;
        let mut rest = Vec::new();
        for parameter in parameters
            .split('&')
            .filter(|parameter| !parameter.is_empty())
        {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => {
                    roots =
                        Some(decoded(value).ok_or_else(|| wrong("its sslrootcert is not a path"))?);
                }
                _ => rest.push(parameter),
            }
        }
        let uri = match rest.as_slice() {
            [] => bare.to_owned(),
            rest => format!("{bare}?{}", rest.join("&")),
        };
        // The client names the option or the value that it does not know, and nothing else.
        let mut config: Config = uri.parse().map_err(|e: tokio_postgres::Error| {
            let cause = std::error::Error::source(&e).map(ToString::to_string);
            wrong(&cause.unwrap_or_else(|| e.to_string()))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("it names no host"));
        }
        if config.get_user().is_none() {
            return Err(wrong("it names no user"));
        }
        let tls = match mode.unwrap_or("disable") {
            "disable" => None,
            "require" | "verify-ca" | "verify-full" => Some(trusting(roots.as_deref())?),
            _ => return Err(wrong("its sslmode must be disable or verify-full")),
        };
        if tls.is_none() && roots.is_some() {
            return Err(wrong("sslrootcert has no use without sslmode=verify-full"));
        }
        config.ssl_mode(if tls.is_some() {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        config.application_name(concat!("bookguard ", env!("CARGO_PKG_VERSION")));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        // Of several servers, the one that takes writes, whichever it is at present.
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self {
            shown: url.to_string(),
            config,
            tls,
        })
    }
}

/// TLS that trusts the certificates of the file, or those that the operating system trusts.
fn trusting(roots: Option<&str>) -> Result<MakeRustlsConnect, StoreError> {
    let failed = |why: String| StoreError::Failed(why);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(format!("TLS cannot be set up: {e}")))?;
    let config = match roots {
        None => builder
            .with_platform_verifier()
            .map_err(|e| failed(format!("the system's trusted certificates cannot be read: {e}; name a file with sslrootcert")))?
            .with_no_client_auth(),
        Some(file) => {
            let unread = |why: String| failed(format!("the certificates in {file} (sslrootcert) cannot be read: {why}"));
            let mut store = RootCertStore::empty();
            let certificates = CertificateDer::pem_file_iter(file).map_err(|e| unread(e.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|e| unread(e.to_string()))?;
                store.add(certificate).map_err(|e| unread(e.to_string()))?;
            }
            if store.is_empty() {
                return Err(unread("the file holds none".to_owned()));
            }
            builder.with_root_certificates(store).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// A percent-encoded value of a URI (RFC 3986 §2.1).
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| {
                    char::from(byte)
                        .to_digit(16)
                        .and_then(|n| u8::try_from(n).ok())
                };
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                high << 4 | low
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
