//! `/.well-known/api-catalog`: the APIs of this server (RFC 9727), as a set of links (RFC 9264).

use serde_json::json;

use super::document::ServedDocument;
use super::links::{LINKS, Link};

/// The path of the catalog.
pub(super) const PATH: &str = "/.well-known/api-catalog";
/// The profile marks the linkset as an API catalog (RFC 9727 section 4.2).
const CONTENT_TYPE: &str =
    "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";

/// The catalog of the service at this public address.
pub(super) fn catalog(base: &str) -> ServedDocument {
    let own = format!("{base}{PATH}");
    let target = |link: &Link| json!({"href": link.under(base), "type": link.media_type, "title": link.title});
    let of = |relation: &str| -> Vec<_> {
        let links = LINKS.iter().filter(|link| link.relation == Some(relation));
        links.map(target).collect()
    };
    // The start page stands for the interface, because it is an address that answers.
    let api = format!("{base}/");
    let catalog = json!({"linkset": [
        {"anchor": own, "item": [{"href": api, "title": "Bookguard"}]},
        {
            "anchor": api,
            "service-desc": of("service-desc"),
            "service-doc": of("service-doc"),
            "service-meta": of("service-meta"),
            "describedby": of("describedby"),
            "status": of("status"),
        },
    ]});
    // The answer to a HEAD must say where the catalog is (RFC 9727 section 2).
    let link = format!("<{own}>; rel=\"api-catalog\"");
    ServedDocument::new(CONTENT_TYPE, format!("{catalog:#}\n")).linking(link)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_api_is_an_item_of_the_catalog_and_has_its_links() {
        let document = catalog("https://b.example");
        let catalog: Value = serde_json::from_str(document.text()).unwrap();
        let [own, api] = catalog["linkset"].as_array().unwrap().as_slice() else {
            panic!("{catalog}")
        };
        assert_eq!(own["anchor"], "https://b.example/.well-known/api-catalog");
        assert_eq!(own["item"][0]["href"], api["anchor"]);
        assert_eq!(
            api["service-desc"][0]["href"],
            "https://b.example/openapi.json"
        );
        assert_eq!(api["status"][0]["href"], "https://b.example/v1/health");
        for relation in ["service-doc", "service-meta", "describedby"] {
            assert!(!api[relation].as_array().unwrap().is_empty(), "{relation}");
        }
    }
}
