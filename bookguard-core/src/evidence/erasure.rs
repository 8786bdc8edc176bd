//! The erasure of values as the ledger records it: the members of `evidence.erased`, and what a reader finds in their place.
//!
//! The fact names the values by entry and name, and why they were erased. It never repeats one. The entries keep the digests, whose
//! salts are gone with the values: so everything else is proven as before, and nobody can try out what a value was. Invariant: only
//! values on which nothing else depends can be erased; terms, times, amounts and who did what stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ledger::LeafKind;
use crate::model::{Booking, BookingId, Party, Timestamp, vocabulary};
use crate::policy::ResolutionDecision;

vocabulary! {
    /// A value that can be erased, by its name in the ledger's entries.
    Erasable {
        /// Who decided what a cancellation came to.
        DecidedBy = "decidedBy",
        /// What kind of event it is.
        EventType = "eventType",
        /// The documents named for a cancellation: their kinds, names and digests. How many there were stays.
        Evidence = "evidence",
        /// The network addresses from which terms were accepted.
        Ip = "ip",
        /// The partner's own data about the booking.
        Metadata = "metadata",
        /// How terms were accepted, in the partner's words.
        Method = "method",
        /// The notes on a cancellation and on evidence items.
        Note = "note",
        /// Who booked.
        Organizer = "organizer",
        /// The reason given for a decision of what a cancellation came to.
        Rationale = "rationale",
        /// What others know an evidence item by.
        Reference = "reference",
        /// What the partner knew the requests of earlier erasures by.
        RequestRef = "requestRef",
        /// The digest of an evidence item's file, and the file.
        Sha256 = "sha256",
        /// Who was booked.
        Talent = "talent",
        /// The titles of evidence items.
        Title = "title",
        /// The programs with which terms were accepted.
        UserAgent = "userAgent",
    }
}

vocabulary! {
    /// Why values are erased, after Article 17(1) of the GDPR.
    LegalBasis {
        /// They are no longer needed for what they were recorded for.
        NoLongerNeeded = "no_longer_needed",
        /// The person withdrew the consent.
        ConsentWithdrawn = "consent_withdrawn",
        /// The person objected.
        Objection = "objection",
        /// They should not have been recorded.
        Unlawful = "unlawful",
        /// A law demands it.
        LegalObligation = "legal_obligation",
        /// The partner's contract with the service ended.
        ContractEnded = "contract_ended",
        /// Another one, which the partner documents under its own reference.
        Other = "other",
    }
}

/// An erasure as the ledger records it: the members of `evidence.erased`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Erasure {
    /// The booking.
    pub booking_id: BookingId,
    /// When it was received.
    pub erased_at: Timestamp,
    /// Why.
    pub legal_basis: LegalBasis,
    /// What the partner knows the request by; absent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_ref: Option<String>,
    /// What was erased, by entry.
    pub values: Vec<ErasedValues>,
}

/// The values of one entry that were erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErasedValues {
    /// The entry's number in the booking's chain, from 0.
    pub entry: u64,
    /// The names, sorted.
    pub names: Vec<Erasable>,
}

impl LegalBasis {
    /// Why, for people: the end of a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NoLongerNeeded => "because they are no longer needed",
            Self::ConsentWithdrawn => "because the person withdrew the consent",
            Self::Objection => "because the person objected",
            Self::Unlawful => "because they should not have been recorded",
            Self::LegalObligation => "because a law demands it",
            Self::ContractEnded => "because its contract with the service ended",
            Self::Other => "for a reason that it documents itself",
        }
    }
}

impl Erasable {
    /// What it is, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::DecidedBy => "who decided",
            Self::EventType => "the kind of event",
            Self::Evidence => "documents named for a cancellation",
            Self::Ip => "network addresses",
            Self::Metadata => "the platform's own data about the booking",
            Self::Method => "how terms were accepted",
            Self::Note => "notes",
            Self::Organizer => "the organizer's name and id",
            Self::Rationale => "reasons given for a decision",
            Self::Reference => "references of evidence items",
            Self::RequestRef => "references of requests to erase",
            Self::Sha256 => "files of evidence items and their digests",
            Self::Talent => "the talent's name and id",
            Self::Title => "titles of evidence items",
            Self::UserAgent => "the programs used",
        }
    }

    /// The values that can be erased of an entry of this kind.
    pub fn of(kind: LeafKind) -> &'static [Self] {
        match kind {
            LeafKind::BookingCreated => &[
                Self::EventType,
                Self::Metadata,
                Self::Organizer,
                Self::Talent,
            ],
            LeafKind::TermsAccepted => &[Self::Ip, Self::Method, Self::UserAgent],
            LeafKind::BookingCanceled => &[Self::Evidence, Self::Note],
            LeafKind::ResolutionCreated => &[Self::DecidedBy, Self::Rationale],
            LeafKind::EvidenceErased => &[Self::RequestRef],
            LeafKind::EvidenceAdded => &[Self::Note, Self::Reference, Self::Sha256, Self::Title],
            _ => &[],
        }
    }

    /// Whether this value of an entry can be erased. `has` says whether the entry commits to a member of this name.
    pub(crate) fn can_go(self, kind: LeafKind, has: impl Fn(&str) -> bool) -> bool {
        // The result depends on how many documents were named.
        let is_counted = self != Self::Evidence || has(EVIDENCE_COUNT);
        Self::of(kind).contains(&self) && has(self.word()) && is_counted
    }

    /// What stands in for it where an entry cannot be without it.
    pub(super) fn stand_in(self) -> Option<Value> {
        match self {
            Self::Organizer | Self::Talent => Some(json!({"id": ERASED, "name": ERASED})),
            Self::DecidedBy | Self::EventType | Self::Method | Self::Rationale | Self::Title => {
                Some(json!(ERASED))
            }
            _ => None,
        }
    }
}

/// Whether an entry of this kind can lose the value of this name; see [`Erasable::can_go`].
pub(crate) fn can_go(name: &str, kind: LeafKind, has: impl Fn(&str) -> bool) -> bool {
    let known = Erasable::of(kind).iter().find(|one| one.word() == name);
    known.is_some_and(|one| one.can_go(kind, has))
}

/// What is shown in place of an erased text.
pub(crate) const ERASED: &str = "erased";

/// The member of a cancellation that says how many documents were named for it.
pub(crate) const EVIDENCE_COUNT: &str = "evidenceCount";

impl Erasure {
    /// Removes what was erased of a booking's decision. There is at most one.
    pub(super) fn apply_to_decision(&self, decision: &mut ResolutionDecision) {
        for name in self.values.iter().flat_map(|values| &values.names) {
            match name {
                Erasable::DecidedBy => ERASED.clone_into(&mut decision.decided_by),
                Erasable::Rationale => ERASED.clone_into(&mut decision.rationale),
                _ => {}
            }
        }
    }

    /// Removes what was erased of the first entry from what the booking shows.
    pub(super) fn apply_to(&self, booking: &mut Booking) {
        let erased = || ERASED.to_owned();
        let party = || Party {
            id: erased(),
            name: erased(),
        };
        let first = self.values.iter().filter(|values| values.entry == 0);
        for name in first.flat_map(|values| &values.names) {
            match name {
                Erasable::Organizer => booking.organizer = party(),
                Erasable::Talent => booking.talent = party(),
                Erasable::EventType => booking.event_type = erased(),
                Erasable::Metadata => booking.metadata.clear(),
                _ => {}
            }
        }
    }
}

/// What erasures erased of a booking's entries, by their numbers in its chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasedNames(BTreeMap<u64, BTreeSet<&'static str>>);

impl ErasedNames {
    /// Adds up erasures, each with the number of its own entry, oldest first.
    ///
    /// # Errors
    /// What contradicts itself, in a sentence.
    pub fn of<'a>(erasures: impl IntoIterator<Item = (u64, &'a Erasure)>) -> Result<Self, String> {
        let mut all = Self::default();
        for (own, erasure) in erasures {
            let values = &erasure.values;
            let ordered = values.is_sorted_by(|a, b| a.entry < b.entry)
                && values.iter().all(|one| {
                    !one.names.is_empty() && one.names.is_sorted_by(|a, b| a.word() < b.word())
                });
            if values.is_empty() || !ordered {
                return Err(format!(
                    "The erasure in entry {own} names nothing, or not in order."
                ));
            }
            for one in values {
                if one.entry >= own {
                    return Err(format!(
                        "The erasure in entry {own} names entry {}, which is not before it.",
                        one.entry
                    ));
                }
                let known = all.0.entry(one.entry).or_default();
                if let Some(name) = one.names.iter().find(|name| !known.insert(name.word())) {
                    return Err(format!(
                        "The value {name} of entry {} was erased twice.",
                        one.entry
                    ));
                }
            }
        }
        Ok(all)
    }

    /// The names of the values erased of this entry, sorted.
    pub fn of_entry(&self, entry: u64) -> impl Iterator<Item = &'static str> + Clone + '_ {
        self.0.get(&entry).into_iter().flatten().copied()
    }
}

/// Puts what stands in for erased values into the members of a fact. Those without a stand-in are absent.
pub(crate) fn stand_in<'a>(
    names: impl IntoIterator<Item = &'a str>,
    members: &mut Map<String, Value>,
) {
    for name in names {
        let known = Erasable::WORDS.iter().find(|(word, _)| *word == name);
        match known.and_then(|(_, name)| name.stand_in()) {
            Some(value) => members.insert(name.to_owned(), value),
            None => members.remove(name),
        };
    }
}

/// What these erasures erased, for people.
pub(super) fn names_in_words<'a>(erasures: impl IntoIterator<Item = &'a Erasure>) -> String {
    let values = erasures.into_iter().flat_map(|erasure| &erasure.values);
    let names: BTreeSet<&str> = (values.flat_map(|one| &one.names))
        .map(|name| name.in_words())
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
