//! Headline and story: the first page of a packet.

use super::wall_clock::{day, money};
use super::{Paragraph, Wording, Writer};
use crate::evidence::erasure::{Erasable, Erasure, names_in_words};
use crate::evidence::facts::{CreationFact, facts_of};
use crate::evidence::{Acceptance, EvidenceItem, RescheduleFact, Withheld};
use crate::model::{Amount, Timestamp};
use crate::policy::{
    Actor, Assumption, Cancellation, EventDate, PolicySource, Reason, TimeOfDay, clock,
};
use crate::text;

/// Evidence items that the story names; the timeline names all.
const ITEMS_TOLD: usize = 5;

impl Writer<'_> {
    pub(super) fn headline(&mut self) -> String {
        let booking = self.m.booking;
        let value = super::value(booking);
        let event = self.clock.start(self.m.terms, booking.event_date);
        let standing = match (booking.canceled_at, booking.protected_at) {
            (Some(at), protected_at) => self.ended(at, protected_at.is_some()),
            (None, Some(at)) => format!("It has been protected since {}.", self.clock.time(at)),
            (None, None) => "It is recorded, and not protected.".to_owned(),
        };
        let (organizer, talent) = (self.party(Actor::Organizer), self.party(Actor::Talent));
        let text = format!(
            "{organizer} booked {talent} through {} for {event}, event type {}, at {value}. {standing}",
            self.partner(),
            self.written(0, Erasable::EventType, &booking.event_type, "(erased)")
        );
        match text.strip_prefix("the ") {
            Some(rest) => format!("The {rest}"),
            None => text,
        }
    }

    /// How the booking ended, and whether it had been protected.
    fn ended(&mut self, at: Timestamp, protected: bool) -> String {
        let canceled = facts_of::<Cancellation>(self.m.facts).next();
        let absent = canceled.and_then(|(_, cancellation)| self.absent(cancellation));
        let at = self.clock.time(at);
        let ended = match absent {
            Some(side) => format!("It was reported on {at} that the {side} did not come."),
            None => format!("It was canceled on {at}."),
        };
        match protected || self.m.wording == Wording::First {
            true => ended,
            false => format!("{ended} It had not been protected."),
        }
    }

    /// Who did not come, if the cancellation is the report of that.
    pub(super) fn absent(&self, cancellation: &Cancellation) -> Option<Actor> {
        let Cancellation {
            canceled_by,
            reason,
            ..
        } = cancellation;
        super::absent(self.m.wording, *canceled_by, *reason)
    }

    pub(super) fn story(&mut self) -> Vec<Paragraph> {
        let facts = self.m.facts;
        let agreed = self.agreed();
        let mut story = vec![self.paragraph(agreed, &[0])];
        let moved = facts_of::<RescheduleFact>(facts).map(|(entry, _)| entry);
        let moved = moved.last();
        let last = moved.as_slice();
        story.extend(self.moved().map(|text| self.paragraph(text, last)));
        story.extend(self.accepted());
        let canceled = facts_of::<Cancellation>(facts).next();
        match (canceled, self.m.resolution) {
            (Some((entry, cancellation)), Some(resolution)) => {
                let at = self.clock.time(cancellation.canceled_at);
                let received = format!("; the service received this on {at}");
                let text = self.cancellation(cancellation, &received);
                story.push(self.paragraph(text, &[entry]));
                story.extend(self.came_to(cancellation, resolution));
            }
            _ => story.extend(self.outlook().map(|text| self.paragraph(text, &[]))),
        }
        let items = facts_of::<EvidenceItem>(facts).map(|(entry, _)| entry);
        let items: Vec<u64> = items.take(ITEMS_TOLD).collect();
        story.extend(self.items().map(|text| self.paragraph(text, &items)));
        for text in [self.notifications(), self.left_out()] {
            story.extend(text.map(|text| self.paragraph(text, &[])));
        }
        let erasures = facts_of::<Erasure>(facts).map(|(entry, _)| entry);
        let erasures: Vec<u64> = erasures.collect();
        story.extend(self.erased().map(|text| self.paragraph(text, &erasures)));
        story
    }

    /// A paragraph from the entries with these numbers of the booking.
    pub(super) fn paragraph(&self, text: String, entries: &[u64]) -> Paragraph {
        let logged = |entry: &u64| self.m.facts.get(usize::try_from(*entry).ok()?);
        let entries = entries.iter().filter_map(logged);
        Paragraph {
            text,
            entries: entries.map(|logged| logged.place.index).collect(),
            is_result: false,
        }
    }

    /// A side by its name, or by its role if the packet withholds the name.
    fn party(&self, side: Actor) -> String {
        let (withheld, party) = match side {
            Actor::Talent => (Withheld::Talent, &self.m.booking.talent),
            _ => (Withheld::Organizer, &self.m.booking.organizer),
        };
        if self.m.withheld.contains(&withheld) {
            return format!("the {side} (name withheld)");
        }
        match self.is_erased(0, |name| name.word() == withheld.word()) {
            true => format!("the {side} (name erased)"),
            false => self.quoted(&party.name),
        }
    }

    /// What the platform wrote, in quotation marks.
    pub(super) fn quoted(&self, text: &str) -> String {
        match self.m.wording {
            Wording::First => text::quoted_at_first(text),
            Wording::Second => text::quoted(text),
        }
    }

    /// Whether such a value of the entry with this number was erased.
    fn is_erased(&self, entry: u64, is_such: impl Fn(&Erasable) -> bool) -> bool {
        let values = self.erasures().flat_map(|erasure| &erasure.values);
        let mut of_entry = values.filter(|values| values.entry == entry);
        of_entry.any(|values| values.names.iter().any(&is_such))
    }

    /// What the platform wrote as this value of an entry, or `instead` if it was erased.
    pub(super) fn written(&self, entry: u64, name: Erasable, text: &str, instead: &str) -> String {
        match self.m.wording >= Wording::Second && self.is_erased(entry, |one| *one == name) {
            true => instead.to_owned(),
            false => self.quoted(text),
        }
    }

    pub(super) fn erasures(&self) -> impl Iterator<Item = &Erasure> {
        facts_of::<Erasure>(self.m.facts).map(|(_, erasure)| erasure)
    }

    /// The values that were erased.
    fn erased(&self) -> Option<String> {
        let values = names_in_words(self.erasures());
        let text = format!(
            "Some values were erased: {values}. The entries still commit to them, but nobody can show them again."
        );
        (!values.is_empty()).then_some(text)
    }

    /// The sides by name and role.
    pub(super) fn side(&self, actor: Actor) -> String {
        let side = |side: Actor| {
            let name = self.party(side);
            match name.starts_with('\u{201c}') {
                true => format!("{name} (the {side})"),
                false => name,
            }
        };
        match actor {
            Actor::Organizer | Actor::Talent => side(actor),
            Actor::Partner => format!("{} (the platform)", self.partner()),
            Actor::Mutual => format!(
                "{} and {} together",
                side(Actor::Organizer),
                side(Actor::Talent)
            ),
        }
    }

    pub(super) fn partner(&self) -> String {
        self.quoted(self.m.partner_name)
    }

    /// How often the event was moved, from which date the last time, and who agreed to that.
    fn moved(&mut self) -> Option<String> {
        let facts = self.m.facts;
        let moves: Vec<_> = facts_of::<RescheduleFact>(facts).collect();
        let (entry, last) = *moves.last()?;
        let before = self.former_date(entry, last);
        let (mut text, this) = match moves.len() {
            1 => (
                format!("The event was moved once; before that it was to start on {before}."),
                "this",
            ),
            n => {
                let times = match n {
                    2 if self.m.wording >= Wording::Second => "twice".to_owned(),
                    n => format!("{n} times"),
                };
                (
                    format!(
                        "The event was moved {times}; before the last time it was to start on {before}."
                    ),
                    "the last move",
                )
            }
        };
        if self.m.wording >= Wording::Second {
            text += &format!(
                " {} reported that {} agreed to {this} on {}.",
                self.partner(),
                self.agreed_by(last),
                self.clock.time(last.agreed_at())
            );
        }
        Some(text)
    }

    /// The sides that agreed to a move.
    pub(super) fn agreed_by(&self, moved: &RescheduleFact) -> String {
        let agreed = moved.agreed_by.iter();
        let agreed: Vec<String> = agreed.map(|side| self.side(*side)).collect();
        match agreed.as_slice() {
            [before @ .., last] if before.len() > 1 && self.m.wording >= Wording::Second => {
                format!("{} and {last}", before.join(", "))
            }
            all => all.join(" and "),
        }
    }

    /// The date from which this entry moved the event.
    pub(super) fn former_date(&mut self, entry: u64, moved: &RescheduleFact) -> String {
        let (facts, former_terms) = (self.m.facts, self.m.former_terms);
        let moves = facts_of::<RescheduleFact>(facts);
        let earlier: Vec<_> = moves.take_while(|(at, _)| *at < entry).collect();
        let start = match earlier.last() {
            Some((_, before)) => Some(before.event_date),
            None => facts_of::<CreationFact>(facts)
                .next()
                .map(|(_, created)| created.event_date),
        };
        match (start, former_terms.get(earlier.len())) {
            (Some(start), Some(terms)) if self.m.wording >= Wording::Second => {
                self.clock.start(terms, start)
            }
            _ => date(&moved.former.previous_event_date),
        }
    }

    /// What was agreed: when it was recorded, under which policy, and what was paid.
    fn agreed(&mut self) -> String {
        let at = self.clock.time(self.m.booking.created_at);
        let partner = self.partner();
        let policy = match (self.m.policy, self.m.terms.source) {
            (Some(policy), Some(source)) => {
                let document = policy.document();
                let name = match &document.name {
                    Some(name) => format!(
                        "{} ({} version {})",
                        self.quoted(name),
                        document.policy_id,
                        document.version
                    ),
                    None => format!("{} version {}", document.policy_id, document.version),
                };
                let source = match source {
                    PolicySource::Booking => format!("written by {partner} for this booking"),
                    PolicySource::Named => format!("chosen by {partner} for this booking"),
                    PolicySource::PartnerDefaultForEventType => {
                        format!("{partner}'s own for such events")
                    }
                    PolicySource::PartnerDefault => format!("{partner}'s own"),
                    PolicySource::Library => {
                        "the service's default for such events, because none was chosen".to_owned()
                    }
                };
                format!(
                    "The cancellation policy is {name}, {source}; its terms were frozen at that moment."
                )
            }
            _ => "No cancellation policy was agreed on.".to_owned(),
        };
        let (booking, terms) = (self.m.booking, self.m.terms);
        let paid = booking.amount_paid.as_ref();
        let paid = paid.and_then(|paid| Amount::parse(&paid.to_string(), booking.currency).ok());
        let paid = paid.map(money).map_or_else(String::new, |paid| {
            format!(" According to {partner}, {paid} had been paid by then.")
        });
        let zone = match terms.assumed.contains(&Assumption::TimeZoneAssumedUtc) {
            true => " Nobody named the event's time zone, so its date is read as UTC.",
            false => "",
        };
        let hour = match terms.date {
            EventDate::Date(_) if self.m.wording >= Wording::Second => {
                let policy = self.m.policy.map(|policy| policy.document().anchor_time);
                let hour = policy.unwrap_or(TimeOfDay::MIDNIGHT);
                format!(
                    " Nobody named the time at which the event starts: deadlines are counted from {hour}."
                )
            }
            _ => String::new(),
        };
        format!("{partner} recorded the booking on {at}. {policy}{paid}{zone}{hour}")
    }

    /// The latest acceptance of each side.
    fn accepted(&mut self) -> Vec<Paragraph> {
        let facts = self.m.facts;
        let acceptances: Vec<_> = facts_of::<Acceptance>(facts).collect();
        let mut latest: Vec<(u64, &Acceptance)> = Vec::new();
        for (entry, acceptance) in acceptances.into_iter().rev() {
            let mut known = latest.iter().map(|(_, other)| other.party);
            if known.all(|party| party != acceptance.party) {
                latest.push((entry, acceptance));
            }
        }
        latest.reverse();
        let moves = facts_of::<RescheduleFact>(facts);
        let moves: Vec<u64> = moves.map(|(entry, _)| entry).collect();
        let lacking = self.lacking(&latest, moves.last().copied());
        let told = latest.into_iter().map(|(entry, acceptance)| {
            let before = moves.iter().filter(|moved| **moved < entry).count();
            let terms = match moves.len() {
                n if n == before => "these terms, as they were disclosed".to_owned(),
                2.. if self.m.wording >= Wording::Second => {
                    format!(
                        "the terms that applied before move {} of the event",
                        before + 1
                    )
                }
                _ => "the terms that applied before the event was moved".to_owned(),
            };
            let text = self.acceptance(entry, acceptance, &terms);
            self.paragraph(text, &[entry])
        });
        let mut told: Vec<Paragraph> = told.collect();
        told.extend(lacking.map(|text| self.paragraph(text, &[])));
        told
    }

    /// Which of the two sides have not accepted the terms in force: those since the last move, if there was one.
    fn lacking(&self, latest: &[(u64, &Acceptance)], moved: Option<u64>) -> Option<String> {
        // Without a policy there are no terms to accept.
        self.m.policy?;
        let has_accepted = |side: Actor| {
            let mut known = latest.iter();
            known.any(|(entry, other)| other.party == side && Some(*entry) > moved)
        };
        let sides = [Actor::Organizer, Actor::Talent].into_iter();
        let sides: Vec<String> = sides
            .filter(|side| !has_accepted(*side))
            .map(|side| format!("the {side}"))
            .collect();
        let terms = match moved {
            None => "these terms",
            Some(_) => "the terms that have applied since the event was last moved",
        };
        let text = format!(
            "No entry says that {} accepted {terms}.",
            sides.join(" or ")
        );
        (self.m.wording >= Wording::Second && !sides.is_empty()).then_some(text)
    }

    pub(super) fn acceptance(
        &mut self,
        entry: u64,
        acceptance: &Acceptance,
        terms: &str,
    ) -> String {
        let at = self.clock.time(acceptance.at);
        let (partner, side) = (self.partner(), self.side(acceptance.party));
        let means = "means that were erased";
        let means = self.written(entry, Erasable::Method, &acceptance.method, means);
        // Behind the terms, the date would seem to be that of their disclosure, or of the move.
        if self.m.wording >= Wording::Second {
            return format!("{partner} states that on {at}, {side} accepted {terms}, by {means}.");
        }
        format!("{partner} states that {side} accepted {terms} on {at}, by {means}.")
    }

    /// What the partner reported. `received` says when, unless the reader sees that beside it.
    pub(super) fn cancellation(&mut self, cancellation: &Cancellation, received: &str) -> String {
        let (did, what) = match (self.absent(cancellation), cancellation.reason) {
            (Some(_), _) => ("did not come".to_owned(), "report"),
            (None, Some(reason)) => (format!("canceled {}", because(reason)), "cancellation"),
            (None, None) => ("canceled".to_owned(), "cancellation"),
        };
        let who = match cancellation.canceled_by {
            Actor::Partner if self.m.wording >= Wording::Second => "it".to_owned(),
            side => self.side(side),
        };
        let mut text = format!("{} reported that {who} {did}{received}.", self.partner());
        if let Some(effective) = cancellation.effective_at {
            text += &format!(
                " According to {}, the {what} counts from {}.",
                self.partner(),
                self.clock.time(effective)
            );
        }
        if let Some(refund) = cancellation.agreed_refund {
            text += &format!(
                " Both sides agreed on a refund of {}, as {} states.",
                money(refund),
                self.partner()
            );
        }
        match cancellation.documents() {
            0 => {}
            1 => text += " It named one document as evidence, by its digest.",
            n => text += &format!(" It named {n} documents as evidence, by their digests."),
        }
        text
    }

    /// The evidence items that the partner added.
    fn items(&self) -> Option<String> {
        let items = facts_of::<EvidenceItem>(self.m.facts);
        let items: Vec<String> = items.map(|(entry, item)| self.item(entry, item)).collect();
        let noun = match items.len() {
            0 => return None,
            1 => "one item",
            n => &format!("{n} items"),
        };
        let told = items[..items.len().min(ITEMS_TOLD)].join("; ");
        let rest = match items.len().saturating_sub(ITEMS_TOLD) {
            0 => String::new(),
            n => format!("; and {n} more, which the timeline names"),
        };
        Some(format!(
            "{} added {noun} of evidence: {told}{rest}.",
            self.partner()
        ))
    }

    /// The values that this copy of the packet does not show.
    fn left_out(&self) -> Option<String> {
        let values: Vec<&str> = self.m.withheld.iter().map(|one| one.in_words()).collect();
        let text = format!(
            "This copy does not show some values: {}. The entries still commit to them.",
            values.join(", ")
        );
        (!values.is_empty()).then_some(text)
    }
}

fn because(reason: Reason) -> &'static str {
    match reason {
        Reason::ChangedPlans => "because plans changed",
        Reason::ScheduleConflict => "because of another engagement at the same time",
        Reason::Illness => "because of illness",
        Reason::VenueUnavailable => "because the venue could not be used",
        Reason::Weather => "because of the weather",
        Reason::ForceMajeure => "for force majeure",
        Reason::NoShow => "because somebody did not come",
        Reason::NonPayment => "because the organizer did not pay",
        Reason::Safety => "for safety",
        Reason::Other => "for another reason",
    }
}

/// A date as it was given: on the wall clock it was given for.
fn date(date: &EventDate) -> String {
    match date {
        EventDate::Date(date) => day((*date).into()),
        EventDate::Local(local) => format!("{}, {}", day(*local), clock(*local)),
        EventDate::Instant { at, offset } => {
            let local = at.to_utc().with_timezone(offset).naive_local();
            format!("{}, {} (UTC{offset})", day(local), clock(local))
        }
    }
}
