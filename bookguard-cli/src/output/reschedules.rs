//! How reschedules, terms in words and acceptances are shown.

use bookguard_core::engine::command::Receipt;
use bookguard_core::evidence::Acceptance;
use bookguard_core::features::acceptances::Accepted;
use bookguard_core::features::acceptances::{BookingDisclosure, DisclosedTerms};
use bookguard_core::features::reschedules::Rescheduled;

use super::cancellation::{decided, steps};
use super::table::{Style, list, record, time};
use crate::text::plain;

/// A change of date that was made, or would be.
pub fn rescheduled(moved: &Rescheduled, style: Style) -> String {
    let agreed: Vec<&str> = moved.agreed_by.iter().map(|side| side.word()).collect();
    let receipt = moved.receipt.as_ref();
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
                None => "no, this is what would happen".to_owned(),
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

fn leaf(receipt: &Receipt) -> String {
    format!("{} of {}", receipt.leaf_index, receipt.tree_size)
}

/// An acceptance just recorded.
pub fn accepted(accepted: &Accepted, style: Style) -> String {
    let Accepted {
        acceptance,
        receipt,
    } = accepted;
    let fields = [
        ("booking", Some(acceptance.booking_id.to_string())),
        ("party", Some(acceptance.party.to_string())),
        ("method", Some(acceptance.method.clone())),
        ("at", Some(time(acceptance.at))),
        ("ip", acceptance.ip.clone()),
        ("user agent", acceptance.user_agent.clone()),
        ("text", Some(acceptance.disclosure_hash.clone())),
        ("wording", Some(acceptance.disclosure_version.clone())),
        ("recorded", Some(time(acceptance.accepted_at))),
        ("log", Some(receipt.log_origin.clone())),
        ("leaf", Some(leaf(receipt))),
        ("leaf hash", Some(receipt.leaf_hash.clone())),
    ];
    record(style, &fields)
}

/// The terms in words, who accepted them, and the terms before.
pub fn disclosure(disclosure: &BookingDisclosure, style: Style) -> String {
    let current = &disclosure.current;
    // Sentences of any length: a table would only be in their way.
    let text: Vec<_> = current.text.lines().map(plain).collect();
    let fields = [
        ("booking", Some(disclosure.booking_id.to_string())),
        ("text", Some(current.disclosure_hash.clone())),
        ("wording", Some(current.version.clone())),
        ("since", Some(time(current.since))),
        ("accepted by", Some(parties(&current.acceptances))),
    ];
    let mut shown = format!("{}\n\n{}", text.join("\n"), record(style, &fields));
    if !disclosure.former.is_empty() {
        shown.push_str("\n\nBefore the event was moved:\n");
        shown.push_str(&former(&disclosure.former, style));
    }
    shown
}

fn former(terms: &[DisclosedTerms], style: Style) -> String {
    let rows = terms.iter().map(|terms| {
        [
            terms.disclosure_hash.clone(),
            time(terms.since),
            terms.until.map_or_else(String::new, time),
            time(terms.event_date),
            parties(&terms.acceptances),
        ]
    });
    let header = ["TEXT", "SINCE", "UNTIL", "EVENT DATE", "ACCEPTED BY"];
    list(style, "texts", header, rows.collect())
}

fn parties(acceptances: &[Acceptance]) -> String {
    let each = acceptances.iter().map(|acceptance| {
        let (party, method) = (acceptance.party, &acceptance.method);
        format!("{party} ({method}, {})", time(acceptance.at))
    });
    match each.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "nobody".to_owned(),
        some => some,
    }
}
