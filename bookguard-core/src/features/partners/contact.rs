//! How a partner is reached: what an e-mail address and a website must look like.

use std::net::Ipv6Addr;

use crate::input::{Value, is_escape};
use crate::limits;
use crate::text::{HIDDEN, JOINING, is_invisible};

/// The pattern (ECMA 262) of what [`email`] takes.
fn email_pattern() -> String {
    let but = |also: &str| format!(r#"[^{also}\s@<>,;:"()\[\]\\{HIDDEN}{JOINING}]"#);
    let (any, label, end) = (but(""), but("."), but("-."));
    format!(r"^{any}{{1,64}}@{end}{label}*(\.{label}+)*\.{label}*{end}$")
}

/// Reads a mail address as mail systems agree on it: something, one `@`, then a name with a dot or a host, and no spaces.
pub(super) fn email(v: &mut Value<'_, '_>) -> Option<String> {
    let text = v
        .describe(|draft| draft.set("pattern", email_pattern()))
        .text(limits::EMAIL_CHARS)?;
    let plain = text
        .chars()
        .all(|c| !c.is_whitespace() && !is_invisible(c) && !"<>,;:\"()[]\\".contains(c));
    let parts = text.split_once('@');
    let good = plain
        && parts.is_some_and(|(local, host)| {
            !local.is_empty()
                && local.len() <= 64
                && !host.contains('@')
                && !host.starts_with(['.', '-'])
                && !host.ends_with(['.', '-'])
                && !host.contains("..")
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
const WEBSITE: &str = "^https?://(\\[[0-9A-Fa-f:.]+\\]|[-.]*[0-9A-Za-z][-.0-9A-Za-z]*)(:[0-9]{0,5})?\
                       ([/?#]([-.0-9A-Z_a-z~:/?@!$&'()*+,;=#]|%[0-9A-Fa-f]{2})*)?$";

pub(super) fn website(v: &mut Value<'_, '_>) -> Option<String> {
    let text = v.format("uri").pattern(WEBSITE).text(limits::URL_CHARS)?;
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let good = rest.is_some_and(|rest| {
        let (place, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        names_a_host(place) && is_uri_text(rest)
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
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
            let is_name =
                name.bytes().all(plain) && name.bytes().any(|b| b.is_ascii_alphanumeric());
            (is_name, port)
        }
    };
    let digits = |port: &str| port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
    is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(digits))
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
