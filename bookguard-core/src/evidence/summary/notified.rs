//! What was sent to the partner, and what became of it.

use super::{Wording, Writer};
use crate::evidence::Notification;
use crate::evidence::packet::{PacketDelivery, UNKNOWN_ADDRESS};
use crate::model::{DeliveryStatus, RecordedEventType};

impl Writer<'_> {
    /// How many notifications were sent, and how many of them were accepted.
    pub(super) fn notifications(&self) -> Option<String> {
        let mut counts = [0_usize; Fate::ALL.len()];
        for delivery in self.m.deliveries {
            if let Some(fate) = Fate::of(delivery, self.m.wording) {
                counts[fate as usize] += 1;
            }
        }
        let count = |fate: Fate| counts[fate as usize];
        let sent = Fate::ALL.into_iter().filter_map(|fate| {
            let how = fate.in_words(self.m.wording)?;
            Some((count(fate), how)).filter(|(n, _)| *n > 0)
        });
        let total: usize = sent.clone().map(|(n, _)| n).sum();
        let noun = |n| match n {
            1 => "notification",
            _ => "notifications",
        };
        let partner = self.partner();
        let mut sentences = Vec::new();
        if total > 0 {
            let parts: Vec<String> = sent.map(|(n, how)| format!("{n} {how}")).collect();
            sentences.push(format!(
                "The service sent {total} {} about the booking to {partner}: {}.",
                noun(total),
                parts.join(", ")
            ));
        }
        for (fate, which) in [
            (Fate::Waiting, "that it has not sent"),
            (
                Fate::Dropped,
                "that it no longer sends, with no attempt recorded",
            ),
        ] {
            match (count(fate), sentences.is_empty()) {
                (0, _) => {}
                (n, true) => sentences.push(format!(
                    "The service has {n} {} about the booking for {partner} {which}.",
                    noun(n)
                )),
                (n, false) => sentences.push(format!("It has {n} more {which}.")),
            }
        }
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// The state of a delivery that is still open, or goes on after it was given up.
    pub(super) fn under_way(&self, delivery: &PacketDelivery) -> String {
        let at = match delivery.url.as_deref() {
            Some(UNKNOWN_ADDRESS) if self.m.wording >= Wording::Second => String::new(),
            url => format!(" at {}", url.unwrap_or_default()),
        };
        let told = format!(
            "The service states that the notification {} to {}{at} was not accepted in {}",
            about(delivery.event_type),
            self.partner(),
            attempts(delivery.attempts)
        );
        match (self.m.wording, delivery.endpoint_id) {
            (Wording::Second, Some(endpoint_id)) => format!(
                "{told} so far: event {}, endpoint {endpoint_id}.",
                delivery.event_id
            ),
            _ => format!("{told}."),
        }
    }
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Accepted,
    /// The ledger records that the service stopped trying.
    GivenUp,
    /// It was sent, and its end is not recorded.
    Open,
    /// It was not sent yet.
    Waiting,
    /// It cannot be sent any more, because its endpoint was deleted or its content was erased, and no attempt is recorded. One that was
    /// under way at that moment may have arrived.
    Dropped,
}

impl Fate {
    const ALL: [Self; 5] = [
        Self::Accepted,
        Self::GivenUp,
        Self::Open,
        Self::Waiting,
        Self::Dropped,
    ];

    /// How a delivery stands in this wording; `None` for an event that has none.
    fn of(delivery: &PacketDelivery, wording: Wording) -> Option<Self> {
        let is_ended = !delivery.recorded.is_empty();
        Some(match (wording, delivery.status) {
            (_, DeliveryStatus::NoEndpoints) => return None,
            (Wording::Second, DeliveryStatus::Failed) if delivery.attempts == 0 => Self::Dropped,
            (Wording::Second, _) if delivery.attempts == 0 => Self::Waiting,
            (_, DeliveryStatus::Delivered) => Self::Accepted,
            (Wording::First, DeliveryStatus::Failed) => Self::GivenUp,
            (Wording::Second, DeliveryStatus::Failed) if is_ended => Self::GivenUp,
            _ => Self::Open,
        })
    }

    /// What became of what was sent; `None` for what was not.
    fn in_words(self, wording: Wording) -> Option<&'static str> {
        match (self, wording) {
            (Self::Accepted, _) => Some("accepted"),
            (Self::GivenUp, Wording::First) => Some("not accepted"),
            (Self::GivenUp, Wording::Second) => Some("given up"),
            (Self::Open, Wording::First) => Some("still under way"),
            (Self::Open, Wording::Second) => Some("not accepted so far"),
            (Self::Waiting | Self::Dropped, _) => None,
        }
    }
}

/// How a delivery ended.
pub(super) fn settled(notification: &Notification, partner: &str, wording: Wording) -> String {
    let Notification {
        event_type,
        seq,
        endpoint_id,
        ..
    } = notification;
    let answer = match (notification.status_code, &notification.error) {
        // A server may answer that it accepts, and then not end its answer.
        (Some(code @ 200..=299), Some(error)) if wording >= Wording::Second => {
            format!("status {code}, then {}", error.replace('_', " "))
        }
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
        false if wording >= Wording::Second => {
            let last = match notification.status_code {
                Some(_) => format!("the last answer was {answer}"),
                None => format!("the last one failed ({answer})"),
            };
            format!(
                "The service stopped trying to deliver the notification {} to {partner} after {attempts}; {last}",
                about(*event_type)
            )
        }
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

fn about(event_type: RecordedEventType) -> &'static str {
    match event_type {
        RecordedEventType::BookingCreated => "of the recorded booking",
        RecordedEventType::BookingProtected => "of the protection",
        RecordedEventType::ResolutionCreated => "of the result of the cancellation",
    }
}
