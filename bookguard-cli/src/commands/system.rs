//! `system`: shows the service itself to the operator.

use bookguard_core::features::system::{GetSystem, NodeState, System};
use bookguard_core::model::Timestamp;

use super::declare::{CliCommand, operation};
use crate::output::table::{Style, fields, list, record};

pub(super) fn command() -> CliCommand {
    let about =
        "Show the service itself: nodes, log, disk, backups and settings (for the operator)";
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
    format!("{}\n\n{nodes}{settings}", record(style, &fields))
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
