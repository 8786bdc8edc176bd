//! From where the path may be called: the Host and Origin that a page cannot forge.
//!
//! A page of another site, whose name was made to lead to this machine, still sends that name. Invariant: what is not the
//! service's own is refused with a sentence that says how to make it so.

use std::net::IpAddr;

use poem::http::StatusCode;
use poem::http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use url::{Host, Url};

use crate::refusal::Refusal;

/// Who may call.
pub(crate) struct Callers {
    public: Option<Url>,
    /// Whether this machine's own names are good: when it can be reached by them.
    local: bool,
}

impl Callers {
    /// Callers of the service at `public_url`, listening on `address`.
    pub(crate) fn new(public_url: &str, address: IpAddr) -> Self {
        Self {
            public: Url::parse(public_url).ok(),
            local: address.to_canonical().is_loopback() || address.is_unspecified(),
        }
    }

    /// Refuses: `host_not_allowed`, `origin_not_allowed`.
    pub(super) fn check(&self, headers: &HeaderMap, in_uri: Option<&str>) -> Result<(), Refusal> {
        let host = single(headers, HOST).or(in_uri.filter(|_| !headers.contains_key(HOST)));
        let named = host.and_then(|host| Url::parse(&format!("http://{host}")).ok());
        let known = named.is_some_and(|url| self.is_local(&url) || self.is_public_host(&url));
        if !known {
            return Err(forbidden(
                "host_not_allowed",
                "The Host header does not name this service. Set its public URL (public_url, --public-url or \
                 BOOKGUARD_PUBLIC_URL) to the address that clients use, and let a proxy pass the Host header on.",
            ));
        }
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = single(headers, ORIGIN).and_then(|origin| Url::parse(origin).ok());
        let same = |url: &Url| {
            let public = self.public.as_ref().map(Url::origin);
            self.is_local(url) || public.is_some_and(|public| public == url.origin())
        };
        if origin.is_some_and(|url| same(&url)) {
            return Ok(());
        }
        Err(forbidden(
            "origin_not_allowed",
            "Pages of other sites may not call this. Call it from a program, or from a page at the service's public URL \
             (public_url, --public-url or BOOKGUARD_PUBLIC_URL).",
        ))
    }

    fn is_public_host(&self, url: &Url) -> bool {
        let public = self.public.as_ref().and_then(Url::host);
        public.is_some_and(|public| url.host() == Some(public))
    }

    fn is_local(&self, url: &Url) -> bool {
        self.local
            && match url.host() {
                Some(Host::Domain(name)) => name == "localhost",
                Some(Host::Ipv4(address)) => address.is_loopback(),
                Some(Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            }
    }
}

/// The value of a header that is there once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    value.to_str().ok()
}

fn forbidden(code: &'static str, message: &str) -> Refusal {
    Refusal::http(StatusCode::FORBIDDEN, code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(public_url: &str, listen: &str, host: &[&str], origin: &[&str]) -> String {
        let callers = Callers::new(public_url, listen.parse().unwrap());
        let mut headers = HeaderMap::new();
        for (name, values) in [(HOST, host), (ORIGIN, origin)] {
            for value in values {
                headers.append(&name, value.parse().unwrap());
            }
        }
        match callers.check(&headers, None) {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => refusal.code().to_owned(),
        }
    }

    #[test]
    fn only_the_service_s_own_names_are_hosts() {
        let public = "https://bookings.example.com";
        for (listen, host, expected) in [
            ("127.0.0.1", "bookings.example.com", "ok"),
            ("127.0.0.1", "BOOKINGS.example.com:443", "ok"),
            ("127.0.0.1", "localhost:8080", "ok"),
            ("127.0.0.1", "127.0.0.1", "ok"),
            ("::1", "[::1]:8080", "ok"),
            ("0.0.0.0", "localhost", "ok"),
            ("192.0.2.1", "bookings.example.com", "ok"),
            ("192.0.2.1", "localhost:8080", "host_not_allowed"),
            ("127.0.0.1", "evil.example.com", "host_not_allowed"),
            (
                "127.0.0.1",
                "localhost.evil.example.com",
                "host_not_allowed",
            ),
            (
                "127.0.0.1",
                "evil.example.com/@localhost",
                "host_not_allowed",
            ),
            ("127.0.0.1", "bookings.example.com.", "host_not_allowed"),
            ("127.0.0.1", "", "host_not_allowed"),
        ] {
            assert_eq!(
                code(public, listen, &[host], &[]),
                expected,
                "{listen} {host}"
            );
        }
        let twice = ["bookings.example.com", "evil.example.com"];
        assert_eq!(code(public, "127.0.0.1", &twice, &[]), "host_not_allowed");
        assert_eq!(code(public, "127.0.0.1", &[], &[]), "host_not_allowed");
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        let public = "https://bookings.example.com/base";
        for (listen, origin, expected) in [
            ("127.0.0.1", "https://bookings.example.com", "ok"),
            ("127.0.0.1", "http://localhost:5173", "ok"),
            ("192.0.2.1", "http://localhost:5173", "origin_not_allowed"),
            (
                "127.0.0.1",
                "http://bookings.example.com",
                "origin_not_allowed",
            ),
            (
                "127.0.0.1",
                "https://bookings.example.com:8443",
                "origin_not_allowed",
            ),
            (
                "127.0.0.1",
                "https://evil.example.com",
                "origin_not_allowed",
            ),
            ("127.0.0.1", "null", "origin_not_allowed"),
            ("127.0.0.1", "", "origin_not_allowed"),
        ] {
            let host = ["bookings.example.com"];
            assert_eq!(code(public, listen, &host, &[origin]), expected, "{origin}");
        }
    }
}
