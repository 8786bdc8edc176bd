//! Backs up a database file into one file while others read and write it, for `bookguard backup`.
//!
//! The engine knows what to copy and how; this module handles the file, `check` verifies it, `folder` keeps the newest of
//! many, `watched` looks at it for a server, and `restore` puts one back, after `replaced` has learned from what was there. Invariants: under its name, the file appears whole, durable and readable only by its
//! owner, or not at all. Nothing that exists is overwritten.

mod check;
mod folder;
mod replaced;
mod restore;
mod watched;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Database;
use super::conn::StoreError;
use super::sqlite::{self, Use, with_end};
use crate::entropy;
use crate::error::Error;
use crate::ledger::Hash;
use crate::limits::{DISK_RESERVE, DRAFT_LEFT_OVER_S};
use crate::model::Timestamp;
use crate::private;
pub use check::BackupCheck;
use folder::newest_file;
pub use folder::{BackupFolder, KeptBackup, newest};
pub use restore::{Restored, forget_killed, restore};
pub use watched::WatchedFolder;

/// A finished backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    /// Bytes of the file.
    pub bytes: u64,
    /// The log's name.
    pub origin: String,
    /// Entries of the log.
    pub size: u64,
    /// The log's root.
    pub root: Hash,
    /// How long the backup took.
    pub elapsed: Duration,
}

/// Why nothing was backed up or restored. Nothing of it is left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupError {
    /// The request makes no sense: `file_exists`, `not_a_file`, `no_ledger`, `backup_running`, `same_database`,
    /// `wrong_ledger_key`, `ledger_moved`.
    Refused(Error),
    /// The file does not verify; the sentence says what is wrong with it.
    NotVerified(String),
    /// The copy was set aside, because the ledger key that checks it cannot be read.
    Unchecked(String),
    /// Something failed; the sentence names it.
    Failed(String),
}

/// Copies the database into `to`, which must not exist. The copy holds one moment: everything committed before it and
/// nothing that came later. It does not contain the ledger key. If it is made on the database's own disk, `reserve` bytes of that
/// stay free for the database. `progress` receives the pages copied and the total.
///
/// # Errors
/// As [`BackupError`] lists.
pub fn backup(
    database: &Database,
    to: &Path,
    reserve: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackedUp, BackupError> {
    backup_of((database, Use::Live), to, reserve, progress)
}

/// As [`backup`], of a database used so.
pub(super) fn backup_of(
    from: (&Database, Use),
    to: &Path,
    reserve: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackedUp, BackupError> {
    let began = Instant::now();
    let (draft, made) = copied(from, to, reserve, progress)?;
    draft.publish(to)?;
    forget_old(to);
    Ok(BackedUp {
        elapsed: began.elapsed(),
        ..made
    })
}

/// Copies the database into a draft of `to`.
fn copied(
    (database, used): (&Database, Use),
    to: &Path,
    reserve: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Draft, BackedUp), BackupError> {
    let from = file_of(database)?;
    if to.symlink_metadata().is_ok() {
        return Err(exists(to));
    }
    // On another disk, a full one harms nobody.
    let reserve = match private::share_disk(from, private::folder(to)) {
        true => reserve.max(DISK_RESERVE),
        false => 0,
    };
    require_room(from, to, reserve)?;
    draft_of((from, used), to, Draft::new, reserve, progress)
}

/// Fails unless the disk of `to` has room for a copy of a database, and for what must stay free beside it.
fn require_room(from: &Path, to: &Path, reserve: u64) -> Result<(), BackupError> {
    let free = sqlite::free_bytes(private::folder(to));
    room(sqlite::size(from), reserve, free).map_err(|why| BackupError::Failed(no_room(to, &why)))
}

/// Fails unless a disk with `free` bytes has room for a copy of `bytes`, and for the `reserve` that must stay free beside it.
pub(super) fn room(bytes: u64, reserve: u64, free: Option<u64>) -> Result<(), String> {
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    let Some(free) = free.filter(|free| *free < bytes.saturating_add(reserve)) else {
        return Ok(());
    };
    let beside = match reserve {
        0 => String::new(),
        _ => format!(", {} MiB must stay free for the database", mib(reserve)),
    };
    Err(format!(
        "the copy takes {} MiB{beside}, and {} MiB of the disk are free",
        mib(bytes),
        free / (1024 * 1024)
    ))
}

fn no_room(to: &Path, why: &str) -> String {
    format!(
        "there is no room for {}: {why}; free some space or name a file on another disk",
        to.display()
    )
}

/// The file of a database that is one.
fn file_of(database: &Database) -> Result<&Path, BackupError> {
    database.file().ok_or_else(|| {
        refused(
            "not_a_file",
            format!(
                "{database} is a PostgreSQL server, which makes and restores its own backups: use pg_dump and pg_restore for a \
                 copy of one moment, or continuous archiving for point-in-time recovery; the ledger key is in neither. Check \
                 what was restored with `bookguard ledger verify --backup`"
            ),
        )
    })
}

/// Copies one moment of a database file into a durable draft that `make` makes beside `to`, on whose disk `reserve` bytes stay free.
fn draft_of(
    (from, used): (&Path, Use),
    to: &Path,
    make: fn(&Path) -> io::Result<Draft>,
    reserve: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Draft, BackedUp), BackupError> {
    let cannot = |e: io::Error| cannot_write(to, &e);
    let found = from.metadata().map_err(|e| {
        BackupError::Failed(match e.kind() {
            io::ErrorKind::NotFound => format!("there is no database at {}", from.display()),
            _ => format!("{} cannot be read: {e}", from.display()),
        })
    })?;
    if found.is_dir() {
        return Err(folder_given(from));
    }
    if found.len() == 0 {
        return Err(no_ledger(from));
    }
    let draft = make(to).map_err(cannot)?;
    let head = sqlite::copy_into((from, used), &draft.0, reserve, progress).map_err(|e| match e {
        sqlite::CopyError::NoRoom => BackupError::Failed(no_room(
            to,
            "less of the disk was left than must stay free for the database, and the partial file was removed",
        )),
        sqlite::CopyError::From(StoreError::Corrupt(what)) if used == Use::Still => {
            BackupError::Failed(format!(
                "{} is not a sound backup: {what}; name another one",
                from.display()
            ))
        }
        sqlite::CopyError::From(e) => BackupError::Failed(format!("{}: {e}", from.display())),
        sqlite::CopyError::Into(e) => cannot_keep(to, &e),
    })?;
    let head = head.ok_or_else(|| no_ledger(from))?;
    let file = File::open(&draft.0).map_err(cannot)?;
    file.sync_all().map_err(cannot)?;
    let made = BackedUp {
        bytes: file.metadata().map_err(cannot)?.len(),
        origin: head.origin,
        size: head.head.size,
        root: head.head.root,
        elapsed: Duration::ZERO,
    };
    Ok((draft, made))
}

fn no_ledger(file: &Path) -> BackupError {
    refused(
        "no_ledger",
        format!(
            "{} has no ledger yet; there is nothing to back up",
            file.display()
        ),
    )
}

fn folder_given(path: &Path) -> BackupError {
    let way_out = match newest_file(path) {
        Some(backup) => format!("its newest backup is {}", backup.display()),
        None => format!("name a file in it: `ls {}` lists them", path.display()),
    };
    refused(
        "not_a_file",
        format!("{} is a folder; {way_out}", path.display()),
    )
}

fn refused(code: &'static str, message: String) -> BackupError {
    BackupError::Refused(Error::conflict(code, message))
}

fn exists(to: &Path) -> BackupError {
    let way_out = if to.is_dir() {
        "name a new file, or add --keep for a folder of verified backups"
    } else {
        "name a new file"
    };
    refused(
        "file_exists",
        format!(
            "{} already exists and was not touched; {way_out}",
            to.display()
        ),
    )
}

fn cannot_write(to: &Path, error: &io::Error) -> BackupError {
    BackupError::Failed(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the folder of {} does not exist; make it first",
            to.display()
        ),
        io::ErrorKind::PermissionDenied => format!(
            "this user may not write {} or its folder; work as the user that the server runs as, or let this one write there",
            to.display()
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(to),
        _ => format!("{} cannot be written: {error}", to.display()),
    })
}

fn cannot_keep(to: &Path, error: &StoreError) -> BackupError {
    BackupError::Failed(match error {
        StoreError::Full => full(to),
        error => format!("{} cannot be written: {error}", to.display()),
    })
}

fn full(to: &Path) -> String {
    format!(
        "there is no room for {}: the disk is full; free some space or name a file on another disk. The partial file was \
         removed",
        to.display()
    )
}

/// The characters of what is random in a draft's name.
const DRAFT_CHARS: usize = 12;

/// The drafts that this process makes.
static DRAFTS: Mutex<Drafts> = Mutex::new(Drafts {
    paths: Vec::new(),
    is_named: false,
    is_given_up: false,
});

struct Drafts {
    paths: Vec<PathBuf>,
    /// Whether the last one has got its name.
    is_named: bool,
    is_given_up: bool,
}

impl Drafts {
    /// The drafts, if they were not given up. While they are held, nobody gives them up.
    fn held() -> io::Result<MutexGuard<'static, Self>> {
        let drafts = Self::known();
        match drafts.is_given_up {
            true => Err(io::Error::other("this process was told to end")),
            false => Ok(drafts),
        }
    }

    fn known() -> MutexGuard<'static, Self> {
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives up what this process backs up or restores, for a process that was told to end: removes the drafts, and no draft gets
/// a name any more. One that is getting its name gets it first. Returns whether the last one has none.
#[must_use]
pub fn give_up() -> bool {
    let mut drafts = Drafts::known();
    drafts.is_given_up = true;
    drafts.paths.iter().for_each(|path| remove(path));
    !drafts.is_named
}

/// Removes a draft, with what an upgrade of it keeps beside it.
pub(super) fn remove(draft: &Path) {
    for end in [""].into_iter().chain(sqlite::BESIDE) {
        let _ = fs::remove_file(with_end(draft, end));
    }
}

/// The drafts of this file, whoever made them.
fn drafts_of(file: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(private::folder(file));
    let drafts = entries.into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        let of = name.to_str().and_then(Draft::finished);
        of.map(AsRef::as_ref) == file.file_name()
    });
    drafts.map(|entry| entry.path()).collect()
}

/// Removes the drafts of killed backups into this file. Another process may be making one, so only its age tells.
fn forget_old(file: &Path) {
    let written = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    // The clock of the disk, which may be another machine's.
    let now = written(file);
    let is_left_over = |draft: &PathBuf| {
        let silent = now.zip(written(draft));
        let silent = silent.and_then(|(now, then)| now.duration_since(then).ok());
        silent.is_some_and(|silent| silent.as_secs() > DRAFT_LEFT_OVER_S)
    };
    let drafts = drafts_of(file).into_iter().filter(is_left_over);
    drafts.for_each(|draft| remove(&draft));
}

/// The file while it is being made, beside its final place. It is removed unless it gets another name.
struct Draft(PathBuf);

impl Draft {
    /// A draft of a new file.
    fn new(to: &Path) -> io::Result<Self> {
        Self::make(to).map(|(draft, _)| draft)
    }

    /// A draft of what replaces a file, whose owner it gets if the file is there.
    fn replacing(to: &Path) -> io::Result<Self> {
        let (draft, new) = Self::make(to)?;
        private::hand_over(&new, to);
        Ok(draft)
    }

    fn make(to: &Path) -> io::Result<(Self, File)> {
        let path = Self::name(to);
        let mut drafts = Drafts::held()?;
        let mut options = private::options();
        let new = options.write(true).create_new(true).open(&path)?;
        drafts.paths.push(path.clone());
        drafts.is_named = false;
        Ok((Self(path), new))
    }

    /// A name for a new draft of this file.
    fn name(to: &Path) -> PathBuf {
        let random = hex::encode(entropy::bytes::<{ DRAFT_CHARS / 2 }>());
        with_end(to, &format!(".{random}.part"))
    }

    /// The name for which this is the name of a draft, if it is one.
    fn finished(name: &str) -> Option<&str> {
        let (name, random) = name.strip_suffix(".part")?.rsplit_once('.')?;
        let is_random =
            random.len() == DRAFT_CHARS && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_random.then_some(name)
    }

    /// Gives the file its name, without replacing another file, and makes the name durable.
    fn publish(self, to: &Path) -> Result<(), BackupError> {
        let published = (|| {
            let mut drafts = Drafts::held()?;
            private::publish(&self.0, to)?;
            drafts.is_named = true;
            private::sync(private::folder(to))
        })();
        published.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => exists(to),
            _ => cannot_write(to, &e),
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let mut drafts = Drafts::known();
        drafts.paths.retain(|path| *path != self.0);
        // Gone already if it was renamed.
        remove(&self.0);
    }
}

/// A time as part of a file's name. Such names sort by time.
pub(super) fn in_name(at: Timestamp) -> String {
    at.to_string().replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_file::LedgerKey;
    use crate::ledger::{Checkpoint, hash::EMPTY_ROOT};
    use crate::store::Store;

    #[test]
    fn a_copy_needs_as_much_room_as_the_database_and_what_must_stay_free() {
        let mib = 1024 * 1024;
        assert_eq!(room(5 * mib, 2 * mib, None), Ok(()));
        assert_eq!(room(5 * mib, 2 * mib, Some(7 * mib)), Ok(()));
        assert_eq!(room(5 * mib, 0, Some(5 * mib)), Ok(()));
        for (reserve, free, said) in [
            (
                2 * mib,
                7 * mib - 1,
                "takes 5 MiB, 2 MiB must stay free for the database, and 6 MiB of",
            ),
            (0, 3 * mib, "takes 5 MiB, and 3 MiB of the disk are free"),
            (u64::MAX, 9 * mib, "and 9 MiB of"),
        ] {
            let refused = room(5 * mib, reserve, Some(free)).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_backup_leaves_the_database_on_the_same_disk_its_room() {
        let folder = tempfile::tempdir().unwrap();
        let (db, to) = (folder.path().join("b.db"), folder.path().join("copy.db"));
        let database = Database::from(db.as_path());
        let store = Store::open(&database, true).unwrap();
        let key = LedgerKey::generate();
        let signer = key.signer().unwrap();
        let checkpoint = Checkpoint::sign(&signer, 0, EMPTY_ROOT);
        store
            .begin_log(&key.origin, &signer.verifier().to_string(), &checkpoint)
            .unwrap();
        let why = |made: Result<BackedUp, BackupError>| match made {
            Err(BackupError::Failed(why)) => why,
            other => panic!("{other:?}"),
        };
        let refused = why(backup(&database, &to, u64::MAX, &mut |_, _| {}));
        assert!(refused.contains("must stay free"), "{refused}");
        // Somebody else uses up the disk meanwhile.
        let made = draft_of((&db, Use::Live), &to, Draft::new, u64::MAX, &mut |_, _| {});
        let refused = why(made.map(|(_, made)| made));
        assert!(refused.contains("partial file was removed"), "{refused}");
        let left = fs::read_dir(folder.path()).unwrap();
        let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
        let of_backup = |name: &std::ffi::OsString| name.to_string_lossy().contains("copy");
        assert!(!left.iter().any(of_backup), "{left:?}");
        backup(&database, &to, 0, &mut |_, _| {}).unwrap();
    }
}
