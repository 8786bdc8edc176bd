//! What waits for the writer: each command with where its answer goes, whatever its reply is.
//!
//! Invariant: an answer leaves only when the writer says that its batch is durable; until then it stays here.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::engine::batch::{BatchState, Prior};
use crate::engine::change::Change;
use crate::engine::command::{CommandOutcome, Envelope, Head, Written};
use crate::engine::decide::{Decision, decide};
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::seal::Seal;
use crate::store::commit::Answered;

/// A command in the writer's queue.
pub(super) trait Queued: Send {
    /// Adds what the command has to see.
    fn needs(&self, needs: &mut Needs);

    /// Decides the command, number `index` of its batch, and makes what it causes visible to those behind it.
    fn decide(&mut self, batch: &mut BatchState, index: usize, changes: &mut Vec<Change>);

    /// Completes the reply with the head after the batch; what is to be remembered of it, if anything.
    fn complete(&mut self, head: &Head, seal: &Seal) -> Option<Answered>;

    /// The earlier command of the batch whose answer this one shares, because it is the same request again.
    fn twin(&self) -> Option<usize>;

    /// The answer as it is sent, where it is to be remembered.
    fn body(&self) -> Option<&[u8]>;

    /// Answers as an earlier request was answered.
    fn replay(&mut self, body: Option<&[u8]>);

    /// Whether it is answered as an earlier request was.
    fn is_replayed(&self) -> bool;

    /// Whether it only tries out whether writing works.
    fn is_probe(&self) -> bool;

    /// Tells the caller: what was decided, or why nothing of the batch was kept.
    fn answer(self: Box<Self>, refused: Option<&Error>);
}

/// A command, where its outcome goes, and what that will be.
struct Job<R> {
    asked: Envelope<R>,
    waiter: oneshot::Sender<CommandOutcome<R>>,
    decided: Option<Result<Decided<R>, Error>>,
    /// The fresh answer's body, if it is to be remembered.
    body: Option<Vec<u8>>,
}

enum Decided<R> {
    Fresh(R),
    Replayed(Arc<[u8]>),
    Same(usize),
}

/// Makes a command ready for the queue; the receiver yields its outcome once it is durable.
pub(super) fn queued<R: Send + 'static>(
    asked: Envelope<R>,
) -> (Box<dyn Queued>, oneshot::Receiver<CommandOutcome<R>>) {
    let (waiter, receiver) = oneshot::channel();
    let job = Job {
        asked,
        waiter,
        decided: None,
        body: None,
    };
    (Box::new(job), receiver)
}

impl<R: Send + 'static> Queued for Job<R> {
    fn needs(&self, needs: &mut Needs) {
        needs.now = needs.now.max(self.asked.at);
        let remember = self.asked.remember.as_ref();
        needs.answers.extend(remember.map(|remember| remember.key));
        self.asked.command.needs(needs);
    }

    fn decide(&mut self, batch: &mut BatchState, index: usize, changes: &mut Vec<Change>) {
        let decided = decide(batch, &self.asked).map(|decision| match decision {
            Decision::Do {
                changes: caused,
                reply,
            } => {
                caused.iter().for_each(|change| batch.apply(change));
                changes.extend(caused);
                if let Some(remember) = &self.asked.remember {
                    let pending = Prior::Pending {
                        request: remember.request,
                        command: index,
                    };
                    batch.prior.insert(remember.key, pending);
                }
                Decided::Fresh(reply)
            }
            Decision::Replay(body) => Decided::Replayed(body),
            Decision::Same(earlier) => Decided::Same(earlier),
        });
        self.decided = Some(decided);
    }

    fn complete(&mut self, head: &Head, seal: &Seal) -> Option<Answered> {
        let Some(Ok(Decided::Fresh(reply))) = &mut self.decided else {
            return None;
        };
        self.asked.command.complete(reply, head);
        let remember = self.asked.remember.as_ref()?;
        let body = self.body.insert((remember.encode)(reply));
        Some(Answered {
            key: remember.key,
            request: remember.request,
            at: self.asked.at.ms(),
            sealed: seal.seal(&remember.key, body),
        })
    }

    fn twin(&self) -> Option<usize> {
        match self.decided {
            Some(Ok(Decided::Same(earlier))) => Some(earlier),
            _ => None,
        }
    }

    fn body(&self) -> Option<&[u8]> {
        self.body.as_deref()
    }

    fn replay(&mut self, body: Option<&[u8]>) {
        let missing = || Error::internal("a command points at an answer that does not exist");
        let replayed = body.map(|body| Decided::Replayed(Arc::from(body)));
        self.decided = Some(replayed.ok_or_else(missing));
    }

    fn is_replayed(&self) -> bool {
        matches!(self.decided, Some(Ok(Decided::Replayed(_))))
    }

    fn is_probe(&self) -> bool {
        self.asked.command.is_probe()
    }

    fn answer(self: Box<Self>, refused: Option<&Error>) {
        let undecided = || Error::internal("a command was answered before it was decided");
        let outcome = match (refused, self.decided) {
            (Some(refused), _) => Err(refused.clone()),
            (None, Some(Ok(Decided::Fresh(reply)))) => Ok(Written::Fresh(reply)),
            (None, Some(Ok(Decided::Replayed(body)))) => Ok(Written::Replayed(body)),
            (None, Some(Err(refusal))) => Err(refusal),
            (None, Some(Ok(Decided::Same(_))) | None) => Err(undecided()),
        };
        // A caller that went away has nobody to tell; what it asked for is done all the same.
        let _ = self.waiter.send(outcome);
    }
}
