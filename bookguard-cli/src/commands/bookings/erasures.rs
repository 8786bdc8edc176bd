//! `bookings erase`, `erasures` and `holds`: personal data is erased for good, unless a legal hold keeps it.

use bookguard_core::evidence::{ErasedValues, Hold};
use bookguard_core::features::erasures::{
    BookingErasures, EraseValues, ErasureReport, ListErasures,
};
use bookguard_core::features::holds::{ListHolds, PlaceHold, ReleaseHold};
use bookguard_core::operation::Request;
use serde_json::{Value, json};

use crate::args::ConsentArgs;
use crate::commands::declare::{Call, CliCommand, carried, group, operation};
use crate::consent;
use crate::failure::Failure;
use crate::output::table::{
    Style, fields, joined, leaf, or_dash, page_fn, record, record_fn, rows,
};

pub(super) fn erase() -> CliCommand {
    let about = "Erase personal data of a booking for good: shows what would be erased, and asks";
    let command = carried::<EraseValues>("erase", about, ask_and_erase);
    // `--fields` chooses the members of every answer.
    command.with::<ConsentArgs>().flags(|flags| {
        flags
            .name("fields", "values")
            .name("expected", "expect-plan")
            .says(
                "expected",
                "Erase only what a dry run showed, named by its planHash",
            );
    })
}

/// # Errors
/// [`Failure::Usage`] if nobody can be asked; otherwise, those of the call.
async fn ask_and_erase(call: Call<'_>) -> Result<(), Failure> {
    let ConsentArgs { yes } = call.args()?;
    let mut request = call.request()?;
    let mut asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if !yes && asked["dryRun"] != true {
        let mut trial = asked.clone();
        trial["dryRun"] = json!(true);
        let trial = Request {
            path: request.path.clone(),
            body: trial.to_string().into_bytes(),
            ..Request::default()
        };
        let would = call.target().call::<EraseValues>(trial).await?;
        let is_bound = !asked["expected"].is_null();
        match (would.output.is_empty(), is_bound) {
            (false, _) => consent::ask(&report(&would.output, call.screen.style), yes)?,
            // Nobody was asked, so nothing is sent that could erase what came since.
            (true, false) => return call.screen.show(&would, report),
            // Nothing but the plan can go, and this may repeat an erasure whose answer was lost.
            (true, true) => {}
        }
        // The consent is to what was shown.
        if let Some(hash) = would.output.plan_hash
            && !is_bound
        {
            asked["expected"] = json!(hash);
            request.body = asked.to_string().into_bytes();
        }
    }
    let answer = call.target().call::<EraseValues>(request).await?;
    call.screen.show(&answer, report)
}

pub(super) fn erasures() -> CliCommand {
    let about = "Show what was erased of a booking, and why";
    operation::<ListErasures>("erasures", about, listed).rows("erasures")
}

pub(super) fn holds() -> CliCommand {
    let place = operation::<PlaceHold>("place", "Keep a booking from being erased", hold);
    let list = operation::<ListHolds>(
        "list",
        "List a booking's legal holds, newest first",
        holds_page,
    );
    let release = operation::<ReleaseHold>("release", "Release a legal hold", hold);
    let about = "Legal holds: nothing of a booking is erased while it has one";
    group("holds", about, [place, list, release])
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
        "notes on shares" => joined(report.shares.iter(), ", "),
        "texts of holds" => joined(report.holds.iter(), ", "),
        "ledger entry" => receipt.map(leaf),
    };
    let said = match (report.is_empty(), report.dry_run) {
        (true, _) => "Nothing is left to erase.",
        (false, true) => "Nothing was erased: this is what would be. It cannot be undone.",
        (false, false) => {
            "Erased for good. Packets made before the erasure verify, and so do those made after it."
        }
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

record_fn! { fn hold(hold: &Hold) =>
    "hold" => hold.hold_id,
    "booking" => hold.booking_id,
    "reason" => hold.reason,
    "reference" => hold.reference,
    "placed" => hold.placed_at,
    "by" => hold.placed_by.word(),
    "released" => hold.released_at,
}

page_fn! { fn holds_page(hold: &Hold), "holds" =>
    "HOLD" => hold.hold_id,
    "REASON" => hold.reason,
    "REFERENCE" => or_dash(hold.reference.as_ref()),
    "PLACED" => hold.placed_at,
    "BY" => hold.placed_by.word(),
    "RELEASED" => or_dash(hold.released_at),
}
