//! `bookguard.event/1`: a fact that a leaf commits to, disclosed field by field.
//!
//! A body holds a digest of each field instead of the field; a [`Disclosure`] is a field with the salt of its digest. The
//! caller decides which fields an event has, and where salts and disclosures are stored. Invariant: once the 32-byte random
//! salts are deleted, no field can be guessed; while they exist, only what was committed to can be shown.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::jcs::{compare_names, write_string, write_value};
use super::leaf::{Leaf, text_of};

mod opening;
mod wire;

#[doc(hidden)]
pub use opening::Opening;

/// The version in the `v` of every event body this module reads and writes.
pub const EVENT_VERSION: &str = "bookguard.event/1";
/// Bytes in a salt, a digest and a commitment.
pub const SALT_BYTES: usize = 32;

/// The kind of fact that a leaf records. The set is closed: a leaf of one kind never stands for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum LeafKind {
    /// A booking was created.
    BookingCreated,
    /// A booking was protected: everything recorded of it, and its terms, are locked.
    BookingProtected,
    /// A booking's event was moved to another date: its new frozen terms.
    BookingRescheduled,
    /// A party accepted a booking's terms as they were disclosed.
    TermsAccepted,
    /// A booking was canceled.
    BookingCanceled,
    /// A cancellation was resolved.
    ResolutionCreated,
    /// The partner added an item of evidence to a booking.
    EvidenceAdded,
    /// Values of a booking's earlier entries were erased.
    EvidenceErased,
    /// A webhook delivery reached its end.
    WebhookSettled,
    /// The log itself continues under a new name after a loss of entries. Belongs to no booking.
    LogContinued,
    /// A time-stamp authority stamped a checkpoint of the log. Belongs to no booking.
    LogAnchored,
    /// The map of the log's first entries. Belongs to no booking.
    LogMapped,
}

impl LeafKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::BookingCreated,
        Self::BookingProtected,
        Self::BookingRescheduled,
        Self::TermsAccepted,
        Self::BookingCanceled,
        Self::ResolutionCreated,
        Self::EvidenceAdded,
        Self::EvidenceErased,
        Self::WebhookSettled,
        Self::LogContinued,
        Self::LogAnchored,
        Self::LogMapped,
    ];

    /// The kind's name in the body.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BookingCreated => "booking.created",
            Self::BookingProtected => "booking.protected",
            Self::BookingRescheduled => "booking.rescheduled",
            Self::TermsAccepted => "terms.accepted",
            Self::BookingCanceled => "booking.canceled",
            Self::ResolutionCreated => "resolution.created",
            Self::EvidenceAdded => "evidence.added",
            Self::EvidenceErased => "evidence.erased",
            Self::WebhookSettled => "webhook.settled",
            Self::LogContinued => "log.continued",
            Self::LogAnchored => "log.anchored",
            Self::LogMapped => "log.mapped",
        }
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LeafKind {
    type Err = EventError;

    fn from_str(text: &str) -> Result<Self, EventError> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| EventError::Kind(text.to_owned()))
    }
}

/// The body that a leaf commits to. As JSON: `{"kind","sd","v"}`, with digests in unpadded base64url.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct EventBody {
    /// The name of the fact's kind; [`LeafKind`] for those this program knows.
    pub kind: String,
    /// By field name: HMAC-SHA256(field salt, JCS(`[name, value]`)).
    pub sd: BTreeMap<String, [u8; 32]>,
}

impl EventBody {
    /// The body of an event with these fields.
    ///
    /// # Errors
    /// [`EventError::Number`] for a value that cannot be committed to.
    pub fn of(kind: &str, fields: &[Disclosure]) -> Result<Self, EventError> {
        let mut scratch = Vec::with_capacity(256);
        let digests = fields.iter().map(|field| {
            let digest = digest_into(&mut scratch, &field.name, &field.value, &field.salt)?;
            Ok((field.name.clone(), digest))
        });
        Ok(Self {
            sd: digests.collect::<Result<_, EventError>>()?,
            kind: kind.to_owned(),
        })
    }

    /// The canonical JSON that is committed to (RFC 8785).
    #[must_use]
    pub fn to_canonical(&self) -> String {
        let fields = self
            .sd
            .iter()
            .map(|(name, digest)| (name.as_str(), *digest));
        let mut fields: Vec<_> = fields.collect();
        // The map is in UTF-8 order.
        fields.sort_by(|(a, _), (b, _)| compare_names(a, b));
        write_body(&self.kind, &fields)
    }

    /// HMAC-SHA256(salt, canonical body): the `commit` of the leaf.
    #[must_use]
    pub fn commit(&self, salt: &[u8; SALT_BYTES]) -> [u8; 32] {
        hmac(salt, self.to_canonical().as_bytes())
    }

    /// Checks that the leaf commits to this body under this salt.
    ///
    /// # Errors
    /// [`EventError::Commit`].
    pub fn verify(&self, leaf: &Leaf, salt: &[u8; SALT_BYTES]) -> Result<(), EventError> {
        if self.commit(salt) != leaf.commit {
            return Err(EventError::Commit);
        }
        Ok(())
    }
}

/// A field of an event with the salt of its digest. As JSON: `{"name","salt","value"}`, the salt in unpadded base64url.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Disclosure {
    /// The field's name.
    pub name: String,
    /// The salt. With it the value can be proven; without it the value cannot even be guessed.
    #[serde(with = "wire::salt")]
    pub salt: [u8; SALT_BYTES],
    /// The field's value. Numbers lie within ±(2^53-1).
    #[serde(deserialize_with = "super::jcs::deserialize")]
    pub value: Value,
}

/// Shows the name only: values are personal data, and only the salts keep them from being guessed.
impl fmt::Debug for Disclosure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disclosure")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A commitment to an event, and the salts that open it together with the fields.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The commitment that the leaf holds.
    pub commit: [u8; 32],
    /// Salt of the commitment.
    pub salt: [u8; SALT_BYTES],
    /// The fields' salts, in the order of the fields, 32 bytes each.
    pub salts: Vec<u8>,
}

/// Shows the commitment only: only the salts keep the fields from being guessed.
impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed")
            .field("commit", &hex::encode(self.commit))
            .finish_non_exhaustive()
    }
}

/// Commits to the fields of an event. `salt` is called once per field, then once for the body; each result must be fresh
/// and random.
///
/// # Errors
/// [`EventError::Number`] for a field with a number beyond 2^53-1.
#[doc(hidden)]
pub fn seal(
    kind: LeafKind,
    fields: &Map<String, Value>,
    mut salt: impl FnMut() -> [u8; SALT_BYTES],
) -> Result<Sealed, EventError> {
    let mut salts = Vec::with_capacity(SALT_BYTES * fields.len());
    let mut digests = Vec::with_capacity(fields.len());
    let mut scratch = Vec::with_capacity(256);
    for (name, value) in fields {
        let salt = salt();
        let digest = digest_into(&mut scratch, name, value, &salt)?;
        digests.push((name.as_str(), digest));
        salts.extend(salt);
    }
    // The map is in UTF-8 order.
    digests.sort_by(|(a, _), (b, _)| compare_names(a, b));
    let salt = salt();
    Ok(Sealed {
        commit: hmac(&salt, write_body(kind.as_str(), &digests).as_bytes()),
        salt,
        salts,
    })
}

/// The salts of an event that is stored as one seed instead of as single salts: the n-th, counted from 0, is SHA-256(seed,
/// n as four bytes, big-endian). The fields come first, in their order, then the body.
///
/// A disclosed salt reveals nothing about the seed or other salts. To make a single field unprovable, store the other salts
/// one by one and delete the seed.
#[doc(hidden)]
pub fn salts(seed: &[u8; SALT_BYTES]) -> impl FnMut() -> [u8; SALT_BYTES] + use<> {
    let seeded = Sha256::new_with_prefix(seed);
    let mut n = 0_u32;
    move || {
        let salt = seeded.clone().chain_update(n.to_be_bytes()).finalize();
        n += 1;
        salt.into()
    }
}

/// The digest of a field, as in an event's body.
///
/// # Errors
/// [`EventError::Number`] for a value that cannot be committed to.
pub fn field_digest(
    name: &str,
    value: &Value,
    salt: &[u8; SALT_BYTES],
) -> Result<[u8; 32], EventError> {
    digest_into(&mut Vec::new(), name, value, salt)
}

/// Checks that the event had this field with this value.
///
/// # Errors
/// [`EventError::Unknown`] for a name the event does not have, [`EventError::Disclosure`] for another value or salt,
/// [`EventError::Number`] for a value that cannot be committed to.
pub fn verify_disclosure(body: &EventBody, disclosure: &Disclosure) -> Result<(), EventError> {
    let Disclosure { name, salt, value } = disclosure;
    let committed = body
        .sd
        .get(name)
        .ok_or_else(|| EventError::Unknown(name.clone()))?;
    if digest_into(&mut Vec::new(), name, value, salt)? != *committed {
        return Err(EventError::Disclosure(name.clone()));
    }
    Ok(())
}

/// HMAC-SHA256(salt, JCS(`[name, value]`)), with `scratch` for the canonical bytes.
fn digest_into(
    scratch: &mut Vec<u8>,
    name: &str,
    value: &Value,
    salt: &[u8; SALT_BYTES],
) -> Result<[u8; 32], EventError> {
    scratch.clear();
    scratch.push(b'[');
    write_string(scratch, name);
    scratch.push(b',');
    write_value(scratch, value).map_err(|_| EventError::Number(name.to_owned()))?;
    scratch.push(b']');
    Ok(hmac(salt, scratch))
}

/// The canonical body of fields in canonical order.
fn write_body(kind: &str, fields: &[(&str, [u8; 32])]) -> String {
    // Name, quotes, colon, comma and 43 characters of digest; escapes, if any, make it grow.
    let estimate: usize = fields.iter().map(|(name, _)| name.len() + 49).sum();
    let mut out = Vec::with_capacity(estimate + kind.len() + 48);
    out.extend_from_slice(b"{\"kind\":");
    write_string(&mut out, kind);
    out.extend_from_slice(b",\"sd\":{");
    for (at, (name, digest)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(&mut out, name);
        out.extend_from_slice(b":\"");
        out.extend_from_slice(text_of(digest, &mut [0; 43]).as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b"},\"v\":");
    write_string(&mut out, EVENT_VERSION);
    out.push(b'}');
    String::from_utf8(out).expect("only ASCII is added to what names contain")
}

fn hmac(key: &[u8; SALT_BYTES], message: &[u8]) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.chain_update(message).finalize().into_bytes().into()
}

/// Why an event, its commitment or a disclosure is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum EventError {
    /// A body of this unknown version.
    Version(String),
    /// A kind this program does not know.
    Kind(String),
    /// The leaf commits to another body, or under another salt.
    Commit,
    /// The event has no field of this name.
    Unknown(String),
    /// The event has this field with another value, or under another salt.
    Disclosure(String),
    /// The value of this field contains a number beyond 2^53-1.
    Number(String),
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(found) => write!(
                f,
                "the event is of version {found:?}; this program reads {EVENT_VERSION}"
            ),
            Self::Kind(found) => write!(f, "{found:?} is not a kind of ledger entry"),
            Self::Commit => {
                f.write_str("the ledger entry does not commit to this body under this salt")
            }
            Self::Unknown(name) => write!(f, "the event has no field {name}"),
            Self::Disclosure(name) => write!(
                f,
                "the disclosed value or salt of field {name} is not the one committed to"
            ),
            Self::Number(name) => write!(
                f,
                "field {name} contains a number beyond 2^53-1; such numbers are written as strings"
            ),
        }
    }
}

impl std::error::Error for EventError {}

#[cfg(test)]
mod tests;
