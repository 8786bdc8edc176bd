//! Where the server is and how to connect to it: a connection URI. Its TLS parameters are read here.
//!
//! TLS is used if the address asks for it, and then always checks the server's certificate and name. `sslmode` is
//! `disable` (the default), `require`, `verify-ca` or `verify-full`; the last three mean the same. `prefer` and `allow`
//! are refused, because anyone on the path could make them fall back to plain text.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
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
use crate::version::VERSION;

/// How long one server of the address may take to accept, unless the address says otherwise.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long a connection is silent before this side asks whether the server's machine is still there, unless the address
/// says otherwise. A statement of an upgrade may take hours, and the system's own time for that is two hours.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// The time between two such questions, and how many go unanswered before the connection is given up.
const KEEPALIVES: (Duration, u32) = (Duration::from_secs(15), 4);

/// A checked address.
pub(super) struct Address {
    shown: String,
    /// The configuration of each server, in order.
    pub servers: Vec<Config>,
    /// The place in `servers` of the one that last opened a session.
    pub last_opened: AtomicUsize,
    /// The connector for TLS, if the address asks for TLS.
    pub tls: Option<MakeRustlsConnect>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    /// # Errors
    /// [`StoreError::Failed`] with what is wrong in the address, but nothing that may be a password.
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
        // The client's message names the option or value that it does not know, and nothing else.
        let parsed = |uri: &str| {
            uri.parse().map_err(|e: tokio_postgres::Error| {
                let cause = std::error::Error::source(&e).map(ToString::to_string);
                wrong(&cause.unwrap_or_else(|| e.to_string()))
            })
        };
        let config: Config = parsed(&uri)?;
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
            return Err(wrong("sslrootcert needs sslmode=verify-full"));
        }
        // If hosts are also named in parameters, they pair with addresses there and stay together.
        let uris = one_by_one(&uri);
        let alone = uris.len() == config.get_hosts().len() && config.get_hostaddrs().is_empty();
        let several = config.get_hosts().len().max(config.get_hostaddrs().len()) > 1;
        let mut servers = match alone {
            true => uris
                .iter()
                .map(|uri| parsed(uri))
                .collect::<Result<_, _>>()?,
            false => vec![config],
        };
        for server in &mut servers {
            complete(server, tls.is_some(), several);
        }
        Ok(Self {
            shown: url.to_string(),
            servers,
            last_opened: AtomicUsize::new(0),
            tls,
        })
    }
}

/// Splits a URI with several servers into one URI per server.
fn one_by_one(uri: &str) -> Vec<String> {
    let scheme = uri.find("://").map_or(0, |at| at + 3);
    // As the client reads it: everything before the first "@" is credentials.
    let begin = uri.find('@').map_or(scheme, |at| at + 1);
    let (before, rest) = uri.split_at(begin);
    let (servers, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let alone = servers
        .split(',')
        .map(|server| format!("{before}{server}{after}"));
    alone.collect()
}

fn complete(server: &mut Config, encrypted: bool, several: bool) {
    server.ssl_mode(match encrypted {
        true => SslMode::Require,
        false => SslMode::Disable,
    });
    server.application_name(format!("bookguard {VERSION}"));
    if server.get_connect_timeout().is_none() {
        server.connect_timeout(CONNECT_TIME);
    }
    if server.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        server.keepalives_idle(KEEPALIVE_IDLE);
    }
    if server.get_keepalives_interval().is_none() {
        server.keepalives_interval(KEEPALIVES.0);
    }
    if server.get_keepalives_retries().is_none() {
        server.keepalives_retries(KEEPALIVES.1);
    }
    // Of several servers, use the one that takes writes at present.
    if several {
        server.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

/// A TLS connector that trusts the certificates in the file, or else those that the operating system trusts.
fn trusting(roots: Option<&str>) -> Result<MakeRustlsConnect, StoreError> {
    let failed = |why: String| StoreError::Failed(why);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
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

/// Decodes a percent-encoded value of a URI (RFC 3986 §2.1).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Database;

    #[test]
    fn each_server_of_an_address_is_asked_alone() {
        #[rustfmt::skip]
        let cases = [
            ("postgres://u@a/d", "a:5432"),
            ("postgres://u:p@a:1,b:2,c/d?options=-c%20x%3Dy", "a:1 b:2 c:5432"),
            ("postgresql://u:p%40,s@[::1]:7,b", "::1:7 b:5432"),
            ("postgres://a,b/d?user=u", "a:5432 b:5432"),
            // Given in two lists that pair up.
            ("postgres://u@a,b/d?hostaddr=127.0.0.1,127.0.0.2", "a,b:5432,5432"),
        ];
        for (uri, servers) in cases {
            let Database::Postgres(url) = Database::from(uri) else {
                panic!("{uri} is a server's")
            };
            let address = Address::parse(&url).unwrap();
            let found: Vec<_> = address.servers.iter().map(shown).collect();
            assert_eq!(found.join(" "), servers, "{uri}");
            for server in &address.servers {
                assert_eq!(server.get_user(), Some("u"), "{uri}");
                let one = servers.split([' ', ',']).count() == 1;
                let writable = server.get_target_session_attrs() == TargetSessionAttrs::ReadWrite;
                assert_ne!(one, writable, "{uri}");
            }
        }
    }

    fn shown(server: &Config) -> String {
        let host = |host: &tokio_postgres::config::Host| match host {
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        };
        let hosts: Vec<_> = server.get_hosts().iter().map(host).collect();
        let ports: Vec<_> = server.get_ports().iter().map(u16::to_string).collect();
        format!("{}:{}", hosts.join(","), ports.join(","))
    }
}
