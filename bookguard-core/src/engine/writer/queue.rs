//! The writer's queue: each command with the receiver of its answer, whatever the type of its reply.
//!
//! Invariant: an answer stays here until the writer says that its batch is durable.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::engine::batch::{BatchState, RememberedAnswer};
use crate::engine::change::Change;
use crate::engine::command::{CommandOutcome, Envelope, Head, Written};
use crate::engine::decide::{Decision, decide};
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::model::{AuditActorKind, AuditRecord, BookingId, day};
use crate::seal::Seal;
use crate::store::commit::Answered;

/// A command in the writer's queue.
pub(super) trait Queued: Send {
    /// Adds the rows that the command needs.
    fn needs(&self, needs: &mut Needs);

    /// Decides the command, number `index` of its batch, and makes its changes visible to later commands. Forgets what it decided
    /// in an earlier try.
    fn decide(&mut self, batch: &mut BatchState, index: usize, changes: &mut Vec<Change>);

    /// Completes the reply with the head after the batch. Returns the answer to remember, if any.
    fn complete(&mut self, head: &Head, seal: &Seal) -> Option<Answered>;

    /// The earlier command of the batch whose answer this one shares, because it is the same request.
    fn twin(&self) -> Option<usize>;

    /// The answer's body as sent, if it is to be remembered.
    fn body(&self) -> Option<&[u8]>;

    /// Replaces the answer with that of an earlier request.
    fn replay(&mut self, body: Option<&[u8]>);

    /// Whether a caller is told that it is done, whoever did it.
    fn tells_a_caller(&self) -> bool;

    /// Whether it only tests that writing works.
    fn is_probe(&self) -> bool;

    /// Sends the outcome to the caller, or `refused` if nothing of the batch was kept.
    fn answer(self: Box<Self>, refused: Option<&Error>);
}

/// A command, the receiver of its outcome, and the outcome.
struct Job<R> {
    asked: Envelope<R>,
    waiter: oneshot::Sender<CommandOutcome<R>>,
    decided: Option<Result<Decided<R>, Error>>,
    /// The body of the fresh answer, if it is to be remembered.
    body: Option<Vec<u8>>,
    /// The booking that its answer is about, if any.
    about: Option<BookingId>,
    /// What the audit records of it, and the status of its answer.
    recorded: Option<(AuditRecord, Option<u16>)>,
}

enum Decided<R> {
    Fresh(R),
    Replayed(Arc<[u8]>),
    Same(usize),
}

/// Prepares a command for the queue. The receiver yields its outcome once it is durable.
pub(super) fn queued<R: Send + 'static>(
    asked: Envelope<R>,
) -> (Box<dyn Queued>, oneshot::Receiver<CommandOutcome<R>>) {
    let (waiter, receiver) = oneshot::channel();
    let job = Job {
        asked,
        waiter,
        decided: None,
        body: None,
        about: None,
        recorded: None,
    };
    (Box::new(job), receiver)
}

/// The booking whose values the answer of a command with this change may hold.
fn about(batch: &BatchState, change: &Change) -> Option<BookingId> {
    match change {
        Change::Entry(entry) => entry.booking_id,
        Change::ShareAdded(share) | Change::ShareChanged(share) => Some(share.share.booking_id),
        Change::HoldWritten(stored) => Some(stored.hold.booking_id),
        Change::EventRetried(event_id, _) => batch.events.get(event_id)?.booking_id,
        _ => None,
    }
}

impl<R: 'static> Job<R> {
    /// The booking whose values an answer to be remembered may hold although it changed nothing.
    fn needed(&self) -> Option<BookingId> {
        self.asked.remember.as_ref()?;
        let mut needs = Needs::default();
        self.asked.command.needs(&mut needs);
        let needed = needs.bookings.first().copied();
        needed.or_else(|| self.asked.command.remembered_with())
    }
}

impl<R: Send + 'static> Queued for Job<R> {
    fn needs(&self, needs: &mut Needs) {
        needs.now = needs.now.max(self.asked.at);
        let remember = self.asked.remember.as_ref();
        needs.answers.extend(remember.map(|remember| remember.key));
        let changing = self.asked.changing();
        needs
            .changing
            .extend(changing.map(|partner_id| (partner_id, day(self.asked.at))));
        needs.partners.extend(self.asked.asked_by);
        self.asked.command.needs(needs);
    }

    fn decide(&mut self, batch: &mut BatchState, index: usize, changes: &mut Vec<Change>) {
        // An earlier try, which was not kept, may have left something.
        (self.decided, self.body, self.about, self.recorded) = (None, None, None, None);
        let decided = decide(batch, &self.asked).map(|decision| match decision {
            Decision::Do {
                changes: mut caused,
                reply,
            } => {
                // A command that changes nothing is not recorded.
                let audit = self.asked.audit.as_ref().filter(|_| !caused.is_empty());
                if let Some(audit) = audit {
                    let mut record = audit.record(&reply);
                    if let Some(earlier) = batch.recorded.get(&record.at) {
                        record.follow(earlier);
                    }
                    self.recorded = Some((record.clone(), audit.status));
                    caused.push(Change::Recorded(Box::new(record)));
                }
                let told = caused.iter().find_map(|change| about(batch, change));
                self.about = told.or_else(|| self.needed());
                caused.iter().for_each(|change| batch.apply(change));
                changes.extend(caused);
                if let Some(remember) = &self.asked.remember {
                    let pending = RememberedAnswer::Pending {
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
            booking_id: self.about,
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

    fn tells_a_caller(&self) -> bool {
        self.asked.has_caller() && matches!(self.decided, Some(Ok(_)))
    }

    fn is_probe(&self) -> bool {
        self.asked.command.is_probe()
    }

    fn answer(self: Box<Self>, refused: Option<&Error>) {
        if let (None, Some((record, status))) = (refused, &self.recorded) {
            tell(record, *status);
        }
        let undecided = || Error::internal("a command was answered before it was decided");
        let outcome = match (refused, self.decided) {
            (Some(refused), _) => Err(refused.clone()),
            (None, Some(Ok(Decided::Fresh(reply)))) => Ok(Written::Fresh(reply)),
            (None, Some(Ok(Decided::Replayed(body)))) => Ok(Written::Replayed(body)),
            (None, Some(Err(refusal))) => Err(refusal),
            (None, Some(Ok(Decided::Same(_))) | None) => Err(undecided()),
        };
        // If the caller went away, the command takes effect all the same.
        let _ = self.waiter.send(outcome);
    }
}

/// Logs what was done with an operator key: ids alone, because names and bodies may be somebody's secrets. What was done on the
/// database itself was done by another process, which has told its caller.
fn tell(record: &AuditRecord, status: Option<u16>) {
    if record.actor.kind != AuditActorKind::OperatorKey {
        return;
    }
    let AuditRecord {
        audit_id, action, ..
    } = record;
    let key = record.actor.key_id.as_deref().unwrap_or_default();
    let partner_id = record.partner_id.map(|id| id.to_string());
    let of = partner_id
        .as_ref()
        .map_or_else(String::new, |id| format!(" for partner {id}"));
    tracing::info!(
        action,
        partner_id,
        audit_id = %audit_id,
        operator_key_id = key,
        status,
        "operator key {key} did {action}{of}; the audit has it as {audit_id}"
    );
}
