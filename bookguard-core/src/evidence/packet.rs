//! The evidence packet: everything about a booking in one signed document that can be checked offline.
//!
//! The caller brings the stored data to make a packet; `verify` checks it. The document is canonical JSON (RFC 8785),
//! signed as a whole by the ledger key: a C2SP signed note that holds its [`SignedStatement`].
//! So every byte is covered, including those that the ledger itself does not prove. Invariant: the text of a
//! [`SealedPacket`] is never serialized again on its way to its recipient.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "store")]
use bytes::Bytes;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::acceptance::Acceptance;
use super::frozen::FrozenTerms;
use super::item::EvidenceItem;
use super::notification::Notification;
use super::state::BookingState;
use super::statement::{SignedStatement, digest};
use super::summary::Summary;
use super::withheld::Withheld;
use crate::error::Error;
use crate::ledger::jcs::CanonicalText;
use crate::ledger::{Disclosure, EventBody, Signer};
use crate::limits::PACKET_BYTES;
use crate::model::{Booking, DeliveryStatus, EndpointId, EventId, RecordedEventType, Timestamp};
use crate::policy::{
    self, Actor, Evaluation, Mode, Policy, Question, Resolution, Terms, TermsDisclosure,
};

/// The `type` of every packet this module makes and reads.
pub const PACKET_TYPE: &str = "bookguard.evidence/1";
/// The member that holds the note over a packet.
pub(super) const SIGNATURE: &str = "signature";

// Members are declared in canonical order, here and in entries, so that `CanonicalText` need not reorder them.
/// An evidence packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(
    rename = "EvidencePacket",
    rename_all = "camelCase",
    deny_unknown_fields
)]
pub struct Packet {
    /// The acceptances of the texts in `termsDisclosures`, oldest first.
    pub acceptances: Vec<Acceptance>,
    /// The booking as `GET /v1/bookings/{bookingId}` shows it.
    pub booking: Booking,
    /// Shows that no entry was left out of those that the ledger has mapped; absent until its map covers all entries of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness: Option<Completeness>,
    /// When the packet was made.
    pub created_at: Timestamp,
    /// What was sent to the partner. The ledger proves how each delivery ended; the rest, such as hosts and earlier
    /// attempts, is only the service's statement.
    pub deliveries: Vec<PacketDelivery>,
    /// The booking's ledger entries, oldest first.
    pub entries: Vec<PacketEntry>,
    /// The result of a cancellation by the organizer at `createdAt`, or of the recorded cancellation.
    pub evaluation: Option<Evaluation>,
    /// The terms before each move of the event, oldest first; empty if it was never moved.
    pub former_terms: Vec<FrozenTerms>,
    /// The evidence items that the partner added, oldest first.
    pub items: Vec<EvidenceItem>,
    /// The ledger; only a hint, because verifiers pin its key themselves.
    pub log: LogHint,
    /// The registered name of the booking's partner, as the service states it.
    pub partner_name: String,
    /// The policy that applies to the booking.
    pub policy: Option<Policy>,
    /// `sha256:` and the hex digest of the policy's canonical text.
    pub policy_hash: Option<String>,
    /// The booking's resolution; null if it is not canceled.
    pub resolution: Option<Resolution>,
    /// C2SP signed note by the ledger key: the SHA-256 of this document's RFC 8785 text without this member, and how far
    /// the booking's chain reached in the log.
    pub signature: String,
    /// The booking's random stream id in the ledger.
    pub stream: String,
    /// The packet in sentences.
    pub summary: Summary,
    /// The terms in force: frozen when the booking was recorded, or when its event was last moved.
    pub terms: FrozenTerms,
    /// The texts of the terms to show: before each change of date, then those of the terms in force.
    pub terms_disclosures: Vec<TermsDisclosure>,
    /// A time-stamp over the entries, and its renewals; absent if they are not yet time-stamped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timestamps: Vec<PacketTimestamp>,
    /// `bookguard.evidence/1`.
    #[serde(rename = "type")]
    pub packet_type: String,
    /// The names of values that this copy does not show, sorted; empty in the partner's own packet. Their digests stay in
    /// the entries. A party is shown as `withheld`, other values are absent.
    pub withheld: Vec<Withheld>,
}

/// The ledger that proves a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(deny_unknown_fields)]
pub struct LogHint {
    /// The ledger's name.
    pub origin: String,
    /// Its verifier key in C2SP note form.
    pub vkey: String,
}

/// A ledger entry with the values that open its commitment, and its proof.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(deny_unknown_fields)]
pub struct PacketEntry {
    /// The event body the leaf commits to.
    pub body: EventBody,
    /// The event's values, each with its salt, sorted by name.
    pub disclosures: Vec<Disclosure>,
    /// The exact leaf bytes, base64.
    pub leaf: String,
    /// C2SP tlog-proof of the leaf.
    pub proof: String,
    /// The commitment's salt, unpadded base64url.
    pub salt: String,
}

/// The value of the booking's stream in the map that the log commits to: the number of its entries, and the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(deny_unknown_fields)]
pub struct Completeness {
    /// The entry that commits to the map.
    pub entry: PacketEntry,
    /// The path through the map, from the stream's leaf to the root.
    pub path: Vec<CompletenessStep>,
}

/// A node of the map on the path of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(deny_unknown_fields)]
pub struct CompletenessStep {
    /// The bit of the keys at which it stands.
    pub bit: u8,
    /// The hash of its other child, base64.
    pub hash: String,
}

/// A time-stamp (RFC 3161) of a checkpoint of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(deny_unknown_fields)]
pub struct PacketTimestamp {
    /// The checkpoint, signed. The SHA-256 of its text is what was stamped.
    pub checkpoint: String,
    /// The hashes, base64, which prove that the log of the entries' proofs continues the checkpoint.
    pub consistency: Vec<String>,
    /// What the time-stamp authority answered, base64.
    pub response: String,
    /// The entry that commits to the answer; null unless the next time-stamp is over it and so renews this one.
    pub anchor: Option<PacketEntry>,
}

/// The delivery of one event to one endpoint, or an event without a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PacketDelivery {
    /// The event.
    pub event_id: EventId,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: RecordedEventType,
    /// The endpoint; null if the event has no delivery.
    pub endpoint_id: Option<EndpointId>,
    /// Scheme and host of the address that the last attempt went to or, before the first, of the endpoint's: `unknown://` if the
    /// service does not know it any more. The rest may hold a token and is shown to the partner only.
    pub url: Option<String>,
    /// The delivery's status.
    pub status: DeliveryStatus,
    /// Attempts made.
    pub attempts: u32,
    /// How it ended, exactly as the ledger records it: empty while it is open; two records if it was given up, retried by
    /// hand and then accepted.
    pub recorded: Vec<Notification>,
    /// The latest attempts, oldest first, at most 20.
    pub history: Vec<PacketAttempt>,
}

/// One attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PacketAttempt {
    /// When it began.
    pub started_at: Timestamp,
    /// The response's status; null if there was no response.
    pub status_code: Option<u16>,
    /// Why it failed; null if the receiver accepted.
    pub error: Option<String>,
}

/// What a packet shows of an address that the service does not know: a scheme that there is not, and no host.
pub const UNKNOWN_ADDRESS: &str = "unknown://";

/// The part of an endpoint's address that any reader of a packet may see: scheme, host and port. User, path and query may
/// hold tokens. An address without a scheme shows nothing.
pub fn shown_address(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return String::new();
    };
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// The question that every packet answers: what if the organizer canceled when the packet was made?
pub fn question(created_at: Timestamp) -> Question {
    Question {
        mode: Mode::Evaluate,
        actor: Actor::Organizer,
        reason: None,
        at: None,
        received_at: created_at,
        evidence: 0,
        agreed_refund: None,
    }
}

/// The answer to it; `None` if the terms give none.
pub fn evaluate(state: &BookingState, terms: &Terms, created_at: Timestamp) -> Option<Evaluation> {
    let recorded = state.resolution().map(Resolution::recorded);
    let subject = state.subject(terms, recorded.as_ref());
    policy::evaluate(&subject, &question(created_at)).ok()
}

impl Packet {
    /// Signs the packet and replaces its `signature`.
    ///
    /// # Errors
    /// A number that canonical JSON cannot represent exactly, or a last entry without a proof.
    pub fn seal(&self, signer: &Signer) -> Result<SealedPacket, Error> {
        let fault = |e: &dyn fmt::Display| {
            Error::internal(format!(
                "the packet of booking {} cannot be written: {e}",
                self.booking.booking_id
            ))
        };
        let document = CanonicalText::of(self).map_err(|e| fault(&e))?;
        let statement = SignedStatement::of(self, digest(&document)).map_err(|e| fault(&e))?;
        let note = (signer.sign(&statement.to_string())).map_err(|e| fault(&e))?;
        let mut text = document.with(SIGNATURE, &note);
        // Packets are cached, so the spare capacity must go.
        text.shrink_to_fit();
        Ok(SealedPacket {
            text: text.into(),
            tag: None,
        })
    }
}

/// A signed packet: its exact text. Its serde form is that text, byte for byte.
#[derive(Debug, Clone)]
pub struct SealedPacket {
    text: Arc<String>,
    /// A digest of its contents, without the time it was made; only its maker knows it.
    tag: Option<Arc<str>>,
}

impl From<Box<RawValue>> for SealedPacket {
    fn from(text: Box<RawValue>) -> Self {
        Self {
            text: String::from(Box::<str>::from(text)).into(),
            tag: None,
        }
    }
}

impl SealedPacket {
    /// The exact text: to keep, to pass on and to verify.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The exact text as an answer's body, without copying it.
    #[cfg(feature = "store")]
    pub(crate) fn bytes(&self) -> Bytes {
        struct Shared(Arc<String>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                self.0.as_bytes()
            }
        }
        Bytes::from_owner(Shared(Arc::clone(&self.text)))
    }

    /// Whether verifiers refuse it for its length.
    pub fn is_too_long(&self) -> bool {
        self.text.len() > PACKET_BYTES
    }

    /// Adds the tag of its contents.
    #[cfg(feature = "store")]
    pub(crate) fn tagged(self, tag: &str) -> Self {
        Self {
            tag: Some(tag.into()),
            ..self
        }
    }

    /// The tag that the service gave its contents: packets with the same tag differ only in when they were made, and
    /// against which state of the ledger. `None` for a received packet.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Parses the packet. This proves nothing: see [`verify`](super::verify()).
    ///
    /// # Errors
    /// The parser's error, if this is not a packet.
    pub fn read(&self) -> serde_json::Result<Packet> {
        serde_json::from_str(self.text())
    }
}

impl PartialEq for SealedPacket {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for SealedPacket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Only a raw value is written byte for byte.
        let text: &RawValue = serde_json::from_str(&self.text).map_err(S::Error::custom)?;
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SealedPacket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::{UNKNOWN_ADDRESS, shown_address};

    #[test]
    fn of_an_address_a_packet_shows_scheme_host_and_port() {
        for (url, shown) in [
            ("https://example.com/hook/T0/s3cret", "https://example.com"),
            ("https://example.com?token=s3cret", "https://example.com"),
            ("https://example.com#s3cret", "https://example.com"),
            ("https://example.com", "https://example.com"),
            ("http://127.0.0.1:8080/s3cret", "http://127.0.0.1:8080"),
            (
                "https://[2001:db8::1]:8443/s3cret",
                "https://[2001:db8::1]:8443",
            ),
            ("https://user:s3cret@example.com/", "https://example.com"),
            ("https://example.com/s3cret@other", "https://example.com"),
            ("https://example.com\\s3cret", "https://example.com"),
            ("s3cret", ""),
            (UNKNOWN_ADDRESS, UNKNOWN_ADDRESS),
        ] {
            assert_eq!(shown_address(url), shown, "{url}");
        }
    }
}
