//! Reads what a caller says of its trace.

use poem::http::HeaderMap;

/// What a `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace_id: [u8; 16],
    /// The caller's span.
    pub(crate) span_id: [u8; 8],
    /// Whether the caller may have recorded its span.
    pub(crate) is_sampled: bool,
}

/// The only `traceparent` (W3C Trace Context, section 3.2), if it is valid. A version newer than this one may append fields.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut lines = headers.get_all("traceparent").iter();
    let (line, None) = (lines.next()?, lines.next()) else {
        return None;
    };
    let mut fields = line.to_str().ok()?.split('-');
    let mut field = |length| fields.next().filter(|text| is_lower_hex(text, length));
    let (version, trace) = (field(2)?, field(32)?);
    let (span, flags) = (field(16)?, field(2)?);
    let more = fields.next().is_some();
    let (mut trace_id, mut span_id, mut bits) = ([0; 16], [0; 8], [0; 1]);
    hex::decode_to_slice(trace, &mut trace_id).ok()?;
    hex::decode_to_slice(span, &mut span_id).ok()?;
    hex::decode_to_slice(flags, &mut bits).ok()?;
    if version == "ff" || (version == "00" && more) || trace_id == [0; 16] || span_id == [0; 8] {
        return None;
    }
    Some(TraceParent {
        trace_id,
        span_id,
        is_sampled: bits[0] & 1 == 1,
    })
}

fn is_lower_hex(text: &str, length: usize) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == length && text.bytes().all(digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("traceparent", value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_valid_traceparent_is_taken_and_any_other_replaced() {
        const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{TRACE}-b7ad6b7169203331-01");
        let newer = format!("{}-more", good.replacen("00", "cc", 1));
        for taken in [good.as_str(), &newer] {
            let parent = trace_parent(&with(&[taken])).unwrap();
            assert_eq!(hex::encode(parent.trace_id), TRACE, "{taken}");
        }
        for bad in [
            "",
            TRACE,
            &good.replacen("00", "ff", 1),
            &good.to_uppercase(),
            &format!("{good}-more"),
            &good[..good.len() - 1],
            &good.replace(TRACE, &"0".repeat(32)),
            &good.replace("b7ad6b7169203331", &"0".repeat(16)),
            &good.replace('-', "_"),
        ] {
            assert_eq!(trace_parent(&with(&[bad])), None, "{bad}");
        }
        assert_eq!(trace_parent(&with(&[&good, &good])), None);
        assert_eq!(trace_parent(&with(&[])), None);
        let flags = |flags| trace_parent(&with(&[&good.replace("-01", flags)]));
        for (text, is_sampled) in [("-00", false), ("-01", true), ("-02", false), ("-ff", true)] {
            assert_eq!(
                flags(text).map(|it| it.is_sampled),
                Some(is_sampled),
                "{text}"
            );
        }
    }
}
