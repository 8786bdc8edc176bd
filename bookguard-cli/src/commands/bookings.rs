//! `bookings`: records, reads and protects bookings. Cancellations, acceptances, evaluations, reschedules and erasures
//! have their own files.

mod acceptances;
mod erasures;
mod reschedules;

use bookguard_core::features::bookings::{
    BookingCreated, CreateBooking, GetBooking, ListBookings, ProtectBooking, Protected,
};
use bookguard_core::model::Booking;

use super::declare::{CliCommand, group, listing, operation};
use super::{cancellations, evaluations};
use crate::args::ahead;
use crate::output::table::{Style, fields, joined, leaf, money, pages, record, record_fn};

pub(super) fn commands() -> CliCommand {
    let create = operation::<CreateBooking>("create", "Record a booking", created).flags(|flags| {
        flags
            .without("partnerId")
            .name("bookingValue", "value")
            .says("talent.id", "Your own id for the talent")
            .says("talent.name", "The talent's name")
            .says("organizer.id", "Your own id for the organizer")
            .says("organizer.name", "The organizer's name")
            .or_json();
    });
    let about = "List bookings, newest first";
    let list = listing::<ListBookings>("list", about, bookings, of_all).flags(|flags| {
        flags
            .read("eventFrom", EVENT_FROM, ahead)
            .read("eventTo", EVENT_TO, ahead);
    });
    let protect =
        operation::<ProtectBooking>("protect", "Lock a booking into the ledger", protected);
    let get = operation::<GetBooking>("get", "Show a booking", booking);
    let about = "Bookings: record, protect, read, move, evaluate, cancel, erase";
    let commands = [
        create,
        get,
        list,
        protect,
        reschedules::command(),
        acceptances::disclosure(),
        acceptances::accept(),
        evaluations::command(),
        cancellations::command(),
        erasures::erase(),
        erasures::erasures(),
        erasures::holds(),
    ];
    group("bookings", about, commands)
}

const EVENT_FROM: &str = "Only events that start at this time or later: how long from now, such as 12h, 7d or 2w, an instant such as \
                          2031-06-01T09:00:00Z, or a day in UTC such as 2031-06-01";
const EVENT_TO: &str = "Only events that start before this time, in the same form";

record_fn! { fn created(new: &BookingCreated) =>
    "booking" => new.booking_id,
    "partner" => new.partner_id,
    "status" => new.status,
    "created" => new.created_at,
}

fn booking(booking: &Booking, style: Style) -> String {
    let policy = booking.policy.as_ref();
    let paid = booking.amount_paid.as_ref();
    let metadata = booking.metadata.iter();
    let fields = fields! {
        "booking" => booking.booking_id,
        "partner" => booking.partner_id,
        "status" => booking.status,
        "protected" => booking.protected,
        "talent" => format!("{} ({})", booking.talent.name, booking.talent.id),
        "organizer" => format!("{} ({})", booking.organizer.name, booking.organizer.id),
        "event" => booking.event_type,
        "event date" => booking.event_date,
        "time zone" => booking.time_zone,
        "value" => value(booking),
        "paid" => paid.map(|paid| format!("{} {paid}", booking.currency)),
        "policy" => policy.map(|it| format!("{} v{} ({})", it.policy_id, it.version, it.policy_hash)),
        "metadata" => joined(metadata.map(|(key, value)| format!("{key}={value}")), ", "),
        "created" => booking.created_at,
        "protected at" => booking.protected_at,
        "rescheduled at" => booking.rescheduled_at,
        "canceled at" => booking.canceled_at,
        "resolution" => booking.resolution_id,
    };
    record(style, &fields)
}

pages! { bookings, of_all, "bookings", booking: Booking =>
    "BOOKING" => booking.booking_id,
    "STATUS" => booking.status,
    "EVENT" => booking.event_type,
    "DATE" => booking.event_date,
    "TALENT" => booking.talent.name,
    "ORGANIZER" => booking.organizer.name,
    "VALUE" => value(booking),
}

fn value(booking: &Booking) -> String {
    // A value that is not an amount is shown as the server sent it.
    let raw = || format!("{} {}", booking.currency, booking.booking_value);
    booking.value().map_or_else(raw, money)
}

fn protected(protected: &Protected, style: Style) -> String {
    let receipt = &protected.receipt;
    let fields = fields! {
        "booking" => protected.booking_id,
        "protected" => protected.protected,
        "protected at" => protected.protected_at,
        "log" => receipt.log_origin,
        "leaf" => leaf(receipt),
        "leaf hash" => receipt.leaf_hash,
        "root hash" => receipt.root_hash,
    };
    record(style, &fields)
}
