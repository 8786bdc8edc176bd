//! Remembered answers, and a minimal write that tests the storage.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::limits;
use crate::model::Timestamp;

/// Replaces a remembered answer once the outcome that a retry waited for is known.
#[derive(Debug)]
pub(crate) struct ReplaceAnswer {
    /// The remembered answer's key.
    pub(crate) key: [u8; 32],
    /// The body that was sent, sealed.
    pub(crate) answer: Vec<u8>,
}

impl Command for ReplaceAnswer {
    type Reply = ();

    fn decide(&self, _: &BatchState, _: Timestamp) -> Decided<()> {
        let amended = Change::AnswerReplaced(self.key, self.answer.clone());
        Ok((vec![amended], ()))
    }
}

/// Deletes expired answers, a thousand at a time.
#[derive(Debug)]
pub struct ForgetAnswers;

impl Command for ForgetAnswers {
    type Reply = ();

    fn decide(&self, _: &BatchState, at: Timestamp) -> Decided<()> {
        let before = at.plus_ms(-limits::IDEMPOTENCY_TTL_MS);
        Ok((vec![Change::AnswersForgotten(before)], ()))
    }
}

/// Writes something and deletes it again, to learn whether writing works.
#[derive(Debug)]
pub(crate) struct ProbeStorage;

impl Command for ProbeStorage {
    type Reply = ();

    fn decide(&self, _: &BatchState, _: Timestamp) -> Decided<()> {
        Ok((vec![Change::WriteTried], ()))
    }

    fn is_probe(&self) -> bool {
        true
    }
}
