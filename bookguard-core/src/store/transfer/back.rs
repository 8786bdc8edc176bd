//! Undoes a move: the old database takes writes again.
//!
//! That is safe only if nothing was written in the other place and nothing can be. So the other place is examined under
//! the write turns of both, and every table is compared. It is durably closed before the old database is opened, so
//! that both can never be written at once. If the process is killed in between, both are closed, and the same command
//! continues from there.

use super::copy;
use super::{TransferError, Trouble, failed, mark, open_known, place, refused};
use crate::store::conn::{Conn, Statement, StoreError};
use crate::store::{Database, StoredHead, head};

/// Where a database's log had been moved to, and whether that place was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reopened {
    /// The place, without a password.
    pub moved_to: String,
    /// Whether the other place could be examined. If not, nobody knows what was written there.
    pub seen: bool,
}

/// Why the other place cannot be closed.
enum Open {
    /// It cannot be examined.
    Unseen(StoreError),
    /// Examining it failed.
    Failed(Trouble),
    /// The log continued there.
    Written(String),
}

impl From<StoreError> for Open {
    fn from(error: StoreError) -> Self {
        Self::Failed(Trouble::Target(error))
    }
}

/// Removes the mark of a move, so that `database` takes writes again, and closes the place it was moved to. `to` is
/// that place, given if its address needs a password, which no mark holds. `unseen` means that the operator vouches for
/// a place that cannot be examined.
///
/// # Errors
/// [`TransferError::Refused`] with `not_moved`, `other_target`, `target_written` or `target_not_seen`;
/// [`TransferError::Failed`].
pub fn reopen(
    database: &Database,
    to: Option<&Database>,
    unseen: bool,
) -> Result<Reopened, TransferError> {
    let at = |e: StoreError| failed(database, &e);
    let store = open_known(database, false).map_err(at)?;
    let mut source = store.mover().map_err(at)?;
    source.begin(&[]).map_err(at)?;
    let opened = open_again(&mut *source, database, to, unseen);
    if opened.is_err() {
        source.rollback();
    }
    opened
}

fn open_again(
    source: &mut dyn Conn,
    database: &Database,
    to: Option<&Database>,
    unseen: bool,
) -> Result<Reopened, TransferError> {
    let at = |e: StoreError| failed(database, &e);
    let stored = head(source).map_err(at)?;
    let Some((stored, moved_to)) = stored.and_then(|mut head| {
        let to = head.moved_to.take()?;
        Some((head, to))
    }) else {
        return Err(refused(
            "not_moved",
            format!("{database}: its ledger was not moved anywhere; there is nothing to take back"),
        ));
    };
    let target = to.map_or_else(|| Database::from(moved_to.as_str()), Clone::clone);
    if place(&target) != moved_to {
        return Err(refused(
            "other_target",
            format!(
                "the ledger of {database} was moved to {moved_to}, not to {target}; name that one with --to"
            ),
        ));
    }
    let seen = match close(source, &target, &stored, &place(database)) {
        Ok(()) => true,
        Err(Open::Unseen(_)) if unseen => false,
        Err(open) => return Err(explain(open, database, &target)),
    };
    source.commit(&[mark(None)]).map_err(at)?;
    Ok(Reopened { moved_to, seen })
}

/// Marks the target as moved back if it is unchanged since the move. If nothing arrived, there is nothing to mark.
fn close(
    source: &mut dyn Conn,
    target: &Database,
    stored: &StoredHead,
    back: &str,
) -> Result<(), Open> {
    let store = open_known(target, false).map_err(Open::Unseen)?;
    let mut conn = store.mover().map_err(Open::Unseen)?;
    conn.begin(&[])?;
    let arrived = untouched(source, &mut *conn, stored, back);
    let closed = match arrived {
        Ok(true) => conn
            .commit(&[mark(Some(back))])
            .map(drop)
            .map_err(Open::from),
        Ok(false) => {
            conn.rollback();
            return Ok(());
        }
        Err(open) => Err(open),
    };
    if closed.is_err() {
        conn.rollback();
    }
    closed
}

/// Whether everything arrived and is unchanged since the move. Returns `false` if the target is empty.
fn untouched(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    stored: &StoredHead,
    back: &str,
) -> Result<bool, Open> {
    let Some(found) = head(target)? else {
        // A commit that was lost from sight may still arrive. This waits for its end, and fails if it arrived.
        target.run(&[Statement::new(
            "INSERT INTO head (id, origin, vkey, size, root, checkpoint) VALUES (1, '', '', 0, $1, '')",
            vec![stored.head.root.as_bytes().into()],
        )])?;
        return Ok(false);
    };
    if found.vkey != stored.vkey {
        return Err(Open::Written(format!(
            "it holds the ledger {} with {} entries, not {} as it was moved there",
            found.origin, found.head.size, stored.origin
        )));
    }
    if found.head != stored.head {
        return Err(Open::Written(format!(
            "its ledger has {} entries and the root {}; moved were {} and {}",
            found.head.size, found.head.root, stored.head.size, stored.head.root
        )));
    }
    if let Some(further) = found.moved_to.filter(|place| place != back) {
        return Err(Open::Written(format!(
            "its ledger was moved on to {further}"
        )));
    }
    match copy::difference(source, target).map_err(Open::Failed)? {
        Some(table) => Err(Open::Written(format!(
            "its table {table} does not hold what was moved there"
        ))),
        None => Ok(true),
    }
}

fn explain(open: Open, database: &Database, target: &Database) -> TransferError {
    match open {
        Open::Written(why) => refused(
            "target_written",
            format!(
                "the ledger of {database} continues in {target}, where something was written since the move: {why}. {database} \
                 stays closed, or one ledger would have two histories. Serve {target}; to bring everything back, move it to an \
                 empty database"
            ),
        ),
        Open::Unseen(error) => refused(
            "target_not_seen",
            format!(
                "it is not known whether anything was written in {target} since {database} was moved there, because it cannot \
                 be examined: {error}. {database} stays closed. Bring {target} back within reach, or name it with --to if its \
                 address needs a password or parameters. If it is gone for good, --risk-two-histories opens {database} all the \
                 same: if {target} was ever written, its answers are lost and one ledger has two histories"
            ),
        ),
        Open::Failed(Trouble::Source(error)) => failed(database, &error),
        Open::Failed(Trouble::Target(error)) => TransferError::Failed(format!(
            "{target}: {error}. {database} stays closed; run the same command again"
        )),
        Open::Failed(_) => TransferError::Failed(format!(
            "{database} and {target} could not be compared. {database} stays closed"
        )),
    }
}
