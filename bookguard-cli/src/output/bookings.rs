//! How bookings, their protection and their packets are shown.

use bookguard_core::evidence::Packet;
use bookguard_core::features::bookings::{BookingCreated, Protected};
use bookguard_core::model::{Booking, Page};

use super::nouns::yes_no;
use super::table::{Style, list, money, more, record, time};
use crate::text::plain;

/// A booking just recorded.
pub fn created(new: &BookingCreated, style: Style) -> String {
    record(
        style,
        &[
            ("booking", Some(new.booking_id.to_string())),
            ("partner", Some(new.partner_id.to_string())),
            ("status", Some(new.status.word().to_owned())),
            ("created", Some(time(new.created_at))),
        ],
    )
}

/// One booking.
pub fn booking(booking: &Booking, style: Style) -> String {
    let paid = booking
        .amount_paid
        .as_ref()
        .map(|paid| format!("{} {paid}", booking.currency));
    let metadata: Vec<String> = booking
        .metadata
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    record(
        style,
        &[
            ("booking", Some(booking.booking_id.to_string())),
            ("partner", Some(booking.partner_id.to_string())),
            ("status", Some(booking.status.word().to_owned())),
            ("protected", Some(yes_no(booking.protected))),
            (
                "talent",
                Some(format!("{} ({})", booking.talent.name, booking.talent.id)),
            ),
            (
                "organizer",
                Some(format!(
                    "{} ({})",
                    booking.organizer.name, booking.organizer.id
                )),
            ),
            ("event", Some(booking.event_type.clone())),
            ("event date", Some(time(booking.event_date))),
            ("time zone", booking.time_zone.clone()),
            ("value", Some(value(booking))),
            ("paid", paid),
            (
                "policy",
                booking.policy.as_ref().map(|policy| {
                    format!(
                        "{} v{} ({})",
                        policy.policy_id, policy.version, policy.policy_hash
                    )
                }),
            ),
            (
                "metadata",
                (!metadata.is_empty()).then(|| metadata.join(", ")),
            ),
            ("created", Some(time(booking.created_at))),
            ("protected at", booking.protected_at.map(time)),
            ("rescheduled at", booking.rescheduled_at.map(time)),
            ("canceled at", booking.canceled_at.map(time)),
            ("resolution", booking.resolution_id.map(|id| id.to_string())),
        ],
    )
}

/// A page of bookings.
pub fn bookings(page: &Page<Booking>, style: Style) -> String {
    let rows = page.data.iter().map(|booking| {
        [
            booking.booking_id.to_string(),
            booking.status.word().to_owned(),
            booking.event_type.clone(),
            time(booking.event_date),
            booking.talent.name.clone(),
            booking.organizer.name.clone(),
            value(booking),
        ]
    });
    let header = [
        "BOOKING",
        "STATUS",
        "EVENT",
        "DATE",
        "TALENT",
        "ORGANIZER",
        "VALUE",
    ];
    list(style, "bookings", header, rows.collect()) + &more(page.next_cursor.as_deref())
}

fn value(booking: &Booking) -> String {
    // A server that answers what is not an amount is shown as it is.
    booking.value().map_or_else(
        || format!("{} {}", booking.currency, booking.booking_value),
        money,
    )
}

/// A protection.
pub fn protected(protected: &Protected, style: Style) -> String {
    let receipt = &protected.receipt;
    record(
        style,
        &[
            ("booking", Some(protected.booking_id.to_string())),
            ("protected", Some(yes_no(protected.protected))),
            ("protected at", Some(time(protected.protected_at))),
            ("log", Some(receipt.log_origin.clone())),
            (
                "leaf",
                Some(format!("{} of {}", receipt.leaf_index, receipt.tree_size)),
            ),
            ("leaf hash", Some(receipt.leaf_hash.clone())),
            ("root hash", Some(receipt.root_hash.clone())),
        ],
    )
}

/// What a packet says. Whether it is true is for `evidence verify`.
pub fn evidence(packet: &Packet, style: Style) -> String {
    // Sentences, of any length: a table would only be in their way.
    let timeline: String = (packet.summary.timeline.iter())
        .map(|moment| {
            format!(
                "\n{}  {}",
                style.bold(&time(moment.at)),
                plain(&moment.text)
            )
        })
        .collect();
    let fields = [
        ("booking", Some(packet.booking.booking_id.to_string())),
        ("made", Some(time(packet.created_at))),
        ("log", Some(packet.log.origin.clone())),
        ("entries", Some(packet.entries.len().to_string())),
        ("policy", packet.policy_hash.clone()),
        ("deliveries", Some(packet.deliveries.len().to_string())),
        ("summary", Some(packet.summary.headline.clone())),
    ];
    format!(
        "{}\n{timeline}\n\nThis is a summary. To keep the packet itself: --output json > packet.json",
        record(style, &fields)
    )
}
