//! `bookings reschedule`: moves an event to another date.

use bookguard_core::features::reschedules::{RescheduleBooking, Rescheduled};
use bookguard_core::model::Timestamp;

use crate::commands::declare::{CliCommand, operation};
use crate::commands::evaluations::{decided, steps};
use crate::output::table::{Style, fields, joined, leaf, record, time};

pub(super) fn command() -> CliCommand {
    let about = "Move a booking's event to another date, as both sides agreed";
    operation::<RescheduleBooking>("reschedule", about, rescheduled)
}

/// A reschedule that was recorded, or would be.
fn rescheduled(moved: &Rescheduled, style: Style) -> String {
    let receipt = moved.receipt.as_ref();
    let recorded = match receipt {
        Some(_) => time(moved.rescheduled_at),
        None => "no, this is what would happen".to_owned(),
    };
    let fields = fields! {
        "booking" => moved.booking_id,
        "event date" => moved.event_date,
        "time zone" => moved.time_zone,
        "before" => given(&moved.previous_event_date),
        "agreed by" => joined(&moved.agreed_by, ", "),
        "agreed at" => moved.at,
        "reached" => decided(moved.reached),
        "recorded" => recorded,
        "log" => receipt.map(|receipt| &receipt.log_origin),
        "leaf" => receipt.map(leaf),
        "leaf hash" => receipt.map(|receipt| &receipt.leaf_hash),
    };
    let mut text = record(style, &fields);
    if !moved.schedule.is_empty() {
        text.push_str("\n\nIf the organizer cancels:\n");
        text.push_str(&steps(&moved.schedule, moved.at, style));
    }
    text
}

/// A date as it was given, in the form of other times: as an instant if it is one, and else in the booking's zone.
fn given(date: &str) -> String {
    let local = || format!("{} local time", date.replacen('T', " ", 1));
    Timestamp::parse(date).map_or_else(local, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_the_form_of_other_times() {
        for (date, shown) in [
            ("2031-06-20T19:00:00-04:00", "2031-06-20 23:00:00 UTC"),
            ("2031-06-20T19:00:00", "2031-06-20 19:00:00 local time"),
            ("2031-06-20", "2031-06-20 local time"),
        ] {
            assert_eq!(given(date), shown);
        }
    }
}
