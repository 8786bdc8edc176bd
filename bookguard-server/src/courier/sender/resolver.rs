//! The resolver of the HTTP client: the system's, with every answer checked.
//!
//! The client connects to the addresses returned here and to no others, so what was checked is what is used. It does
//! not ask about literal addresses; those are checked before the request. Invariant: one bad address refuses all.

use std::fmt;
use std::io;
use std::sync::Arc;

use bookguard_core::webhook::attempt::Phase;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::progress::PROGRESS;
use crate::courier::address::AddressRules;

/// Resolves names to addresses that were checked.
#[derive(Debug)]
pub(super) struct CheckedResolver {
    rules: Arc<AddressRules>,
}

/// The name did not resolve; found again in the client's error.
#[derive(Debug)]
pub(super) struct LookupFailed(io::Error);

impl CheckedResolver {
    pub(super) fn new(rules: Arc<AddressRules>) -> Self {
        CheckedResolver { rules }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = Arc::clone(&self.rules);
        let progress = PROGRESS.try_with(Clone::clone).unwrap_or_default();
        progress.reached(Phase::Dns);
        Box::pin(async move {
            // The port is the URL's; the client replaces 0 by it.
            let found = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(LookupFailed)?;
            let addresses: Vec<_> = found.collect();
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
