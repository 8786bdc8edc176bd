//! Moves a whole database to another place, between any two engines, for `bookguard transfer`.
//!
//! A transfer begins with a last entry of the log in its old place, a map of it: a backup from before lacks that entry, so that
//! nobody takes the backup for the log. From before that entry until the end, no backup begins. Then the transfer takes the write
//! turns of both databases and holds them to the end, so that nothing changes meanwhile. The target is durably marked as one into
//! which this log is being moved (`arriving`), so that nobody begins another log there. All rows go into one transaction of the
//! target: until it commits, the target holds only the mark, and a transfer that failed or was killed can be started again.
//!
//! Two databases must never continue the same log. So the source is durably marked as moved before the target commits. Between the
//! two there is a moment in which neither database can be written, and never one in which both can. If the commit fails and the
//! target is certainly empty, the source's mark is removed again. If a killed transfer left the source marked, the next transfer to
//! the same place accepts the mark. Otherwise an operator removes it ([`reopen`]), which is possible only if nothing was written in
//! the other place.

mod arriving;
mod back;
mod copy;
mod table;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::conn::{Conn, Statement, StoreError, args};
use super::{Database, Store, StoredHead, head, schema};
use crate::error::Error;
use crate::ledger::Hash;
use crate::ledger::rollback::{PublishedHead, Rollback};
use crate::log::Log;
use crate::private;
use arriving::{Vacancy, announce, held, require_no_rows, vacancy, withdraw};
pub use back::{Reopened, reopen};
use table::TABLES;

/// A finished transfer. The log continues in its new place under the same name and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transferred {
    /// The log's name.
    pub origin: String,
    /// Entries of the log.
    pub size: u64,
    /// The log's root.
    pub root: Hash,
    /// The number of rows of every table, the same in both databases.
    pub tables: Vec<(&'static str, u64)>,
    /// Whether an earlier transfer to the same place had already marked the source.
    pub again: bool,
    /// How long the transfer took.
    pub elapsed: Duration,
}

impl Transferred {
    /// The number of rows of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }

    /// Rows copied and compared per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn rows_per_second(&self) -> f64 {
        self.rows() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Why nothing was moved. Unless the error says otherwise, both databases are unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferError {
    /// The request makes no sense for these two databases: `same_database`, `hard_linked`, `nothing_to_move`,
    /// `wrong_ledger_key`, `ledger_moved`, `ledger_rolled_back`, `not_moved`, `other_target`, `schema_older`,
    /// `target_not_empty`, `target_not_seen`, `target_written`.
    Refused(Error),
    /// The source is damaged, or the copy differs from the source.
    NotVerified(String),
    /// A database failed; the sentence names it.
    Failed(String),
}

/// The log of a source whose write turn was taken.
#[derive(Debug)]
struct Departing {
    stored: StoredHead,
    /// The head last seen of the log, which the stored head continues.
    seen: Option<Arc<PublishedHead>>,
}

/// What was copied over two connections.
#[derive(Debug)]
struct CopiedTables {
    departing: Departing,
    tables: Vec<(&'static str, u64)>,
}

/// What both ends of a transfer need.
struct TransferJob<'a> {
    log: &'a Log,
    /// What the target's mark calls the source.
    from: &'a str,
    /// What the source's mark calls the target.
    place: &'a str,
}

/// A [`TransferError`] where only the two connections are known, not the databases' addresses.
#[derive(Debug)]
enum Trouble {
    Source(StoreError),
    Target(StoreError),
    /// The target is not empty.
    NotEmpty(String),
    /// The source was moved there while this transfer waited for its write turn.
    Moved(String),
    /// The source has lost entries that were published.
    RolledBack(Box<Rollback>),
    /// The source contradicts itself.
    Damaged(String),
    /// The copy differs from the source.
    Differs(String),
    /// The source may or may not be marked as moved.
    Marking(StoreError),
    /// The source is marked, and it is unknown whether the target has everything or nothing.
    Committing(StoreError),
}

/// Moves everything from `from` to `to`, which must be empty. Both may be in use: anyone who wants to write waits and
/// is told that the database is busy. `log` holds the log's key and what this node saw of the log; neither is stored in
/// a database. `record_last` records the last entry that the log gets in its old place, as `features::epochs` does. `progress`
/// receives the rows done and the total; each row counts once when it is copied and once when it is compared.
///
/// # Errors
/// As [`TransferError`] lists.
pub fn transfer(
    from: &Database,
    to: &Database,
    log: &Log,
    record_last: &mut dyn FnMut() -> Result<(), String>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Transferred, TransferError> {
    let began = Instant::now();
    if same(from, to) {
        return Err(refused(
            "same_database",
            format!("{from} is both source and target; name an empty database as the target"),
        ));
    }
    let source = open_known(from, false).map_err(|e| failed(from, &e))?;
    let (here, there) = (place(from), place(to));
    let errand = TransferJob {
        log,
        from: &here,
        place: &there,
    };
    let looked = source.head().map_err(|e| failed(from, &e))?;
    let looked = may_go(looked, from, &errand)?;
    let again = looked.moved_to.is_some();
    let explained = |trouble| explain(trouble, from, to);
    let open_target = || {
        open_known(to, true).map_err(|e| match e {
            StoreError::Older { .. } | StoreError::HardLinked(_) => failed(to, &e),
            e => explained(Trouble::Target(e)),
        })
    };
    // Before any wait for a turn, so that the common mistake is reported at once.
    let tables = schema::look(to).map_err(|e| explained(Trouble::Target(e)))?;
    let found = match tables {
        None => Vacancy::Nothing,
        Some(_) => {
            let target = open_target()?.reader();
            let mut target = target.map_err(|e| explained(Trouble::Target(e)))?;
            let found = vacancy(&mut *target, &errand, &looked.vkey);
            found.map_err(|trouble| match trouble {
                Trouble::NotEmpty(_) if again && !holds_log(&mut *target, &looked.vkey) => {
                    gone(from, to, "which holds something else now")
                }
                Trouble::NotEmpty(held) if again => arrived_before(from, to, &held),
                trouble => explained(trouble),
            })?
        }
    };
    // The target of a move that did not end is marked. One that is not had everything, and was lost with what was written there.
    if again && found != Vacancy::Mark {
        return Err(gone(from, to, "which is empty now"));
    }
    // Until the source is marked: a backup that has the last entry and no mark would pass for the log in its old place.
    let _held = source.hold_backups().map_err(|e| failed(from, &e))?;
    let recorded = record_last();
    let mut source = source.mover().map_err(|e| failed(from, &e))?;
    // If the log may not go, that says why better.
    let departing = set_out(&mut *source, &errand).map_err(explained)?;
    recorded.map_err(|why| TransferError::Failed(format!("{from}: {why} Nothing was moved")))?;
    // Made only now, so that a transfer that is refused leaves nothing behind.
    let made = to.file().filter(|file| !file.exists());
    let store = open_target()?;
    let mut target = store.mover().map_err(|e| failed(to, &e))?;
    let carried = carry(&mut *source, &mut *target, &errand, departing, progress);
    let CopiedTables {
        departing: Departing { stored, seen },
        tables,
    } = match carried {
        Ok(carried) => carried,
        Err(trouble) => {
            // The remains are in nobody's way: the same command goes on from them. While the source may be marked, the
            // target must stay so.
            if !matches!(trouble, Trouble::Marking(_) | Trouble::Committing(_)) {
                let _ = withdraw(&mut *source, (target, store), &errand, made);
            }
            return Err(explained(trouble));
        }
    };
    // Each file is whole without its write-ahead log: somebody may copy it now, or look at it alone.
    for end in [&mut target, &mut source] {
        let _ = end.scrub();
    }
    // A database restored in the new place later is checked against this.
    log.note(seen.as_deref(), stored.seen());
    log.guard().sync();
    Ok(Transferred {
        origin: stored.origin,
        size: stored.head.size,
        root: stored.head.root,
        tables,
        again,
        elapsed: began.elapsed(),
    })
}

/// Copies everything from `from`, which stays in use and as it is, to `to`, which must be empty. The log must not be served from
/// the copy: both would continue it.
///
/// # Errors
/// As [`TransferError`] lists.
pub fn copy_into(
    from: &Database,
    to: &Database,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), TransferError> {
    let source = open_known(from, false).map_err(|e| failed(from, &e))?;
    let target = open_known(to, true).map_err(|e| failed(to, &e))?;
    // One snapshot, which holds up nobody.
    let mut source = source.checker().map_err(|e| failed(from, &e))?;
    let mut target = target.mover().map_err(|e| failed(to, &e))?;
    let (source, target) = (&mut *source, &mut *target);
    let mut copied = || {
        source.begin(&[]).map_err(Trouble::Source)?;
        let stored = head(source).map_err(Trouble::Source)?;
        let stored =
            stored.ok_or_else(|| Trouble::Damaged("the log's head is missing".to_owned()))?;
        target.begin(&[]).map_err(Trouble::Target)?;
        require_empty(target)?;
        copy::copy(source, target, stored.head, progress)?;
        target.commit(&[]).map_err(Trouble::Target)
    };
    let copied = copied();
    source.rollback();
    copied.map(drop).map_err(|trouble| {
        target.rollback();
        explain(trouble, from, to)
    })
}

/// The place that a database's log was moved to; `None` if the log is in use here.
///
/// # Errors
/// [`TransferError::Failed`].
pub fn moved_to(database: &Database) -> Result<Option<String>, TransferError> {
    let stored = Store::open(database, false).and_then(|store| store.head());
    let stored = stored.map_err(|e| failed(database, &e))?;
    let stored = stored.filter(|head| head.arriving_from().is_none());
    Ok(stored.and_then(|head| head.moved_to))
}

/// Checks whether the log of `from` may be moved to `place` with this key. It may be marked as moved there already.
fn may_go(
    stored: Option<StoredHead>,
    from: &Database,
    errand: &TransferJob<'_>,
) -> Result<StoredHead, TransferError> {
    let Some(stored) = stored else {
        return Err(refused(
            "nothing_to_move",
            format!(
                "{from} has no ledger yet: there is nothing to move, serve the other database right away"
            ),
        ));
    };
    if let Some(before) = stored.arriving_from() {
        return Err(refused(
            "nothing_to_move",
            format!(
                "{from} has no ledger yet: the move of that of {before} into it has not ended. Run that transfer again, or move \
                 {before} itself"
            ),
        ));
    }
    let signer = (errand.log.signer(&stored.origin))
        .map_err(|why| failed(from, &StoreError::Corrupt(why)))?;
    if signer.verifier().to_string() != stored.vkey {
        return Err(refused(
            "wrong_ledger_key",
            format!(
                "the ledger of {from} (log {}) was signed with a key other than the one given, and cannot continue without its \
                 own; give the key made with it as --ledger-key",
                stored.origin
            ),
        ));
    }
    match stored.moved_to.as_deref().filter(|to| *to != errand.place) {
        None => Ok(stored),
        Some(before) => Err(moved_elsewhere(from, before)),
    }
}

/// Whether this database holds the log with this key, under whatever name.
fn holds_log(conn: &mut dyn Conn, vkey: &str) -> bool {
    let found = head(conn).ok().flatten();
    found.is_some_and(|found| found.has_key_of(vkey))
}

fn gone(from: &Database, to: &Database, found: &str) -> TransferError {
    refused(
        "target_not_seen",
        format!(
            "the ledger of {from} was moved to {to}, {found}, and it is not known whether anything was written there. Bring back the \
             database that was there. If it is gone for good, `bookguard transfer --reopen --risk-two-histories --from {from}` opens \
             {from} again: if anything was written there, one ledger has two histories"
        ),
    )
}

fn arrived_before(from: &Database, to: &Database, held: &str) -> TransferError {
    refused(
        "target_not_empty",
        format!(
            "the ledger of {from} was moved to {to} before, and {held}. There is nothing left to move: serve {to}"
        ),
    )
}

fn moved_elsewhere(from: &Database, before: &str) -> TransferError {
    refused(
        "ledger_moved",
        format!(
            "the ledger of {from} was moved to {before} and continues there: move that one. If that move failed, undo it \
             first: `bookguard transfer --reopen --from {from}`"
        ),
    )
}

/// Copies everything from one connection, whose write turn was taken ([`set_out`]), to the other, until both transactions end.
fn carry(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    errand: &TransferJob<'_>,
    departing: Departing,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CopiedTables, Trouble> {
    let carried = copied(source, target, errand, departing, progress).and_then(|carried| {
        source
            .commit(&[mark(Some(errand.place))])
            .map_err(Trouble::Marking)?;
        match target.commit(&[]) {
            Ok(_) => Ok(carried),
            Err(error) => settle(source, target, errand, error, carried),
        }
    });
    if carried.is_err() {
        target.rollback();
        source.rollback();
    }
    carried
}

/// Finds out what became of a failed commit of the target. If the target is certainly empty, the mark is removed again.
fn settle(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    errand: &TransferJob<'_>,
    error: StoreError,
    carried: CopiedTables,
) -> Result<CopiedTables, Trouble> {
    target.rollback();
    let stored = &carried.departing.stored;
    match arrived(target, stored) {
        Ok(true) => Ok(carried),
        Ok(false) => Err(match unmark(source, target, errand, stored) {
            Ok(true) => Trouble::Target(error),
            Ok(false) | Err(_) => Trouble::Committing(error),
        }),
        Err(_) => Err(Trouble::Committing(error)),
    }
}

/// Removes this transfer's mark and returns whether it did. Another transfer may have moved the log meanwhile. Under
/// the source's write turn none can any more, so what is found then holds. On a disk that fails, a commit that failed may
/// be found again later. A further one of the target, made durable first, takes its place.
fn unmark(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    errand: &TransferJob<'_>,
    stored: &StoredHead,
) -> Result<bool, StoreError> {
    source.begin(&[])?;
    let marked = head(source)?.and_then(|head| head.moved_to);
    if marked.as_deref() != Some(errand.place) || arrived(target, stored)? || !keeps_out(target)? {
        source.rollback();
        return Ok(false);
    }
    source.commit(&[mark(None)]).map(|_| true)
}

/// Writes the target's mark once more, durably, if it is there.
fn keeps_out(target: &mut dyn Conn) -> Result<bool, StoreError> {
    target.begin(&[])?;
    let found = head(target)?;
    let Some(from) = found.as_ref().and_then(StoredHead::arriving_from) else {
        target.rollback();
        return Ok(false);
    };
    // SQLite writes nothing for an update that changes nothing.
    let written = target.run(&[mark(None), mark(Some(from))]);
    let kept = written.and_then(|_| target.commit(&[]));
    if kept.is_err() {
        target.rollback();
    }
    kept.map(|_| true)
}

/// Whether the head has arrived. A transaction that was lost from sight, and may still commit, has replaced the mark.
/// Taking the write turn waits for that transaction to end. If there is no mark, a second insert of the head waits for the first
/// transaction to end, and succeeds only if that one was undone.
fn arrived(target: &mut dyn Conn, stored: &StoredHead) -> Result<bool, StoreError> {
    let mut found = look(target)?;
    if found.is_none() {
        target.begin(&[])?;
        let written = target.run(&[Statement::new(
            "INSERT INTO head (id, origin, vkey, size, root, checkpoint) VALUES (1, '', '', 0, $1, '')",
            args![stored.head.root.as_bytes()],
        )]);
        target.rollback();
        let Err(error) = written else {
            return Ok(false);
        };
        // Most likely the first transaction was committed meanwhile.
        found = look(target)?;
        if found.is_none() {
            return Err(error);
        }
    }
    match found {
        Some(found) if found.vkey != stored.vkey => Err(StoreError::HeadMoved),
        Some(found) if found.arriving_from().is_some() => Ok(false),
        Some(found) if found.head == stored.head => Ok(true),
        _ => Err(StoreError::HeadMoved),
    }
}

fn look(conn: &mut dyn Conn) -> Result<Option<StoredHead>, StoreError> {
    conn.begin(&[])?;
    let found = head(conn);
    conn.rollback();
    found
}

/// Takes the source's write turn, and keeps it if the log may go.
fn set_out(source: &mut dyn Conn, errand: &TransferJob<'_>) -> Result<Departing, Trouble> {
    let seen = errand.log.guard().latest();
    source.begin(&[]).map_err(Trouble::Source)?;
    let departing = departing(source, errand, seen);
    if departing.is_err() {
        source.rollback();
    }
    departing
}

fn departing(
    source: &mut dyn Conn,
    errand: &TransferJob<'_>,
    seen: Option<Arc<PublishedHead>>,
) -> Result<Departing, Trouble> {
    let stored = head(source).map_err(Trouble::Source)?;
    let stored = stored.ok_or_else(|| Trouble::Damaged("the log's head is missing".to_owned()))?;
    let to = stored.moved_to.as_ref();
    if let Some(before) = to.filter(|to| *to != errand.place || stored.arriving_from().is_some()) {
        return Err(Trouble::Moved(before.clone()));
    }
    let rollback = (errand.log).check(source, None, seen.as_deref(), &stored);
    match rollback.map_err(Trouble::Source)? {
        Some(rollback) => Err(Trouble::RolledBack(Box::new(rollback))),
        None => Ok(Departing { stored, seen }),
    }
}

/// Marks the target, takes its write turn, copies and compares.
fn copied(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    errand: &TransferJob<'_>,
    departing: Departing,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CopiedTables, Trouble> {
    announce(target, errand, &departing.stored)?;
    let tables = copy::copy(source, target, departing.stored.head, progress)?;
    Ok(CopiedTables { departing, tables })
}

fn require_empty(conn: &mut dyn Conn) -> Result<(), Trouble> {
    match head(conn).map_err(Trouble::Target)? {
        Some(found) => Err(Trouble::NotEmpty(held(&found))),
        None => require_no_rows(conn),
    }
}

/// Marks the head as moved to a place, or with `None` as in use here.
fn mark(place: Option<&str>) -> Statement<'_> {
    Statement::new("UPDATE head SET moved_to = $1 WHERE id = 1", args![place])
}

/// The name of a database in the mark: the same wherever the program is started, and without a password.
fn place(database: &Database) -> String {
    match database.file() {
        Some(path) => resolved(path).display().to_string(),
        None => database.to_string(),
    }
}

fn same(a: &Database, b: &Database) -> bool {
    match (a.file(), b.file()) {
        (Some(a), Some(b)) => resolved(a) == resolved(b),
        _ => a == b,
    }
}

/// The path without links and detours, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = private::resolved(path);
    std::path::absolute(&path).unwrap_or(path)
}

fn refused(code: &'static str, message: String) -> TransferError {
    TransferError::Refused(Error::conflict(code, message))
}

/// Opens a database, all of whose tables and columns this program knows.
fn open_known(database: &Database, create: bool) -> Result<Store, StoreError> {
    let store = Store::open(database, create)?;
    let (found, known) = (
        schema::found(&mut *store.reader()?)?.version,
        schema::known(),
    );
    match found > known {
        true => Err(StoreError::Newer { found, known }),
        false => Ok(store),
    }
}

fn failed(database: &Database, error: &StoreError) -> TransferError {
    let why = format!("{database}: {error}");
    match error {
        StoreError::Older { .. } => refused("schema_older", why),
        StoreError::HardLinked(_) => refused("hard_linked", why),
        _ => TransferError::Failed(why),
    }
}

fn explain(trouble: Trouble, from: &Database, to: &Database) -> TransferError {
    match trouble {
        Trouble::Source(error) => {
            TransferError::Failed(format!("{from}: {error}. Nothing was moved"))
        }
        Trouble::Target(error) => {
            TransferError::Failed(format!("{to}: {error}. Nothing was moved"))
        }
        Trouble::NotEmpty(why) => refused(
            "target_not_empty",
            format!(
                "{to} is not empty: {why}. Nothing was moved; name an empty database to move to"
            ),
        ),
        Trouble::Moved(before) => moved_elsewhere(from, &before),
        Trouble::RolledBack(rollback) => refused(
            "ledger_rolled_back",
            format!(
                "the ledger of {from} is rolled back: {rollback}. Nothing was moved; bring back the database that holds them, or \
                 accept the loss first with `bookguard ledger accept-rollback --db {from}`"
            ),
        ),
        Trouble::Damaged(why) => TransferError::NotVerified(format!(
            "{from} is damaged: {why}. Nothing was moved; `bookguard ledger verify --db {from}` says more"
        )),
        Trouble::Differs(why) => TransferError::NotVerified(format!(
            "the copy in {to} is not what {from} holds: {why}. Nothing was moved"
        )),
        Trouble::Marking(error) => TransferError::Failed(format!(
            "{from}: {error}. Nothing was moved, but {from} may be marked as moved and then takes no writes. Run the same \
             command again; or, to stay, `bookguard transfer --reopen --from {from}`"
        )),
        Trouble::Committing(error) => TransferError::Failed(format!(
            "{to}: {error}. It is not known whether {to} holds everything or nothing. {from} is complete, but marked as moved, \
             and takes no writes. Run the same command again: if it says that {to} is not empty, everything is there. To stay \
             instead, only if nothing is there: `bookguard transfer --reopen --from {from}`"
        )),
    }
}
