//! The resolver of the HTTP client: the system's, with every answer checked.
//!
//! The client connects to the addresses returned here and to no others, so what was checked is what is used. It does
//! not ask about literal addresses; those are checked before the request. Invariant: one bad address refuses all.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use bookguard_core::webhook::attempt::Phase;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use tokio::sync::Semaphore;

use super::progress::PROGRESS;
use crate::courier::address::AddressRules;

/// Names looked up at a time. Each holds a thread of the pool that reads need too, for as long as a name server that
/// never answers makes it wait.
const LOOKUPS: usize = 64;

/// Resolves names to addresses that were checked.
#[derive(Debug)]
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

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = Arc::clone(&self.rules);
        let places = Arc::clone(&self.places);
        let progress = PROGRESS.try_with(Clone::clone).unwrap_or_default();
        progress.reached(Phase::Dns);
        Box::pin(async move {
            // Held until the system has answered, even when the attempt has given up: what must be bounded is the
            // threads that wait.
            let place = Arc::clone(&places).acquire_owned().await?;
            // The port is the URL's; the client replaces 0 by it.
            let asked = name.as_str().to_owned();
            let looking = tokio::task::spawn_blocking(move || {
                let found = (asked.as_str(), 0).to_socket_addrs();
                drop(place);
                found.map(Iterator::collect)
            });
            let addresses: Vec<SocketAddr> = looking.await?.map_err(LookupFailed)?;
            if addresses.is_empty() {
                return Err(LookupFailed(io::ErrorKind::NotFound.into()).into());
            }
            rules.check_resolved(name.as_str(), addresses.iter().map(|address| address.ip()))?;
            progress.reached(Phase::Connect);
            Ok(Box::new(addresses.into_iter()) as Addrs)
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

    async fn resolve(
        rules: AddressRules,
    ) -> Result<Vec<std::net::SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let resolver = CheckedResolver::new(Arc::new(rules));
        resolver
            .resolve("localhost".parse().unwrap())
            .await
            .map(Iterator::collect)
    }

    #[tokio::test]
    async fn a_name_of_this_machine_resolves_only_where_loopback_is_allowed() {
        let addresses = resolve(AddressRules::dev()).await.unwrap();
        assert!(
            !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback())
        );

        let error = resolve(AddressRules::public()).await.unwrap_err();
        assert_eq!(
            error.downcast_ref::<Refused>().unwrap().code(),
            "blocked_address"
        );
    }
}
