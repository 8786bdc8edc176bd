//! Reads single values of a message: the pairs of a query, what percent-encoding stands for, headers.
//!
//! Pure, so that `tests/fuzz` can read foreign bytes with it. What a value means, the core decides.

use std::borrow::Cow;

use bookguard_core::error::Error;
use bookguard_core::input::is_escape;
use percent_encoding::percent_decode_str;
use poem::http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};

use crate::media;

/// The most bytes of a query string; all known parameters at their longest take less than 1 KiB.
const QUERY_BYTES: usize = 4 * 1024;

/// Decodes the name-value pairs of a query string.
///
/// # Errors
/// `query_too_long`, `invalid_query` for a broken percent-encoding.
pub(crate) fn query(text: Option<&str>) -> Result<Vec<(String, String)>, Error> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    check_query_bytes(text.len())?;
    pairs(text).ok_or_else(|| {
        Error::invalid(
            "invalid_query",
            "The query is not percent-encoded UTF-8. Write each special character as %XX.",
        )
    })
}

/// The pairs of a query or a form; `None` if the percent-encoding is broken.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(name, true)?, decode(value, true)?))
    });
    pairs.collect()
}

/// # Errors
/// `query_too_long`.
pub(crate) fn check_query_bytes(bytes: usize) -> Result<(), Error> {
    if bytes <= QUERY_BYTES {
        return Ok(());
    }
    let message = format!("The query has {bytes} bytes; at most {QUERY_BYTES} are read.");
    Err(Error::invalid("query_too_long", message))
}

/// Undoes percent-encoding. Returns `None` if the encoding is broken, which the crate would let pass, or if the result is not
/// UTF-8.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let spaced = match plus_is_space {
        true => Cow::Owned(text.replace('+', " ")),
        false => Cow::Borrowed(text),
    };
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// The Idempotency-Key header. One that is not text or was sent twice becomes a value that the core refuses.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all("idempotency-key").iter();
    let mut key = String::from_utf8_lossy(values.next()?.as_bytes()).into_owned();
    for further in values {
        key.push_str(", ");
        key.push_str(&String::from_utf8_lossy(further.as_bytes()));
    }
    Some(key)
}

/// The declared length of the body; `None` if it is not declared.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    // If both headers are sent, the chunks count (RFC 9112 section 6.3), so Content-Length would bound nothing.
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    match headers.get(CONTENT_LENGTH) {
        Some(length) => length.to_str().ok()?.parse().ok(),
        None => Some(0),
    }
}

/// Whether a byte may appear in a host and port (RFC 3986 section 3.2). A user name before them is not allowed.
pub(super) fn in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

/// Whether a Content-Type is JSON, without a charset or in UTF-8.
pub(super) fn names_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case(media::JSON))
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        })
}
