//! `system`: shows the service itself to the operator.

use bookguard_core::features::system::{GetSystem, System};

use super::declare::{CliCommand, operation};
use crate::output::table::{Style, fields, list, record};

pub(super) fn command() -> CliCommand {
    let about =
        "Show the service itself: servers, log, disk, backups and settings (for the operator)";
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
        "servers" => system.servers,
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
    format!("{}\n\n{settings}", record(style, &fields))
}
