//! The summary of a packet in sentences, for people.
//!
//! A pure function of what the rest of the packet proves or states, so that a verifier can recompute it. It names no person.

use serde::{Deserialize, Serialize};

use super::facts::{Fact, Logged};
use super::packet::PacketDelivery;
use crate::model::{Booking, BookingStatus, Timestamp};
use crate::policy::{Evaluation, Resolution, ResolutionStatus};

/// The packet in sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The booking in one line.
    pub headline: String,
    /// What happened, oldest first.
    pub timeline: Vec<Moment>,
}

/// An item of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Object))]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// When it happened.
    pub at: Timestamp,
    /// What happened, in a sentence.
    pub text: String,
}

/// The material of a summary.
#[derive(Debug, Clone, Copy)]
pub struct SummaryInput<'a> {
    /// The ledger's name.
    pub origin: &'a str,
    /// When the packet was made.
    pub created_at: Timestamp,
    /// The registered name of the booking's partner.
    pub partner_name: &'a str,
    /// The booking.
    pub booking: &'a Booking,
    /// Its facts, oldest first.
    pub facts: &'a [Logged<Fact>],
    /// The result of canceling now; absent if the booking is canceled.
    pub evaluation: Option<&'a Evaluation>,
    /// The resolution; absent if the booking is not canceled.
    pub resolution: Option<&'a Resolution>,
    /// What was sent to the partner.
    pub deliveries: &'a [PacketDelivery],
}

/// Summarizes the packet.
pub fn summarize(material: &SummaryInput<'_>) -> Summary {
    let told = material.facts.iter().map(|Logged { place, fact }| Moment {
        at: place.at,
        text: format!(
            "{} Entry {} of ledger {}.",
            fact.told(),
            place.index,
            material.origin
        ),
    });
    let mut timeline: Vec<Moment> = told.collect();
    timeline.extend(material.deliveries.iter().filter_map(under_way));
    // A stable sort keeps what happened in the same millisecond in the order of the ledger.
    timeline.sort_by_key(|moment| moment.at);
    let at = material.created_at;
    timeline.extend(match (material.resolution, material.evaluation) {
        (Some(resolution), _) => Some(result(resolution, at)),
        (None, evaluation) => evaluation.map(|evaluation| outlook(evaluation, at)),
    });
    Summary {
        headline: headline(material.booking, material.partner_name),
        timeline,
    }
}

fn headline(booking: &Booking, partner_name: &str) -> String {
    let value = match booking.value() {
        Some(value) => value.to_string(),
        None => format!("{} {}", booking.currency, booking.booking_value),
    };
    let standing = match (booking.status, booking.protected_at) {
        (BookingStatus::Created, _) => "is recorded, not yet protected".to_owned(),
        (BookingStatus::Protected, Some(at)) => format!("has been protected since {at}"),
        (BookingStatus::Protected, None) => "is protected".to_owned(),
        (BookingStatus::Canceled, _) => match booking.canceled_at {
            Some(at) => format!("was canceled on {at}"),
            None => "is canceled".to_owned(),
        },
    };
    format!(
        "Booking {} by {partner_name} ({}, event on {}, {value}) {standing}.",
        booking.booking_id, booking.event_type, booking.event_date
    )
}

/// The state of a delivery that is still open, or goes on after it was given up.
fn under_way(delivery: &PacketDelivery) -> Option<Moment> {
    let last = delivery.history.last()?;
    let ended = delivery.recorded.last();
    if ended.is_some_and(|ended| ended.attempts >= delivery.attempts) {
        return None;
    }
    let kind = delivery.event_type.word();
    let endpoint_id = delivery.endpoint_id?;
    let url = delivery.url.as_deref().unwrap_or_default();
    Some(Moment {
        at: last.started_at,
        text: format!(
            "The notification {kind} could not be delivered to endpoint {endpoint_id} ({url}) so far, as the service reports."
        ),
    })
}

fn outlook(evaluation: &Evaluation, at: Timestamp) -> Moment {
    let sums = match (evaluation.refund, evaluation.penalty) {
        (Some(refund), Some(penalty)) => format!(", refund {refund}, penalty {penalty}"),
        _ => String::new(),
    };
    Moment {
        at,
        text: format!(
            "This packet was made. A cancellation by the organizer at this moment would come to {}{sums}. {}",
            evaluation.resolution_path, evaluation.explanation.text
        ),
    }
}

fn result(resolution: &Resolution, at: Timestamp) -> Moment {
    let standing = match (resolution.status, &resolution.decision) {
        (ResolutionStatus::Final, _) => "The booking is settled by its policy.".to_owned(),
        (ResolutionStatus::PendingReview, _) => "A person still has to decide.".to_owned(),
        (ResolutionStatus::Decided, decision) => match decision {
            Some(decision) => format!("A person decided it on {}.", decision.decided_at),
            None => "A person decided it.".to_owned(),
        },
    };
    Moment {
        at,
        text: format!(
            "This packet was made. {standing} {} {}",
            resolution.summary, resolution.evaluation.explanation.text
        ),
    }
}
