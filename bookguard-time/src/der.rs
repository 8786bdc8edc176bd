//! Reads DER, and no other BER: lengths are definite and as short as they can be, and nothing follows the last element.

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat};

use crate::Error;

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const NULL: u8 = 0x05;
pub const OBJECT: u8 = 0x06;
pub const UTF8_STRING: u8 = 0x0c;
pub const PRINTABLE_STRING: u8 = 0x13;
pub const IA5_STRING: u8 = 0x16;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// The tag `[n]` of an element that holds others.
pub const fn context(n: u8) -> u8 {
    0xa0 | n
}

/// The tag `[n]` of an element that holds a value.
pub const fn context_value(n: u8) -> u8 {
    0x80 | n
}

/// One element: its tag, what it holds, and all its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    pub tag: u8,
    pub value: &'a [u8],
    pub raw: &'a [u8],
}

/// Elements one after the other. Every failure names `what` is being read.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Elements<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub fn malformed(&self) -> Error {
        Error::Malformed(self.what)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, whatever it is.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there is none, or it is cut off, not DER, or has a longer tag or length than anything here.
    pub fn any(&mut self) -> Result<Element<'a>, Error> {
        let whole = self.rest;
        let (&tag, rest) = whole.split_first().ok_or_else(|| self.malformed())?;
        let (&first, mut rest) = rest.split_first().ok_or_else(|| self.malformed())?;
        // A tag of several bytes: nothing here has one.
        if tag & 0x1f == 0x1f {
            return Err(self.malformed());
        }
        let length = match first {
            0..=0x7f => usize::from(first),
            // 0x80 would be an indefinite length; four bytes are more than any limit here.
            0x81..=0x83 => {
                let (bytes, after) = rest
                    .split_at_checked(usize::from(first & 0x7f))
                    .ok_or_else(|| self.malformed())?;
                rest = after;
                let length = bytes
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                if length < 0x80 || bytes.first() == Some(&0) {
                    return Err(self.malformed());
                }
                length
            }
            _ => return Err(self.malformed()),
        };
        let (value, after) = rest
            .split_at_checked(length)
            .ok_or_else(|| self.malformed())?;
        let (raw, _) = whole.split_at(whole.len() - after.len());
        self.rest = after;
        Ok(Element { tag, value, raw })
    }

    /// The next element, which has this tag.
    ///
    /// # Errors
    /// As [`Self::any`], and if it has another tag.
    pub fn element(&mut self, tag: u8) -> Result<Element<'a>, Error> {
        self.optional(tag)?.ok_or_else(|| self.malformed())
    }

    /// The next element if it has this tag.
    ///
    /// # Errors
    /// As [`Self::any`], if it has this tag.
    pub fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, Error> {
        if self.rest.first() == Some(&tag) {
            self.any().map(Some)
        } else {
            Ok(None)
        }
    }

    /// The next element, which holds others.
    ///
    /// # Errors
    /// As [`Self::element`].
    pub fn inside(&mut self, tag: u8) -> Result<Self, Error> {
        let element = self.element(tag)?;
        Ok(Self::new(element.value, self.what))
    }

    /// The next element, which holds others, if it has this tag.
    ///
    /// # Errors
    /// As [`Self::optional`].
    pub fn optional_inside(&mut self, tag: u8) -> Result<Option<Self>, Error> {
        Ok(self
            .optional(tag)?
            .map(|element| Self::new(element.value, self.what)))
    }

    /// An object identifier's bytes.
    ///
    /// # Errors
    /// As [`Self::element`], and for bytes that are not an identifier.
    pub fn object(&mut self) -> Result<&'a [u8], Error> {
        let object = self.element(OBJECT)?.value;
        // The last byte of every number has its top bit clear, and no number starts with padding.
        let ends = object.last().is_some_and(|last| last & 0x80 == 0);
        let padded = object
            .iter()
            .enumerate()
            .any(|(at, byte)| *byte == 0x80 && (at == 0 || object[at - 1] & 0x80 == 0));
        if ends && !padded {
            Ok(object)
        } else {
            Err(self.malformed())
        }
    }

    /// An integer's bytes: two's complement, as few as there can be.
    ///
    /// # Errors
    /// As [`Self::element`], and for any other spelling.
    pub fn integer(&mut self) -> Result<&'a [u8], Error> {
        match self.element(INTEGER)?.value {
            [] => Err(self.malformed()),
            [0x00, second, ..] if second & 0x80 == 0 => Err(self.malformed()),
            [0xff, second, ..] if second & 0x80 != 0 => Err(self.malformed()),
            bytes => Ok(bytes),
        }
    }

    /// An integer from 0 that fits.
    ///
    /// # Errors
    /// As [`Self::integer`], and if it is negative or does not fit.
    pub fn number(&mut self) -> Result<u64, Error> {
        let bytes = self.integer()?;
        if bytes.len() > 8 || bytes[0] & 0x80 != 0 {
            return Err(self.malformed());
        }
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A boolean that is false by default, so DER writes it only if it is true.
    ///
    /// # Errors
    /// As [`Self::optional`], and for any other spelling.
    pub fn flag(&mut self) -> Result<bool, Error> {
        match self.optional(BOOLEAN)? {
            None => Ok(false),
            Some(element) if element.value == [0xff] => Ok(true),
            Some(_) => Err(self.malformed()),
        }
    }

    /// Nothing may follow.
    ///
    /// # Errors
    /// [`Error::Malformed`] if something does.
    pub fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.malformed())
        }
    }
}

/// Milliseconds since 1970 of a `GeneralizedTime` in UTC: `20260110150200Z` or `20260110150200.123Z`. Smaller fractions are cut off.
pub fn generalized_time(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?.strip_suffix('Z')?;
    let (seconds, millis) = match text.split_once('.') {
        None => (text, 0),
        Some((_, fraction))
            if fraction.is_empty() || fraction.ends_with('0') || fraction.len() > 9 =>
        {
            return None;
        }
        Some((seconds, fraction)) => (
            seconds,
            digits(&format!("{fraction:0<3}")[..3]).filter(|_| digits(fraction).is_some())?,
        ),
    };
    let (year, rest) = seconds.split_at_checked(4)?;
    instant(digits(year)?, rest)?.checked_add(i64::from(millis))
}

/// Milliseconds since 1970 of a `UTCTime`: `260110150200Z`, of 1950 to 2049.
pub fn utc_time(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?.strip_suffix('Z')?;
    let (year, rest) = text.split_at_checked(2)?;
    let year = digits(year)?;
    instant(if year < 50 { 2000 + year } else { 1900 + year }, rest)
}

fn instant(year: u32, rest: &str) -> Option<i64> {
    let part = |at: usize| rest.get(at..at + 2).and_then(digits);
    if rest.len() != 10 {
        return None;
    }
    let day = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, part(0)?, part(2)?)?;
    let time: NaiveDateTime = day.and_hms_opt(part(4)?, part(6)?, part(8)?)?;
    Some(time.and_utc().timestamp_millis())
}

fn digits(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// A time for people, in UTC.
pub fn words(millis: i64) -> String {
    DateTime::from_timestamp_millis(millis).map_or_else(
        || format!("{millis} ms"),
        |time| time.to_rfc3339_opts(SecondsFormat::Secs, true),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_der_is_read() {
        let read = |bytes: &[u8]| {
            Elements::new(bytes, "it")
                .any()
                .map(|element| element.value.len())
        };
        assert_eq!(read(&[0x04, 0x01, 0x00]), Ok(1));
        let long = [&[0x04, 0x81, 0x80][..], &[0; 0x80]].concat();
        assert_eq!(read(&long), Ok(0x80));
        let padded = [&[0x04, 0x82, 0x00, 0x80][..], &[0; 0x80]].concat();
        for wrong in [
            &[][..],
            &[0x04],
            &[0x04, 0x02, 0x00],
            &[0x30, 0x80, 0x00, 0x00],
            &[0x04, 0x81, 0x01, 0x00],
            &[0x1f, 0x01, 0x00],
            &[0x04, 0x84, 0, 0, 0, 1, 0],
            &padded,
        ] {
            assert_eq!(read(wrong), Err(Error::Malformed("it")), "{wrong:x?}");
        }
    }

    #[test]
    fn integers_have_one_spelling() {
        let read = |bytes: &[u8]| Elements::new(bytes, "it").number();
        assert_eq!(read(&[0x02, 0x02, 0x00, 0x80]), Ok(0x80));
        for wrong in [
            &[0x02, 0x00][..],
            &[0x02, 0x02, 0x00, 0x7f],
            &[0x02, 0x01, 0xff],
            &[0x02, 0x02, 0xff, 0x80],
            &[0x02, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(read(wrong).is_err(), "{wrong:x?}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(
            generalized_time(b"20260110150200Z"),
            Some(1_768_057_320_000)
        );
        assert_eq!(
            generalized_time(b"20260110150200.1Z"),
            Some(1_768_057_320_100)
        );
        assert_eq!(
            generalized_time(b"20260110150200.123456Z"),
            Some(1_768_057_320_123)
        );
        assert_eq!(utc_time(b"260110150200Z"), Some(1_768_057_320_000));
        assert_eq!(utc_time(b"500101000000Z"), Some(-631_152_000_000));
        for wrong in [
            &b"20260110150200"[..],
            b"20260110150200.Z",
            b"20260110150200.10Z",
            b"20260110150200+0000",
            b"20260230150200Z",
            b"20260110150260Z",
            b"2026011015020Z",
            b"+0260110150200Z",
            "2026011015020\u{660}Z".as_bytes(),
            b"20260110150200.1x1Z",
            b"2026-1-0150200Z",
        ] {
            assert_eq!(
                generalized_time(wrong),
                None,
                "{}",
                String::from_utf8_lossy(wrong)
            );
        }
    }
}
