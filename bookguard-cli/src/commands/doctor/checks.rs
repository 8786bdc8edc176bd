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
use bookguard_core::store::{Database, Store, StoreError, StoredHead, may_not_write};
use bookguard_server::config::settings::Faults;
use bookguard_server::config::{Config, Settings};
use bookguard_server::runs_on;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::block_in_place;
use tokio::time::timeout;
use url::Url;

use super::{Diagnosis, Finding, ok, problem, skipped, warning};
use crate::commands::backup::check_of;
use crate::commands::healthcheck::listening;
use crate::failure::Failure;
use crate::output::table::{joined, size};
use crate::target::remote::Remote;

/// How long to wait for a name, a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(PATIENCE_S);
const PATIENCE_S: u64 = 3;
/// Two nodes whose clocks are within this of the database's are near enough to each other.
const SKEW_MS: i64 = LEASE_SKEW_MS / 2;

/// What a check found. What it needs and lacks, or cannot read, ends it early, as an error.
type Found = Result<Finding, Finding>;

/// A database that can be read, and its head.
type Sound<'a> = Option<&'a (Store, StoredHead)>;

/// Every check, in the order in which faults are best repaired.
pub(super) async fn all(
    config: &Config,
    file: Option<&Path>,
    egress: Option<&str>,
) -> Vec<Diagnosis> {
    let needs = check_of(config);
    let mut found = block_in_place(|| {
        let (database, sound) = database(config);
        let sound = sound.as_ref();
        let (ledger_key, key) = ledger_key(&needs, sound);
        vec![
            ("configuration", Ok(configuration(config, file))),
            ("database", Ok(database)),
            ("permissions", Ok(permissions(config, &needs))),
            ("ledger_key", Ok(ledger_key)),
            ("witnesses", witnesses(config, key.as_ref(), sound)),
            ("guard", guard(&needs, key, sound)),
            ("clock", clock(sound)),
            ("disk", disk(config, sound)),
            ("backups", backups(config)),
            ("timestamps", timestamps(config, sound)),
            ("maps", maps(config, sound)),
        ]
    });
    found.push(("public_url", Ok(public_url(config).await)));
    found.push(("webhooks", webhooks(config, egress).await));
    found.push(("server", server(config).await));
    let diagnosis = |(check, found): (_, Found)| Diagnosis {
        check,
        finding: found.unwrap_or_else(|finding| finding),
    };
    found.into_iter().map(diagnosis).collect()
}

/// The finding about settings that are not valid.
pub(super) fn invalid(failure: &Failure) -> Diagnosis {
    let fix = "Correct the setting; `bookguard serve --help` lists all of them. Nothing else was checked.";
    Diagnosis {
        check: "configuration",
        finding: problem(failure.reason(), fix),
    }
}

fn configuration(config: &Config, file: Option<&Path>) -> Finding {
    let found = configuration_file(file);
    if found.fix.is_some() || config.ignored.is_empty() {
        return found;
    }
    warning(
        config.ignored.join("; "),
        "Correct the name, or unset the variable.",
    )
}

fn configuration_file(file: Option<&Path>) -> Finding {
    let Some(file) = file else {
        return ok("valid; no configuration file is named");
    };
    let shown = file.display();
    let mode = private::mode(file).unwrap_or_default();
    if mode & 0o022 != 0 {
        return problem(
            format!("others can write {shown} (mode {:04o})", mode & 0o7777),
            format!("Let only its owner write it: `chmod go-w {shown}`."),
        );
    }
    // Its faults were told when the settings were read.
    let settings = Settings::load(file, &mut Faults::default());
    let has_password = settings.is_some_and(|settings| settings.holds_password());
    if has_password && mode & 0o044 != 0 {
        return warning(
            format!(
                "others can read {shown} (mode {:04o}), which holds a password",
                mode & 0o7777
            ),
            format!(
                "Let only its owner read it (`chmod 600 {shown}`), or move the password to the environment."
            ),
        );
    }
    ok(format!("{shown} is valid"))
}

/// Whether the database can be read, and what it is read with.
fn database(config: &Config) -> (Finding, Option<(Store, StoredHead)>) {
    let db = &config.db;
    let alone = |found: String, fix: &str| (problem(found, fix), None);
    let (head, store) = match Store::look(db).and_then(|store| Ok((store.head()?, store))) {
        Ok((Some(head), store)) => (head, store),
        Ok((None, _)) => {
            let fix = "Start the server: it begins the ledger.";
            return alone(format!("{db} has no ledger yet"), fix);
        }
        Err(why) => {
            let fix = match why {
                StoreError::Older { .. } => {
                    "Run `bookguard migrate`, or start the server, which does the same."
                }
                StoreError::Newer { .. } => "Install the newer bookguard, also for this command.",
                StoreError::Unreadable(_) | StoreError::Corrupt(_) => {
                    "Look at the disk first. Then restore a backup: `bookguard restore`."
                }
                StoreError::Foreign => "Name the database of this service (db).",
                _ => {
                    "Check the address (db) and that this user may read it; if there is no database yet, `bookguard serve` makes one."
                }
            };
            return alone(format!("{db}: {why}"), fix);
        }
    };
    if let Some(from) = head.arriving_from() {
        return alone(
            format!("the ledger of {from} is being moved to {db}, and that has not ended"),
            "Run the same `bookguard transfer` again, or take the move back with `bookguard transfer --reopen` and delete this \
             database.",
        );
    }
    let (entries, origin) = (entries(head.head.size), &head.origin);
    let said = format!("{db} holds {entries} of log {origin}");
    let finding = match &head.moved_to {
        None => ok(said),
        Some(to) => problem(
            format!("{said}, which was moved to {to}: it takes no writes"),
            "Serve that database, or take the move back with `bookguard transfer --reopen`.",
        ),
    };
    (finding, Some((store, head)))
}

/// The database that a check needs.
fn needed(sound: Sound<'_>) -> Result<&(Store, StoredHead), Finding> {
    sound.ok_or_else(|| skipped("the database cannot be read, or has no ledger"))
}

/// The database and the ledger key that a check needs.
fn both<K>(sound: Sound<'_>, key: Option<K>) -> Result<(&(Store, StoredHead), K), Finding> {
    let both = sound.zip(key);
    both.ok_or_else(|| skipped("database and ledger key are needed for it"))
}

/// The finding about a database that cannot be read further.
fn unread(why: StoreError) -> Finding {
    problem(why.to_string(), "Run `bookguard ledger verify`.")
}

/// The files that hold personal data, and the guard: whether a server can write them, and others can read them. The ledger key has
/// its own check.
fn permissions(config: &Config, needs: &BackupCheck) -> Finding {
    let erasures = ErasureList::beside(&needs.guard_file);
    let mut files = vec![needs.guard_file.clone(), erasures.path().to_owned()];
    let database = config.db.file();
    files.extend(database.into_iter().flat_map(private::files_of_database));
    let folders = files.iter().map(|file| private::folder(file));
    let denied = folders.chain(files.iter().map(PathBuf::as_path));
    let denied: BTreeSet<&Path> = denied.filter(|path| may_not_write(path)).collect();
    if !denied.is_empty() {
        let denied = joined(denied.iter().map(|path| path.display()), ", ");
        return problem(
            format!("this user may not write {}", denied.unwrap_or_default()),
            "Run `doctor` as the server's user. If this is that user, change their permissions or owner; a file system that is mounted \
             read-only must be mounted for writing.",
        );
    }
    let warnings = private::warnings(&files);
    if warnings.is_empty() {
        return ok(
            "this user can write the service's files, and nobody else can read or replace them",
        );
    }
    warning(
        warnings.join("; "),
        "Run the command that each warning names.",
    )
}

fn ledger_key(needs: &BackupCheck, sound: Sound<'_>) -> (Finding, Option<LedgerKey>) {
    let source = &needs.ledger_key;
    let alone = |found: String| {
        let restore = "Give the service the key that was made with this database (ledger_key); without it, the ledger cannot continue.";
        (problem(found, restore), None)
    };
    let key = match (LedgerKey::find(source), needed(sound)) {
        (Ok(Some(key)), _) => key,
        (Ok(None), Err(skipped)) => return (skipped, None),
        (Ok(None), Ok(_)) => return alone(format!("{source} is missing")),
        (Err(why), _) => return alone(why),
    };
    let is_of = |(_, head): &(Store, StoredHead)| key.is_of(&head.origin, &head.vkey) == Ok(true);
    if !sound.is_none_or(is_of) {
        return alone(format!("{source} did not sign this ledger"));
    }
    let open = source
        .path()
        .and_then(|file| Some((file, private::mode(file)?)))
        .filter(|(file, mode)| private::is_open_to_others(file, *mode));
    let finding = match open {
        None => ok(format!("{source} is there, and nobody else can read it")),
        Some((file, mode)) => problem(
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

fn guard(needs: &BackupCheck, key: Option<LedgerKey>, sound: Sound<'_>) -> Found {
    let file = needs.guard_file.display();
    let ((store, _), key) = both(sound, key)?;
    let unread_file = |why: String| problem(why, "Do what the message says.");
    let guard = Guard::open(needs.guard_file.clone()).map_err(unread_file)?;
    let is_there = guard.seen().is_some();
    let log = Log::new(key, guard);
    log.erasures().last().map_err(unread_file)?;
    Ok(match log.compare(store).map_err(unread)? {
        Some(lost) => problem(format!("the ledger is rolled back: {lost}"), lost.way_out()),
        None if log.erasures().is_owed() => warning(
            format!(
                "{} names an erasure that the database does not record",
                log.erasures().path().display()
            ),
            "The next start of a server or command erases what the database holds of it, before anything is served.",
        ),
        None if !is_there => warning(
            format!(
                "there is no guard file {file}: nobody would notice if the database lost entries"
            ),
            "If it was lost, bring back a copy first. Otherwise start the server, which makes one.",
        ),
        None => ok(format!("the database holds what {file} saw published")),
    })
}

/// The state of the witnesses, as the nodes noted it.
fn witnesses(config: &Config, key: Option<&LedgerKey>, sound: Sound<'_>) -> Found {
    let Some(policy) = &config.witnesses else {
        return Ok(ok("none are set, so nobody else vouches for the log"));
    };
    let ((store, head), key) = both(sound, key)?;
    if head.head.size == 0 {
        return Ok(ok("there is nothing to cosign yet"));
    }
    let known = store.witnesses(key).map_err(unread)?;
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
    Ok(match (alarms.is_empty(), troubles.is_empty()) {
        (false, _) => problem(
            format!(
                "the log may be rolled back or forked: {}",
                alarms.join("; ")
            ),
            "Compare the database with its backups before anything else is written; docs/operate/alerts.md says how.",
        ),
        (true, false) => warning(
            troubles.join("; "),
            "Ask the operators of these witnesses, and let a server run. Evidence is made all the same, with fewer cosignatures.",
        ),
        (true, true) => ok(sound.join("; ")),
    })
}

fn clock(sound: Sound<'_>) -> Found {
    let wrong = |why: String| problem(why, "Set the clocks of all machines by NTP.");
    let sound = sound.ok_or_else(|| skipped("there is no database to compare it with"));
    let (store, head) = sound?;
    let before = Clock::System.now().ms();
    let there = store.now_ms().map_err(|why| wrong(why.to_string()))?;
    let now = Clock::System.now().ms();
    let ahead = there.map_or(0, |there| before + (now - before) / 2 - there);
    if ahead.abs() > SKEW_MS {
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        let seconds = ahead.abs() / 1000;
        let why = format!("this machine's clock is {seconds} s {side} the database server's");
        return Err(wrong(why));
    }
    // Another node wrote it, or this machine while its clock was ahead.
    let future = head.written.ms() - now;
    if future > SKEW_MS {
        let seconds = future / 1000;
        let why =
            format!("the last entry of the ledger is {seconds} s ahead of this machine's clock");
        return Err(wrong(why));
    }
    Ok(ok("it agrees with the database"))
}

fn disk(config: &Config, sound: Sound<'_>) -> Found {
    if let Database::Postgres(_) = config.db {
        return Err(skipped("the database server's disk is not seen from here"));
    }
    let free = sound.and_then(|(store, _)| store.free_bytes());
    let free = free.ok_or_else(|| skipped("the free space is not known"))?;
    let found = format!("{} of the database's disk are free", size(free));
    let least = config.min_free_disk;
    let limit = format!("min_free_disk is {}", size(least));
    Ok(if free < least {
        problem(
            format!("{found}, and {limit}: nothing new is accepted"),
            "Free some space, or move the database to a larger disk.",
        )
    } else if free / 2 < least {
        warning(format!("{found}; {limit}"), "Make room before it runs out.")
    } else {
        ok(found)
    })
}

fn backups(config: &Config) -> Found {
    if let Database::Postgres(_) = config.db {
        return Err(skipped("PostgreSQL makes its own"));
    }
    let folder = config.backup_folder.as_ref().ok_or_else(|| {
        warning(
            "backup_folder is not set, so it is not known whether there are any",
            "Set it, and run `bookguard backup --keep 14` once a day.",
        )
    })?;
    let shown = folder.display();
    let unmade = |found: String| {
        let fix = "Run `bookguard backup --keep 14`, and look at what it says.";
        problem(found, fix)
    };
    let now = Clock::System.now();
    let newest = newest(folder, now).map_err(|why| {
        let fix = "Make the folder, or let this user read it.";
        problem(format!("the folder {shown} cannot be read: {why}"), fix)
    })?;
    let newest = newest.ok_or_else(|| unmade(format!("{shown} holds no verified backup")))?;
    if now.ms() - newest.ms() > BACKUP_OLD_MS {
        return Err(unmade(format!(
            "the newest backup in {shown} was made at {newest}"
        )));
    }
    Ok(match private::readable_folder(folder) {
        Some(open) => warning(open, format!("Close it: `chmod 700 {shown}`.")),
        None => ok(format!("the newest one in {shown} was made at {newest}")),
    })
}

/// Whether the ledger is stamped in time.
fn timestamps(config: &Config, sound: Sound<'_>) -> Found {
    let (store, head) = needed(sound)?;
    let (stamping, last) = store.stamping().map_err(unread)?;
    let is_here = head.moved_to.is_none();
    let stopped = last.filter(|last| is_here && has_stopped(*last, Clock::System.now()));
    let Some(timestamps) = &config.timestamps else {
        return Err(match stopped {
            None => skipped("no time-stamp authority is configured"),
            Some(last) => warning(
                format!("the last stamp is from {last}, and no time-stamp authority is configured"),
                "Set timestamp_authorities and timestamp_roots again, unless the ledger is no longer to be stamped.",
            ),
        });
    };
    let said = match last {
        None => "the ledger was never stamped".to_owned(),
        Some(last) => format!("the last stamp is from {last}"),
    };
    Ok(match stamping.trouble {
        Some(why) => warning(
            format!("{said}; {why}"),
            "Check that the authority can be reached from here, and that timestamp_roots holds its root; packets say until when \
             the ledger is stamped.",
        ),
        None if stopped.is_some() || last.is_none() && head.head.size > 0 => warning(
            said,
            format!(
                "Let a server run with these settings; it asks an authority within {} s.",
                timestamps.interval.as_secs()
            ),
        ),
        None => ok(said),
    })
}

/// Whether the ledger commits to a map of its entries in time.
fn maps(config: &Config, sound: Sound<'_>) -> Found {
    let (store, _) = needed(sound)?;
    let mapping = store.mapping().map_err(unread)?;
    let said = format!("the newest map covers {} entries", mapping.covered);
    let interval_ms = i64::try_from(config.map_interval.as_millis()).unwrap_or(i64::MAX);
    Ok(match mapping.waiting {
        Some(at) if is_overdue(at, Clock::System.now(), interval_ms) => warning(
            format!("{said}; an entry from {at} still waits for one"),
            format!(
                "Let a server run; it maps the ledger every {} s, and its log says why it does not. Until then packets do not show \
                 that they lack no entry.",
                config.map_interval.as_secs()
            ),
        ),
        Some(at) => ok(format!("{said}; an entry from {at} waits for the next one")),
        None => ok(said),
    })
}

async fn public_url(config: &Config) -> Finding {
    let Some(address) = &config.public_url else {
        return warning(
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
        return problem(
            format!("{host} does not resolve on this machine: {why}"),
            "Correct public_url, or the name servers.",
        );
    }
    if !address.starts_with("https://") {
        return warning(
            format!("{address} is not encrypted: keys and evidence can be read on the way"),
            "Put a proxy with TLS in front, and let public_url begin with https://.",
        );
    }
    ok(format!("{address} is encrypted, and its host resolves"))
}

/// Whether something outside can be reached as webhooks reach it.
async fn webhooks(config: &Config, egress: Option<&str>) -> Found {
    let unasked = "name a receiver with --egress HOST:PORT to see whether it can be reached";
    let place = egress.ok_or_else(|| skipped(unasked))?;
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
    let addresses = resolved(place).await;
    let addresses =
        addresses.map_err(|why| problem(format!("{place} does not resolve: {why}"), fix))?;
    let reaching = async {
        match &config.webhook_proxy {
            Some(proxy) => proxy.reach(&addresses).await,
            None => {
                let connected = TcpStream::connect(addresses.as_slice()).await;
                connected.map(drop).map_err(|e| e.to_string())
            }
        }
    };
    Ok(match timeout(PATIENCE, reaching).await {
        Ok(Ok(())) => ok(format!("{place} can be reached {way}")),
        Ok(Err(why)) => problem(format!("{place} cannot be reached {way}: {why}"), fix),
        Err(_) => problem(
            format!("{place} did not answer {way} within {PATIENCE_S} s"),
            fix,
        ),
    })
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
async fn server(config: &Config) -> Found {
    if config.db.file().is_some_and(|file| !runs_on(file)) {
        return Err(skipped("no server runs on this database"));
    }
    let there = listening(&config.listen).and_then(|url| Ok((Remote::here(&url)?, url)));
    let (server, url) = there.map_err(|_| {
        let listen = &config.listen;
        skipped(format!(
            "its port is not known here, because it takes a free one ({listen})"
        ))
    })?;
    let fix =
        "Look at the server's log; docs/operate/watch.md explains the codes under \"Health\".";
    Ok(match timeout(PATIENCE, server.text("/readyz")).await {
        Ok(Ok(_)) => ok(format!("{url} is ready")),
        // Other nodes of a PostgreSQL database need not run here.
        Ok(Err(Failure::Unreachable(_))) if config.db.file().is_none() => {
            skipped("no server runs here")
        }
        Ok(Err(why)) => problem(format!("{url} is not ready: {}", why.reason()), fix),
        Err(_) => problem(format!("{url} did not answer within {PATIENCE_S} s"), fix),
    })
}
