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
    match website_fault(&text) {
        None => Some(text),
        Some((message, fix)) => v.fault("invalid_uri", message, fix),
    }
}

/// What is wrong with the address of a website, and what to send instead; `None` if nothing is.
fn website_fault(text: &str) -> Option<(&'static str, &'static str)> {
    const NO_ADDRESS: (&str, &str) = (
        "is not an http or https address",
        "Send one like https://example.com; write letters other than ASCII as xn--… in its host and as %XX after it.",
    );
    let is_web = |scheme: &str| {
        ["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    };
    let Some((_, rest)) = text.split_once("://").filter(|(scheme, _)| is_web(scheme)) else {
        return Some(NO_ADDRESS);
    };
    let (place, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if place.contains('@') {
        return Some((
            "holds a user name or password",
            "Leave out what stands before the host, and the @.",
        ));
    }
    let (is_host, port) = host_and_port(place);
    if !is_host || !is_uri_text(rest) {
        return Some(NO_ADDRESS);
    }
    (!is_port(port)).then_some((
        "has a port that is not a number from 0 to 65535",
        "Send the port in at most five digits, or leave it out.",
    ))
}

/// Whether a place begins with a host, and what follows the host: its port, if anything (RFC 3986 section 3.2, without user
/// information).
fn host_and_port(place: &str) -> (bool, &str) {
    match place
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
    }
}

/// Whether this is nothing, or a colon and a port.
fn is_port(text: &str) -> bool {
    let is_number = |port: &str| {
        port.is_empty()
            || (port.len() <= 5
                && port.bytes().all(|b| b.is_ascii_digit())
                && port.parse::<u16>().is_ok())
    };
    text.is_empty() || text.strip_prefix(':').is_some_and(is_number)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_website_is_refused_for_what_is_wrong_with_it() {
        for (text, why) in [
            ("https://a.example", None),
            ("https://a.example:/?q=name@b.example", None),
            ("https://[2001:db8::7]:443/", None),
            ("https://u:p@a.example", Some("a user name or password")),
            (
                "https://u@a.example:99999/",
                Some("a user name or password"),
            ),
            ("https://a.example:99999", Some("a port")),
            ("https://a.example:port/", Some("a port")),
            ("https://[2001:db8::7]:123456", Some("a port")),
            ("ftp://a.example", Some("not an http or https address")),
            ("https://:99999", Some("not an http or https address")),
            ("https://a.example/{}", Some("not an http or https address")),
        ] {
            let fault = website_fault(text).map(|(message, _)| message);
            match why {
                None => assert_eq!(fault, None, "{text}"),
                Some(why) => assert!(fault.unwrap().contains(why), "{text}: {fault:?}"),
            }
        }
    }
}
