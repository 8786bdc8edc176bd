//! Decides a command on the state of its batch: the changes it causes, or why it is refused. Pure: no clock, no
//! randomness, no I/O.
//!
//! A refused command yields no changes, so it never disturbs its neighbours in a batch.

use std::sync::Arc;

use crate::engine::batch::{BatchState, RememberedAnswer};
use crate::engine::change::Change;
use crate::engine::command::Envelope;
use crate::error::{Error, Kind};

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
/// The stable code of every refusal of the command, and `idempotency_key_reused`, `storage_low` and
/// `ledger_rolled_back`.
pub fn decide<R: 'static>(batch: &BatchState, asked: &Envelope<R>) -> Result<Decision<R>, Error> {
    let command = &*asked.command;
    // Not even a remembered answer is returned: its facts may be among those that are lost.
    if batch.rollback.is_some() && !command.mends_rollback() {
        return Err(Error::ledger_rolled_back());
    }
    if let Some(remember) = &asked.remember
        && let Some(prior) = batch.prior.get(&remember.key)
    {
        let (request, decision) = match prior {
            RememberedAnswer::Stored { request, answer } => {
                (request, Decision::Replay(answer.clone()))
            }
            RememberedAnswer::Pending { request, command } => (request, Decision::Same(*command)),
        };
        return if *request == remember.request {
            Ok(decision)
        } else {
            Err(key_reused())
        };
    }
    if batch.storage_low && command.brings_new() {
        return Err(Error::storage_low());
    }
    let (changes, reply) = command.decide(batch, asked.at)?;
    Ok(Decision::Do { changes, reply })
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
