//! The resolver of the HTTP client: the system's, with every answer checked.
//!
//! Connections go to the addresses returned here and to no others, so what was checked is what is used. The client does
//! not ask about literal addresses; those are checked before the request, and once more before a tunnel. Invariant: one bad address refuses all.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use bookguard_core::webhook::attempt::Phase;
use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::Semaphore;
use tower_service::Service;

use super::dial::BoxError;
use super::progress::{PROGRESS, Progress};
use crate::courier::address::AddressRules;

/// Names looked up at a time. Each holds a thread of the pool that reads need too, for as long as a name server that
/// never answers makes it wait.
const LOOKUPS: usize = 64;

/// Resolves names to addresses that were checked.
#[derive(Debug, Clone)]
pub(super) struct CheckedResolver {
    rules: Arc<AddressRules>,
    places: Arc<Semaphore>,
}

/// The name did not resolve; found again in the client's error.
#[derive(Debug)]
pub(super) struct LookupFailed(io::Error);

impl CheckedResolver {
    pub(super) fn new(rules: Arc<AddressRules>) -> Self {
        CheckedResolver {
            rules,
            places: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }
}

impl CheckedResolver {
    /// The addresses of a host as a URL names it, a literal address or a name; the port of each is 0.
    pub(super) async fn addresses(
        &self,
        host: &str,
        progress: &Progress,
    ) -> Result<Vec<SocketAddr>, BoxError> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = literal.parse::<IpAddr>() {
            self.rules.check_ip(ip)?;
            return Ok(vec![SocketAddr::new(ip, 0)]);
        }
        progress.reached(Phase::Dns);
        // Held until the system has answered, even when the attempt has given up: what must be bounded is the
        // threads that wait.
        let place = Arc::clone(&self.places).acquire_owned().await?;
        // The port is the URL's; the client replaces 0 by it.
        let asked = host.to_owned();
        let looking = tokio::task::spawn_blocking(move || {
            let found = (asked.as_str(), 0).to_socket_addrs();
            drop(place);
            found.map(Iterator::collect)
        });
        let addresses: Vec<SocketAddr> = looking.await?.map_err(LookupFailed)?;
        if addresses.is_empty() {
            return Err(LookupFailed(io::ErrorKind::NotFound.into()).into());
        }
        self.rules
            .check_resolved(host, addresses.iter().map(|address| address.ip()))?;
        progress.reached(Phase::Connect);
        Ok(addresses)
    }
}

impl Service<Name> for CheckedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        let progress = PROGRESS.try_with(Clone::clone).unwrap_or_default();
        progress.reached(Phase::Dns);
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str(), &progress).await?;
            Ok(addresses.into_iter())
        })
    }
}

impl fmt::Display for LookupFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name does not resolve: {}", self.0)
    }
}

impl std::error::Error for LookupFailed {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::courier::address::Refused;

    async fn resolve(rules: AddressRules, host: &str) -> Result<Vec<SocketAddr>, BoxError> {
        let resolver = CheckedResolver::new(Arc::new(rules));
        resolver.addresses(host, &Progress::default()).await
    }

    #[tokio::test]
    async fn a_name_of_this_machine_resolves_only_where_loopback_is_allowed() {
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            let addresses = resolve(AddressRules::dev(), host).await.unwrap();
            assert!(
                !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback())
            );

            let error = resolve(AddressRules::public(), host).await.unwrap_err();
            assert_eq!(
                error.downcast_ref::<Refused>().unwrap().code(),
                "blocked_address"
            );
        }
    }
}
