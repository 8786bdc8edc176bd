//! A booking's state, computed from its facts: the only place that defines what a fact does to a booking, and in which
//! order facts may come.
//!
//! ```text
//! created → (protected | rescheduled | accepted)* → (canceled → resolved → decided?)?
//!            at most once
//! ```
//!
//! Evidence items, erasures and the records of deliveries' ends may come anywhere after the first fact, except between a cancellation and its resolution.
//! The writer applies the facts it records, a verifier those a packet discloses, the check of a database those its entries
//! hold. The caller has checked that the values are the committed ones and that the entries form one chain. Invariant: a
//! fact that is out of place is refused, never skipped.

use super::acceptance::Acceptance;
use super::erasure::Erasure;
use super::facts::{CreationFact, Fact, LeafPlace, Logged, ProtectionFact};
use super::frozen::FrozenTerms;
use super::item::EvidenceItem;
use super::notification::{Causes, Notification, follows};
use super::reschedule::{RescheduleFact, TermsVersion};
use crate::model::{Booking, BookingStatus, PolicySummary, Timestamp};
use crate::policy::{
    self, Cancellation, PastReschedule, Resolution, ResolutionStatus, Standing, Subject, Terms,
};

/// The state of a booking according to its facts.
///
/// A state read from the booking's row, instead of folded from all its facts, is reduced: it has only the latest change of
/// date and the latest resolution, its first date is the current one, and it has neither the cancellation nor the ends of
/// deliveries. No later fact depends on these.
#[derive(Debug, Clone)]
pub struct BookingState {
    /// The booking in its current state.
    pub booking: Booking,
    /// The event's start and zone when the booking was recorded.
    pub first_date: (Timestamp, Option<String>),
    /// Hash of the terms frozen when it was recorded.
    pub terms_hash: String,
    /// The entry that protected it.
    pub protected: Option<LeafPlace>,
    /// What was reached before each change of date, oldest first.
    pub moves: Vec<PastReschedule>,
    /// Its changes of date, oldest first.
    pub reschedules: Vec<Logged<RescheduleFact>>,
    /// The acceptances of its terms, oldest first. A caller that has the terms must check that their text is the accepted one.
    pub acceptances: Vec<Logged<Acceptance>>,
    /// The evidence items that the partner added, oldest first.
    pub items: Vec<Logged<EvidenceItem>>,
    /// The erasures of its values, oldest first.
    pub erasures: Vec<Logged<Erasure>>,
    /// How the deliveries of its events ended, in the order of the ledger.
    pub settled: Vec<Logged<Notification>>,
    /// Its cancellation.
    pub cancellation: Option<Cancellation>,
    /// The cancellation's resolution, and the decision that replaced it if it was left open. A caller that has the terms
    /// must check that they give these evaluations.
    pub resolutions: Vec<Logged<Resolution>>,
}

impl BookingState {
    /// Folds all facts of a booking, oldest first, as its entries disclose them: what was erased of one is not in it any more.
    /// `policy` is the booking's summary of the policy named by hash.
    ///
    /// # Errors
    /// The first fact that is out of place, or what is missing, in a sentence.
    pub fn fold(
        facts: impl IntoIterator<Item = Logged<Fact>>,
        policy: Option<PolicySummary>,
    ) -> Result<Self, String> {
        let mut facts = facts.into_iter();
        let first = facts.next().ok_or("The booking has no ledger entries.")?;
        not_ahead(&first)?;
        let Fact::BookingCreated(created) = first.fact else {
            return Err(format!(
                "The first entry is {}, not booking.created.",
                first.fact.kind()
            ));
        };
        let mut state = Self::recorded(*created, policy);
        let sums = state.booking.sums();
        sums.map_err(|why| format!("The booking was recorded with {why}."))?;
        for fact in facts {
            state.follow(fact)?;
        }
        match state.is_unresolved() {
            true => {
                Err("The booking.canceled entry has no resolution.created after it.".to_owned())
            }
            false => Ok(state),
        }
    }

    /// The state of a booking right after it was recorded.
    pub fn recorded(created: CreationFact, policy: Option<PolicySummary>) -> Self {
        let terms_hash = created.terms_hash.clone();
        Self::of(created.booking(policy), terms_hash)
    }

    /// Does the same as [`Self::recorded`], from a booking and the hash of the terms with which it was recorded.
    pub fn of(booking: Booking, terms_hash: String) -> Self {
        Self {
            first_date: (booking.event_date, booking.time_zone.clone()),
            booking,
            terms_hash,
            protected: None,
            moves: Vec::new(),
            reschedules: Vec::new(),
            acceptances: Vec::new(),
            items: Vec::new(),
            erasures: Vec::new(),
            settled: Vec::new(),
            cancellation: None,
            resolutions: Vec::new(),
        }
    }

    /// Adds the next fact, and removes what it erases.
    ///
    /// # Errors
    /// Why the fact cannot follow, in a sentence; the state is then unchanged.
    pub fn apply(&mut self, logged: Logged<Fact>) -> Result<(), String> {
        let is_erasure = matches!(logged.fact, Fact::EvidenceErased(_));
        self.follow(logged)?;
        if let (Some(Logged { fact, .. }), true) = (self.erasures.last(), is_erasure) {
            fact.apply_to(&mut self.booking);
            let decisions = self.resolutions.iter_mut();
            for decision in decisions.filter_map(|known| known.fact.decision.as_mut()) {
                fact.apply_to_decision(decision);
            }
        }
        Ok(())
    }

    /// Adds the next fact. It leaves earlier ones as they are: what it erases is gone from them already, or [`Self::apply`] removes it.
    fn follow(&mut self, logged: Logged<Fact>) -> Result<(), String> {
        not_ahead(&logged)?;
        let Logged { place, fact } = logged;
        let (kind, is_open) = (fact.kind(), self.booking.status != BookingStatus::Canceled);
        match fact {
            Fact::BookingProtected(fact) if self.booking.status == BookingStatus::Created => {
                self.protect(&fact, place)
            }
            Fact::BookingRescheduled(fact) if is_open => self.reschedule(*fact, place),
            Fact::TermsAccepted(fact) if is_open => {
                self.own(fact.booking_id == self.booking.booking_id, "acceptance")?;
                self.acceptances.push(Logged { place, fact: *fact });
                Ok(())
            }
            Fact::BookingCanceled(fact) if is_open => {
                self.own(fact.booking_id == self.booking.booking_id, "cancellation")?;
                if !fact.is_counted() {
                    return Err(
                        "The cancellation counts more or fewer documents than it names.".to_owned(),
                    );
                }
                self.booking.status = BookingStatus::Canceled;
                self.booking.canceled_at = Some(fact.canceled_at);
                self.cancellation = Some(*fact);
                Ok(())
            }
            Fact::ResolutionCreated(fact) if !is_open => self.resolve(fact.resolution, place),
            Fact::EvidenceAdded(fact) if !self.is_unresolved() => {
                self.own(fact.booking_id == self.booking.booking_id, "evidence item")?;
                let is_known = self
                    .items
                    .iter()
                    .any(|known| known.fact.item_id == fact.item_id);
                if is_known {
                    return Err(format!("Evidence item {} was added twice.", fact.item_id));
                }
                self.items.push(Logged { place, fact: *fact });
                Ok(())
            }
            Fact::EvidenceErased(fact) if !self.is_unresolved() => {
                self.own(fact.booking_id == self.booking.booking_id, "erasure")?;
                self.erasures.push(Logged { place, fact: *fact });
                Ok(())
            }
            Fact::WebhookSettled(fact) if !self.is_unresolved() => {
                let known = self.settled.iter().map(|known| &known.fact);
                follows(known, &fact.notification, &self.causes())?;
                let fact = fact.notification;
                self.settled.push(Logged { place, fact });
                Ok(())
            }
            _ => Err(format!(
                "The entry {kind} cannot follow the booking's entries before it."
            )),
        }
    }

    fn protect(&mut self, fact: &ProtectionFact, place: LeafPlace) -> Result<(), String> {
        if fact.terms_hash != self.terms_hash_in_force() {
            return Err(
                "The terms locked by the protection are not the ones in force then.".to_owned(),
            );
        }
        self.booking.status = BookingStatus::Protected;
        self.booking.protected = true;
        self.booking.protected_at = Some(fact.protected_at);
        self.protected = Some(place);
        Ok(())
    }

    fn reschedule(&mut self, fact: RescheduleFact, place: LeafPlace) -> Result<(), String> {
        let at = PastReschedule::instant(fact.agreed_at(), self.booking.created_at, &self.moves);
        if fact.former.at != at {
            return Err(
                "The move does not follow the booking's recording or the move before it."
                    .to_owned(),
            );
        }
        self.moves.push(fact.former);
        self.move_to(place, fact);
        Ok(())
    }

    /// Makes this fact the latest move of the booking's event.
    pub(crate) fn move_to(&mut self, place: LeafPlace, fact: RescheduleFact) {
        self.booking.event_date = fact.event_date;
        self.booking.time_zone.clone_from(&fact.time_zone);
        self.booking.rescheduled_at = Some(fact.rescheduled_at);
        self.reschedules.push(Logged { place, fact });
    }

    /// Adds a resolution: the first is the cancellation's, the second is the decision of what the first left open.
    fn resolve(&mut self, resolution: Resolution, place: LeafPlace) -> Result<(), String> {
        let (id, evaluation) = (resolution.resolution_id, resolution.evaluation.clone());
        let mut expected = match (self.resolutions.last(), &self.cancellation) {
            (None, Some(cancellation)) => Some(Resolution::of(
                cancellation,
                evaluation,
                self.booking.partner_id,
                id,
                self.booking.protected,
            )),
            (Some(pending), _)
                if pending.fact.status == ResolutionStatus::PendingReview
                    && pending.fact.resolution_id != id =>
            {
                let decision = resolution.decision.clone();
                decision.map(|decision| pending.fact.decided_as(decision, id, evaluation))
            }
            _ => None,
        };
        // The sentence is the one member made anew here, so a difference in it is told as such.
        let summary = expected
            .as_mut()
            .map(|expected| std::mem::replace(&mut expected.summary, resolution.summary.clone()));
        let own = resolution.evaluation.booking_id == self.booking.booking_id;
        if !own || expected.as_ref() != Some(&resolution) {
            return Err(
                "The resolution neither results from the booking's cancellation nor decides what the cancellation left open."
                    .to_owned(),
            );
        }
        if summary.as_ref() != Some(&resolution.summary) {
            return Err(format!(
                "The summary of resolution {id} is not the sentence that its evaluation gives."
            ));
        }
        self.resolve_as(place, resolution);
        Ok(())
    }

    /// Makes this fact the booking's latest resolution.
    pub(crate) fn resolve_as(&mut self, place: LeafPlace, fact: Resolution) {
        self.booking.resolution_id = Some(fact.resolution_id);
        self.resolutions.push(Logged { place, fact });
    }

    fn own(&self, own: bool, what: &str) -> Result<(), String> {
        match own {
            true => Ok(()),
            false => Err(format!(
                "The {what} is not one of booking {}.",
                self.booking.booking_id
            )),
        }
    }

    /// Whether it is canceled but has no resolution yet.
    fn is_unresolved(&self) -> bool {
        self.booking.status == BookingStatus::Canceled && self.resolutions.is_empty()
    }

    /// The hash of the terms in force.
    pub(crate) fn terms_hash_in_force(&self) -> String {
        match self.reschedules.last() {
            Some(latest) => latest.fact.terms.hash(),
            None => self.terms_hash.clone(),
        }
    }

    /// The resolution in force.
    pub fn resolution(&self) -> Option<&Resolution> {
        self.resolutions.last().map(|latest| &latest.fact)
    }

    /// The subject of an evaluation under these terms. `recorded` is the recorded cancellation, if it is to count.
    pub fn subject<'a>(
        &'a self,
        terms: &'a Terms,
        recorded: Option<&'a policy::Recorded>,
    ) -> Subject<'a> {
        Subject {
            booking_id: self.booking.booking_id,
            terms,
            standing: Standing::of(self.booking.protected, recorded),
            reschedules: &self.moves,
        }
    }

    /// How often the event was moved before the entry at this place.
    pub fn moves_before(&self, place: &LeafPlace) -> usize {
        let before = |moved: &&Logged<RescheduleFact>| moved.place.index < place.index;
        self.reschedules.iter().filter(before).count()
    }

    /// The causes of its events so far.
    pub fn causes(&self) -> Causes {
        Causes {
            created_at: self.booking.created_at,
            protected_at: self.booking.protected_at,
            resolved_at: self.resolutions.iter().map(|r| r.fact.made_at()).collect(),
        }
    }

    /// The terms before each change of date, then those in force. `first` are the terms with which it was recorded.
    pub fn terms_versions(&self, first: FrozenTerms) -> Vec<TermsVersion> {
        let (event_date, time_zone) = self.first_date.clone();
        let first = TermsVersion {
            since: self.booking.created_at,
            event_date,
            time_zone,
            terms: first,
        };
        let later = self.reschedules.iter().map(|r| r.fact.terms_version());
        std::iter::once(first).chain(later).collect()
    }
}

/// Refuses a fact whose own time, from the clock, is after that of its entry. It may be earlier: an entry's time is never
/// before that of the entry before it, and the clock may have been ahead until then.
fn not_ahead(logged: &Logged<Fact>) -> Result<(), String> {
    match logged.fact.happened_at() > logged.place.at {
        true => Err(format!(
            "What {} says happened after its entry was written.",
            logged.fact.kind()
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
