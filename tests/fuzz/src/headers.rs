//! What the server reads before anybody is known: the formats that a client accepts, the answers it already has, its
//! key, its trace, who forwarded its request, and where it wants its webhooks sent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bookguard_core::model::{ApiKeySecret, FileId, PartnerId};
use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};

use crate::courier::address::AddressRules;
use crate::incoming::idempotency_key;
use crate::server::negotiation::{entity_tag, is_current, known_tags, names, prefers_page, wish};
use crate::server::proxies::{ProxyHeader, TrustedProxies};
use crate::traces::parent::trace_parent;

const PAGE: &str = "text/html";

/// A weight is one of a thousand; a type that is asked for by name is wanted; one that is added by name is wanted wholly, whatever
/// stands before it.
pub fn accepts(bytes: &[u8]) {
    let Some(mut headers) = lines(bytes, &ACCEPT) else {
        return;
    };
    for media_type in [PAGE, "application/json", "application/pdf"] {
        let weight = wish(&headers, media_type);
        assert!(weight <= 1000);
        if let Some(named) = names(&headers, media_type) {
            assert_eq!((named, named > 0), (weight, true));
        }
    }
    let is_text = headers
        .get_all(ACCEPT)
        .iter()
        .all(|line| line.to_str().is_ok());
    let _ = prefers_page(&headers);
    headers.append(ACCEPT, HeaderValue::from_static(PAGE));
    if is_text {
        assert_eq!(names(&headers, PAGE), Some(1000));
    }
}

/// An answer that is named is known, weakly or strongly, whatever else is named; one that is neither named nor meant by a star is not.
pub fn tags(bytes: &[u8]) {
    let Some(headers) = lines(bytes, &IF_NONE_MATCH) else {
        return;
    };
    let tag = entity_tag(b"{}");
    let digest = tag.to_str().unwrap().trim_matches('"').to_owned();
    if is_current(&tag, &headers) {
        let known = known_tags(&headers);
        assert!(known.iter().any(|known| *known == digest || known == "*"));
    }
    for named in [
        format!("\"{digest}\""),
        format!("W/\"{digest}\""),
        "*".to_owned(),
    ] {
        let mut headers = headers.clone();
        headers.append(IF_NONE_MATCH, HeaderValue::try_from(named).unwrap());
        assert!(is_current(&tag, &headers));
    }
}

/// A key, an id of a file and a trace are read in one spelling, which is written again. Two idempotency keys are never taken for one.
pub fn keys(bytes: &[u8]) {
    if let Some(text) = crate::text(bytes) {
        for (read, other) in [
            (
                ApiKeySecret::parse(text),
                ApiKeySecret::parse_operators(text),
            ),
            (
                ApiKeySecret::parse_operators(text),
                ApiKeySecret::parse(text),
            ),
        ] {
            if let Some(key) = read {
                assert_eq!(key.reveal(), text);
                assert!(other.is_none() && text.ends_with(&key.hint()));
            }
        }
        if let Some(file) = FileId::named(&PartnerId::from_bytes([1; 16]), text) {
            let written = format!("sha256:{}", hex::encode(file.digest()));
            assert!(written.eq_ignore_ascii_case(text));
        }
    }
    let name = HeaderName::from_static("traceparent");
    if let Some(parent) = lines(bytes, &name).as_ref().and_then(trace_parent) {
        let written = format!(
            "00-{}-{}-0{}",
            hex::encode(parent.trace_id),
            hex::encode(parent.span_id),
            u8::from(parent.is_sampled)
        );
        assert_eq!(
            lines(written.as_bytes(), &name)
                .as_ref()
                .and_then(trace_parent),
            Some(parent)
        );
        assert!(parent.trace_id != [0; 16] && parent.span_id != [0; 8]);
    }
    if let Some(headers) = lines(bytes, &HeaderName::from_static("idempotency-key")) {
        let key = idempotency_key(&headers).expect("a header that was sent is read");
        if key.bytes().all(|byte| byte.is_ascii_graphic()) {
            assert_eq!(key.as_bytes(), bytes);
        }
    }
}

/// A peer that is not a trusted proxy is the client itself. What a client sends before the hop that a trusted proxy appends changes nothing.
pub fn forwarded(bytes: &[u8]) {
    let client = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
    let proxy = SocketAddr::from(([127, 0, 0, 1], 4711));
    let stranger = SocketAddr::from(([198, 51, 100, 1], 4711));
    for (header, name, hop) in [
        (ProxyHeader::XForwardedFor, "x-forwarded-for", "203.0.113.9"),
        (
            ProxyHeader::Forwarded,
            "forwarded",
            "for=203.0.113.9;proto=https",
        ),
    ] {
        let trusted = TrustedProxies::new(&["127.0.0.0/8".to_owned()], header).unwrap();
        let name = HeaderName::from_static(name);
        let Some(mut headers) = lines(bytes, &name) else {
            return;
        };
        assert_eq!(trusted.client(stranger, &headers), stranger);
        let found = trusted.client(proxy, &headers);
        assert!(found == proxy || found.port() == 0);
        // A proxy appends a line, or to the last line.
        let last = headers.get_all(&name).iter().next_back().cloned();
        let appended = last.map_or(hop.into(), |last| {
            [last.as_bytes(), b", ", hop.as_bytes()].concat()
        });
        let appended =
            HeaderMap::from_iter([(name.clone(), HeaderValue::from_bytes(&appended).unwrap())]);
        headers.append(&name, HeaderValue::from_static(hop));
        assert_eq!(trusted.client(proxy, &headers).ip(), client);
        if appended[&name].to_str().is_ok() {
            assert_eq!(trusted.client(proxy, &appended).ip(), client);
        }
    }
}

/// An address that is taken is the same when it is read again, and may be connected to. Nothing in it is left out when it is
/// sent, and each `%` in it begins an escape. What the public rules take, those for development take too.
pub fn addresses(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    let (public, dev) = (AddressRules::public(), AddressRules::dev());
    let at_home = dev.check_url(text);
    let Ok(url) = public.check_url(text) else {
        return;
    };
    assert_eq!(at_home.ok().as_ref(), Some(&url));
    assert_eq!(public.check_url(url.as_str()).ok().as_ref(), Some(&url));
    assert!(public.check_parsed(&url).is_ok());
    assert_eq!(
        (url.scheme(), url.username(), url.password(), url.fragment()),
        ("https", "", None, None)
    );
    assert!(url.port() != Some(0) && url.as_str().is_ascii());
    for escape in url.as_str().split('%').skip(1) {
        let digits = escape.bytes().take(2).filter(u8::is_ascii_hexdigit);
        assert_eq!(digits.count(), 2, "{url}");
    }
    let host = url.host_str().unwrap_or_default();
    if let Ok(ip) = host.trim_matches(['[', ']']).parse() {
        assert!(public.check_ip(ip).is_ok(), "{url}");
    }
}

/// The lines of the bytes as values of a header; `None` if they cannot be.
fn lines(bytes: &[u8], name: &HeaderName) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(100) {
        headers.append(name, HeaderValue::from_bytes(line).ok()?);
    }
    Some(headers)
}
