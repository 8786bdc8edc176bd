//! Whether what a database holds goes on from what was published.
//!
//! A rolled back database is read and not written until it is whole again, or until the loss is accepted: then the same
//! tree goes on under a new name, and its first entry under that name says so ([`Continuation`]). Invariant: a head is
//! noted by the guard only when the head last seen is part of it.

use super::StoredHead;
use super::conn::{Conn, StoreError};
use super::read::continuations;
use super::tree::{read_tile, root_at};
use crate::evidence::{Continuation, StoredEntry};
use crate::ledger::proof::{prove_inclusion, verify_inclusion};
use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause};
use crate::ledger::tile::ReadError;
use crate::ledger::{Checkpoint, Hash, Tree, leaf_hash};
use crate::log::Log;

impl Log {
    /// Whether the head that a database has goes on from the one last `seen`; if not, how. `tree` is the stored one, where
    /// it is at hand. Costs a comparison while the two are the same, and at most one flight when the log has grown.
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

    /// Checks a head that is about to be shown, says when that begins or ends to be amiss, and notes it if it is not.
    /// `seen` was asked for before the database was.
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

    /// Notes a head that was found to go on from `seen`.
    pub(crate) fn note(&self, seen: Option<&PublishedHead>, head: PublishedHead) {
        if seen != Some(&head) {
            self.guard().note(seen, head);
        }
    }

    /// Whether the log under its present name goes on from the one `seen`, as its own entries say: the head is signed by
    /// this key, every entry on the way is in its tree and opens, and one of them names the log seen.
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
