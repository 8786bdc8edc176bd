//! Decides a command on the state of its batch: the changes it causes, or why it is refused. Pure: no clock, no
//! randomness, no I/O.
//!
//! A refused command yields no changes, so it never disturbs its neighbours in a batch.

use std::sync::Arc;

use crate::engine::batch::{BatchState, RememberedAnswer};
use crate::engine::change::Change;
use crate::engine::command::Envelope;
use crate::error::{Error, Kind, conflict};
use crate::model::{PartnerStatus, Timestamp, day, day_begins};

/// The decision on an accepted command.
#[derive(Debug)]
pub enum Decision<R> {
    /// It causes changes, or none if the requested state holds already.
    Do {
        /// The changes, in order.
        changes: Vec<Change>,
        /// The answer.
        reply: R,
    },
    /// The answer remembered from an earlier batch.
    Replay(Arc<[u8]>),
    /// The same answer as an earlier command of this batch.
    Same(usize),
}

/// Decides a command on the state of its batch.
///
/// # Errors
/// The stable code of every refusal of the command, and `idempotency_key_reused`, `answer_erased`, `partner_suspended`, `storage_low`, `quota_exceeded` and
/// `ledger_rolled_back`.
pub fn decide<R: 'static>(batch: &BatchState, asked: &Envelope<R>) -> Result<Decision<R>, Error> {
    let command = &*asked.command;
    // Not even a remembered answer is returned: its facts may be among those that are lost.
    if batch.rollback.is_some() && !command.is_for_rollback() {
        return Err(Error::ledger_rolled_back());
    }
    if let Some(remember) = &asked.remember
        && let Some(prior) = batch.prior.get(&remember.key)
    {
        let (request, decision) = match prior {
            RememberedAnswer::Stored { request, answer } => {
                (request, Ok(Decision::Replay(answer.clone())))
            }
            RememberedAnswer::Pending { request, command } => {
                (request, Ok(Decision::Same(*command)))
            }
            RememberedAnswer::Erased { request } => (request, Err(answer_erased())),
        };
        return if *request == remember.request {
            decision
        } else {
            Err(key_reused())
        };
    }
    // The key may have been accepted from a cache that does not know this yet.
    let asker = asked.asked_by.and_then(|asker| batch.partners.get(&asker));
    if asker.is_some_and(|asker| asker.partner.status == PartnerStatus::Suspended) {
        return Err(Error::partner_suspended());
    }
    let (changes, reply) = command.decide(batch, asked.at)?;
    // A repeat that changes nothing gets its answer.
    if batch.storage_low && command.brings_new() && !changes.is_empty() {
        return Err(Error::storage_low());
    }
    let is_change = !changes.is_empty() && !command.only_ends();
    if let Some(partner_id) = asked.changing().filter(|_| is_change)
        && batch.changes.get(&partner_id).copied().unwrap_or(0) >= command.refused_from()
    {
        return Err(too_many_changes(asked.at, command.refused_from()));
    }
    Ok(Decision::Do { changes, reply })
}

fn too_many_changes(at: Timestamp, most: u64) -> Error {
    conflict!(
        "quota_exceeded",
        "The partner has changed keys, secrets, endpoints, policies, settings, legal holds and invitations {most} times today, which \
         is the most for a change of this kind. Nothing was written. Keys can still be revoked, endpoints deleted and holds \
         released. The next day begins at {}; or ask the service's operator to make the change.",
        day_begins(day(at) + 1)
    )
}

fn answer_erased() -> Error {
    Error::conflict(
        "answer_erased",
        "This request was carried out under this Idempotency-Key, and was not carried out again. Its answer is gone, because values of \
         the booking were erased since. Read the booking to see what it is now.",
    )
}

fn key_reused() -> Error {
    Error::new(
        Kind::KeyReused,
        "idempotency_key_reused",
        "This Idempotency-Key was used with another request in the last 24 hours. Send a new key, or repeat the first request \
         exactly.",
    )
}

#[cfg(test)]
mod tests;
