//! Whole numbers as JSON writes them: `5000`, and also `5000.0` and `5e3`, which are the same number (RFC 8259 section 6)
//! and are sent by programs that count in floating point. Nothing is rounded.

/// More digits than any `i64` has.
const DIGITS: usize = 20;

/// The whole number that a JSON number equals, if it is whole and fits; `digits` is the number's text.
pub fn whole(digits: &str) -> Option<i64> {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (head, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let significant = [head, fraction].concat();
    let trimmed = significant.trim_end_matches('0');
    if trimmed.trim_start_matches(['-', '0']).is_empty() {
        return Some(0);
    }
    // The number is `trimmed` and this many zeros. A sum or an exponent beyond an `i64` is far from any that fits.
    let zeros = i64::try_from(significant.len() - trimmed.len()).ok()?;
    let point = i64::try_from(fraction.len()).ok()?;
    let zeros = exponent
        .parse::<i64>()
        .ok()?
        .checked_add(zeros)?
        .checked_sub(point)?;
    let zeros = usize::try_from(zeros)
        .ok()
        .filter(|zeros| *zeros < DIGITS)?;
    format!("{trimmed}{}", "0".repeat(zeros)).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_read_however_it_is_written_and_never_rounded() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0", Some(0)),
            ("0e99999999999999999999", Some(0)),
            ("5000", Some(5000)),
            ("-7", Some(-7)),
            ("5000.0", Some(5000)),
            ("5e3", Some(5000)),
            ("5E+3", Some(5000)),
            ("0.5e4", Some(5000)),
            ("50000e-1", Some(5000)),
            ("1250.500e1", Some(12_505)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808.0", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("0.5", None),
            ("12.505e1", None),
            ("1e-1", None),
            ("0.99999999999999999999999", None),
            ("1.00000000000000000000001", None),
            ("1e19", None),
            ("1e400", None),
            ("1e-400", None),
            ("1e9223372036854775807", None),
            ("10e9223372036854775807", None),
            ("0.1e-9223372036854775808", None),
            ("1e99999999999999999999", None),
        ] {
            assert_eq!(whole(text), expected, "{text}");
        }
    }
}
