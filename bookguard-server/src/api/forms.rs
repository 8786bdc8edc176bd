//! The forms of an answer besides JSON, made of its JSON: of a packet, the page that people read.
//!
//! A form is chosen by the `Accept` header. Invariant: JSON is what a client gets that does not prefer another form.

use bookguard_core::error::Error;
use bookguard_core::evidence::Packet;
use bookguard_render::page;
use poem::http::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

use crate::incoming::choose;
use crate::refusal::Refusal;

const JSON: &str = "application/json";

/// A form of an answer.
pub(crate) struct Form {
    /// Its media type.
    pub(crate) media_type: &'static str,
    /// What an entity tag ends with, so that no two forms have the same one.
    pub(crate) mark: &'static str,
    /// Makes it of the answer's JSON.
    pub(crate) make: fn(&[u8]) -> Result<Vec<u8>, Error>,
    /// The headers that it needs.
    pub(crate) headers: fn() -> Vec<(HeaderName, HeaderValue)>,
}

/// The forms of a packet.
pub(super) static PACKET_FORMS: [Form; 1] = [Form {
    media_type: "text/html",
    mark: "-html",
    make: make_page,
    headers: page_headers,
}];

/// The form that the client prefers; `None` stands for JSON.
///
/// # Errors
/// 406 if it accepts none of them.
pub(super) fn chosen(
    forms: &'static [Form],
    headers: &HeaderMap,
) -> Result<Option<&'static Form>, Refusal> {
    let types: Vec<&str> = [JSON]
        .into_iter()
        .chain(forms.iter().map(|form| form.media_type))
        .collect();
    let place = choose(headers, &types)?;
    Ok(place.checked_sub(1).and_then(|place| forms.get(place)))
}

fn make_page(packet: &[u8]) -> Result<Vec<u8>, Error> {
    let fault = |e: &dyn std::fmt::Display| Error::internal(format!("a page cannot be made: {e}"));
    let text = std::str::from_utf8(packet).map_err(|e| fault(&e))?;
    // The service made the packet, so the key that it names is the service's own.
    let read: Packet = serde_json::from_str(text).map_err(|e| fault(&e))?;
    let page = page::page(text, &read.log.vkey).map_err(|e| fault(&e))?;
    Ok(page.into_bytes())
}

fn page_headers() -> Vec<(HeaderName, HeaderValue)> {
    // What a policy in the page itself cannot say is added.
    let policy = format!("{}; frame-ancestors 'none'", *page::POLICY);
    let policy =
        HeaderValue::try_from(policy).expect("digests in base64 and words are visible ASCII");
    vec![
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ]
}
