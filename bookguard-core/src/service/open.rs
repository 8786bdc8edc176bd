//! Opening the service: the database, the key of its log, the guard, and a writer.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Closing, OpenError, Service, ServiceConfig};
use crate::engine::answers::ProbeStorage;
use crate::engine::presence::Presence;
use crate::engine::waiting::Waiting;
use crate::engine::writer::{self, WriterDeps};
use crate::guard::{self, Guard};
use crate::key_file::{self, LedgerKey, LedgerKeySource};
use crate::ledger::Checkpoint;
use crate::ledger::hash::EMPTY_ROOT;
use crate::ledger::rollback::entries;
use crate::ledger::tile::UpperNodes;
use crate::log::Log;
use crate::model::PartnerId;
use crate::packets::Packets;
use crate::policy_cache::PolicyCache;
use crate::private;
use crate::storage::Storage;
use crate::store::backup::WatchedFolder;
use crate::store::read::Reader;
use crate::store::schema;
use crate::store::slow::slowed;
use crate::store::{Database, Store, StoreError, StoredHead};

/// How long a process without a guard waits before it writes to a database that nodes may share: each of them looks every second, and
/// notes what it knows to be lost.
const HOLD_OFF: Duration = Duration::from_secs(3);

impl Service {
    /// Opens the service: the database, its key, its log, its writer.
    ///
    /// # Errors
    /// One sentence that tells the operator what to do.
    pub fn open(config: ServiceConfig) -> Result<(Arc<Self>, Closing), OpenError> {
        let at = |e: StoreError| OpenError::of(&config.db, &e);
        if config.upgrade {
            schema::upgrade(&config.db).map_err(at)?;
        }
        let source = config
            .ledger_key
            .clone()
            .unwrap_or_else(|| LedgerKeySource::File(key_file::default_path(config.db.file())));
        let guard_file = config
            .guard_file
            .clone()
            .unwrap_or_else(|| guard::default_path(source.path(), config.db.file()));
        let tried = try_for_new(&config, &source, &guard_file)?;
        let store = Store::open(&config.db, config.create).map_err(at)?;
        let guard = Guard::open(guard_file)?;
        let (key, made_key) = open_key(&store, &source, tried, &guard)
            .map_err(|why| format!("{}: {why}", config.db))?;
        let unguarded = unguarded(&store, &guard);
        let hold_off = match &config.db {
            Database::Postgres(_) if unguarded.is_some() => HOLD_OFF,
            _ => Duration::ZERO,
        };
        let log = Arc::new(Log::new(key, guard));
        if config.create {
            let warnings = private::warnings(&kept_files(&config.db, &source, &log));
            warnings.iter().for_each(|line| tracing::warn!("{line}"));
        }
        let seal = log.seal();
        let news = Arc::<Waiting<PartnerId>>::default();
        let packets = Arc::<Packets>::default();
        let storage = Arc::new(Storage::new(config.min_free_disk));
        storage.measured(store.free_bytes());
        let deps = WriterDeps {
            connect: Box::new({
                let store = store.clone();
                move || Ok(slowed(store.writer()?, config.commit_delay))
            }),
            hold_off,
            log: Arc::clone(&log),
            seal: seal.clone(),
            outbox: config.outbox.clone(),
            news: Arc::clone(&news),
            packets: Arc::clone(&packets),
            storage: Arc::clone(&storage),
            quota: config.quota,
            observer: Arc::clone(&config.batches),
        };
        let (inbox, thread) = writer::start(deps).map_err(at)?;
        let head = store.head().map_err(at)?;
        let followed = AtomicU64::new(head.as_ref().map_or(0, |head| head.head.size));
        storage.head_read(head.as_ref().and_then(|head| head.moved_to.as_deref()));
        let service = Self {
            presence: Presence::new(store.registry()),
            followed,
            store,
            inbox,
            seal,
            log,
            rolled_back: Mutex::new(false),
            storage,
            begun: made_key.map(|key| begun(&config.db, &key)),
            unguarded,
            database: config.db.to_string(),
            // `bookguard backup` copies files alone.
            backups: (config.backup_folder.clone())
                .filter(|_| config.db.file().is_some())
                .map(WatchedFolder::new),
            policy_cache: PolicyCache::default(),
            packets,
            upper_nodes: UpperNodes::default(),
            news,
            // The text of a key is not kept.
            config: ServiceConfig {
                ledger_key: None,
                ..config
            },
        };
        service.look_at_erasures()?;
        // A caller that only reads may be reading a backup, which lacks later entries.
        if service.config.create {
            if hold_off > Duration::ZERO {
                // So that no request waits for it. Whether it succeeds does not matter.
                let _ = service.submit_and_wait(service.envelope(ProbeStorage));
            }
            service.look_back();
        }
        Ok((Arc::new(service), Closing(thread)))
    }

    /// Reports at once if the database lacks published entries. Otherwise notes its head.
    fn look_back(&self) {
        let seen = self.log.guard().latest();
        let looked = self.store.reader().and_then(|conn| {
            let mut reader = Reader::new(conn, &self.seal, seen);
            let head = reader.head()?;
            if reader.publish(&self.log, &head)?.is_none()
                && let Some(unguarded) = self.unguarded()
            {
                tracing::warn!("{unguarded}");
            }
            Ok(())
        });
        // Damage is reported to whoever asks for the damaged data.
        if let Err(error) = looked {
            tracing::error!(
                "the ledger's head was not compared with what was last published: {error}"
            );
        }
    }
}

/// Tries the key and the guard of a database file that is made next, because one that cannot be used must not leave an empty file
/// behind. Returns the key, which a pipe gives only once; `None` if it is to be looked for once the file is there, because another
/// process may have begun the log meanwhile. Of a database that is there, its own faults are told first.
fn try_for_new(
    config: &ServiceConfig,
    source: &LedgerKeySource,
    guard_file: &Path,
) -> Result<Option<LedgerKey>, String> {
    let is_absent = |file: &Path| matches!(file.try_exists(), Ok(false));
    if !config.create || !config.db.file().is_some_and(is_absent) {
        return Ok(None);
    }
    let key = LedgerKey::find(source).map_err(|why| format!("{}: {why}", config.db))?;
    Guard::open(guard_file.to_owned()).map(|_| key)
}

fn unguarded(store: &Store, guard: &Guard) -> Option<String> {
    // Damage is reported to whoever asks for the damaged data.
    let head = store.head().ok().flatten();
    let head = head.filter(|head| head.head.size > 0 && head.lacking.is_empty())?;
    if guard.seen().is_some() {
        return None;
    }
    Some(format!(
        "no guard file was found: the database holds {} of log {}, and what was published after that is not known. {} is made \
         now, as for a new node. If the database was put back, or the guard was lost or is elsewhere (--guard-file), stop now and put \
         the guard file in its place; otherwise other entries are published under the same numbers",
        entries(head.head.size),
        head.origin,
        guard.path().display()
    ))
}

fn begun(db: &Database, key: &Path) -> String {
    let nodes = match db {
        Database::File(_) => "",
        Database::Postgres(_) => ", and give one to every other node before it starts",
    };
    format!(
        "began the ledger of {db} and made its key {}; keep a copy of it{nodes}",
        key.display()
    )
}

/// Finds the key of this log: the one that signed its head, or a new one for a new log. `tried` is what its source holds, if that
/// was read already. Also returns the key's file if it was made.
fn open_key(
    store: &Store,
    source: &LedgerKeySource,
    tried: Option<LedgerKey>,
    guard: &Guard,
) -> Result<(LedgerKey, Option<PathBuf>), String> {
    // Read the head first: whoever began the log had its key on disk before. The other way round, another process could
    // make the key and begin the log in between, and the key would seem to be missing.
    let head = begun_head(store)?;
    let found = match tried {
        Some(key) => Some(key),
        None => LedgerKey::find(source)?,
    };
    match (head, found) {
        (Some(head), Some(key)) => {
            // The key is the same under every name the log had.
            if key.is_of(&head.origin, &head.vkey)? {
                Ok((key, None))
            } else {
                Err(other_key(source, &head.origin))
            }
        }
        (Some(head), None) => Err(format!(
            "{source} is missing and the ledger (log {}) cannot continue without it; restore the file, or give this node a \
             copy of the key the log was begun with: its file with --ledger-key, or its text in BOOKGUARD_LEDGER_KEY",
            head.origin
        )),
        (None, Some(key)) => {
            // The key may have signed a log whose database is lost. A guard that knows it lets nothing be written here until the loss
            // is accepted. Without one, a log under a name never used before takes none of its numbers.
            let origin = match guard.latest() {
                Some(_) => key.origin.clone(),
                None => key_file::new_name(),
            };
            begin_log(store, source, &key, &origin)?;
            tracing::warn!(
                "the database was empty, so log {origin} begins at entry 0, with a key that was there before ({source}). If that key \
                 has signed another log, stop now and restore its database: this one does not continue it"
            );
            Ok((key, None))
        }
        (None, None) => begin_with_new_key(store, source),
    }
}

/// The head, unless a log is being moved to this database: until it has arrived, nothing is served here, and above all no
/// other log begins.
fn begun_head(store: &Store) -> Result<Option<StoredHead>, String> {
    let head = store.head().map_err(|e| e.to_string())?;
    match head.as_ref().and_then(StoredHead::arriving_from) {
        None => Ok(head),
        Some(from) => Err(format!(
            "the ledger of {from} is being moved to this database, and that has not ended. If no `bookguard transfer` runs any more, \
             run it again with the same --from and --to. To stay with {from}, run `bookguard transfer --reopen --from {from}` if that \
             database takes no writes, and delete this one"
        )),
    }
}

/// The files in which the service stores data.
fn kept_files(db: &Database, source: &LedgerKeySource, log: &Log) -> Vec<PathBuf> {
    let mut files = vec![
        log.guard().path().to_owned(),
        log.erasures().path().to_owned(),
    ];
    files.extend(source.path().map(Path::to_owned));
    files.extend(db.file().into_iter().flat_map(private::files_of_database));
    files
}

fn other_key(source: &LedgerKeySource, origin: &str) -> String {
    format!(
        "the ledger was signed with another key than {source} (log {origin}); give this node the key that was made with \
         this database: its file with --ledger-key, or its text in BOOKGUARD_LEDGER_KEY"
    )
}

/// Begins the log with a new key. The key is written to disk first, because a log whose key is lost cannot continue.
fn begin_with_new_key(
    store: &Store,
    source: &LedgerKeySource,
) -> Result<(LedgerKey, Option<PathBuf>), String> {
    let path = source
        .path()
        .ok_or("a key given as text is always there")?
        .to_owned();
    let key = LedgerKey::generate();
    if !key.save(&path)? {
        // Another process made one at the same moment, for the same log.
        let key =
            LedgerKey::load(&path)?.ok_or_else(|| format!("{source} was there and is gone"))?;
        return begin_log(store, source, &key, &key.origin).map(|()| (key, None));
    }
    begin_log(store, source, &key, &key.origin).inspect_err(|_| {
        // The new key is useless only if the log certainly has another key.
        let vkey = key.signer().map(|signer| signer.verifier().to_string());
        if let (Ok(Some(head)), Ok(vkey)) = (store.head(), vkey)
            && head.vkey != vkey
        {
            let _ = std::fs::remove_file(&path);
        }
    })?;
    Ok((key, Some(path)))
}

/// Begins a log under this name, unless another process has begun one with the same key.
fn begin_log(
    store: &Store,
    source: &LedgerKeySource,
    key: &LedgerKey,
    origin: &str,
) -> Result<(), String> {
    let signer = key.signer_as(origin)?;
    let checkpoint = Checkpoint::sign(&signer, 0, EMPTY_ROOT);
    let vkey = signer.verifier().to_string();
    store
        .begin_log(origin, &vkey, &checkpoint)
        .map_err(|e| e.to_string())?;
    // Another process may have begun it at the same moment, with the same key or another.
    match begun_head(store)? {
        Some(head) if key.is_of(&head.origin, &head.vkey)? => Ok(()),
        Some(head) => Err(other_key(source, &head.origin)),
        None => Err("the log was begun and is gone".to_owned()),
    }
}
