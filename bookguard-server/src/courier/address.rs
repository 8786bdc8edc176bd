//! Where a webhook may go, and where it may not.
//!
//! Partners choose the addresses this server calls, so an address is checked when it is registered
//! ([`AddressRules::check_url`]) and again, as resolved, before every connection ([`AddressRules::check_resolved`]). A
//! connection must then use exactly the addresses that were checked. `table` lists the ranges. Invariants: an IPv6 address that
//! carries an IPv4 address is judged by the IPv4 address; some ranges cannot be allowed by any setting.

mod subnet;
mod table;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use bookguard_core::input::is_escape;
use bookguard_core::limits::URL_CHARS;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use poem::http::Uri;
use url::{Host, Url};

pub use subnet::Subnet;
use table::{Range, RangeRule};

/// What the operator allows beyond public https addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressRules {
    /// Whether plain http is allowed.
    pub allow_http: bool,
    /// Subnets that are allowed although they are not public.
    pub allowed: Vec<Subnet>,
}

/// An address that webhooks may not go to: the address, the reason, and the setting that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAddress {
    code: &'static str,
    message: String,
}

impl AddressRules {
    /// Public https addresses only.
    pub fn public() -> Self {
        AddressRules::default()
    }

    /// For local development: also allows plain http and this machine (`bookguard serve --dev`).
    pub fn dev() -> Self {
        AddressRules {
            allow_http: true,
            allowed: Subnet::loopback().to_vec(),
        }
    }

    /// Parses and checks the URL of an endpoint. Returns the URL to store and to send to.
    ///
    /// Names are not resolved here; the addresses they resolve to are checked at every connection.
    ///
    /// # Errors
    /// `invalid_url`: not a URL of at most 2,048 characters, not https, has a user name, password or fragment, no host, port 0,
    /// or white space. `blocked_address`: a blocked address in any spelling, or a name of this machine.
    pub fn check_url(&self, text: &str) -> Result<Url, RefusedAddress> {
        check_length(text)?;
        // The parser would silently drop these, but the stored URL must be the one that was sent.
        if text
            .chars()
            .any(|character| character.is_control() || character.is_whitespace())
        {
            return invalid("the URL holds white space or control characters; percent-encode them");
        }
        let url = Url::parse(text)
            .or_else(|error| invalid(format!("the URL cannot be read: {error}")))?;
        let url = written_as_uri(url);
        self.check_parsed(&url)?;
        if !url.username().is_empty() || url.password().is_some() {
            let why = "the URL holds a user name or password; webhooks are authenticated by their signature";
            return invalid(why);
        }
        if url.fragment().is_some() {
            return invalid("the URL holds a fragment (`#…`), which is never sent; leave it out");
        }
        if url.port() == Some(0) {
            return invalid("port 0 cannot be connected to");
        }
        check_name(&url)?;
        // A few characters that the URL parser accepts are not allowed in a request line.
        check_length(url.as_str())?;
        if let Err(error) = url.as_str().parse::<Uri>() {
            return invalid(format!("written out, `{url}` cannot be requested: {error}"));
        }
        Ok(url)
    }

    /// Checks the part of [`check_url`](Self::check_url) that depends on the rules: scheme and host. This is cheap. Repeat it
    /// before each request, because rules change and no resolver sees a literal address.
    ///
    /// # Errors
    /// As [`check_url`](Self::check_url).
    pub fn check_parsed(&self, url: &Url) -> Result<(), RefusedAddress> {
        match url.scheme() {
            "https" => {}
            "http" if self.allow_http => {}
            "http" => {
                let why = "webhooks go to https addresses only; for local development, `--dev` allows http";
                return invalid(why);
            }
            other => return invalid(format!("`{other}` is not a scheme webhooks use; use https")),
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check_ip(ip.into()),
            Some(Host::Ipv6(ip)) => self.check_ip(ip.into()),
            Some(Host::Domain(name)) if names_this_machine(name) => {
                self.check(LOOPBACK, |_| format!("`{name}` is this machine"))
            }
            Some(Host::Domain(name)) if !name.trim_end_matches('.').is_empty() => Ok(()),
            _ => invalid("the URL has no host"),
        }
    }

    /// Checks one IP address.
    ///
    /// # Errors
    /// `blocked_address`.
    pub fn check_ip(&self, ip: IpAddr) -> Result<(), RefusedAddress> {
        self.check(ip, |range| format!("{ip} is {}", range.name))
    }

    /// Checks the addresses a name resolved to: one blocked address refuses all.
    ///
    /// The message names the kind of address but not the address. It is for the operator only: a partner could use it to
    /// explore this server's network.
    ///
    /// # Errors
    /// `blocked_address`.
    pub fn check_resolved(
        &self,
        name: &str,
        ips: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), RefusedAddress> {
        let what = |range: &Range| format!("`{name}` resolves to {}", range.name);
        ips.into_iter().try_for_each(|ip| self.check(ip, what))
    }

    /// Refuses an address in a range that is not allowed, in these words.
    fn check(&self, ip: IpAddr, what: impl FnOnce(&Range) -> String) -> Result<(), RefusedAddress> {
        match self.refused_range(ip) {
            Some(range) => Err(RefusedAddress::blocked(&what(range), range)),
            None => Ok(()),
        }
    }

    /// The range that blocks `ip`, if any.
    fn refused_range(&self, ip: IpAddr) -> Option<&'static Range> {
        let range = table::range_of(ip);
        match range.rule {
            RangeRule::Never => Some(range),
            RangeRule::UnlessAllowed | RangeRule::CarriesUnlessAllowed(_) if !self.allows(ip) => {
                Some(range)
            }
            RangeRule::Open | RangeRule::UnlessAllowed => None,
            RangeRule::Carries(carried) | RangeRule::CarriesUnlessAllowed(carried) => carried
                .addresses(ip)
                .find_map(|inner| self.refused_range(inner.into())),
        }
    }

    fn allows(&self, ip: IpAddr) -> bool {
        self.allowed.iter().any(|subnet| subnet.contains(ip))
    }
}

/// The characters that the URL parser leaves in a path or query although RFC 3986 does not allow them there.
const NOT_IN_A_URI: &AsciiSet = &CONTROLS
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The same URL in the spelling of RFC 3986, which the interface document promises.
fn written_as_uri(mut url: Url) -> Url {
    let (path, query) = (escaped(url.path()), url.query().map(escaped));
    if path != url.path() {
        url.set_path(&path);
    }
    if query.as_deref() != url.query() {
        url.set_query(query.as_deref());
    }
    url
}

/// Escapes what a URI may not hold, and a `%` that begins no escape.
fn escaped(text: &str) -> String {
    let mut parts = text.split('%');
    let plain = |part| utf8_percent_encode(part, NOT_IN_A_URI);
    let mut written = plain(parts.next().unwrap_or_default()).to_string();
    for part in parts {
        written.push_str(if is_escape(part) { "%" } else { "%25" });
        written.extend(plain(part));
    }
    written
}

fn check_length(url: &str) -> Result<(), RefusedAddress> {
    match url.len() {
        0..=URL_CHARS => Ok(()),
        found => invalid(format!(
            "written out, the URL has {found} characters; {URL_CHARS} is the most"
        )),
    }
}

/// Checks that a name has no empty label; one trailing dot is allowed.
fn check_name(url: &Url) -> Result<(), RefusedAddress> {
    let Some(Host::Domain(name)) = url.host() else {
        return Ok(());
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.split('.').any(str::is_empty) {
        return invalid(format!(
            "the host `{name}` has nothing between two dots, or before the first; it cannot be resolved"
        ));
    }
    Ok(())
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Whether a name is `localhost` or below it (RFC 6761, section 6.3). The parser has already lowered the case.
fn names_this_machine(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

impl RefusedAddress {
    /// `blocked_address` or `invalid_url`; stable.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// A sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn blocked(what: &str, range: &Range) -> Self {
        let subnet = range.subnet;
        let way_out = match range.rule {
            RangeRule::Never => "webhooks never go there and no setting allows it".to_owned(),
            _ if Subnet::loopback().contains(&subnet) => {
                format!(
                    "`--dev` allows it for local development, {subnet} in `webhook_allow_subnets` in general"
                )
            }
            _ => format!(
                "the operator can allow it: {subnet}, or a part of it, in `webhook_allow_subnets`"
            ),
        };
        RefusedAddress {
            code: "blocked_address",
            message: format!("{what} ({subnet}); {way_out}"),
        }
    }
}

fn invalid<T>(message: impl Into<String>) -> Result<T, RefusedAddress> {
    Err(RefusedAddress {
        code: "invalid_url",
        message: message.into(),
    })
}

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RefusedAddress {}

#[cfg(test)]
mod tests;
