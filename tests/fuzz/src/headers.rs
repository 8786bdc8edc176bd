//! What the server reads before anybody is known: the formats that a client accepts, who forwarded its request, and where it wants
//! its webhooks sent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};

use crate::courier::address::AddressRules;
use crate::server::negotiation::{names, prefers_page, wish};
use crate::server::proxies::TrustedProxies;

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

/// Whoever is no trusted proxy is itself. What a client sends before the hop that a trusted proxy appends changes nothing.
pub fn forwarded(bytes: &[u8]) {
    let client = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
    let proxy = SocketAddr::from(([127, 0, 0, 1], 4711));
    let stranger = SocketAddr::from(([198, 51, 100, 1], 4711));
    for (word, name, hop) in [
        ("x-forwarded-for", "x-forwarded-for", "203.0.113.9"),
        ("forwarded", "forwarded", "for=203.0.113.9;proto=https"),
    ] {
        let trusted = TrustedProxies::parse(&["127.0.0.0/8".to_owned()], Some(word)).unwrap();
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

/// An address that is taken is the same when it is read again, has nothing that is never sent, and may be connected to. What the public
/// rules take, those for development take too.
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
