//! `system`: shows the service itself to the operator.

use bookguard_core::features::system::{GetSystem, LogWitness, NodeState, System};
use bookguard_core::model::Timestamp;
use bookguard_core::service::SettingInForce;

use super::declare::{CliCommand, operation};
use crate::output::table::{Style, fields, record, rows, size};

pub(super) fn command() -> CliCommand {
    let about = "Show the service itself: nodes, log, witnesses, disk, backups and settings (for the operator)";
    operation::<GetSystem>("system", about, system)
}

fn system(system: &System, style: Style) -> String {
    let writes = match (&system.writes.taken, &system.writes.message) {
        (true, None) => "taken".to_owned(),
        (true, Some(why)) => format!("taken, but {why}"),
        (false, why) => format!("refused: {}", why.as_deref().unwrap_or_default()),
    };
    let sound = match system.log.is_sound {
        true => "has every entry that was published",
        false => "LACKS ENTRIES THAT WERE PUBLISHED",
    };
    let fields = fields! {
        "time" => system.at,
        "version" => system.version,
        "database" => system.database,
        "schema version" => system.schema_version,
        "nodes" => system.nodes.as_ref().map(Vec::len),
        "writes" => writes,
        "log" => system.log.origin,
        "entries" => system.log.size,
        "root" => system.log.root_hash,
        "last entry" => system.log.written_at,
        "ledger" => sound,
        "last time-stamp" => system.timestamps.stamped_at,
        "its authority" => system.timestamps.authority.clone(),
        "entries stamped" => system.timestamps.stamped_at.map(|_| system.timestamps.size),
        "no time-stamp, because" => system.timestamps.trouble.clone(),
        "disk free" => system.disk.as_ref().map(|disk| size(disk.free_bytes)),
        "must be free" => system.disk.as_ref().map(|disk| size(disk.min_free_bytes)),
        "backups in" => system.backups.as_ref().map(|backups| backups.folder.clone()),
        "newest backup" => system.backups.as_ref().and_then(|backups| backups.newest_at),
    };
    let nodes = system.nodes.as_ref().map(|nodes| nodes_table(nodes, style));
    let witnesses = match system.witnesses.as_slice() {
        [] => None,
        witnesses => Some(witnesses_table(witnesses, style)),
    };
    let settings = settings_table(&system.settings, style);
    let parts = [
        Some(record(style, &fields)),
        nodes,
        witnesses,
        Some(settings),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// The settings that apply, and where they came from.
pub(super) fn settings_table(settings: &[SettingInForce], style: Style) -> String {
    rows! { style, "settings", settings, setting =>
        "SETTING" => setting.name,
        "VALUE" => setting.value,
        "FROM" => setting.from,
    }
}

fn witnesses_table(witnesses: &[LogWitness], style: Style) -> String {
    let trouble = |witness: &LogWitness| {
        let alarm = if witness.is_alarm { "ALARM: " } else { "" };
        format!("{alarm}{}", witness.trouble.as_deref().unwrap_or_default())
    };
    rows! { style, "witnesses", witnesses, witness =>
        "WITNESS" => witness.name,
        "ADDRESS" => witness.url,
        "ENTRIES" => witness.size,
        "COSIGNED" => exactly(witness.cosigned_at),
        "TROUBLE" => trouble(witness),
    }
}

fn nodes_table(nodes: &[NodeState], style: Style) -> String {
    let this = |node: &NodeState| if node.answers { " (answers)" } else { "" };
    rows! { style, "nodes", nodes, node =>
        "NODE" => format!("{}{}", node.node_id, this(node)),
        "SINCE" => exactly(node.since),
        "SEEN" => exactly(node.seen_at),
        "VERSION" => node.version,
        "ADDRESS" => node.address,
    }
}

/// A time to the millisecond.
fn exactly(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}
