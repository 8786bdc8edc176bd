//! `audit`: shows who changed what, and deletes the records that are too old.

use std::collections::BTreeMap;

use bookguard_core::features::audit::{ListAudit, look};
use bookguard_core::features::retention::old_before;
use bookguard_core::limits::{AUDIT_DAYS_MAX, AUDIT_DAYS_MIN};
use bookguard_core::model::{AuditId, AuditRecord, Timestamp};
use serde::Serialize;
use tokio::task::block_in_place;

use super::declare::{Call, CliCommand, group, operation, special};
use super::prune::PruneArgs;
use crate::args::ago;
use crate::failure::Failure;
use crate::output::table::{grouped, joined, or_dash, page_fn, time, word};
use crate::target::local::Local;

pub(super) fn commands() -> CliCommand {
    let about = "List what changed keys, secrets, endpoints and policies, and what the operator did, newest first";
    let list = operation::<ListAudit>("list", about, records).flags(|flags| {
        flags
            .says(
                "action",
                "Only records of this action, such as createApiKey",
            )
            .read("since", SINCE, ago)
            .read(
                "until",
                "Only records made before this time, in the same form",
                ago,
            );
    });
    let about = "Delete records that are too old (on the database only)";
    let prune = special("prune", about, prune).with::<PruneArgs>();
    let about = "Who changed what, when and from where";
    group("audit", about, [list, prune])
}

const SINCE: &str = "Only records made at this time or later: how long ago, such as 30m, 2h, 7d or 1w, an instant such as 2031-06-01T09:00:00Z, or a day in UTC such as 2031-06-01";

page_fn! { fn records(record: &AuditRecord), "audit records" =>
    "AT" => record.at,
    "ACTION" => record.action,
    "BY" => word(&record.actor.kind),
    "KEY" => or_dash(record.actor.key_id.clone()),
    "NAME" => or_dash(record.actor.name.clone()),
    "FROM" => or_dash(record.address.clone()),
    "PARTNER" => or_dash(record.partner_id),
    "SUBJECT" => or_dash(joined(record.subject.values(), " ")),
}

/// What `audit prune` deleted, or would delete.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pruning {
    dry_run: bool,
    /// Only records from before this moment.
    before: Timestamp,
    records: u64,
}

/// Deletes the records of the given age.
///
/// # Errors
/// [`Failure::Usage`] for an invalid number of days; the errors of the core.
async fn prune(call: Call<'_>) -> Result<(), Failure> {
    let local = call.target().database()?;
    let args: PruneArgs = call.args()?;
    let dry_run = args.dry_run;
    let days = args.days(AUDIT_DAYS_MIN..=AUDIT_DAYS_MAX)?;
    let days = days.unwrap_or_else(|| local.audit_retention_days());
    let before = old_before(local.service().clock().now(), days);
    let (mut records, newest) = counted(local, before)?;
    if let Some(newest) = newest.filter(|_| !dry_run) {
        records = delete(local, before, newest).await?;
    }
    let pruning = Pruning {
        dry_run,
        before,
        records,
    };
    call.screen.said(&pruning, |_| pruning.in_words())
}

/// How many records are old, and the newest of them.
fn counted(local: &Local, before: Timestamp) -> Result<(u64, Option<AuditId>), Failure> {
    let (mut records, mut newest) = (0, None);
    loop {
        let found = block_in_place(|| look(local.service(), before, newest))?;
        records += found.records;
        newest = found.newest.or(newest);
        if !found.more {
            return Ok((records, newest));
        }
    }
}

/// Deletes them a page at a time. The first page writes the only audit record of the whole deletion; it names the newest of them.
async fn delete(local: &Local, before: Timestamp, newest: AuditId) -> Result<u64, Failure> {
    let service = local.service();
    let mut subject = Some(BTreeMap::from([("auditId".to_owned(), newest.to_string())]));
    let mut records = 0;
    loop {
        let found = block_in_place(|| look(service, before, None))?;
        let Some(mut command) = found.command(service.clock().now()) else {
            return Ok(records);
        };
        if let Some(subject) = subject.take() {
            command = local.audited("pruneAudit", subject, command);
        }
        records += local.carry_out(command).await?;
        if !found.more {
            return Ok(records);
        }
    }
}

impl Pruning {
    fn in_words(&self) -> String {
        let (records, before) = (grouped(self.records), time(self.before));
        match self.dry_run {
            true => format!("{records} records from before {before} would be deleted."),
            false => format!("{records} records from before {before} were deleted."),
        }
    }
}
