//! The special-purpose address ranges, and what each means for a webhook.
//!
//! Source: the IANA IPv4 and IPv6 Special-Purpose Address Registries. A range that is not "globally reachable" there is not
//! open here. The table adds the metadata services of clouds, multicast, and unassigned IPv6 space. Invariant: the first row
//! that contains an address decides, and the last row of each table contains every address.

use std::net::{IpAddr, Ipv4Addr};

use super::subnet::Subnet;

/// One row: the addresses, the rule, and their name in messages ("10.0.0.1 is …").
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub subnet: Subnet,
    pub rule: RangeRule,
    pub name: &'static str,
}

/// What a range means for a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeRule {
    /// Allowed: the public internet.
    Open,
    /// Refused unless the operator allows the subnet.
    UnlessAllowed,
    /// Refused whatever the operator allows.
    Never,
    /// Judged by the IPv4 addresses that the IPv6 address carries.
    Carries(Carried),
    /// Refused unless the operator allows the subnet, and then judged by the IPv4 addresses it carries.
    CarriesUnlessAllowed(Carried),
}

/// Where an IPv6 address carries IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// The last 32 bits.
    Last,
    /// Bits 16 to 47 (6to4, RFC 3056).
    After16,
    /// The server in bits 32 to 63, the client inverted in the last 32 (Teredo, RFC 4380).
    Teredo,
}

impl Carried {
    /// The IPv4 addresses that `ip` carries.
    pub(super) fn addresses(self, ip: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
        let bits = match ip {
            IpAddr::V6(ip) => ip.to_bits(),
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        };
        let below = |shift: u32| Ipv4Addr::from_bits((bits >> shift) as u32);
        let (one, other) = match self {
            Carried::Last => (below(0), None),
            Carried::After16 => (below(80), None),
            Carried::Teredo => (below(64), Some(Ipv4Addr::from_bits(!below(0).to_bits()))),
        };
        std::iter::once(one).chain(other)
    }
}

/// The range an address belongs to.
pub(super) fn range_of(ip: IpAddr) -> &'static Range {
    let ranges = if ip.is_ipv4() { V4 } else { V6 };
    ranges
        .iter()
        .find(|range| range.subnet.contains(ip))
        .expect("the last row of each table contains every address")
}

const fn v4(network: [u8; 4], prefix: u8, rule: RangeRule, name: &'static str) -> Range {
    Range {
        subnet: Subnet::v4(network, prefix),
        rule,
        name,
    }
}

const fn v6(network: [u16; 8], prefix: u8, rule: RangeRule, name: &'static str) -> Range {
    Range {
        subnet: Subnet::v6(network, prefix),
        rule,
        name,
    }
}

use RangeRule::{Carries, CarriesUnlessAllowed, Never, Open, UnlessAllowed};

// One row, one line.
#[rustfmt::skip]
pub(super) const V4: &[Range] = &[
    v4([0, 0, 0, 0], 8, Never, "an unspecified address (RFC 791)"),
    v4([10, 0, 0, 0], 8, UnlessAllowed, "a private address (RFC 1918)"),
    v4([100, 100, 100, 200], 32, Never, "a cloud's metadata service"),
    v4([100, 64, 0, 0], 10, UnlessAllowed, "a carrier's shared address (RFC 6598)"),
    v4([127, 0, 0, 0], 8, UnlessAllowed, "a loopback address (RFC 1122)"),
    v4([168, 63, 129, 16], 32, Never, "a cloud's metadata service"),
    v4([169, 254, 0, 0], 16, Never, "a link-local address, where clouds keep their metadata services (RFC 3927)"),
    v4([172, 16, 0, 0], 12, UnlessAllowed, "a private address (RFC 1918)"),
    v4([192, 0, 0, 192], 32, Never, "a cloud's metadata service"),
    v4([192, 0, 0, 0], 24, UnlessAllowed, "a protocol-assignment address (RFC 6890)"),
    v4([192, 0, 2, 0], 24, UnlessAllowed, "a documentation address (RFC 5737)"),
    v4([192, 88, 99, 0], 24, UnlessAllowed, "a former 6to4 relay address (RFC 7526)"),
    v4([192, 168, 0, 0], 16, UnlessAllowed, "a private address (RFC 1918)"),
    v4([198, 18, 0, 0], 15, UnlessAllowed, "a benchmarking address (RFC 2544)"),
    v4([198, 51, 100, 0], 24, UnlessAllowed, "a documentation address (RFC 5737)"),
    v4([203, 0, 113, 0], 24, UnlessAllowed, "a documentation address (RFC 5737)"),
    v4([224, 0, 0, 0], 4, Never, "a multicast address (RFC 5771)"),
    v4([255, 255, 255, 255], 32, Never, "the broadcast address (RFC 919)"),
    v4([240, 0, 0, 0], 4, UnlessAllowed, "a reserved address (RFC 1112)"),
    v4([0, 0, 0, 0], 0, Open, "a public address"),
];

// One row, one line.
#[rustfmt::skip]
pub(super) const V6: &[Range] = &[
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, Never, "the unspecified address (RFC 4291)"),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, UnlessAllowed, "the loopback address (RFC 4291)"),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, Carries(Carried::Last), "an IPv4-compatible address (RFC 4291)"),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Carries(Carried::Last), "an IPv4-mapped address (RFC 4291)"),
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, Carries(Carried::Last), "an IPv4-translated address (RFC 2765)"),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Carries(Carried::Last), "a NAT64 address (RFC 6052)"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, CarriesUnlessAllowed(Carried::Last), "a local NAT64 address (RFC 8215)"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, UnlessAllowed, "a discard-only address (RFC 6666)"),
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, UnlessAllowed, "a dummy address (RFC 9780)"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Carries(Carried::Teredo), "a Teredo address (RFC 4380)"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, UnlessAllowed, "a protocol-assignment address (RFC 2928)"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, UnlessAllowed, "a documentation address (RFC 3849)"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Carries(Carried::After16), "a 6to4 address (RFC 3056)"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, UnlessAllowed, "a documentation address (RFC 9637)"),
    v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Open, "a public address"),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, UnlessAllowed, "a segment-routing address (RFC 9602)"),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Never, "a cloud's metadata service"),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Never, "a cloud's metadata service"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, UnlessAllowed, "a unique local address (RFC 4193)"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Never, "a link-local address (RFC 4291)"),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, UnlessAllowed, "a site-local address (RFC 3879)"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Never, "a multicast address (RFC 4291)"),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 0, UnlessAllowed, "an unassigned address (RFC 4291)"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_range_that_decides_for_its_first_and_last_address() {
        // Earlier rows take the first or last address out of these ranges.
        let shadowed = ["::/96", "2001::/23", "240.0.0.0/4", "0.0.0.0/0", "::/0"];
        for range in V4.iter().chain(V6) {
            let net = range.subnet.net();
            assert_eq!(net, net.trunc());
            if shadowed.contains(&range.subnet.to_string().as_str()) {
                continue;
            }
            for ip in [net.network(), net.broadcast()] {
                assert_eq!(range_of(ip).subnet, range.subnet, "{ip}");
            }
        }
    }

    #[test]
    fn the_ranges_that_lose_an_end_still_decide_for_what_is_left() {
        for (ip, subnet) in [
            ("::9.9.9.9", "::/96"),
            ("2001:2::1", "2001::/23"),
            ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::/23"),
            ("250.0.0.1", "240.0.0.0/4"),
            ("8.8.8.8", "0.0.0.0/0"),
            ("4000::1", "::/0"),
        ] {
            assert_eq!(range_of(ip.parse().unwrap()).subnet.to_string(), subnet);
        }
    }
}
