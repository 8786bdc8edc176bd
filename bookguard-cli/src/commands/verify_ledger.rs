//! `ledger verify`: the whole ledger and every row against it, with a bar for whoever watches and a rate at the end.
//!
//! What is checked is the store's; here it is shown.

use bookguard_core::service::Service;
use serde_json::json;
use tokio::task::block_in_place;

use super::verify::conclude;
use crate::args::Format;
use crate::failure::Failure;
use crate::output::bar::Bar;
use crate::output::table::grouped;
use crate::output::{self, Screen};
use crate::text::plain;

/// Checks the ledger of a database.
///
/// # Errors
/// [`Failure::NotVerified`] after every finding was shown, and what kept the database from being read.
pub fn run(service: &Service, backup: bool, screen: &Screen) -> Result<(), Failure> {
    let mut bar = Bar::new();
    let report =
        block_in_place(|| service.verify_ledger(backup, |done, total| bar.draw(done, total)));
    bar.clear();
    let report = report?;
    let rate = report.entries_per_second().round() as u64;
    let found = report.findings.len() as u64 + report.more;
    match screen.format {
        Format::Json => {
            let mut value = json!(report);
            value["verified"] = report.clean().into();
            value["entriesPerSecond"] = rate.into();
            screen.json(&value.to_string())?;
        }
        Format::Table => {
            let failed = screen.style.bad("FAILED");
            let mut lines: Vec<String> = (report.findings.iter())
                .map(|finding| format!("{failed} {}", plain(&finding.to_string())))
                .collect();
            if report.more > 0 {
                lines.push(format!("… and {} more", grouped(report.more)));
            }
            let warning = screen.style.bold("warning");
            let warnings = report.warnings.iter();
            lines.extend(warnings.map(|it| format!("{warning} {}", plain(&it.to_string()))));
            if report.more_warnings > 0 {
                lines.push(format!("… and {} more", grouped(report.more_warnings)));
            }
            lines.push(format!("Guard: {}.", plain(&report.guard.to_string())));
            lines.push(format!(
                "{} entries, {} bookings and {} events checked in {:.2} s ({} entries/s).",
                grouped(report.entries),
                grouped(report.bookings),
                grouped(report.events),
                report.elapsed.as_secs_f64(),
                grouped(rate)
            ));
            if report.clean() {
                lines.push(
                    screen
                        .style
                        .good("Verified: the ledger and every row agree."),
                );
            }
            output::print(&lines.join("\n"))?;
        }
    }
    if let Some(rollback) = &report.guard.rollback {
        return conclude(
            false,
            &format!("The ledger is rolled back (ledger_rolled_back): {rollback}."),
        );
    }
    let things = if found == 1 { "thing is" } else { "things are" };
    conclude(
        report.clean(),
        &format!(
            "The ledger does not verify: {} {things} not as the ledger says.",
            grouped(found)
        ),
    )
}
