//! The client's address: a table of what proxies and clients send.

use poem::http::HeaderValue;

use super::*;

const TRUSTED: [&str; 4] = ["10.0.0.0/8", "192.0.2.7", "fd00::/8", "127.0.0.1"];
const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "203.0.113.9";

fn proxies(header: &str) -> TrustedProxies {
    let known = |(word, _): &(&str, ProxyHeader)| *word == header;
    let (_, header) = ProxyHeader::WORDS.into_iter().find(known).unwrap();
    TrustedProxies::new(&TRUSTED.map(str::to_owned), header).unwrap()
}

fn client(header: &str, peer: &str, lines: &[&[u8]]) -> String {
    let mut headers = HeaderMap::new();
    for line in lines {
        let name: HeaderName = header.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(line).unwrap());
    }
    let peer = SocketAddr::new(peer.parse().unwrap(), 4711);
    proxies(header).client(peer, &headers).ip().to_string()
}

#[test]
fn x_forwarded_for() {
    let long = format!("203.0.113.5{}", ", 10.0.0.9".repeat(31));
    let longer = format!("203.0.113.5{}", ", 10.0.0.9".repeat(32));
    let cases: &[(&str, &[&str], &str)] = &[
        // A peer that is not trusted keeps its address, whatever it sends.
        (STRANGER, &["198.51.100.1"], STRANGER),
        (STRANGER, &["198.51.100.1, 10.0.0.2"], STRANGER),
        (STRANGER, &["127.0.0.1"], STRANGER),
        ("192.0.2.8", &["198.51.100.1"], "192.0.2.8"),
        ("2001:db8::5", &["198.51.100.1"], "2001:db8::5"),
        // A trusted peer names its client.
        (PROXY, &["203.0.113.5"], "203.0.113.5"),
        ("192.0.2.7", &["203.0.113.5"], "203.0.113.5"),
        ("::ffff:10.0.0.1", &["203.0.113.5"], "203.0.113.5"),
        ("fd00::1", &["203.0.113.5"], "203.0.113.5"),
        (PROXY, &["  203.0.113.5\t"], "203.0.113.5"),
        (PROXY, &["203.0.113.5:51234"], "203.0.113.5"),
        (PROXY, &["2001:db8::1"], "2001:db8::1"),
        (PROXY, &["[2001:db8::1]"], "2001:db8::1"),
        (PROXY, &["[2001:db8::1]:443"], "2001:db8::1"),
        (PROXY, &["::ffff:203.0.113.5"], "203.0.113.5"),
        // What the client itself sent is ignored.
        (PROXY, &["198.51.100.1, 203.0.113.5"], "203.0.113.5"),
        (PROXY, &["10.0.0.2, 203.0.113.5"], "203.0.113.5"),
        (PROXY, &["nonsense, \"',;, 203.0.113.5"], "203.0.113.5"),
        (PROXY, &["198.51.100.1", "203.0.113.5"], "203.0.113.5"),
        (PROXY, &["", "203.0.113.5"], "203.0.113.5"),
        // Several trusted hops are skipped, across all header lines.
        (PROXY, &["203.0.113.5, 10.0.0.2"], "203.0.113.5"),
        (
            PROXY,
            &["203.0.113.5, 192.0.2.7, fd00::3, 10.9.9.9"],
            "203.0.113.5",
        ),
        (
            PROXY,
            &["198.51.100.1, 203.0.113.5", "10.0.0.2"],
            "203.0.113.5",
        ),
        (PROXY, &["203.0.113.5", "10.0.0.3, 10.0.0.2"], "203.0.113.5"),
        // If all hops are proxies, the first is the client.
        (PROXY, &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (PROXY, &["127.0.0.1"], "127.0.0.1"),
        // If a hop that is read is not an address, the peer's address is used.
        (PROXY, &[], PROXY),
        (PROXY, &[""], PROXY),
        (PROXY, &["203.0.113.5,"], PROXY),
        (PROXY, &["203.0.113.5, , 10.0.0.2"], PROXY),
        (PROXY, &["unknown"], PROXY),
        (PROXY, &["unix:"], PROXY),
        (PROXY, &["203.0.113"], PROXY),
        (PROXY, &["203.0.113.05"], PROXY),
        (PROXY, &["203.0.113.5:"], PROXY),
        (PROXY, &["203.0.113.5:65536"], PROXY),
        (PROXY, &["[2001:db8::1"], PROXY),
        (PROXY, &["[2001:db8::1]443"], PROXY),
        (PROXY, &["[203.0.113.5]"], PROXY),
        (PROXY, &["fe80::1%eth0"], PROXY),
        (PROXY, &["\"203.0.113.5\""], PROXY),
        (PROXY, &["203.0.113.5 10.0.0.2"], PROXY),
        (PROXY, &["for=203.0.113.5"], PROXY),
        (PROXY, &["client.example, 10.0.0.2"], PROXY),
        (PROXY, &[&long], "203.0.113.5"),
        (PROXY, &[&longer], PROXY),
    ];
    for (peer, lines, expected) in cases {
        let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let found = client("x-forwarded-for", peer, &bytes);
        assert_eq!(found, *expected, "{peer} {lines:?}");
    }
    assert_eq!(
        client("x-forwarded-for", PROXY, &[b"\xff\xfe, 203.0.113.5"]),
        PROXY,
        "a line that is not text"
    );
}

#[test]
fn forwarded() {
    for (line, expected) in [
        ("for=203.0.113.5", "203.0.113.5"),
        ("For=203.0.113.5;proto=https;by=10.0.0.1", "203.0.113.5"),
        ("proto=https; for=\"203.0.113.5:80\"", "203.0.113.5"),
        ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
        ("for=\"[2001:db8::1]\"", "2001:db8::1"),
        ("for=198.51.100.1, for=203.0.113.5", "203.0.113.5"),
        ("for=203.0.113.5, for=10.0.0.2;by=10.0.0.1", "203.0.113.5"),
        // A quote that the client left open does not swallow what the proxy appended.
        ("for=\"198.51.100.1, for=203.0.113.5", "203.0.113.5"),
        ("for=\"a\\\", for=203.0.113.5", "203.0.113.5"),
        ("for=203.0.113.5;for=198.51.100.1", PROXY),
        ("for=unknown", PROXY),
        ("for=_hidden", PROXY),
        ("for=\"203.0.113.5", PROXY),
        ("for=", PROXY),
        ("for", PROXY),
        ("by=10.0.0.1", PROXY),
        ("203.0.113.5", PROXY),
        ("", PROXY),
        ("for=203.0.113.5;x", PROXY),
    ] {
        let found = client("forwarded", PROXY, &[line.as_bytes()]);
        assert_eq!(found, expected, "{line}");
    }
    // Only the configured header counts.
    let mut headers = HeaderMap::new();
    headers.insert(FORWARDED, HeaderValue::from_static("for=203.0.113.5"));
    let peer: SocketAddr = "10.0.0.1:80".parse().unwrap();
    assert_eq!(proxies("x-forwarded-for").client(peer, &headers), peer);
}

#[test]
fn without_trusted_proxies_the_peer_counts() {
    let mut headers = HeaderMap::new();
    let name = ProxyHeader::XForwardedFor.name();
    headers.insert(name, HeaderValue::from_static("203.0.113.5"));
    let peer: SocketAddr = "127.0.0.1:80".parse().unwrap();
    assert_eq!(TrustedProxies::default().client(peer, &headers), peer);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (subnet, expected) in [
        ("10.0.0.0/33", "prefix length"),
        ("nginx", "is not a subnet"),
        ("0.0.0.0/0", "every address"),
        ("::/0", "every address"),
        ("::ffff:10.0.0.0/104", "write the IPv4 subnet"),
    ] {
        let why = TrustedProxies::new(&[subnet.to_owned()], ProxyHeader::default()).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    // Proxies may have addresses that webhooks never go to.
    let link_local = ["fe80::/10".to_owned(), "169.254.0.0/16".to_owned()];
    let proxies = TrustedProxies::new(&link_local, ProxyHeader::Forwarded).unwrap();
    assert!(proxies.trusts("fe80::1".parse().unwrap()));
}
