//! Continues the log under a new name after an accepted loss. The first entry under that name records it.

use crate::engine::batch::BatchState;
use crate::engine::chain;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::evidence::{Continuation, FoundLog};
use crate::features::ledger::ContinueLog;
use crate::ledger::LeafKind;
use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause};
use crate::model::Timestamp;

impl Command for ContinueLog {
    type Reply = Continuation;

    fn needs(&self, _: &mut Needs) {}

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
                return Err(Error::conflict(
                    "nothing_to_accept",
                    format!(
                        "There is no loss to accept: log {} holds everything that was published of it.",
                        batch.origin
                    ),
                ));
            }
        };
        if *rollback != self.accepted {
            return Err(Error::conflict(
                "rollback_changed",
                format!(
                    "The database has changed since you looked at the loss: now {rollback}. Look again before you accept."
                ),
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
        let changes = vec![
            Change::Entry(Box::new(entry)),
            Change::LogRenamed {
                origin: self.origin.clone(),
                vkey: self.vkey.clone(),
            },
        ];
        Ok((changes, continuation))
    }

    fn mends_rollback(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
