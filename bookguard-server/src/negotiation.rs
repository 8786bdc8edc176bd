//! What a client's Accept header says of a media type (RFC 9110 section 12.5.1).

use poem::http::header::{ACCEPT, HeaderMap};

/// The weight of a media type that is wanted as it is.
const WHOLE: u16 = 1000;

/// How much a client wants a media type (RFC 9110 section 12.5.1), in thousandths: 0 is not at all, and 1000 is also
/// what is said by no Accept header.
pub(crate) fn wish(headers: &HeaderMap, media_type: &str) -> u16 {
    preference(headers, media_type).map_or(WHOLE, |(_, weight)| weight)
}

/// How much a client wants a media type that it names itself.
pub(crate) fn names(headers: &HeaderMap, media_type: &str) -> Option<u16> {
    let (precision, weight) = preference(headers, media_type)?;
    (precision == 2 && weight > 0).then_some(weight)
}

fn preference(headers: &HeaderMap, media_type: &str) -> Option<(i8, u16)> {
    // How precisely the best range names the type, and how much it wants it; -1 for ranges of other types.
    let mut best: Option<(i8, u16)> = None;
    for value in headers.get_all(ACCEPT) {
        // What is no text says nothing.
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

/// A weight, as a number that can be compared; one that is none says nothing.
fn thousandths(weight: &str) -> u16 {
    match weight.trim().parse::<f32>() {
        // What is wanted at all must not round to nothing; the conversion makes 0 of what is negative.
        Ok(weight) if !weight.is_nan() => (weight.min(1.0) * f32::from(WHOLE)).ceil() as u16,
        _ => WHOLE,
    }
}
