//! Reads how much a client wants a media type from its Accept header (RFC 9110 section 12.5.1), and which answers it has already
//! from If-None-Match (section 13.1.2).

use poem::http::header::{ACCEPT, HeaderMap, HeaderValue, IF_NONE_MATCH};
use sha2::{Digest as _, Sha256};

use crate::media;

/// The weight of a type without a `q` parameter.
const WHOLE: u16 = 1000;

/// How much a client wants a media type (RFC 9110 section 12.5.1), in thousandths: 0 means not at all. Without an Accept header
/// it is 1000.
pub(crate) fn wish(headers: &HeaderMap, media_type: &str) -> u16 {
    preference(headers, media_type).map_or(WHOLE, |(_, weight)| weight)
}

/// How much a client wants a media type, if it names that type without a wildcard and accepts it.
pub(crate) fn names(headers: &HeaderMap, media_type: &str) -> Option<u16> {
    let (precision, weight) = preference(headers, media_type)?;
    (precision == 2 && weight > 0).then_some(weight)
}

/// Whether the client prefers a page to JSON: browsers name `text/html`, programs accept anything.
pub(crate) fn prefers_page(headers: &HeaderMap) -> bool {
    wish(headers, media::HTML) > wish(headers, media::JSON)
}

fn preference(headers: &HeaderMap, media_type: &str) -> Option<(i8, u16)> {
    // How precisely the best range names the type, and its weight; -1 for ranges of other types.
    let mut best: Option<(i8, u16)> = None;
    for value in headers.get_all(ACCEPT) {
        // A header that is not text says nothing.
        let Ok(text) = value.to_str() else {
            return None;
        };
        let ranges = text.split(',').filter(|range| !range.trim().is_empty());
        best = ranges
            .map(|range| media_range(range, media_type))
            .fold(best, |best, range| best.max(Some(range)));
    }
    best
}

fn media_range(range: &str, media_type: &str) -> (i8, u16) {
    let family = media_type.split_once('/').map_or("", |(family, _)| family);
    let mut parts = range.split(';').map(str::trim);
    let precision = match parts.next().unwrap_or_default() {
        name if name.eq_ignore_ascii_case(media_type) => 2,
        "*/*" | "*" => 0,
        name if name
            .strip_suffix("/*")
            .is_some_and(|name| name.eq_ignore_ascii_case(family)) =>
        {
            1
        }
        _ => return (-1, 0),
    };
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    (precision, weight.map_or(WHOLE, thousandths))
}

/// Parses a weight into thousandths; one that is not a number counts as full weight.
fn thousandths(weight: &str) -> u16 {
    match weight.trim().parse::<f32>() {
        // Rounds up, so that a small weight does not become 0. The conversion turns negative numbers into 0.
        Ok(weight) if !weight.is_nan() => (weight.min(1.0) * f32::from(WHOLE)).ceil() as u16,
        _ => WHOLE,
    }
}

/// A strong entity tag: 128 bits of the body's SHA-256.
pub(crate) fn entity_tag(body: &[u8]) -> HeaderValue {
    let digest = hex::encode(&Sha256::digest(body)[..16]);
    HeaderValue::try_from(format!("\"{digest}\"")).expect("quoted hex digits are visible ASCII")
}

/// A weak entity tag of an answer's content. Such an answer has other bytes each time it is made, like a packet that is signed
/// at another time.
pub(crate) fn weak_tag(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("W/\"{tag}\"")).expect("the core's tags are hex digits")
}

/// The tags in If-None-Match, without quotation marks and `W/`; `*` stands for any.
pub(crate) fn known_tags(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let tags = texts.flat_map(|text| text.split(',').map(str::trim));
    let opaque = |tag: &str| match tag {
        "*" => Some(tag.to_owned()),
        tag => {
            let quoted = tag.strip_prefix("W/").unwrap_or(tag);
            let tag = quoted.strip_prefix('"')?.strip_suffix('"')?;
            Some(tag.to_owned())
        }
    };
    tags.filter_map(opaque).collect()
}

/// Whether If-None-Match names the current tag (RFC 9110 section 13.1.2: weak comparison).
pub(crate) fn is_current(etag: &HeaderValue, headers: &HeaderMap) -> bool {
    let current = etag.to_str().unwrap_or_default();
    let current = current.strip_prefix("W/").unwrap_or(current);
    let mut known = known_tags(headers).into_iter();
    known.any(|tag| tag == "*" || tag == current.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_get_the_page_and_programs_json_whatever_they_say() {
        for (accept, wanted) in [
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                true,
            ),
            ("text/html", true),
            ("TEXT/HTML;level=1;Q=0.3, application/json;q=0.2", true),
            ("*/*;q=0.1, text/html;q=0.2", true),
            ("text/*, application/json;q=0.9", true),
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("text/html;q=0, */*", false),
            ("text/html;q=NaN", true),
            ("text/html;q=-1", false),
            ("image/png", false),
            (",;q=,text", false),
            ("text/html;q=0.2, application/json;q=inf", false),
        ] {
            let asked = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_page(&asked), wanted, "{accept:?}");
        }
        assert!(!prefers_page(&HeaderMap::new()));
    }
}
