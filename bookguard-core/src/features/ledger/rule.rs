//! Notes a loss for everybody who uses the database, and continues the log under a new name once it is accepted. The first entry under
//! that name records it.

use std::slice;

use crate::engine::batch::BatchState;
use crate::engine::chain;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::error::conflict;
use crate::evidence::{Continuation, FoundLog};
use crate::features::ledger::{ContinueLog, NoteLoss};
use crate::ledger::LeafKind;
use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause, longer_note};
use crate::model::Timestamp;

impl Command for NoteLoss {
    type Reply = ();

    /// Notes it only while it is the loss of this database: another may have its place by now.
    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<()> {
        let Self(Rollback { found, seen, .. }) = self;
        let is_still = |now: &Rollback| now.found.origin == found.origin && now.seen == *seen;
        let lacking = match batch.rollback.as_ref().is_some_and(is_still) {
            true => longer_note(&batch.lacking, slice::from_ref(seen)),
            false => None,
        };
        let noted = lacking.map(Change::LossesNoted);
        Ok((noted.into_iter().collect(), ()))
    }

    fn is_for_rollback(&self) -> bool {
        true
    }

    fn is_probe(&self) -> bool {
        true
    }
}

impl Command for ContinueLog {
    type Reply = Continuation;

    /// # Errors
    /// `nothing_to_accept`, `rollback_changed`.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Continuation> {
        let rollback = match &batch.rollback {
            Some(rollback) => rollback,
            // A loss that nothing remembers: the log may hold everything, and continues under a new name all the same.
            None if self.accepted.cause == RollbackCause::GuardLost => &Rollback {
                found: PublishedHead {
                    origin: batch.origin.clone(),
                    size: batch.size,
                    root: self.accepted.found.root,
                },
                ..self.accepted.clone()
            },
            None => {
                return Err(conflict!(
                    "nothing_to_accept",
                    "There is no loss to accept: log {} holds everything that was published of it.",
                    batch.origin
                ));
            }
        };
        if *rollback != self.accepted {
            return Err(conflict!(
                "rollback_changed",
                "The database has changed since you looked at the loss: now {rollback}. Look again before you accept."
            ));
        }
        let continuation = Continuation {
            origin: self.origin.clone(),
            vkey: self.vkey.clone(),
            found: FoundLog {
                head: rollback.found.clone(),
                vkey: batch.vkey.clone(),
            },
            seen: rollback.seen.clone(),
            at,
        };
        let fact = (LeafKind::LogContinued, &continuation);
        let entry = chain::of_the_log(batch, self.stream, at, &self.seed, fact)?;
        let mut changes = vec![
            Change::Entry(Box::new(entry)),
            Change::LogRenamed {
                origin: self.origin.clone(),
                vkey: self.vkey.clone(),
            },
        ];
        // A loss of another log, or of more of this one, is still to be accepted.
        let heads = [&rollback.found, &rollback.seen];
        let covers = |noted: &&PublishedHead| {
            (heads.iter()).any(|head| head.origin == noted.origin && head.size >= noted.size)
        };
        let rest: Vec<_> = batch
            .lacking
            .iter()
            .filter(|noted| !covers(noted))
            .cloned()
            .collect();
        if rest != batch.lacking {
            changes.push(Change::LossesNoted(rest));
        }
        Ok((changes, continuation))
    }

    fn is_for_rollback(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
