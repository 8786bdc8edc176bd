//! A range of IP addresses: `10.0.0.0/8`, `2001:db8::/32`.
//!
//! Invariant: the bits below the prefix are zero, so that equal ranges are equal values.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use super::table::{self, RangeRule};

/// A range of addresses that share a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet(IpNet);

impl Subnet {
    /// Creates an IPv4 range of the table.
    pub(super) const fn v4(network: [u8; 4], prefix: u8) -> Self {
        let [a, b, c, d] = network;
        Subnet(IpNet::new_assert(
            IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            prefix,
        ))
    }

    /// Creates an IPv6 range of the table.
    pub(super) const fn v6(network: [u16; 8], prefix: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = network;
        Subnet(IpNet::new_assert(
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
            prefix,
        ))
    }

    /// The loopback ranges.
    pub fn loopback() -> [Subnet; 2] {
        [
            Subnet::v4([127, 0, 0, 0], 8),
            Subnet::v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
        ]
    }

    /// Parses `address/prefix` or a single address, for purposes other than webhooks.
    ///
    /// # Errors
    /// If the text is neither, or holds IPv4-mapped IPv6 addresses, which no address is compared with.
    pub fn range(text: &str) -> Result<Self, String> {
        let subnet = read(text)?;
        let first = subnet.0.addr();
        if first.to_canonical() != first {
            return Err(fail(text, "holds IPv4 addresses; write the IPv4 subnet"));
        }
        Ok(subnet)
    }

    /// Whether it contains every address of its family.
    pub fn is_everything(&self) -> bool {
        self.0.prefix_len() == 0
    }

    /// Whether `ip` is in this range; an IPv4 address is never in an IPv6 range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.0.contains(&ip)
    }

    /// Whether all of `self` is in `other`.
    fn is_within(&self, other: &Subnet) -> bool {
        other.0.contains(&self.0)
    }

    /// The underlying range, for the table's test.
    #[cfg(test)]
    pub(super) fn net(&self) -> IpNet {
        self.0
    }
}

impl FromStr for Subnet {
    type Err = String;

    /// Parses `address/prefix` or a single address, and refuses a range that allowing would have no effect on.
    fn from_str(text: &str) -> Result<Self, String> {
        let subnet = read(text)?;
        let range = table::range_of(subnet.0.addr());
        match range.rule {
            _ if !subnet.is_within(&range.subnet) => Ok(subnet),
            RangeRule::Never => Err(fail(
                text,
                &format!(
                    "is {}, where webhooks never go; it cannot be allowed",
                    range.name
                ),
            )),
            RangeRule::Carries(_) => Err(fail(
                text,
                "holds addresses judged by the IPv4 address in them; allow the IPv4 subnet",
            )),
            _ => Ok(subnet),
        }
    }
}

/// Parses `address/prefix` or a single address. The crate's own parser accepts bits beyond the prefix and does not say what is
/// wrong.
fn read(text: &str) -> Result<Subnet, String> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address
        .parse()
        .map_err(|_| fail(text, "is not a subnet such as 10.0.0.0/8 or fd00::/8"))?;
    let single = IpNet::from(address);
    let net = match prefix {
        None => Some(single),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
            .parse()
            .ok()
            .and_then(|prefix| IpNet::new(address, prefix).ok()),
        Some(_) => None,
    };
    let net = net.ok_or_else(|| {
        let width = single.prefix_len();
        let why = format!("needs a prefix length of 0 to {width} after the slash");
        fail(text, &why)
    })?;
    if net != net.trunc() {
        let prefix = net.prefix_len();
        let why = format!(
            "has address bits set beyond its first {prefix}; write the first address of the range"
        );
        return Err(fail(text, &why));
    }
    Ok(Subnet(net))
}

/// Names a text that is not a subnet which an operator could allow, and what to write instead.
fn fail(text: &str, why: &str) -> String {
    format!("`{text}` {why}")
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_reads_and_writes_the_usual_form() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.168.1.7", "192.168.1.7/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00::/8", "fd00::/8"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(text.parse::<Subnet>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_is_not_a_subnet_is_refused_with_the_way_out() {
        for (text, part) in [
            ("", "is not a subnet"),
            ("intranet", "is not a subnet"),
            ("10/8", "is not a subnet"),
            ("10.0.0.0/", "prefix length of 0 to 32"),
            ("10.0.0.0/+8", "prefix length of 0 to 32"),
            ("10.0.0.0/33", "prefix length of 0 to 32"),
            ("10.0.0.0/264", "prefix length of 0 to 32"),
            ("fd00::/129", "prefix length of 0 to 128"),
            ("10.1.0.0/8", "write the first address"),
            ("fd00::1/64", "write the first address"),
            ("169.254.169.254", "never go"),
            ("fe80::/10", "never go"),
            ("::ffff:10.0.0.0/104", "allow the IPv4 subnet"),
            ("2002:a00::/24", "allow the IPv4 subnet"),
        ] {
            let error = text.parse::<Subnet>().unwrap_err();
            assert!(
                error.starts_with(&format!("`{text}`")) && error.contains(part),
                "{error}"
            );
        }
    }

    #[test]
    fn a_subnet_contains_its_first_and_last_address_and_not_their_neighbours() {
        #[rustfmt::skip]
        let cases = [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("192.168.1.7", ["192.168.1.7", "192.168.1.7"], ["192.168.1.6", "192.168.1.8"]),
            ("fd00::/8", ["fd00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], ["fcff::", "fe00::"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::ffff:10.0.0.1"]),
            ("::/0", ["::", "ffff::"], ["10.0.0.1", "0.0.0.0"]),
        ];
        for (text, inside, outside) in cases {
            let subnet: Subnet = text.parse().unwrap();
            assert!(
                inside.iter().all(|ip| subnet.contains(ip.parse().unwrap())),
                "{text}"
            );
            assert!(
                !outside
                    .iter()
                    .any(|ip| subnet.contains(ip.parse().unwrap())),
                "{text}"
            );
        }
    }
}
