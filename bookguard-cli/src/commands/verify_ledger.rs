//! `ledger verify`: verifies the whole ledger and every row against it, with a progress bar and a rate at the end.
//!
//! The store does the checking; this file shows the result.

use std::path::PathBuf;

use bookguard_core::features::cosignatures;
use bookguard_core::service::OpenError;
use bookguard_core::store::fsck::LedgerReport;
use clap::Args;
use serde_json::json;
use tokio::task::block_in_place;

use super::declare::{Call, CliCommand, special};
use super::verify::{conclude, trust_policy};
use crate::failure::Failure;
use crate::output::bar::Bar;
use crate::output::table::{Style, counted, grouped};
use crate::text::plain;

#[derive(Debug, Args)]
struct VerifyArgs {
    /// The database is a backup: it may lack what was published after it was made
    #[arg(long)]
    backup: bool,
    /// A file with a trust policy (C2SP tlog-policy): also check that its witnesses have cosigned the ledger
    #[arg(long, value_name = "FILE")]
    witness_policy: Option<PathBuf>,
}

pub(super) fn command() -> CliCommand {
    let about = "Check the whole ledger and every row against it (on the database only)";
    special("verify", about, async |call| run(call)).with::<VerifyArgs>()
}

/// Checks the ledger of a database.
///
/// # Errors
/// [`Failure::NotVerified`] after all findings were shown, and the errors of reading the database.
fn run(call: Call<'_>) -> Result<(), Failure> {
    let VerifyArgs {
        backup,
        witness_policy,
    } = call.args()?;
    let policy = witness_policy.as_deref().map(trust_policy).transpose()?;
    let service = call.target().database()?.service();
    let report = Bar::during(|draw| block_in_place(|| service.verify_ledger(backup, draw)))
        .map_err(|why| OpenError::of(&service.config().db, &why))?;
    let witnessed = policy.as_ref().map(|policy| {
        let head = block_in_place(|| cosignatures::witnessed(service, policy))?;
        let head = head.filter(|head| policy.check_known(&head.note).is_ok());
        Ok::<_, Failure>(head.map(|head| head.size))
    });
    let witnessed = witnessed.transpose()?;
    let rate = report.entries_per_second().round() as u64;
    let found = report.findings.len() as u64 + report.more;
    let mut value = json!(report);
    value["verified"] = report.clean().into();
    value["entriesPerSecond"] = rate.into();
    if let Some(size) = witnessed {
        value["witnessedEntries"] = json!(size);
    }
    call.screen.said(&value, |style| {
        let mut words = in_words(&report, rate, style);
        if let Some(Some(size)) = witnessed {
            words += &format!(
                "\nThe witnesses of the policy have cosigned the first {}.",
                counted(size, "entry")
            );
        }
        words
    })?;
    if let Some(rollback) = &report.guard.rollback {
        return conclude(
            false,
            &format!("The ledger is rolled back (ledger_rolled_back): {rollback}."),
        );
    }
    if report.clean() && witnessed == Some(None) {
        return conclude(
            false,
            "The ledger agrees with every row, but no checkpoint of it is cosigned as the trust policy demands.",
        );
    }
    let findings = if found == 1 { "finding" } else { "findings" };
    conclude(
        report.clean(),
        &format!("The ledger does not verify: {} {findings}.", grouped(found)),
    )
}

fn in_words(report: &LedgerReport, rate: u64, style: Style) -> String {
    let failed = style.bad("FAILED");
    let mut lines: Vec<String> = (report.findings.iter())
        .map(|finding| format!("{failed} {}", plain(&finding.to_string())))
        .collect();
    if report.more > 0 {
        lines.push(format!("… and {} more", grouped(report.more)));
    }
    let warning = style.bold("warning");
    let warnings = report.warnings.iter();
    lines.extend(warnings.map(|it| format!("{warning} {}", plain(&it.to_string()))));
    if report.more_warnings > 0 {
        lines.push(format!("… and {} more", grouped(report.more_warnings)));
    }
    lines.push(format!("Guard: {}.", plain(&report.guard.to_string())));
    lines.push(format!(
        "{}, {} and {} checked in {:.2} s ({} entries/s).",
        counted(report.entries, "entry"),
        counted(report.bookings, "booking"),
        counted(report.events, "event"),
        report.elapsed.as_secs_f64(),
        grouped(rate)
    ));
    if report.clean() {
        lines.push(style.good("Verified: the ledger and every row agree."));
    }
    lines.join("\n")
}
