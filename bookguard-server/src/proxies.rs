//! The client's address behind proxies: which peers may name it, and in which header.
//!
//! A proxy appends the address it was called from, so the header is read from its end: past trusted hops, up to the first that
//! is not trusted. Everything before that hop was sent by the client itself and is ignored. If a hop is not an address, the
//! peer's address is used. poem's `RealIp` trusts any sender of the header. Invariant: a peer that is not trusted never changes
//! its address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use poem::http::header::{FORWARDED, HeaderMap, HeaderName};

use crate::courier::address::Subnet;

/// The most hops that are read; no chain of proxies is longer.
const HOPS: usize = 32;

/// The header in which proxies name the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For: client, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy` (RFC 7239).
    Forwarded,
}

/// The proxies in front of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    subnets: Vec<Subnet>,
    header: ProxyHeader,
}

impl ProxyHeader {
    /// The words of the setting.
    pub const WORDS: [(&str, Self); 2] = [
        ("x-forwarded-for", Self::XForwardedFor),
        ("forwarded", Self::Forwarded),
    ];

    fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => FORWARDED,
        }
    }

    /// The address that one hop names.
    fn address(self, hop: &str) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => node(hop),
            Self::Forwarded => node(forwarded_for(hop)?),
        }
    }
}

impl TrustedProxies {
    /// Reads the subnets of proxies that name the client in this header.
    ///
    /// # Errors
    /// A sentence that names the setting and what to write.
    pub(crate) fn new(subnets: &[String], header: ProxyHeader) -> Result<Self, String> {
        let subnets = subnets.iter().map(|text| {
            let subnet = Subnet::range(text)?;
            if subnet.is_everything() {
                return Err(format!(
                    "`{text}` holds every address, so anybody could name any address as their own"
                ));
            }
            Ok(subnet)
        });
        let subnets = subnets
            .collect::<Result<_, _>>()
            .map_err(|why| format!("trusted_proxies: {why}; name the proxies' own addresses"))?;
        Ok(Self { subnets, header })
    }

    /// Whether this address is a trusted proxy.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address))
    }

    /// The client of a request: the peer, or the address that trusted proxies name.
    pub(crate) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        let address = peer.ip().to_canonical();
        if !self.trusts(address) {
            return peer;
        }
        // The peer's port is the proxy's and says nothing about the client.
        self.walk(headers)
            .map_or(peer, |client| SocketAddr::new(client, 0))
    }

    /// The last hop that is not a trusted proxy, or the first hop if all are trusted. Returns `None` if there are no hops or if
    /// one that is read is not an address.
    fn walk(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lines = headers.get_all(self.header.name()).iter().rev();
        let mut hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        let mut client = None;
        for hop in hops.by_ref().take(HOPS) {
            let address = self.header.address(hop.trim_matches([' ', '\t']))?;
            client = Some(address);
            if !self.trusts(address) {
                return client;
            }
        }
        client.filter(|_| hops.next().is_none())
    }
}

/// The value of the only `for` in an element. An address from a proxy holds no comma, semicolon or escape, so the element is
/// split at semicolons without regard to quotes: a quote that the client left open cannot affect it.
fn forwarded_for(element: &str) -> Option<&str> {
    let mut found = None;
    for pair in element.split(';') {
        let (name, value) = pair.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("for") && found.replace(value.trim()).is_some() {
            return None;
        }
    }
    let value = found?;
    match value.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"'),
        // RFC 7239 section 4 requires quotes around a colon or bracket, but proxies leave them out.
        None => Some(value),
    }
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn node(text: &str) -> Option<IpAddr> {
    let (address, port): (IpAddr, Option<&str>) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':')?),
            };
            (IpAddr::V6(address.parse().ok()?), port)
        }
        None => match text.parse() {
            Ok(address) => (address, None),
            Err(_) => {
                let (address, port) = text.split_once(':')?;
                (address.parse::<Ipv4Addr>().ok()?.into(), Some(port))
            }
        },
    };
    let is_port = |port: &str| {
        (1..=5).contains(&port.len())
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok()
    };
    port.is_none_or(is_port).then(|| address.to_canonical())
}

#[cfg(test)]
mod tests;
