//! The log itself: after a loss was accepted it goes on under a new name, and its first entry under it says so.

use std::sync::Arc;

use super::Decided;
use super::bookings::{Chain, salts};
use crate::change::Change;
use crate::command::{NewLog, Reply};
use crate::error::Error;
use crate::evidence::facts::Fact;
use crate::ledger::{Hash, LeafKind};
use crate::log::{Continuation, Found};
use crate::model::Timestamp;
use crate::work::Work;

/// Errors: `nothing_to_accept`, `rollback_changed`.
pub(super) fn go_on(work: &Work, at: Timestamp, new: &NewLog) -> Decided {
    let Some(rollback) = &work.rollback else {
        return Err(Error::conflict(
            "nothing_to_accept",
            format!(
                "There is no loss to accept: log {} holds all that was published of it.",
                work.origin
            ),
        ));
    };
    if *rollback != new.accepted {
        return Err(Error::conflict(
            "rollback_changed",
            format!(
                "The database changed since the loss was looked at: now {rollback}. Look again before you accept."
            ),
        ));
    }
    let continuation = Continuation {
        origin: new.origin.clone(),
        vkey: new.vkey.clone(),
        found: Found {
            head: rollback.found.clone(),
            vkey: work.vkey.clone(),
        },
        seen: rollback.seen.clone(),
        at,
    };
    let fact = Fact::seal(
        LeafKind::LogContinued,
        continuation.fields(),
        salts(new.seed),
    )?;
    let chain = Chain {
        booking_id: None,
        stream: new.stream,
        seq: 0,
        prev: Hash::ZERO,
    };
    let changes = vec![
        Change::Entry(Box::new(chain.link(work.size, at, Arc::new(fact))?)),
        Change::LogRenamed {
            origin: new.origin.clone(),
            vkey: new.vkey.clone(),
        },
    ];
    Ok((changes, Reply::LogContinued(Box::new(continuation))))
}
