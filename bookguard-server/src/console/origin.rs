//! Whether a form was sent by a page of this console, and not by one of another site in the same browser.
//!
//! A browser that sends cookies says so itself: in `Sec-Fetch-Site` (Fetch Metadata), or, over plain HTTP and before 2023, in
//! `Origin` alone. What says neither is refused: no program needs the console.

use poem::http::StatusCode;
use poem::http::header::{HeaderMap, HeaderName, ORIGIN};
use url::Url;

use crate::refusal::Refusal;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether these headers are those of a form that this console sent. `own` is the console's public address.
pub(super) fn is_own(headers: &HeaderMap, own: &str) -> bool {
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next()?.to_str().ok();
        // One that was sent twice says nothing.
        Some(value.filter(|_| values.next().is_none()))
    };
    match (single(&SITE), single(&ORIGIN)) {
        // `none`: a person sent it, such as by loading the page again.
        (Some(site), _) => matches!(site, Some("same-origin" | "none")),
        (None, Some(Some(origin))) => {
            Url::parse(own).is_ok_and(|own| own.origin().ascii_serialization() == origin)
        }
        (None, _) => false,
    }
}

pub(super) fn refusal() -> Refusal {
    let message = "The form was not sent by a page of this console. Open the console at its public address, and send the form from there.";
    Refusal::http(StatusCode::FORBIDDEN, "cross_site_form", message)
}

#[cfg(test)]
mod tests {
    use poem::http::header::HeaderValue;

    use super::*;

    #[test]
    fn only_a_form_of_this_console_is_its_own() {
        let own = "https://b.example/base";
        for (site, origin, expected) in [
            (&["same-origin"][..], &["https://b.example"][..], true),
            (&["same-origin"], &[], true),
            (&["none"], &["null"], true),
            (&["same-site"], &["https://b.example"], false),
            (&["cross-site"], &["https://b.example"], false),
            (&["same-origin", "cross-site"], &[], false),
            (&[""], &["https://b.example"], false),
            (&[], &["https://b.example"], true),
            (&[], &["https://b.example:443"], false),
            (&[], &["http://b.example"], false),
            (&[], &["https://b.example.evil.example"], false),
            (&[], &["https://b.example", "https://b.example"], false),
            (&[], &["null"], false),
            (&[], &[], false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, values) in [(SITE, site), (ORIGIN, origin)] {
                for value in values {
                    headers.append(name.clone(), HeaderValue::from_static(value));
                }
            }
            assert_eq!(is_own(&headers, own), expected, "{site:?} {origin:?}");
        }
    }
}
