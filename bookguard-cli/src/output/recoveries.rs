//! How recoveries are shown.

use bookguard_core::model::{Page, Recovery, RecoveryStatus};

use super::nouns::word;
use super::table::{Style, grouped, list, more, record, time};

/// One recovery.
pub fn recovery(recovery: &Recovery, style: Style) -> String {
    let statuses: Vec<String> = recovery.statuses.iter().map(word).collect();
    let deliveries = format!(
        "{} to {} endpoints together",
        grouped(recovery.recovered),
        grouped(recovery.deliveries)
    );
    let recovered = match recovery.dry_run {
        true => "would be recovered",
        false => "recovered",
    };
    record(
        style,
        &[
            ("recovery", Some(recovery.recovery_id.to_string())),
            ("status", Some(status(recovery))),
            ("since", Some(time(recovery.since))),
            ("until", Some(time(recovery.until))),
            ("events that are", Some(statuses.join(", "))),
            ("endpoint", recovery.endpoint_id.map(|id| id.to_string())),
            ("examined", Some(grouped(recovery.examined))),
            (recovered, Some(deliveries)),
            ("no endpoint takes", Some(grouped(recovery.no_endpoints))),
            ("too old", Some(grouped(recovery.expired))),
            ("begun", Some(time(recovery.created_at))),
            ("finished", recovery.finished_at.map(time)),
        ],
    )
}

/// Where it stands, and how far it is while it runs.
fn status(recovery: &Recovery) -> String {
    let kind = match recovery.dry_run {
        true => " (dry run)",
        false => "",
    };
    match recovery.status {
        RecoveryStatus::Finished => format!("finished{kind}"),
        RecoveryStatus::Running => format!(
            "running{kind}, at event {} of {}",
            grouped(recovery.reached_seq),
            grouped(recovery.through_seq)
        ),
    }
}

/// A page of recoveries.
pub fn recoveries(page: &Page<Recovery>, style: Style) -> String {
    let rows = page.data.iter().map(|recovery| {
        [
            recovery.recovery_id.to_string(),
            status(recovery),
            time(recovery.since),
            time(recovery.until),
            grouped(recovery.examined),
            grouped(recovery.recovered),
            grouped(recovery.deliveries),
            grouped(recovery.no_endpoints),
        ]
    });
    let header = [
        "RECOVERY",
        "STATUS",
        "SINCE",
        "UNTIL",
        "EXAMINED",
        "RECOVERED",
        "DELIVERIES",
        "NO ENDPOINT",
    ];
    list(style, "recoveries", header, rows.collect()) + &more(page.next_cursor.as_deref())
}
