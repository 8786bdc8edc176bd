//! The start page, the pages for language models, the reference, and the documents under `/.well-known/`.

use std::collections::HashSet;

use bookguard_server::config::security::SecurityTxt;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::raw::exchange;
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use serde_json::Value;

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const CARD: &str = "application/mcp-server-card+json";
const PUBLIC: &str = "https://bookings.example.com/base";

/// Every such path that is always served, with its media type.
const DOCUMENTS: [(&str, &str); 17] = [
    ("/", "application/json"),
    ("/start.css", "text/css; charset=utf-8"),
    ("/favicon.ico", "image/svg+xml"),
    ("/docs", HTML),
    ("/docs/reference.js", "text/javascript; charset=utf-8"),
    ("/docs/swagger-ui.css", "text/css; charset=utf-8"),
    (
        "/docs/swagger-ui-bundle.js",
        "text/javascript; charset=utf-8",
    ),
    ("/openapi.json", "application/json"),
    ("/api/openapi.json", "application/json"),
    ("/policy.schema.json", "application/schema+json"),
    ("/llms.txt", TEXT),
    ("/llms-full.txt", TEXT),
    ("/mcp/server-card", CARD),
    ("/.well-known/mcp.json", CARD),
    ("/.well-known/mcp/server-card.json", CARD),
    (
        "/.well-known/ai-catalog.json",
        "application/ai-catalog+json",
    ),
    (
        "/.well-known/api-catalog",
        "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"",
    ),
];

/// Starts a server whose public address differs from the one it listens on.
async fn published(engine: Engine, base: &str, security: bool) -> TestServer {
    let said = SecurityTxt {
        contacts: vec!["mailto:security@example.com".to_owned()],
        policy: None,
        encryption: None,
        languages: vec!["en".to_owned()],
    };
    TestServer::with(engine, |config| bookguard_server::config::Config {
        public_url: Some(base.to_owned()),
        security: security.then_some(said),
        ..config
    })
    .await
}

async fn asked(caller: &Caller, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut request = caller.request(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    caller.send(request).await
}

#[tokio::test]
async fn every_document_has_its_type_its_tag_and_a_policy_that_lets_nothing_in() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let caller = server.caller();
        for (path, media_type) in DOCUMENTS {
            let first = caller.get(path).await;
            first.headed(200, "content-type", media_type);
            let policy = first.header("content-security-policy").unwrap();
            let is_strict = policy.starts_with("default-src 'self';");
            assert!(is_strict, "{path}: {policy}");
            assert!(!policy.contains("unsafe"), "{path}: {policy}");
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
            ] {
                assert_eq!(first.header(name), Some(value), "{path}");
            }
            let etag = first.header("etag").unwrap();
            for (method, tag, status, length) in [
                ("GET", etag, 304, 0),
                ("HEAD", etag, 304, 0),
                ("HEAD", "\"other\"", 200, 0),
                ("GET", "\"other\"", 200, first.body.len()),
            ] {
                let again = asked(&caller, method, path, &[("if-none-match", tag)]).await;
                assert_eq!(
                    (again.status, again.body.len()),
                    (status, length),
                    "{method} {path}"
                );
                assert_eq!(again.header("etag"), Some(etag), "{method} {path}");
                assert_eq!(again.header("cache-control"), first.header("cache-control"));
            }
            let wrong = caller.post_nothing(path).await;
            wrong.refused(405, "method_not_allowed");
        }
    })
    .await;
}

#[tokio::test]
async fn people_get_a_page_at_the_root_and_programs_json() {
    on_every_engine(async |engine| {
        let server = published(engine, PUBLIC, false).await;
        let caller = server.caller();
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let page = asked(&caller, "GET", "/", &[("accept", browser)]).await;
        let json = caller.get("/").await;
        page.headed(200, "content-type", HTML);
        assert_ne!(page.header("etag"), json.header("etag"));
        for reply in [&page, &json] {
            assert_eq!(reply.header("vary"), Some("accept"));
            let links = reply.header("link").unwrap();
            for (path, relation) in [
                ("/openapi.json", "service-desc"),
                ("/docs", "service-doc"),
                ("/llms.txt", "describedby"),
                ("/.well-known/api-catalog", "api-catalog"),
                ("/.well-known/ai-catalog.json", "ai-catalog"),
                ("/v1/health", "status"),
            ] {
                let is_linked = links.contains(&format!("<{PUBLIC}{path}>; rel=\"{relation}\""));
                assert!(is_linked, "{links}");
            }
        }
        // The page and the JSON at the same path have different tags.
        let tag = page.header("etag").unwrap();
        let other = asked(&caller, "GET", "/", &[("if-none-match", tag)]).await;
        assert_eq!(other.status, 200);
        let headers = [("accept", browser), ("if-none-match", tag)];
        let same = asked(&caller, "GET", "/", &headers).await;
        same.headed(304, "vary", "accept");

        let index = json.json();
        assert_eq!(index["name"], "Bookguard");
        assert_eq!(index["links"]["mcp"], format!("{PUBLIC}/mcp"));
        let page = page.text();
        for (_, address) in index["links"].as_object().unwrap() {
            let path = address.as_str().unwrap().strip_prefix(PUBLIC).unwrap();
            if path == "/mcp" {
                continue;
            }
            // The console leads whoever is not signed in to the page on which they can.
            let status = if path == "/console" { 303 } else { 200 };
            assert_eq!(caller.get(path).await.status, status, "{path}");
            assert!(page.contains(&format!("href=\"{}\"", &path[1..])), "{path}");
        }
        for place in ["/?a=b", "/?"] {
            assert_eq!(caller.get(place).await.status, 200, "{place}");
        }
    })
    .await;
}

#[tokio::test]
async fn whatever_the_accept_header_holds_there_is_an_answer() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let long = format!("text/html;q=0.1,{}", "a/b;q=0.001,".repeat(1_000));
        for (accept, page) in [
            (&b""[..], false),
            (b"\xff\xfe", false),
            (b"text/html\xff", false),
            (b"text/html", true),
            (b",,,;;;===", false),
            (b"*/*;q=9999999999999999999999999999999999", false),
            (b"text/html;q=1e308, application/json;q=1e-308", true),
            (b"text/html;;;;q=0.5;q=0", true),
            (b"TEXT/*", true),
            (b"text/html;q=0", false),
            (b"image/svg+xml", false),
            (long.as_bytes(), true),
        ] {
            let head = &b"GET / HTTP/1.1\r\nhost: x\r\naccept: "[..];
            let asked = [head, accept, b"\r\n\r\n"].concat();
            let reply = exchange(server.running().addr(), asked).await;
            let wanted = if page { HTML } else { "application/json" };
            reply.headed(200, "content-type", wanted);
        }
    })
    .await;
}

#[tokio::test]
async fn what_names_addresses_names_them_under_the_public_one() {
    on_every_engine(async |engine| {
        for (base, base_path) in [(PUBLIC, "/base"), ("http://127.0.0.1:9", "")] {
            let server = published(engine, base, true).await;
            let caller = server.caller();
            let own = server.running().url();
            let paths = "/ /llms.txt /llms-full.txt /.well-known/mcp.json /.well-known/ai-catalog.json /.well-known/api-catalog";
            for path in paths.split(' ') {
                let text = caller.get(path).await.text();
                assert!(text.contains(&format!("{base}/")), "{path}");
                let is_public = !text.contains(&own) && !text.contains(&format!("{base}//"));
                assert!(is_public, "{path}");
            }
            let llms = caller.get("/llms.txt").await.text();
            for link in llms.split("](").skip(1) {
                let address = link.split(')').next().unwrap();
                let path = address.strip_prefix(base).unwrap();
                assert_eq!(caller.get(path).await.status, 200, "{address}");
            }
            for path in ["/openapi.json", "/api/openapi.json"] {
                let described = caller.get(path).await.ok(200);
                let own = if base_path.is_empty() { "/" } else { base_path };
                assert_eq!(described["servers"][0]["url"], own, "{path}");
            }
            let acme = server.partner("Acme").await;
            let made = acme.post("/v1/bookings", &samples::booking()).await;
            let expected = format!("{base_path}/v1/bookings/{}", made.string("bookingId"));
            assert_eq!(made.header("location"), Some(expected.as_str()));
        }
    })
    .await;
}

#[tokio::test]
async fn the_card_is_the_same_in_every_place_and_every_page_may_read_it() {
    on_every_engine(async |engine| {
        let server = published(engine, PUBLIC, false).await;
        let caller = server.caller();
        let mut cards = HashSet::new();
        for (path, media_type) in DOCUMENTS
            .iter()
            .filter(|(_, t)| t.contains("card") || t.contains("ai-catalog"))
        {
            for method in ["GET", "HEAD", "OPTIONS"] {
                let headers = [
                    ("origin", "https://elsewhere.example"),
                    ("access-control-request-method", "GET"),
                ];
                let reply = asked(&caller, method, path, &headers).await;
                assert_eq!(
                    reply.status,
                    if method == "OPTIONS" { 204 } else { 200 },
                    "{method} {path}"
                );
                for (name, value) in [
                    ("access-control-allow-origin", "*"),
                    ("access-control-allow-methods", "GET"),
                    ("access-control-allow-headers", "Content-Type"),
                ] {
                    assert_eq!(reply.header(name), Some(value), "{method} {path}");
                }
                assert!(reply.header("access-control-allow-credentials").is_none());
            }
            let reply = caller.get(path).await;
            assert_eq!(
                reply.header("cache-control"),
                Some("public, max-age=3600"),
                "{path}"
            );
            if *media_type == CARD {
                cards.insert(reply.body);
            }
        }
        assert_eq!(cards.len(), 1);
        let card: Value = serde_json::from_slice(cards.iter().next().unwrap()).unwrap();
        assert_eq!(card["name"], "com.example.bookings/bookguard");
        assert_eq!(card["remotes"][0]["url"], format!("{PUBLIC}/mcp"));
        // All other paths are closed to pages of other sites.
        for path in ["/", "/openapi.json", "/docs", "/v1/health"] {
            let origin = [("origin", "https://elsewhere.example")];
            let reply = asked(&caller, "GET", path, &origin).await;
            let allowed = reply.header("access-control-allow-origin");
            assert_eq!(allowed, None, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn security_txt_says_what_is_configured_and_expires_in_half_a_year() {
    on_every_engine(async |engine| {
        let server = published(engine, PUBLIC, true).await;
        let caller = server.caller();
        let path = "/.well-known/security.txt";
        let first = caller.get(path).await;
        first.headed(200, "content-type", TEXT);
        assert_eq!(
            first.text(),
            "Contact: mailto:security@example.com\nExpires: 2027-03-20T00:00:00.000Z\nPreferred-Languages: en\n\
             Canonical: https://bookings.example.com/base/.well-known/security.txt\n"
        );
        let tag = first.header("etag").unwrap();
        assert_eq!(asked(&caller, "GET", path, &[("if-none-match", tag)]).await.status, 304);
        server.advance(24 * 60 * 60 * 1000);
        let later = asked(&caller, "GET", path, &[("if-none-match", tag)]).await;
        assert_eq!(later.status, 200);
        later.says(&["\nExpires: 2027-03-21T00:00:00.000Z\n"]);
        assert!(caller.get("/").await.json()["links"]["security"].is_string());
    })
    .await;
}
