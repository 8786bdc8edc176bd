//! The rulebook: what each command causes, or why it is refused. Pure: no clock, no dice, no I/O.
//!
//! A refused command yields no change at all, so it never disturbs its neighbours in a batch.

mod acceptances;
mod amendments;
mod bookings;
mod cancellation;
mod chain;
mod endpoints;
mod health;
mod log;
mod partners;
mod policies;
mod quotas;
mod recovery;
mod retention;
#[cfg(test)]
mod tests;
mod webhooks;

use std::sync::Arc;

pub(crate) use recovery::endpoint_unknown;

use crate::change::Change;
use crate::command::{Ask, Command, Reply};
use crate::error::{Error, Kind};
use crate::limits;
use crate::work::{Prior, Work};

/// What becomes of one accepted command.
#[derive(Debug)]
pub enum Decision {
    /// It causes changes (or none, when it asks for what is so already).
    Do {
        /// The changes, in order.
        changes: Vec<Change>,
        /// The answer.
        reply: Reply,
    },
    /// The answer remembered from an earlier batch.
    Replay(Arc<[u8]>),
    /// The same answer as an earlier command of this batch.
    Same(usize),
}

/// Decides `command`, the batch's number `index`, on the state in `work`.
///
/// Errors: every refusal the command can meet, by its stable code, `idempotency_key_reused`, `storage_low`, and
/// `ledger_rolled_back`.
pub fn decide(work: &Work, command: &Command, index: usize) -> Result<Decision, Error> {
    // Not even a remembered answer: it may be one of those whose facts are lost.
    if work.rollback.is_some() && !matches!(command.ask, Ask::ContinueLog(_)) {
        return Err(Error::ledger_rolled_back());
    }
    if let Some(remember) = &command.remember
        && let Some(prior) = work.prior.get(&remember.key)
    {
        let (request, decision) = match prior {
            Prior::Stored { request, answer } => (request, Decision::Replay(answer.clone())),
            Prior::Pending { request, command } => (request, Decision::Same(*command)),
        };
        return if *request == remember.request {
            Ok(decision)
        } else {
            Err(key_reused())
        };
    }
    if work.storage_low && brings_new(&command.ask) {
        return Err(Error::storage_low());
    }
    let (changes, reply) = decide_ask(work, command, index)?;
    Ok(Decision::Do { changes, reply })
}

/// Whether it takes in something that was not there: what little room is left is kept for bookings that are, their protection,
/// changes, cancellations and deliveries, and for keys and secrets that have to be replaced.
fn brings_new(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::RegisterPartner { .. }
            | Ask::CreateBooking(_)
            | Ask::PutPolicy { .. }
            | Ask::CreateEndpoint { .. }
            | Ask::BeginRecovery { .. }
    )
}

fn key_reused() -> Error {
    Error::new(
        Kind::KeyReused,
        "idempotency_key_reused",
        "This Idempotency-Key was used with another request in the last 24 hours. Send a new key, or exactly the first request again.",
    )
}

/// The changes and the answer, or the refusal.
type Decided = Result<(Vec<Change>, Reply), Error>;

fn decide_ask(work: &Work, command: &Command, index: usize) -> Decided {
    let at = command.at;
    match &command.ask {
        Ask::RegisterPartner {
            partner,
            secret,
            key,
            reply,
        } => Ok(partners::register(partner, secret, key.as_ref(), reply)),
        Ask::ApprovePartner {
            partner_id,
            key,
            reply,
        } => partners::approve(work, *partner_id, key, reply),
        Ask::SetQuota {
            partner_id,
            changes,
        } => quotas::set(work, at, *partner_id, changes),
        Ask::CreateApiKey {
            partner_id,
            key,
            reply,
        } => partners::create_key(work, *partner_id, key, reply),
        Ask::RevokeApiKey {
            partner_id,
            api_key_id,
            by,
        } => partners::revoke_key(work, at, *partner_id, *api_key_id, by.as_ref()),
        Ask::CreateBooking(new) => bookings::create(work, at, new, index),
        Ask::Protect {
            partner_id,
            booking_id,
            event_id,
            lease,
            seed,
            evidence_url,
        } => {
            let event = bookings::ProtectedEvent {
                event_id: *event_id,
                lease: *lease,
                evidence_url,
            };
            bookings::protect(work, at, *partner_id, *booking_id, &event, seed)
        }
        Ask::PutPolicy {
            partner_id,
            policy,
            version_said,
        } => policies::put(work, at, *partner_id, policy, *version_said),
        Ask::UpdatePartner { partner_id, update } => {
            policies::decide(work, at, *partner_id, update)
        }
        Ask::Reschedule(reschedule) => amendments::reschedule(work, at, reschedule),
        Ask::Accept(accept) => acceptances::accept(work, at, accept),
        Ask::Cancel(cancel) => cancellation::cancel(work, at, cancel),
        Ask::Decide(decide) => cancellation::decide(work, at, decide),
        Ask::CreateEndpoint {
            partner_id,
            endpoint,
            secret,
        } => endpoints::create(work, *partner_id, endpoint, secret.as_ref()),
        Ask::UpdateEndpoint {
            partner_id,
            endpoint_id,
            update,
        } => endpoints::update(work, at, *partner_id, *endpoint_id, update),
        Ask::DeleteEndpoint {
            partner_id,
            endpoint_id,
        } => endpoints::delete(work, at, *partner_id, *endpoint_id),
        Ask::TestEndpoint {
            partner_id,
            endpoint_id,
        } => endpoints::test(work, at, *partner_id, *endpoint_id),
        Ask::RotateSecret {
            partner_id,
            endpoint_id,
            secret,
            overlap_ms,
        } => endpoints::rotate_secret(work, at, *partner_id, *endpoint_id, secret, *overlap_ms),
        Ask::RetryEvent {
            partner_id,
            event_id,
            lease,
        } => webhooks::retry(work, at, *partner_id, *event_id, *lease),
        Ask::BeginRecovery {
            partner_id,
            recovery,
        } => recovery::begin(work, at, *partner_id, recovery),
        Ask::GoOnRecovering {
            partner_id,
            recovery_id,
            after,
        } => {
            let changes = recovery::go_on(work, at, *partner_id, *recovery_id, *after);
            Ok((changes, Reply::Done))
        }
        Ask::Claim { lease, endpoints } => {
            Ok((webhooks::claim(work, at, *lease, endpoints), Reply::Done))
        }
        Ask::Release { held } => Ok((webhooks::release(work, at, held), Reply::Done)),
        Ask::Reclaim { from } => Ok((webhooks::reclaim(work, at, *from), Reply::Done)),
        Ask::Settle {
            event_id,
            endpoint_id,
            lease,
            number,
            attempt,
            jitter,
            booking_id,
            fact,
        } => {
            let settled = webhooks::Settled {
                name: (*event_id, *endpoint_id),
                lease: *lease,
                number: *number,
                attempt,
                booking_id: *booking_id,
                fact,
            };
            webhooks::settle(work, at, &settled, *jitter)
        }
        Ask::Prune(prune) => retention::prune(work, at, prune),
        Ask::Amend { key, answer } => Ok((
            vec![Change::AnswerAmended {
                key: *key,
                answer: answer.clone(),
            }],
            Reply::Done,
        )),
        Ask::Forget => {
            let before = at.plus_ms(-limits::IDEMPOTENCY_TTL_MS);
            Ok((vec![Change::AnswersForgotten { before }], Reply::Done))
        }
        Ask::Probe => Ok((vec![Change::WriteTried], Reply::Done)),
        Ask::ContinueLog(new) => log::go_on(work, at, new),
    }
}
