//! What was sent to the partner, and what became of it.

use super::{Wording, Writer};
use crate::evidence::Notification;
use crate::evidence::packet::{PacketDelivery, UNKNOWN_ADDRESS};
use crate::model::{DeliveryStatus, RecordedEventType};

impl Writer<'_> {
    /// How many notifications were sent, and how many of them were accepted.
    pub(super) fn notifications(&self) -> Option<String> {
        let partner = self.partner();
        let sent = self.m.deliveries.iter();
        let sent = sent.filter(|delivery| delivery.status != DeliveryStatus::NoEndpoints);
        let (mut accepted, mut failed, mut open, mut unsent) = (0, 0, 0, 0);
        for delivery in sent {
            match delivery.status {
                _ if delivery.attempts == 0 && self.m.wording >= Wording::Second => unsent += 1,
                DeliveryStatus::Delivered => accepted += 1,
                DeliveryStatus::Failed => failed += 1,
                _ => open += 1,
            }
        }
        let parts = [
            (accepted, "accepted"),
            (failed, "not accepted"),
            (open, "still under way"),
        ];
        let parts = parts.into_iter().filter(|(n, _)| *n > 0);
        let parts: Vec<String> = parts.map(|(n, how)| format!("{n} {how}")).collect();
        let total = accepted + failed + open;
        let noun = |n| match n {
            1 => "notification",
            _ => "notifications",
        };
        let sent = match total {
            0 => String::new(),
            total => format!(
                "The service sent {total} {} about the booking to {partner}: {}.",
                noun(total),
                parts.join(", ")
            ),
        };
        match (total, unsent) {
            (0, 0) => None,
            (_, 0) => Some(sent),
            (0, n) => Some(format!(
                "The service has {n} {} about the booking for {partner} that it has not sent.",
                noun(n)
            )),
            (_, n) => Some(format!("{sent} It has {n} more that it has not sent.")),
        }
    }

    /// The state of a delivery that is still open, or goes on after it was given up.
    pub(super) fn under_way(&self, delivery: &PacketDelivery) -> String {
        let at = match delivery.url.as_deref() {
            Some(UNKNOWN_ADDRESS) if self.m.wording >= Wording::Second => String::new(),
            url => format!(" at {}", url.unwrap_or_default()),
        };
        format!(
            "The service states that the notification {} to {}{at} was not accepted in {}.",
            about(delivery.event_type),
            self.partner(),
            attempts(delivery.attempts)
        )
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
