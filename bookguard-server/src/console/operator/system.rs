//! The service itself: this node, its database, the log and who vouches for it, the backups and the settings.

use bookguard_core::error::Error;
use bookguard_core::features::cosignatures::is_silent;
use bookguard_core::features::system::{GetSystem, LogWitness, NodeState, System};
use bookguard_core::limits::{BACKUP_OLD_MS, HOUR_MS};
use bookguard_core::model::Timestamp;
use maud::{Markup, html};

use crate::console::parts::{Tone, ago, badge, copyable, fact, grouped, records, time};
use crate::console::{Answer, Asked, Page, Part, User};

const MIB: u64 = 1024 * 1024;
const TEN_GIB: u64 = 10 * 1024 * MIB;

pub(super) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let system = user.read::<GetSystem>(&[], &[]).await?;
    let troubles = troubles(&system, asked.now);
    let settings = system.settings.iter().map(|setting| {
        html! { td { code.whole { (setting.name) } } td data-head="value:" { (setting.value) } td data-head="from:" { (setting.from) } }
    });
    let main = html! {
        div.title { h1 { "System" } }
        @for trouble in &troubles { p.alert.bad { (trouble) } }
        section.card aria-label="The service" { (facts(&system)) }
        @if let Some(listed) = &system.nodes { (nodes(listed, asked.now)) }
        section.card aria-labelledby="log" {
            h2 #log { "The log" }
            dl {
                (fact("Name", copyable(&system.log.origin)))
                (fact("Root", copyable(&system.log.root_hash)))
                @if let Some(at) = system.log.written_at { (fact("Last entry", time(at))) }
                (fact("Compared with what was published", soundness(&system)))
            }
            p.soft { "The service does not know who mirrors its log: anybody may copy it from " code { "/v1/ledger" } ", with any program for C2SP tiles." }
        }
        section.card aria-labelledby="witnesses" {
            h2 #witnesses { "Witnesses" }
            (witnesses(&system, asked.now))
        }
        section.card aria-labelledby="timestamps" {
            h2 #timestamps { "Time-stamps" }
            (timestamps(&system, asked.now))
        }
        section.card aria-labelledby="backups" {
            h2 #backups { "Backups" }
            (backups(&system, asked.now))
        }
        section.card aria-labelledby="settings" {
            h2 #settings { "Settings of this node" }
            p.soft { "As they were when it started. " code { "bookguard doctor" } " checks them." }
            (records("Settings in force and where each came from", &["Setting", "Value", "From"], settings))
        }
    };
    Ok(Page::new(Part::System, "System", main).ok())
}

/// What is wrong with the service, each in a sentence.
pub(super) fn troubles(system: &System, now: Timestamp) -> Vec<String> {
    let mut found = Vec::new();
    let (writes, disk) = (&system.writes, &system.disk);
    found.extend(writes.message.clone());
    if !system.log.is_sound && writes.code.as_deref() != Some("ledger_rolled_back") {
        found.push("The database lacks entries that were published.".to_owned());
    }
    if let Some(disk) = disk
        .as_ref()
        .filter(|disk| disk.free_bytes < disk.min_free_bytes)
    {
        found.push(format!(
            "The database's disk is almost full: {} are free, and nothing new is taken below {}.",
            size(disk.free_bytes),
            size(disk.min_free_bytes)
        ));
    }
    for witness in &system.witnesses {
        let LogWitness { name, trouble, .. } = witness;
        let is_silent = is_silent(witness.cosigned_at, now);
        match (trouble, witness.cosigned_at) {
            (Some(what), _) if witness.is_alarm => {
                found.push(format!("The witness {name} contradicts the log: {what}."));
            }
            (Some(what), _) if is_silent => {
                found.push(format!(
                    "The witness {name} does not cosign the log: {what}."
                ));
            }
            (None, Some(at)) if is_silent => {
                found.push(format!(
                    "The witness {name} last cosigned the log at {at}, and no node asks it."
                ));
            }
            _ => {}
        }
    }
    if let Some(why) = &system.timestamps.trouble {
        found.push(format!("The log could not be stamped: {why}."));
    }
    match &system.backups {
        None if is_on_a_server(system) => {}
        None => found.push(
            "No folder of backups is set (backup_folder), so nobody notices if they stop."
                .to_owned(),
        ),
        Some(backups) => match backups.newest_at {
            None => found.push(format!(
                "There is no verified backup in {}.",
                backups.folder
            )),
            Some(at) if now.ms() - at.ms() > BACKUP_OLD_MS => {
                found.push(format!(
                    "The newest backup is older than {} hours: it was made at {at}.",
                    BACKUP_OLD_MS / HOUR_MS
                ));
            }
            Some(_) => {}
        },
    }
    found
}

/// What there is to know at a glance.
pub(super) fn facts(system: &System) -> Markup {
    let writes = match (system.writes.taken, &system.writes.code) {
        (true, None) => badge(Tone::Good, "Saved"),
        (true, Some(_)) => badge(Tone::Warn, "Saved, with trouble"),
        (false, _) => badge(Tone::Bad, "Refused"),
    };
    let nodes = system.nodes.as_ref();
    let nodes = nodes.map(|nodes| grouped(&nodes.len().to_string()));
    html! {
        dl {
            (fact("Changes", writes))
            (fact("Entries of the log", grouped(&system.log.size.to_string())))
            (fact("Nodes on the database", nodes.unwrap_or_else(|| "one, because it is a file".to_owned())))
            @if let Some(disk) = &system.disk { (fact("Free disk space", size(disk.free_bytes))) }
            (fact("Program", format!("Bookguard {}", system.version)))
            (fact("Database", format!("{}, schema {}", system.database, system.schema_version)))
        }
    }
}

/// Every node on the database.
fn nodes(listed: &[NodeState], now: Timestamp) -> Markup {
    let line = |node: &NodeState| {
        html! {
            td { code { (node.node_id) } @if node.answers { small { "answers this" } } }
            td { @match node.since { Some(at) => (time(at)), None => span.soft { "not known" } } }
            td { @match node.seen_at { Some(at) => (ago(at, now)), None => span.soft { "not known" } } }
            td { (node.version.as_deref().unwrap_or("not known")) }
            td { (node.address.as_deref().unwrap_or("not known")) }
        }
    };
    html! {
        section.card aria-labelledby="nodes" {
            h2 #nodes { "Nodes" }
            @if listed.is_empty() { p { "No node is connected to the database at this moment." } }
            @else { (records("Nodes on the database, longest connected first", &["Node", "Connected since", "Last seen", "Version", "Address"], listed.iter().map(line))) }
            p.soft { "Lines of the log name a node by its number. A node that ends, or loses its connection, leaves the list." }
        }
    }
}

fn soundness(system: &System) -> Markup {
    match system.log.is_sound {
        true => badge(Tone::Good, "Complete"),
        false => badge(Tone::Bad, "Entries are missing"),
    }
}

fn witnesses(system: &System, now: Timestamp) -> Markup {
    if system.witnesses.is_empty() {
        return html! { p { "This node asks no witness. Set " code { "witnesses" } " to a file that names some: they vouch that the log only grew." } };
    }
    let line = |witness: &LogWitness| {
        html! {
            td { (witness.name) small { (witness.url) } }
            td {
                @if witness.is_alarm { (badge(Tone::Bad, "Contradicts the log")) }
                @else if witness.trouble.is_some() { (badge(Tone::Warn, "Does not cosign")) }
                @else if witness.cosigned_at.is_none() { (badge(Tone::Warn, "Not asked yet")) }
                @else if is_silent(witness.cosigned_at, now) { (badge(Tone::Warn, "Not asked any more")) }
                @else { (badge(Tone::Good, "Cosigns")) }
            }
            td { (grouped(&witness.size.to_string())) }
            td { @match witness.cosigned_at { Some(at) => (ago(at, now)), None => span.soft { "never" } } }
        }
    };
    records(
        "Witnesses of the log",
        &["Witness", "State", "Entries cosigned", "Last cosigned"],
        system.witnesses.iter().map(line),
    )
}

fn timestamps(system: &System, now: Timestamp) -> Markup {
    let state = &system.timestamps;
    html! {
        dl {
            @match state.stamped_at {
                Some(at) => {
                    (fact("Last time-stamp", time(at)))
                    (fact("Its age", ago(at, now)))
                    (fact("Its authority", state.authority.as_deref().unwrap_or("without a name")))
                    (fact("Entries stamped", grouped(&state.size.to_string())))
                }
                None => (fact("Last time-stamp", "none")),
            }
            @if let Some(why) = &state.trouble { (fact("Last question", html! { (badge(Tone::Warn, "Failed")) " " (why) })) }
        }
        @if state.stamped_at.is_none() && state.asked == 0 {
            p.soft { "No authority was asked yet. The settings " code { "timestamp_authorities" } " and " code { "timestamp_roots" }
            " name authorities that vouch for when entries existed." }
        }
    }
}

/// Whether the database is a server's, which makes its own backups.
fn is_on_a_server(system: &System) -> bool {
    system.nodes.is_some()
}

fn backups(system: &System, now: Timestamp) -> Markup {
    if is_on_a_server(system) {
        return html! { p { "PostgreSQL makes its own backups. They are not seen from here." } };
    }
    let Some(backups) = &system.backups else {
        return html! { p { "This node knows of no folder of backups. Set " code { "backup_folder" } " to where " code { "bookguard backup" }
        " keeps them." } };
    };
    html! {
        dl {
            (fact("Folder", &backups.folder))
            @match backups.newest_at {
                Some(at) => { (fact("Newest verified one", time(at))) (fact("Its age", ago(at, now))) }
                None => (fact("Newest verified one", badge(Tone::Bad, "None"))),
            }
        }
    }
}

/// A size, rounded down.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..TEN_GIB => (MIB, "MiB"),
        _ => (1024 * MIB, "GiB"),
    };
    format!("{} {name}", grouped(&(bytes / unit).to_string()))
}

#[cfg(test)]
mod tests {
    use bookguard_core::features::system::{
        BackupState, DiskState, LogState, TimestampState, WriteState,
    };
    use bookguard_core::limits::WITNESS_SILENT_MS;

    use super::*;

    fn sound(now: Timestamp) -> System {
        System {
            at: now,
            version: "1".to_owned(),
            database: "b.db".to_owned(),
            schema_version: 4,
            nodes: None,
            writes: WriteState {
                taken: true,
                code: None,
                message: None,
            },
            log: LogState {
                origin: "b.example".to_owned(),
                size: 7,
                root_hash: String::new(),
                written_at: None,
                is_sound: true,
            },
            witnesses: vec![LogWitness {
                name: "one".to_owned(),
                url: "https://one.example".to_owned(),
                size: 7,
                cosigned_at: Some(now.plus_ms(-WITNESS_SILENT_MS)),
                is_alarm: false,
                trouble: Some("it was away".to_owned()),
            }],
            timestamps: TimestampState::default(),
            disk: Some(DiskState {
                free_bytes: 20,
                min_free_bytes: 20,
            }),
            backups: Some(BackupState {
                folder: "/b".to_owned(),
                newest_at: Some(now.plus_ms(-BACKUP_OLD_MS)),
            }),
            settings: Vec::new(),
        }
    }

    #[test]
    fn what_is_wrong_is_said_once() {
        type Change = fn(&mut System);
        let now = Timestamp::from_ms(1_800_000_000_000);
        let refuse = |system: &mut System| {
            system.writes.taken = false;
            system.writes.code = Some("ledger_rolled_back".to_owned());
            system.writes.message = Some("rolled back".to_owned());
            system.log.is_sound = false;
        };
        let silent = |system: &mut System| {
            system.witnesses[0].trouble = None;
            system.witnesses[0].cosigned_at = Some(Timestamp::from_ms(1_790_000_000_000));
        };
        #[rustfmt::skip]
        let cases: [(Change, Option<&str>); 12] = [
            (silent, Some("no node asks it")),
            (|_| {}, None),
            (refuse, Some("rolled back")),
            (|system| system.log.is_sound = false, Some("lacks entries")),
            (|system| system.disk.as_mut().unwrap().free_bytes = 19, Some("almost full")),
            (|system| system.backups = None, Some("No folder")),
            (|system| (system.backups, system.nodes) = (None, Some(Vec::new())), None),
            (|system| system.witnesses[0].is_alarm = true, Some("The witness one contradicts the log: it was away.")),
            (|system| system.witnesses[0].cosigned_at = None, Some("The witness one does not cosign the log: it was away.")),
            (
                |system| system.timestamps.trouble = Some("a.example: no answer".to_owned()),
                Some("could not be stamped: a.example: no answer."),
            ),
            (|system| system.backups.as_mut().unwrap().newest_at = None, Some("no verified")),
            (
                |system| {
                    let backups = system.backups.as_mut().unwrap();
                    backups.newest_at = backups.newest_at.map(|at| at.plus_ms(-1));
                },
                Some("26 hours"),
            ),
        ];
        for (change, expected) in cases {
            let mut system = sound(now);
            change(&mut system);
            let found = troubles(&system, now);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            if let Some(expected) = expected {
                assert!(found[0].contains(expected), "{found:?}");
            }
        }
    }
}
