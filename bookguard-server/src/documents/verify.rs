//! `/verify`: a page on which anybody checks a packet in the browser, against the key of this service or another one.
//!
//! The file never leaves the browser. The verifier is the one that is published to be read, and the one that evidence pages
//! contain.

use poem::endpoint::BoxEndpoint;

use super::document::{ServedDocument, on_demand};
use super::swagger::{CSS_TYPE, SCRIPT_TYPE};

const PAGE: &str = include_str!("pages/verify.html");
const STYLE: &str = include_str!("pages/verify.css");
const SCRIPT: &str = include_str!("pages/verify-page.js");

/// The page and the files it loads, by path.
pub(super) fn endpoints() -> [(&'static str, BoxEndpoint<'static>); 4] {
    let served = |kind, text: &'static str| on_demand(move || ServedDocument::new(kind, text));
    [
        ("/verify", served("text/html; charset=utf-8", PAGE)),
        ("/verify/page.css", served(CSS_TYPE, STYLE)),
        ("/verify/page.js", served(SCRIPT_TYPE, SCRIPT)),
        (
            "/verify/verify.js",
            served(SCRIPT_TYPE, bookguard_render::VERIFIER),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_what_is_served_and_holds_nothing_inline() {
        for (path, _) in endpoints() {
            let path = &path[1..];
            assert!(
                path == "verify" || PAGE.contains(&format!("=\"{path}\"")),
                "{path}"
            );
        }
        for inline in [
            "<style", "style=", "<script>", "onload", "http:", "https:", "//",
        ] {
            assert!(!PAGE.contains(inline), "{inline}");
        }
    }
}
