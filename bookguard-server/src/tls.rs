//! Outgoing connections, to webhook receivers and from the command line to a server: their TLS, and what they call this program.
//! `questions` asks other servers.

pub(crate) mod questions;

use std::sync::Arc;

use bookguard_core::version;
use hyper::header::HeaderValue;
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;

/// The name and version of this program, as requests give it in `User-Agent`.
pub const PRODUCT: HeaderValue = HeaderValue::from_static(version::PRODUCT);

/// A client configuration that trusts the operating system's certificates and speaks HTTP/1.1.
///
/// # Errors
/// If the system has no certificates of authorities.
pub fn system_trust() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)?
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
