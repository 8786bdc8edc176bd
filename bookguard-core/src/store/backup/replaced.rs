//! What the database that a backup replaces proves: the head that it holds was published, and what its ledger says was erased
//! stays erased.
//!
//! The guard's file and the list of erasures may be older than that database, or lost. So they learn from it before it is put
//! aside, while nobody else can write it. A database that cannot be read, or that is another ledger's, proves nothing.

use std::path::Path;

use super::{BackupError, refused};
use crate::guard::Guard;
use crate::ledger::Checkpoint;
use crate::ledger::rollback::PublishedHead;
use crate::log::Log;
use crate::store::conn::{Conn, StoreError};
use crate::store::files::{ListError, list_erasures};
use crate::store::{Store, StoredHead, head, head_of_any_schema};

/// What was learned from the replaced database.
#[derive(Default)]
pub(super) struct Learned {
    /// Why guard and list did not learn, if the database is the reason.
    pub uncompared: Option<String>,
    /// The heads that it was noted to lack, of those that the backup lacks too.
    pub lacking: Vec<PublishedHead>,
}

impl From<String> for Learned {
    fn from(why: String) -> Self {
        Self {
            uncompared: Some(why),
            lacking: Vec::new(),
        }
    }
}

/// Why guard and list did not learn.
enum Trouble {
    /// The database cannot be read.
    Unread(StoreError),
    /// The guard or the list cannot be read or written.
    Unkept(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Unread(error)
    }
}

impl From<ListError> for Trouble {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Ledger(error) => Self::Unread(error),
            ListError::List(why) => Self::Unkept(why),
        }
    }
}

/// Has guard and list learn from the database at `place`, which `backup` replaces.
///
/// # Errors
/// `ledger_moved`; [`BackupError::Failed`] if the guard or the list cannot be read or written.
pub(super) fn remember(
    conn: &mut dyn Conn,
    place: &Path,
    log: &Log,
    backup: &Store,
) -> Result<Learned, BackupError> {
    let stored = match own_head(conn, log) {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok("it holds no ledger".to_owned().into()),
        Err(why) => return Ok(why.into()),
    };
    if let Some(from) = stored.arriving_from() {
        let place = place.display();
        return Err(refused(
            "ledger_moved",
            format!(
                "the move of the ledger of {from} into {place} has not ended. Run that transfer again; or restore where the ledger \
                 is, after `bookguard transfer --reopen --from {from}`"
            ),
        ));
    }
    if let Some(to) = &stored.moved_to {
        let place = place.display();
        return Err(refused(
            "ledger_moved",
            format!(
                "the ledger of {place} was moved to {to} and continues there, so that a backup in its place would give it a \
                 second history. Serve {to}; to continue here, take the move back first: `bookguard transfer --reopen --from \
                 {place}`"
            ),
        ));
    }
    match learn(conn, log, &stored, backup) {
        Ok(uncompared) => {
            let noted = stored.lacking.into_iter();
            let lacking = noted.filter(|noted| lacks(backup, log, noted)).collect();
            Ok(Learned {
                uncompared,
                lacking,
            })
        }
        Err(Trouble::Unread(error)) => Ok(error.to_string().into()),
        Err(Trouble::Unkept(why)) => Err(BackupError::Failed(format!(
            "{} was not replaced: {why}",
            place.display()
        ))),
    }
}

/// The head of this log in a database, if there is one; an error says why it is not known.
fn own_head(conn: &mut dyn Conn, log: &Log) -> Result<Option<StoredHead>, String> {
    let Some(stored) = begun(conn).map_err(|e| e.to_string())? else {
        return Ok(None);
    };
    let signer = log.signer(&stored.origin)?;
    match signer.verifier().to_string() == stored.vkey {
        true => Ok(Some(stored)),
        false => Err(format!(
            "it holds another ledger (log {}), which this key did not sign",
            stored.origin
        )),
    }
}

/// The head in a file, which may be empty.
fn begun(conn: &mut dyn Conn) -> Result<Option<StoredHead>, StoreError> {
    let sql = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'head'";
    match conn.count(sql, vec![])? {
        0 => Ok(None),
        _ => head_of_any_schema(conn),
    }
}

/// Adds to guard and list what they lack of the database. Returns how it contradicts what the guard knows, if it does.
fn learn(
    conn: &mut dyn Conn,
    log: &Log,
    stored: &StoredHead,
    backup: &Store,
) -> Result<Option<String>, Trouble> {
    let signer = (log.signer(&stored.origin)).map_err(StoreError::Corrupt)?;
    let signed = Checkpoint::open(&stored.checkpoint, signer.verifier());
    if !signed.is_ok_and(|said| (said.size, said.root) == (stored.head.size, stored.head.root)) {
        return Ok(Some("its head is not the one that was signed".to_owned()));
    }
    let erasures = log.erasures();
    erasures.last().map_err(Trouble::Unkept)?;
    let looked = log.look_at_erasures(conn);
    looked.map_err(|why| Trouble::Unread(StoreError::Failed(why)))?;
    // Other nodes noted there what they saw published. A note about a log other than the guard's stays a note.
    for lacking in &stored.lacking {
        note(log, None, lacking.clone()).map_err(Trouble::Unkept)?;
    }
    let seen = log.guard().latest();
    let rollback = log.check_seen(conn, None, seen.as_deref(), stored)?;
    if rollback.is_none() {
        log.guard().say(&stored.origin, None);
    }
    let is_of_the_log = rollback.as_ref().is_none_or(|it| it.cause.is_earlier());
    // A list whose last erasure the database lacks must not end with one that it has.
    if is_of_the_log && !erasures.is_owed() {
        while list_erasures(conn, erasures)? {}
    }
    if let Some(rollback) = rollback {
        return Ok((!is_of_the_log).then(|| rollback.to_string()));
    }
    // A guard that was lost, or put back, may have known of more. One that learned from the database would say that nothing is lost.
    if lacks(backup, log, &stored.seen()) {
        note(log, seen.as_deref(), stored.seen()).map_err(Trouble::Unkept)?;
    }
    Ok(None)
}

/// Whether the backup lacks what this head has. If it cannot be read, it does.
fn lacks(backup: &Store, log: &Log, seen: &PublishedHead) -> bool {
    let rollback = || -> Result<bool, StoreError> {
        let mut conn = backup.reader()?;
        match head(&mut *conn)? {
            Some(stored) => Ok(log
                .check_seen(&mut *conn, None, Some(seen), &stored)?
                .is_some()),
            None => Ok(true),
        }
    };
    rollback().unwrap_or(true)
}

/// Has the guard remember that nobody knows what was published after a backup of `size` entries: nothing is written to it until
/// somebody decides.
///
/// # Errors
/// [`BackupError::Failed`] if the guard cannot be written.
pub(super) fn require_decision(log: &Log, origin: &str, size: u64) -> Result<(), BackupError> {
    let seen = log.guard().latest();
    let unknown = PublishedHead::at_least(origin, size);
    note(log, seen.as_deref(), unknown).map_err(BackupError::Failed)
}

/// Notes a head that continues `seen`, durably.
fn note(log: &Log, seen: Option<&PublishedHead>, head: PublishedHead) -> Result<(), String> {
    let guard = log.guard();
    log.note(seen, head);
    guard.sync();
    // It goes on without a file that it cannot write, and this command is its only process.
    match Guard::open(guard.path().to_owned())?.seen() == guard.seen() {
        true => Ok(()),
        false => Err(format!(
            "the guard file {} cannot be written, and nothing else would know what the backup lacks; let this user write it, or \
             name another with --guard-file",
            guard.path().display()
        )),
    }
}
