//! The mark in the target of a move that has not ended.
//!
//! It is a head without a checkpoint that says where the log comes from. It is durable before the source is marked as moved, and
//! only the commit that brings the rows replaces it. So wherever a move is killed, nobody begins another log in its target: the
//! place of the head is taken, and a head that is marked as moved takes no writes, whichever program brings them.

use std::path::Path;

use super::{TABLES, TransferJob, Trouble};
use crate::ledger::hash::EMPTY_ROOT;
#[cfg(feature = "sqlite")]
use crate::store::backup::remove;
use crate::store::conn::{Arg, Conn, Statement, StoreError, args};
use crate::store::{Store, StoredHead, head};

#[cfg(not(feature = "sqlite"))]
fn remove(_: &Path) {}

/// Marks an empty database. Fails if another log has begun there.
pub(super) fn announcement<'a>(stored: &'a StoredHead, from: &'a str) -> Statement<'a> {
    let mut args = named(stored, from);
    args.push(EMPTY_ROOT.as_bytes().to_vec().into());
    Statement::new(
        "INSERT INTO head (id, origin, vkey, moved_to, root, size, checkpoint) VALUES (1, $1, $2, $3, $4, 0, '')",
        args,
    )
}

/// Turns the head of a log without entries into the mark.
pub(super) fn renunciation<'a>(stored: &'a StoredHead, from: &'a str) -> Statement<'a> {
    Statement::new(
        "UPDATE head SET origin = $1, vkey = $2, checkpoint = '', moved_to = $3 WHERE id = 1",
        named(stored, from),
    )
}

/// What the mark says: the log, its key, and where it comes from.
fn named<'a>(stored: &'a StoredHead, from: &'a str) -> Vec<Arg<'a>> {
    args![stored.origin.as_str(), stored.vkey.as_str(), from]
}

fn removal() -> Statement<'static> {
    Statement::new("DELETE FROM head WHERE id = 1", vec![])
}

/// What is in a target that is free for a move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Vacancy {
    /// Nothing.
    Nothing,
    /// The mark of an earlier attempt at this move.
    Mark,
    /// A log of the same key without entries: somebody began it where an earlier attempt had only made the tables.
    Begun,
}

/// Marks the target durably, and begins the transaction that replaces the mark.
pub(super) fn announce(
    target: &mut dyn Conn,
    errand: &TransferJob<'_>,
    stored: &StoredHead,
) -> Result<(), Trouble> {
    target.begin(&[]).map_err(Trouble::Target)?;
    let mark = match vacancy(target, errand, &stored.vkey)? {
        Vacancy::Mark => None,
        Vacancy::Nothing => Some(announcement(stored, errand.from)),
        Vacancy::Begun => Some(renunciation(stored, errand.from)),
    };
    if let Some(mark) = mark {
        target.commit(&[mark]).map_err(Trouble::Target)?;
        target.begin(&[]).map_err(Trouble::Target)?;
        if vacancy(target, errand, &stored.vkey)? != Vacancy::Mark {
            return Err(Trouble::Target(StoreError::HeadMoved));
        }
    }
    target.run(&[removal()]).map(drop).map_err(Trouble::Target)
}

/// Requires that the target is free for this move.
pub(super) fn vacancy(
    target: &mut dyn Conn,
    errand: &TransferJob<'_>,
    vkey: &str,
) -> Result<Vacancy, Trouble> {
    let found = head(target).map_err(Trouble::Target)?;
    let vacancy = match &found {
        None => Vacancy::Nothing,
        Some(found) if found.arriving_from() == Some(errand.from) && found.vkey == vkey => {
            Vacancy::Mark
        }
        Some(found) if found.moved_to.is_none() && is_begun(found, vkey) => Vacancy::Begun,
        Some(found) => return Err(Trouble::NotEmpty(held(found))),
    };
    require_no_rows(target)?;
    Ok(vacancy)
}

/// Whether this is a log without entries of the same key. It may have a name of its own.
pub(super) fn is_begun(found: &StoredHead, vkey: &str) -> bool {
    found.head.size == 0 && found.arriving_from().is_none() && found.has_key_of(vkey)
}

/// What a target holds that is not empty.
pub(super) fn held(found: &StoredHead) -> String {
    match found.arriving_from() {
        Some(from) => format!(
            "the move of the ledger {} from {from} into it has not ended",
            found.origin
        ),
        None => format!(
            "it holds the ledger {} with {} entries",
            found.origin, found.head.size
        ),
    }
}

/// Requires that no table but that of the head has rows.
pub(super) fn require_no_rows(conn: &mut dyn Conn) -> Result<(), Trouble> {
    for table in TABLES.iter().filter(|table| table.name != "head") {
        if !table.is_empty(conn).map_err(Trouble::Target)? {
            return Err(Trouble::NotEmpty(format!(
                "its table {} has rows",
                table.name
            )));
        }
    }
    Ok(())
}

/// Clears away what a move that failed left in the target: the mark, or the file if this move `made` it. Does nothing if the
/// source is marked as moved, because the target must then stay marked.
///
/// The source's write turn keeps other moves of the same log away meanwhile, and the mark everybody else: so nobody has anything
/// in a file that goes.
pub(super) fn withdraw(
    source: &mut dyn Conn,
    (mut target, store): (Box<dyn Conn>, Store),
    errand: &TransferJob<'_>,
    made: Option<&Path>,
) -> Result<(), StoreError> {
    source.begin(&[])?;
    let withdrawn = (|| {
        if head(source)?.is_none_or(|stored| stored.moved_to.is_some()) {
            return Ok(());
        }
        target.begin(&[])?;
        let found = head(&mut *target)?;
        let is_ours = found.is_some_and(|found| found.arriving_from() == Some(errand.from));
        match made {
            _ if !is_ours => target.rollback(),
            Some(file) => {
                target.rollback();
                drop((target, store));
                remove(file);
            }
            None => {
                target.commit(&[removal()])?;
            }
        }
        Ok(())
    })();
    source.rollback();
    withdrawn
}
