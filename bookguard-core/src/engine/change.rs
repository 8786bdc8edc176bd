//! Every effect that a command can have. The store writes changes; [`crate::engine::batch::BatchState`] makes them
//! visible to the next command of the same batch.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::engine::batch::LoadedBooking;
use crate::engine::command::{
    KeptPolicy, NewBooking, NewKey, NewOperatorKey, StoredConsoleSession, StoredOperatorSession,
};
use crate::evidence::facts::{LeafPlace, SealedFact};
use crate::evidence::{LoggedEpoch, StoredHold, StoredShare};
use crate::ledger::Hash;
use crate::ledger::event::Opening;
use crate::ledger::rollback::PublishedHead;
use crate::limits::{self, FILE_PART_BYTES};
use crate::model::{
    ApiKeyId, AuditId, AuditRecord, BookingId, Endpoint, EndpointHealth, EndpointId, EventId,
    EventType, FileState, Partner, PartnerId, PartnerSettings, PartnerStatus, Quota, Recovery,
    StoredCosignature, Timestamp, WitnessState,
};
use crate::webhook::{Attempt, SecretTerm};

/// One effect of an accepted command.
#[derive(Debug, Clone)]
pub enum Change {
    /// A partner was added.
    PartnerAdded {
        /// The partner.
        partner: Box<Partner>,
        /// Its sealed signing secret.
        secret: Vec<u8>,
    },
    /// A partner's name or contact was corrected.
    PartnerEdited(Box<Partner>),
    /// A partner's status changed.
    PartnerStatusChanged(PartnerId, PartnerStatus),
    /// A key of a partner was added.
    KeyAdded(PartnerId, Box<NewKey>),
    /// A key was revoked, or works for less time.
    KeyStandingChanged(ApiKeyId, KeyStanding),
    /// The owner of a key was told that it will expire.
    KeyExpiryTold(ApiKeyId),
    /// An operator key was added.
    OperatorKeyAdded(Box<NewOperatorKey>),
    /// An operator key was revoked.
    OperatorKeyRevoked(Box<NewOperatorKey>),
    /// A console session, or a link to one, was added.
    ConsoleSessionAdded(Box<StoredConsoleSession>),
    /// A console session began or ended.
    ConsoleSessionChanged(Box<StoredConsoleSession>),
    /// A session of the operator's console, or a link to one, was added.
    OperatorSessionAdded(Box<StoredOperatorSession>),
    /// A session of the operator's console began or ended.
    OperatorSessionChanged(Box<StoredOperatorSession>),
    /// Console sessions that expired before this instant were deleted, a few hundred at a time.
    ConsoleSessionsForgotten(Timestamp),
    /// What was done is recorded in the audit.
    Recorded(Box<AuditRecord>),
    /// Old records of the audit were deleted: this one, and all older ones.
    AuditPruned(AuditId),
    /// A version of a policy was added and is now its latest.
    PolicyAdded {
        /// The partner.
        partner_id: PartnerId,
        /// The version.
        kept: Box<KeptPolicy>,
        /// The number of versions of all the partner's policies, including this one.
        versions: u64,
    },
    /// A partner changed its settings.
    PartnerSettingsChanged(PartnerId, Box<PartnerSettings>),
    /// The operator gave a partner a quota of its own.
    QuotaSet(PartnerId, Quota),
    /// A booking was added. Its first entry follows.
    BookingAdded(Arc<NewBooking>),
    /// A booking changed through the entries before this change.
    BookingChanged(Arc<LoadedBooking>),
    /// A leaf was appended to the log and to its booking's chain.
    Entry(Box<Entry>),
    /// The log continues under a new name.
    LogRenamed {
        /// The name.
        origin: String,
        /// The key under that name, in note form.
        vkey: String,
    },
    /// The database lacks these published heads, and no others.
    LossesNoted(Vec<PublishedHead>),
    /// An event was added.
    EventAdded(Box<EventRow>),
    /// A delivery of an event to an endpoint was added.
    DeliveryAdded(DeliveryName, DeliveryState),
    /// A delivery's state changed.
    DeliveryUpdated(DeliveryName, DeliveryState),
    /// A delivery's schedule restarted during an attempt, which its holder finishes: the state is still under the same lease.
    DeliveryRenewed(DeliveryName, DeliveryState),
    /// An attempt of a delivery was added. Attempts are never changed.
    AttemptAdded {
        /// The event.
        event_id: EventId,
        /// The endpoint.
        endpoint_id: EndpointId,
        /// The attempt's number, from 1.
        number: u32,
        /// The attempt.
        attempt: Box<Attempt>,
    },
    /// An event was retried by hand: this many times by now.
    EventRetried(EventId, u32),
    /// An old event's body was deleted, along with every attempt to deliver it.
    EventPruned(EventId, Pruned),
    /// The search for old events came this far.
    Swept(Sweep),
    /// A part of a file was stored.
    FilePartAdded {
        /// The file with this part.
        file: FileState,
        /// The part.
        part: FilePart,
    },
    /// A file was deleted, whole or not.
    FileDeleted(FileState),
    /// An endpoint of a partner was added.
    EndpointAdded(PartnerId, Box<Endpoint>),
    /// An endpoint's address, types, description, limit or choice of secret changed.
    EndpointChanged {
        /// The endpoint as it is now.
        endpoint: Box<Endpoint>,
        /// Since when it takes what it takes now, if that changed.
        since: Option<Timestamp>,
    },
    /// An endpoint's health changed.
    EndpointHealthChanged(EndpointId, EndpointHealth),
    /// A further signing secret was added.
    SecretAdded {
        /// The id of the owner, a partner or an endpoint.
        owner: [u8; 16],
        /// When it was made, and from when on it signs alone.
        term: SecretTerm,
        /// The sealed secret.
        sealed: Vec<u8>,
    },
    /// Secrets of one owner that no longer sign anything were deleted.
    SecretsForgotten {
        /// The id of the owner, a partner or an endpoint.
        owner: [u8; 16],
        /// Only those made before this; all of them if `None`.
        made_before: Option<Timestamp>,
    },
    /// An endpoint was deleted at this time, so its waiting deliveries are dropped.
    EndpointDeleted(EndpointId, Timestamp),
    /// A recovery of a partner was added. It may have finished already.
    RecoveryAdded(PartnerId, Box<Recovery>),
    /// A recovery of a partner made progress.
    RecoveryUpdated(PartnerId, Box<Recovery>),
    /// A share of a booking's evidence was added.
    ShareAdded(Box<StoredShare>),
    /// A share was revoked, or somebody looked.
    ShareChanged(Box<StoredShare>),
    /// Shares that expired before this instant were deleted, a few hundred at a time.
    SharesForgotten(Timestamp),
    /// A legal hold was placed or released.
    HoldWritten(Box<StoredHold>),
    /// Values of an entry were erased. The entry that records it is before this change.
    EntryErased(Box<ErasedEntry>),
    /// The remembered answers about a booking, or about many of a partner, were erased.
    AnswersErased(BookingId),
    /// A witness of the log is being asked, or was asked.
    WitnessNoted(Box<WitnessState>),
    /// A witness has cosigned a checkpoint.
    CosignatureAdded(Box<StoredCosignature>),
    /// A cosignature that a later one replaces was deleted: the size of its checkpoint, and the id of the witness.
    CosignatureForgotten(u64, [u8; 32]),
    /// A remembered answer was replaced: its key, and the body that was sent.
    AnswerReplaced([u8; 32], Vec<u8>),
    /// Answers remembered before this instant were deleted, a thousand at a time.
    AnswersForgotten(Timestamp),
    /// A checkpoint was stamped. Its entry is before this change.
    Stamped(Box<StoredStamp>),
    /// When a time-stamp may next be asked for.
    StampingChanged(Box<Stamping>),
    /// The log was mapped. The entry that commits to the map is before this change.
    Mapped(Box<MapWritten>),
    /// Something was written and deleted again.
    WriteTried,
}

impl Change {
    /// An endpoint's health, if it is other than before.
    pub(crate) fn of_health(
        endpoint_id: EndpointId,
        before: EndpointHealth,
        health: EndpointHealth,
    ) -> Option<Self> {
        (health != before).then_some(Self::EndpointHealthChanged(endpoint_id, health))
    }
}

/// A time-stamp as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStamp {
    /// The index of the entry that commits to it.
    pub leaf: u64,
    /// The number of entries that the stamped checkpoint covers.
    pub size: u64,
    /// The stamped time.
    pub time: Timestamp,
    /// The stamped checkpoint, signed.
    pub checkpoint: String,
    /// What the authority answered.
    pub response: Vec<u8>,
}

/// The newest epoch, and the pages of the map that are new or other than before: names and contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapWritten {
    /// The epoch.
    pub epoch: LoggedEpoch,
    /// The pages.
    pub pages: Arc<[(Vec<u8>, Vec<u8>)]>,
}

/// Where the stamps of the log have got to, for all nodes together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamping {
    /// Before this, no node asks an authority.
    pub next: Timestamp,
    /// How often a stamp was asked for since the last one, the question under way included.
    pub asked: u32,
    /// Why the last question got no stamp, in a sentence.
    pub trouble: Option<String>,
}

/// Until when a key works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStanding {
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
    /// When it expires, if it does.
    pub expires_at: Option<Timestamp>,
}

/// A leaf and what opens its commitment.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Position in the log.
    pub index: u64,
    /// The booking, or `None` for an entry of the log's own.
    pub booking_id: Option<BookingId>,
    /// Position in the booking's chain.
    pub seq: u64,
    /// The leaf's time: the command's, or the log's last if that is later.
    pub at: Timestamp,
    /// The exact leaf bytes.
    pub leaf: Vec<u8>,
    /// The leaf's RFC 6962 hash.
    pub hash: Hash,
    /// What the leaf commits to.
    pub fact: Arc<SealedFact>,
}

impl Entry {
    /// The entry's place in the log.
    pub fn place(&self) -> LeafPlace {
        LeafPlace {
            index: self.index,
            hash: self.hash,
            at: self.at,
        }
    }
}

/// What an entry's row holds once values were erased.
#[derive(Clone, PartialEq, Eq)]
pub struct ErasedEntry {
    /// Position in the log.
    pub index: u64,
    /// The owner of its booking.
    pub partner_id: PartnerId,
    /// What opens its commitment now.
    pub opening: Opening,
    /// The fact, with what stands in for erased values.
    pub facts: String,
    /// By how many bytes the partner uses more now, if the entry counts towards its usage.
    pub grows: i64,
}

/// Omits what the row holds.
impl fmt::Debug for ErasedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasedEntry")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

/// A file as it is sent. It is hashed while it arrives, because hashing a large one at its end would take longer than a
/// request may occupy a thread that others wait for.
#[derive(Clone, Default)]
pub struct SentFile {
    bytes: Vec<u8>,
    sha256: Sha256,
    crc: crc32fast::Hasher,
}

impl SentFile {
    /// Makes room for this many more bytes.
    pub fn reserve(&mut self, more: usize) {
        self.bytes.reserve_exact(more);
    }

    /// Adds the bytes that follow.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.sha256.update(bytes);
        self.crc.update(bytes);
    }

    /// All bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, without the digests.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Their SHA-256, as an item names it: `sha256:` and hex digits.
    pub fn sha256(&self) -> String {
        format!("sha256:{}", hex::encode(self.sha256.clone().finalize()))
    }

    /// Their CRC-32.
    pub fn crc(&self) -> u32 {
        self.crc.clone().finalize()
    }
}

impl From<&[u8]> for SentFile {
    fn from(bytes: &[u8]) -> Self {
        let mut file = Self::default();
        file.push(bytes);
        file
    }
}

/// Omits the bytes.
impl fmt::Debug for SentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SentFile");
        shown
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// One part of a file. A command holds all its bytes.
#[derive(Debug, Clone)]
pub struct FilePart {
    /// Its number, from 0.
    pub number: u32,
    /// The whole file.
    pub file: Arc<SentFile>,
}

impl FilePart {
    /// The bytes of the part.
    pub fn bytes(&self) -> &[u8] {
        let begin = (self.number as usize).saturating_mul(FILE_PART_BYTES);
        let rest = self.file.bytes.get(begin..).unwrap_or_default();
        &rest[..rest.len().min(FILE_PART_BYTES)]
    }
}

/// An event as stored.
#[derive(Debug, Clone)]
pub struct EventRow {
    /// Its id.
    pub event_id: EventId,
    /// The partner it belongs to.
    pub partner_id: PartnerId,
    /// Its number in the partner's gapless log.
    pub seq: u64,
    /// The booking it is about, if any.
    pub booking_id: Option<BookingId>,
    /// Its type.
    pub event_type: EventType,
    /// The exact body of every delivery.
    pub body: Arc<[u8]>,
}

/// The stored part of an event's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The exact body of every delivery.
    Whole(Arc<[u8]>),
    /// The body was pruned.
    Pruned(Pruned),
}

impl Content {
    /// The body, unless it is pruned.
    pub fn body(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Whole(body) => Some(body),
            Self::Pruned(_) => None,
        }
    }
}

/// What is left of a body that was deleted because its event was old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// When it was deleted.
    pub at: Timestamp,
    /// The body's SHA-256.
    pub digest: [u8; 32],
}

impl Pruned {
    /// What is left of this body, deleted at `at`.
    pub(crate) fn of(body: &[u8], at: Timestamp) -> Self {
        Self {
            at,
            digest: Sha256::digest(body).into(),
        }
    }
}

/// How far the search for old events has come. Event ids are ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// The first id that was not examined.
    pub next: EventId,
    /// The first event before `next` that was old but still waited to be delivered.
    pub waiting: Option<EventId>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            next: EventId::from_bytes([0; 16]),
            waiting: None,
        }
    }
}

/// A delivery is named by its event and its endpoint.
pub type DeliveryName = (EventId, EndpointId);

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryState {
    /// Its phase.
    pub phase: DeliveryPhase,
    /// The number of attempts made.
    pub attempts: u32,
    /// The number of those that count for the schedule. Faults of ours do not.
    pub counted_attempts: u32,
    /// When a courier may next take it: at the next attempt's time or the lease's end. `None` if it is over.
    pub due: Option<Timestamp>,
    /// The lease under which an attempt is under way.
    pub lease: Option<i64>,
    /// The leaf that records how it ended, the latest one if it was tried again after that.
    pub settled_leaf: Option<u64>,
    /// When its schedule began, if not when the event happened: the event was recovered, or the endpoint was added
    /// later.
    pub begun: Option<Timestamp>,
    /// When `due` was computed. If the clock shows an earlier time, it was set back. `None` if the delivery is over.
    pub since: Option<Timestamp>,
}

impl DeliveryState {
    /// When the delivery's schedule began. By default, that is the instant in the event's id.
    pub fn begun_at(&self, event_id: &EventId) -> Timestamp {
        self.begun.unwrap_or(event_id.made_at())
    }

    /// Whether it was attempted as often as a delivery may be, so that nobody can begin it once more.
    pub fn is_exhausted(&self) -> bool {
        self.attempts >= limits::ATTEMPTS_PER_DELIVERY
    }

    /// The delivery once nothing more is sent, without another outcome.
    #[must_use]
    pub fn over(self) -> Self {
        Self {
            due: None,
            since: None,
            lease: None,
            ..self
        }
    }
}

/// The phase of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryPhase {
    /// No attempt has ended.
    Pending = 0,
    /// The receiver answered 2xx.
    Delivered = 1,
    /// The last attempt failed, or the endpoint was deleted.
    Failed = 2,
}

impl DeliveryPhase {
    /// Reads the number that the store keeps.
    pub fn from_number(n: i64) -> Option<Self> {
        [Self::Pending, Self::Delivered, Self::Failed]
            .into_iter()
            .find(|phase| *phase as i64 == n)
    }
}

impl From<DeliveryPhase> for crate::model::DeliveryStatus {
    fn from(phase: DeliveryPhase) -> Self {
        match phase {
            DeliveryPhase::Pending => Self::Pending,
            DeliveryPhase::Delivered => Self::Delivered,
            DeliveryPhase::Failed => Self::Failed,
        }
    }
}
