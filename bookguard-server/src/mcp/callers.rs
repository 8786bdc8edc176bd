//! Which callers the endpoint accepts, by Host and Origin, which a web page cannot forge.
//!
//! A page of another site whose name was made to resolve to this machine still sends that name. Host and Origin are parsed as
//! an authority and an origin, not as URLs, of which they could be a part. Invariant: a Host or Origin that is not the
//! service's own is refused with a sentence that says how to allow it.

use std::net::IpAddr;

use poem::http::StatusCode;
use poem::http::header::{HOST, HeaderMap, ORIGIN};
use poem::http::uri::Authority;
use url::{Host, Url};

use crate::auth::single;
use crate::config::is_loopback;
use crate::refusal::Refusal;

/// The accepted callers.
pub(crate) struct Callers {
    public: Option<Url>,
    /// Whether the Host may name this machine, which is so if the server can be reached under such a name.
    local_hosts: bool,
    /// Whether pages of this machine may call. Not for a service with a public name: there, such a page is on a visitor's
    /// machine.
    local_origins: bool,
}

impl Callers {
    /// Accepts callers of the service at `public_url` that listens on `address`.
    pub(crate) fn new(public_url: &str, address: IpAddr) -> Self {
        let public = Url::parse(public_url).ok();
        let local_hosts = address.to_canonical().is_loopback() || address.is_unspecified();
        // Without a configured public URL, this is the listening address.
        let named = public.as_ref().and_then(Url::host);
        let own = named.is_some_and(|host| is_loopback(&host) || is_unspecified(&host));
        Self {
            local_origins: local_hosts && own,
            local_hosts,
            public,
        }
    }

    /// Checks Host and Origin.
    ///
    /// # Errors
    /// `host_not_allowed`, `origin_not_allowed`.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        target: Option<&Authority>,
    ) -> Result<(), Refusal> {
        // A request target with a host takes precedence over the Host header (RFC 9112 section 3.2.2).
        let host = match target {
            Some(target) => Some(target.as_str()),
            None => single(headers, HOST),
        };
        let known = host
            .and_then(host_of)
            .is_some_and(|host| self.local_hosts && is_loopback(&host) || self.is_public(&host));
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
        if single(headers, ORIGIN).is_some_and(|origin| self.is_own(origin)) {
            return Ok(());
        }
        Err(forbidden(
            "origin_not_allowed",
            "Pages of other sites may not call this. Call it from a program, or from a page at the service's public URL \
             (public_url, --public-url or BOOKGUARD_PUBLIC_URL).",
        ))
    }

    fn is_public(&self, host: &Host<String>) -> bool {
        let public = self.public.as_ref().and_then(Url::host);
        public.is_some_and(|public| public.to_owned() == *host)
    }

    /// Whether the origin is the service's own, or a page on this machine that may be used for testing it.
    fn is_own(&self, text: &str) -> bool {
        let Ok(url) = Url::parse(text) else {
            return false;
        };
        let origin = url.origin();
        let plain = matches!(url.scheme(), "http" | "https");
        // A browser sends only the one serialization of an origin (RFC 6454 section 6.2).
        if !plain || origin.ascii_serialization() != text {
            return false;
        }
        let local = self.local_origins && url.host().is_some_and(|host| is_loopback(&host));
        local
            || self
                .public
                .as_ref()
                .is_some_and(|public| public.origin() == origin)
    }
}

/// Parses a Host header's value: a host without user information, and an optional valid port.
fn host_of(text: &str) -> Option<Host<String>> {
    let authority: Authority = text.parse().ok()?;
    let port = text.strip_prefix(authority.host())?;
    let plain = port.is_empty() || authority.port_u16().is_some();
    Host::parse(authority.host()).ok().filter(|_| plain)
}

fn is_unspecified<S>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(_) => false,
        Host::Ipv4(address) => address.is_unspecified(),
        Host::Ipv6(address) => address.is_unspecified(),
    }
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
        #[rustfmt::skip]
        let cases = [
            ("127.0.0.1", "bookings.example.com", "ok"),
            ("127.0.0.1", "BOOKINGS.example.com:443", "ok"),
            ("127.0.0.1", "localhost:8080", "ok"),
            ("127.0.0.1", "127.0.0.1", "ok"),
            ("::1", "[::1]:8080", "ok"),
            ("0.0.0.0", "localhost", "ok"),
            ("192.0.2.1", "bookings.example.com", "ok"),
            ("192.0.2.1", "localhost:8080", "host_not_allowed"),
            ("127.0.0.1", "evil.example.com", "host_not_allowed"),
            ("127.0.0.1", "localhost.evil.example.com", "host_not_allowed"),
            ("127.0.0.1", "evil.example.com/@localhost", "host_not_allowed"),
            ("127.0.0.1", "bookings.example.com.", "host_not_allowed"),
            ("127.0.0.1", "", "host_not_allowed"),
            ("127.0.0.1", "evil.com@localhost", "host_not_allowed"),
            ("127.0.0.1", "evil.com:80@localhost", "host_not_allowed"),
            ("127.0.0.1", "localhost/evil.com", "host_not_allowed"),
            ("127.0.0.1", "localhost#evil.com", "host_not_allowed"),
            ("127.0.0.1", "localhost?x", "host_not_allowed"),
            ("127.0.0.1", "localhost\\.evil.com", "host_not_allowed"),
            ("127.0.0.1", "local\thost", "host_not_allowed"),
            ("127.0.0.1", "loc%61lhost", "host_not_allowed"),
            ("127.0.0.1", "localhost:99999", "host_not_allowed"),
            ("127.0.0.1", "localhost:80:80", "host_not_allowed"),
        ];
        for (listen, host, expected) in cases {
            assert_eq!(
                code(public, listen, &[host], &[]),
                expected,
                "{listen} {host}"
            );
        }
        let twice = ["bookings.example.com", "evil.example.com"];
        assert_eq!(code(public, "127.0.0.1", &twice, &[]), "host_not_allowed");
        assert_eq!(code(public, "127.0.0.1", &[], &[]), "host_not_allowed");
        // A host in the request target counts, whatever the Host header says.
        let callers = Callers::new(public, "127.0.0.1".parse().unwrap());
        let headers = HeaderMap::from_iter([(HOST, "localhost".parse().unwrap())]);
        for (target, allowed) in [("localhost", true), ("evil.example.com", false)] {
            let target = Authority::from_static(target);
            assert_eq!(callers.check(&headers, Some(&target)).is_ok(), allowed);
        }
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        let public = "https://bookings.example.com/base";
        let (home, wild) = ("http://127.0.0.1:8080", "http://0.0.0.0:8080");
        for (public, listen, origin, allowed) in [
            (public, "127.0.0.1", "https://bookings.example.com", true),
            (home, "127.0.0.1", "http://127.0.0.1:8080", true),
            (home, "127.0.0.1", "http://localhost:5173", true),
            (wild, "0.0.0.0", "http://localhost:5173", true),
            (home, "127.0.0.1", "http://evil.com@localhost", false),
            (home, "127.0.0.1", "http://localhost/x", false),
            (home, "127.0.0.1", "http://localhost/", false),
            (home, "127.0.0.1", "HTTP://localhost", false),
            (home, "127.0.0.1", "javascript://localhost", false),
            (home, "127.0.0.1", "chrome-extension://localhost", false),
            (home, "127.0.0.1", "ftp://localhost", false),
            // A page on a visitor's own machine, not on the service's.
            (public, "127.0.0.1", "http://localhost:5173", false),
            (public, "192.0.2.1", "http://localhost:5173", false),
            (public, "127.0.0.1", "http://bookings.example.com", false),
            (
                public,
                "127.0.0.1",
                "https://bookings.example.com:8443",
                false,
            ),
            (public, "127.0.0.1", "https://evil.example.com", false),
            (public, "127.0.0.1", "null", false),
            (public, "127.0.0.1", "", false),
        ] {
            let host = [public.split('/').nth(2).unwrap()];
            let host = if listen == "0.0.0.0" {
                ["localhost"]
            } else {
                host
            };
            let expected = if allowed { "ok" } else { "origin_not_allowed" };
            assert_eq!(code(public, listen, &host, &[origin]), expected, "{origin}");
        }
    }
}
