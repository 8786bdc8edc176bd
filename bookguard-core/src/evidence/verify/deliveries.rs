//! Checks deliveries: each end is shown as recorded, and nothing shown contradicts it. Hosts, and what happened before the
//! last attempt or after it, are only the service's statement.

use std::collections::BTreeSet;

use super::super::notification::Notification;
use super::super::packet::{Packet, PacketDelivery, shown_address};
use super::super::state::BookingState;
use super::Outcome;
use crate::limits::{ATTEMPTS_SHOWN, DELIVERIES_PER_EVENT};
use crate::model::{DeliveryStatus, EventId};

/// Checks that the deliveries shown are compatible with the ledger's records, and include every recorded end.
pub(super) fn check(packet: &Packet, state: &BookingState) -> Outcome {
    let recorded: Vec<&Notification> = state.settled.iter().map(|known| &known.fact).collect();
    let causes = state.causes();
    // The checks below compare each delivery with all others, which would take long for many thousands in a forged packet.
    let most = causes.total() * DELIVERIES_PER_EVENT;
    if packet.deliveries.len() > most {
        return Err(format!(
            "The packet shows {} deliveries, but its entries account for {} events, each sent to at most \
             {DELIVERIES_PER_EVENT} endpoints.",
            packet.deliveries.len(),
            causes.total()
        ));
    }
    let mut shown: Vec<&PacketDelivery> = Vec::with_capacity(packet.deliveries.len());
    for delivery in &packet.deliveries {
        let refused = |why: &str| {
            let to = delivery.endpoint_id.map(|id| format!(" to endpoint {id}"));
            let to = to.unwrap_or_default();
            Err(format!(
                "The delivery of event {}{to} cannot have happened as shown: {why}.",
                delivery.event_id
            ))
        };
        let (told, at) = (delivery.event_type, delivery.event_id.made_at());
        let alike = shown.iter().map(|other| (other.event_type, other.event_id));
        let events: BTreeSet<EventId> = alike
            .filter(|(other, id)| *other == told && id.made_at() == at)
            .map(|(_, id)| id)
            .chain([delivery.event_id])
            .collect();
        if events.len() > causes.count(told, at) {
            return refused("no entry shows what the event reports");
        }
        if let Some(why) = shown
            .iter()
            .find_map(|other| clash(other, delivery))
            .or_else(|| contradiction(delivery, &recorded))
        {
            return refused(why);
        }
        shown.push(delivery);
    }
    let named = |n: &Notification| {
        let mut all = shown.iter();
        all.any(|d| d.endpoint_id == Some(n.endpoint_id) && d.event_id == n.event_id)
    };
    if let Some(hidden) = recorded.iter().find(|n| !named(n)) {
        return Err(format!(
            "The ledger records how the delivery of event {} to endpoint {} ended, and the packet does not show it.",
            hidden.event_id, hidden.endpoint_id
        ));
    }
    Ok(words(&shown, &recorded))
}

/// Why two deliveries cannot both exist.
fn clash(one: &PacketDelivery, other: &PacketDelivery) -> Option<&'static str> {
    if one.event_id != other.event_id {
        return None;
    }
    if one.event_type != other.event_type {
        return Some("the event is shown with two types");
    }
    (one.endpoint_id == other.endpoint_id
        || one.endpoint_id.is_none()
        || other.endpoint_id.is_none())
    .then_some("it is shown twice")
}

/// Why a delivery, as shown, contradicts the ledger's records of the booking.
fn contradiction(delivery: &PacketDelivery, recorded: &[&Notification]) -> Option<&'static str> {
    let own = recorded
        .iter()
        .filter(|n| Some(n.endpoint_id) == delivery.endpoint_id && n.event_id == delivery.event_id);
    if !own.copied().eq(&delivery.recorded) {
        return Some("how it ended is not shown as the ledger records it");
    }
    let last = delivery.recorded.last();
    let accepted = last.filter(|last| last.delivered());
    let sound = match delivery.status {
        DeliveryStatus::NoEndpoints | DeliveryStatus::Pending => {
            delivery.attempts == 0 && last.is_none()
        }
        DeliveryStatus::Delivered => accepted.is_some_and(|n| n.attempts == delivery.attempts),
        DeliveryStatus::Failed => {
            accepted.is_none() && last.is_none_or(|n| n.attempts <= delivery.attempts)
        }
    };
    let nowhere = delivery.status == DeliveryStatus::NoEndpoints;
    let to = (delivery.endpoint_id.is_some(), delivery.url.is_some());
    if !sound || to != (!nowhere, !nowhere) {
        return Some("its status is not what the ledger records and what else is shown of it");
    }
    if delivery.url.as_deref().is_some_and(|url| !is_address(url)) {
        return Some("its address shows more or less than scheme, host and port");
    }
    if last.is_some_and(|last| last.event_type != delivery.event_type) {
        return Some("the ledger records another type of its event");
    }
    history(delivery)
}

/// Whether it is scheme, host and port, and nothing else.
fn is_address(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let is_scheme = !scheme.is_empty() && !scheme.contains([':', '/', '\\', '?', '#', '@']);
    is_scheme && shown_address(url) == url
}

/// Why the attempts shown cannot have led to the recorded ends. The service prunes attempts after some time.
fn history(delivery: &PacketDelivery) -> Option<&'static str> {
    let attempts = &delivery.history;
    if attempts.is_empty() {
        return None;
    }
    if attempts.len() != delivery.attempts.min(ATTEMPTS_SHOWN) as usize {
        return Some("it does not show as many attempts as it counts");
    }
    let before = delivery.attempts as usize - attempts.len();
    for n in &delivery.recorded {
        let place = (n.attempts as usize).checked_sub(before + 1);
        let Some(attempt) = place.and_then(|place| attempts.get(place)) else {
            continue;
        };
        if (attempt.status_code, &attempt.error) != (n.status_code, &n.error) {
            return Some("the attempt with which it ended is not the one the ledger records");
        }
    }
    let accepted = attempts.iter().position(|attempt| attempt.error.is_none());
    let ended = match delivery.status {
        DeliveryStatus::Delivered => accepted == Some(attempts.len() - 1),
        _ => accepted.is_none(),
    };
    (!ended).then_some("its attempts do not end as its status says")
}

fn words(shown: &[&PacketDelivery], recorded: &[&Notification]) -> String {
    let ended = shown.iter().filter(|d| !d.recorded.is_empty()).count();
    let accepted = recorded.iter().filter(|n| n.delivered()).count();
    let events: BTreeSet<EventId> = shown.iter().map(|d| d.event_id).collect();
    let told = match (events.len(), ended) {
        (0, _) => {
            return "The packet shows no notification, and none of its entries is the end of one."
                .to_owned();
        }
        (_, 0) => "None of the packet's entries is the end of a notification".to_owned(),
        (_, n) => format!(
            "How {n} notification{} ended ({accepted} accepted) is shown exactly as the ledger records it",
            if n == 1 { "" } else { "s" }
        ),
    };
    format!(
        "{told}. Hosts, attempts before the last, and what is still under way are what the service says, under its signature."
    )
}
