//! `bookguard.leaf/1`: the bytes of one ledger entry.
//!
//! A leaf holds no personal data: its commitment hides what happened (`event`), and a random stream id hides which booking
//! it happened to. The caller provides the time, the random values and the place in the chain. Invariant: a leaf has one
//! byte form, and it never changes meaning; another form is another version.

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::checkpoint::decimal;
use super::hash::{Hash, leaf_hash};
use super::jcs::MAX_NUMBER;
use crate::model::Timestamp;

/// The version in the `v` of every leaf this module reads and writes.
pub const LEAF_VERSION: &str = "bookguard.leaf/1";
/// Bytes in a stream id.
pub const STREAM_BYTES: usize = 16;
/// The longest leaf that is read, in bytes. A leaf of this version has under 300; one of another version is only read to
/// report the version.
pub const MAX_LEAF_BYTES: usize = 4096;
/// What follows the time in every leaf of this version.
const END: &str = "\",\"v\":\"bookguard.leaf/1\"}";
/// The last millisecond of the year 9999, after which the year would need a fifth digit.
const MAX_TIME: i64 = 253_402_300_799_999;

/// One entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// HMAC over the event's body; see `event`.
    pub commit: [u8; 32],
    /// Leaf hash of the previous entry of the stream; [`Hash::ZERO`] for the first.
    pub prev: Hash,
    /// Position in the stream, from 0.
    pub seq: u64,
    /// Random id of the booking's stream.
    pub stream: [u8; STREAM_BYTES],
    /// When the entry was written, in milliseconds since 1970 UTC.
    pub t: i64,
}

impl Leaf {
    /// The exact bytes that enter the log: canonical JSON (RFC 8785).
    ///
    /// # Errors
    /// [`LeafError::Time`] outside 1970 to 9999, [`LeafError::Seq`] beyond 2^53-1, [`LeafError::Chain`] if `prev` is zero
    /// for any but the first leaf, or not zero for the first.
    pub fn encode(&self) -> Result<Vec<u8>, LeafError> {
        self.check()?;
        let (mut commit, mut stream) = ([0; 43], [0; 43]);
        let (commit, stream) = (
            text_of(&self.commit, &mut commit),
            text_of(&self.stream, &mut stream),
        );
        let (prev, seq, time) = (self.prev, self.seq, Timestamp::from_ms(self.t));
        // Longer than any leaf, so that it is not moved while it grows.
        let mut text = String::with_capacity(288);
        // Already canonical: names are in order, and no value has a character that needs an escape.
        write!(
            text,
            "{{\"commit\":\"{commit}\",\"prev\":\"{prev}\",\"seq\":{seq},\"stream\":\"{stream}\",\
             \"t\":\"{time}\",\"v\":\"{LEAF_VERSION}\"}}"
        )
        .expect("a string takes every text");
        Ok(text.into_bytes())
    }

    /// Reads a leaf.
    ///
    /// # Errors
    /// [`LeafError::Version`] for another version, [`LeafError::Json`] for text that is not a leaf,
    /// [`LeafError::Canonical`] for one that [`Leaf::encode`] would write differently, and the errors of [`Leaf::encode`].
    pub fn parse(bytes: &[u8]) -> Result<Self, LeafError> {
        match std::str::from_utf8(bytes).ok().and_then(Self::read) {
            Some(leaf) => leaf.check().map(|()| leaf),
            None => Err(fault_of(bytes)),
        }
    }

    /// Reads what [`Leaf::encode`] writes, and only that.
    fn read(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("{\"commit\":\"")?;
        let (commit, rest) = rest.split_at_checked(43)?;
        let rest = rest.strip_prefix("\",\"prev\":\"")?;
        let (prev, rest) = rest.split_at_checked(64)?;
        let rest = rest.strip_prefix("\",\"seq\":")?;
        let (seq, rest) = rest.split_once(',')?;
        let rest = rest.strip_prefix("\"stream\":\"")?;
        let (stream, rest) = rest.split_at_checked(22)?;
        let rest = rest.strip_prefix("\",\"t\":\"")?;
        let (t, rest) = rest.split_at_checked(24)?;
        (rest == END).then_some(())?;
        Some(Self {
            commit: bytes_of(commit)?,
            prev: prev.parse().ok()?,
            seq: decimal(seq)?,
            stream: bytes_of(stream)?,
            t: Timestamp::read(t)?.ms(),
        })
    }

    /// When a leaf was written, from its bytes alone: for scans of millions of leaves that are read in full elsewhere.
    /// `None` for bytes that do not end like a leaf.
    #[cfg(feature = "store")]
    pub(crate) fn written_at(bytes: &[u8]) -> Option<i64> {
        let rest = bytes.strip_suffix(END.as_bytes())?;
        let time = rest.get(rest.len().checked_sub(24)?..)?;
        Timestamp::parse(std::str::from_utf8(time).ok()?).map(Timestamp::ms)
    }

    /// The hash of the encoded leaf, which the next leaf of the stream holds in `prev`, and from which the tree is built.
    ///
    /// # Errors
    /// Those of [`Leaf::encode`].
    pub fn hash(&self) -> Result<Hash, LeafError> {
        self.encode().map(|bytes| leaf_hash(&bytes))
    }

    fn check(&self) -> Result<(), LeafError> {
        if !(0..=MAX_TIME).contains(&self.t) {
            return Err(LeafError::Time);
        }
        // Canonical JSON has no larger exact integers.
        if self.seq > MAX_NUMBER {
            return Err(LeafError::Seq);
        }
        if (self.seq == 0) != (self.prev == Hash::ZERO) {
            return Err(LeafError::Chain { seq: self.seq });
        }
        Ok(())
    }
}

/// Why these bytes are not the one form of a leaf, beginning with their version.
fn fault_of(bytes: &[u8]) -> LeafError {
    if bytes.len() > MAX_LEAF_BYTES {
        return LeafError::TooLong(bytes.len());
    }
    let wire: Wire = match serde_json::from_slice(bytes) {
        Ok(wire) => wire,
        // A leaf of another version may hold anything.
        Err(error) => match serde_json::from_slice(bytes) {
            Ok(Versioned { v }) if v != LEAF_VERSION => return LeafError::Version(v),
            Ok(_) => return json(error),
            Err(error) => return json(error),
        },
    };
    if wire.v != LEAF_VERSION {
        return LeafError::Version(wire.v.to_owned());
    }
    let leaf = || {
        Ok(Leaf {
            commit: bytes_of(wire.commit).ok_or(LeafError::Field("commit"))?,
            prev: wire.prev.parse().map_err(|_| LeafError::Field("prev"))?,
            seq: wire.seq,
            stream: bytes_of(wire.stream).ok_or(LeafError::Field("stream"))?,
            t: Timestamp::parse(wire.t).ok_or(LeafError::Field("t"))?.ms(),
        })
    };
    match leaf().and_then(|leaf| leaf.check()) {
        Err(fault) => fault,
        Ok(()) => LeafError::Canonical,
    }
}

/// Any JSON object with a version, whatever else it contains.
#[derive(Deserialize)]
pub(super) struct Versioned {
    pub(super) v: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    commit: &'a str,
    prev: &'a str,
    seq: u64,
    stream: &'a str,
    t: &'a str,
    v: &'a str,
}

/// Reads unpadded base64url of exactly `N` bytes.
pub(crate) fn bytes_of<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Checked before decoding, because the text may come from anyone.
    if text.len() != (N * 8).div_ceil(6) {
        return None;
    }
    let mut bytes = [0; N];
    let read = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    (read == N).then_some(bytes)
}

/// Writes at most 32 bytes as unpadded base64url into `room`: packets hold hundreds of them.
pub(crate) fn text_of<'a, const N: usize>(bytes: &[u8; N], room: &'a mut [u8; 43]) -> &'a str {
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, room.as_mut_slice());
    let written = written.expect("43 characters hold 32 bytes in unpadded base64");
    std::str::from_utf8(&room[..written]).expect("base64 is ASCII")
}

fn json(error: serde_json::Error) -> LeafError {
    LeafError::Json(error.to_string())
}

/// Why bytes are not a leaf, or a leaf cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum LeafError {
    /// A leaf of this unknown version.
    Version(String),
    /// Longer than [`MAX_LEAF_BYTES`].
    TooLong(usize),
    /// Not the JSON of a leaf; the parser's message.
    Json(String),
    /// This field has the wrong form.
    Field(&'static str),
    /// The right content, written differently.
    Canonical,
    /// The time is outside the years 1970 to 9999.
    Time,
    /// The position exceeds 2^53-1.
    Seq,
    /// `prev` is zero although leaves precede this one, or not zero although none does.
    Chain {
        /// Position in the stream.
        seq: u64,
    },
}

impl fmt::Display for LeafError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(found) => write!(
                f,
                "the ledger entry is of version {found:?}; this program reads {LEAF_VERSION}"
            ),
            Self::TooLong(bytes) => write!(
                f,
                "a ledger entry has at most {MAX_LEAF_BYTES} bytes, not {bytes}"
            ),
            Self::Json(error) => write!(f, "this is not a ledger entry: {error}"),
            Self::Field(name) => write!(f, "field {name} of the ledger entry is malformed"),
            Self::Canonical => {
                f.write_str("the ledger entry is not in canonical form, so it is not the original")
            }
            Self::Time => f.write_str("a ledger entry's time lies in the years 1970 to 9999"),
            Self::Seq => write!(f, "a ledger entry's seq is at most {MAX_NUMBER}"),
            Self::Chain { seq: 0 } => {
                f.write_str("the first entry of a stream has 64 zeros as its prev")
            }
            Self::Chain { seq } => write!(
                f,
                "entry {seq} of a stream must name the hash of the entry before it as its prev, not zeros"
            ),
        }
    }
}

impl std::error::Error for LeafError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: &str = "{\"commit\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\",\
        \"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"seq\":0,\
        \"stream\":\"AgICAgICAgICAgICAgICAg\",\"t\":\"2026-11-05T10:00:00.000Z\",\"v\":\"bookguard.leaf/1\"}";

    fn first() -> Leaf {
        Leaf {
            commit: [1; 32],
            prev: Hash::ZERO,
            seq: 0,
            stream: [2; 16],
            t: 1_793_872_800_000,
        }
    }

    #[test]
    fn a_leaf_is_written_exactly_as_designed() {
        assert_eq!(String::from_utf8(first().encode().unwrap()).unwrap(), FIRST);
        assert_eq!(Leaf::parse(FIRST.as_bytes()), Ok(first()));
        assert_eq!(first().hash(), Ok(leaf_hash(FIRST.as_bytes())));
    }

    #[cfg(feature = "store")]
    #[test]
    fn the_time_of_a_leaf_is_found_without_reading_it() {
        assert_eq!(Leaf::written_at(FIRST.as_bytes()), Some(first().t));
        for other in ["", "{}", &FIRST[60..], "\",\"v\":\"bookguard.leaf/1\"}"] {
            assert_eq!(
                Leaf::written_at(other.as_bytes()).is_some(),
                other.len() > 60,
                "{other}"
            );
        }
    }

    #[test]
    fn a_leaf_with_any_bit_flipped_is_refused_or_another_leaf() {
        for at in 0..FIRST.len() {
            for bit in 0..8 {
                let mut bytes = FIRST.as_bytes().to_vec();
                bytes[at] ^= 1 << bit;
                match Leaf::parse(&bytes) {
                    Ok(other) => {
                        assert_ne!(other, first(), "byte {at} bit {bit}");
                        assert_eq!(other.encode().unwrap(), bytes);
                    }
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
    }

    #[test]
    fn a_leaf_spelled_in_any_other_way_is_refused() {
        for (from, to) in [
            ("{\"commit\"", "{ \"commit\""),
            (
                "\"v\":\"bookguard.leaf/1\"}",
                "\"v\":\"bookguard.leaf/1\"}\n",
            ),
            (
                "\"v\":\"bookguard.leaf/1\"}",
                "\"v\":\"bookguard.leaf/1\"}{}",
            ),
            ("\"v\":\"bookguard.leaf/1\"", "\"v\":\"bookguard.leaf\\/1\""),
            ("\"v\":", "\"v\":\"bookguard.leaf/1\",\"v\":"),
            ("\"seq\":0", "\"seq\":0,\"seq\":0"),
            ("\"seq\":0", "\"seq\":00"),
            ("\"seq\":0", "\"seq\":-0"),
            ("\"seq\":0", "\"seq\":-1"),
            ("\"seq\":0", "\"seq\":0.0"),
            ("\"seq\":0", "\"seq\":0e0"),
            ("\"seq\":0", "\"seq\":\"0\""),
            ("\"seq\":0", "\"seq\":1"),
            ("\"seq\":0,", ""),
            ("\"seq\":0", "\"more\":1,\"seq\":0"),
            ("BAQE\"", "BAQE=\""),
            ("BAQE\"", "BAQF\""),
            ("AgICAg\"", "AgICAh\""),
            ("AgICAg\"", "AgICAgIC\""),
            ("\"0000", "\"000"),
            ("\"0000", "\"A000"),
            ("000Z", "00Z"),
            ("000Z", "0000Z"),
            (".000Z", "Z"),
            ("000Z", "000+00:00"),
            ("2026", "02026"),
            ("2026", "+2026"),
            ("2026-11-05T10:00:00", "2026-11-05 10:00:00"),
            ("T10:00:00", "T24:00:00"),
            ("T10:00:00", "T10:00:60"),
            ("2026-11-05", "2026-02-29"),
            ("2026-11-05", "1969-12-31"),
        ] {
            let changed = FIRST.replacen(from, to, 1);
            assert_ne!(changed, FIRST, "{from} is not in the leaf");
            let refused = Leaf::parse(changed.as_bytes());
            assert!(refused.is_err(), "{changed}");
        }
        let first_member = "\"commit\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\",";
        let moved = FIRST.replace(first_member, "").replace('}', "");
        let moved = format!("{moved},{}}}", first_member.trim_end_matches(','));
        assert_eq!(Leaf::parse(moved.as_bytes()), Err(LeafError::Canonical));
        for (from, to, error) in [
            ("T10:00:00", "T10:00:60", LeafError::Field("t")),
            ("\"seq\":0", "\"seq\":9007199254740992", LeafError::Seq),
            ("BAQE\"", "BAQF\"", LeafError::Field("commit")),
            ("AgICAg\"", "AgICA\u{e9}\"", LeafError::Field("stream")),
            ("\"0000", "\"\u{e9}00", LeafError::Field("prev")),
            ("000Z", "00\u{e9}", LeafError::Field("t")),
        ] {
            let changed = FIRST.replacen(from, to, 1);
            assert_eq!(Leaf::parse(changed.as_bytes()), Err(error), "{changed}");
        }
        let long = vec![b' '; MAX_LEAF_BYTES + 1];
        assert_eq!(Leaf::parse(&long), Err(LeafError::TooLong(long.len())));
    }

    #[test]
    fn the_version_is_judged_before_anything_else() {
        for text in [
            r#"{"v":"bookguard.leaf/2"}"#,
            r#"{"seq":-1,"other":{},"v":"bookguard.leaf/2"}"#,
        ] {
            let error = Leaf::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error, LeafError::Version("bookguard.leaf/2".to_owned()));
        }
        for text in ["", "{}", "[]", "{\"v\":1}"] {
            let error = Leaf::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error, LeafError::Json(_)), "{text}");
        }
    }

    #[test]
    fn a_leaf_out_of_place_or_time_has_no_bytes() {
        let leaf = first();
        #[rustfmt::skip]
        let cases = [
            (Leaf { t: -1, ..leaf.clone() }, LeafError::Time),
            (Leaf { t: MAX_TIME + 1, ..leaf.clone() }, LeafError::Time),
            (Leaf { t: i64::MAX, ..leaf.clone() }, LeafError::Time),
            (Leaf { seq: 1, ..leaf.clone() }, LeafError::Chain { seq: 1 }),
            (Leaf { prev: leaf_hash(b""), ..leaf.clone() }, LeafError::Chain { seq: 0 }),
            (Leaf { prev: leaf_hash(b""), seq: MAX_NUMBER + 1, ..leaf.clone() }, LeafError::Seq),
        ];
        for (bad, error) in cases {
            assert_eq!(bad.encode(), Err(error));
        }
        let last = Leaf {
            t: MAX_TIME,
            ..leaf
        };
        let bytes = String::from_utf8(last.encode().unwrap()).unwrap();
        assert!(bytes.contains("\"t\":\"9999-12-31T23:59:59.999Z\""));
    }

    proptest! {
        #[test]
        fn every_leaf_is_canonical_json_and_read_back(
            commit: [u8; 32], prev: [u8; 32], seq in 1..=MAX_NUMBER, stream: [u8; 16], t in 0..=MAX_TIME,
        ) {
            let leaf = Leaf { commit, prev: Hash(prev), seq, stream, t };
            let bytes = leaf.encode().unwrap();
            let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(serde_json_canonicalizer::to_vec(&value).unwrap(), bytes.clone());
            prop_assert_eq!(Leaf::parse(&bytes), Ok(leaf));
        }
    }
}
