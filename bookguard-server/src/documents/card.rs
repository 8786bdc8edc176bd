//! The MCP server card, and the AI catalog that points to it: what an agent reads before it connects.
//!
//! The card follows the Server Card extension (SEP-2127, `io.modelcontextprotocol/server-card`, schema version 1). Its "Server
//! Card Location" reserves `<streamable-http-url>/server-card`; the two paths under `/.well-known/` come from earlier drafts
//! and are still requested by clients. The catalog follows the AI Catalog specification 1.0, conformance level 2. Invariant:
//! every path serves the same bytes.

use bookguard_core::version::VERSION;
use serde_json::{Value, json};
use url::{Host, Url};

use super::document::ServedDocument;
use super::links::{AI_CATALOG_TYPE, CARD_TYPE, link};
use crate::mcp;
use crate::media;

/// The paths of the card, the reserved one first.
pub(super) const PATHS: [&str; 3] = [
    "/mcp/server-card",
    "/.well-known/mcp.json",
    "/.well-known/mcp/server-card.json",
];
/// The path of the catalog.
pub(super) const CATALOG_PATH: &str = "/.well-known/ai-catalog.json";
/// The card's schema (schema.ts, `ServerCard.$schema`).
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";
/// The version of the AI Catalog specification.
const CATALOG_VERSION: &str = "1.0";
/// At most 100 characters (schema.ts, `ServerCard.description`).
const DESCRIPTION: &str =
    "Record bookings, lock them into a tamper-evident ledger, evaluate policies and take evidence.";
/// The longest publisher name; a longer one leaves no room for ours (schema.ts, `ServerCard.name`: 200 characters).
const PUBLISHER_CHARS: usize = 180;

/// The card of the server at this public address.
pub(super) fn card(base: &str) -> ServedDocument {
    let card = json!({
        "$schema": SCHEMA,
        "name": format!("{}/{}", reversed(&publisher(base)), mcp::NAME),
        "title": mcp::TITLE,
        "version": VERSION,
        "description": DESCRIPTION,
        "websiteUrl": format!("{base}/"),
        "icons": [{"src": format!("{base}/favicon.ico"), "mimeType": media::SVG, "sizes": ["any"]}],
        "remotes": [{
            "type": "streamable-http",
            "url": format!("{base}{}", mcp::PATH),
            "headers": [{
                "name": "x-api-key",
                "description": "An API key of the partner to act for; its scopes say what it may do.",
                "isRequired": true,
                "isSecret": true,
            }],
            "supportedProtocolVersions": mcp::PROTOCOL_VERSIONS,
        }],
    });
    shared(CARD_TYPE, &card)
}

/// The catalog, with the card as its one entry.
pub(super) fn catalog(base: &str) -> ServedDocument {
    let publisher = publisher(base);
    let catalog = json!({
        "specVersion": CATALOG_VERSION,
        "host": {"displayName": "Bookguard", "identifier": publisher, "documentationUrl": link("docs").under(base)},
        "entries": [{
            "identifier": format!("urn:air:{publisher}:mcp:{}", mcp::NAME),
            "displayName": mcp::TITLE,
            "type": CARD_TYPE,
            "url": format!("{base}{}", PATHS[0]),
        }],
    });
    shared(AI_CATALOG_TYPE, &catalog)
}

fn shared(content_type: &'static str, document: &Value) -> ServedDocument {
    ServedDocument::new(content_type, format!("{document:#}\n")).for_every_origin()
}

/// The domain of the operator. An address without a usable domain is a machine's own and counts as `localhost`.
fn publisher(base: &str) -> String {
    let url = Url::parse(base).ok();
    let domain = match url.as_ref().and_then(Url::host) {
        Some(Host::Domain(domain)) => domain.trim_end_matches('.'),
        _ => "",
    };
    let sane = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let usable = !domain.is_empty() && domain.len() <= PUBLISHER_CHARS && domain.chars().all(sane);
    if usable { domain } else { "localhost" }.to_owned()
}

fn reversed(domain: &str) -> String {
    domain.rsplit('.').collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &ServedDocument) -> Value {
        serde_json::from_str(document.text()).unwrap()
    }

    #[test]
    fn the_card_is_named_after_the_public_address() {
        #[rustfmt::skip]
        let cases = [
            ("https://bookings.example.com", "com.example.bookings/bookguard", "urn:air:bookings.example.com:mcp:bookguard"),
            (
                "https://Bookings.Example.com:8443/base",
                "com.example.bookings/bookguard",
                "urn:air:bookings.example.com:mcp:bookguard",
            ),
            ("https://b\u{fc}cher.example", "example.xn--bcher-kva/bookguard", "urn:air:xn--bcher-kva.example:mcp:bookguard"),
            ("http://localhost:8080", "localhost/bookguard", "urn:air:localhost:mcp:bookguard"),
            ("http://127.0.0.1:8080", "localhost/bookguard", "urn:air:localhost:mcp:bookguard"),
            ("http://[::1]:8080", "localhost/bookguard", "urn:air:localhost:mcp:bookguard"),
            ("http://a_b.example", "localhost/bookguard", "urn:air:localhost:mcp:bookguard"),
        ];
        for (base, name, urn) in cases {
            assert_eq!(read(&card(base))["name"], name, "{base}");
            assert_eq!(
                read(&catalog(base))["entries"][0]["identifier"],
                urn,
                "{base}"
            );
        }
    }

    #[test]
    fn the_card_says_where_to_connect_and_with_what() {
        let card = read(&card("https://b.example/base"));
        let remote = &card["remotes"][0];
        assert_eq!(remote["url"], "https://b.example/base/mcp");
        assert_eq!(remote["headers"][0]["name"], "x-api-key");
        assert_eq!(remote["headers"][0]["isSecret"], true);
        let described = card["description"].as_str().unwrap().chars().count();
        assert!((1..=100).contains(&described), "{described}");
        let catalog = read(&catalog("https://b.example/base"));
        assert_eq!(
            catalog["entries"][0]["url"],
            "https://b.example/base/mcp/server-card"
        );
    }
}
