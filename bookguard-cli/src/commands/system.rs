//! `system`: shows the service itself to the operator.

use bookguard_core::features::system::{GetSystem, LogWitness, NodeState, System};
use bookguard_core::model::Timestamp;

use super::declare::{CliCommand, operation};
use crate::output::table::{Style, fields, list, record};

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
        "bytes free" => system.disk.as_ref().map(|disk| disk.free_bytes),
        "bytes that must be free" => system.disk.as_ref().map(|disk| disk.min_free_bytes),
        "backups in" => system.backups.as_ref().map(|backups| backups.folder.clone()),
        "newest backup" => system.backups.as_ref().and_then(|backups| backups.newest_at),
    };
    let rows = system.settings.iter().map(|setting| {
        [
            setting.name.clone(),
            setting.value.clone(),
            setting.from.clone(),
        ]
    });
    let settings = list(
        style,
        "settings",
        ["SETTING", "VALUE", "FROM"],
        rows.collect(),
    );
    let nodes = system.nodes.iter().flatten().map(node).collect();
    let nodes = list(
        style,
        "nodes",
        ["NODE", "SINCE", "SEEN", "VERSION", "ADDRESS"],
        nodes,
    );
    let nodes = match system.nodes {
        Some(_) => format!("{nodes}\n\n"),
        None => String::new(),
    };
    let witnesses = match system.witnesses.is_empty() {
        true => String::new(),
        false => {
            let rows = system.witnesses.iter().map(witness).collect();
            let columns = ["WITNESS", "ADDRESS", "ENTRIES", "COSIGNED", "TROUBLE"];
            format!("{}\n\n", list(style, "witnesses", columns, rows))
        }
    };
    format!("{}\n\n{nodes}{witnesses}{settings}", record(style, &fields))
}

fn witness(witness: &LogWitness) -> [String; 5] {
    let alarm = if witness.is_alarm { "ALARM: " } else { "" };
    let trouble = witness.trouble.as_deref().unwrap_or_default();
    [
        witness.name.clone(),
        witness.url.clone(),
        witness.size.to_string(),
        witness
            .cosigned_at
            .map_or_else(String::new, |at| at.to_string()),
        format!("{alarm}{trouble}"),
    ]
}

fn node(node: &NodeState) -> [String; 5] {
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let this = if node.answers { " (answers)" } else { "" };
    [
        format!("{}{this}", node.node_id),
        time(node.since),
        time(node.seen_at),
        node.version.clone().unwrap_or_default(),
        node.address.clone().unwrap_or_default(),
    ]
}
