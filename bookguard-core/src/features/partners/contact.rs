//! How a partner is reached: what an e-mail address and a website must look like.

use std::net::Ipv6Addr;

use crate::input::{Value, is_escape};
use crate::limits;
use crate::text::{HIDDEN, JOINING, is_invisible};

/// The pattern (ECMA 262) of what [`email`] takes. It does not count the dots before the `@`; [`email`] does.
fn email_pattern() -> String {
    let but = |also: &str| format!(r#"[^{also}\s@<>,;:"()\[\]\\{HIDDEN}{JOINING}]"#);
    let (label, end) = (but("."), but("-."));
    format!(r"^{label}(\.?{label}){{0,63}}@{end}{label}*(\.{label}+)*\.{label}*{end}$")
}

/// Reads a mail address as mail systems agree on it: something, one `@`, then a name with a dot or a host, no spaces, and no dot
/// that is first, last or beside another.
pub(super) fn email(v: &mut Value<'_, '_>) -> Option<String> {
    let text = v
        .describe(|draft| draft.set("pattern", email_pattern()))
        .text(limits::EMAIL_CHARS)?;
    let plain = text
        .chars()
        .all(|c| !c.is_whitespace() && !is_invisible(c) && !"<>,;:\"()[]\\".contains(c));
    let is_dotted = |part: &str| part.split('.').all(|label| !label.is_empty());
    let parts = text.split_once('@');
    let good = plain
        && parts.is_some_and(|(local, host)| {
            local.len() <= 64
                && is_dotted(local)
                && !host.contains('@')
                && !host.starts_with('-')
                && !host.ends_with('-')
                && is_dotted(host)
                && host.contains('.')
        });
    if good {
        Some(text)
    } else {
        v.fault(
            "invalid_email",
            "is not an email address",
            "Send one like name@example.com.",
        )
    }
}

/// What [`website`] takes, as far as a pattern can express it.
const WEBSITE: &str = "^[Hh][Tt][Tt][Pp][Ss]?://\
                       (\\[[0-9A-Fa-f:.]+\\]|-*[0-9A-Za-z][-0-9A-Za-z]*(\\.-*[0-9A-Za-z][-0-9A-Za-z]*)*\\.?)\
                       (:([0-9]{0,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?\
                       ([/?#]([-.0-9A-Z_a-z~:/?@!$&'()*+,;=#]|%[0-9A-Fa-f]{2})*)?$";

pub(super) fn website(v: &mut Value<'_, '_>) -> Option<String> {
    let text = v.format("uri").pattern(WEBSITE).text(limits::URL_CHARS)?;
    let good = text.split_once("://").is_some_and(|(scheme, rest)| {
        let is_web = ["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known));
        let (place, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        is_web && names_a_host(place) && is_uri_text(rest)
    });
    if good {
        Some(text)
    } else {
        v.fault(
            "invalid_uri",
            "is not an http or https address",
            "Send one like https://example.com; write letters other than ASCII as xn--… in its host and as %XX after it.",
        )
    }
}

/// Whether this is a host, optionally with a port (RFC 3986 section 3.2, without user information).
fn names_a_host(place: &str) -> bool {
    let (is_host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port),
        None => {
            let (name, port) = place.split_at(place.find(':').unwrap_or(place.len()));
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            // The root of all names may be written as a dot at the end.
            let is_name = name
                .strip_suffix('.')
                .unwrap_or(name)
                .split('.')
                .all(|label| {
                    label.bytes().all(plain) && label.bytes().any(|b| b.is_ascii_alphanumeric())
                });
            (is_name, port)
        }
    };
    let is_port = |port: &str| {
        port.is_empty()
            || (port.len() <= 5
                && port.bytes().all(|b| b.is_ascii_digit())
                && port.parse::<u16>().is_ok())
    };
    is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Whether this is a path, query and fragment (RFC 3986 sections 3.3 to 3.5).
fn is_uri_text(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=#".contains(&b);
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default();
    first.bytes().all(plain)
        && parts.all(|part| is_escape(part) && part.bytes().all(plain))
        && text.matches('#').count() <= 1
}
