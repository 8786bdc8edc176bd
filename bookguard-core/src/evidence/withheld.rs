//! Values that a copy of a packet does not show, such as a name that its reader must not learn.
//!
//! The entries keep the digests of these values, so the rest is proven as before. Only values on which nothing else depends
//! can be withheld: terms, dates and amounts follow from the others, and a verifier recomputes them. An optional member is
//! then absent; a party is [shown as](stand_in) a fixed text. Invariant: nothing in the copy tells a withheld value, nor
//! the salt of its digest.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::erasure::Erasable;
#[cfg(any(feature = "store", test))]
use super::facts::Fact;
use crate::ledger::EventBody;
use crate::model::{Party, vocabulary};

vocabulary! {
    /// A value that a copy of a packet can withhold, by its name in the ledger's entries.
    Withheld {
        /// The network addresses from which terms were accepted.
        Ip = "ip",
        /// The partner's own data about the booking.
        Metadata = "metadata",
        /// The notes on a cancellation and on evidence items.
        Note = "note",
        /// Who booked.
        Organizer = "organizer",
        /// Who was booked.
        Talent = "talent",
        /// The programs with which terms were accepted.
        UserAgent = "userAgent",
    }
}

impl Withheld {
    /// What it is, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Ip => Erasable::Ip,
            Self::Metadata => Erasable::Metadata,
            Self::Note => Erasable::Note,
            Self::Organizer => Erasable::Organizer,
            Self::Talent => Erasable::Talent,
            Self::UserAgent => Erasable::UserAgent,
        }
        .in_words()
    }
}

/// What a copy shows in place of a party that it withholds.
pub(super) fn stand_in() -> Party {
    Party {
        id: "withheld".to_owned(),
        name: "withheld".to_owned(),
    }
}

/// Removes these values from a fact, as a verifier finds it in the copy.
#[cfg(any(feature = "store", test))]
pub(crate) fn withhold(fact: &mut Fact, withheld: &[Withheld]) {
    for one in withheld {
        match (one, &mut *fact) {
            (Withheld::Organizer, Fact::BookingCreated(fact)) => fact.organizer = stand_in(),
            (Withheld::Talent, Fact::BookingCreated(fact)) => fact.talent = stand_in(),
            (Withheld::Metadata, Fact::BookingCreated(fact)) => fact.metadata.clear(),
            (Withheld::Ip, Fact::TermsAccepted(fact)) => fact.ip = None,
            (Withheld::UserAgent, Fact::TermsAccepted(fact)) => fact.user_agent = None,
            (Withheld::Note, Fact::BookingCanceled(fact)) => fact.note = None,
            (Withheld::Note, Fact::EvidenceAdded(item)) => item.note = None,
            _ => {}
        }
    }
}

/// Adds what stands in for the withheld values of an entry to those that the copy shows.
pub(super) fn stand_ins(body: &EventBody, withheld: &[Withheld], members: &mut Map<String, Value>) {
    for one in [Withheld::Organizer, Withheld::Talent] {
        if withheld.contains(&one) && body.sd.contains_key(one.word()) {
            members.insert(one.word().to_owned(), serde_json::json!(stand_in()));
        }
    }
}
