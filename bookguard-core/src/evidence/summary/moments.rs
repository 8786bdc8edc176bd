//! The timeline: one item per fact, and what the service states of deliveries that no entry holds.

use super::story::date;
use super::{Moment, Writer};
use crate::evidence::Notification;
use crate::evidence::facts::{Fact, Logged};
use crate::evidence::packet::PacketDelivery;
use crate::model::EventType;
use crate::policy::{Actor, Resolution};

impl Writer<'_> {
    pub(super) fn timeline(&mut self) -> Vec<Moment> {
        // A stable sort keeps what happened in the same millisecond in the order of the ledger.
        let mut items: Vec<Item<'_>> = self.m.facts.iter().map(Item::Logged).collect();
        items.extend(self.m.deliveries.iter().filter_map(Item::of));
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

    fn moment(&mut self, item: &Item<'_>) -> Moment {
        let at = item.at();
        let when = self.clock.time(at);
        let (entry, text) = match item {
            Item::Logged(Logged { place, fact }) => (Some(place.index), self.fact(fact)),
            Item::UnderWay(delivery) => (None, self.under_way(delivery)),
        };
        Moment {
            at,
            when,
            entry,
            text,
        }
    }

    fn fact(&mut self, fact: &Fact) -> String {
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
                let new = self.clock.time(fact.event_date);
                let agreed: Vec<String> =
                    fact.agreed_by.iter().map(|side| self.side(*side)).collect();
                format!(
                    "{partner} reported that {} agreed on {at} to move the event from {} to {new}. The service froze new terms.",
                    agreed.join(" and "),
                    date(&fact.former.previous_event_date)
                )
            }
            Fact::TermsAccepted(fact) => {
                let told = self.acceptance(fact, "the terms exactly as they were disclosed");
                let from = match (&fact.ip, &fact.user_agent) {
                    (Some(ip), Some(program)) => {
                        format!(" It came from {ip}, with \u{201c}{program}\u{201d}.")
                    }
                    (Some(ip), None) => format!(" It came from {ip}."),
                    (None, Some(program)) => format!(" It came with \u{201c}{program}\u{201d}."),
                    (None, None) => String::new(),
                };
                told + &from
            }
            Fact::BookingCanceled(fact) => {
                let told = self.cancellation(fact, "");
                match &fact.note {
                    Some(note) => format!("{told} {partner} noted: \u{201c}{note}\u{201d}"),
                    None => told,
                }
            }
            Fact::ResolutionCreated(fact) => self.resolution(&fact.resolution),
            Fact::WebhookSettled(fact) => settled(&fact.notification, &partner),
        }
    }

    fn resolution(&mut self, resolution: &Resolution) -> String {
        let cancellation = self.m.facts.iter().find_map(|logged| match &logged.fact {
            Fact::BookingCanceled(fact) => Some(&**fact),
            _ => None,
        });
        match (&resolution.decision, cancellation) {
            (Some(decision), _) => self.decision(decision, &resolution.evaluation),
            (None, Some(cancellation)) => self.result(&resolution.evaluation, cancellation),
            (None, None) => format!(
                "The service recorded what the cancellation by {} came to.",
                self.side(Actor::Organizer)
            ),
        }
    }

    /// The state of a delivery that is still open, or goes on after it was given up.
    fn under_way(&self, delivery: &PacketDelivery) -> String {
        format!(
            "The service states that the notification {} to {} at {} was not accepted in {}.",
            about(delivery.event_type),
            self.partner(),
            delivery.url.as_deref().unwrap_or_default(),
            attempts(delivery.attempts)
        )
    }
}

/// What the timeline is made of.
enum Item<'a> {
    Logged(&'a Logged<Fact>),
    UnderWay(&'a PacketDelivery),
}

impl<'a> Item<'a> {
    /// The item of a delivery that goes on since its last record.
    fn of(delivery: &'a PacketDelivery) -> Option<Self> {
        delivery.history.last()?;
        let ended = delivery.recorded.last();
        let is_over = ended.is_some_and(|ended| ended.attempts >= delivery.attempts);
        (!is_over).then_some(Self::UnderWay(delivery))
    }

    fn at(&self) -> crate::model::Timestamp {
        match self {
            Self::Logged(logged) => logged.place.at,
            Self::UnderWay(delivery) => (delivery.history.last())
                .map_or(delivery.event_id.made_at(), |last| last.started_at),
        }
    }
}

/// How a delivery ended.
fn settled(notification: &Notification, partner: &str) -> String {
    let Notification {
        event_type,
        seq,
        endpoint_id,
        ..
    } = notification;
    let answer = match (notification.status_code, &notification.error) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(error)) => error.replace('_', " "),
        (None, None) => "no answer".to_owned(),
    };
    let attempts = attempts(notification.attempts);
    let outcome = match notification.delivered() {
        true => format!(
            "The server of {partner} accepted the notification {} ({answer}, after {attempts})",
            about(*event_type)
        ),
        false => format!(
            "The service gave up the notification {} to {partner} after {attempts} (at last: {answer})",
            about(*event_type)
        ),
    };
    format!("{outcome}: event {seq}, endpoint {endpoint_id}.")
}

fn attempts(n: u32) -> String {
    match n {
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    }
}

fn about(event_type: EventType) -> &'static str {
    match event_type {
        EventType::BookingCreated => "of the recorded booking",
        EventType::BookingProtected => "of the protection",
        EventType::ResolutionCreated => "of the result of the cancellation",
    }
}
