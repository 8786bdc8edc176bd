//! `/verify`: a page on which anybody checks a packet in the browser, against the key of this service or another one.
//!
//! The file never leaves the browser. The verifier is the one that is published to be read, and the one that evidence pages
//! contain.

use bookguard_render::VERIFIER;
use poem::endpoint::BoxEndpoint;

use super::document::{ServedDocument, fixed, on_demand};
use super::swagger::{CSS_TYPE, SCRIPT_TYPE};
use crate::pages;

const BODY: &str = include_str!("pages/verify.html");
const STYLE: &str = include_str!("pages/verify.css");
const SCRIPT: &str = include_str!("pages/verify-page.js");

/// The page and the files it loads, by path.
pub(super) fn endpoints() -> [(&'static str, BoxEndpoint<'static>); 4] {
    [
        (
            "/verify",
            on_demand(|| ServedDocument::new(pages::HTML, page())),
        ),
        ("/verify/page.css", fixed(CSS_TYPE, STYLE)),
        ("/verify/page.js", fixed(SCRIPT_TYPE, SCRIPT)),
        ("/verify/verify.js", fixed(SCRIPT_TYPE, VERIFIER)),
    ]
}

fn page() -> String {
    let title = "Check an evidence packet · Bookguard";
    pages::page(title, "", "verify/page.css", BODY)
}

#[cfg(test)]
mod tests {
    use super::super::document::loads_what_is_served;
    use super::*;

    #[test]
    fn the_page_loads_what_is_served_and_holds_nothing_inline() {
        loads_what_is_served(&page(), &endpoints());
    }
}
