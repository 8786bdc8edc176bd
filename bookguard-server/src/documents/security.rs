//! `/.well-known/security.txt`: where to report a vulnerability (RFC 9116), as the operator configured it.
//!
//! `config` checks the values. Invariant: the file is always valid for another half year, because a running server shows its
//! operator's current configuration.

use std::fmt::Write as _;
use std::sync::Arc;

use bookguard_core::limits::DAY_MS;
use bookguard_core::model::Timestamp;
use bookguard_core::service::Service;
use poem::endpoint::{BoxEndpoint, make_sync};
use poem::http::header::{CACHE_CONTROL, HeaderValue};
use poem::{EndpointExt as _, Request};

use super::document::ServedDocument;
use crate::config::security::SecurityTxt;
use crate::media::TEXT;

/// The path of the file (RFC 9116 section 3).
pub(super) const PATH: &str = "/.well-known/security.txt";
/// How many days it is valid: RFC 9116 section 2.5.5 recommends less than a year.
const VALID_DAYS: i64 = 180;

/// Serves the file, made for each request because it states its expiry.
pub(super) fn endpoint(service: &Arc<Service>, said: SecurityTxt) -> BoxEndpoint<'static> {
    let service = Arc::clone(service);
    make_sync(move |request: Request| {
        let text = text(&said, service.public_url(), service.clock().now());
        ServedDocument::new(TEXT, text)
            .with(
                CACHE_CONTROL,
                HeaderValue::from_static("public, max-age=86400"),
            )
            .respond(request.headers())
    })
    .boxed()
}

fn text(said: &SecurityTxt, base: &str, now: Timestamp) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}: {value}");
    };
    for contact in &said.contacts {
        line("Contact", contact);
    }
    // Changes once a day, so the entity tag does too.
    let today = now.ms().div_euclid(DAY_MS);
    let expires = Timestamp::from_ms((today + VALID_DAYS) * DAY_MS);
    line("Expires", &expires.to_string());
    for (name, value) in [("Encryption", &said.encryption), ("Policy", &said.policy)] {
        if let Some(value) = value {
            line(name, value);
        }
    }
    if !said.languages.is_empty() {
        line("Preferred-Languages", &said.languages.join(", "));
    }
    // A web address in this file must use https (RFC 9116 section 2.5.2).
    if base.starts_with("https://") {
        line("Canonical", &format!("{base}{PATH}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> SecurityTxt {
        SecurityTxt {
            contacts: vec![
                "mailto:security@b.example".to_owned(),
                "https://b.example/report".to_owned(),
            ],
            policy: Some("https://b.example/policy".to_owned()),
            encryption: Some("https://b.example/key.asc".to_owned()),
            languages: vec!["en".to_owned(), "de-CH".to_owned()],
        }
    }

    #[test]
    fn it_says_all_that_is_configured() {
        let now = Timestamp::parse("2026-11-21T17:00:00Z").unwrap();
        assert_eq!(
            text(&said(), "https://b.example", now),
            "Contact: mailto:security@b.example\nContact: https://b.example/report\nExpires: 2027-05-20T00:00:00.000Z\n\
             Encryption: https://b.example/key.asc\nPolicy: https://b.example/policy\nPreferred-Languages: en, de-CH\n\
             Canonical: https://b.example/.well-known/security.txt\n"
        );
    }

    #[test]
    fn security_txt_is_never_about_to_expire_and_changes_once_a_day() {
        let start = Timestamp::parse("2026-11-21T00:00:00Z").unwrap();
        let at = |ms| text(&said(), "http://127.0.0.1", start.plus_ms(ms));
        assert_eq!(at(0), at(DAY_MS - 1));
        assert_ne!(at(0), at(DAY_MS));
        for ms in [0, DAY_MS - 1, 400 * DAY_MS] {
            let text = at(ms);
            let expires = text
                .lines()
                .find_map(|line| line.strip_prefix("Expires: "))
                .unwrap();
            let left = Timestamp::parse(expires).unwrap().ms() - start.plus_ms(ms).ms();
            assert!((90 * DAY_MS..365 * DAY_MS).contains(&left), "{left}");
            assert!(
                !text.contains("Canonical"),
                "an address without https does not belong in this file"
            );
        }
    }
}
