//! A size as people write it: a number of bytes, KiB, MiB, GiB or TiB.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Visitor};

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// The units, each 1,024 times the one before.
const UNITS: [&str; 5] = ["", "KiB", "MiB", "GiB", "TiB"];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let place = UNITS.iter().position(|known| *known == unit.trim_start());
        let bytes = place
            .zip(number.parse::<u64>().ok())
            .and_then(|(place, number)| number.checked_mul(1024_u64.pow(place as u32)));
        bytes.map(Self).ok_or_else(|| {
            format!(
                "\"{text}\" is not a size; write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 256MiB"
            )
        })
    }
}

/// Writes the size in the largest unit that gives a whole number.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut number, mut place) = (self.0, 0);
        while number > 0 && number.is_multiple_of(1024) && place + 1 < UNITS.len() {
            (number, place) = (number / 1024, place + 1);
        }
        write!(f, "{number}{}", UNITS[place])
    }
}

impl<'de> serde::Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Size;
        impl Visitor<'_> for Size {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a text such as \"256MiB\"")
            }

            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Bytes, E> {
                u64::try_from(bytes)
                    .map(Bytes)
                    .map_err(|_| E::custom(format!("{bytes} is negative, and a size cannot be")))
            }

            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_or_without_a_unit() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("1KiB", Some(1024)),
            ("256 MiB", Some(256 << 20)),
            (" 2GiB ", Some(2 << 30)),
            ("1TiB", Some(1 << 40)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999TiB", None),
            ("", None),
            ("MiB", None),
            ("-1", None),
            ("1.5GiB", None),
            ("256MB", None),
            ("256mib", None),
        ] {
            let read = text.parse::<Bytes>().ok();
            assert_eq!(read.map(|b| b.0), bytes, "{text:?}");
            if let Some(read) = read {
                assert_eq!(read.to_string().parse(), Ok(read));
            }
        }
        assert_eq!(Bytes(256 << 20).to_string(), "256MiB");
    }
}
