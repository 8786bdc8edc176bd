//! The caller on whose behalf work is done.

use std::net::{IpAddr, Ipv4Addr};

use bookguard_core::model::PartnerId;
use bookguard_core::session::Authority;

/// Stands for an address that is not known.
pub(crate) const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The caller on whose behalf work is done: its turn is used, and a partner is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// A partner, whichever of its keys it uses.
    Partner(PartnerId),
    /// A caller without a key, or whose key was not looked up yet, by its network.
    Network(IpAddr),
    /// A caller that holds the database itself.
    Operator,
}

impl Payer {
    /// A caller about which nothing is known.
    pub(crate) const STRANGER: Self = Self::Network(UNKNOWN_ADDRESS);

    pub(crate) fn of(authority: &Authority) -> Self {
        match authority {
            Authority::Partner { partner_id, .. } => Self::Partner(*partner_id),
            Authority::Administrator { .. } => Self::Operator,
            Authority::Anonymous { address } => Self::at(address.parse().ok()),
        }
    }

    /// A caller of which at most the address is known.
    pub(crate) fn at(address: Option<IpAddr>) -> Self {
        Self::Network(network_of(address.unwrap_or(UNKNOWN_ADDRESS)))
    }
}

/// The network of one subscriber: an IPv4 address, or the /64 of an IPv6 address.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_subscriber_cannot_multiply_by_changing_addresses() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }
}
