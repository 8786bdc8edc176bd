//! `audit`: who changed what.

use bookguard_core::features::audit::ListAudit;
use bookguard_core::model::{AuditRecord, Page};

use super::declare::{Declared, group, operation};
use crate::output::table::{Style, joined, or_dash, page, word};

pub(super) fn commands() -> Declared {
    let about = "List what changed keys, secrets, endpoints and policies, and what the operator did, newest first";
    let list = operation::<ListAudit>("list", about, records);
    group(
        "audit",
        "Who changed what, when and from where",
        [list.into()],
    )
}

fn records(page: &Page<AuditRecord>, style: Style) -> String {
    page! { style, "audit records", page, record =>
        "AT" => record.at,
        "ACTION" => record.action,
        "BY" => word(&record.actor.kind),
        "KEY" => or_dash(record.actor.key_id.clone()),
        "NAME" => or_dash(record.actor.name.clone()),
        "FROM" => or_dash(record.address.clone()),
        "PARTNER" => or_dash(record.partner_id),
        "SUBJECT" => or_dash(joined(record.subject.values(), " ")),
    }
}
