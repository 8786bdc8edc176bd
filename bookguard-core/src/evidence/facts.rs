//! The facts of a booking: one struct per leaf kind. The leaf commits to its members, each under its own salt.
//!
//! A struct defines its members, and its line in `facts!` when it happened; `summary` puts it into words, and
//! [`BookingState::apply`](super::BookingState::apply) defines its effect. A fact does not repeat earlier ones: each leaf
//! names the one before it, and so commits to all before. Invariant: a fact is read exactly. A member that is unknown,
//! missing or spelled differently is refused, never ignored.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::acceptance::Acceptance;
use super::erasure::Erasure;
use super::item::EvidenceItem;
use super::notification::Notification;
use super::reschedule::RescheduleFact;
use crate::error::Error;
use crate::ledger::event::{salts, seal};
use crate::ledger::{Disclosure, Hash, LeafKind};
use crate::model::{
    Booking, BookingId, BookingStatus, Currency, Decimal, PartnerId, Party, PolicySummary,
    Timestamp,
};
use crate::policy::{Cancellation, Resolution};

/// A committed fact as the writer and the store handle it: text made once, by the caller's task.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedFact {
    /// What happened.
    pub kind: LeafKind,
    /// The fact as JSON, its members in order.
    pub members: String,
    /// The commitment that the leaf holds.
    pub commit: [u8; 32],
    /// The seed of its [`salts`], which opens the commitment.
    pub seed: [u8; 32],
}

/// Omits members and seed, which open the commitment.
impl fmt::Debug for SealedFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedFact")
            .field("kind", &self.kind)
            .field("commit", &hex::encode(self.commit))
            .finish_non_exhaustive()
    }
}

impl SealedFact {
    /// Commits to the members of `fact`. `seed` must be random and unique to this fact.
    ///
    /// # Errors
    /// A value that canonical JSON cannot represent exactly (a number beyond 2^53).
    pub fn of(kind: LeafKind, fact: &impl Serialize, seed: [u8; 32]) -> Result<Self, Error> {
        let fault = |e: &dyn fmt::Display| {
            Error::internal(format!(
                "a fact of the kind {kind} cannot be committed to: {e}"
            ))
        };
        let value = serde_json::to_value(fact).map_err(|e| fault(&e))?;
        let members = value
            .as_object()
            .ok_or_else(|| fault(&"it has no members"))?;
        Ok(Self {
            kind,
            commit: (seal(kind, members, salts(&seed)).map_err(|e| fault(&e))?).commit,
            seed,
            members: serde_json::to_string(&value).map_err(|e| fault(&e))?,
        })
    }
}

/// Reads a fact whose members are all known and canonically spelled.
///
/// # Errors
/// Why it is not such a fact, in a sentence.
pub fn exactly<T: DeserializeOwned + Serialize>(
    kind: LeafKind,
    members: Map<String, Value>,
) -> Result<T, String> {
    let fault = |why: &dyn std::fmt::Display| {
        format!("The committed values do not make a fact of the kind {kind}: {why}.")
    };
    let value = Value::Object(members);
    let read = T::deserialize(&value).map_err(|e| fault(&e))?;
    if serde_json::to_value(&read).ok() != Some(value) {
        return Err(fault(
            &"it has a value that this version of Bookguard does not know, or writes in another form",
        ));
    }
    Ok(read)
}

/// The members of a fact by name.
pub fn members(disclosures: &[Disclosure]) -> Map<String, Value> {
    let members = disclosures.iter();
    members.map(|d| (d.name.clone(), d.value.clone())).collect()
}

/// The place of a fact's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafPlace {
    /// Position in the log.
    pub index: u64,
    /// The leaf's hash.
    pub hash: Hash,
    /// When it was written.
    pub at: Timestamp,
}

/// A fact and the place of its entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged<T> {
    /// The place.
    pub place: LeafPlace,
    /// The fact.
    pub fact: T,
}

/// One of the types of facts.
pub(super) trait OneFact {
    /// The fact, if it is one of this type.
    fn from_fact(fact: &Fact) -> Option<&Self>;
}

/// The facts of one type, each with the number of its entry in the booking's chain.
pub(super) fn facts_of<T: OneFact + 'static>(
    facts: &[Logged<Fact>],
) -> impl Iterator<Item = (u64, &T)> {
    let numbered = (0..).zip(facts);
    numbered.filter_map(|(entry, logged)| Some((entry, T::from_fact(&logged.fact)?)))
}

/// Declares a booking's facts, each under the name of its leaf's kind, and when it happened.
macro_rules! facts {
    ($($kind:ident($fact:ty): $own:ident => $at:expr),* $(,)?) => {
        /// A fact of a booking.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Fact { $($kind(Box<$fact>)),* }

        impl Fact {
            /// The kind of the fact.
            pub fn kind(&self) -> LeafKind {
                match self { $(Self::$kind(_) => LeafKind::$kind),* }
            }

            /// Reads a fact exactly.
            ///
            /// # Errors
            /// Those of [`exactly`], and a kind that is not a booking's.
            pub fn read(kind: LeafKind, members: Map<String, Value>) -> Result<Self, String> {
                match kind {
                    $(LeafKind::$kind => exactly(kind, members).map(|fact| Self::$kind(Box::new(fact))),)*
                    other @ (LeafKind::LogContinued | LeafKind::LogAnchored | LeafKind::LogMapped) => Err(format!("{other} is not a fact of a booking.")),
                }
            }

            /// Commits to the fact; see [`SealedFact::of`].
            ///
            /// # Errors
            /// Those of [`SealedFact::of`].
            pub fn seal(&self, seed: [u8; 32]) -> Result<SealedFact, Error> {
                match self { $(Self::$kind(fact) => SealedFact::of(LeafKind::$kind, fact, seed)),* }
            }

            /// When it happened, by the service's clock. Its entry is never older.
            pub fn happened_at(&self) -> Timestamp {
                match self { $(Self::$kind($own) => $at),* }
            }
        }

        $(impl From<$fact> for Fact {
            fn from(fact: $fact) -> Self {
                Self::$kind(Box::new(fact))
            }
        }

        impl OneFact for $fact {
            fn from_fact(fact: &Fact) -> Option<&Self> {
                match fact {
                    Fact::$kind(own) => Some(own),
                    _ => None,
                }
            }
        })*
    };
}

facts! {
    BookingCreated(CreationFact): fact => fact.created_at,
    BookingProtected(ProtectionFact): fact => fact.protected_at,
    BookingRescheduled(RescheduleFact): fact => fact.rescheduled_at,
    TermsAccepted(Acceptance): fact => fact.accepted_at,
    BookingCanceled(Cancellation): fact => fact.canceled_at,
    ResolutionCreated(ResolutionFact): fact => fact.resolution.made_at(),
    EvidenceAdded(EvidenceItem): item => item.added_at,
    EvidenceErased(Erasure): fact => fact.erased_at,
    WebhookSettled(NotificationFact): fact => fact.notification.settled_at,
}

/// `booking.created`: everything the partner sent, and the hash of the frozen terms, which include the policy's hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreationFact {
    /// The booking's id.
    pub booking_id: BookingId,
    /// The partner that owns it.
    pub partner_id: PartnerId,
    /// The performer, or whatever else is booked.
    pub talent: Party,
    /// Who books.
    pub organizer: Party,
    /// Free text, such as "concert".
    pub event_type: String,
    /// When the event starts.
    pub event_date: Timestamp,
    /// The event's IANA time zone, if the partner gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The total value, a decimal number of `currency`.
    pub booking_value: Decimal,
    /// The amount already paid, if the partner gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_paid: Option<Decimal>,
    /// ISO 4217 code.
    pub currency: Currency,
    /// The partner's own key-value pairs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// The hash of the frozen terms, [`hash_of`](super::frozen::hash_of).
    pub terms_hash: String,
}

impl CreationFact {
    /// The fact that this booking was recorded under terms with this hash.
    pub fn of(booking: &Booking, terms_hash: String) -> Self {
        Self {
            booking_id: booking.booking_id,
            partner_id: booking.partner_id,
            talent: booking.talent.clone(),
            organizer: booking.organizer.clone(),
            event_type: booking.event_type.clone(),
            event_date: booking.event_date,
            time_zone: booking.time_zone.clone(),
            booking_value: booking.booking_value.clone(),
            amount_paid: booking.amount_paid.clone(),
            currency: booking.currency,
            metadata: booking.metadata.clone(),
            created_at: booking.created_at,
            terms_hash,
        }
    }

    /// The recorded booking. `policy` is its summary of the policy that its terms name by hash.
    pub fn booking(self, policy: Option<PolicySummary>) -> Booking {
        Booking {
            booking_id: self.booking_id,
            partner_id: self.partner_id,
            talent: self.talent,
            organizer: self.organizer,
            event_type: self.event_type,
            event_date: self.event_date,
            time_zone: self.time_zone,
            booking_value: self.booking_value,
            amount_paid: self.amount_paid,
            currency: self.currency,
            status: BookingStatus::Created,
            protected: false,
            protected_at: None,
            rescheduled_at: None,
            canceled_at: None,
            resolution_id: None,
            policy,
            metadata: self.metadata,
            created_at: self.created_at,
        }
    }
}

/// `booking.protected`: which terms were locked, and when. Its leaf names the head of the booking's chain, so it locks
/// everything recorded of the booking until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProtectionFact {
    /// When it was protected.
    pub protected_at: Timestamp,
    /// The hash of the terms in force.
    pub terms_hash: String,
}

/// `resolution.created`. The ledger is the only place that stores the resolution. What a person said when deciding is committed to
/// beside the rest of it, so that it can be erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ResolutionMembers", into = "ResolutionMembers")]
pub struct ResolutionFact {
    /// The whole resolution.
    pub resolution: Resolution,
    /// Whether the words of its decision are members within `resolution`, as they were before they could be erased.
    words_within: bool,
}

/// The members of `resolution.created`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResolutionMembers {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decided_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rationale: Option<String>,
    resolution: Value,
}

/// The members of a decision that are its words.
const WORDS: [&str; 2] = ["decidedBy", "rationale"];

impl ResolutionFact {
    /// The fact that a cancellation was resolved so.
    pub fn of(resolution: Resolution) -> Self {
        Self {
            words_within: resolution.decision.is_none(),
            resolution,
        }
    }

    /// The fact of a resolution, as it was recorded before the words of a decision could be erased.
    #[cfg(test)]
    pub fn with_words_within(resolution: Resolution) -> Self {
        Self {
            words_within: true,
            resolution,
        }
    }
}

impl TryFrom<ResolutionMembers> for ResolutionFact {
    type Error = String;

    fn try_from(members: ResolutionMembers) -> Result<Self, String> {
        let mut whole = members.resolution;
        let words_within = match (members.decided_by, members.rationale) {
            (None, None) => true,
            (Some(decided_by), Some(rationale)) => {
                let decision = whole.get_mut("decision").and_then(Value::as_object_mut);
                let decision =
                    decision.ok_or("it has the words of a decision, but records no decision")?;
                for (name, word) in WORDS.into_iter().zip([decided_by, rationale]) {
                    if decision
                        .insert(name.to_owned(), Value::String(word))
                        .is_some()
                    {
                        return Err(format!("it has {name} twice"));
                    }
                }
                false
            }
            _ => return Err("it lacks some of the words of its decision".to_owned()),
        };
        let resolution = Resolution::deserialize(&whole).map_err(|e| e.to_string())?;
        Ok(Self {
            resolution,
            words_within,
        })
    }
}

impl From<ResolutionFact> for ResolutionMembers {
    fn from(fact: ResolutionFact) -> Self {
        let mut resolution = serde_json::to_value(&fact.resolution)
            .expect("a resolution always serializes: it is plain data with string keys");
        let mut words = [None, None];
        if !fact.words_within
            && let Some(decision) = resolution
                .get_mut("decision")
                .and_then(Value::as_object_mut)
        {
            words = WORDS.map(|name| decision.remove(name)?.as_str().map(str::to_owned));
        }
        let [decided_by, rationale] = words;
        Self {
            decided_by,
            rationale,
            resolution,
        }
    }
}

/// `webhook.settled`: a single value, because nothing in it is personal and every delivery has such a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotificationFact {
    /// How the delivery ended.
    pub notification: Notification,
}

#[cfg(test)]
mod tests;
