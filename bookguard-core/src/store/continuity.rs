//! Checks that the head in a database continues the head that was last published.
//!
//! A database that was rolled back is read but not written until it is whole again or until the loss is accepted. In
//! the second case the same tree continues under a new name, and its first entry under that name says so
//! ([`Continuation`]). Invariant: the guard notes a head only if the head last seen is part of it.

use super::conn::{Conn, StoreError};
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
    /// grown.
    pub(crate) fn check(
        &self,
        conn: &mut dyn Conn,
        tree: Option<&Tree>,
        seen: Option<&PublishedHead>,
        stored: &StoredHead,
    ) -> Result<Option<Rollback>, StoreError> {
        let Some(seen) = seen else {
            return Ok(None);
        };
        let (size, root) = (stored.head.size, stored.head.root);
        let cause = if seen.origin != stored.origin {
            match self.leads(conn, seen, stored)? {
                true => return Ok(None),
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
                true => return Ok(None),
                false => RollbackCause::Forked,
            }
        };
        Ok(Some(Rollback {
            found: stored.seen(),
            seen: seen.clone(),
            cause,
        }))
    }

    /// What the database lacks of the head last seen, if anything. Notes and reports nothing.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn compare(&self, store: &Store) -> Result<Option<Rollback>, StoreError> {
        let seen = self.guard().seen();
        let mut conn = store.reader()?;
        match head(&mut *conn)? {
            Some(stored) => self.check(&mut *conn, None, seen.as_deref(), &stored),
            None => Ok(None),
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
        let rollback = self.check(conn, None, seen, stored)?;
        self.guard().say(rollback.as_ref());
        if rollback.is_none() {
            self.note(seen, stored.seen());
        }
        Ok(rollback)
    }

    /// Notes a head that was found to continue `seen`.
    pub(crate) fn note(&self, seen: Option<&PublishedHead>, head: PublishedHead) {
        if seen != Some(&head) {
            self.guard().note(seen, head);
        }
    }

    /// Whether the log's own entries prove that it continues the log `seen` under another name: this key signed the
    /// head, every continuation on the way is in its tree and can be opened, and one of them names the log seen.
    fn leads(
        &self,
        conn: &mut dyn Conn,
        seen: &PublishedHead,
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
            if [&continuation.found.head.origin, &continuation.seen.origin].contains(&&seen.origin)
            {
                return Ok(true);
            }
            name = continuation.found.head.origin;
        }
        Ok(false)
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
