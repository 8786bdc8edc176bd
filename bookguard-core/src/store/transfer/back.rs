//! Undoes a move: the old database takes writes again.
//!
//! That is safe only if nothing was written in the other place and nothing can be. So the other place is examined under
//! the write turns of both, and every table is compared, unless the move did not end there. It is durably closed before
//! the old database is opened, so that both can never be written at once. If the process is killed in between, both are
//! closed, and the same command continues from there.

use std::slice;

use super::arriving::{announcement, is_begun, renunciation, require_no_rows};
use super::copy;
use super::{TransferError, Trouble, failed, mark, open_known, place, refused};
use crate::ledger::rollback::{PublishedHead, entries, longer_note};
use crate::store::conn::{Conn, StoreError};
use crate::store::{Database, StoredHead, head, losses_noted};

/// Where a database's log had been moved to, and whether that place was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reopened {
    /// The place, without a password.
    pub moved_to: String,
    /// Whether the other place could be examined, and is closed. If not, nobody knows what was written there.
    pub seen: bool,
    /// What was published and the database lacks: it takes no writes before the loss is accepted.
    pub lacking: Vec<PublishedHead>,
}

/// Why the other place cannot be closed.
enum NotClosed {
    /// It cannot be examined, or does not show what was there; the reason, as a clause.
    Unseen(String),
    /// Examining it failed.
    Failed(Trouble),
    /// The log continued there.
    Written(String),
    /// Nothing there shows that the log was moved there.
    Other,
}

/// What is there of the log.
enum Arrived {
    /// Nothing at all.
    Nothing,
    /// The mark of a move that has not ended.
    Mark,
    /// Everything, unchanged.
    Everything,
    /// An empty log of the same key, which somebody began there.
    Begun,
}

impl From<StoreError> for NotClosed {
    fn from(error: StoreError) -> Self {
        Self::Failed(Trouble::Target(error))
    }
}

/// Removes the mark of a move, so that `database` takes writes again, and closes the place it was moved to. `to` is
/// that place, given if its address needs a password, which no mark holds. `unseen` means that the operator vouches for
/// a place that cannot be examined, or for `to` being that place under another address. Only the operator can: a copy
/// of the place as it was looks the same. `published` is the head last published, as the guard knows it: if the database lacks that,
/// it says so itself from then on, and takes no writes before the loss is accepted.
///
/// # Errors
/// [`TransferError::Refused`] with `not_moved`, `other_target`, `target_written` or `target_not_seen`;
/// [`TransferError::Failed`].
pub fn reopen(
    database: &Database,
    to: Option<&Database>,
    unseen: bool,
    published: Option<&PublishedHead>,
) -> Result<Reopened, TransferError> {
    let at = |e: StoreError| failed(database, &e);
    let store = open_known(database, false).map_err(at)?;
    let mut source = store.mover().map_err(at)?;
    source.begin(&[]).map_err(at)?;
    let opened = open_again(&mut *source, database, (to, unseen), published);
    if opened.is_err() {
        source.rollback();
    }
    opened
}

fn open_again(
    source: &mut dyn Conn,
    database: &Database,
    (to, unseen): (Option<&Database>, bool),
    published: Option<&PublishedHead>,
) -> Result<Reopened, TransferError> {
    let at = |e: StoreError| failed(database, &e);
    let stored = head(source).map_err(at)?;
    if let Some(from) = stored.as_ref().and_then(StoredHead::arriving_from) {
        return Err(refused(
            "not_moved",
            format!(
                "{database} holds no ledger: the move of that of {from} into it has not ended. Take that move back with \
                 `bookguard transfer --reopen --from {from}`"
            ),
        ));
    }
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
    let elsewhere = place(&target) != moved_to;
    let back = Back {
        place: &place(database),
        elsewhere,
        unseen,
    };
    let closed = if elsewhere && !unseen {
        Err(NotClosed::Other)
    } else if place(&target) == back.place {
        Err(NotClosed::Unseen(
            "it is this database itself, a copy of one that was moved here".to_owned(),
        ))
    } else {
        close(source, &target, &stored, &back)
    };
    let seen = match closed {
        Ok(()) => true,
        Err(NotClosed::Unseen(_)) if unseen && !elsewhere => false,
        Err(NotClosed::Unseen(_) | NotClosed::Written(_) | NotClosed::Other) if elsewhere => {
            return Err(refused(
                "other_target",
                format!(
                    "the ledger of {database} was moved to {moved_to}, not to {target}; name that one with --to. If both are the \
                     same database, --risk-two-histories takes {target} for it, provided that it holds what was moved"
                ),
            ));
        }
        Err(cause) => return Err(explain(cause, database, &target)),
    };
    let published = published
        .filter(|published| published.origin == stored.origin && published.size > stored.head.size);
    let noted = published.and_then(|head| longer_note(&stored.lacking, slice::from_ref(head)));
    let opening = [mark(None)].into_iter();
    let opening: Vec<_> = opening.chain(noted.as_deref().map(losses_noted)).collect();
    source.commit(&opening).map_err(at)?;
    Ok(Reopened {
        moved_to,
        seen,
        lacking: noted.unwrap_or(stored.lacking),
    })
}

/// How a move is taken back.
struct Back<'a> {
    /// The source.
    place: &'a str,
    /// Whether the target is named by another address than the source says.
    elsewhere: bool,
    /// Whether the operator vouches for what cannot be examined.
    unseen: bool,
}

/// Closes the target for good, if nothing was written there since the move: marks it as moved back, or as the target of
/// a move that has not ended. A target at another address than the source says must show that it belongs to the move.
fn close(
    source: &mut dyn Conn,
    target: &Database,
    stored: &StoredHead,
    back: &Back<'_>,
) -> Result<(), NotClosed> {
    let unseen = |e: StoreError| NotClosed::Unseen(format!("it cannot be examined: {e}"));
    let store = open_known(target, false).map_err(unseen)?;
    let mut conn = store.mover().map_err(unseen)?;
    conn.begin(&[])?;
    let arrived = untouched(source, &mut *conn, stored, back.place);
    let closing = arrived.and_then(|arrived| match arrived {
        Arrived::Nothing | Arrived::Begun if back.elsewhere => Err(NotClosed::Other),
        // The source is marked after the target was announced there, so this is not what the move left.
        Arrived::Nothing | Arrived::Begun if !back.unseen => Err(NotClosed::Unseen(
            "it holds an empty ledger, which was made there since".to_owned(),
        )),
        // If a commit that was lost from sight may still arrive, this waits for its end, and fails if it arrived.
        Arrived::Nothing => Ok(Some(announcement(stored, back.place))),
        Arrived::Begun => Ok(Some(renunciation(stored, back.place))),
        Arrived::Everything => Ok(Some(mark(Some(back.place)))),
        Arrived::Mark => Ok(None),
    });
    let closed = closing.and_then(|closing| match closing {
        Some(statement) => conn.commit(&[statement]).map(drop).map_err(NotClosed::from),
        None => {
            conn.rollback();
            Ok(())
        }
    });
    if closed.is_err() {
        conn.rollback();
    }
    closed
}

/// What arrived, if nothing was written since.
fn untouched(
    source: &mut dyn Conn,
    target: &mut dyn Conn,
    stored: &StoredHead,
    back: &str,
) -> Result<Arrived, NotClosed> {
    let Some(found) = head(target)? else {
        return Ok(Arrived::Nothing);
    };
    let further = found.moved_to.as_deref().filter(|place| *place != back);
    if further.is_none() && is_begun(&found, &stored.vkey) {
        match require_no_rows(target) {
            Ok(()) => return Ok(Arrived::Begun),
            Err(Trouble::NotEmpty(_)) => {}
            Err(trouble) => return Err(NotClosed::Failed(trouble)),
        }
    }
    if !found.has_key_of(&stored.vkey) {
        return Err(NotClosed::Unseen(format!(
            "it holds another ledger, {}, with {}",
            found.origin,
            entries(found.head.size)
        )));
    }
    if found.vkey != stored.vkey {
        return Err(NotClosed::Written(format!(
            "it holds the ledger {} with {} entries, not {} as it was moved there",
            found.origin, found.head.size, stored.origin
        )));
    }
    if found.arriving_from().is_some() {
        return Ok(Arrived::Mark);
    }
    if let Some(lacking) = found.lacking.first() {
        return Err(NotClosed::Written(format!(
            "it was put back since: {} of log {} were published there",
            entries(lacking.size),
            lacking.origin
        )));
    }
    if found.head != stored.head {
        return Err(NotClosed::Written(format!(
            "its ledger has {} entries and the root {}; moved were {} and {}",
            found.head.size, found.head.root, stored.head.size, stored.head.root
        )));
    }
    if let Some(further) = further {
        return Err(NotClosed::Written(format!(
            "its ledger was moved on to {further}"
        )));
    }
    match copy::difference(source, target).map_err(NotClosed::Failed)? {
        Some(table) => Err(NotClosed::Written(format!(
            "its table {table} does not hold what was moved there"
        ))),
        None => Ok(Arrived::Everything),
    }
}

fn explain(cause: NotClosed, database: &Database, target: &Database) -> TransferError {
    match cause {
        NotClosed::Written(why) => refused(
            "target_written",
            format!(
                "the ledger of {database} continues in {target}, where something was written since the move: {why}. {database} \
                 stays closed, or one ledger would have two histories. Serve {target}; to bring everything back, move it to an \
                 empty database"
            ),
        ),
        NotClosed::Unseen(why) => refused(
            "target_not_seen",
            format!(
                "it is not known whether anything was written in {target} since {database} was moved there, because \
                 {why}. {database} stays closed. Bring {target} back within reach, or name it with --to if its \
                 address needs a password or parameters. If what was moved is gone for good, --risk-two-histories opens {database} all the \
                 same: if {target} was ever written, its answers are lost and one ledger has two histories"
            ),
        ),
        NotClosed::Failed(Trouble::Source(error)) => failed(database, &error),
        NotClosed::Failed(Trouble::Target(error)) => TransferError::Failed(format!(
            "{target}: {error}. {database} stays closed; run the same command again"
        )),
        NotClosed::Failed(_) | NotClosed::Other => TransferError::Failed(format!(
            "{database} and {target} could not be compared. {database} stays closed"
        )),
    }
}
