//! Verdicts as tables, and the properties that tie the spellings of one address together.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn allowing(subnets: &[&str]) -> AddressRules {
    AddressRules {
        allow_http: false,
        allowed: subnets
            .iter()
            .map(|subnet| subnet.parse().unwrap())
            .collect(),
    }
}

fn code(result: Result<impl Sized, RefusedAddress>) -> &'static str {
    result.err().map_or("ok", |refused| refused.code)
}

#[rustfmt::skip]
const DENIED: &[&str] = &[
    "127.0.0.1", "127.255.255.255", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1",
    "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.0.9", "192.0.2.1", "192.88.99.1",
    "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "240.0.0.1", "255.255.255.254",
    "::1", "64:ff9b:1::8.8.8.8", "100::1", "100:0:0:1::1", "2001:1::1", "2001:2::1", "2001:10::1",
    "2001:20::1", "2001:db8::1", "3fff::1", "3fff:fff::1", "5f00::1", "fc00::1", "fd12:3456::1",
    "fec0::1", "1::1", "4000::1", "fe00::1",
];

#[rustfmt::skip]
const NEVER: &[&str] = &[
    "0.0.0.0", "0.1.2.3", "169.254.0.1", "169.254.169.254", "100.100.100.200", "168.63.129.16",
    "192.0.0.192", "224.0.0.1", "239.255.255.255", "255.255.255.255", "::", "fe80::1", "febf::1",
    "ff02::1", "ffff::1", "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254",
    "::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254", "2002:a9fe:a9fe::1", "2001:0:808:808::5601:5601",
    "2001:0:a9fe:a9fe::f7f7:f7f7",
];

#[rustfmt::skip]
const OPEN: &[&str] = &[
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0",
    "192.31.196.1", "192.52.193.1", "192.167.255.255", "198.17.255.255", "198.20.0.0",
    "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888", "2a00::1", "2620:4f:8000::1",
    "3ffe::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7",
];

#[test]
fn public_addresses_are_open_and_all_others_are_not() {
    let public = AddressRules::public();
    for ip in OPEN {
        assert_eq!(public.check_ip(ip.parse().unwrap()), Ok(()), "{ip}");
    }
    for ip in DENIED.iter().chain(NEVER) {
        assert_eq!(
            code(public.check_ip(ip.parse().unwrap())),
            "blocked_address",
            "{ip}"
        );
    }
}

#[test]
fn the_operator_can_allow_what_is_denied_and_never_what_is_never() {
    let everything = allowing(&["0.0.0.0/0", "::/0"]);
    for ip in DENIED.iter().chain(OPEN) {
        assert_eq!(everything.check_ip(ip.parse().unwrap()), Ok(()), "{ip}");
    }
    for ip in NEVER {
        assert_eq!(
            code(everything.check_ip(ip.parse().unwrap())),
            "blocked_address",
            "{ip}"
        );
    }
}

#[test]
fn an_allowed_subnet_opens_itself_in_every_form_and_nothing_else() {
    let rules = allowing(&["10.1.0.0/16", "fd00:1::/32"]);
    for (ip, expected) in [
        ("10.1.2.3", "ok"),
        ("::ffff:10.1.2.3", "ok"),
        ("64:ff9b::10.1.2.3", "ok"),
        ("2002:a01:203::1", "ok"),
        ("10.2.0.1", "blocked_address"),
        ("::ffff:10.2.0.1", "blocked_address"),
        ("fd00:1::9", "ok"),
        ("fd00:2::9", "blocked_address"),
        ("127.0.0.1", "blocked_address"),
        ("64:ff9b:1::10.1.2.3", "blocked_address"),
    ] {
        assert_eq!(code(rules.check_ip(ip.parse().unwrap())), expected, "{ip}");
    }
    let local_nat64 = allowing(&["64:ff9b:1::/48"]);
    assert_eq!(
        code(local_nat64.check_ip("64:ff9b:1::8.8.8.8".parse().unwrap())),
        "ok"
    );
    assert_eq!(
        code(local_nat64.check_ip("64:ff9b:1::10.1.2.3".parse().unwrap())),
        "blocked_address"
    );
}

#[test]
fn urls_are_judged_by_their_parts() {
    let long = format!("https://example.com/{}", "a".repeat(2048));
    let grows = format!("https://example.com/{}", "é".repeat(700));
    let table: &[(&str, &str)] = &[
        ("https://example.com/hook?x=1", "ok"),
        ("https://example.com:8443", "ok"),
        ("https://bücher.example/", "ok"),
        ("https://8.8.8.8/", "ok"),
        ("https://[2606:4700::1111]/", "ok"),
        ("https://localhost.example.com/", "ok"),
        ("https://notlocalhost/", "ok"),
        ("https://example.com./", "ok"),
        ("", "invalid_url"),
        ("example.com", "invalid_url"),
        ("/hook", "invalid_url"),
        ("http://example.com/", "invalid_url"),
        ("ftp://example.com/", "invalid_url"),
        ("file:///etc/passwd", "invalid_url"),
        ("javascript:alert(1)", "invalid_url"),
        ("https://", "invalid_url"),
        ("https://./", "invalid_url"),
        ("https://a..b/", "invalid_url"),
        ("https://.example.com/", "invalid_url"),
        ("https://example.com../", "invalid_url"),
        ("https://a。。b/", "invalid_url"),
        ("https://user@example.com/", "invalid_url"),
        ("https://user:pass@example.com/", "invalid_url"),
        ("https://:pass@example.com/", "invalid_url"),
        ("https://example.com/#top", "invalid_url"),
        ("https://example.com/#", "invalid_url"),
        ("https://example.com:0/", "invalid_url"),
        ("https://example.com:65536/", "invalid_url"),
        (" https://example.com/", "invalid_url"),
        ("https://exam\tple.com/", "invalid_url"),
        ("https://example.com/\r\nhost:x", "invalid_url"),
        ("https://example.com/\u{2028}", "invalid_url"),
        ("https://999.1.1.1/", "invalid_url"),
        ("https://[fe80::1%25eth0]/", "invalid_url"),
        (&long, "invalid_url"),
        (&grows, "invalid_url"),
    ];
    for (url, expected) in table {
        assert_eq!(
            code(AddressRules::public().check_url(url)),
            *expected,
            "{url}"
        );
    }
}

#[test]
fn an_address_is_recognized_in_every_spelling() {
    #[rustfmt::skip]
    let cases = [
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
        "017700000001", "127.0.0.1.", "%31%32%37.0.0.1", "１２７.0.0.1", "[::1]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[0:0:0:0:0:0:0:1]",
        "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost", "LOCALHOST", "localhost.",
        "localhost..", "a.b.localhost", "ｌocalhost", "0", "169.254.169.254", "2852039166",
        "0xa9fea9fe",
    ];
    for host in cases {
        for url in [
            format!("https://{host}/"),
            format!("https://{host}:8443/x"),
            format!("https:\\\\{host}"),
        ] {
            assert_eq!(
                code(AddressRules::public().check_url(&url)),
                "blocked_address",
                "{url}"
            );
        }
    }
}

#[test]
fn dev_opens_this_machine_and_http_and_nothing_else() {
    let dev = AddressRules::dev();
    for url in [
        "http://127.0.0.1:8080/",
        "http://[::1]:8080/",
        "http://localhost:1/",
        "https://x.localhost/",
        "http://a.example/",
    ] {
        assert_eq!(code(dev.check_url(url)), "ok", "{url}");
    }
    for url in [
        "http://10.0.0.1/",
        "http://169.254.169.254/",
        "http://0.0.0.0:8080/",
        "http://[::]/",
    ] {
        assert_eq!(code(dev.check_url(url)), "blocked_address", "{url}");
    }
}

#[test]
fn one_bad_address_of_an_answer_refuses_all_and_is_not_shown() {
    let ips = ["8.8.8.8", "10.1.2.3"].map(|ip| ip.parse().unwrap());
    let refused = AddressRules::public()
        .check_resolved("hook.example", ips)
        .unwrap_err();
    assert_eq!(refused.code(), "blocked_address");
    assert!(
        refused
            .message()
            .contains("`hook.example` resolves to a private address"),
        "{refused}"
    );
    assert!(!refused.message().contains("10.1.2.3"), "{refused}");
    assert_eq!(
        AddressRules::public().check_resolved("hook.example", ips[..1].to_vec()),
        Ok(())
    );
}

#[test]
fn a_refusal_says_what_was_refused_and_which_setting_would_allow_it() {
    #[rustfmt::skip]
    let cases = [
        ("http://example.com/", "https addresses only", "`--dev`"),
        ("https://localhost/", "`localhost` is this machine", "`--dev`"),
        ("https://127.0.0.1/", "127.0.0.1 is a loopback address", "`webhook_allow_subnets`"),
        ("https://[::1]/", "::1 is the loopback address", "`--dev`"),
        ("https://10.9.8.7/", "10.9.8.7 is a private address", "10.0.0.0/8, or a part of it, in `webhook_allow_subnets`"),
        ("https://[::ffff:10.9.8.7]/", "::ffff:10.9.8.7 is a private address", "10.0.0.0/8, or a part"),
        ("https://169.254.169.254/", "169.254.169.254 is a link-local address", "no setting allows it"),
    ];
    for (url, what, setting) in cases {
        let refused = AddressRules::public()
            .check_url(url)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(what) && refused.contains(setting),
            "{refused}"
        );
    }
}

/// Any IPv4 address; special ones as often as others.
fn any_v4() -> impl Strategy<Value = Ipv4Addr> {
    let special = prop::sample::select(&table::V4[..table::V4.len() - 1]);
    prop_oneof![
        any::<u32>().prop_map(Ipv4Addr::from_bits),
        (special, any::<u32>()).prop_map(|(range, noise)| {
            let (IpAddr::V4(first), IpAddr::V4(last)) =
                (range.subnet.net().network(), range.subnet.net().broadcast())
            else {
                unreachable!("the IPv4 table holds IPv4 ranges")
            };
            Ipv4Addr::from_bits(first.to_bits() | (noise & (first.to_bits() ^ last.to_bits())))
        }),
    ]
}

fn any_rules() -> impl Strategy<Value = AddressRules> {
    prop::sample::select(vec![
        AddressRules::public(),
        AddressRules::dev(),
        allowing(&["10.0.0.0/8", "192.168.0.0/17"]),
        allowing(&["0.0.0.0/0"]),
    ])
}

proptest! {
    #[test]
    fn every_form_of_an_ipv4_address_has_its_verdict(rules in any_rules(), ip in any_v4(), noise: u64) {
        let verdict = code(rules.check_ip(ip.into()));
        let v4 = u128::from(ip.to_bits());
        let inverted = u128::from(!ip.to_bits());
        let noise = u128::from(noise);
        let forms = [
            ("mapped", 0xffff << 32 | v4),
            ("translated", 0xffff << 48 | v4),
            ("NAT64", 0x64_ff9b << 96 | v4),
            ("6to4", 0x2002 << 112 | v4 << 80 | noise),
            ("Teredo client", 0x2001_0000 << 96 | 0x0808_0808 << 64 | inverted),
            ("Teredo server", 0x2001_0000 << 96 | v4 << 64 | (noise >> 32) << 32 | 0xf7f7_f7f7),
        ];
        for (name, bits) in forms {
            prop_assert_eq!(code(rules.check_ip(Ipv6Addr::from_bits(bits).into())), verdict, "{}", name);
        }
        // `::` and `::1` have rows of their own.
        if v4 > 1 {
            prop_assert_eq!(code(rules.check_ip(Ipv6Addr::from_bits(v4).into())), verdict, "compatible");
        }
    }

    #[test]
    fn a_literal_in_a_url_has_the_verdict_of_the_address(rules in any_rules(), ip in any_v4(), bits: u128) {
        let number = ip.to_bits();
        let verdict = code(rules.check_ip(ip.into()));
        for host in [format!("{ip}"), format!("{number}"), format!("{number:#x}"), format!("0{number:o}"), format!("[::ffff:{ip}]")] {
            let found = code(rules.check_url(&format!("https://{host}/")));
            prop_assert_eq!(found, verdict, "{}", host);
        }
        let v6 = Ipv6Addr::from_bits(bits);
        prop_assert_eq!(code(rules.check_url(&format!("https://[{v6}]/"))), code(rules.check_ip(v6.into())), "{}", v6);
    }

    #[test]
    fn allowing_more_never_closes_what_was_open(ip in any_v4(), v6: u128, rules in any_rules()) {
        for ip in [IpAddr::from(ip), Ipv6Addr::from_bits(v6).into()] {
            if AddressRules::public().check_ip(ip).is_ok() {
                prop_assert_eq!(rules.check_ip(ip), Ok(()));
            }
        }
    }

    #[test]
    fn no_text_panics_and_what_passes_is_https(text in "(https?://)?[^/]{0,40}(/.*)?", subnet in ".*") {
        if let Ok(url) = AddressRules::public().check_url(&text) {
            prop_assert_eq!(url.scheme(), "https");
        }
        let _ = subnet.parse::<Subnet>();
    }

    #[test]
    fn what_is_stored_is_a_uri(rest in "/[ -~]{0,30}", more in "[^#]{0,20}") {
        if let Ok(url) = AddressRules::public().check_url(&format!("https://example.com{rest}{more}")) {
            prop_assert!(fluent_uri::Uri::parse(url.as_str()).is_ok(), "{}", url);
            prop_assert_eq!(AddressRules::public().check_url(url.as_str()), Ok(url));
        }
    }
}

#[test]
fn an_address_is_stored_in_the_spelling_of_rfc_3986() {
    #[rustfmt::skip]
    let cases = [
        ("https://example.com/?{", "https://example.com/?%7B"),
        ("https://example.com/a|b?x[]={y}&z=^`\\", "https://example.com/a%7Cb?x%5B%5D=%7By%7D&z=%5E%60%5C"),
        ("https://example.com/%7b?a=%5B", "https://example.com/%7b?a=%5B"),
        ("https://example.com/?", "https://example.com/?"),
        ("https://example.com/100%/%e9%%41?%U=%F1%4&%", "https://example.com/100%25/%e9%25%41?%25U=%F1%254&%25"),
    ];
    for (typed, stored) in cases {
        let url = AddressRules::default().check_url(typed).unwrap();
        assert_eq!(url.as_str(), stored);
    }
}
