//! `bookings erase`, `erasures` and `holds`: personal data is erased for good, unless a legal hold keeps it.

use bookguard_core::evidence::{ErasedValues, Hold};
use bookguard_core::features::erasures::{
    BookingErasures, EraseValues, ErasureReport, ListErasures,
};
use bookguard_core::features::holds::{ListHolds, PlaceHold, ReleaseHold};
use bookguard_core::model::Page;

use crate::commands::declare::{CliCommand, Declared, group, operation};
use crate::output::table::{Style, fields, joined, leaf, or_dash, page, record, rows};

pub(super) fn erase() -> CliCommand {
    let about =
        "Erase personal data of a booking for good, or show what would be erased (--dry-run)";
    operation::<EraseValues>("erase", about, report)
}

pub(super) fn erasures() -> CliCommand {
    let about = "Show what was erased of a booking, and why";
    operation::<ListErasures>("erasures", about, listed)
}

pub(super) fn holds() -> Declared {
    let place = operation::<PlaceHold>("place", "Keep a booking from being erased", hold);
    let list = operation::<ListHolds>(
        "list",
        "List a booking's legal holds, newest first",
        holds_page,
    );
    let release = operation::<ReleaseHold>("release", "Release a legal hold", hold);
    group(
        "holds",
        "Legal holds: nothing of a booking is erased while it has one",
        [place.into(), list.into(), release.into()],
    )
}

fn values(values: &[ErasedValues]) -> Option<String> {
    let of_entry = |one: &ErasedValues| {
        let names: Vec<&str> = one.names.iter().map(|name| name.word()).collect();
        format!("{} of entry {}", names.join(", "), one.entry)
    };
    joined(values.iter().map(of_entry), "; ")
}

fn report(report: &ErasureReport, style: Style) -> String {
    let receipt = report.receipt.as_ref();
    let fields = fields! {
        "booking" => report.booking_id,
        "values" => values(&report.values),
        "event bodies" => (!report.events.is_empty()).then_some(report.events.len()),
        "files of items" => joined(report.files.iter(), ", "),
        "ledger entry" => receipt.map(leaf),
    };
    let said = match (report.values.is_empty(), report.dry_run) {
        (true, _) => "Nothing is left to erase.",
        (false, true) => "Nothing was erased: this is what would be. It cannot be undone.",
        (false, false) => "Erased for good. Packets made before and after verify.",
    };
    format!("{}\n\n{said}", record(style, &fields))
}

fn listed(erasures: &BookingErasures, style: Style) -> String {
    rows! { style, "erasures", erasures.erasures, erasure =>
        "ERASED" => erasure.erased_at,
        "WHY" => erasure.legal_basis.word(),
        "REQUEST" => or_dash(erasure.request_ref.as_ref()),
        "VALUES" => or_dash(values(&erasure.values)),
    }
}

fn hold(hold: &Hold, style: Style) -> String {
    let fields = fields! {
        "hold" => hold.hold_id,
        "booking" => hold.booking_id,
        "reason" => hold.reason,
        "reference" => hold.reference,
        "placed" => hold.placed_at,
        "by" => hold.placed_by.word(),
        "released" => hold.released_at,
    };
    record(style, &fields)
}

fn holds_page(page: &Page<Hold>, style: Style) -> String {
    page! { style, "holds", page, hold =>
        "HOLD" => hold.hold_id,
        "REASON" => hold.reason,
        "REFERENCE" => or_dash(hold.reference.as_ref()),
        "PLACED" => hold.placed_at,
        "BY" => hold.placed_by.word(),
        "RELEASED" => or_dash(hold.released_at),
    }
}
