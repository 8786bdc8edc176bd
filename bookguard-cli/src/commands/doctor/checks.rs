//! The checks of `doctor`, one function each.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::erasure_list::ErasureList;
use bookguard_core::features::cosignatures::{is_silent, places};
use bookguard_core::features::epochs::is_overdue;
use bookguard_core::features::timestamps::has_stopped;
use bookguard_core::guard::Guard;
use bookguard_core::key_file::LedgerKey;
use bookguard_core::ledger::rollback::entries;
use bookguard_core::limits::{BACKUP_OLD_MS, LEASE_SKEW_MS};
use bookguard_core::log::Log;
use bookguard_core::private;
use bookguard_core::store::backup::{BackupCheck, newest};
use bookguard_core::store::{Database, Store, StoredHead, may_not_write};
use bookguard_server::config::settings::Faults;
use bookguard_server::config::{Config, Settings};
use bookguard_server::runs_on;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::block_in_place;
use tokio::time::timeout;
use url::Url;

use super::Diagnosis;
use crate::commands::healthcheck::listening;
use crate::failure::Failure;
use crate::target::remote::Remote;

/// How long to wait for a name, a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Two nodes whose clocks are within this of the database's are near enough to each other.
const SKEW_MS: i64 = LEASE_SKEW_MS / 2;

/// Every check, in the order in which faults are best repaired.
pub(super) async fn all(
    config: &Config,
    file: Option<&Path>,
    egress: Option<&str>,
) -> Vec<Diagnosis> {
    let mut found = vec![configuration(config, file)];
    let needs = BackupCheck::new(
        &config.db,
        config.ledger_key.clone(),
        config.guard_file.clone(),
    );
    block_in_place(|| {
        let (database, store) = database(config);
        let sound = store.as_ref().map(|(store, head)| (store, head));
        found.push(database);
        found.push(permissions(config, &needs));
        let (ledger_key, key) = ledger_key(&needs, sound.map(|(_, head)| head));
        found.push(ledger_key);
        found.push(witnesses(config, key.as_ref(), sound));
        found.push(guard(&needs, key, sound.map(|(store, _)| store)));
        found.push(clock(sound));
        found.push(disk(config, sound.map(|(store, _)| store)));
        found.push(backups(config));
        found.push(timestamps(config, sound));
        found.push(maps(config, sound));
    });
    found.push(public_url(config).await);
    found.push(webhooks(config, egress).await);
    found.push(server(config).await);
    found
}

/// The finding about settings that are not valid.
pub(super) fn invalid(failure: &Failure) -> Diagnosis {
    Diagnosis::problem(
        "configuration",
        failure.reason(),
        "Correct the setting; docs/reference/settings.md lists all of them. Nothing else was checked.",
    )
}

fn configuration(config: &Config, file: Option<&Path>) -> Diagnosis {
    let found = configuration_file(file);
    if found.fix.is_some() || config.ignored.is_empty() {
        return found;
    }
    Diagnosis::warning(
        found.check,
        config.ignored.join("; "),
        "Correct the name, or unset the variable.",
    )
}

fn configuration_file(file: Option<&Path>) -> Diagnosis {
    let check = "configuration";
    let Some(file) = file else {
        return Diagnosis::ok(check, "valid; no configuration file is named");
    };
    let shown = file.display();
    let mode = private::mode(file).unwrap_or_default();
    if mode & 0o022 != 0 {
        return Diagnosis::problem(
            check,
            format!("others can write {shown} (mode {:04o})", mode & 0o7777),
            format!("Let only its owner write it: `chmod go-w {shown}`."),
        );
    }
    // Its faults were told when the settings were read.
    let settings = Settings::load(file, &mut Faults::default());
    let has_password = settings.is_some_and(|settings| settings.holds_password());
    if has_password && mode & 0o044 != 0 {
        return Diagnosis::warning(
            check,
            format!(
                "others can read {shown} (mode {:04o}), which holds a password",
                mode & 0o7777
            ),
            format!(
                "Let only its owner read it (`chmod 600 {shown}`), or move the password to the environment."
            ),
        );
    }
    Diagnosis::ok(check, format!("{shown} is valid"))
}

/// Whether the database can be read, and what it is read with.
fn database(config: &Config) -> (Diagnosis, Option<(Store, StoredHead)>) {
    let check = "database";
    let db = &config.db;
    let opened = Store::look(db).and_then(|store| Ok((store.head()?, store)));
    match opened {
        Err(why) => {
            let fix = "Check the address (db) and that this user may read it; if there is no database yet, `bookguard serve` makes one.";
            (Diagnosis::problem(check, format!("{db}: {why}"), fix), None)
        }
        Ok((None, _)) => {
            let fix = "Start the server: it begins the ledger.";
            (
                Diagnosis::problem(check, format!("{db} has no ledger yet"), fix),
                None,
            )
        }
        Ok((Some(head), store)) => {
            if let Some(from) = head.arriving_from() {
                let finding = Diagnosis::problem(
                    check,
                    format!("the ledger of {from} is being moved to {db}, and that has not ended"),
                    "Run the same `bookguard transfer` again, or take the move back with `bookguard transfer --reopen` and delete this \
                     database.",
                );
                return (finding, None);
            }
            let said = format!(
                "{db} holds {} of log {}",
                entries(head.head.size),
                head.origin
            );
            let finding = match &head.moved_to {
                None => Diagnosis::ok(check, said),
                Some(to) => Diagnosis::problem(
                    check,
                    format!("{said}, which was moved to {to}: it takes no writes"),
                    "Serve that database, or take the move back with `bookguard transfer --reopen`.",
                ),
            };
            (finding, Some((store, head)))
        }
    }
}

/// The files that hold personal data, and the guard: whether a server can write them, and others can read them. The ledger key has
/// its own check.
fn permissions(config: &Config, needs: &BackupCheck) -> Diagnosis {
    let erasures = ErasureList::beside(&needs.guard_file);
    let mut files = vec![needs.guard_file.clone(), erasures.path().to_owned()];
    let database = config.db.file();
    files.extend(database.into_iter().flat_map(private::files_of_database));
    let check = "permissions";
    let folders = files.iter().map(|file| private::folder(file));
    let denied = folders.chain(files.iter().map(PathBuf::as_path));
    let denied: BTreeSet<&Path> = denied.filter(|path| may_not_write(path)).collect();
    if !denied.is_empty() {
        let denied: Vec<_> = denied
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Diagnosis::problem(
            check,
            format!("this user may not write {}", denied.join(", ")),
            "Run `doctor` as the server's user. If this is that user, change their permissions or owner; a file system that is mounted \
             read-only must be mounted for writing.",
        );
    }
    let warnings = private::warnings(&files);
    if warnings.is_empty() {
        return Diagnosis::ok(
            check,
            "this user can write the service's files, and nobody else can read or replace them",
        );
    }
    Diagnosis::warning(
        check,
        warnings.join("; "),
        "Run the command that each warning names.",
    )
}

fn ledger_key(needs: &BackupCheck, head: Option<&StoredHead>) -> (Diagnosis, Option<LedgerKey>) {
    let (check, source) = ("ledger_key", &needs.ledger_key);
    let restore = "Give the service the key that was made with this database (ledger_key); without it, the ledger cannot continue.";
    let key = match LedgerKey::find(source) {
        Ok(Some(key)) => key,
        Ok(None) if head.is_none() => {
            return (
                Diagnosis::skipped(check, "the database cannot be read, or has no ledger"),
                None,
            );
        }
        Ok(None) => {
            return (
                Diagnosis::problem(check, format!("{source} is missing"), restore),
                None,
            );
        }
        Err(why) => return (Diagnosis::problem(check, why, restore), None),
    };
    let matches = head.map(|head| key.is_of(&head.origin, &head.vkey));
    if matches.is_some_and(|matches| matches != Ok(true)) {
        let why = format!("{source} did not sign this ledger");
        return (Diagnosis::problem(check, why, restore), None);
    }
    let open = source
        .path()
        .and_then(|file| Some((file, private::mode(file)?)))
        .filter(|(file, mode)| private::is_open_to_others(file, *mode));
    let finding = match open {
        None => Diagnosis::ok(
            check,
            format!("{source} is there, and nobody else can read it"),
        ),
        Some((file, mode)) => Diagnosis::problem(
            check,
            format!(
                "others can read or write {source} (mode {:04o})",
                mode & 0o7777
            ),
            format!(
                "Let only the service's user read it: `chmod 600 {}`.",
                file.display()
            ),
        ),
    };
    (finding, Some(key))
}

fn guard(needs: &BackupCheck, key: Option<LedgerKey>, store: Option<&Store>) -> Diagnosis {
    let (check, file) = ("guard", needs.guard_file.display());
    let (Some(key), Some(store)) = (key, store) else {
        return Diagnosis::skipped(check, "database and ledger key are needed for it");
    };
    let guard = match Guard::open(needs.guard_file.clone()) {
        Ok(guard) => guard,
        Err(why) => return Diagnosis::problem(check, why, "Do what the message says."),
    };
    let is_there = guard.seen().is_some();
    let log = Log::new(key, guard);
    if let Err(why) = log.erasures().last() {
        return Diagnosis::problem(check, why, "Do what the message says.");
    }
    match log.compare(store) {
        Ok(Some(lost)) => Diagnosis::problem(
            check,
            format!("the ledger is rolled back: {lost}"),
            lost.way_out(),
        ),
        Ok(None) if log.erasures().is_owed() => Diagnosis::warning(
            check,
            format!(
                "{} names an erasure that the database does not record",
                log.erasures().path().display()
            ),
            "The next start of a server or command erases what the database holds of it, before anything is served.",
        ),
        Ok(None) if !is_there => Diagnosis::warning(
            check,
            format!(
                "there is no guard file {file}: nobody would notice if the database lost entries"
            ),
            "If it was lost, bring back a copy first. Otherwise start the server, which makes one.",
        ),
        Ok(None) => Diagnosis::ok(
            check,
            format!("the database holds what {file} saw published"),
        ),
        Err(why) => Diagnosis::problem(check, why.to_string(), "Run `bookguard ledger verify`."),
    }
}

/// The state of the witnesses, as the nodes noted it.
fn witnesses(
    config: &Config,
    key: Option<&LedgerKey>,
    sound: Option<(&Store, &StoredHead)>,
) -> Diagnosis {
    let check = "witnesses";
    let Some(policy) = &config.witnesses else {
        return Diagnosis::ok(check, "none are set, so nobody else vouches for the log");
    };
    let (Some(key), Some((store, head))) = (key, sound) else {
        return Diagnosis::skipped(check, "database and ledger key are needed for it");
    };
    if head.head.size == 0 {
        return Diagnosis::ok(check, "there is nothing to cosign yet");
    }
    let known = match store.witnesses(key) {
        Ok(known) => known,
        Err(why) => {
            return Diagnosis::problem(check, why.to_string(), "Run `bookguard ledger verify`.");
        }
    };
    let now = Clock::System.now();
    let (mut alarms, mut troubles, mut sound) = (Vec::new(), Vec::new(), Vec::new());
    for place in places(policy) {
        let names = format!("{} ({})", place.names.join(", "), place.url);
        let state = known.iter().find(|state| state.url == place.url);
        let last = state.and_then(|state| state.cosigned_at);
        let since = last.map_or("it has never cosigned".to_owned(), |at| {
            format!("it last cosigned {at}")
        });
        // What all of them have in common is said once.
        let some = state.filter(|state| state.trouble.is_none());
        for (name, key) in place.names.iter().zip(&place.keys) {
            let own = some.and_then(|state| state.trouble_of(&key.to_string()));
            troubles.extend(own.map(|what| format!("{name} ({}): {what}", place.url)));
        }
        match state.and_then(|state| state.trouble.as_ref()) {
            Some(trouble) if trouble.is_alarm => {
                alarms.push(format!("{names}: {}; {since}", trouble.what))
            }
            Some(trouble) => troubles.push(format!("{names}: {}; {since}", trouble.what)),
            None if is_silent(last, now) => {
                troubles.push(format!("{names}: {since}; no node asks it"))
            }
            None => sound.push(format!("{names}: {since}")),
        }
    }
    if !alarms.is_empty() {
        return Diagnosis::problem(
            check,
            format!(
                "the log may be rolled back or forked: {}",
                alarms.join("; ")
            ),
            "Compare the database with its backups before anything else is written; docs/operate/alerts.md says how.",
        );
    }
    match troubles.is_empty() {
        true => Diagnosis::ok(check, sound.join("; ")),
        false => Diagnosis::warning(
            check,
            troubles.join("; "),
            "Ask the operators of these witnesses, and let a server run. Evidence is made all the same, with fewer cosignatures.",
        ),
    }
}

fn clock(sound: Option<(&Store, &StoredHead)>) -> Diagnosis {
    let (check, fix) = ("clock", "Set the clocks of all machines by NTP.");
    let Some((store, head)) = sound else {
        return Diagnosis::skipped(check, "there is no database to compare it with");
    };
    let before = Clock::System.now().ms();
    let there = match store.now_ms() {
        Ok(there) => there,
        Err(why) => return Diagnosis::problem(check, why.to_string(), fix),
    };
    let now = Clock::System.now().ms();
    let ahead = there.map_or(0, |there| before + (now - before) / 2 - there);
    if ahead.abs() > SKEW_MS {
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        let seconds = ahead.abs() / 1000;
        let why = format!("this machine's clock is {seconds} s {side} the database server's");
        return Diagnosis::problem(check, why, fix);
    }
    // Another node wrote it, or this machine while its clock was ahead.
    let future = head.written.ms() - now;
    if future > SKEW_MS {
        let why = format!(
            "the last entry of the ledger is {} s ahead of this machine's clock",
            future / 1000
        );
        return Diagnosis::problem(check, why, fix);
    }
    Diagnosis::ok(check, "it agrees with the database")
}

fn disk(config: &Config, store: Option<&Store>) -> Diagnosis {
    let check = "disk";
    if let Database::Postgres(_) = config.db {
        return Diagnosis::skipped(check, "the database server's disk is not seen from here");
    }
    let Some(free) = store.and_then(Store::free_bytes) else {
        return Diagnosis::skipped(check, "the free space is not known");
    };
    let mib = |bytes: u64| bytes / (1024 * 1024);
    let found = format!("{} MiB of the database's disk are free", mib(free));
    let least = config.min_free_disk;
    let limit = format!("min_free_disk is {} MiB", mib(least));
    if free < least {
        let found = format!("{found}, and {limit}: nothing new is accepted");
        return Diagnosis::problem(
            check,
            found,
            "Free some space, or move the database to a larger disk.",
        );
    }
    if free / 2 < least {
        let found = format!("{found}; {limit}");
        return Diagnosis::warning(check, found, "Make room before it runs out.");
    }
    Diagnosis::ok(check, found)
}

fn backups(config: &Config) -> Diagnosis {
    let check = "backups";
    if let Database::Postgres(_) = config.db {
        return Diagnosis::skipped(check, "PostgreSQL makes its own");
    }
    let Some(folder) = &config.backup_folder else {
        return Diagnosis::warning(
            check,
            "backup_folder is not set, so it is not known whether there are any",
            "Set it, and run `bookguard backup --keep 14` once a day.",
        );
    };
    let (shown, make) = (
        folder.display(),
        "Run `bookguard backup --keep 14`, and look at what it says.",
    );
    let now = Clock::System.now();
    let newest = match newest(folder, now) {
        Err(why) => {
            return Diagnosis::problem(
                check,
                format!("the folder {shown} cannot be read: {why}"),
                "Make the folder, or let this user read it.",
            );
        }
        Ok(None) => {
            return Diagnosis::problem(check, format!("{shown} holds no verified backup"), make);
        }
        Ok(Some(newest)) => newest,
    };
    if now.ms() - newest.ms() > BACKUP_OLD_MS {
        return Diagnosis::problem(
            check,
            format!("the newest backup in {shown} was made at {newest}"),
            make,
        );
    }
    match private::readable_folder(folder) {
        Some(warning) => {
            Diagnosis::warning(check, warning, format!("Close it: `chmod 700 {shown}`."))
        }
        None => Diagnosis::ok(
            check,
            format!("the newest one in {shown} was made at {newest}"),
        ),
    }
}

/// Whether the ledger is stamped in time.
fn timestamps(config: &Config, sound: Option<(&Store, &StoredHead)>) -> Diagnosis {
    let check = "timestamps";
    let Some((store, head)) = sound else {
        return Diagnosis::skipped(check, "the database cannot be read, or has no ledger");
    };
    let (stamping, last) = match store.stamping() {
        Ok(found) => found,
        Err(why) => {
            return Diagnosis::problem(check, why.to_string(), "Run `bookguard ledger verify`.");
        }
    };
    let is_here = head.moved_to.is_none();
    let stopped = last.filter(|last| is_here && has_stopped(*last, Clock::System.now()));
    let Some(timestamps) = &config.timestamps else {
        return match stopped {
            None => Diagnosis::skipped(check, "no time-stamp authority is configured"),
            Some(last) => Diagnosis::warning(
                check,
                format!("the last stamp is from {last}, and no time-stamp authority is configured"),
                "Set timestamp_authorities and timestamp_roots again, unless the ledger is no longer to be stamped.",
            ),
        };
    };
    let said = match last {
        None => "the ledger was never stamped".to_owned(),
        Some(last) => format!("the last stamp is from {last}"),
    };
    match stamping.trouble {
        Some(why) => Diagnosis::warning(
            check,
            format!("{said}; {why}"),
            "Check that the authority can be reached from here, and that timestamp_roots holds its root; packets say until when \
             the ledger is stamped.",
        ),
        None if stopped.is_some() || last.is_none() && head.head.size > 0 => Diagnosis::warning(
            check,
            said,
            format!(
                "Let a server run with these settings; it asks an authority within {} s.",
                timestamps.interval.as_secs()
            ),
        ),
        None => Diagnosis::ok(check, said),
    }
}

/// Whether the ledger commits to a map of its entries in time.
fn maps(config: &Config, sound: Option<(&Store, &StoredHead)>) -> Diagnosis {
    let check = "maps";
    let Some((store, _)) = sound else {
        return Diagnosis::skipped(check, "the database cannot be read, or has no ledger");
    };
    let mapping = match store.mapping() {
        Ok(found) => found,
        Err(why) => {
            return Diagnosis::problem(check, why.to_string(), "Run `bookguard ledger verify`.");
        }
    };
    let said = format!("the newest map covers {} entries", mapping.covered);
    let interval_ms = i64::try_from(config.map_interval.as_millis()).unwrap_or(i64::MAX);
    match mapping.waiting {
        Some(at) if is_overdue(at, Clock::System.now(), interval_ms) => Diagnosis::warning(
            check,
            format!("{said}; an entry from {at} still waits for one"),
            format!(
                "Let a server run; it maps the ledger every {} s, and its log says why it does not. Until then packets do not show \
                 that they lack no entry.",
                config.map_interval.as_secs()
            ),
        ),
        Some(at) => Diagnosis::ok(
            check,
            format!("{said}; an entry from {at} waits for the next one"),
        ),
        None => Diagnosis::ok(check, said),
    }
}

async fn public_url(config: &Config) -> Diagnosis {
    let check = "public_url";
    let Some(address) = &config.public_url else {
        return Diagnosis::warning(
            check,
            "it is not set: links to evidence begin with http:// and the listening address",
            "Set public_url to the address at which partners reach the service.",
        );
    };
    let url = Url::parse(address).ok();
    let place = url
        .as_ref()
        .and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
    if let Some((host, port)) = place
        && let Err(why) = resolved(&format!("{host}:{port}")).await
    {
        return Diagnosis::problem(
            check,
            format!("{host} does not resolve on this machine: {why}"),
            "Correct public_url, or the name servers.",
        );
    }
    if !address.starts_with("https://") {
        return Diagnosis::warning(
            check,
            format!("{address} is not encrypted: keys and evidence can be read on the way"),
            "Put a proxy with TLS in front, and let public_url begin with https://.",
        );
    }
    Diagnosis::ok(
        check,
        format!("{address} is encrypted, and its host resolves"),
    )
}

/// Whether something outside can be reached as webhooks reach it.
async fn webhooks(config: &Config, egress: Option<&str>) -> Diagnosis {
    let check = "webhooks";
    let Some(place) = egress else {
        return Diagnosis::skipped(
            check,
            "name a receiver with --egress HOST:PORT to see whether it can be reached",
        );
    };
    let (way, fix) = match config.webhook_proxy {
        Some(_) => (
            "through webhook_proxy",
            "Look at name servers, and at the proxy (webhook_proxy): its address, its log, and where it lets this service go.",
        ),
        None => (
            "directly",
            "Look at name servers, routes and the firewall; if webhooks must go through a proxy, set webhook_proxy.",
        ),
    };
    // A proxy is never given a name, so it is resolved here either way.
    let addresses = match resolved(place).await {
        Ok(addresses) => addresses,
        Err(why) => {
            return Diagnosis::problem(check, format!("{place} does not resolve: {why}"), fix);
        }
    };
    let reaching = async {
        match &config.webhook_proxy {
            Some(proxy) => proxy.reach(&addresses).await,
            None => {
                let connected = TcpStream::connect(addresses.as_slice()).await;
                connected.map(drop).map_err(|e| e.to_string())
            }
        }
    };
    match timeout(PATIENCE, reaching).await {
        Ok(Ok(())) => Diagnosis::ok(check, format!("{place} can be reached {way}")),
        Ok(Err(why)) => Diagnosis::problem(
            check,
            format!("{place} cannot be reached {way}: {why}"),
            fix,
        ),
        Err(_) => {
            let seconds = PATIENCE.as_secs();
            Diagnosis::problem(
                check,
                format!("{place} did not answer {way} within {seconds} s"),
                fix,
            )
        }
    }
}

/// The addresses of this host and port, at least one; or why there is none.
async fn resolved(place: &str) -> Result<Vec<SocketAddr>, String> {
    let found = timeout(PATIENCE, lookup_host(place)).await;
    let found = found.map_err(|_| "no name server answered".to_owned())?;
    let found: Vec<_> = found.map_err(|e| e.to_string())?.collect();
    match found.is_empty() {
        true => Err("it has no address".to_owned()),
        false => Ok(found),
    }
}

/// Whether the server of these settings is ready, if one runs.
async fn server(config: &Config) -> Diagnosis {
    let check = "server";
    if config.db.file().is_some_and(|file| !runs_on(file)) {
        return Diagnosis::skipped(check, "no server runs on this database");
    }
    let asked = match listening(&config.listen).and_then(|url| Ok((Remote::here(&url)?, url))) {
        Err(_) => {
            return Diagnosis::skipped(
                check,
                format!(
                    "its port is not known here, because it takes a free one ({})",
                    config.listen
                ),
            );
        }
        Ok((server, url)) => (timeout(PATIENCE, server.text("/readyz")).await, url),
    };
    let fix =
        "Look at the server's log; docs/operate/watch.md explains the codes under \"Health\".";
    match asked {
        (Ok(Ok(_)), url) => Diagnosis::ok(check, format!("{url} is ready")),
        // Other nodes of a PostgreSQL database need not run here.
        (Ok(Err(Failure::Unreachable(_))), _) if config.db.file().is_none() => {
            Diagnosis::skipped(check, "no server runs here")
        }
        (Ok(Err(why)), url) => {
            let why = why.reason();
            Diagnosis::problem(check, format!("{url} is not ready: {why}"), fix)
        }
        (Err(_), url) => {
            let seconds = PATIENCE.as_secs();
            Diagnosis::problem(
                check,
                format!("{url} did not answer within {seconds} s"),
                fix,
            )
        }
    }
}
