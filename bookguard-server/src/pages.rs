//! Pages for people: the frame that all pages share, and what people read who follow a link to evidence and are refused.
//!
//! Invariant: no answer to a link may be cached or indexed, and nothing that its pages lead to learns its address, which holds
//! the token.

use poem::Response;
use poem::http::StatusCode;
use poem::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, VARY,
};

/// The media type of a page.
pub(crate) const HTML: &str = "text/html; charset=utf-8";
/// What the path of a link begins with.
pub(crate) const LINKS: &str = "/s/";
const LINK_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");
const FRAME: &str = r#"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{title}</title>
    <link rel="icon" type="image/svg+xml" href="{root}favicon.ico">
    <link rel="stylesheet" href="{root}{style}">
  </head>
  <body>
{body}
  </body>
</html>
"#;

/// A page. `root` leads from its path to `/`, because a proxy may put a path before all of them.
pub(crate) fn page(title: &str, root: &str, style: &str, body: &str) -> String {
    FRAME
        .replace("{title}", title)
        .replace("{style}", style)
        .replace("{root}", root)
        .replace("{body}", body.trim_end())
}

/// A page for whoever follows a link. Its title is the same for every link.
pub(crate) fn link_page(body: &str) -> String {
    page("Evidence", "../", "start.css", body)
}

/// Makes a page for whoever follows a link the body of a response.
pub(crate) fn show(response: &mut Response, page: String) {
    response.set_body(page);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(LINK_POLICY),
    );
    unlist(headers);
}

/// Sets the headers of every answer to a link.
pub(crate) fn unlist(headers: &mut HeaderMap) {
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (ROBOTS, "noindex, nofollow"),
        (VARY, "accept"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Says to whoever follows a link what happened and what to do, instead of a refusal's JSON.
pub(crate) fn explain(refused: &mut Response) {
    let wait = refused.header(RETRY_AFTER).and_then(|s| s.parse().ok());
    let wait = match wait.unwrap_or(0u32).div_ceil(60) {
        0 | 1 => "in a minute".to_owned(),
        minutes => format!("in {minutes} minutes"),
    };
    let (what, then) = match refused.status() {
        StatusCode::NOT_FOUND => (
            "This link shows nothing",
            "It is incomplete, has expired, or was revoked. Check that you have all of it, or ask whoever gave it to you for \
             a new one."
                .to_owned(),
        ),
        StatusCode::TOO_MANY_REQUESTS => (
            "Too many requests",
            format!("Too many came from your network. Try again {wait}."),
        ),
        StatusCode::SERVICE_UNAVAILABLE => (
            "Not available now",
            format!("The service cannot answer at present. Try again {wait}."),
        ),
        StatusCode::INTERNAL_SERVER_ERROR => (
            "Something went wrong",
            "The fault is on our side, and was noted. Try again in a minute. If it happens again, tell whoever gave you the link."
                .to_owned(),
        ),
        _ => (
            "This address is not right",
            "Open the link exactly as it was given to you.".to_owned(),
        ),
    };
    let body = format!("    <main>\n      <h1>{what}</h1>\n      <p>{then}</p>\n    </main>");
    show(refused, link_page(&body));
}
