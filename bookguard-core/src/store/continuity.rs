//! Checks that the head in a database continues the head that was last published.
//!
//! A database that was rolled back is read but not written until it is whole again or until the loss is accepted. In
//! the second case the same tree continues under a new name, and its first entry under that name says so
//! ([`Continuation`]). Invariant: the guard notes a head only if the head last seen is part of it.

use std::sync::Arc;

use super::conn::{Conn, StoreError};
use super::files::records;
use super::read::continuations;
use super::tree::{read_tile, root_at};
use super::{Store, StoredHead, head};
use crate::evidence::{Continuation, StoredEntry};
use crate::ledger::proof::{prove_inclusion, verify_inclusion};
use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause};
use crate::ledger::tile::ReadError;
use crate::ledger::{Checkpoint, Hash, Tree, leaf_hash};
use crate::log::Log;

impl Log {
    /// Checks whether the stored head continues the head last `seen`, and if not, says why. `tree` is the stored tree,
    /// where it is at hand. Costs a comparison while both heads are the same, and at most one flight once the log has
    /// grown. If a node noted in the database that it lacks more than `seen`, that counts.
    pub(crate) fn check(
        &self,
        conn: &mut dyn Conn,
        tree: Option<&Tree>,
        seen: Option<&PublishedHead>,
        stored: &StoredHead,
    ) -> Result<Option<Rollback>, StoreError> {
        let mut rollback = self.check_seen(conn, tree, seen, stored)?;
        for noted in &stored.lacking {
            let found = self.check_seen(conn, tree, Some(noted), stored)?;
            let noted = found.map(|found| Rollback {
                is_noted: true,
                ..found
            });
            rollback = match (rollback, noted) {
                (Some(own), Some(noted)) => {
                    let is_more =
                        own.seen.origin == noted.seen.origin && own.seen.size < noted.seen.size;
                    Some(if is_more { noted } else { own })
                }
                (own, noted) => own.or(noted),
            };
        }
        Ok(rollback)
    }

    /// As [`Self::check`], whatever nodes noted in the database.
    pub(crate) fn check_seen(
        &self,
        conn: &mut dyn Conn,
        tree: Option<&Tree>,
        seen: Option<&PublishedHead>,
        stored: &StoredHead,
    ) -> Result<Option<Rollback>, StoreError> {
        // Another log without entries has published nothing that could be lost.
        let seen = seen.filter(|seen| seen.size > 0 || seen.origin == stored.origin);
        let Some(seen) = seen else {
            return self.unlisted(conn, stored);
        };
        let (size, root) = (stored.head.size, stored.head.root);
        let cause = if seen.origin != stored.origin {
            match self.leads(conn, &seen.origin, seen.size, stored)? {
                true => return self.unlisted(conn, stored),
                false => RollbackCause::OtherLog,
            }
        } else if size < seen.size {
            RollbackCause::Behind
        } else {
            let known = match size == seen.size {
                true => Some(root),
                false => tree.and_then(|tree| tree.root_at(seen.size)),
            };
            let then = known.map_or_else(|| root_at(conn, seen.size), Ok)?;
            match then == seen.root {
                true => return self.unlisted(conn, stored),
                false if seen.is_at_least() => return Ok(Some(unknown(stored, &stored.origin))),
                false => RollbackCause::Forked,
            }
        };
        Ok(Some(Rollback {
            found: stored.seen(),
            seen: seen.clone(),
            cause,
            is_noted: false,
        }))
    }

    /// What the database lacks of the head last seen, if anything. Notes and reports nothing.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn compare(&self, store: &Store) -> Result<Option<Rollback>, StoreError> {
        let seen = self.guard().seen();
        let mut conn = store.reader()?;
        // Whether the list can be read is asked elsewhere.
        let _ = self.look_at_erasures(&mut *conn);
        match head(&mut *conn)? {
            Some(stored) => self.check(&mut *conn, None, seen.as_deref(), &stored),
            None => Ok(None),
        }
    }

    /// Finds out whether the database lacks the last erasure of the list. If it has that one, it has those before it.
    ///
    /// # Errors
    /// A sentence for the operator: the list or the database cannot be read.
    pub(crate) fn look_at_erasures(&self, conn: &mut dyn Conn) -> Result<(), String> {
        let is_owed = match self.erasures().last()? {
            None => false,
            Some(last) => !records(conn, &last).map_err(|e| e.to_string())?,
        };
        self.erasures().owe(is_owed);
        Ok(())
    }

    /// The loss that the list of erasures shows, whatever the guard knows: it names an entry that the database lacks, and the log does
    /// not go on under another name since.
    fn unlisted(
        &self,
        conn: &mut dyn Conn,
        stored: &StoredHead,
    ) -> Result<Option<Rollback>, StoreError> {
        if !self.erasures().is_owed() {
            return Ok(None);
        }
        // A list that cannot be read now was found to name such an entry.
        let Ok(last) = self.erasures().last() else {
            return Ok(Some(unknown(stored, &stored.origin)));
        };
        let Some(last) = last else {
            return Ok(None);
        };
        let is_accepted = stored.origin != last.log && self.leads(conn, &last.log, 0, stored)?;
        match is_accepted || records(conn, &last)? {
            true => Ok(None),
            // A continuation that names it ends the loss.
            false => Ok(Some(Rollback {
                // It is not known how much more there was.
                seen: PublishedHead::at_least(&last.log, last.index + 1),
                ..unknown(stored, &last.log)
            })),
        }
    }

    /// Checks a head that is about to be shown, reports when a rollback begins or ends, and notes the head if it is
    /// sound. `seen` was read before the database was.
    pub(crate) fn publish(
        &self,
        conn: &mut dyn Conn,
        seen: Option<&PublishedHead>,
        stored: &StoredHead,
    ) -> Result<Option<Rollback>, StoreError> {
        let mut rollback = self.check(conn, None, seen, stored)?;
        if rollback.is_none() {
            // A head that is ahead may be that of this database a moment later. One with other entries in place of its
            // own is not.
            if let Some(ahead) = self.note(seen, stored.seen()) {
                let found = self.check(conn, None, Some(&ahead), stored)?;
                rollback = found.filter(|it| it.cause == RollbackCause::Forked);
            }
        }
        self.guard().say(&stored.origin, rollback.as_ref());
        Ok(rollback)
    }

    /// Notes a head that was found to continue `seen`. Returns the head that the guard has instead, as [`Guard::note`].
    ///
    /// [`Guard::note`]: crate::guard::Guard::note
    pub(crate) fn note(
        &self,
        seen: Option<&PublishedHead>,
        head: PublishedHead,
    ) -> Option<Arc<PublishedHead>> {
        match seen == Some(&head) {
            true => None,
            false => self.guard().note(seen, head),
        }
    }

    /// Whether the log's own entries prove that it continues the log `origin` under another name, and that the loss of any of its first
    /// `size` entries was accepted: this key signed the head, every continuation on the way is in its tree and can be opened, and one
    /// of them names that log with as many. A guard that has seen more than was accepted has lost more.
    fn leads(
        &self,
        conn: &mut dyn Conn,
        origin: &str,
        size: u64,
        stored: &StoredHead,
    ) -> Result<bool, StoreError> {
        let signer = self.signer(&stored.origin).map_err(StoreError::Corrupt)?;
        let signed = Checkpoint::open(&stored.checkpoint, signer.verifier());
        if !signed.is_ok_and(|said| (said.size, said.root) == (stored.head.size, stored.head.root))
        {
            return Ok(false);
        }
        let mut name = stored.origin.clone();
        for entry in continuations(conn)?.iter().rev() {
            let Ok(continuation) = Continuation::read(entry) else {
                return Ok(false);
            };
            if continuation.origin != name || !in_tree(conn, entry, stored)? {
                return Ok(false);
            }
            let heads = [&continuation.found.head, &continuation.seen];
            if heads
                .iter()
                .any(|head| head.origin == origin && head.size >= size)
            {
                return Ok(true);
            }
            name = continuation.found.head.origin;
        }
        Ok(false)
    }
}

/// A loss of nobody knows how much, of the log `origin`.
fn unknown(stored: &StoredHead, origin: &str) -> Rollback {
    Rollback {
        found: stored.seen(),
        seen: PublishedHead {
            origin: origin.to_owned(),
            ..stored.seen()
        },
        cause: RollbackCause::GuardLost,
        is_noted: false,
    }
}

fn in_tree(
    conn: &mut dyn Conn,
    entry: &StoredEntry,
    stored: &StoredHead,
) -> Result<bool, StoreError> {
    let (size, root): (u64, Hash) = (stored.head.size, stored.head.root);
    match prove_inclusion(entry.index, size, |level, index| {
        read_tile(conn, level, index)
    }) {
        Ok(path) => {
            Ok(verify_inclusion(&leaf_hash(&entry.leaf), entry.index, size, &path, &root).is_ok())
        }
        Err(ReadError::Read(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests;
