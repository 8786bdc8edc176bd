//! The timeline: one item per fact, and what the service states of deliveries that no entry holds.

use super::notified::settled;
use super::wall_clock::money;
use super::{Moment, Wording, Writer};
use crate::evidence::erasure::{Erasable, Erasure, names_in_words};
use crate::evidence::facts::{Fact, Logged, facts_of};
use crate::evidence::packet::PacketDelivery;
use crate::evidence::{EvidenceItem, ItemKind, LegalBasis};
use crate::policy::{Actor, Cancellation, Resolution};

impl Writer<'_> {
    pub(super) fn timeline(&mut self) -> Vec<Moment> {
        // A stable sort keeps what happened in the same millisecond in the order of the ledger.
        let logged = (0..).zip(self.m.facts);
        let mut items: Vec<Happening<'_>> = logged
            .map(|(entry, logged)| Happening::Logged(entry, logged))
            .collect();
        items.extend(self.m.deliveries.iter().filter_map(Happening::of));
        items.sort_by_key(|item| item.at());
        let mut timeline: Vec<Moment> = items.into_iter().map(|item| self.moment(&item)).collect();
        timeline.push(Moment {
            at: self.m.created_at,
            when: self.clock.time(self.m.created_at),
            entry: None,
            text: "The service made and signed this packet.".to_owned(),
        });
        timeline
    }

    fn moment(&mut self, item: &Happening<'_>) -> Moment {
        let at = item.at();
        let when = self.clock.time(at);
        let (entry, text) = match item {
            Happening::Logged(entry, Logged { place, fact }) => {
                (Some(place.index), self.fact(*entry, fact))
            }
            Happening::UnderWay(delivery) => (None, self.under_way(delivery)),
        };
        Moment {
            at,
            when,
            entry,
            text,
        }
    }

    /// What the entry with this number of the booking says.
    fn fact(&mut self, entry: u64, fact: &Fact) -> String {
        let partner = self.partner();
        match fact {
            Fact::BookingCreated(_) => format!(
                "{partner} recorded the booking. The service froze its cancellation terms and logged both."
            ),
            Fact::BookingProtected(_) => {
                format!("{partner} protected the booking: its terms were locked in the ledger.")
            }
            Fact::BookingRescheduled(fact) => {
                let at = self.clock.time(fact.agreed_at());
                let former = self.former_date(entry, fact);
                let new = self.clock.start(&fact.terms, fact.event_date);
                let agreed = self.agreed_by(fact);
                format!(
                    "{partner} reported that {agreed} agreed on {at} to move the event from {former} to {new}. The service froze new terms."
                )
            }
            Fact::TermsAccepted(fact) => {
                let told = self.acceptance(entry, fact, "the terms exactly as they were disclosed");
                let from = match (&fact.ip, &fact.user_agent) {
                    (Some(ip), Some(program)) => {
                        format!(" It came from {ip}, with {}.", self.quoted(program))
                    }
                    (Some(ip), None) => format!(" It came from {ip}."),
                    (None, Some(program)) => format!(" It came with {}.", self.quoted(program)),
                    (None, None) => String::new(),
                };
                told + &from
            }
            Fact::BookingCanceled(fact) => {
                let told = self.cancellation(fact, "");
                match &fact.note {
                    Some(note) => format!("{told} {partner} noted: {}", self.quoted(note)),
                    None => told,
                }
            }
            Fact::ResolutionCreated(fact) => self.resolution(&fact.resolution),
            Fact::EvidenceAdded(item) => self.added(entry, item),
            Fact::EvidenceErased(fact) => self.erasure(fact),
            Fact::WebhookSettled(fact) => settled(&fact.notification, &partner, self.m.wording),
        }
    }

    fn resolution(&mut self, resolution: &Resolution) -> String {
        let cancellation = facts_of::<Cancellation>(self.m.facts).next();
        match (&resolution.decision, cancellation) {
            (Some(decision), _) => self.decision(decision, &resolution.evaluation),
            (None, Some((_, cancellation))) => self.result(&resolution.evaluation, cancellation),
            (None, None) => format!(
                "The service recorded what the cancellation by {} came to.",
                self.side(Actor::Organizer)
            ),
        }
    }

    fn added(&mut self, entry: u64, item: &EvidenceItem) -> String {
        let partner = self.partner();
        let mut text = format!("{partner} added {} as evidence.", self.item(entry, item));
        let from = item
            .party
            .map(|party| format!("comes from {}", self.side(party)));
        let at = item
            .at
            .map(|at| format!("dates from {}", self.clock.time(at)));
        let origin: Vec<String> = from.into_iter().chain(at).collect();
        if !origin.is_empty() {
            text += &format!(" According to {partner}, it {}.", origin.join(" and "));
        }
        if let Some(reference) = &item.reference {
            text += &format!(" Its reference is {}.", self.quoted(reference));
        }
        if let Some(note) = &item.note {
            text += &format!(" {partner} noted: {}", self.quoted(note));
        }
        if let Some(digest) = &item.sha256 {
            let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
            text += &format!(" The SHA-256 of its file is {hex}.");
        }
        text
    }

    /// What an evidence item is, with its amount and title.
    pub(super) fn item(&self, entry: u64, item: &EvidenceItem) -> String {
        let kind = kind_in_words(item.kind);
        let amount = item
            .amount
            .map_or_else(String::new, |amount| format!(" of {}", money(amount)));
        format!(
            "{kind}{amount} ({})",
            self.written(entry, Erasable::Title, &item.title, "title erased")
        )
    }

    fn erasure(&self, erasure: &Erasure) -> String {
        let asked = match &erasure.request_ref {
            Some(request) => format!(" Its request has the reference {}.", self.quoted(request)),
            None => String::new(),
        };
        let why = match (self.m.wording, erasure.legal_basis) {
            (Wording::Second, LegalBasis::ConsentWithdrawn) => {
                "because the person withdrew consent"
            }
            (_, basis) => basis.in_words(),
        };
        let what = match self.m.wording {
            Wording::First => "personal data of the entries before erased",
            Wording::Second => "personal data erased from earlier entries",
        };
        format!(
            "{} had {what}, {why}: {}. Their digests stay in the ledger.{asked}",
            self.partner(),
            names_in_words([erasure])
        )
    }
}

/// What an evidence item of this kind is.
pub(in crate::evidence) fn kind_in_words(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Contract => "a contract",
        ItemKind::Message => "a message",
        ItemKind::Photo => "a photo or recording",
        ItemKind::CheckIn => "a record of arrival",
        ItemKind::Payment => "a payment",
        ItemKind::Refund => "a paid refund",
        ItemKind::Other => "a document",
    }
}

/// What the timeline is made of.
enum Happening<'a> {
    /// A fact, with its number in the booking's chain.
    Logged(u64, &'a Logged<Fact>),
    UnderWay(&'a PacketDelivery),
}

impl<'a> Happening<'a> {
    /// The item of a delivery that goes on since its last record.
    fn of(delivery: &'a PacketDelivery) -> Option<Self> {
        delivery.history.last()?;
        let ended = delivery.recorded.last();
        let is_over = ended.is_some_and(|ended| ended.attempts >= delivery.attempts);
        (!is_over).then_some(Self::UnderWay(delivery))
    }

    fn at(&self) -> crate::model::Timestamp {
        match self {
            Self::Logged(_, logged) => logged.place.at,
            Self::UnderWay(delivery) => (delivery.history.last())
                .map_or(delivery.event_id.made_at(), |last| last.started_at),
        }
    }
}
