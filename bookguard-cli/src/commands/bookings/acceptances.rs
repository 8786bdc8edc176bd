//! `bookings disclosure` and `bookings accept`: shows a booking's terms, and records who accepted them.

use bookguard_core::evidence::Acceptance;
use bookguard_core::features::acceptances::{
    AcceptTerms, Accepted, BookingDisclosure, GetDisclosure,
};

use crate::commands::declare::{CliCommand, operation};
use crate::output::table::{Style, fields, joined, leaf, record, rows, time};
use crate::text::plain;

pub(super) fn accept() -> CliCommand {
    let about = "Record that a party accepted a booking's terms, exactly as they were shown";
    operation::<AcceptTerms>("accept", about, accepted).flags(|flags| {
        let hash = "The hash of the text that was shown; `bookings disclosure` shows it";
        flags.says("disclosureHash", hash);
    })
}

pub(super) fn disclosure() -> CliCommand {
    let about = "Show the terms of a booking in words, and who accepted them";
    operation::<GetDisclosure>("disclosure", about, disclosure_shown)
}

/// An acceptance just recorded.
fn accepted(accepted: &Accepted, style: Style) -> String {
    let Accepted {
        acceptance,
        receipt,
    } = accepted;
    let fields = fields! {
        "booking" => acceptance.booking_id,
        "party" => acceptance.party,
        "method" => acceptance.method,
        "at" => acceptance.at,
        "ip" => acceptance.ip,
        "user agent" => acceptance.user_agent,
        "text" => acceptance.disclosure_hash,
        "wording" => acceptance.disclosure_version,
        "recorded" => acceptance.accepted_at,
        "log" => receipt.log_origin,
        "leaf" => leaf(receipt),
        "leaf hash" => receipt.leaf_hash,
    };
    record(style, &fields)
}

/// The terms in words, who accepted them, and the earlier terms.
fn disclosure_shown(disclosure: &BookingDisclosure, style: Style) -> String {
    let current = &disclosure.current;
    // Sentences of any length do not fit a table.
    let text: Vec<_> = current.text.lines().map(plain).collect();
    let fields = fields! {
        "booking" => disclosure.booking_id,
        "text" => current.disclosure_hash,
        "wording" => current.version,
        "since" => current.since,
        "accepted by" => parties(&current.acceptances),
    };
    let mut shown = format!("{}\n\n{}", text.join("\n"), record(style, &fields));
    if !disclosure.former.is_empty() {
        shown.push_str("\n\nBefore the event was moved:\n");
        shown.push_str(&rows! { style, "texts", disclosure.former, terms =>
            "TEXT" => terms.disclosure_hash,
            "SINCE" => terms.since,
            "UNTIL" => terms.until,
            "EVENT DATE" => terms.event_date,
            "ACCEPTED BY" => parties(&terms.acceptances),
        });
    }
    shown
}

fn parties(acceptances: &[Acceptance]) -> String {
    let each = acceptances.iter().map(|acceptance| {
        let (party, method) = (acceptance.party, &acceptance.method);
        format!("{party} ({method}, {})", time(acceptance.at))
    });
    joined(each, ", ").unwrap_or_else(|| "nobody".to_owned())
}
