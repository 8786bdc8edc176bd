//! Lifecycle events and the state of their deliveries.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{BookingId, EndpointId, EventId, PartnerId, Timestamp, vocabulary};

// The store keeps a type as its place here.
vocabulary! {
    /// What an event reports.
    EventType {
        /// A booking was recorded.
        BookingCreated = "booking.created",
        /// A booking was protected.
        BookingProtected = "booking.protected",
        /// A cancellation was resolved.
        ResolutionCreated = "resolution.created",
        /// A booking's event was moved to another date.
        BookingRescheduled = "booking.rescheduled",
        /// An acceptance of a booking's terms was recorded.
        TermsAccepted = "terms.accepted",
        /// A person decided a resolution that needed it.
        ResolutionDecided = "resolution.decided",
        /// An endpoint was suspended because all attempts failed for long.
        EndpointSuspended = "endpoint.suspended",
        /// An API key will soon expire.
        ApiKeyExpiring = "api_key.expiring",
    }
}

impl EventType {
    /// The same type as the ledger and evidence packets know it. `None` for the types that an endpoint must list: such
    /// an event is made only while somebody listens, so it is not part of what is proved about a booking.
    pub fn recorded(self) -> Option<RecordedEventType> {
        match self {
            Self::BookingCreated => Some(RecordedEventType::BookingCreated),
            Self::BookingProtected => Some(RecordedEventType::BookingProtected),
            Self::ResolutionCreated => Some(RecordedEventType::ResolutionCreated),
            Self::BookingRescheduled
            | Self::TermsAccepted
            | Self::ResolutionDecided
            | Self::EndpointSuspended
            | Self::ApiKeyExpiring => None,
        }
    }

    /// Whether an endpoint that lists these types receives this one. One that lists none receives those of the
    /// specification.
    pub fn is_received_by(self, listed: &[Self]) -> bool {
        match listed {
            [] => self.recorded().is_some(),
            _ => listed.contains(&self),
        }
    }
}

/// The event types of the specification. They are made whether or not anybody listens, and only their deliveries are in
/// the ledger and in evidence packets, whose format names no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum RecordedEventType {
    /// A booking was recorded.
    #[serde(rename = "booking.created")]
    BookingCreated,
    /// A booking was protected.
    #[serde(rename = "booking.protected")]
    BookingProtected,
    /// A cancellation was resolved.
    #[serde(rename = "resolution.created")]
    ResolutionCreated,
}

vocabulary! {
    /// The status of a delivery, or of an event over all its deliveries.
    DeliveryStatus {
        /// No attempt has ended yet.
        Pending = "pending",
        /// The receiver answered 2xx.
        Delivered = "delivered",
        /// The last attempt failed, or the endpoint was deleted; `progress` says whether another attempt follows.
        Failed = "failed",
        /// No endpoint took the event when it happened.
        NoEndpoints = "no_endpoints",
    }
}

vocabulary! {
    /// What happens next with a delivery.
    DeliveryProgress {
        /// A node holds it, and makes an attempt now or as soon as its turn comes.
        UnderWay = "under_way",
        /// The next attempt is planned; `nextAttemptAt` says when.
        Scheduled = "scheduled",
        /// Its endpoint is disabled; it goes on once the endpoint is enabled.
        WaitingForEndpoint = "waiting_for_endpoint",
        /// No automatic attempt follows: it was accepted or given up, or its endpoint is deleted.
        Ended = "ended",
    }
}

impl DeliveryStatus {
    /// The status of an event over all its deliveries, each with whether its endpoint still exists.
    ///
    /// What a deleted endpoint did not accept has failed. It counts until another endpoint has the event: nobody can deliver it
    /// any more.
    pub fn of_event(deliveries: impl IntoIterator<Item = (Self, bool)>) -> Self {
        let (mut status, mut is_lost, mut is_received) = (Self::NoEndpoints, false, false);
        for (delivery, exists) in deliveries {
            is_received |= delivery == Self::Delivered;
            if !exists && delivery != Self::Delivered {
                is_lost = true;
                continue;
            }
            status = match (status, delivery) {
                (Self::Failed, _) | (_, Self::Failed) => Self::Failed,
                (Self::Pending, _) | (_, Self::Pending) => Self::Pending,
                _ => Self::Delivered,
            };
        }
        match is_lost && !is_received {
            true => Self::Failed,
            false => status,
        }
    }
}

impl DeliveryProgress {
    /// What comes next, in English, with a delivery of this status: none if a time says it, or if nothing is missing.
    pub fn in_words(self, status: DeliveryStatus) -> Option<&'static str> {
        match self {
            Self::UnderWay => Some("under way"),
            Self::WaitingForEndpoint => Some("once its endpoint is enabled"),
            Self::Ended if status == DeliveryStatus::Failed => Some("given up"),
            Self::Scheduled | Self::Ended => None,
        }
    }
}

/// The delivery of one event to one endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// The address that the last attempt went to; the endpoint's if there was none, or if that is not known any more.
    pub url: String,
    /// The delivery's status.
    pub status: DeliveryStatus,
    /// Attempts made.
    pub attempts: u32,
    /// What happens next. Absent only in answers of versions before this member existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<DeliveryProgress>,
    /// When the next automatic attempt is due, if its time is known: while `progress` is `scheduled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// Status code of the last attempt's response, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status_code: Option<u16>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// An event as listings show it: the delivered envelope, and the state of its deliveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The event's id; receivers deduplicate by it.
    pub event_id: EventId,
    /// The partner that owns it, when the operator lists the events of all partners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner_id: Option<PartnerId>,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The booking it happened to; null if it is about none.
    pub booking_id: Option<BookingId>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// The status over all its deliveries.
    pub status: DeliveryStatus,
    /// The event's content; null once the event was pruned.
    pub payload: serde_json::Value,
    /// Number in the partner's own gapless sequence of events.
    pub seq: u64,
    /// `x-service-signature` of the delivered body under the partner's secret; absent once the event was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^sha256=[0-9a-f]{64}$"))]
    pub signature: Option<String>,
    /// When its payload and its attempts were deleted, because it was too old or its booking's data were erased. It can no longer be delivered; the booking's
    /// evidence packet still shows what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned_at: Option<Timestamp>,
    /// SHA-256 of the body that was deleted, lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<String>,
    /// Manual retries so far.
    pub retry_count: u32,
    /// The earliest automatic attempt that is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// One delivery per endpoint that the event goes to.
    pub deliveries: Vec<Delivery>,
}

impl Event {
    /// What happens next with the delivery that is furthest from its end.
    pub fn progress(&self) -> Option<DeliveryProgress> {
        let deliveries = self.deliveries.iter();
        deliveries.filter_map(|delivery| delivery.progress).min()
    }
}

#[cfg(test)]
mod tests {
    use super::DeliveryStatus::{self, *};
    use super::{DeliveryProgress, EventType};

    #[test]
    fn an_endpoint_receives_what_it_lists_and_one_without_a_list_what_the_specification_names() {
        let of_the_specification = ["booking.created", "booking.protected", "resolution.created"];
        for (at, &(word, event_type)) in EventType::WORDS.iter().enumerate() {
            assert_eq!((event_type as usize, event_type.word()), (at, word));
            let standard = of_the_specification.contains(&word);
            assert_eq!(event_type.is_received_by(&[]), standard, "{word}");
            for &(_, listed) in EventType::WORDS {
                let listed_too = event_type.is_received_by(&[EventType::BookingCreated, listed]);
                let expected = event_type == listed || event_type == EventType::BookingCreated;
                assert_eq!(listed_too, expected, "{word} {listed:?}");
            }
            let recorded = event_type.recorded();
            assert_eq!(recorded.is_some(), standard, "{word}");
            let spelled = recorded.map(|known| serde_json::to_value(known).unwrap());
            assert!(spelled.is_none_or(|known| known == word), "{word}");
        }
    }

    #[test]
    fn what_was_not_accepted_says_what_comes_next() {
        use DeliveryProgress::{Ended, Scheduled, UnderWay, WaitingForEndpoint};
        for (status, progress, expected) in [
            (Failed, UnderWay, Some("under way")),
            (Pending, UnderWay, Some("under way")),
            (Failed, Scheduled, None),
            (
                Failed,
                WaitingForEndpoint,
                Some("once its endpoint is enabled"),
            ),
            (Failed, Ended, Some("given up")),
            (Delivered, Ended, None),
        ] {
            assert_eq!(
                progress.in_words(status),
                expected,
                "{status:?} {progress:?}"
            );
        }
    }

    #[test]
    fn an_event_is_as_bad_as_its_worst_delivery_to_an_endpoint_that_counts() {
        // (at endpoints that exist, at deleted ones, the event)
        for (existing, deleted, status) in [
            (&[][..], &[][..], NoEndpoints),
            (&[Delivered], &[], Delivered),
            (&[Delivered, Pending], &[], Pending),
            (&[Pending, Failed, Delivered], &[], Failed),
            (&[Pending], &[], Pending),
            (&[], &[Delivered], Delivered),
            (&[], &[Pending], Failed),
            (&[], &[Failed, Delivered], Delivered),
            (&[Pending], &[Failed], Failed),
            (&[Delivered], &[Failed, Pending], Delivered),
            (&[Delivered, Pending], &[Failed], Pending),
            (&[Delivered, Failed], &[Failed], Failed),
        ] {
            let existing = existing.iter().map(|delivery| (*delivery, true));
            let deleted = deleted.iter().map(|delivery| (*delivery, false));
            let all: Vec<_> = existing.chain(deleted).collect();
            let back = all.iter().rev().copied();
            assert_eq!(DeliveryStatus::of_event(back), status, "{all:?}");
            let of_event = DeliveryStatus::of_event(all.iter().copied());
            assert_eq!(of_event, status, "{all:?}");
        }
    }
}
