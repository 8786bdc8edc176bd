//! The list of everything served besides operations. The start page, its JSON, its Link headers, the API catalog and llms.txt
//! are made from it.
//!
//! Invariant: programs get absolute addresses under the configured public address; browsers get relative ones, so that they
//! stay on the server they reached.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;

/// A link to one document or service.
#[derive(Deserialize)]
pub(super) struct Link {
    /// Its name in JSON.
    pub(super) name: &'static str,
    /// Its path on this server.
    pub(super) path: &'static str,
    /// Its relation to the service (RFC 8288), if a registered one fits.
    pub(super) relation: Option<&'static str>,
    /// Its media type.
    pub(super) media_type: &'static str,
    /// Its title.
    pub(super) title: &'static str,
    /// Its purpose.
    pub(super) note: &'static str,
}

/// The media type of a server card.
pub(super) const CARD_TYPE: &str = "application/mcp-server-card+json";
/// The media type of an AI catalog.
pub(super) const AI_CATALOG_TYPE: &str = "application/ai-catalog+json";
/// All links, the most useful first. Relations: RFC 8631 (service-desc, service-doc, service-meta, status), RFC 9727
/// (api-catalog), the AI Catalog's "Link Relation Discovery" (ai-catalog), POWDER (describedby).
pub(super) static LINKS: LazyLock<Vec<Link>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("links.json")).expect("a test reads every embedded text")
});

/// The link with this name.
///
/// Panics if the name is not in [`LINKS`]; tests cover every caller's names.
pub(super) fn link(name: &str) -> &'static Link {
    LINKS
        .iter()
        .find(|link| link.name == name)
        .expect("the callers name links of the list, and tests make every document")
}

impl Link {
    /// Its address under a public address that has no trailing slash.
    pub(super) fn under(&self, base: &str) -> String {
        format!("{base}{}", self.path)
    }
}

/// The value of a Link header with every link that has a relation (RFC 8288 section 3).
pub(super) fn header(base: &str) -> String {
    let mut value = String::new();
    for link in LINKS.iter() {
        let Some(relation) = link.relation else {
            continue;
        };
        let comma = if value.is_empty() { "" } else { ", " };
        let _ = write!(
            value,
            "{comma}<{}>; rel=\"{relation}\"; type=\"{}\"; title=\"{}\"",
            link.under(base),
            link.media_type,
            link.title
        );
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_there_once() {
        let mut seen = std::collections::HashSet::new();
        for link in LINKS.iter() {
            assert!(
                seen.insert(link.name) && seen.insert(link.path),
                "{}",
                link.name
            );
        }
    }

    #[test]
    fn the_header_names_what_has_a_relation_under_the_public_address() {
        let header = header("https://b.example/base");
        assert!(header.contains(
            "<https://b.example/base/openapi.json>; rel=\"service-desc\"; type=\"application/json\"; title=\"OpenAPI document\""
        ));
        assert_eq!(
            header.matches("rel=").count(),
            LINKS.iter().filter(|link| link.relation.is_some()).count()
        );
    }
}
