//! Ids: a prefix that names the kind of object, and a UUIDv7 as 32 lower-case hex digits.
//!
//! UUIDv7 (RFC 9562) begins with the millisecond, so ids sort by creation: pages need no second column, and new rows go to
//! the end of every index.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ParseError, Timestamp};

/// The kind of object that an id names.
pub trait Noun: Copy + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static {
    /// The letters before the underscore.
    const PREFIX: &'static str;
    /// The name of the kind, for people.
    const NAME: &'static str;
}

/// The pattern (ECMA 262) of ids with this prefix.
pub fn id_pattern(prefix: &str) -> String {
    format!("^{prefix}_[0-9a-f]{{32}}$")
}

/// An id of one kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id<N: Noun>([u8; 16], PhantomData<N>);

impl<N: Noun> Id<N> {
    /// A new id made at `at`; `random` must come from a cryptographic source.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        let ms = u64::try_from(at.ms()).unwrap_or(0);
        Self(
            uuid::Builder::from_unix_timestamp_millis(ms, &random)
                .into_uuid()
                .into_bytes(),
            PhantomData,
        )
    }

    /// When it was made, to the millisecond.
    pub fn made_at(&self) -> Timestamp {
        let ms = self.0[..6]
            .iter()
            .fold(0_i64, |ms, byte| ms << 8 | i64::from(*byte));
        Timestamp::from_ms(ms)
    }

    /// A lower bound: every id made before `at` is below it, and none made at `at` or later.
    #[doc(hidden)]
    pub fn earliest(at: Timestamp) -> Self {
        let ms = u64::try_from(at.ms()).unwrap_or(0) << 16;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&ms.to_be_bytes());
        Self::from_bytes(bytes)
    }

    /// The next greater id; the greatest id returns itself.
    #[doc(hidden)]
    pub fn successor(&self) -> Self {
        let next = u128::from_be_bytes(self.0).saturating_add(1);
        Self::from_bytes(next.to_be_bytes())
    }

    /// The 16 bytes that the store keeps.
    #[doc(hidden)]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Makes an id from the 16 bytes that the store keeps.
    #[doc(hidden)]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes, PhantomData)
    }

    /// Reads the text form; `None` for anything else. [`FromStr`] says what is wrong.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(N::PREFIX)?.strip_prefix('_')?;
        if digits.len() != 32
            || !digits
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        {
            return None;
        }
        let mut bytes = [0; 16];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(Self::from_bytes(bytes))
    }
}

impl<N: Noun> Id<N> {
    /// The text, without allocation: three letters, an underscore, 32 digits.
    fn text(&self) -> [u8; 36] {
        const { assert!(N::PREFIX.len() == 3) };
        let mut text = [b'_'; 36];
        text[..3].copy_from_slice(N::PREFIX.as_bytes());
        hex::encode_to_slice(self.0, &mut text[4..]).expect("16 bytes are 32 digits");
        text
    }
}

impl<N: Noun> fmt::Display for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).map_err(|_| fmt::Error)?)
    }
}

impl<N: Noun> FromStr for Id<N> {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text).ok_or_else(|| {
            let rule = format!("is not {}_ and 32 lower-case hex digits", N::PREFIX);
            ParseError::new(text, &rule)
        })
    }
}

impl<N: Noun> Serialize for Id<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text();
        serializer.serialize_str(std::str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de, N: Noun> Deserialize<'de> for Id<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format_args!("not an id of the form {}_…", N::PREFIX))
        })
    }
}

/// Declares the kinds of ids: what each is, its name here and that of its ids, its prefix and its name for people.
macro_rules! nouns {
    ($($(#[$doc:meta])* $noun:ident, $id:ident, $prefix:literal, $name:literal;)+) => {
        /// The kinds of ids.
        pub mod noun {
            $(
                $(#[$doc])*
                #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
                pub struct $noun;

                impl super::Noun for $noun {
                    const PREFIX: &'static str = $prefix;
                    const NAME: &'static str = $name;
                }
            )+
        }

        $(
            #[doc = concat!("`", $prefix, "_…`")]
            pub type $id = Id<noun::$noun>;
        )+
    };
}

nouns! {
    /// A partner.
    Partner, PartnerId, "ptn", "partner";
    /// An API key.
    ApiKey, ApiKeyId, "key", "API key";
    /// A key of the operator.
    OperatorKey, OperatorKeyId, "opk", "operator key";
    /// A session of the console.
    ConsoleSession, ConsoleSessionId, "cns", "console session";
    /// A record of the audit.
    Audit, AuditId, "aud", "audit record";
    /// A booking.
    Booking, BookingId, "bkg", "booking";
    /// A webhook event.
    Event, EventId, "evt", "webhook event";
    /// A webhook endpoint.
    Endpoint, EndpointId, "end", "webhook endpoint";
    /// The resolution of a canceled booking.
    Resolution, ResolutionId, "res", "resolution";
    /// An evidence item.
    EvidenceItem, ItemId, "itm", "evidence item";
    /// A recovery of events.
    Recovery, RecoveryId, "rec", "recovery";
    /// A share of a booking's evidence.
    Share, ShareId, "shr", "share";
    /// A legal hold on a booking.
    Hold, HoldId, "hld", "hold";
    /// A request.
    Request, RequestId, "req", "request";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_in_the_order_they_were_made_and_survive_their_text() {
        let first = BookingId::new(Timestamp::from_ms(1_000), [255; 10]);
        let second = BookingId::new(Timestamp::from_ms(1_001), [0; 10]);
        assert!(first < second && first.to_string() < second.to_string());
        assert_eq!(BookingId::parse(&first.to_string()), Some(first));
        assert_eq!(second.made_at(), Timestamp::from_ms(1_001));
    }

    #[test]
    fn other_texts_name_nothing() {
        let id = BookingId::new(Timestamp::from_ms(0), [7; 10]).to_string();
        for text in [
            "",
            "bkg_",
            "bkg",
            &id.replace("bkg", "ptn"),
            &id.to_uppercase(),
            &id[..35],
            &format!("{id}0"),
            "bkg_0000000000000000000000000000000g",
        ] {
            assert_eq!(BookingId::parse(text), None, "{text}");
        }
        let refused = "ptn_1".parse::<BookingId>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "\"ptn_1\" is not bkg_ and 32 lower-case hex digits"
        );
        assert_eq!(id.parse::<BookingId>().ok(), BookingId::parse(&id));
    }
}
