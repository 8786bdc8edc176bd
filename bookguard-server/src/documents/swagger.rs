//! `/docs`: the interface document in Swagger UI, loaded from this server alone.
//!
//! The user interface comes from a crate; the page and the script that starts it are ours. Invariant: the page contains no
//! inline script or style, so the content security policy needs no exception.

use poem::endpoint::BoxEndpoint;
use poem::http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use swagger_ui_redist::{SwaggerUi, SwaggerUiStaticFile};

use super::document::{POLICY_WITH_PICTURES, ServedDocument, fixed, on_demand};
use crate::pages;

const BODY: &str = include_str!("pages/docs.html");
const START: &str = include_str!("pages/reference.js");
pub(super) const CSS_TYPE: &str = "text/css; charset=utf-8";
pub(super) const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";

/// The page and the files it loads, by path.
pub(super) fn endpoints() -> [(&'static str, BoxEndpoint<'static>); 4] {
    [
        ("/docs", on_demand(page)),
        ("/docs/reference.js", fixed(SCRIPT_TYPE, START)),
        (
            "/docs/swagger-ui.css",
            on_demand(|| ServedDocument::new(CSS_TYPE, file(SwaggerUiStaticFile::Css))),
        ),
        (
            "/docs/swagger-ui-bundle.js",
            on_demand(|| ServedDocument::new(SCRIPT_TYPE, file(SwaggerUiStaticFile::Js))),
        ),
    ]
}

fn page() -> ServedDocument {
    let page = pages::page("Bookguard: reference", "", "docs/swagger-ui.css", BODY);
    // The arrows in the lists are pictures in the style sheet.
    ServedDocument::new(pages::HTML, page).with(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY_WITH_PICTURES),
    )
}

fn file(wanted: SwaggerUiStaticFile) -> &'static [u8] {
    let files = SwaggerUi::static_files();
    let found = files.iter().find(|(file, _)| *file == wanted);
    found
        .expect("the crate holds both files, and a test asks for them")
        .1
}

#[cfg(test)]
mod tests {
    use super::super::document::loads_what_is_served;
    use super::*;

    #[test]
    fn the_page_loads_what_is_served_and_holds_nothing_inline() {
        loads_what_is_served(page().text(), &endpoints());
    }

    #[test]
    fn the_user_interface_reads_openapi_3_1() {
        let bundle = std::str::from_utf8(file(SwaggerUiStaticFile::Js)).unwrap();
        // Version 5 was the first to read OpenAPI 3.1.
        assert!(bundle.contains("PACKAGE_VERSION:\"5."));
        assert!(file(SwaggerUiStaticFile::Css).starts_with(b".swagger-ui"));
    }
}
