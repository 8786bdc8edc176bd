//! `/`: a page for people and the same as JSON for programs, with links to everything else.
//!
//! Invariant: a client that does not ask for a page gets JSON, whatever else it accepts, and both answers carry `Vary: Accept`.

use bookguard_core::version::VERSION;
use poem::endpoint::{BoxEndpoint, make_sync};
use poem::http::header::{ACCEPT, HeaderValue, VARY};
use poem::{EndpointExt as _, Request};
use serde_json::{Map, Value, json};

use super::SUMMARY;
use super::document::ServedDocument;
use super::links::{self, LINKS};
use crate::api::INTERFACE_VERSION;
use crate::media;
use crate::negotiation::prefers_page;
use crate::pages;

const PAGE: &str = include_str!("pages/start.html");

/// A place that only some servers have.
#[derive(Clone, Copy)]
pub(super) struct Extra {
    /// Its name in the index.
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    /// Whether people look for it before anything else.
    pub(super) is_first: bool,
}

/// Serves both forms. They are small, so they are made in advance. Of the places that only some servers have, these are there.
pub(super) fn endpoint(base: &str, extras: &[Extra]) -> BoxEndpoint<'static> {
    let forms = [page(extras), index(base, extras)].map(|document| {
        document
            .linking(links::header(base))
            .with(VARY, HeaderValue::from(ACCEPT))
    });
    make_sync(move |request: Request| {
        let [page, index] = &forms;
        let asked = request.headers();
        if prefers_page(asked) { page } else { index }.respond(asked)
    })
    .boxed()
}

fn page(extras: &[Extra]) -> ServedDocument {
    let mut items = String::new();
    let mut item = |path: &str, title: &str, note: &str| {
        let path = path.trim_start_matches('/');
        items.push_str(&format!(
            "        <li><a href=\"{path}\">{title}</a> <span>{note}</span></li>\n"
        ));
    };
    for extra in extras.iter().filter(|extra| extra.is_first) {
        item(extra.path, extra.title, extra.note);
    }
    for link in LINKS.iter() {
        item(link.path, link.title, link.note);
    }
    for extra in extras.iter().filter(|extra| !extra.is_first) {
        item(extra.path, extra.title, extra.note);
    }
    let body = PAGE
        .replace("{summary}", SUMMARY)
        .replace("{version}", VERSION)
        .replace("{interface}", INTERFACE_VERSION)
        .replace("{links}", items.trim_end());
    let page = pages::page("Bookguard", "", "start.css", &body);
    ServedDocument::new(pages::HTML, page)
}

fn index(base: &str, extras: &[Extra]) -> ServedDocument {
    let mut addresses: Map<String, Value> = LINKS
        .iter()
        .map(|link| (link.name.to_owned(), link.under(base).into()))
        .collect();
    addresses.insert(
        "mcp".to_owned(),
        format!("{base}{}", crate::mcp::PATH).into(),
    );
    for extra in extras {
        let address = format!("{base}{}", extra.path);
        addresses.insert(extra.name.to_owned(), address.into());
    }
    let index = json!({
        "name": "Bookguard",
        "description": SUMMARY,
        "version": VERSION,
        "interfaceVersion": INTERFACE_VERSION,
        "links": addresses,
    });
    ServedDocument::new(media::JSON, format!("{index:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_address_that_no_header_can_hold_stops_nobody() {
        for base in ["https://b.example/\n", "b\u{fc}cher", ""] {
            drop(endpoint(base, &[]));
            super::super::catalog::catalog(base);
            super::super::card::card(base);
        }
    }

    #[test]
    fn page_and_json_name_the_same_places() {
        let console = Extra {
            name: "console",
            path: "/console",
            title: "Console",
            note: "for people",
            is_first: true,
        };
        for extras in [&[][..], &[console]] {
            let (page, index) = (page(extras), index("https://b.example/base", extras));
            let index: Value = serde_json::from_str(index.text()).unwrap();
            for link in LINKS.iter() {
                assert!(
                    page.text()
                        .contains(&format!("href=\"{}\"", &link.path[1..])),
                    "{}",
                    link.name
                );
                assert_eq!(
                    index["links"][link.name],
                    link.under("https://b.example/base")
                );
            }
            let has = !extras.is_empty();
            assert_eq!(page.text().contains("href=\"console\">Console"), has);
            let address = has.then_some("https://b.example/base/console");
            assert_eq!(index["links"]["console"].as_str(), address);
            assert!(
                !page.text().contains(['{', '}']),
                "a place in the page was not filled"
            );
        }
    }
}
