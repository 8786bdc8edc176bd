//! Changes of date: how they are shown.

use bookguard_core::command::Rescheduled;

use super::cancellation::{decided, steps};
use super::sheet::{Style, record, time};

/// A change of date that was made, or would be.
pub fn rescheduled(moved: &Rescheduled, style: Style) -> String {
    let agreed: Vec<&str> = moved.agreed_by.iter().map(|side| side.word()).collect();
    let receipt = moved.receipt.as_ref();
    let leaf = |receipt: &bookguard_core::command::Receipt| {
        format!("{} of {}", receipt.leaf_index, receipt.tree_size)
    };
    let fields = [
        ("booking", Some(moved.booking_id.to_string())),
        ("event date", Some(time(moved.event_date))),
        ("time zone", moved.time_zone.clone()),
        ("before", Some(moved.previous_event_date.clone())),
        ("agreed by", Some(agreed.join(", "))),
        ("agreed at", Some(time(moved.at))),
        ("reached", Some(decided(moved.reached))),
        (
            "recorded",
            Some(match receipt {
                Some(_) => time(moved.rescheduled_at),
                None => "no, this is what would come of it".to_owned(),
            }),
        ),
        ("log", receipt.map(|receipt| receipt.log_origin.clone())),
        ("leaf", receipt.map(leaf)),
        (
            "leaf hash",
            receipt.map(|receipt| receipt.leaf_hash.clone()),
        ),
    ];
    let mut text = record(style, &fields);
    if !moved.schedule.is_empty() {
        text.push_str("\n\nIf the organizer cancels:\n");
        text.push_str(&steps(&moved.schedule, moved.at, style));
    }
    text
}
